//! The target, with a ULP that is not RDMA.

extern crate std;

use std::boxed::Box;
use std::vec::Vec;

use super::super::{
    Arrived, Duplicate, RESPONSES, RequestFlags, RequestState, Response, ResponseState, TRANSACTIONS, Target,
    TargetRequest,
};
use crate::ids::{CellId, Psn, Rsn};
use crate::units::FalconTime;
use crate::wire::nack::rnr_timeout;

const NOW: FalconTime = FalconTime(1000);
/// 1.28 ms.
const FIRST_CODE: u8 = 14;

struct Part {
    target: Target,
    table: Box<[TargetRequest; TRANSACTIONS]>,
}

impl Part {
    fn new(ordered: bool) -> Self {
        let table = Box::new([TargetRequest::default(); TRANSACTIONS]);
        Self { target: Target::new(Rsn(1), ordered, FIRST_CODE), table }
    }

    fn key(&self, rsn: u32, pull: bool) -> u32 {
        self.target.key(Rsn(rsn), Psn(300 + rsn), pull)
    }

    fn arrived(&self, rsn: u32, pull: bool) -> Arrived {
        self.target.arrived(&self.table, self.key(rsn, pull), Rsn(rsn), pull)
    }

    /// Puts a request into the cell with its RSN.
    fn hold(&mut self, rsn: u32, pull: bool) {
        let flags = if pull { RequestFlags::PULL } else { RequestFlags::empty() };
        let request = TargetRequest {
            rsn: Rsn(rsn),
            psn: Psn(300 + rsn),
            cell: CellId(rsn),
            state: RequestState::Held,
            flags,
            ..TargetRequest::default()
        };
        let key = self.key(rsn, pull);
        self.target.held(&mut self.table, key, request);
    }

    fn not_ready(&mut self, rsn: u32, now: FalconTime) -> u8 {
        self.not_ready_for(rsn, false, now)
    }

    fn not_ready_for(&mut self, rsn: u32, pull: bool, now: FalconTime) -> u8 {
        let key = self.key(rsn, pull);
        self.target.not_ready(&mut self.table, key, now)
    }

    fn next(&mut self) -> Option<u32> {
        self.target.next_held(&mut self.table).map(|held| held.request.rsn.0)
    }

    /// Delivers a request. Returns the cell that held it.
    fn deliver(&mut self, rsn: u32, pull: bool) -> CellId {
        let key = self.key(rsn, pull);
        self.target.delivered(key, Rsn(rsn), pull);
        self.target.free(&mut self.table, key)
    }
}

/// F-8.5.1-2, D-53: what to do with a request, by its RSN.
#[test]
fn it_decides_by_the_order() {
    let mut part = Part::new(true);
    assert_eq!(part.arrived(1, false), Arrived::Deliver);
    assert_eq!(part.arrived(2, true), Arrived::Hold);
    assert_eq!(part.arrived(1 + TRANSACTIONS as u32, false), Arrived::NoRoom);
    part.hold(2, true);
    assert_eq!(part.arrived(2, true), Arrived::NoRoom, "its entry is taken");
    assert_eq!(part.next(), None);
    assert_eq!(part.deliver(1, false), CellId::NONE);
    assert_eq!(part.arrived(1, false), Arrived::Past);
    assert_eq!(part.next(), Some(2));
    assert_eq!((part.deliver(2, true), part.target.nrsn, part.target.held), (CellId(2), Rsn(3), 0));
    assert_eq!(Part::new(false).arrived(77, false), Arrived::Deliver, "unordered");
}

/// F-8.5.3.4, D-42, D-43: a push that the ULP is not ready for is offered again, at its time or when a receive is
/// there.
#[test]
fn it_offers_again_what_the_ulp_was_not_ready_for() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered);
        part.hold(1, false);
        assert_eq!(part.not_ready(1, NOW), FIRST_CODE);
        assert!(part.target.waits_for_ulp());
        assert_eq!(part.next(), None);
        if ordered {
            assert_eq!(part.arrived(2, false), Arrived::HoldRnr);
            assert_eq!(part.arrived(2, true), Arrived::Hold);
        }
        let due = NOW.after(rnr_timeout(FIRST_CODE));
        assert!(part.target.rnr_timer.is_due(due));
        part.target.on_rnr_timer(&part.table, due);
        assert_eq!(part.next(), Some(1));
        assert_eq!(part.not_ready(1, due), FIRST_CODE + 2, "twice the time");
        let key = part.key(1, false);
        assert_eq!(part.target.rnr_code(&part.table, key), FIRST_CODE + 2, "its own");
        let behind = if ordered { FIRST_CODE + 2 } else { FIRST_CODE };
        let next = part.key(2, false);
        assert_eq!(
            part.target.rnr_code(&part.table, next),
            behind,
            "D-42: in order, that of what it waits for"
        );
        let duplicate = part.target.duplicate(&part.table, key, Rsn(1), Psn(301));
        assert_eq!((part.next(), duplicate), (None, Duplicate::Deliver));
        // D-43: a copy is known by its RSN and its PSN.
        for (rsn, psn) in [(1, 302), (2, 301)] {
            let other = part.target.duplicate(&part.table, key, Rsn(rsn), Psn(psn));
            assert_eq!(other, Duplicate::Drop, "RSN {rsn}, PSN {psn}");
        }
        part.target.ulp_ready();
        assert_eq!(part.next(), Some(1));
        assert_eq!(part.deliver(1, false), CellId(1));
        assert_eq!((part.target.waits_for_ulp(), part.next()), (false, None));
    }
}

/// F-8.5.3.4-2, D-42, D-43: a receive that is posted ends the time of pushes that wait for one. A pull waits for no receive:
/// it is offered again at its own time, and the timer stands there.
#[test]
fn a_receive_does_not_end_the_time_of_pulls() {
    let due = NOW.after(rnr_timeout(FIRST_CODE));
    for (ordered, pushes) in [(true, 0), (false, 0), (false, 1)] {
        let mut part = Part::new(ordered);
        for (rsn, pull) in [(1, true), (2, false)].into_iter().take(1 + pushes) {
            part.hold(rsn, pull);
            part.not_ready_for(rsn, pull, NOW);
        }
        part.target.ulp_ready();
        assert_eq!(part.target.rnr_timer.time(), Some(due), "ordered: {ordered}");
        for _ in 0..pushes {
            assert_eq!(part.next(), Some(2));
            part.deliver(2, false);
        }
        assert_eq!((part.next(), part.target.has_due()), (None, false), "ordered: {ordered}");
        part.target.on_rnr_timer(&part.table, due);
        assert_eq!(part.next(), Some(1));
    }
}

/// An unordered push without a cell is asked for again no earlier than one that waits.
#[test]
fn a_push_without_a_cell_waits_like_the_others() {
    let mut part = Part::new(false);
    assert_eq!(part.target.rnr_code_without_cell(&part.table), FIRST_CODE);
    part.hold(1, false);
    // F-7.8-12: two codes further is about twice the delay.
    for code in [14, 16, 18, 20, 22, 24, 26, 28, 28] {
        assert_eq!(part.not_ready(1, NOW), code);
        assert_eq!(part.target.rnr_code_without_cell(&part.table), code);
    }
    // From an odd code the last step is one to the longest, which is not passed.
    let mut odd = Part { target: Target::new(Rsn(1), false, 25), ..Part::new(false) };
    odd.hold(1, false);
    assert_eq!([0; 4].map(|_| odd.not_ready(1, NOW)), [25, 27, 28, 28]);
    // Code 0 is the longest delay of all.
    let mut longest = Part { target: Target::new(Rsn(1), false, 0), ..Part::new(false) };
    longest.hold(1, false);
    assert_eq!([0; 2].map(|_| longest.not_ready(1, NOW)), [0, 0]);
}

/// F-6.4-2, F-8.5.3.4-2: on an unordered connection pushes and pulls are offered again each at its own time. The timer
/// stands at the earliest of those that still wait.
#[test]
fn each_unordered_request_is_offered_again_at_its_own_time() {
    let mut part = Part::new(false);
    // RSN 1 and 3 are pushes, 2 and 4 pulls. The second of each kind waits twice as long.
    for (rsn, pull) in [(1, false), (2, true), (3, false), (4, true)] {
        part.hold(rsn, pull);
        part.not_ready_for(rsn, pull, NOW);
    }
    for (rsn, pull) in [(3, false), (4, true)] {
        part.not_ready_for(rsn, pull, NOW);
    }
    let [first, second] = [FIRST_CODE, FIRST_CODE + 2].map(|code| NOW.after(rnr_timeout(code)));
    assert_eq!((part.next(), part.target.rnr_timer.time()), (None, Some(first)));
    part.target.on_rnr_timer(&part.table, first);
    assert_eq!(part.target.rnr_timer.time(), Some(second), "3 and 4 wait");
    assert_eq!(part.next(), Some(1));
    part.deliver(1, false);
    assert_eq!(part.next(), Some(2));
    part.deliver(2, true);
    assert_eq!((part.next(), part.target.has_due()), (None, false));
    part.target.on_rnr_timer(&part.table, second);
    assert_eq!(part.target.rnr_timer.time(), None);
    for (rsn, pull) in [(3, false), (4, true)] {
        assert_eq!(part.next(), Some(rsn));
        part.deliver(rsn, pull);
    }
    assert_eq!((part.next(), part.target.held), (None, 0));
}

/// F-8.5.3.2-1: a pull is offered only while there is a place for its response, in order and not.
#[test]
fn a_pull_without_a_place_for_its_response_waits() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered);
        let mut responses = Box::new([Response::<u64>::default(); RESPONSES]);
        part.hold(1, true);
        part.not_ready_for(1, true, NOW);
        let due = NOW.after(rnr_timeout(FIRST_CODE));
        part.target.on_rnr_timer(&part.table, due);
        for rsn in 0..RESPONSES as u32 {
            assert_eq!(part.next(), Some(1), "{rsn} places are taken");
            part.target.answer(&mut responses, Rsn(rsn), 0);
        }
        assert_eq!((part.next(), part.target.has_due()), (None, false));
        part.target.send_response(&mut responses);
        part.target.response_acknowledged(&mut responses, 0);
        assert_eq!((part.next(), part.target.has_due()), (Some(1), true));
        part.deliver(1, true);
        // A held pull in its turn waits in the same way.
        if ordered {
            part.hold(2, true);
            assert_eq!(part.next(), Some(2));
            part.target.answer(&mut responses, Rsn(1), 0);
            assert_eq!(part.next(), None);
        }
    }
}

/// D-25: a second copy of a Resync, when the first one has become the next request, passes over it for good. Its entry is
/// free for the transaction 128 RSNs later.
#[test]
fn it_passes_over_a_resync_that_comes_again_in_its_turn() {
    for pull in [false, true] {
        let mut part = Part::new(true);
        let again = |part: &mut Part| part.target.resync(&mut part.table, Rsn(2), Psn(302), pull);
        assert_eq!(again(&mut part), Some(CellId::NONE));
        assert_eq!(part.deliver(1, false), CellId::NONE);
        assert_eq!(again(&mut part), Some(CellId::NONE));
        assert_eq!(part.target.nrsn, Rsn(3));
        assert!(part.table.iter().all(|request| request.state == RequestState::Free));
    }
}

/// D-25: a Resync whose RSN is further ahead than the table reaches is not booked, so its sender repeats it. Acknowledged
/// and forgotten, it would stop the order forever when its turn comes. Its sender may be that far ahead: what it gave up
/// for lost does not hold it back.
#[test]
fn a_resync_beyond_the_table_is_not_booked() {
    for pull in [false, true] {
        let mut part = Part::new(true);
        let last = TRANSACTIONS as u32;
        let mut resync = |rsn: u32| part.target.resync(&mut part.table, Rsn(rsn), Psn(300 + rsn), pull);
        assert_eq!(resync(last + 1), None);
        assert_eq!(resync(last), Some(CellId::NONE));
        assert_eq!(resync(1), Some(CellId::NONE));
        assert_eq!(resync(last + 1), Some(CellId::NONE), "now it is within reach");
    }
}

/// D-25, F-8.5.3.5-1: a Resync ends a request in any state, and its cell is free.
#[test]
fn it_passes_over_a_resync() {
    let mut part = Part::new(true);
    part.hold(2, false);
    part.hold(3, false);
    let cell = part.target.resync(&mut part.table, Rsn(2), Psn(302), false);
    assert_eq!(cell, Some(CellId(2)));
    let key = part.key(1, false);
    assert_eq!(
        part.target.errored(&mut part.table, key, (Rsn(1), Psn(301)), (3, RequestFlags::empty())),
        CellId::NONE
    );
    assert_eq!(part.target.duplicate(&part.table, key, Rsn(1), Psn(301)), Duplicate::Error(3));
    assert_eq!(part.next(), None, "an error waits for its Resync");
    assert_eq!(part.target.resync(&mut part.table, Rsn(1), Psn(301), false), Some(CellId::NONE));
    assert_eq!((part.next(), part.target.nrsn), (Some(3), Rsn(3)));
    assert!(part.target.take_gap(), "pushes were passed over");
    assert!(!part.target.take_gap());
    assert_eq!(part.target.give_up_one(&mut part.table), Some(CellId(3)));
    assert_eq!(part.target.give_up_one(&mut part.table), None);
}

/// 8.5.3.2: responses leave in order, and are kept until they are acknowledged.
#[test]
fn it_keeps_responses_until_they_are_acknowledged() {
    let mut part = Part::new(true);
    let mut responses = Box::new([Response::<u64>::default(); RESPONSES]);
    for rsn in 0..RESPONSES as u32 {
        assert!(part.target.has_response_slot());
        part.target.answer(&mut responses, Rsn(rsn), 100 + u64::from(rsn));
    }
    assert_eq!((part.target.has_response_slot(), part.arrived(1, true)), (false, Arrived::NoRoom));
    let sent: Vec<_> = (0..2).map(|_| part.target.send_response(&mut responses)).collect();
    assert_eq!(sent, [(0, Rsn(0)), (1, Rsn(1))]);
    part.target.response_acknowledged(&mut responses, 1);
    assert!(!part.target.has_response_slot(), "an older one is not acknowledged");
    part.target.response_acknowledged(&mut responses, 0);
    assert_eq!((part.target.response_head, responses[0].state), (2, ResponseState::Free));
    assert!(part.target.has_response_slot() && part.target.has_response());
}

/// A request that has ended in another way, by a Resync or while it still waited, is not offered again.
#[test]
fn a_request_that_is_gone_is_not_offered() {
    for (pull, due_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut part = Part::new(false);
        let due = NOW.after(rnr_timeout(FIRST_CODE));
        part.hold(1, pull);
        part.not_ready_for(1, pull, NOW);
        if due_first {
            part.target.on_rnr_timer(&part.table, due);
            assert!(part.target.has_due());
            let key = part.key(1, pull);
            part.target.free(&mut part.table, key);
        } else {
            part.deliver(1, pull);
            part.target.on_rnr_timer(&part.table, due);
        }
        assert_eq!((part.next(), part.target.has_due()), (None, false), "pull: {pull}, due: {due_first}");
    }
}
