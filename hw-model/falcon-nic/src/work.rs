//! The effect of a step on its connection, found by comparing the connection before and after the step.

use transport_common::connection::{Connection, Snapshot, Statistics};

/// The effect of a step on its connection. It decides the sub-blocks that the step needs, and the kind of the
/// event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepWork {
    /// Number of packets that left the transmit windows.
    pub acknowledged: u32,
    /// Number of completions written.
    pub completions: u32,
    /// True if an ACK or NACK was processed.
    pub acknowledgement: bool,
    /// True if the set of packets to retransmit changed.
    pub retransmission: bool,
    /// True if the state of a transaction changed, on the initiator or the target side.
    pub transaction: bool,
    /// True if a request is held for its order.
    pub held: bool,
    /// True if the inline rate update engine had an event.
    pub decided: bool,
    /// True if the ACK coalescing changed, or an ACK is built.
    pub coalescing: bool,
    /// True if a packet is sent for the first time.
    pub sent_new: bool,
    /// True if a packet is retransmitted.
    pub sent_again: bool,
}

/// The state of a connection before a step.
pub(super) struct Before {
    connection: Connection,
    statistics: Statistics,
}

impl Before {
    pub(super) const fn of(entry: &Snapshot) -> Self {
        Self { connection: entry.connection, statistics: entry.tables.statistics }
    }

    /// Returns the changes since then.
    pub(super) fn work(&self, entry: &Snapshot) -> StepWork {
        let (old, new) = (&self.connection, &entry.connection);
        let (counted, counts) = (&self.statistics, &entry.tables.statistics);
        let left = |old: u32, new: u32| new.wrapping_sub(old);
        let acks = |of: &Statistics| of.backs_sent + of.eacks_sent + of.nacks_sent;
        StepWork {
            acknowledged: left(old.flow.delivery.data().tx.base.0, new.flow.delivery.data().tx.base.0)
                + left(old.flow.delivery.request().tx.base.0, new.flow.delivery.request().tx.base.0),
            completions: (new.initiator.completed - old.initiator.completed) as u32,
            acknowledgement: counts.acks_received != counted.acks_received,
            retransmission: old.flow.delivery.data().tx.retransmit != new.flow.delivery.data().tx.retransmit
                || old.flow.delivery.request().tx.retransmit != new.flow.delivery.request().tx.retransmit
                || counted.retransmissions() != counts.retransmissions(),
            transaction: old.initiator != new.initiator || old.target != new.target,
            held: counts.held != counted.held,
            // Only an inline engine has an event and a result in one step. With an external engine, the result
            // comes without an event, and an event brings no result.
            decided: counts.congestion_events != counted.congestion_events
                && counts.congestion_results != counted.congestion_results,
            coalescing: old.flow.delivery.ack != new.flow.delivery.ack || acks(counted) != acks(counts),
            sent_new: counts.packets_sent != counted.packets_sent,
            sent_again: counted.retransmissions() != counts.retransmissions(),
        }
    }
}

impl StepWork {
    /// Returns true if the transmit windows advanced, or an acknowledgement was processed.
    pub(super) const fn acknowledges(&self) -> bool {
        self.acknowledgement || self.acknowledged != 0
    }

    /// Returns the combined work of both.
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
