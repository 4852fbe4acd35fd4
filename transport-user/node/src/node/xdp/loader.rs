//! Loads the BPF object and attaches it to an interface.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use aya::maps::{MapData, ProgramArray, Stack, loaded_maps};
use aya::programs::{ProgramError, Xdp, loaded_programs};
use aya::{Ebpf, EbpfError, EbpfLoader, Pod};
use bpf_call::XdpPlace;
use nix::sys::resource::{Resource, setrlimit};
use tiercel::Error;
use tiercel::backend::{Maps, memory};
use transport_common::ids::CellId;
use transport_common::queues::{BANK_BYTES, CELLS, NodeConfig};

use super::attach_mode::AttachMode;
use super::object::{NoticeRing, Rings, borrowed, make_maps, take_instruments, typed};
use crate::node::error::{NodeError, XdpMode};
use crate::node::instruments::Instruments;
use crate::node::interface::netlink::{Interface, Netlink, XdpState};
use crate::node::interface::receive_queues::ReceiveQueues;
use crate::node::xdp::attach_mode::{flags, is_native_veth};
use crate::node::xdp::bound_program::{Bound, BoundLink};
use crate::node::xdp::bpf_log::BpfLog;
use crate::node::xdp::kernel;
use crate::node::xdp::programs::{ATTACHED, ENGINE, EXCHANGE, PLAIN, RECORDING, REDELIVER, WIRE};
use crate::node::xdp::refusal::Reason;
use crate::node::xdp::transmit::{self, CurrentWay, Transmit, TransmitPath};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tiercel-ebpf"));

/// Index of the engine program in the program array.
const FIRST: u32 = 0;
/// Index of the redelivery program in the program array.
const SECOND: u32 = 1;

/// Plain data of a type for which aya's [`Pod`] can be implemented here.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Plain<T>(T);

// SAFETY: `T` is plain data by bytemuck's definition: any bytes are valid, and none is padding.
unsafe impl<T: bytemuck::Pod> Pod for Plain<T> {}

/// The programs in the kernel, before they are attached.
pub(crate) struct Loaded {
    object: Ebpf,
    /// The program that is attached instead of the wire program, if any.
    bound: Option<Bound>,
    log: Option<BpfLog>,
    /// The node's maps.
    pub(crate) maps: Maps,
    /// What the node counts and measures.
    pub(crate) instruments: Instruments,
    /// The rings by which the programs wake threads of the node.
    pub(crate) rings: Rings,
}

/// The attachment to the interface. Dropping it detaches the program. The kernel does the same when the process
/// dies, because nothing is pinned.
#[derive(Debug)]
pub(crate) struct Attachment {
    link: Link,
    /// Keeps the internal maps and programs alive.
    object: Ebpf,
    log: Option<BpfLog>,
    /// Whether the recording programs are attached.
    recording: bool,
    /// Index of the interface.
    interface: u32,
    mode: AttachMode,
    /// The receive queues of a veth on which the program runs, if they matter.
    queues: Option<ReceiveQueues>,
    transmit: TransmitPath,
}

impl Attachment {
    /// Replaces the plain programs by the recording programs, or the other way round. The first call loads the
    /// recording programs, which takes a second or two.
    pub(crate) fn record(&mut self, on: bool) -> Result<(), NodeError> {
        if on == self.recording {
            return if on { Err(NodeError::TraceRunning) } else { Ok(()) };
        }
        if matches!(self.link, Link::Bound(_)) {
            return Err(NodeError::TraceWithTimestamps);
        }
        let (from, to) = if on { (PLAIN, RECORDING) } else { (RECORDING, PLAIN) };
        load_all(&mut self.object, &to)?;
        self.hand_over_to(to)?;
        let replaced = self.replace_attached(to[0]);
        match replaced {
            Ok(()) => self.recording = on,
            Err(_) => self.hand_over_to(from)?,
        }
        replaced
    }

    /// Makes the wire program tail-call the engine and redelivery programs of this set.
    fn hand_over_to(&mut self, set: [&'static str; 3]) -> Result<(), NodeError> {
        for (place, name) in [(FIRST, set[1]), (SECOND, set[2])] {
            let fd = program(&mut self.object, name)?.fd().map_err(program_error)?;
            let fd = fd.try_clone().map_err(|e| NodeError::system("duplicate a program's descriptor", e))?;
            let mut programs: ProgramArray<&mut MapData> = borrowed(&mut self.object, "PROGRAMS")?;
            programs.set(place, &fd, 0).map_err(fill_error)?;
        }
        Ok(())
    }

    fn replace_attached(&mut self, to: &'static str) -> Result<(), NodeError> {
        let new = program(&mut self.object, to)?.fd().map_err(program_error)?.as_fd();
        let replaced = bpf_call::replace_in_link(self.link.descriptor(), new);
        replaced.map_err(|error| {
            let gone = error.raw_os_error() == Some(libc::ENOLINK);
            let error =
                if gone { io::Error::other("the node's program is no longer attached") } else { error };
            NodeError::system("replace the attached program", error)
        })
    }

    /// Attaches the program again if a veth may have new receive queues. Returns their numbers before and now. `name` is that of
    /// the interface now. The calling thread is in its network namespace.
    pub(crate) fn follow_queues(&mut self, name: &str) -> Result<Option<(u32, u32)>, NodeError> {
        let Some(newer) = self.queues.as_mut().and_then(|queues| queues.newer(name)) else { return Ok(None) };
        let failed = |error| NodeError::system("attach the node's program to new receive queues", error);
        let (index, mode) = (self.interface, flags(self.mode));
        // The kernel does nothing when a program replaces itself. If attaching fails, the next look finds the program detached,
        // and the node goes down with that reason.
        bpf_call::detach_link(self.link.descriptor()).map_err(failed)?;
        match &mut self.link {
            Link::Wire(link) => {
                let name = if self.recording { RECORDING[0] } else { WIRE };
                let wire = program(&mut self.object, name)?.fd().map_err(program_error)?.as_fd();
                *link = bpf_call::link_xdp(wire, index, mode).map_err(failed)?;
            }
            Link::Bound(bound) => {
                bound.link = bpf_call::link_xdp(bound.program.as_fd(), index, mode).map_err(failed)?;
            }
        }
        Ok(Some(newer))
    }

    /// Lets frames leave in the way that the driver has now; true if that is another than before. The calling thread is
    /// in the interface's network namespace.
    pub(crate) fn choose_transmit(&mut self) -> Result<bool, NodeError> {
        self.transmit.choose(&mut self.object)
    }

    /// The way in which frames leave.
    pub(crate) fn transmit(&self) -> CurrentWay {
        self.transmit.way().clone()
    }

    /// Writes the log entries of the XDP programs to the node's log.
    pub(crate) fn pass_on_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.pass_on();
        }
    }

    /// Returns whether a program of this node is still attached to the interface.
    pub(crate) fn is_in_place(&self) -> io::Result<bool> {
        bpf_call::xdp_place(self.link.descriptor()).map(|place| place.is_some())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // To close the descriptor is not enough: a process that the application forks has a copy of it, until it executes
        // another program.
        if let Err(error) = bpf_call::detach_link(self.link.descriptor()) {
            tracing::warn!(%error, "cannot detach the node's program");
        }
    }
}

#[derive(Debug)]
enum Link {
    /// The link of the wire program.
    Wire(OwnedFd),
    /// The link of the program that is bound to the interface.
    Bound(BoundLink),
}

impl Link {
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Wire(link) => link.as_fd(),
            Self::Bound(bound) => bound.link.as_fd(),
        }
    }
}

impl Loaded {
    /// Loads the programs for a node with `config` and fills the internal maps. With `bound`, also loads a program
    /// for the interface that reads receive timestamps from the driver.
    ///
    /// # Errors
    /// [`NodeError::Bind`] if that additional program does not load.
    pub(crate) fn load(config: NodeConfig, bound: bool, log: bool) -> Result<Self, NodeError> {
        raise_memory_limit();
        kernel::check()?;
        warn_of_preemption();
        memory::check_available(config.memory)?;
        let banks = config.memory as usize / BANK_BYTES;
        let config = Plain(config);
        let mut loader = EbpfLoader::new();
        loader.map_max_entries("MEMORY", banks as u32);
        loader.override_global("NODE_CONFIG", &config, true);
        let level = if log { u8::MAX } else { 0 };
        loader.override_global("AYA_LOG_LEVEL", &level, false);
        let mut object = loader.load(OBJECT).map_err(|error| load_error(error, config.0.memory))?;
        load_all(&mut object, &[ENGINE, WIRE, REDELIVER, EXCHANGE])?;
        let clone = |object: &mut Ebpf, name| {
            let fd = program(object, name)?.fd().map_err(program_error)?;
            fd.try_clone().map_err(|error| program_error(error.into()))
        };
        let (engine, redeliver) = (clone(&mut object, ENGINE)?, clone(&mut object, REDELIVER)?);

        // The maps stay in the object: the kernel empties a program array when its last descriptor is closed.
        let mut programs: ProgramArray<&mut MapData> = borrowed(&mut object, "PROGRAMS")?;
        programs.set(FIRST, &engine, 0).map_err(fill_error)?;
        programs.set(SECOND, &redeliver, 0).map_err(fill_error)?;
        transmit::set_port(&mut object, config.0.interface_index)?;
        transmit::count_failures(&mut object)?;
        let mut cells: Stack<&mut MapData, u32> = borrowed(&mut object, "CELL_STACK")?;
        for cell in (0..CELLS as u32).map(CellId::at) {
            cells.push(cell.0, 0).map_err(fill_error)?;
        }
        let bound = match bound {
            true => {
                let wire = descriptor(&mut object, WIRE)?;
                let index = config.0.interface_index;
                Some(Bound::load(OBJECT, &object, wire.as_fd(), index).map_err(NodeError::Bind)?)
            }
            false => None,
        };
        let log = if log { Some(BpfLog::listen(&mut object)?) } else { None };
        let exchange = descriptor(&mut object, EXCHANGE)?;
        let maps = make_maps(&mut object, exchange, banks)?;
        let instruments = take_instruments(&mut object)?;
        let notices = NoticeRing(typed(&mut object, "NOTICES")?);
        let rings = Rings { wake: typed(&mut object, "WAKE")?, notices };
        Ok(Self { object, bound, log, maps, instruments, rings })
    }

    /// Returns a descriptor of the wire program, for the engine's test runs.
    pub(crate) fn wire(&mut self) -> Result<OwnedFd, NodeError> {
        descriptor(&mut self.object, WIRE)
    }

    /// Returns the object and the maps of a node that is not attached to an interface.
    #[cfg(test)]
    pub(crate) fn unattached(self) -> (Ebpf, Maps) {
        (self.object, self.maps)
    }

    /// Attaches the wire program, or the program that was loaded for the interface instead of it.
    /// Frames leave by `transmit`, or, with `None`, in the way that the driver supports.
    pub(crate) fn attach(
        mut self,
        interface: &Interface,
        mode: AttachMode,
        transmit: Option<Transmit>,
    ) -> Result<(Attachment, (Maps, Instruments), Rings), NodeError> {
        let failed = |error: io::Error| attach_error(interface, mode, &error);
        // They are counted before the program is attached, so none is missed that comes later.
        let veth = is_native_veth(mode, interface);
        let queues = if veth { ReceiveQueues::of(&interface.name, interface.index) } else { None };
        let link = match self.bound.take() {
            Some(bound) => Link::Bound(bound.attach(interface.index).map_err(failed)?),
            None => {
                // aya's links give no descriptor by which the attachment could be watched, so aya is not used
                // here.
                let wire = program(&mut self.object, WIRE)?.fd().map_err(program_error)?.as_fd();
                let refused = |error| Reason::ask(interface, wire, flags(mode)).explain(failed(error));
                Link::Wire(bpf_call::link_xdp(wire, interface.index, flags(mode)).map_err(refused)?)
            }
        };
        let transmit = TransmitPath::new(interface, mode, transmit);
        let mut attachment = Attachment {
            link,
            object: self.object,
            log: self.log,
            recording: false,
            interface: interface.index,
            mode,
            queues,
            transmit,
        };
        attachment.choose_transmit()?;
        Ok((attachment, (self.maps, self.instruments), self.rings))
    }
}

fn fill_error(error: impl std::error::Error + Send + Sync + 'static) -> NodeError {
    NodeError::system("fill the datapath's maps", io::Error::other(error))
}

/// Raises the limit of locked memory. Kernels before 5.11 count maps against it. Later kernels ignore it, so a
/// failure may not matter.
fn raise_memory_limit() {
    if let Err(error) = setrlimit(Resource::RLIMIT_MEMLOCK, libc::RLIM_INFINITY, libc::RLIM_INFINITY) {
        tracing::debug!(%error, "cannot raise the limit of locked memory");
    }
}

/// Warns if the kernel has PREEMPT_RT. There, the holder of a connection's lock can be preempted by a program that
/// waits for the same lock.
fn warn_of_preemption() {
    let realtime = std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    if realtime {
        tracing::warn!(
            "this kernel has PREEMPT_RT: packets may be dropped because a connection's lock is not free in time (see lock_timeout \
             in stats); use a kernel without PREEMPT_RT"
        );
    }
}

fn program<'a>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Xdp, NodeError> {
    let program = object.program_mut(name).ok_or(NodeError::Object(name))?;
    program.try_into().map_err(|_| NodeError::Object(name))
}

/// Loads the programs that are not loaded yet, at the same time: the kernel's verifier takes about a second for the large ones,
/// and one CPU for each.
fn load_all(object: &mut Ebpf, names: &[&'static str]) -> Result<(), NodeError> {
    for name in names {
        program(object, name)?; // it is there, and of this type
    }
    let wanted = object.programs_mut().filter(|(name, _)| names.contains(name));
    let wanted = wanted.filter_map(|(_, program)| <&mut Xdp>::try_from(program).ok());
    let wanted: Vec<_> = wanted.filter(|program| program.fd().is_err()).collect();
    thread::scope(|scope| {
        let loading: Vec<_> = wanted.into_iter().map(|program| scope.spawn(|| program.load())).collect();
        let ended = loading.into_iter().map(|load| load.join().expect("loading does not panic"));
        ended.collect::<Result<Vec<_>, _>>().map(drop).map_err(program_error)
    })
}

/// Returns a descriptor of a loaded program.
fn descriptor(object: &mut Ebpf, name: &'static str) -> Result<OwnedFd, NodeError> {
    let fd = program(object, name)?.fd().map_err(program_error)?;
    fd.as_fd().try_clone_to_owned().map_err(|e| NodeError::system("duplicate a program's descriptor", e))
}

/// Returns the id of the node's program that is attached to an interface, if there is one.
pub(crate) fn of_node(interface: &Interface) -> Option<u32> {
    interface.xdp.map(|there| there.id).filter(|id| describe(*id).1)
}

/// Makes sure that the interface has no XDP program. With `force`, detaches the program that is there.
pub(crate) fn clear(netlink: &Netlink, interface: &Interface, force: bool) -> Result<(), NodeError> {
    let Some(there) = interface.xdp else { return Ok(()) };
    let (name, ours) = describe(there.id);
    if !force {
        let (interface, id) = (interface.name.clone(), there.id);
        let mode = mode_of(there);
        return Err(match ours {
            true => NodeError::NodeRunning { interface, id },
            false => NodeError::XdpOccupied { interface, id, name, mode },
        });
    }
    let failed = |error| NodeError::system("detach the interface's XDP program", error);
    if !bpf_call::detach_xdp_link(XdpPlace { interface: interface.index, program: there.id })
        .map_err(failed)?
    {
        netlink.detach_xdp(interface.index, there.mode).map_err(failed)?;
    }
    tracing::warn!(interface = interface.name, id = there.id, name, "replaced the interface's XDP program");
    Ok(())
}

fn mode_of(there: XdpState) -> XdpMode {
    use netlink_packet_route::link::XdpAttached;
    match there.mode {
        XdpAttached::Driver => XdpMode::Native,
        XdpAttached::SocketBuffer => XdpMode::Generic,
        XdpAttached::Hardware => XdpMode::Offloaded,
        _ => XdpMode::Several,
    }
}

/// Returns the name of a program, and whether a Tiercel node attached it.
fn describe(id: u32) -> (String, bool) {
    let Some(info) = loaded_programs().flatten().find(|info| info.id() == id) else {
        return ("unknown".to_owned(), false);
    };
    let name = info.name_as_str().unwrap_or("unnamed").to_owned();
    let maps = info.map_ids().ok().flatten().unwrap_or_default();
    let queues =
        |map: &aya::maps::MapInfo| maps.contains(&map.id()) && map.name_as_str() == Some("QUEUE_PAIRS");
    let ours = ATTACHED.contains(&name.as_str()) && loaded_maps().flatten().any(|map| queues(&map));
    (name, ours)
}

fn load_error(error: EbpfError, memory: u64) -> NodeError {
    match errno(&error) {
        Some(libc::ENOMEM) => Error::NoNodeMemory { asked: memory, available: None }.into(),
        Some(code @ (libc::EPERM | libc::EACCES)) => loading_denied(code),
        _ => NodeError::Load { reason: chain(&error), source: error.into() },
    }
}

fn program_error(error: ProgramError) -> NodeError {
    match errno(&error) {
        Some(code @ libc::EPERM) => loading_denied(code),
        _ => {
            let reason = kernel::refused(&error).unwrap_or_else(|| chain(&error));
            NodeError::Load { reason, source: error.into() }
        }
    }
}

fn loading_denied(code: i32) -> NodeError {
    NodeError::not_permitted("load BPF programs", io::Error::from_raw_os_error(code))
}

fn attach_error(
    interface: &Interface,
    mode: AttachMode,
    error: &(dyn std::error::Error + 'static),
) -> NodeError {
    let code = errno(error);
    let hint = match (code, mode) {
        (Some(code @ libc::EPERM), _) => {
            return NodeError::not_permitted("attach an XDP program", io::Error::from_raw_os_error(code));
        }
        (Some(libc::EOPNOTSUPP), AttachMode::Native) => {
            "The driver does not support native XDP: attach in generic mode (--generic)"
        }
        (Some(libc::ERANGE | libc::EINVAL), AttachMode::Native) => {
            "For native XDP the driver needs a smaller MTU (on a veth pair, at both ends) or other offload settings: change \
             them, or attach in generic mode (--generic)"
        }
        (Some(libc::EBUSY | libc::EEXIST), _) => {
            "Another XDP program was attached in the meantime: detach it, or replace it with --force"
        }
        (Some(libc::ENODEV), _) => "The interface no longer exists: create it again",
        _ => "See the kernel's log (dmesg) for the driver's reason",
    };
    let source = code.map_or_else(|| io::Error::other(chain(error)), io::Error::from_raw_os_error);
    NodeError::Attach { interface: interface.name.clone(), mode, hint, source }
}

/// Returns the error number of the system call that caused `error`, if any.
fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(code);
        }
        next = error.source();
    }
    None
}

/// Returns the text of an error and of its causes. A cause whose text is already contained is left out.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::interface::netlink::tests::interface;

    fn refused(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    #[test]
    fn each_refusal_has_its_remedy() {
        let hint = |code, mode| match attach_error(&interface(), mode, &refused(code)) {
            NodeError::Attach { hint, source, .. } => {
                assert_eq!(source.raw_os_error(), Some(code));
                hint
            }
            other => panic!("{other}"),
        };
        assert!(hint(libc::EOPNOTSUPP, AttachMode::Native).contains("--generic"));
        assert!(hint(libc::ERANGE, AttachMode::Native).contains("--generic"));
        assert!(hint(libc::EBUSY, AttachMode::Generic).contains("--force"));
        let denied = attach_error(&interface(), AttachMode::Native, &refused(libc::EPERM));
        assert!(matches!(denied, NodeError::Library(Error::NotPermitted { .. })));
    }

    #[test]
    fn an_interface_without_a_program_is_clear() {
        let netlink = Netlink::open().expect("netlink needs no privilege");
        assert!(clear(&netlink, &interface(), false).is_ok());
    }

    #[test]
    fn a_program_that_is_not_ours_is_left_alone() {
        let netlink = Netlink::open().expect("netlink needs no privilege");
        let mut occupied = interface();
        let mode = netlink_packet_route::link::XdpAttached::SocketBuffer;
        occupied.xdp = Some(XdpState { id: u32::MAX, mode });
        let refused = clear(&netlink, &occupied, false).expect_err("occupied");
        assert!(
            matches!(refused, NodeError::XdpOccupied { id: u32::MAX, mode: XdpMode::Generic, .. }),
            "{refused}"
        );
    }
}
