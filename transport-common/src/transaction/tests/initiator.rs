//! The initiator, with an application that is not a queue.

extern crate std;

use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::vec::Vec;

use super::super::initiator::{Next, Table};
use super::super::{
    CompletionCode, Initiator, Kind, Label, Submissions, TRANSACTIONS, Transaction, TransactionState,
};
use crate::ids::{Rsn, WorkPosition};
use crate::units::{FalconTime, Ticks};
use crate::wire::resync::ResyncCode;

const NOW: FalconTime = FalconTime(1000);
const TIMEOUT: Ticks = Ticks(500);

/// An application whose first request has RSN 1. A request is a pull if its RSN is even.
struct Application {
    submitted: Cell<u32>,
    /// Space for reports.
    space: Cell<usize>,
    /// RSN, code and ULP code.
    reports: RefCell<Vec<(u32, u8, u8)>>,
    released: Cell<u32>,
}

impl Submissions for &Application {
    fn submitted(&self) -> WorkPosition {
        WorkPosition(self.submitted.get())
    }

    fn touch(&self, _: WorkPosition) {}

    fn kind(&self, work: WorkPosition) -> Kind {
        if work.0.is_multiple_of(2) { Kind::Pull } else { Kind::Push }
    }

    fn label(&self, work: WorkPosition) -> Label {
        Label { kind: self.kind(work), opcode: work.0 as u8, flags: 1, length: 8 }
    }

    fn report(&self, rsn: Rsn, t: &Transaction) -> bool {
        assert_eq!(t.work, WorkPosition::of(rsn), "the report is about the request at its position");
        let fits = self.reports.borrow().len() < self.space.get();
        if fits {
            self.reports.borrow_mut().push((rsn.0, t.code, t.ulp_code));
        }
        fits
    }

    fn release(&self, work: WorkPosition) {
        self.released.set(work.0);
    }
}

struct Part {
    initiator: Initiator,
    table: Box<Table>,
    application: Application,
}

impl Part {
    /// Returns an initiator with requests 1 to `count`.
    fn new(ordered: bool, count: u32) -> Self {
        let application = Application {
            submitted: Cell::new(1 + count),
            space: Cell::new(usize::MAX),
            reports: RefCell::default(),
            released: Cell::new(1),
        };
        let table = Box::new([Transaction::default(); TRANSACTIONS]);
        Self { initiator: Initiator::new(Rsn(1), ordered, TIMEOUT), table, application }
    }

    fn next(&mut self, passes: impl Fn(Kind) -> bool) -> Option<(u32, Kind, bool)> {
        let next = self.initiator.next_request(&mut self.table, &self.application, passes);
        next.map(|Next { rsn, kind, skipped, .. }| (rsn.0, kind, skipped))
    }

    /// Sends all requests that pass. Returns their RSNs.
    fn send(&mut self, passes: impl Fn(Kind) -> bool + Copy) -> Vec<u32> {
        let mut sent = Vec::new();
        while let Some((rsn, ..)) = self.next(passes) {
            let label = (&self.application).label(WorkPosition(rsn));
            self.initiator.sent(&mut self.table, (Rsn(rsn), WorkPosition(rsn)), label, NOW);
            sent.push(rsn);
        }
        sent
    }

    fn complete(&mut self, rsn: u32, code: CompletionCode, answered: bool) {
        let end = (code, 0, answered);
        self.initiator.complete(&mut self.table, &self.application, Rsn(rsn), end);
        self.initiator.flush(&mut self.table, &self.application);
    }

    fn reports(&self) -> Vec<(u32, u8, u8)> {
        self.application.reports.take()
    }
}

/// F-9.1.3-2, D-85: strictly in order, or each kind in its own order.
#[test]
fn it_returns_the_next_request_that_the_gate_lets_pass() {
    let mut ordered = Part::new(true, 4);
    assert_eq!(ordered.next(|kind| kind == Kind::Pull), None, "the push is first");
    assert_eq!(ordered.next(|_| true), Some((1, Kind::Push, false)));
    assert_eq!(ordered.send(|kind| kind == Kind::Push), [1]);
    assert_eq!(ordered.send(|_| true), [2, 3, 4]);
    let mut unordered = Part::new(false, 4);
    assert_eq!(unordered.send(|kind| kind == Kind::Pull), [2, 4], "pulls pass pushes that wait");
    assert_eq!(unordered.send(|_| true), [1, 3]);
    unordered.application.submitted.set(5000);
    assert_eq!(unordered.next(|_| true), None, "the counter is untrusted");
}

/// F-8.4.2-1: reports in order of RSN, or at once. A slot is given back when nothing has to be built from it.
#[test]
fn it_reports_what_ended() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered, 3);
        part.send(|_| true);
        part.complete(2, CompletionCode::Ack, true);
        let at_once: &[_] = if ordered { &[] } else { &[(2, 0, 0)] };
        assert_eq!(part.reports(), at_once);
        part.complete(2, CompletionCode::LocalTimeout, false);
        part.complete(1, CompletionCode::Ack, false);
        let then: &[_] = if ordered { &[(1, 0, 0), (2, 0, 0)] } else { &[(1, 0, 0)] };
        assert_eq!(part.reports(), then, "each once");
        assert_eq!((part.initiator.brsn, part.application.released.get()), (Rsn(3), 2));
        part.initiator.pull_acknowledged(&mut part.table, Rsn(2));
        part.complete(3, CompletionCode::Ack, false);
        assert_eq!((part.initiator.brsn, part.application.released.get()), (Rsn(4), 4));
    }
}

#[test]
fn a_report_without_space_is_made_later() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered, 1);
        part.application.space.set(0);
        part.send(|_| true);
        part.complete(1, CompletionCode::Ack, false);
        assert_eq!((part.initiator.completions_blocked, part.initiator.brsn), (1, Rsn(1)));
        part.application.space.set(1);
        part.initiator.retry(&mut part.table, &part.application);
        part.initiator.retry(&mut part.table, &part.application);
        assert_eq!((part.reports(), part.initiator.completions_blocked), (std::vec![(1, 0, 0)], 0));
    }
}

/// F-11-19, F-11-10, D-47: the oldest transaction times out, also unsent. Then an ordered target gets a Resync.
#[test]
fn it_ends_what_timed_out() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered, 2);
        assert_eq!(part.send(|kind| kind == Kind::Push), [1]);
        part.initiator.wait(&mut part.table, &part.application, NOW);
        assert!(part.initiator.timer.is_due(NOW.after(TIMEOUT)));
        for _ in 0..2 {
            part.initiator.on_timer(&mut part.table, &part.application, NOW.after(TIMEOUT));
        }
        let code = CompletionCode::LocalTimeout as u8;
        assert_eq!(part.reports(), [(1, code, 0), (2, code, 0)]);
        assert_eq!(part.next(|_| true), ordered.then_some((2, Kind::Pull, true)), "a Resync for RSN 2");
    }
}

/// D-44, D-45: codes of the target's ULP and of an exhausted Resync belong to what is outstanding.
#[test]
fn it_remembers_codes_of_what_is_outstanding() {
    let mut part = Part::new(true, 4);
    part.send(|_| true);
    part.initiator.remember_ulp_code(&mut part.table, Rsn(1), 3);
    part.complete(2, CompletionCode::Ack, true);
    part.initiator.remember_ulp_code(&mut part.table, Rsn(2), 3);
    part.initiator.exhausted(&mut part.table, Rsn(2), ResyncCode::LOCAL_XLR);
    part.initiator.remember_ulp_code(&mut part.table, Rsn(1 + TRANSACTIONS as u32), 4);
    part.initiator.exhausted(&mut part.table, Rsn(3), ResyncCode::REMOTE_XLR);
    part.complete(1, CompletionCode::TargetNackCie, false);
    assert_eq!(part.reports(), [(1, 1, 3), (2, 0, 0)]);
    // F-11-27, D-89: the connection is dead.
    part.initiator.drain(&mut part.table, &part.application, false);
    assert!(!part.initiator.drained(&mut part.table, &part.application), "there is nothing more to report");
    let dead = CompletionCode::DeadConnection as u8;
    assert_eq!(part.reports(), [(3, CompletionCode::RemoteError as u8, 0), (4, dead, 0)]);
}

/// F-8.4.3.2-1: only a pull that waits takes Pull Data.
#[test]
fn it_finds_the_pull_that_waits() {
    let mut part = Part::new(true, 2);
    part.send(|_| true);
    assert_eq!(part.initiator.open_pulls, 1);
    assert!(part.initiator.waiting_pull(&mut part.table, Rsn(1)).is_none(), "a push");
    let state = part.initiator.waiting_pull(&mut part.table, Rsn(2)).map(|t| t.state);
    assert_eq!(state, Some(TransactionState::Sent));
    part.complete(2, CompletionCode::Ack, true);
    assert!(part.initiator.waiting_pull(&mut part.table, Rsn(2)).is_none());
    assert_eq!(part.initiator.open_pulls, 1, "until the peer knows");
    part.initiator.answers_known(1);
    assert_eq!(part.initiator.open_pulls, 0);
}

/// D-47, F-11-24.
#[test]
fn a_resync_stands_for_one_completion_code() {
    let table = [
        (ResyncCode::TARGET_ULP_COMPLETE_IN_ERROR, CompletionCode::TargetNackCie),
        (ResyncCode::LOCAL_XLR, CompletionCode::LocalXlr),
        (ResyncCode::REMOTE_XLR, CompletionCode::RemoteError),
        (ResyncCode::TARGET_ULP_NON_RECOVERABLE, CompletionCode::TargetNackNre),
        (ResyncCode::TARGET_ULP_INVALID_CID, CompletionCode::TargetNackCid),
    ];
    for (resync, code) in table {
        assert_eq!(CompletionCode::of_resync(resync), code, "{resync:?}");
    }
    assert_eq!(CompletionCode::of_resync(ResyncCode(0xff)), CompletionCode::LocalTimeout);
}

/// D-85: an unordered connection has work while pushes or pulls were not looked at.
#[test]
fn it_says_whether_requests_wait() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered, 2);
        let waits = |part: &Part| part.initiator.has_new_work(&part.application);
        let last = |part: &Part, rsn| part.initiator.is_last_submitted(&part.application, Rsn(rsn));
        assert!(waits(&part), "both, and the counter was not read");
        assert!(!last(&part, 2), "the counter was not read");
        assert_eq!(part.next(|_| false), None);
        assert!(waits(&part) && last(&part, 2) && !last(&part, 1));
        assert_eq!(part.send(|kind| kind == Kind::Push), [1]);
        assert!(waits(&part), "the pull");
        assert_eq!(part.send(|_| true), [2]);
        assert!(!waits(&part));
        part.application.submitted.set(4);
        assert!(waits(&part), "known to the application only");
        assert!(!last(&part, 2) && !last(&part, 3));
    }
    let mut pulls = Part::new(false, 2);
    assert_eq!(pulls.send(|kind| kind == Kind::Pull), [2]);
    assert!(pulls.initiator.has_new_work(&pulls.application), "the push");
}

/// F-11-10: the time of a request that waits begins when it was first seen, and that of a sent one when it was sent.
#[test]
fn it_stamps_only_what_waits() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered, 3);
        let later = NOW.after(Ticks(100));
        assert_eq!(
            part.send(|kind| ordered || kind == Kind::Pull),
            if ordered { &[1, 2, 3][..] } else { &[2] }
        );
        part.initiator.wait(&mut part.table, &part.application, later);
        let since = |part: &Part, rsn: usize| part.table[rsn].since;
        assert_eq!(since(&part, 2), NOW, "sent");
        assert_eq!(since(&part, 3), if ordered { NOW } else { later });
        assert_eq!(since(&part, 4), FalconTime::default(), "not submitted");
        part.application.submitted.set(5);
        assert_eq!(part.next(|_| false), None);
        part.initiator.wait(&mut part.table, &part.application, later.after(Ticks(1)));
        assert_eq!(since(&part, 4), later.after(Ticks(1)));
        assert_eq!(since(&part, 3), if ordered { NOW } else { later }, "stamped once");
        part.initiator.wait(&mut part.table, &part.application, later.after(Ticks(2)));
        assert_eq!(since(&part, 4), later.after(Ticks(1)), "stamped once");
    }
}

/// F-11-10, F-11-19, D-47: what is submitted while others wait at a closed gate has its own time, which begins when it is
/// submitted, and not when those before it have ended.
#[test]
fn a_request_behind_a_closed_gate_ends_at_its_own_time() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered, 1);
        assert_eq!(part.next(|_| false), None);
        part.initiator.wait(&mut part.table, &part.application, NOW);
        let later = NOW.after(Ticks(100));
        part.application.submitted.set(3);
        assert_eq!(part.next(|_| false), None);
        part.initiator.wait(&mut part.table, &part.application, later);
        for (now, ends) in [(later.after(TIMEOUT), [1, 2])] {
            for _ in ends {
                part.initiator.on_timer(&mut part.table, &part.application, now);
            }
            let ended: Vec<u32> = part.reports().iter().map(|(rsn, ..)| *rsn).collect();
            assert_eq!(ended, ends, "ordered: {ordered}");
        }
        part.application.submitted.set(5000);
        part.initiator.wait(&mut part.table, &part.application, later);
        assert!(part.initiator.is_consistent(), "the counter is untrusted");
    }
}

/// F-11-10, D-85: on an unordered connection a pull that waits behind pushes that were sent has a time too.
#[test]
fn it_stamps_what_others_have_passed() {
    let mut part = Part::new(false, 3);
    assert_eq!(part.send(|kind| kind == Kind::Push), [1, 3]);
    let later = NOW.after(Ticks(100));
    part.initiator.wait(&mut part.table, &part.application, later);
    assert_eq!([1, 2, 3].map(|rsn| part.table[rsn].since), [NOW, later, NOW]);
}

/// D-47: the place of a request that ended before it was sent is given back when its Resync is on its way.
#[test]
fn a_resync_that_was_sent_gives_the_place_back() {
    let mut part = Part::new(true, 2);
    assert_eq!(part.send(|kind| kind == Kind::Push), [1]);
    part.complete(1, CompletionCode::Ack, false);
    part.initiator.wait(&mut part.table, &part.application, NOW);
    part.initiator.on_timer(&mut part.table, &part.application, NOW.after(TIMEOUT));
    // F-11-19: what it was is reported, although it was never sent.
    assert_eq!((part.table[2].opcode, part.table[2].flags), (2, 1));
    assert_eq!((part.next(|_| true), part.application.released.get()), (Some((2, Kind::Pull, true)), 2));
    part.initiator.skipped_sent(&mut part.table, &part.application, Rsn(2));
    assert_eq!((part.next(|_| true), part.application.released.get()), (None, 3));
}

/// F-9-6: only the packet of a transaction whose slot is kept can be built again.
#[test]
fn it_knows_which_packets_can_be_built_again() {
    let mut part = Part::new(true, 2);
    assert_eq!(part.send(|kind| kind == Kind::Push), [1]);
    let retained = |part: &Part, rsn| part.initiator.is_retained(&part.table, Rsn(rsn));
    assert!(retained(&part, 1));
    assert!(!retained(&part, 2), "not sent");
    assert!(!retained(&part, 1 + TRANSACTIONS as u32), "another transaction with the same entry");
    part.initiator.pull_acknowledged(&mut part.table, Rsn(1 + TRANSACTIONS as u32));
    assert!(retained(&part, 1));
}

/// Each completion counts once, whichever way it is reported.
#[test]
fn it_counts_completions() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered, 5);
        part.send(|_| true);
        part.complete(1, CompletionCode::Ack, false);
        part.complete(3, CompletionCode::Ack, false);
        assert_eq!(part.initiator.completed, if ordered { 1 } else { 2 });
        part.application.space.set(0);
        part.complete(2, CompletionCode::Ack, true);
        let before = part.initiator.completed;
        part.application.space.set(usize::MAX);
        part.initiator.retry(&mut part.table, &part.application);
        assert_eq!(part.initiator.completed, before + if ordered { 2 } else { 1 });
        // F-11-27: without space, the completions of a dead connection are lost, but they count.
        part.application.space.set(0);
        part.initiator.drain(&mut part.table, &part.application, true);
        assert_eq!(part.initiator.completed, 5);
        assert!(!part.initiator.drained(&mut part.table, &part.application));
    }
}

/// F-11-19: while the oldest transaction waits for space in the completion queue, it does not time out again.
#[test]
fn a_transaction_that_waits_for_its_report_does_not_time_out() {
    let mut part = Part::new(true, 1);
    part.application.space.set(0);
    part.send(|_| true);
    part.complete(1, CompletionCode::Ack, false);
    let late = NOW.after(TIMEOUT).after(TIMEOUT);
    part.initiator.on_timer(&mut part.table, &part.application, late);
    assert!(!part.initiator.timer.is_due(late), "a full timeout from now");
    assert!(part.initiator.timer.is_due(late.after(TIMEOUT)));
}

/// F-11-27: a dead connection gives back the places of completed transactions whose packets were not acknowledged.
#[test]
fn a_dead_connection_gives_every_place_back() {
    let mut part = Part::new(true, 2);
    part.send(|_| true);
    part.complete(1, CompletionCode::Ack, false);
    // The pull has its answer, but its packet is not acknowledged.
    part.complete(2, CompletionCode::Ack, true);
    assert_eq!((part.initiator.brsn, part.application.released.get()), (Rsn(3), 2));
    part.initiator.drain(&mut part.table, &part.application, false);
    assert!(!part.initiator.drained(&mut part.table, &part.application));
    assert_eq!(part.application.released.get(), 3);
}

/// The hint for the batch: more than one request waits, and no more than can wait.
#[test]
fn several_that_wait_are_a_backlog() {
    let read = |submitted| move || submitted;
    for next in [1, u32::MAX] {
        let at = |waiting: u32| next.wrapping_add(waiting);
        let table = TRANSACTIONS as u32;
        for (waiting, backlog) in [(0, false), (1, false), (2, true), (table, true), (table + 1, false)] {
            let known = Initiator::is_backlogged(next, at(waiting), 0, read(next));
            let counter = Initiator::is_backlogged(next, next, 0, read(at(waiting)));
            assert_eq!((known, counter), (backlog, backlog), "{waiting} wait");
        }
        assert!(!Initiator::is_backlogged(next, at(2), 1, read(at(2))), "the last read found none to send");
    }
    Initiator::is_backlogged(1, 3, 0, || panic!("the counter is read only if needed"));
}

/// Table full, one packet kept: the oldest transaction is reported, but its packet is not acknowledged, which a peer
/// may do forever (D-54). All behind it are reported as well. BRSN stops where the table ends, and not at the entry
/// with which it began.
#[test]
fn brsn_stays_in_the_table_while_the_oldest_packet_is_kept() {
    for ordered in [true, false] {
        let count = 1 + TRANSACTIONS as u32;
        let mut part = Part::new(ordered, 1);
        assert_eq!(part.send(|_| true), [1]);
        part.complete(1, CompletionCode::Ack, false);
        assert_eq!(part.application.released.get(), 2);
        part.application.submitted.set(count + 1);
        while let Some((rsn, kind, _)) = part.next(|_| true) {
            let work = WorkPosition(rsn);
            let label = (&part.application).label(work);
            part.initiator.sent(&mut part.table, (Rsn(rsn), work), label, NOW);
            part.initiator.open_pulls = 0; // the peer knows its answers
            assert_eq!(kind, (&part.application).kind(work));
        }
        for rsn in 2..=count {
            part.complete(rsn, CompletionCode::Ack, rsn % 2 == 0);
            assert!(part.initiator.is_consistent(), "RSN {rsn}");
        }
        assert_eq!(part.reports().len(), count as usize, "each once");
        assert_eq!((part.initiator.brsn, part.application.released.get()), (Rsn(count + 1), 2));
        assert_eq!(part.next(|_| true), None, "nothing that was not submitted");
        for rsn in 2..=count {
            part.initiator.pull_acknowledged(&mut part.table, Rsn(rsn));
        }
        part.initiator.flush(&mut part.table, &part.application);
        assert_eq!(part.application.released.get(), count + 1, "every slot is given back");
        assert!(part.table.iter().all(|t| t.state == TransactionState::Submitted));
    }
}

/// The same with transactions that timed out while the peer was out of reach, F-11-19: their packets are Resyncs that
/// wait for the gate.
#[test]
fn brsn_stays_in_the_table_after_two_timeouts() {
    let count = TRANSACTIONS as u32;
    let mut part = Part::new(true, count);
    assert_eq!(part.send(|kind| kind == Kind::Push), [1]);
    for timeouts in 1..=2 {
        part.initiator.wait(&mut part.table, &part.application, NOW);
        for _ in 0..count {
            let now = NOW.after(Ticks(timeouts * TIMEOUT.0));
            part.initiator.on_timer(&mut part.table, &part.application, now);
            assert!(part.initiator.is_consistent());
        }
    }
    assert_eq!(part.reports().len(), count as usize, "each once");
    assert_eq!(part.initiator.brsn, Rsn(count + 1));
}

/// The application's counter is untrusted. What it has submitted once, it cannot take back, and it cannot claim more than
/// the table holds: whatever it writes, the invariants of the table hold.
#[test]
fn a_counter_that_goes_back_takes_nothing_back() {
    for ordered in [true, false] {
        let mut part = Part::new(ordered, 8);
        // All wait at the gate, and are stamped.
        assert_eq!(part.next(|_| false), None);
        part.initiator.wait(&mut part.table, &part.application, NOW);
        assert_eq!(part.initiator.known, Rsn(9));
        for counter in [5, 1, 0, u32::MAX, 2 + TRANSACTIONS as u32] {
            part.application.submitted.set(counter);
            assert_eq!(part.next(|_| false), None);
            assert_eq!(part.initiator.known, Rsn(9), "{counter}, ordered: {ordered}");
        }
        // They time out, also those that the counter does not cover any more.
        part.application.submitted.set(3);
        for _ in 0..8 {
            part.initiator.on_timer(&mut part.table, &part.application, NOW.after(TIMEOUT));
            assert_eq!(part.next(|_| false), None);
            assert!(part.initiator.is_consistent());
        }
        let timeout = CompletionCode::LocalTimeout as u8;
        assert_eq!(part.reports(), (1..=8).map(|rsn| (rsn, timeout, 0)).collect::<Vec<_>>());
    }
}

/// A table whose invariants are broken is set back: then a dead connection reports what is outstanding, once, and ends.
#[test]
fn a_broken_table_is_set_back_and_drained() {
    for broken in [
        |i: &mut Initiator| i.brsn = i.released.add(100_000),
        |i: &mut Initiator| i.known = i.released.add(TRANSACTIONS as u32 + 1),
        |i: &mut Initiator| i.next = i.known.add(1),
        |i: &mut Initiator| i.known = i.released.sub(1),
    ] {
        let mut part = Part::new(true, 4);
        part.send(|kind| kind == Kind::Push);
        assert!(part.initiator.is_consistent());
        broken(&mut part.initiator);
        assert!(!part.initiator.is_consistent());
        part.initiator.set_back();
        assert!(part.initiator.is_consistent());
        part.initiator.drain(&mut part.table, &part.application, false);
        assert!(!part.initiator.drained(&mut part.table, &part.application), "nothing more to report");
        let ends: Vec<u32> = part.reports().iter().map(|(rsn, ..)| *rsn).collect();
        assert_eq!(ends, [1, 2, 3, 4]);
    }
}
