//! What can go wrong, each with what to do about it.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use transport_common::congestion::parameters::OutOfRange;
use transport_common::ids::{Cid, RKey};

/// A node, a connection setup or a memory registration that could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not load BPF programs.
    #[error(
        "not permitted to {action}: run as root (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are needed); as root, \
         see whether the kernel is locked down (/sys/kernel/security/lockdown)"
    )]
    NotPermitted {
        /// What was refused.
        action: &'static str,
    },
    /// No interface has this name in this network namespace.
    #[error(
        "there is no interface \"{name}\" in this network namespace; there is: {}",
        if .available.is_empty() { "none".to_owned() } else { .available.join(", ") }
    )]
    UnknownInterface {
        /// The name asked for.
        name: String,
        /// The names there are.
        available: Vec<String>,
    },
    /// The loopback interface.
    #[error(
        "\"{name}\" is the loopback interface, which carries no Ethernet frames to a peer: name an Ethernet or \
         veth interface"
    )]
    Loopback {
        /// The name asked for.
        name: String,
    },
    /// An interface without Ethernet addresses (a tunnel, say).
    #[error("\"{name}\" is not an Ethernet interface: name an Ethernet or veth interface")]
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
    /// Native XDP gives each frame one page; a larger MTU does not fit.
    #[error(
        "interface \"{name}\" has MTU {mtu}, native XDP takes at most {limit}: `ip link set dev {name} mtu {limit}` \
         (on a veth pair, both ends), or attach in generic mode (--generic)"
    )]
    InterfaceMtu {
        /// The interface.
        name: String,
        /// Its MTU, bytes.
        mtu: u32,
        /// The largest MTU native XDP takes, bytes.
        limit: u32,
    },
    /// The MTU asked for is larger than the interface's.
    #[error(
        "MTU {mtu} is more than the {limit} of interface \"{name}\": ask for less, or raise the interface's"
    )]
    MtuAboveInterface {
        /// The interface.
        name: String,
        /// The MTU asked for, bytes.
        mtu: u32,
        /// The interface's MTU, bytes.
        limit: u32,
    },
    /// The MTU leaves no room for data.
    #[error("MTU {mtu} is too small: Falcon with RDMA headers needs at least {minimum} bytes")]
    MtuTooSmall {
        /// The MTU, bytes.
        mtu: u32,
        /// The smallest MTU, bytes.
        minimum: u32,
    },
    /// An address that cannot be a node's.
    #[error("{address} cannot be a node's address: give a unicast address of the interface")]
    BadAddress {
        /// The address.
        address: IpAddr,
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
    /// The interface has an XDP program that is not ours.
    #[error(
        "interface \"{interface}\" already has an XDP program, id {id} (\"{name}\", {mode}): it is left alone; \
         detach it by what attached it, or replace it with --force"
    )]
    XdpOccupied {
        /// The interface.
        interface: String,
        /// The program's id.
        id: u32,
        /// The program's name.
        name: String,
        /// How it is attached.
        mode: String,
    },
    /// A trace is being taken already.
    #[error("a trace of this node is being taken already: wait for its end, or stop whoever takes it")]
    TraceRunning,
    /// A trace is to be taken of a node whose program is bound to the device.
    #[error(
        "no trace can be taken while the driver is asked for receive timestamps: bring the node up with \
         hardware_timestamps = false"
    )]
    TraceWithTimestamps,
    /// The trace's file could not be written.
    #[error("cannot write the trace to {}: {source}. {hint}", .file.display())]
    TraceFile {
        /// The file.
        file: PathBuf,
        /// What to do about it.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The driver does not do native XDP, or not as configured.
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
    /// What the programs tell is asked for, and they can tell nothing.
    #[error(
        "this build's XDP programs tell nothing: build it with the cargo feature bpf-log (--features transport-user/bpf-log)"
    )]
    NoBpfLog,
    /// The programs did not load.
    #[error("the kernel refused Tiercel's BPF programs: {0}. {hint}", hint = LOAD_HINT)]
    Load(String),
    /// The kernel lacks what the programs use. The sentence says what, and what to do.
    #[error("{0}")]
    Kernel(String),
    /// The object lacks a map or program; it was not built from this source.
    #[error("the built-in BPF object has no usable {0}: rebuild the project (cargo clean, then build again)")]
    Object(&'static str),
    /// The kernel knows no live frames in test runs.
    #[error(
        "this kernel cannot run XDP on live frames (BPF_F_TEST_XDP_LIVE_FRAMES): {0}. Boot Linux 6.9 or later"
    )]
    NoLiveFrames(io::Error),
    /// The options ask for the card's receive timestamps, and there are none.
    #[error(
        "no hardware timestamps on {interface}: {reason}. Leave hardware_timestamps out to have them wherever there are any"
    )]
    NoHardwareTimestamps {
        /// The interface.
        interface: String,
        /// Why there are none.
        reason: String,
    },
    /// The program that asks the driver for receive timestamps does not load.
    #[error(
        "the program that asks the driver for receive timestamps does not load: {0}. Set hardware_timestamps = false to do \
         without"
    )]
    Bind(String),
    /// A CPU that does not exist or that this process may not use.
    #[error(
        "the engine cannot run on CPU {cpu}: {source}. Choose one of those that `nproc` and `taskset -p` allow"
    )]
    Cpu {
        /// The CPU asked for.
        cpu: usize,
        /// The kernel's reason.
        source: io::Error,
    },
    /// An engine option out of its range.
    #[error("engine {option} {value} is out of range: {range}")]
    EngineOption {
        /// Which option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
    /// The signal for the engine belongs to the application.
    #[error(
        "the application handles or ignores signal {signal}: name another real-time signal for the engine, or none to have \
         a free one taken"
    )]
    SignalTaken {
        /// The signal.
        signal: i32,
    },
    /// A CID that does not fit 24 bits, or is 0.
    #[error("{0} is not a connection ID: it must lie in 1 to {max}", max = Cid::MAX)]
    BadCid(u32),
    /// A connection occupies the CID's slot.
    #[error(
        "CID {cid} is in use by connection {occupant} (they share slot {slot} of {slots}): choose another, or close \
         that one", cid = .cid.0, occupant = .occupant.0, slots = transport_common::queues::CONNECTIONS
    )]
    CidInUse {
        /// The CID asked for.
        cid: Cid,
        /// The CID that has the slot.
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
    /// A connection parameter out of its range.
    #[error("connection parameter {name} = {value} is out of range: {range}")]
    Parameter {
        /// The parameter, in the specification's words.
        name: &'static str,
        /// Its value.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
    /// A parameter of congestion control, or an option of the rate update engine, out of its range.
    #[error("congestion control: {0}")]
    CongestionParameter(#[from] OutOfRange),
    /// An algorithm of one's own where only those built in run.
    #[error("algorithm \"{name}\" is not built in: it runs with placement user only")]
    AlgorithmPlacement {
        /// Its name.
        name: &'static str,
    },
    /// No such algorithm was registered with the node.
    #[error("this node has no algorithm \"{name}\": there are {}; add one of one's own before a connection uses it", known.join(", "))]
    UnknownAlgorithm {
        /// The name asked for.
        name: &'static str,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// The name of an algorithm that cannot be registered.
    #[error(
        "an algorithm cannot be called \"{name}\": take a name that is free, of letters, digits, dashes and underscores"
    )]
    AlgorithmName {
        /// The name.
        name: &'static str,
    },
    /// A connection ended before other settings were in force.
    #[error("connection {0} ended before its congestion control was changed")]
    EndedMeanwhile(u32),
    /// Peer and node addresses of different IP versions.
    #[error("peer {peer} and node {own} are of different IP versions: use addresses of one version")]
    AddressFamily {
        /// The peer's address.
        peer: IpAddr,
        /// The node's address.
        own: IpAddr,
    },
    /// The next hop's MAC address is not known.
    #[error("no MAC address is known for {address} on \"{interface}\": {reason}")]
    NoNeighbour {
        /// The peer's address.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A region of no bytes.
    #[error("a memory region needs at least 1 byte")]
    EmptyRegion,
    /// The node's memory has no hole that large.
    #[error(
        "{asked} bytes of registered memory are not to be had: {free} bytes are free, {largest} in one piece. \
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
    /// Every region slot is taken.
    #[error("all {0} memory regions of this node are in use: deregister one")]
    NoFreeRegion(usize),
    /// R_Key 0, which is never valid.
    #[error("0 is never a valid R_Key: choose another, or none")]
    BadRKey,
    /// A region occupies the key's slot.
    #[error(
        "R_Key {key} is in use by region {occupant} (they share slot {slot} of {slots}): choose another, or \
         deregister that one", key = .key.0, occupant = .occupant.0, slots = transport_common::queues::REGIONS
    )]
    RKeyInUse {
        /// The key asked for.
        key: RKey,
        /// The key that has the slot.
        occupant: RKey,
        /// The slot.
        slot: usize,
    },
    /// An access beyond the end of a region.
    #[error("offset {offset} and length {length} exceed the region of {size} bytes")]
    OutOfBounds {
        /// Where the access starts.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// Bytes of the region.
        size: u64,
    },
    /// The node was brought down.
    #[error("the node is down: bring it up again")]
    NodeDown,
    /// A system call failed for a reason of the machine.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

const LOAD_HINT: &str =
    "Tiercel needs Linux 6.9 or later (may_goto) with BTF (/sys/kernel/btf/vmlinux) and the BPF JIT";

impl Error {
    /// A failed system call; `EPERM` and `EACCES` become [`Error::NotPermitted`].
    pub(crate) fn system(action: &'static str, source: impl Into<io::Error>) -> Self {
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
            "there is no interface \"veth9\" in this network namespace; there is: lo, eth0"
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
