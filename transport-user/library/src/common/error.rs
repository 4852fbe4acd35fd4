//! The errors of the library. Each text says what is wrong and what to do.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use transport_common::congestion::parameters::OutOfRange;
use transport_common::ids::{Cid, RKey};

use crate::quantity::format_size;

/// Why a node could not be brought up, a connection not be opened, or memory not be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not load BPF programs.
    #[error(
        "not permitted to {action}: run as root (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are needed); if you are root \
         already, check whether the kernel is locked down (/sys/kernel/security/lockdown)"
    )]
    NotPermitted {
        /// The action that the kernel refused.
        action: &'static str,
    },
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
        mode: String,
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
    /// The driver does not support native XDP, or not with this configuration.
    #[error("cannot attach to \"{interface}\" in {mode} mode: {source}. {hint}")]
    Attach {
        /// The interface.
        interface: String,
        /// "native" or "generic".
        mode: &'static str,
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
    #[error("the kernel refused Tiercel's BPF programs: {0}. {hint}", hint = LOAD_HINT)]
    Load(String),
    /// The kernel lacks what the programs use. The sentence says what, and what to do.
    #[error("{0}")]
    Kernel(String),
    /// The object lacks a map or a program: it was not built from this source.
    #[error("the built-in BPF object has no usable {0}: rebuild the project (cargo clean, then build again)")]
    Object(&'static str),
    /// The kernel does not support live frames in test runs.
    #[error(
        "this kernel cannot run XDP on live frames (BPF_F_TEST_XDP_LIVE_FRAMES): {0}. Boot Linux 6.9 or later"
    )]
    NoLiveFrames(io::Error),
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
    /// The CID is 0 or does not fit 24 bits.
    #[error("{0} is not a connection ID: use a number from 1 to {max}", max = Cid::MAX)]
    BadCid(u32),
    /// Another connection occupies the slot of the CID.
    #[error(
        "CID {cid} is in use by connection {occupant} (they share slot {slot} of {slots}): choose another CID, or close \
         that connection", cid = .cid.0, occupant = .occupant.0, slots = transport_common::queues::CONNECTIONS
    )]
    CidInUse {
        /// The CID asked for.
        cid: Cid,
        /// The CID that occupies the slot.
        occupant: Cid,
        /// The slot.
        slot: usize,
    },
    /// Every connection slot is taken.
    #[error("all {0} connections of this node are in use: close one")]
    NoFreeCid(usize),
    /// No such connection.
    #[error("no connection has CID {0}")]
    UnknownCid(u32),
    /// A connection parameter is out of its range.
    #[error("connection parameter {name} = {value} is out of range: allowed is {range}")]
    Parameter {
        /// The parameter, by its name in the specification.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The allowed range.
        range: &'static str,
    },
    /// A parameter of congestion control, or an option of the rate update engine, is out of its range.
    #[error("congestion control: {0}")]
    CongestionParameter(#[from] OutOfRange),
    /// A custom algorithm is placed where only built-in algorithms run.
    #[error("algorithm \"{name}\" is not built in: it runs with placement user only")]
    AlgorithmPlacement {
        /// Its name.
        name: &'static str,
    },
    /// No algorithm of this name was registered with the node.
    #[error("this node has no algorithm \"{name}\": there are {}; register a custom algorithm before a connection uses it", known.join(", "))]
    UnknownAlgorithm {
        /// The name asked for.
        name: &'static str,
        /// The names of all algorithms of the node.
        known: Vec<&'static str>,
    },
    /// An algorithm cannot be registered under this name.
    #[error(
        "an algorithm cannot have the name \"{name}\": choose an unused name of letters, digits, dashes and underscores"
    )]
    AlgorithmName {
        /// The name.
        name: &'static str,
    },
    /// The connection ended before its new settings were in force.
    #[error("connection {0} ended before its congestion control was changed")]
    EndedMeanwhile(u32),
    /// Another call resets the connection.
    #[error("connection {0} is being reset already: wait for that to end")]
    ResetAlready(u32),
    /// The addresses of peer and node have different IP versions.
    #[error("peer {peer} and node {own} are of different IP versions: use addresses of one version")]
    AddressFamily {
        /// The peer's address.
        peer: IpAddr,
        /// The node's address.
        own: IpAddr,
    },
    /// The inner addresses of a tunnel cannot be used (F-7.1.2-1).
    #[error("{0}")]
    Tunnel(String),
    /// The MAC address of the next hop is not known.
    #[error("no MAC address is known for {address} on \"{interface}\": {reason}")]
    NoNeighbour {
        /// The peer's address.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The region has no bytes.
    #[error("a memory region needs at least 1 byte")]
    EmptyRegion,
    /// The node's memory has no free piece that is large enough.
    #[error(
        "cannot register {asked} bytes of memory: {free} bytes are free, and the largest free piece has {largest} bytes. \
         Deregister regions, or register less"
    )]
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes free.
        free: u64,
        /// Largest free piece.
        largest: u64,
    },
    /// The node's memory cannot have this size.
    #[error("a node cannot have {} of memory: choose {} to {}", format_size(*asked), format_size(*least), format_size(*most))]
    NodeMemory {
        /// Bytes asked for.
        asked: u64,
        /// Least bytes.
        least: u64,
        /// Most bytes.
        most: u64,
    },
    /// The machine has no memory for the node's maps.
    #[error(
        "the machine does not have {} of memory for the node{}: give the node less (--memory, or memory in the table [node] of \
         its file), or free some",
        format_size(*asked),
        available.map_or(String::new(), |free| format!(", only {} MiB", free >> 20))
    )]
    NoNodeMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that are available, if that was seen before the kernel was asked.
        available: Option<u64>,
    },
    /// Every region slot is taken.
    #[error("all {0} memory regions of this node are in use: deregister one")]
    NoFreeRegion(usize),
    /// The R_Key is 0, which is never valid.
    #[error("0 is never a valid R_Key: choose another, or none, so that the node takes a free one")]
    BadRKey,
    /// Another region occupies the slot of the key.
    #[error(
        "R_Key {key} is in use by region {occupant} (they share slot {slot} of {slots}): choose another R_Key, or \
         deregister that region", key = .key.0, occupant = .occupant.0, slots = transport_common::queues::REGIONS
    )]
    RKeyInUse {
        /// The key asked for.
        key: RKey,
        /// The key that occupies the slot.
        occupant: RKey,
        /// The slot.
        slot: usize,
    },
    /// The access exceeds the end of the region.
    #[error("offset {offset} and length {length} exceed the region of {size} bytes")]
    OutOfBounds {
        /// Offset of the first byte of the access.
        offset: u64,
        /// Length of the access, bytes.
        length: u64,
        /// Length of the region, bytes.
        size: u64,
    },
    /// The node was brought down.
    #[error("the node is down: bring it up again")]
    NodeDown,
    /// A system call failed for another reason.
    #[error("cannot {action}: {source}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

const LOAD_HINT: &str =
    "Tiercel needs Linux 6.9 or later (may_goto) with BTF (/sys/kernel/btf/vmlinux) and the BPF JIT";

impl Error {
    /// Makes the error of a failed system call. `EPERM` and `EACCES` become [`Error::NotPermitted`].
    pub fn system(action: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { action },
            _ => Self::System { action, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_thing_and_the_remedy() {
        let unknown =
            Error::UnknownInterface { name: "veth9".into(), available: vec!["lo".into(), "eth0".into()] };
        assert_eq!(
            unknown.to_string(),
            "there is no interface \"veth9\" in this network namespace; available: lo, eth0"
        );
        let occupied = Error::XdpOccupied {
            interface: "eth0".into(),
            id: 42,
            name: "firewall".into(),
            mode: "native".into(),
        };
        let text = occupied.to_string();
        assert!(text.contains("id 42 (\"firewall\", native)") && text.contains("--force"), "{text}");
        let in_use = Error::CidInUse { cid: Cid(261), occupant: Cid(5), slot: 5 };
        assert!(
            in_use.to_string().starts_with("CID 261 is in use by connection 5 (they share slot 5 of 256)")
        );
    }

    #[test]
    fn permission_errors_are_told_apart() {
        let denied = Error::system("load", io::Error::from_raw_os_error(libc::EPERM));
        assert!(matches!(denied, Error::NotPermitted { action: "load" }));
        let other = Error::system("load", io::Error::from_raw_os_error(libc::ENOMEM));
        assert!(matches!(other, Error::System { action: "load", .. }));
    }
}
