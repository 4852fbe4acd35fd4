//! How frames of the engine leave, and when the node changes the way.
//!
//! The engine program redirects its frames to the interface that the map `PORT` names, and the driver sends them
//! (`ndo_xdp_xmit`). Some drivers cannot do that: those without native XDP (e1000e), and virtio_net while no
//! native program is attached. For these the node leaves `PORT` empty. Then the kernel takes the engine's frames
//! into its stack on the loopback device. The program `to_card`, which is attached there, passes them on to the
//! interface. This costs more (docs/lab/changes.md), but it works with every driver.
//!
//! Answers leave in the received frame (`XDP_TX`), which every driver with native XDP can send, except for a veth
//! whose other end runs no XDP program. If that end does not poll, it takes no frames. If it polls because it merges
//! (GRO), it takes them, but nobody wakes it: the kernel does so only if it has a program (Linux 6.18). There the answers
//! also pass through the stack: the map `ANSWERS` says so, and `to_card` is attached to the interface as well.
//!
//! All this changes with what is at the other end. So the node asks repeatedly.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use aya::Ebpf;
use aya::maps::{Array, DevMap, MapData};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::{LinkOrder, ProgramError, RawTracePoint, SchedClassifier, TcAttachType};
pub use tiercel::status::Transmit;

use super::object::borrowed;
use crate::node::error::NodeError;
use crate::node::interface::netdev::Netdev;
use crate::node::interface::netlink::{Interface, Netlink};
use crate::node::xdp::attach_mode::{AttachMode, is_native_veth};
use crate::node::xdp::programs::{NOT_REDIRECTED, NOT_TRANSMITTED, TO_CARD, map_data};

/// Names of the maps.
const PORT: &str = "PORT";
const PORT_ID: &str = "PORT_ID";
const ANSWERS: &str = "ANSWERS";
/// The only entry of each of these maps.
const PLACE: u32 = 0;
/// The device on which the kernel takes the engine's frames into its stack.
const LOOPBACK: &str = "lo";
/// The programs that count frames that did not leave, and their tracepoints: a frame that could not be redirected, and a
/// bulk of redirected frames that the driver did not take entirely.
const FAILURES: [(&str, &str); 2] =
    [(NOT_REDIRECTED, "xdp_redirect_err"), (NOT_TRANSMITTED, "xdp_devmap_xmit")];

/// The way that is in use now, for display.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentWay(Arc<AtomicU8>);

impl CurrentWay {
    pub(crate) fn get(&self) -> Transmit {
        if self.0.load(SeqCst) == Transmit::Stack as u8 { Transmit::Stack } else { Transmit::XdpRedirect }
    }

    fn set(&self, way: Transmit) {
        self.0.store(way as u8, SeqCst);
    }
}

/// Chooses how a node's frames leave, and holds what that needs.
#[derive(Debug)]
pub(crate) struct TransmitPath {
    netdev: Option<Netdev>,
    netlink: Option<Netlink>,
    interface: u32,
    /// Always use this way, whatever the driver reports.
    forced: Option<Transmit>,
    way: CurrentWay,
    /// The interface's name, if answers may need the stack too.
    veth: Option<String>,
    /// Whether answers pass through the stack.
    answers: bool,
    /// Keep `to_card` attached to the loopback device, and to the interface for answers.
    at_loopback: Option<SchedClassifierLink>,
    at_interface: Option<SchedClassifierLink>,
}

impl TransmitPath {
    /// Creates it for the interface with this index, in the calling thread's network namespace. Frames leave by
    /// redirect until [`Self::choose`] is called.
    pub(crate) fn new(interface: &Interface, mode: AttachMode, forced: Option<Transmit>) -> Self {
        let netdev = Netdev::open().inspect_err(|error| {
            tracing::warn!(%error, "the kernel does not say which drivers take frames from XDP");
        });
        let netlink = Netlink::open().inspect_err(|error| {
            tracing::warn!(%error, "the kernel does not say what is at the other end of a veth");
        });
        // In generic mode the stack sends the answers.
        Self {
            netdev: netdev.ok(),
            netlink: netlink.ok(),
            interface: interface.index,
            forced,
            way: CurrentWay::default(),
            veth: is_native_veth(mode, interface).then(|| interface.name.clone()),
            answers: false,
            at_loopback: None,
            at_interface: None,
        }
    }

    pub(crate) fn way(&self) -> &CurrentWay {
        &self.way
    }

    /// Switches to the way that the driver now supports. Returns true if it changed. The calling thread must be in
    /// the network namespace of the interface.
    ///
    /// # Errors
    /// The way through the stack cannot be set up.
    pub(crate) fn choose(&mut self, object: &mut Ebpf) -> Result<bool, NodeError> {
        let way = self.forced.or_else(|| self.offered()).unwrap_or_else(|| self.way.get());
        let wakes = || self.netlink.as_ref().is_some_and(|netlink| netlink.peer_runs_xdp(self.interface));
        let answers = answers_pass_the_stack(self.veth.is_some(), way, wakes);
        let other_way = way != self.way.get();
        if other_way || answers != self.answers {
            self.take(object, way, answers)?;
        }
        Ok(other_way)
    }

    /// Returns the way that the driver supports, or `None` if the interface cannot be asked, for example because
    /// it is gone.
    fn offered(&self) -> Option<Transmit> {
        let features = self.netdev.as_ref()?.xdp_features(self.interface).ok()?;
        Some(if features.sends() { Transmit::XdpRedirect } else { Transmit::Stack })
    }

    /// Has the engine's frames leave by `way`, and answers through the stack or in the received frame.
    fn take(&mut self, object: &mut Ebpf, way: Transmit, answers: bool) -> Result<(), NodeError> {
        let failed = |error| NodeError::system("send by the kernel's stack", error);
        // What passes through the stack needs `to_card` there first.
        if way == Transmit::Stack && self.at_loopback.is_none() {
            self.at_loopback = Some(attach_to_card(object, LOOPBACK)?);
        }
        if let Some(name) = self.veth.as_deref().filter(|_| answers && self.at_interface.is_none()) {
            self.at_interface = Some(attach_to_card(object, name)?);
        }
        match way {
            // From now on the redirect finds no entry, and its verdict is to pass the frame on.
            Transmit::Stack => {
                let port = object.map(PORT).and_then(map_data).ok_or(NodeError::Object(PORT))?;
                bpf_call::empty_place(port.fd().as_fd(), PLACE).map_err(failed)?;
            }
            Transmit::XdpRedirect => set_port(object, self.interface)?,
        }
        let mut map: Array<&mut MapData, u32> = borrowed(object, ANSWERS)?;
        map.set(PLACE, u32::from(answers), 0)
            .map_err(|error| NodeError::system("fill the datapath's maps", io::Error::other(error)))?;
        self.way.set(way);
        self.answers = answers;
        let useless = (
            self.at_loopback.take_if(|_| way == Transmit::XdpRedirect),
            self.at_interface.take_if(|_| !answers),
        );
        if useless.0.is_some() || useless.1.is_some() {
            // Frames that are already in the stack still need `to_card`. After a grace period no program that began
            // before this point runs, and these frames have left the stack.
            if let Err(error) = bpf_call::Grace::new().and_then(|grace| grace.wait()) {
                tracing::debug!(%error, "no grace period before the way through the stack is given up");
            }
        }
        Ok(())
    }
}

/// Returns whether answers pass through the stack: on a veth whose other end takes no frames from XDP, or takes them and is
/// not woken.
fn answers_pass_the_stack(is_veth: bool, way: Transmit, wakes: impl FnOnce() -> bool) -> bool {
    is_veth && (way == Transmit::Stack || !wakes())
}

/// Attaches `to_card` to what a device receives.
fn attach_to_card(object: &mut Ebpf, device: &str) -> Result<SchedClassifierLink, NodeError> {
    let program: &mut SchedClassifier = object
        .program_mut(TO_CARD)
        .and_then(|program| program.try_into().ok())
        .ok_or(NodeError::Object(TO_CARD))?;
    let mut attach = || -> Result<_, ProgramError> {
        if program.fd().is_err() {
            program.load()?;
        }
        let options = TcAttachOptions::TcxOrder(LinkOrder::first());
        let link = program.attach_with_options(device, TcAttachType::Ingress, options)?;
        program.take_link(link)
    };
    attach().map_err(|error| NodeError::system("send by the kernel's stack (tcx)", io::Error::other(error)))
}

/// Sets the interface to redirect to.
pub(crate) fn set_port(object: &mut Ebpf, interface: u32) -> Result<(), NodeError> {
    let mut port: DevMap<&mut MapData> = borrowed(object, PORT)?;
    port.set(PLACE, interface, None, 0)
        .map_err(|error| NodeError::system("fill the datapath's maps", io::Error::other(error)))
}

/// Counts the frames that could not be redirected, or that the driver did not take. If the kernel does not let programs use its tracepoints, only
/// this count is missing.
pub(crate) fn count_failures(object: &mut Ebpf) -> Result<(), NodeError> {
    let id = object.map(PORT).and_then(map_data).ok_or(NodeError::Object(PORT))?.info();
    let id = id.map_err(|error| NodeError::system("read a map's number", io::Error::other(error)))?.id();
    let mut port_id: Array<&mut MapData, u32> = borrowed(object, PORT_ID)?;
    port_id
        .set(PLACE, id, 0)
        .map_err(|error| NodeError::system("fill the datapath's maps", io::Error::other(error)))?;
    for (name, tracepoint) in FAILURES {
        let program: &mut RawTracePoint = object
            .program_mut(name)
            .and_then(|program| program.try_into().ok())
            .ok_or(NodeError::Object(name))?;
        let attached = program.load().and_then(|()| program.attach(tracepoint));
        if let Err(error) = attached {
            tracing::warn!(%error, "frames that the driver refuses count as sent: the tracepoint {tracepoint} is not available");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_have_the_names_that_status_shows() {
        for way in [Transmit::XdpRedirect, Transmit::Stack] {
            let name = serde_json::to_value(way).expect("a name");
            assert_eq!(name, way.to_string());
            assert_eq!(way.to_string().parse(), Ok(way));
        }
        assert_eq!(Transmit::Stack.to_string(), "stack");
        assert_eq!(Transmit::XdpRedirect.to_string(), "xdp_redirect");
    }

    #[test]
    fn answers_over_a_veth_need_a_program_at_its_other_end() {
        use Transmit::{Stack, XdpRedirect};
        for (is_veth, way, wakes, expected) in [
            (true, XdpRedirect, true, false),
            (true, XdpRedirect, false, true),
            (true, Stack, true, true),
            (true, Stack, false, true),
            (false, XdpRedirect, false, false),
            (false, Stack, false, false),
        ] {
            let found = answers_pass_the_stack(is_veth, way, || wakes);
            assert_eq!(found, expected, "veth: {is_veth}, {way}, wakes: {wakes}");
        }
    }

    #[test]
    fn the_way_is_seen_by_whoever_asks() {
        let way = CurrentWay::default();
        let seen = way.clone();
        assert_eq!(seen.get(), Transmit::XdpRedirect);
        way.set(Transmit::Stack);
        assert_eq!(seen.get(), Transmit::Stack);
    }
}
