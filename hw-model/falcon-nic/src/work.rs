//! What a step did to its connection, seen from before and after.

use transport_common::connection::{Connection, Entry, Statistics};

/// What a step of a connection did: the sub-blocks it needed, and what the event is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepWork {
    /// Packets that left the transmit windows.
    pub acknowledged: u32,
    /// Completions written.
    pub completions: u32,
    /// An ACK or NACK was used.
    pub acknowledgement: bool,
    /// The set of packets to be sent again changed.
    pub retransmission: bool,
    /// The state of a transaction, ours or the peer's, changed.
    pub transaction: bool,
    /// A request is held for its order.
    pub held: bool,
    /// The rate update engine inline had an event.
    pub decided: bool,
    /// The coalescing of ACKs was touched, or an ACK is to be built.
    pub coalescing: bool,
    /// A packet is sent for the first time.
    pub sent_new: bool,
    /// A packet is sent again.
    pub sent_again: bool,
}

/// A connection before a step.
pub(super) struct Before {
    connection: Connection,
    statistics: Statistics,
}

impl Before {
    pub(super) const fn of(entry: &Entry) -> Self {
        Self { connection: entry.connection, statistics: entry.tables.statistics }
    }

    /// What was done since then.
    pub(super) fn work(&self, entry: &Entry) -> StepWork {
        let (old, new) = (&self.connection, &entry.connection);
        let (counted, counts) = (&self.statistics, &entry.tables.statistics);
        let left = |old: u32, new: u32| new.wrapping_sub(old);
        let resent = |of: &Statistics| of.retransmitted_early + of.retransmitted_timeout;
        let acks = |of: &Statistics| of.backs_sent + of.eacks_sent + of.nacks_sent;
        StepWork {
            acknowledged: left(old.delivery.data().tx.base.0, new.delivery.data().tx.base.0)
                + left(old.delivery.request().tx.base.0, new.delivery.request().tx.base.0),
            completions: (new.initiator.completed - old.initiator.completed) as u32,
            acknowledgement: counts.acks_received != counted.acks_received,
            retransmission: old.delivery.data().tx.retransmit != new.delivery.data().tx.retransmit
                || old.delivery.request().tx.retransmit != new.delivery.request().tx.retransmit
                || resent(counted) != resent(counts),
            transaction: old.initiator != new.initiator || old.target != new.target,
            held: counts.held != counted.held,
            // A result of an engine outside comes without an event, and one for it brings no result.
            decided: counts.congestion_events != counted.congestion_events
                && counts.congestion_results != counted.congestion_results,
            coalescing: old.delivery.ack != new.delivery.ack || acks(counted) != acks(counts),
            sent_new: counts.packets_sent != counted.packets_sent,
            sent_again: resent(counted) != resent(counts),
        }
    }
}

impl StepWork {
    /// Whether the transmit windows moved, or were looked at for it.
    pub(super) const fn acknowledges(&self) -> bool {
        self.acknowledgement || self.acknowledged != 0
    }

    /// Both.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            acknowledged: self.acknowledged + other.acknowledged,
            completions: self.completions + other.completions,
            acknowledgement: self.acknowledgement | other.acknowledgement,
            retransmission: self.retransmission | other.retransmission,
            transaction: self.transaction | other.transaction,
            held: self.held | other.held,
            decided: self.decided | other.decided,
            coalescing: self.coalescing | other.coalescing,
            sent_new: self.sent_new | other.sent_new,
            sent_again: self.sent_again | other.sent_again,
        }
    }
}
