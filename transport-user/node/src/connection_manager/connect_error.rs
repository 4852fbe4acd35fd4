//! Why a connection could not be opened, in words that say what to do.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tiercel::ErrorKind;

use super::blocked::Blocked;
use super::capabilities::Missing;
use super::host::HostError;
use super::message::{Rejection, WireError};
use crate::common::open_files;

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No program listens at the address of the peer.
    #[error("{peer} refused: no node listens there; start one with `tiercel up`, or check address and port")]
    Refused {
        /// The peer.
        peer: SocketAddr,
    },
    /// The peer does not answer.
    #[error("{peer} does not answer: check that the host is up and the port is not filtered")]
    Timeout {
        /// The peer.
        peer: SocketAddr,
    },
    /// The network reports an error.
    #[error("cannot connect to {peer}: {source}; {}", remedy(source))]
    Network {
        /// The peer.
        peer: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The peer rejected the connection.
    #[error("{peer} declined: {text}")]
    Rejected {
        /// The peer.
        peer: SocketAddr,
        /// The reason, for programs.
        reason: Rejection,
        /// The reason, as the peer's text.
        text: String,
    },
    /// The peer violated the protocol, or the TCP connection ended.
    #[error("{peer} is not a Tiercel connection manager, or it failed during the handshake: {source}")]
    Protocol {
        /// The peer.
        peer: SocketAddr,
        /// The error.
        source: WireError,
    },
    /// The peer is of a release that this one cannot talk to.
    #[error("cannot connect to {peer}: {source}")]
    Release {
        /// The peer.
        peer: SocketAddr,
        /// [`WireError::Version`] or [`WireError::Capability`].
        source: WireError,
    },
    /// The connection needs a capability that is not common to both ends.
    #[error("cannot connect to {peer}: {missing}")]
    Capability {
        /// The peer.
        peer: SocketAddr,
        /// What is missing.
        missing: Missing,
    },
    /// The peer's offer cannot be accepted.
    #[error("the offer of {peer} cannot be accepted: {text}")]
    Offer {
        /// The peer.
        peer: SocketAddr,
        /// The reason.
        text: String,
    },
    /// The data path does not carry Falcon packets, though TCP reaches the peer.
    #[error("TCP reaches {peer}, but {blocked}")]
    DataPath {
        /// The peer.
        peer: SocketAddr,
        /// What does not pass.
        blocked: Blocked,
    },
    /// The address is that of this node, or has another IP version.
    #[error(
        "{peer} cannot be a peer of this node ({own}): use the address of another host, of the same IP version"
    )]
    Unsuitable {
        /// The peer.
        peer: IpAddr,
        /// This node's address.
        own: IpAddr,
    },
    /// The patience cannot be used.
    #[error("a patience of this length cannot be kept: choose one from 100 ms to 1 h")]
    Patience,
    /// This end could not open its half.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl ConnectError {
    /// Returns its kind, for programs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { .. } | Self::Offer { .. } => ErrorKind::Refused,
            Self::Timeout { .. } | Self::DataPath { .. } => ErrorKind::TimedOut,
            Self::Network { .. } => ErrorKind::Io,
            Self::Rejected { reason, .. } => match reason {
                Rejection::Version | Rejection::Capability => ErrorKind::Unsupported,
                Rejection::TableFull | Rejection::Busy => ErrorKind::Exhausted,
                Rejection::Offer | Rejection::Node | Rejection::Unknown | Rejection::Other => {
                    ErrorKind::Refused
                }
            },
            Self::Protocol { source, .. } | Self::Release { source, .. } => source.kind(),
            Self::Capability { .. } => ErrorKind::Unsupported,
            Self::Unsuitable { .. } | Self::Patience => ErrorKind::Invalid,
            Self::Host(error) => error.kind(),
        }
    }
}

/// Returns why the messages of the peer led to no connection.
pub(super) fn broken(peer: SocketAddr, source: WireError) -> ConnectError {
    match source {
        WireError::Version(_) | WireError::Capability(_) => ConnectError::Release { peer, source },
        _ => ConnectError::Protocol { peer, source },
    }
}

/// Returns why TCP did not reach the peer.
pub(super) fn classify(peer: SocketAddr, source: io::Error) -> ConnectError {
    match source.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::Refused { peer },
        io::ErrorKind::TimedOut => ConnectError::Timeout { peer },
        _ => ConnectError::Network { peer, source },
    }
}

fn remedy(source: &io::Error) -> &'static str {
    if let Some(remedy) = open_files::remedy(source) {
        return remedy;
    }
    match source.kind() {
        io::ErrorKind::HostUnreachable => {
            "no host answers for this address: check that the host is up, on the same network and has this address"
        }
        io::ErrorKind::NetworkUnreachable => "there is no route to it: see `ip route get`, and add a route",
        io::ErrorKind::AddrNotAvailable => {
            "the node's address is no longer on its interface: add it again (`ip address add`)"
        }
        _ => "check the interface (`ip link`), the route to the peer (`ip route get`) and the firewall",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_host_out_of_reach_has_its_remedy() {
        let peer = SocketAddr::from(([10, 7, 0, 9], 4792));
        let text = |code| classify(peer, io::Error::from_raw_os_error(code)).to_string();
        assert!(text(libc::EHOSTUNREACH).contains("check that the host is up"));
        assert!(text(libc::ENETUNREACH).contains("ip route get"));
    }

    #[test]
    fn programs_act_on_the_kind_of_a_failure() {
        let peer = SocketAddr::from(([10, 7, 0, 9], 4792));
        let kind = |code| classify(peer, io::Error::from_raw_os_error(code)).kind();
        assert_eq!(
            [libc::ECONNREFUSED, libc::ETIMEDOUT, libc::EHOSTUNREACH].map(kind),
            [ErrorKind::Refused, ErrorKind::TimedOut, ErrorKind::Io]
        );
        let rejected = |reason| ConnectError::Rejected { peer, reason, text: "no".into() }.kind();
        assert_eq!(rejected(Rejection::TableFull), ErrorKind::Exhausted);
        assert_eq!(rejected(Rejection::Offer), ErrorKind::Refused);
        let silent = || WireError::Silent(Duration::from_secs(1));
        assert_eq!(broken(peer, silent()).kind(), ErrorKind::TimedOut);
        assert_eq!(broken(peer, WireError::Capability("x".into())).kind(), ErrorKind::Unsupported);
        let host = HostError::Refused { kind: ErrorKind::NodeDown, text: "down".into() };
        assert_eq!(ConnectError::from(host).kind(), ErrorKind::NodeDown);
    }

    #[test]
    fn a_node_without_a_file_descriptor_does_not_blame_the_network() {
        let peer = SocketAddr::from(([10, 7, 0, 9], 4792));
        let text = classify(peer, io::Error::from_raw_os_error(libc::EMFILE)).to_string();
        assert!(text.contains("ulimit -n") && !text.contains("firewall"), "{text}");
    }
}
