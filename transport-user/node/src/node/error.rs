//! Why a node could not be brought up, or cannot do what only a node does. Each text says what is wrong and what to do.

use std::error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use tiercel::ErrorKind;
use tiercel::status::AttachMode;

/// Why a node could not be brought up, record a trace, or find a next hop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No interface has this name in this network namespace.
    #[error(
        "there is no interface \"{name}\" in this network namespace; available: {}",
        if .available.is_empty() { "none".to_owned() } else { .available.join(", ") }
    )]
    UnknownInterface {
        /// The name asked for.
        name: String,
        /// The names of the interfaces in the namespace.
        available: Vec<String>,
    },
    /// The interface is the loopback interface.
    #[error(
        "\"{name}\" is the loopback interface, which carries no Ethernet frames to a peer: use an Ethernet or veth \
         interface"
    )]
    Loopback {
        /// The name asked for.
        name: String,
    },
    /// The interface has no Ethernet address (for example a tunnel).
    #[error("\"{name}\" is not an Ethernet interface: use an Ethernet or veth interface")]
    NotEthernet {
        /// The name asked for.
        name: String,
    },
    /// The interface is administratively down.
    #[error("interface \"{name}\" is down: bring it up with `ip link set dev {name} up`")]
    InterfaceDown {
        /// The interface.
        name: String,
    },
    /// The MTU of the interface is too large for native XDP, where a frame must fit one page.
    #[error(
        "interface \"{name}\" has MTU {mtu}, but native XDP supports at most {limit}: run `ip link set dev {name} mtu \
         {limit}` (for a veth pair, at both ends), or attach in generic mode (--generic)"
    )]
    InterfaceMtu {
        /// The interface.
        name: String,
        /// Its MTU, bytes.
        mtu: u32,
        /// The largest MTU that native XDP supports, bytes.
        limit: u32,
    },
    /// The MTU asked for is larger than the interface's.
    #[error(
        "MTU {mtu} is larger than the MTU {limit} of interface \"{name}\": choose a smaller MTU, or raise the \
         interface's MTU"
    )]
    MtuAboveInterface {
        /// The interface.
        name: String,
        /// The MTU asked for, bytes.
        mtu: u32,
        /// The interface's MTU, bytes.
        limit: u32,
    },
    /// The MTU asked for is larger than the packets that a node can send.
    #[error(
        "MTU {mtu} is larger than a node can serve: choose at most {limit} on interface \"{name}\", or leave the MTU out, and \
         the node takes the largest possible one"
    )]
    MtuAboveLargest {
        /// The interface.
        name: String,
        /// The MTU asked for, bytes.
        mtu: u32,
        /// The largest MTU that is possible on this interface, bytes.
        limit: u32,
    },
    /// The MTU leaves no space for data.
    #[error("MTU {mtu} is too small: Falcon with RDMA headers needs at least {minimum} bytes")]
    MtuTooSmall {
        /// The MTU, bytes.
        mtu: u32,
        /// The smallest MTU, bytes.
        minimum: u32,
    },
    /// The address cannot be the address of a node.
    #[error("{address} cannot be the address of a node: use a unicast address of the interface")]
    BadAddress {
        /// The address.
        address: IpAddr,
    },
    /// The check for duplicates of the node's IPv6 address does not end.
    #[error(
        "address {address} of interface \"{interface}\" is still tentative after {seconds} s: the kernel has not ended the check for \
         duplicates; check that the cable is plugged in at both ends (`ip link`), or add the address with `nodad`"
    )]
    AddressTentative {
        /// The address.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// How long the node waited for the end of the check, seconds.
        seconds: u64,
    },
    /// Another host has the node's IPv6 address.
    #[error(
        "address {address} of interface \"{interface}\" is a duplicate: another host on the link has it; give one of them \
         another address"
    )]
    AddressDuplicate {
        /// The address.
        address: IpAddr,
        /// The interface.
        interface: String,
    },
    /// Another Tiercel node runs on the interface.
    #[error(
        "another Tiercel node (XDP program {id}) runs on \"{interface}\": stop it with `tiercel down`, or replace it \
         with --force"
    )]
    NodeRunning {
        /// The interface.
        interface: String,
        /// Id of the other node's program.
        id: u32,
    },
    /// The interface has an XDP program that does not belong to Tiercel.
    #[error(
        "interface \"{interface}\" already has an XDP program, id {id} (\"{name}\", {mode}), which stays attached: \
         detach it with the tool that attached it, or replace it with --force"
    )]
    XdpOccupied {
        /// The interface.
        interface: String,
        /// The program's id.
        id: u32,
        /// The program's name.
        name: String,
        /// Its attach mode.
        mode: XdpMode,
    },
    /// The driver does not support native XDP, or not with this configuration.
    #[error("cannot attach to \"{interface}\" in {mode} mode: {source}. {hint}")]
    Attach {
        /// The interface.
        interface: String,
        /// The attach mode.
        mode: AttachMode,
        /// What to try.
        hint: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The log of the XDP programs is requested, but this build has programs without a log.
    #[error(
        "the XDP programs of this build cannot log: build with the cargo feature bpf-log (--features tiercel-cli/bpf-log)"
    )]
    NoBpfLog,
    /// The programs did not load.
    #[error("the kernel refused Tiercel's BPF programs: {reason}. {hint}", hint = LOAD_HINT)]
    Load {
        /// The kernel's reason in a few words.
        reason: String,
        /// The error of the loader.
        source: Box<dyn error::Error + Send + Sync>,
    },
    /// The kernel lacks what the programs use. The sentence says what, and what to do.
    #[error("{0}")]
    Kernel(String),
    /// The processor does not keep the order of memory accesses on which the programs rely.
    #[error(
        "the XDP programs rely on the memory order of x86-64, and this machine is {0}: bring the node up on an x86-64 machine"
    )]
    Architecture(&'static str),
    /// The object lacks a map or a program: it was not built from this source.
    #[error("the built-in BPF object has no usable {0}: rebuild the project (cargo clean, then build again)")]
    Object(&'static str),
    /// The kernel does not support live frames in test runs.
    #[error(
        "this kernel cannot run XDP on live frames (BPF_F_TEST_XDP_LIVE_FRAMES): {0}. Boot Linux 6.9 or later"
    )]
    NoLiveFrames(#[source] io::Error),
    /// The options require the card's receive timestamps, but there are none.
    #[error(
        "no hardware timestamps on {interface}: {reason}. Remove the hardware_timestamps option; the node then uses them \
         where they are available"
    )]
    NoHardwareTimestamps {
        /// The interface.
        interface: String,
        /// Why there are none.
        reason: String,
    },
    /// The program that reads receive timestamps from the driver does not load.
    #[error(
        "the program that reads receive timestamps from the driver does not load: {0}. Set hardware_timestamps = false to \
         run without them"
    )]
    Bind(String),
    /// The CPU does not exist, or this process may not use it.
    #[error(
        "the engine cannot run on CPU {cpu}: {source}. Choose a CPU that exists (`nproc`) and that this process may use \
         (`taskset -p`)"
    )]
    Cpu {
        /// The CPU asked for.
        cpu: usize,
        /// The kernel's reason.
        source: io::Error,
    },
    /// An engine option is out of its range.
    #[error("engine option {option} = {value} is out of range: allowed is {range}")]
    EngineOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The allowed range.
        range: &'static str,
    },
    /// The application uses the signal that was chosen for the engine.
    #[error(
        "the application handles or ignores signal {signal}: choose another real-time signal for the engine, or none, so \
         that the engine takes a free one"
    )]
    SignalTaken {
        /// The signal.
        signal: i32,
    },
    /// A trace of the node is already being recorded.
    #[error(
        "a trace of this node is already being recorded: wait until it ends, or end it with Ctrl-C where `tiercel trace` runs"
    )]
    TraceRunning,
    /// The node's program is bound to the device, and such a program cannot be traced.
    #[error(
        "a trace cannot be recorded while the node reads receive timestamps from the driver: bring the node up with \
         hardware_timestamps = false"
    )]
    TraceWithTimestamps,
    /// The file of the trace could not be written.
    #[error("cannot write the trace to {}: {source}. {hint}", .file.display())]
    TraceFile {
        /// The file.
        file: PathBuf,
        /// What to do about it.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The MAC address of the next hop is not known.
    #[error("no MAC address is known for {address} on \"{interface}\": {source}")]
    NoNeighbour {
        /// The peer's address.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// Why, and what to do.
        source: NextHopError,
    },
    /// An error of the library: for example of a system call, or of an option of congestion control.
    #[error(transparent)]
    Library(#[from] tiercel::Error),
}

/// The attach mode of an XDP program that a node has not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
    /// In the card.
    Offloaded,
    /// Several programs in several modes.
    Several,
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Offloaded => "offloaded",
            Self::Several => "several modes",
        })
    }
}

/// Why the MAC address of a next hop is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NextHopError {
    /// The kernel has no route to the address.
    #[error("there is no route{}; add one with `ip route add`", .0.as_ref().map_or(String::new(), |error| format!(" ({error})")))]
    NoRoute(#[source] Option<io::Error>),
    /// The address is one of this host.
    #[error("it is an address of this host; use the address of another host")]
    ThisHost,
    /// The route does not lead through the node's interface.
    #[error("the route leads through another interface; change it with `ip route`")]
    OtherInterface,
    /// The next hop does not answer.
    #[error("{0} does not answer; check that the peer is up, or give its MAC address")]
    NoAnswer(IpAddr),
    /// The kernel does not show its neighbours.
    #[error("cannot read the neighbour table: {0}")]
    Neighbours(#[source] io::Error),
}

const LOAD_HINT: &str =
    "Tiercel needs Linux 6.9 or later (may_goto) with BTF (/sys/kernel/btf/vmlinux) and the BPF JIT";

impl NodeError {
    /// Makes the error of a failed system call.
    pub(crate) fn system(action: &'static str, source: impl Into<io::Error>) -> Self {
        tiercel::Error::system(action, source).into()
    }

    /// Makes the error of an action that the kernel does not permit.
    pub(super) fn not_permitted(action: &'static str, source: io::Error) -> Self {
        tiercel::Error::NotPermitted { action, source }.into()
    }

    /// Returns its kind, for programs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownInterface { .. } => ErrorKind::NotFound,
            Self::Loopback { .. }
            | Self::NotEthernet { .. }
            | Self::InterfaceDown { .. }
            | Self::InterfaceMtu { .. }
            | Self::MtuAboveInterface { .. }
            | Self::MtuAboveLargest { .. }
            | Self::MtuTooSmall { .. }
            | Self::BadAddress { .. }
            | Self::Cpu { .. }
            | Self::EngineOption { .. } => ErrorKind::Invalid,
            Self::AddressTentative { .. } => ErrorKind::TimedOut,
            Self::AddressDuplicate { .. }
            | Self::NodeRunning { .. }
            | Self::XdpOccupied { .. }
            | Self::SignalTaken { .. }
            | Self::TraceRunning => ErrorKind::InUse,
            Self::Attach { .. }
            | Self::NoBpfLog
            | Self::Load { .. }
            | Self::Kernel(_)
            | Self::Architecture(_)
            | Self::Object(_)
            | Self::NoLiveFrames(_)
            | Self::NoHardwareTimestamps { .. }
            | Self::Bind(_)
            | Self::TraceWithTimestamps => ErrorKind::Unsupported,
            Self::TraceFile { .. } => ErrorKind::Io,
            Self::NoNeighbour { source, .. } => source.kind(),
            Self::Library(error) => error.kind(),
        }
    }
}

impl NextHopError {
    /// Returns its kind, for programs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoRoute(_) | Self::OtherInterface => ErrorKind::NotFound,
            Self::ThisHost => ErrorKind::Invalid,
            Self::NoAnswer(_) => ErrorKind::TimedOut,
            Self::Neighbours(_) => ErrorKind::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_thing_and_the_remedy() {
        let unknown =
            NodeError::UnknownInterface { name: "veth9".into(), available: vec!["lo".into(), "eth0".into()] };
        assert_eq!(
            unknown.to_string(),
            "there is no interface \"veth9\" in this network namespace; available: lo, eth0"
        );
        let occupied = NodeError::XdpOccupied {
            interface: "eth0".into(),
            id: 42,
            name: "firewall".into(),
            mode: XdpMode::Native,
        };
        let text = occupied.to_string();
        assert!(text.contains("id 42 (\"firewall\", native)") && text.contains("--force"), "{text}");
        assert_eq!((unknown.kind(), occupied.kind()), (ErrorKind::NotFound, ErrorKind::InUse));
    }

    #[test]
    fn a_route_that_is_missing_says_why() {
        assert_eq!(NextHopError::NoRoute(None).to_string(), "there is no route; add one with `ip route add`");
        let text = NextHopError::NoRoute(Some(io::Error::other("why"))).to_string();
        assert_eq!(text, "there is no route (why); add one with `ip route add`");
    }
}
