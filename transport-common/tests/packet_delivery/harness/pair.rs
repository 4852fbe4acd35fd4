//! Two nodes with a perfect network between them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use transport_common::connection::Parameters;
use transport_common::units::Picoseconds;

use super::*;

/// Two nodes. `a` and `b` are peers.
pub(crate) struct Pair {
    pub(crate) a: Node,
    pub(crate) b: Node,
}

impl Pair {
    /// Creates a pair with the PSNs of the flows of section 6.6: requests from 100, pushes of `a` from 300,
    /// packets of `b` in the data window (its Pull Data) from 200. The first RSN is 1.
    pub(crate) fn new(ordered: bool) -> Self {
        Self::with(&parameters(ordered, initial(100, 300, 1), initial(100, 200, 1)))
    }

    pub(crate) fn with(p: &Parameters) -> Self {
        Self { a: Node::new(p), b: Node::new(&mirrored(p)) }
    }

    /// Carries packets both ways without loss, until both ends are idle.
    pub(crate) fn exchange(&mut self, now: Picoseconds) {
        for _ in 0..1000 {
            let mut from_a: VecDeque<Wire> = self.a.drain(now).into();
            let mut from_b: VecDeque<Wire> = self.b.drain(now).into();
            if from_a.is_empty() && from_b.is_empty() {
                return;
            }
            while let (Some(wire), to_b) = match from_a.pop_front() {
                Some(wire) => (Some(wire), true),
                None => (from_b.pop_front(), false),
            } {
                if to_b {
                    from_b.extend(self.b.receive(&wire, now));
                } else {
                    from_a.extend(self.a.receive(&wire, now));
                }
            }
        }
        panic!("the two ends never become idle");
    }

    /// Lets time pass in steps of 10 us, without loss.
    pub(crate) fn run(&mut self, from_micros: u64, micros: u64) {
        for step in 0..=micros / 10 {
            self.exchange(at(from_micros + step * 10));
        }
    }

    /// Asserts that every packet is acknowledged, every transaction is complete, and every cell and response slot
    /// is free.
    pub(crate) fn assert_idle(&self) {
        for node in [&self.a, &self.b] {
            let c = &node.entry.connection;
            for w in [&c.flow.delivery.data().tx, &c.flow.delivery.request().tx] {
                assert_eq!(w.base, w.next, "everything is acknowledged");
                assert_eq!((w.outstanding_requests, w.outstanding_retransmitted), (0, 0));
                assert!(w.acknowledged.is_zero() && w.retransmit.is_zero() && w.pull_data.is_zero());
            }
            assert!(
                c.flow.delivery.data().rx.received.is_zero()
                    && c.flow.delivery.request().rx.received.is_zero()
            );
            assert_eq!(c.initiator.brsn.0, node.queues().send_producer.load(Ordering::Relaxed));
            assert_eq!(c.target.response_head, c.target.response_tail);
            assert_eq!(c.target.held, 0);
            assert_eq!((c.initiator.open_pulls, c.initiator.released), (0, c.initiator.brsn));
            assert_eq!(node.free_cells(), CELLS, "every cell is free");
            assert!(
                node.entry.tables.requests.iter().all(|r| r.state == RequestState::Free),
                "every request is finished"
            );
        }
    }
}
