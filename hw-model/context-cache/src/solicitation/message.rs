//! The messages between the two ends.

use transport_common::ids::{Psn, Rsn};

/// Solicited sequence number. It counts the solicited pushes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ssn(pub u32);

/// One of the two sliding windows of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// The window of requests.
    Request,
    /// The window of data and grants.
    Data,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// `pushSlctdReq`: asks to send this many bytes.
    PushSolicitedRequest {
        /// Its number among the solicited pushes.
        ssn: Ssn,
        /// Bytes to be sent.
        bytes: u32,
    },
    /// `pullReq`: asks the target to send this many bytes.
    PullRequest {
        /// Bytes requested.
        bytes: u32,
    },
    /// `pushGrnt`: allows the initiator to send the bytes.
    PushGrant {
        /// The SSN of the request.
        ssn: Ssn,
    },
    /// `pushSlctdData`: the data of a solicited push.
    PushSolicitedData {
        /// Bytes sent.
        bytes: u32,
    },
    /// `pushUnslctdData`: the data of an unsolicited push.
    PushUnsolicitedData {
        /// Bytes sent.
        bytes: u32,
    },
    /// `pullData`: the data of a pull.
    PullData {
        /// Bytes sent.
        bytes: u32,
    },
}

impl Body {
    /// Returns the window that the packet is in.
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
    /// The number of the packet in its window.
    pub psn: Psn,
    /// The request that the packet belongs to.
    pub rsn: Rsn,
    /// The content.
    pub body: Body,
}

/// An acknowledgement. All packets before these numbers are received. If they carry data, the data is placed. An
/// acknowledgement is in no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The number for the request window.
    pub request: Psn,
    /// The number for the data window.
    pub data: Psn,
}

/// A message from one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet in a window.
    Packet(Packet),
    /// An acknowledgement, which is in no window.
    Ack(Ack),
}

/// The first packet numbers of the two windows of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The first number of the request window.
    pub request: Psn,
    /// The first number of the data window.
    pub data: Psn,
}

/// A message that does not belong to the connection, or a request that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SolicitationError {
    /// The number was received before, or it is too far ahead.
    #[error("number {number} is a duplicate or not in the window of {window} numbers from {base} on")]
    OutOfWindow {
        /// The number.
        number: u32,
        /// The first number in the window.
        base: u32,
        /// The size of the window.
        window: u32,
    },
    /// Only the other side of a connection sends such packets.
    #[error("{0:?} comes from the wrong side of the connection")]
    WrongSide(Body),
    /// A grant for which no request waits.
    #[error("request {0:?} does not wait for a grant")]
    NotSolicited(Rsn),
    /// A push that is larger than all of the target's space.
    #[error("{bytes} bytes can never be granted: the target has space for {limit} bytes")]
    TooLarge {
        /// Bytes of the push.
        bytes: u32,
        /// Bytes of the target's space.
        limit: u64,
    },
    /// The ULP acknowledged a request that is not the oldest one it was given, or pull data came for a request
    /// that is not an open pull.
    #[error("request {0:?} is not the one whose turn it is, or is not open")]
    OutOfTurn(Rsn),
}
