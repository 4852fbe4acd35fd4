//! What travels between the two ends.

use transport_common::ids::{Psn, Rsn};

/// Solicited sequence number: counts the solicited pushes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ssn(pub u32);

/// A sliding window of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// Of requests.
    Request,
    /// Of data and of grants.
    Data,
}

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// `pushSlctdReq`: may so many bytes be sent?
    PushSolicitedRequest {
        /// Its place among the solicited pushes.
        ssn: Ssn,
        /// Bytes to be sent.
        bytes: u32,
    },
    /// `pullReq`: send so many bytes.
    PullRequest {
        /// Bytes wanted.
        bytes: u32,
    },
    /// `pushGrnt`: the bytes may be sent.
    PushGrant {
        /// Of the request.
        ssn: Ssn,
    },
    /// `pushSlctdData`
    PushSolicitedData {
        /// Bytes sent.
        bytes: u32,
    },
    /// `pushUnslctdData`
    PushUnsolicitedData {
        /// Bytes sent.
        bytes: u32,
    },
    /// `pullData`
    PullData {
        /// Bytes sent.
        bytes: u32,
    },
}

impl Body {
    /// The window that the packet is in.
    #[must_use]
    pub const fn window(&self) -> Window {
        match self {
            Self::PushSolicitedRequest { .. } | Self::PullRequest { .. } => Window::Request,
            _ => Window::Data,
        }
    }
}

/// A packet that a sliding window delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its number in its window.
    pub psn: Psn,
    /// The request it belongs to.
    pub rsn: Rsn,
    /// What it says.
    pub body: Body,
}

/// An acknowledgement: all packets before these numbers are received and, where they have data, placed. Not in any
/// window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Of the request window.
    pub request: Psn,
    /// Of the data window.
    pub data: Psn,
}

/// What one end sends to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// In a window.
    Packet(Packet),
    /// Not in a window.
    Ack(Ack),
}

/// First numbers of the two windows of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Of the request window.
    pub request: Psn,
    /// Of the data window.
    pub data: Psn,
}

/// A message that does not belong to the connection, or a request that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SolicitationError {
    /// Twice, or too far ahead.
    #[error("number {number} is not one of the {window} from {base} on that may come")]
    OutOfWindow {
        /// The number.
        number: u32,
        /// The first that may come.
        base: u32,
        /// How many may come.
        window: u32,
    },
    /// The other end sends such packets, not this one.
    #[error("{0:?} comes from the wrong side")]
    WrongSide(Body),
    /// A grant without request.
    #[error("request {0:?} waits for no grant")]
    NotSolicited(Rsn),
    /// More than all of the target's room.
    #[error("{bytes} bytes can never be granted: the target has room for {limit}")]
    TooLarge {
        /// Bytes of the push.
        bytes: u32,
        /// Bytes of the room.
        limit: u64,
    },
    /// The ULP acknowledges what it was not asked, or not in order.
    #[error("the ULP acknowledges {0:?} out of turn")]
    OutOfTurn(Rsn),
}
