//! A node: the datapath on one interface, with its connections and regions.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use tokio::sync;
use transport_common::counters::Counter;
use transport_common::datapath::{mac_word, words};
use transport_common::ids::{Cid, RKey};
use transport_common::queues::{CELLS, CONNECTIONS, NodeConfig, REGIONS};

use crate::cid::{CidReservation, Cids};
use crate::congestion::{Algorithm, AlgorithmChoice, Algorithms};
use crate::connection::Connection;
use crate::connections::{Connections, Core};
use crate::engine::{Engine, EngineOptions, EngineState, EngineStatus};
use crate::error::Error;
use crate::gro::GroOn;
use crate::info::{Access, ConnectionInfo, Device, RegionInfo};
use crate::loader::{self, AttachMode, Attachment, Loaded};
use crate::mac::Mac;
use crate::memory::POOL_BYTES;
use crate::netlink::{Interface, Netlink};
use crate::nic_time::DelayHistograms;
use crate::parameters::{LocalCid, OpenConnection};
use crate::poller::Poller;
use crate::rate_update::{RateUpdate, RateUpdateOptions, RateUpdateStatus};
use crate::receive_timestamps::{Plan, ReceiveTimestamps, Stamping};
use crate::region::{KeyChoice, MemoryRegion, Regions};
use crate::segmentation::{max_segment, smallest_mtu};
use crate::shared::Shared;
use crate::telemetry::{NodeStats, Pools};
use crate::trace::{TraceOptions, Tracing};
use crate::transmit::{CurrentWay, Transmit};
use crate::watch::{Lost, Watch, Watched};

/// Largest interface MTU for native XDP: a frame, its headroom and the kernel's bookkeeping share one page.
pub const NATIVE_MTU: u32 = 3498;

/// What a node is brought up with.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Interface, in the calling thread's network namespace.
    pub interface: String,
    /// Own address, IPv4 or IPv6.
    pub address: IpAddr,
    /// MTU to use, bytes; none for the interface's.
    pub mtu: Option<u32>,
    /// Native or generic.
    pub attach: AttachMode,
    /// Replace an XDP program that the interface already has.
    pub force: bool,
    /// Have frames leave in this way, whatever the driver takes: for tests.
    #[doc(hidden)]
    pub transmit: Option<Transmit>,
    /// Ask the driver for the card's receive timestamps. None does so where the driver has them and the card's clock can be
    /// compared with ours. True does so wherever the driver has them and refuses to come up elsewhere; what cannot be
    /// compared is counted and not used.
    pub hardware_timestamps: Option<bool>,
    /// Have the programs tell of rare events (packets refused, locks not had, exchanges), and pass it on as log records
    /// of target `bpf`, four times a second. Needs the cargo feature `bpf-log`.
    pub bpf_log: bool,
    /// The engine thread.
    pub engine: EngineOptions,
    /// The rate update engine in user space.
    pub rate_update: RateUpdateOptions,
    /// Algorithms that connections may choose by name, beside those that are registered later.
    pub algorithms: Algorithms,
}

impl NodeOptions {
    /// Native attachment, the interface's MTU, a sleeping engine; replaces nothing.
    pub fn new(interface: impl Into<String>, address: IpAddr) -> Self {
        Self {
            interface: interface.into(),
            address,
            mtu: None,
            attach: AttachMode::default(),
            force: false,
            transmit: None,
            hardware_timestamps: None,
            bpf_log: false,
            engine: EngineOptions::default(),
            rate_update: RateUpdateOptions::default(),
            algorithms: Algorithms::new(),
        }
    }
}

/// A running node; clones are the same node. It is down when the last clone is dropped, or at once by
/// [`Node::down`]; the kernel does the same when the process dies.
///
/// What a node takes of its process, beside memory and descriptors:
/// - Threads: engine, poller, and what watches the interface; a rate update engine in user space has one more.
/// - One real-time signal, for the engine threads of all nodes of the process: the kernel ends a live run early for
///   nothing but a signal. It is the highest that has no handler, or that of
///   [`EngineOptions::signal`](crate::EngineOptions::signal); it is given back when the last node is down. No other
///   signal is touched, and engine threads let no other in.
/// - `RLIMIT_MEMLOCK` is raised, for kernels that count BPF maps against it.
#[derive(Clone, Debug)]
pub struct Node {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: Device,
    attach: AttachMode,
    shared: Arc<Shared>,
    netlink: Netlink,
    cids: Arc<Cids>,
    connections: Arc<Connections>,
    regions: Arc<Regions>,
    /// None once the node is down.
    running: Mutex<Option<Running>>,
    watch: Watch,
    /// Why the node went down by itself.
    lost: sync::watch::Sender<Option<Lost>>,
}

/// What makes packets move. Fields are dropped in this order.
#[derive(Debug)]
struct Running {
    engine: Engine,
    attachment: Arc<Mutex<Attachment>>,
    transmit: CurrentWay,
    stamping: Stamping,
    /// On a veth in generic mode.
    _gro: Option<GroOn>,
}

impl Node {
    /// Loads the programs, attaches them and starts the engine.
    ///
    /// # Errors
    /// See [`Error`]; nothing is left behind then.
    pub fn up(options: NodeOptions) -> Result<Self, Error> {
        Self::up_after(options, |_| Ok(())).map(|(node, ())| node)
    }

    /// As [`Self::up`], with something else that may fail: it is done before any program is touched, so that a failure
    /// costs a node that is to be replaced nothing.
    pub(crate) fn up_after<T, E: From<Error>>(
        options: NodeOptions,
        prepare: impl FnOnce(&Device) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        options.engine.check()?;
        options.engine.check_cpu()?;
        let rate_update = RateUpdate::new(options.rate_update, options.algorithms.clone())?;
        let netlink = Netlink::open().map_err(|e| Error::system("open a netlink socket", e))?;
        let (interface, device) = inspect(&netlink, &options)?;
        if !options.force {
            loader::clear(&netlink, &interface, false)?;
        }
        let prepared = prepare(&device)?;
        let node = Self::attach(options, rate_update, netlink, &interface, device)?;
        Ok((node, prepared))
    }

    fn attach(
        options: NodeOptions,
        rate_update: RateUpdate,
        netlink: Netlink,
        interface: &Interface,
        device: Device,
    ) -> Result<Self, Error> {
        let mut plan = Plan::new(options.hardware_timestamps, options.attach, interface)?;
        let mut loaded = match Loaded::load(node_config(&device), plan.asks_driver(), options.bpf_log) {
            Err(Error::Bind(reason)) if options.hardware_timestamps.is_none() => {
                plan.give_up(reason);
                Loaded::load(node_config(&device), false, options.bpf_log)?
            }
            loaded => loaded?,
        };
        let wire = loaded.wire()?;
        // Late, so that a failure until here has taken nothing away.
        loader::clear(&netlink, interface, options.force)?;
        let veth = interface.kind.as_deref() == Some("veth");
        let gro =
            if veth && options.attach == AttachMode::Generic { GroOn::new(&interface.name)? } else { None };
        let (attachment, maps, wake) = loaded.attach(interface, options.attach, options.transmit)?;
        // One frame through the programs shows whether the kernel can do it at all.
        bpf_call::run_live(wire.as_fd(), 1, 1).map_err(Error::NoLiveFrames)?;
        if maps.node().frames.load(SeqCst) == 0 {
            return Err(Error::Object("engine program: the wire program does not reach it"));
        }
        let shared = Shared::new(maps, rate_update)?;
        let connections = Arc::new(Connections::default());
        let engine = Engine::start(options.engine, wire, wake, Arc::clone(&shared))?;
        Poller::start(&shared, &connections)?;
        let stamping = plan.start(&shared.maps);
        let node = Self {
            inner: Arc::new(Inner {
                device,
                attach: options.attach,
                shared,
                netlink,
                cids: Cids::new(),
                connections,
                regions: Regions::new(),
                running: Mutex::new(Some(Running {
                    engine,
                    transmit: attachment.transmit(),
                    attachment: Arc::new(Mutex::new(attachment)),
                    stamping,
                    _gro: gro,
                })),
                watch: Watch::default(),
                lost: sync::watch::Sender::new(None),
            }),
        };
        node.inner.shared.grace.start(Arc::downgrade(&node.inner.shared))?;
        node.inner.watch.start(Arc::downgrade(&node.inner))?;
        Ok(node)
    }

    /// Detaches the programs, stops the engine, ends all connections. Handles of connections and regions stay valid
    /// and answer that they are closed. Doing it twice does no harm.
    pub fn down(&self) {
        self.inner.down();
    }

    /// Comes back when the node went down by itself, and says why: its program was taken off the interface (by another
    /// node that was brought up by force, say), the interface is gone, or the engine has failed. A node that is brought
    /// down by [`Self::down`] is not lost.
    pub async fn lost(&self) -> Lost {
        let mut lost = self.inner.lost.subscribe();
        match lost.wait_for(Option::is_some).await.map(|lost| lost.clone()) {
            Ok(Some(lost)) => lost,
            // The sender lives as long as `self`, and what is waited for is there.
            _ => std::future::pending().await,
        }
    }

    /// The interface the node runs on.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Sets a CID aside, to be named to a peer before the connection is opened.
    ///
    /// # Errors
    /// [`Error::NoFreeCid`].
    pub fn reserve_cid(&self) -> Result<CidReservation, Error> {
        self.inner.cids.reserve()
    }

    /// Opens a connection with parameters both ends agreed on.
    ///
    /// # Errors
    /// [`Error::CidInUse`], [`Error::NoFreeCid`], [`Error::BadCid`], [`Error::Parameter`],
    /// [`Error::AddressFamily`], [`Error::OutOfMemory`], [`Error::NodeDown`], [`Error::System`];
    /// [`Error::CongestionParameter`], [`Error::AlgorithmPlacement`], [`Error::UnknownAlgorithm`].
    pub fn open(&self, mut open: OpenConnection) -> Result<Connection, Error> {
        let inner = &self.inner;
        if inner.shared.is_down() {
            return Err(Error::NodeDown);
        }
        let reservation = match std::mem::replace(&mut open.local_cid, LocalCid::Any) {
            LocalCid::Any => inner.cids.reserve()?,
            LocalCid::Given(cid) => inner.cids.reserve_given(cid)?,
            LocalCid::Reserved(reservation) if reservation.is_from(&inner.cids) => reservation,
            LocalCid::Reserved(reservation) => return Err(Error::UnknownCid(reservation.cid().0)),
        };
        // The peer may have come up since the last look, and then a veth takes frames from XDP.
        if self.transmit()? == Transmit::Stack {
            inner.watch.look_now();
        }
        let core = Core::open(&inner.shared, reservation, &open, &inner.device)?;
        inner.connections.insert(&core);
        Ok(Connection::new(core))
    }

    /// Sets a static connection back to its beginning, after its peer was started anew: a peer that starts counts its PSNs,
    /// RSNs and IVs from the beginning, which this end takes for old packets and drops. What is under way completes with
    /// kCmplDeadConn, and the connection is opened again under the same CID with the parameters it was opened with; it
    /// takes the first packet's IV (D-87).
    ///
    /// Only somebody who knows that the peer was started anew can say so: in plaintext mode (D-83) no packet proves it, and
    /// whoever replays old packets would say the same. Both ends have to be at their beginning. Where this end had
    /// operations under way, it has gone on sending them to the peer's new life: then reset this end first and the peer
    /// after it. A connection that the connection manager made has sequence numbers of its own each
    /// time: close it and connect again.
    ///
    /// # Errors
    /// [`Error::UnknownCid`] if there is no such connection; those of [`Self::open`], with which the connection is gone.
    pub async fn reset(&self, cid: Cid) -> Result<Connection, Error> {
        let connection = self.connection(cid).ok_or(Error::UnknownCid(cid.0))?;
        let open = connection.core().anew();
        connection.close();
        connection.released().await;
        self.open(open)
    }

    /// Makes an algorithm of one's own known; connections choose it by what this returns, with placement user.
    ///
    /// # Errors
    /// [`Error::AlgorithmName`].
    pub fn register_algorithm(
        &self,
        algorithm: impl Algorithm + Send + Sync + 'static,
    ) -> Result<AlgorithmChoice, Error> {
        self.inner.shared.rate_update.register(Arc::new(algorithm))
    }

    /// The algorithms that connections may choose by name at present.
    pub fn algorithms(&self) -> Algorithms {
        self.inner.shared.rate_update.algorithms()
    }

    /// The connection with this local CID.
    pub fn connection(&self, cid: Cid) -> Option<Connection> {
        self.inner.connections.get(cid).map(Connection::new)
    }

    /// All connections, by ascending CID.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        // One that is closed meanwhile is left out.
        self.inner.connections.all().iter().filter_map(|core| core.info().ok()).collect()
    }

    /// Registers `length` bytes of zeroed memory under the next free R_Key; the first is 1 (D-84).
    ///
    /// # Errors
    /// [`Error::EmptyRegion`], [`Error::OutOfMemory`], [`Error::NoFreeRegion`], [`Error::NodeDown`].
    pub fn register(&self, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        self.register_as(KeyChoice::Next, length, access)
    }

    /// `length` bytes of zeroed memory for local use: the buffers of this node's own operations. It has no R_Key, so no
    /// peer can name it, and it takes none of the region table.
    ///
    /// # Errors
    /// [`Error::EmptyRegion`], [`Error::OutOfMemory`], [`Error::NodeDown`].
    pub fn allocate(&self, length: usize) -> Result<MemoryRegion, Error> {
        let shared = &self.inner.shared;
        if shared.is_down() {
            return Err(Error::NodeDown);
        }
        Regions::allocate(shared, length)
    }

    /// As [`Self::register`], for a region that does not stay and whose R_Key is told to one peer: it takes none of the
    /// low keys.
    pub(crate) fn register_temporary(&self, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        self.register_as(KeyChoice::Temporary, length, access)
    }

    /// As [`Self::register`], under a key agreed on by other means.
    ///
    /// # Errors
    /// As [`Self::register`]; [`Error::BadRKey`], [`Error::RKeyInUse`].
    pub fn register_with_key(&self, key: RKey, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        self.register_as(KeyChoice::Given(key), length, access)
    }

    fn register_as(&self, key: KeyChoice, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        let inner = &self.inner;
        if inner.shared.is_down() {
            return Err(Error::NodeDown);
        }
        inner.regions.register(&inner.shared, length, access, key)
    }

    /// All regions.
    pub fn regions(&self) -> Vec<RegionInfo> {
        self.inner.regions.all()
    }

    /// MAC address of the next hop towards `peer`. Waits up to a second for the kernel to find it out, blocking: in
    /// async code use [`Self::next_hop`].
    ///
    /// # Errors
    /// [`Error::NoNeighbour`].
    pub fn resolve(&self, peer: IpAddr) -> Result<Mac, Error> {
        let mac = self.inner.netlink.resolve(self.inner.device.index, peer);
        mac.map(Mac).map_err(|reason| self.no_neighbour(peer, reason))
    }

    /// MAC address of the next hop towards `peer`. Waits up to a second for the kernel to find it out, without holding
    /// the thread. Needs a runtime with timers.
    ///
    /// # Errors
    /// [`Error::NoNeighbour`].
    pub async fn next_hop(&self, peer: IpAddr) -> Result<Mac, Error> {
        let mac = self.inner.netlink.resolve_async(self.inner.device.index, peer).await;
        mac.map(Mac).map_err(|reason| self.no_neighbour(peer, reason))
    }

    fn no_neighbour(&self, address: IpAddr, reason: String) -> Error {
        Error::NoNeighbour { address, interface: self.inner.device.interface.clone(), reason }
    }

    /// What the engine does.
    ///
    /// # Errors
    /// [`Error::NodeDown`].
    pub fn engine(&self) -> Result<EngineStatus, Error> {
        let running = self.inner.running.lock().expect("no panic under the lock");
        Ok(running.as_ref().ok_or(Error::NodeDown)?.engine.status())
    }

    /// How frames of the engine leave at present.
    ///
    /// # Errors
    /// [`Error::NodeDown`].
    pub fn transmit(&self) -> Result<Transmit, Error> {
        let running = self.inner.running.lock().expect("no panic under the lock");
        Ok(running.as_ref().ok_or(Error::NodeDown)?.transmit.get())
    }

    /// Where receive timestamps come from.
    ///
    /// # Errors
    /// [`Error::NodeDown`], [`Error::System`].
    pub fn receive_timestamps(&self) -> Result<ReceiveTimestamps, Error> {
        let running = self.inner.running.lock().expect("no panic under the lock");
        running.as_ref().ok_or(Error::NodeDown)?.stamping.status(&self.inner.shared.maps)
    }

    /// What the rate update engine in user space has done.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn rate_update(&self) -> Result<RateUpdateStatus, Error> {
        let shared = &self.inner.shared;
        Ok(shared.rate_update.status(&shared.maps, &self.inner.counters()?))
    }

    /// Takes a trace of all that the datapath does, until one of the options' limits is reached or the answer is
    /// stopped or dropped. The first time on a node this takes a second or two to begin. While it lasts, every packet
    /// takes longer.
    ///
    /// # Errors
    /// [`Error::TraceRunning`], [`Error::TraceFile`], [`Error::NodeDown`], [`Error::Load`].
    pub fn trace(&self, options: TraceOptions) -> Result<Tracing, Error> {
        let attachment = {
            let running = self.inner.running.lock().expect("no panic under the lock");
            Arc::downgrade(&running.as_ref().ok_or(Error::NodeDown)?.attachment)
        };
        Tracing::start(options, &self.inner.shared, attachment)
    }

    /// Counters, pools, sums.
    ///
    /// # Errors
    /// [`Error::NodeDown`], [`Error::System`].
    pub fn stats(&self) -> Result<NodeStats, Error> {
        let inner = &self.inner;
        let counters = inner.counters()?;
        let maps = &inner.shared.maps;
        let mut pools = inner.pools();
        for core in inner.connections.all() {
            let occupancy = core.occupancy();
            pools.connections += 1;
            pools.send_entries += u64::from(occupancy.send);
            pools.receive_entries += u64::from(occupancy.receive);
            pools.completions += u64::from(occupancy.completions);
        }
        let connections = inner.connections.all();
        let synchronised = |core: &Arc<Core>| core.congestion().parameters.synchronised_clocks;
        let synchronised = !connections.is_empty() && connections.iter().all(synchronised);
        Ok(NodeStats {
            attach: inner.attach,
            transmit: self.transmit()?,
            engine: self.engine()?,
            rate_update: inner.shared.rate_update.status(maps, &counters),
            delays: DelayHistograms::new(maps.delays()?.iter(), synchronised),
            counters,
            pools,
            connections: inner.connections.statistics(&inner.shared)?,
        })
    }
}

impl Inner {
    fn counters(&self) -> Result<BTreeMap<String, u64>, Error> {
        let value = |counter: &Counter| Ok((counter.name().to_owned(), self.shared.maps.counter(*counter)?));
        Counter::ALL.iter().map(value).collect()
    }

    fn pools(&self) -> Pools {
        let memory = POOL_BYTES as u64;
        Pools {
            cells_in_use: self.shared.maps.node().cells_in_use.load(SeqCst),
            cells: CELLS as u64,
            connection_slots: CONNECTIONS,
            regions: self.regions.all().len(),
            region_slots: REGIONS,
            memory_used: memory - self.shared.pool.free_bytes() as u64,
            memory,
            ..Pools::default()
        }
    }

    fn down(&self) {
        let Some(running) = self.running.lock().expect("no panic under the lock").take() else { return };
        self.shared.down.store(true, SeqCst);
        drop(running);
        self.watch.stop();
        self.shared.poller.stop();
        self.shared.rate_update.stop();
        // The wire program is off the interface; it may still run for a packet that came before.
        self.shared.grace.stop();
        self.shared.grace.wait();
        self.connections.release_all();
    }
}

impl Inner {
    /// What the node has lost since it came up.
    fn what_is_lost(&self) -> Option<Lost> {
        let running = self.running.lock().expect("no panic under the lock");
        let running = running.as_ref()?;
        if let EngineState::Failed(reason) = running.engine.status().state {
            return Some(Lost::Engine { reason });
        }
        // Whoever holds it replaces the programs at this moment.
        let mut attachment = running.attachment.try_lock().ok()?;
        attachment.pass_on_log();
        follow_driver(&mut attachment);
        match attachment.is_in_place() {
            Ok(true) => return None,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "could not see whether the node's program is attached");
                return None;
            }
        }
        let interface = self.device.interface.clone();
        let interfaces = self.netlink.interfaces().unwrap_or_default();
        match interfaces.into_iter().find(|there| there.index == self.device.index) {
            Some(there) => Some(Lost::Detached { interface, by: there.xdp.map(|xdp| xdp.id) }),
            None => Some(Lost::InterfaceGone { interface }),
        }
    }
}

impl Watched for Inner {
    fn look(&self) -> bool {
        let Some(lost) = self.what_is_lost() else { return !self.shared.is_down() };
        tracing::error!("{lost}");
        self.down();
        self.lost.send_replace(Some(lost));
        false
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.down();
    }
}

/// Has frames leave in another way where the driver has another.
fn follow_driver(attachment: &mut Attachment) {
    match attachment.choose_transmit() {
        Ok(true) => tracing::info!("frames leave by {} now", attachment.transmit().get()),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "frames do not leave in the way that the driver has now"),
    }
}

/// The interface, if a node can run on it, and what the node makes of it.
fn inspect(netlink: &Netlink, options: &NodeOptions) -> Result<(Interface, Device), Error> {
    let name = || options.interface.clone();
    let failed = |error| Error::system("list the interfaces", error);
    let interfaces = netlink.interfaces().map_err(failed)?;
    let Some(interface) = interfaces.iter().find(|i| i.name == options.interface) else {
        let available = interfaces.into_iter().map(|i| i.name).collect();
        return Err(Error::UnknownInterface { name: name(), available });
    };
    if interface.loopback {
        return Err(Error::Loopback { name: name() });
    }
    let Some(mac) = interface.mac.filter(|_| interface.ethernet) else {
        return Err(Error::NotEthernet { name: name() });
    };
    if !interface.up {
        return Err(Error::InterfaceDown { name: name() });
    }
    if options.attach == AttachMode::Native && interface.mtu > NATIVE_MTU {
        return Err(Error::InterfaceMtu { name: name(), mtu: interface.mtu, limit: NATIVE_MTU });
    }
    let address = options.address;
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err(Error::BadAddress { address });
    }
    let mtu = options.mtu.unwrap_or(interface.mtu);
    if mtu > interface.mtu {
        return Err(Error::MtuAboveInterface { name: name(), mtu, limit: interface.mtu });
    }
    let minimum = smallest_mtu(address.is_ipv6());
    if mtu < minimum {
        return Err(Error::MtuTooSmall { mtu, minimum });
    }
    let addresses = netlink.addresses(interface.index).map_err(failed)?;
    if !addresses.contains(&address) {
        // Falcon packets arrive all the same, but nobody answers the peer's question for our MAC address.
        tracing::warn!(interface = interface.name, %address, "the interface does not have the node's address");
    }
    let device = Device {
        interface: name(),
        index: interface.index,
        kind: interface.kind.clone(),
        mac: Mac(mac),
        mtu,
        max_segment: max_segment(mtu, address.is_ipv6()),
        address,
        addresses,
    };
    Ok((interface.clone(), device))
}

fn node_config(device: &Device) -> NodeConfig {
    let config = NodeConfig {
        mac_word: mac_word(&device.mac.0),
        interface_index: device.index,
        ..NodeConfig::default()
    };
    match device.address {
        IpAddr::V4(v4) => NodeConfig { ipv4: u32::from_ne_bytes(v4.octets()), ..config },
        IpAddr::V6(v6) => NodeConfig { ipv6: words(&v6.octets()), ..config },
    }
}

/// Handles go to any thread.
const _: () = {
    const fn handle<T: Send + Sync + Clone>() {}
    handle::<Node>();
    handle::<Connection>();
    handle::<MemoryRegion>();
    handle::<crate::CompletionQueue>();
};

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut NodeOptions)) -> Error {
        let mut options = NodeOptions::new("lo", "10.7.0.1".parse().expect("an address"));
        change(&mut options);
        Node::up(options).expect_err("refused before anything is loaded")
    }

    #[test]
    fn interfaces_that_cannot_be_used_are_refused() {
        assert!(matches!(refused(|_| ()), Error::Loopback { .. }));
        let unknown = refused(|o| o.interface = "no-such-one".into());
        assert!(
            matches!(&unknown, Error::UnknownInterface { available, .. } if available.contains(&"lo".into()))
        );
        let batch = refused(|o| o.engine.batch = Some(0));
        assert!(matches!(batch, Error::EngineOption { option: "batch", .. }));
    }

    #[test]
    fn the_datapath_learns_one_address() {
        let mut device = crate::info::tests::device();
        let config = node_config(&device);
        assert_eq!(
            (config.ipv4.to_ne_bytes(), config.ipv6, config.interface_index),
            ([10, 7, 0, 1], [0; 2], 2)
        );
        assert_eq!(config.mac_word.to_ne_bytes(), [2, 0, 0, 0, 0, 1, 0, 0]);
        device.address = "fd00::1".parse().expect("an address");
        let config = node_config(&device);
        assert_eq!((config.ipv4, config.ipv6[1].to_ne_bytes()[7]), (0, 1));
    }
}
