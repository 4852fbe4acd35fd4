//! What the ends of a connection have told their applications and each other, watched at every step.
//!
//! The applications look now and then, and the oracle at the end. The ledger sees a completion in the step that writes it,
//! and an acknowledgement in the step that decides it, so what is wrong is found where it happens.

use core::sync::atomic::Ordering::Relaxed;

use host_nic::HostNic;
use transport_common::bitmap::Bitmap128;
use transport_common::connection::{Snapshot, State};
use transport_common::ids::Psn;
use transport_common::packet_delivery::{PACKETS, PacketFlags, ReceiveWindow, Window};
use transport_common::queues::{COMPLETION_QUEUE_DEPTH, Completion, QueuePair, Verb, WorkFlags};
use transport_common::wire::PacketType;

use super::application::Flow;

/// Transactions of one end that have ended, by number.
#[derive(Debug, Default)]
struct Set {
    words: Vec<u64>,
    last: Option<u32>,
    count: u32,
}

impl Set {
    fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// Adds a number. Returns false if it was there.
    fn insert(&mut self, number: u32) -> bool {
        let place = number as usize / 64;
        if place >= self.words.len() {
            self.words.resize(place + 1, 0);
        }
        let (word, bit) = (&mut self.words[place], 1 << (number % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        self.last = self.last.max(Some(number));
        self.count += u32::from(is_new);
        is_new
    }
}

/// The ledger of one end.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Completions seen so far.
    seen: u32,
    /// Own transactions that were reported.
    ended: Set,
    /// Transactions of the peer that completed a receive here.
    arrived: Set,
    /// Own transactions before this one may be forgotten.
    released: u32,
}

/// Whether a completion queue has no place for another completion.
pub(super) fn is_full(queues: &QueuePair) -> bool {
    let [written, taken] =
        [&queues.completion_producer, &queues.completion_consumer].map(|n| n.load(Relaxed));
    written.wrapping_sub(taken) >= COMPLETION_QUEUE_DEPTH as u32
}

impl Ledger {
    /// Looks at what a step has written. `own` has the operations of this end, `peers` those of the other. Returns the own
    /// transactions whose completion is lost, by number: that of one that ends when its connection is closed, if it finds
    /// the queue full. No other completion may be lost.
    ///
    /// # Panics
    /// If a transaction ends a second time or is forgotten before it has ended, or if a receive is consumed out of turn or
    /// without a completion.
    pub(super) fn look(
        &mut self,
        queues: &QueuePair,
        entry: &Snapshot,
        own: &Flow,
        peers: &Flow,
    ) -> Vec<u32> {
        let mut lost = vec![];
        while let Some(completion) = queues.completion_queue().get(self.seen) {
            self.seen = self.seen.wrapping_add(1);
            if matches!(completion.opcode, Verb::RECEIVE | Verb::RECEIVE_IMMEDIATE) {
                self.arrive(&completion, peers);
            } else {
                let number = completion.wr_id as u32;
                let in_order = !own.ordered || self.ended.last.is_none_or(|last| last < number);
                assert!(self.ended.insert(number), "F-6.1-2: operation {number} ended twice: {completion:?}");
                assert!(in_order, "F-8.4.2-1: operation {number} ended after {:?}", self.ended.last);
            }
        }
        let consumed = queues.receive_consumer.load(Relaxed);
        assert_eq!(
            consumed, self.arrived.count,
            "F-6.1-1: each receive that is consumed has one completion, also if the queue was full"
        );
        let end = entry.connection.initiator.brsn.distance_from(own.first);
        while self.released < end {
            let op = &own.ops[self.released as usize];
            let reported = self.ended.contains(self.released);
            if !reported && op.work.flags.contains(WorkFlags::SIGNALED) {
                let closes = [State::Closing, State::Closed].contains(&entry.connection.state);
                assert!(
                    closes && is_full(queues),
                    "F-6.1-2: operation {} is forgotten and was not reported",
                    self.released
                );
                lost.push(self.released);
            }
            self.released += 1;
        }
        lost
    }

    fn arrive(&mut self, completion: &Completion, peers: &Flow) {
        let number = peers.nth(completion.rsn);
        assert!((number as usize) < peers.ops.len(), "a message that nobody sent: {completion:?}");
        let in_order = !peers.ordered || self.arrived.last.is_none_or(|last| last < number);
        assert!(in_order, "F-5-1: message {number} arrived after {:?}", self.arrived.last);
        assert_eq!(
            completion.wr_id,
            u64::from(self.arrived.count),
            "receives are consumed in turn, each once"
        );
        assert!(self.arrived.insert(number), "message {number} arrived twice");
    }

    /// Checks the pushes that a step has acknowledged: the ULP of this end has accepted each. `before` is the window before
    /// the step, `sender` the connection at the other end, `flow` has its operations.
    ///
    /// # Panics
    /// If there is nothing of one of them.
    pub(super) fn check_acknowledged(
        &self,
        before: &ReceiveWindow,
        target: (&HostNic, &Snapshot),
        sender: &Snapshot,
        flow: &Flow,
    ) {
        let (nic, entry) = target;
        let sent = &sender.connection.flow.delivery.data().tx;
        for psn in newly_acknowledged(before, &entry.connection.flow.delivery.data().rx) {
            if psn.distance_from(sent.base) >= sent.in_flight() {
                continue; // the sender has given up meanwhile
            }
            let packet = &sender.tables.delivery.packets[Window::Data as usize][psn.0 as usize % PACKETS];
            // What stands for a push that was given up may be acknowledged in its place (F-9.1.8-2).
            if packet.kind == PacketType::PushData && !packet.flags.contains(PacketFlags::RESYNC) {
                let number = packet.rsn.distance_from(flow.first);
                assert!(
                    flow.shows_acceptance(number, nic, self.arrived.contains(number)),
                    "F-6.1.1.1-2: operation {number} is acknowledged, and its ULP has not accepted it"
                );
            }
        }
    }
}

#[cfg(test)]
impl Ledger {
    /// Whether it has seen so many completions.
    pub(super) const fn has_seen(&self, completions: u32) -> bool {
        self.seen >= completions
    }

    /// Takes all completions for new ones.
    pub(super) const fn look_again(&mut self) {
        self.seen = 0;
    }

    /// Takes all transactions for open.
    pub(super) fn forget(&mut self) {
        self.ended = Set::default();
        self.released = 0;
    }
}

/// Returns the PSNs that are acknowledged now and were not before.
fn newly_acknowledged(before: &ReceiveWindow, after: &ReceiveWindow) -> impl Iterator<Item = Psn> {
    let moved = after.base.distance_from(before.base);
    let passed = Bitmap128::low_mask(moved).and_not(before.acknowledged);
    let base = after.base;
    let old = before.base;
    let known = before.acknowledged;
    let mut behind = passed;
    let mut ahead = after.acknowledged;
    let first = core::iter::from_fn(move || behind.take_lowest()).map(move |offset| old.add(offset));
    let second = core::iter::from_fn(move || ahead.take_lowest());
    let is_new = move |offset: &u32| offset + moved >= 128 || !known.get(offset + moved);
    first.chain(second.filter(is_new).map(move |offset| base.add(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_by_a_step_is_found_before_and_after_the_base() {
        let window = |base: u32, acknowledged: &[u32]| {
            let mut window = ReceiveWindow { base: Psn(base), ..ReceiveWindow::default() };
            acknowledged.iter().for_each(|offset| window.acknowledged.set(*offset));
            window
        };
        let new = |before, after| newly_acknowledged(&before, &after).map(|psn| psn.0).collect::<Vec<_>>();
        assert_eq!(new(window(u32::MAX, &[1, 4]), window(2, &[1, 3])), [u32::MAX, 1, 5]);
        assert_eq!(new(window(7, &[]), window(7, &[])), [] as [u32; 0]);
        assert_eq!(new(window(7, &[]), window(135, &[2])).len(), 129);
    }

    #[test]
    fn a_set_knows_what_is_in_it() {
        let mut set = Set::default();
        assert!(set.insert(70) && set.insert(3) && !set.insert(70));
        assert_eq!((set.count, set.last, set.contains(70), set.contains(4)), (2, Some(70), true, false));
    }
}
