//! The errors of the library. Each text says what is wrong and what to do.

use std::io;
use std::net::IpAddr;

use transport_common::congestion::parameters::OutOfRange;
use transport_common::ids::{Cid, RKey};

use crate::common::error_kind::ErrorKind;
use crate::quantity::format_size;

/// Why a connection could not be opened or changed, or memory not be registered. A program that does not care which of them it
/// is acts on [`Error::kind`]:
///
/// ```
/// use tiercel::{Error, ErrorKind};
///
/// /// Opens with a CID that the application prefers, or else with any.
/// fn open<T>(open: impl Fn(Option<u32>) -> Result<T, Error>, preferred: u32) -> Result<T, Error> {
///     match open(Some(preferred)) {
///         Err(error) if error.kind() == ErrorKind::InUse => open(None),
///         opened => opened,
///     }
/// }
/// # let opened = open(|cid| cid.map_or(Ok(7), |cid| Err(Error::BadCid(cid))), 5);
/// # assert!(matches!(opened, Err(Error::BadCid(5))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not permit what a node or a handle does: for example to load BPF programs.
    #[error(
        "not permitted to {action}: run as root (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are needed); if you are root \
         already, check whether the kernel is locked down (/sys/kernel/security/lockdown)"
    )]
    NotPermitted {
        /// The action that the kernel refused.
        action: &'static str,
        /// The kernel's reason.
        source: io::Error,
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
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
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

/// Why the inner addresses of a tunnel cannot be used (F-7.1.2-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The addresses are of different IP versions.
    #[error("the inner addresses {local} and {peer} differ in IP version: use the same for both")]
    Versions {
        /// Inner address of this end.
        local: IpAddr,
        /// Inner address of the peer.
        peer: IpAddr,
    },
    /// An address is not that of one host.
    #[error("the inner address {0} is not that of one host: use a unicast address")]
    NoHost(IpAddr),
    /// Both ends have the same address.
    #[error("both inner addresses are {0}: use a different one for each end")]
    Equal(IpAddr),
}

impl Error {
    /// Makes the error of a failed system call. `EPERM` and `EACCES` become [`Error::NotPermitted`].
    pub fn system(action: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { action, source },
            _ => Self::System { action, source },
        }
    }

    /// Returns its kind, for programs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotPermitted { .. } => ErrorKind::NotPermitted,
            Self::BadCid(_)
            | Self::Parameter { .. }
            | Self::CongestionParameter(_)
            | Self::AlgorithmPlacement { .. }
            | Self::AlgorithmName { .. }
            | Self::AddressFamily { .. }
            | Self::Tunnel(_)
            | Self::EmptyRegion
            | Self::NodeMemory { .. }
            | Self::BadRKey
            | Self::OutOfBounds { .. } => ErrorKind::Invalid,
            Self::UnknownCid(_) | Self::UnknownAlgorithm { .. } => ErrorKind::NotFound,
            Self::CidInUse { .. } | Self::RKeyInUse { .. } | Self::ResetAlready(_) => ErrorKind::InUse,
            Self::NoFreeCid(_)
            | Self::NoFreeRegion(_)
            | Self::OutOfMemory { .. }
            | Self::NoNodeMemory { .. } => ErrorKind::Exhausted,
            Self::EndedMeanwhile(_) => ErrorKind::ConnectionLost,
            Self::NodeDown => ErrorKind::NodeDown,
            Self::System { .. } => ErrorKind::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_thing_and_the_remedy() {
        let in_use = Error::CidInUse { cid: Cid(261), occupant: Cid(5), slot: 5 };
        assert!(
            in_use.to_string().starts_with("CID 261 is in use by connection 5 (they share slot 5 of 256)")
        );
        assert_eq!(in_use.kind(), ErrorKind::InUse);
    }

    #[test]
    fn permission_errors_are_told_apart() {
        let failed = |code| Error::system("load", io::Error::from_raw_os_error(code));
        let denied = failed(libc::EPERM);
        assert!(matches!(denied, Error::NotPermitted { action: "load", .. }));
        assert_eq!(denied.kind(), ErrorKind::NotPermitted);
        let other = failed(libc::ENOMEM);
        assert!(matches!(other, Error::System { action: "load", .. }));
        assert_eq!(other.kind(), ErrorKind::Io);
        for (error, code) in [(denied, libc::EPERM), (other, libc::ENOMEM)] {
            let source = std::error::Error::source(&error).expect("the kernel's reason");
            let source = source.downcast_ref::<io::Error>().expect("that of the system call");
            assert_eq!(source.raw_os_error(), Some(code));
        }
    }
}
