//! Who causes an event, and how much attention it needs.

use super::admission::Source;

/// Who causes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// The node or its user. Such events are not limited: there is one for each thing that the user does.
    Node,
    /// A peer that has, or had, a connection.
    Peer(Source),
    /// A host whose handshake has not led to a connection.
    Stranger(Source),
    /// Peers that are too many to be told apart.
    Peers,
    /// Strangers that are too many to be told apart, or whose events do not name them.
    Strangers,
}

impl Origin {
    pub(super) fn is_stranger(self) -> bool {
        matches!(self, Self::Stranger(_) | Self::Strangers)
    }
}

/// How much attention an event needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Everything is in order.
    Note,
    /// Something failed.
    Warning,
}
