//! Initiator: transactions from submission to completion (section 8.4).

use super::{
    CompletionCode, Kind, Label, RESPONSES, Submissions, TRANSACTIONS, Transaction, TransactionState,
    fetch_ahead,
};
use crate::ids::{Rsn, WorkPosition};
use crate::ring::place;
use crate::units::{Deadline, FalconTime, Ticks};
use crate::verifier::{bounded, fresh};
use crate::wire::resync::ResyncCode;
use bytemuck::{Pod, Zeroable};

/// Largest number of open pulls of a connection. A target of ours keeps [`RESPONSES`] responses until they are
/// acknowledged. It would refuse more pulls for lack of resources (F-8.5.3.1-1).
pub const PULL_CREDITS: u16 = RESPONSES as u16;

/// Our transactions, by RSN modulo [`TRANSACTIONS`].
pub(crate) type Table = [Transaction; TRANSACTIONS];

/// Initiator of a connection. The transactions themselves are in a table beside it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Initiator {
    /// Oldest transaction not completed (F-8.4.1-1).
    pub brsn: Rsn,
    /// Oldest transaction whose slot in the send queue the application may not reuse yet: it is not completed, or
    /// its packet is not acknowledged.
    pub released: Rsn,
    /// Next request to send. On an unordered connection: the next push to look at.
    pub next: Rsn,
    /// Unordered: the next pull to look at.
    pub next_pull: Rsn,
    /// Requests before this one are known to be submitted. The application's counter is read again only when all
    /// of them are used, because another CPU writes its cache line.
    pub known: Rsn,
    /// Requests before this one have a time stamp from which their wait counts.
    pub stamped: Rsn,
    /// Deadline of the oldest transaction.
    pub timer: Deadline,
    /// A transaction that is not completed after this time completes with `LocalTO` (F-11-19).
    pub timeout: Ticks,
    /// Pulls sent whose response the peer does not yet know to be received. At most as many as a target keeps
    /// responses for ([`PULL_CREDITS`]).
    pub open_pulls: u16,
    /// 1: requests are sent and completed in RSN order (F-5-1).
    pub ordered: u8,
    /// 1: completions wait for space in the completion queue.
    pub completions_blocked: u8,
    /// Number of transactions that were completed to the application.
    pub completed: u64,
}

/// The request to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) rsn: Rsn,
    /// Where the request is.
    pub(crate) work: WorkPosition,
    pub(crate) kind: Kind,
    /// The request ended before it was sent: a Resync takes its place.
    pub(crate) skipped: bool,
}

const fn index(rsn: Rsn) -> usize {
    place::<TRANSACTIONS>(rsn.0)
}

impl Initiator {
    /// Creates an initiator with nothing submitted. The first RSN is `rsn` (D-18).
    pub fn new(rsn: Rsn, ordered: bool, timeout: Ticks) -> Self {
        Self {
            brsn: rsn,
            released: rsn,
            next: rsn,
            next_pull: rsn,
            known: rsn,
            stamped: rsn,
            timeout,
            ordered: ordered as u8,
            ..Self::default()
        }
    }

    /// Returns whether the table entry of `rsn` belongs to it. From `released` on, an entry belongs to the RSN that
    /// comes first. Every loop over the table ends where this ends, so it looks at no entry twice.
    #[inline(always)]
    fn has_entry(&self, rsn: Rsn) -> bool {
        rsn.distance_from(self.released) < TRANSACTIONS as u32
    }

    /// Returns whether the table entry of `rsn` belongs to it and its transaction is not completed.
    #[inline(always)]
    fn is_open(&self, rsn: Rsn) -> bool {
        !rsn.is_before(self.brsn) && self.has_entry(rsn)
    }

    /// Returns whether the invariants of the table hold: `released` <= `brsn` <= `known` <= `released` +
    /// [`TRANSACTIONS`], and on an ordered connection `next` <= `known`. No step breaks them. A table that breaks them
    /// would make the engine execute stale entries of the send queue, so the connection has to end
    /// (`set_back`).
    #[inline(always)]
    pub fn is_consistent(&self) -> bool {
        let known = self.known.distance_from(self.released);
        let next = if self.ordered != 0 { self.next.distance_from(self.released) } else { 0 };
        known <= TRANSACTIONS as u32 && self.brsn.distance_from(self.released) <= known && next <= known
    }

    /// Makes the invariants hold again after they were broken, so that [`Self::drain`] finds every transaction that is
    /// not reported. Nothing can be sent after this.
    #[inline(never)]
    pub(crate) fn set_back(&mut self) {
        self.brsn = self.released;
        self.next = self.released;
        self.next_pull = self.released;
        self.known = self.released;
        self.stamped = self.released;
    }

    /// Returns the RSN after the newest submitted transaction. An ordered connection reads the application's counter only
    /// when all known requests are used up. On an unordered one a pull may overtake pushes that wait at the gate, even a
    /// pull that was just submitted.
    #[inline(always)]
    pub(crate) fn submitted(&mut self, sends: impl Submissions) -> Rsn {
        if self.ordered == 0 || self.next == self.known {
            let known = self.known;
            self.look(sends);
            fetch_ahead(sends, known, self.known);
        }
        self.known
    }

    /// Reads the application's counter. It is untrusted: one that claims more than the table holds, or less than it
    /// claimed before, counts as nothing new.
    #[inline(always)]
    fn look(&mut self, sends: impl Submissions) {
        let known = self.known;
        let producer = sends.submitted().rsn();
        let room = (TRANSACTIONS as u32).wrapping_sub(known.distance_from(self.released));
        let new = producer.distance_from(known);
        if new <= room {
            self.known = producer;
        }
    }

    /// Returns whether `rsn`, which is submitted, is the last submitted request.
    #[inline(always)]
    pub(crate) fn is_last_submitted(&self, sends: impl Submissions, rsn: Rsn) -> bool {
        let behind = rsn.add(1);
        self.known == behind && sends.submitted().rsn() == behind
    }

    /// Returns whether the application has submitted requests that were not looked at.
    #[inline(always)]
    pub(crate) fn has_new_work(&self, sends: impl Submissions) -> bool {
        let Self { next, next_pull, known, .. } = *self;
        let unordered = self.ordered == 0;
        if next.is_before(known) || (unordered && next_pull.is_before(known)) {
            return true;
        }
        let submitted = sends.submitted().rsn();
        submitted != next || (unordered && submitted != next_pull)
    }

    /// Returns the next request that the gate lets pass: strictly in RSN order on an ordered connection
    /// (F-9.1.3-2), in the order of each kind on an unordered one (D-85).
    #[inline(always)]
    pub(crate) fn next_request(
        &mut self,
        table: &mut Table,
        sends: impl Submissions,
        passes: impl Fn(Kind) -> bool,
    ) -> Option<Next> {
        let submitted = self.submitted(sends);
        let may_pull = self.open_pulls < PULL_CREDITS;
        let passes = |kind| passes(kind) && (matches!(kind, Kind::Push) || may_pull);
        if self.ordered != 0 {
            let rsn = self.next;
            if rsn == submitted {
                return None;
            }
            let t = &table[index(rsn)];
            let (work, skipped) = (WorkPosition::of(rsn), t.skipped != 0);
            let kind = if !skipped {
                sends.kind(work)
            } else if t.pull != 0 {
                Kind::Pull
            } else {
                Kind::Push
            };
            return passes(kind).then_some(Next { rsn, work, kind, skipped });
        }
        let push = self.look_past(table, sends, submitted, Kind::Push);
        if push != submitted && passes(Kind::Push) {
            return Some(Next { rsn: push, work: WorkPosition::of(push), kind: Kind::Push, skipped: false });
        }
        let pull = self.look_past(table, sends, submitted, Kind::Pull);
        if pull != submitted && passes(Kind::Pull) {
            return Some(Next { rsn: pull, work: WorkPosition::of(pull), kind: Kind::Pull, skipped: false });
        }
        None
    }

    /// Moves the cursor of pushes or pulls of an unordered connection to the next unsent request of that kind, or
    /// to `submitted`.
    #[inline(never)]
    fn look_past(&mut self, table: &Table, sends: impl Submissions, submitted: Rsn, kind: Kind) -> Rsn {
        let pull = matches!(kind, Kind::Pull);
        let mut rsn = if pull { self.next_pull } else { self.next };
        if rsn.is_before(self.brsn) {
            rsn = self.brsn; // completed requests must not be sent again
        }
        while rsn != submitted && self.has_entry(rsn) {
            bounded!();
            let waits = table[index(rsn)].state == TransactionState::Submitted;
            if waits && sends.kind(WorkPosition::of(rsn)) == kind {
                break;
            }
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        if pull {
            self.next_pull = rsn;
        } else {
            self.next = rsn;
        }
        rsn
    }

    /// Stamps the requests that wait because the gate is closed, so that they time out like any other (F-11-10). Reads
    /// the application's counter again: on an ordered connection nothing else does while known requests wait.
    #[inline(always)]
    pub(crate) fn wait(&mut self, table: &mut Table, sends: impl Submissions, now: FalconTime) {
        if self.ordered != 0 {
            self.look(sends);
        }
        if self.stamped.is_before(self.known) {
            self.stamp(table, now);
        }
    }

    #[inline(never)]
    fn stamp(&mut self, table: &mut Table, now: FalconTime) {
        let known = self.known;
        let sent = if self.ordered != 0 { self.next } else { self.brsn };
        let mut rsn = if self.stamped.is_before(sent) { sent } else { self.stamped };
        while rsn != known && self.has_entry(rsn) {
            bounded!();
            let t = &mut table[index(rsn)];
            if t.state == TransactionState::Submitted {
                t.since = now;
            }
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        self.stamped = known;
        self.start_timer(now);
    }

    #[inline(always)]
    fn start_timer(&mut self, now: FalconTime) {
        if !self.timer.is_armed() {
            self.timer = Deadline::at(now.after(self.timeout));
        }
    }

    /// Records the first transmission of `rsn`, whose request is at `work` (F-8.4.3.1-2, F-8.4.3.3-1).
    #[inline(always)]
    pub(crate) fn sent(
        &mut self,
        table: &mut Table,
        (rsn, work): (Rsn, WorkPosition),
        label: Label,
        now: FalconTime,
    ) {
        let pull = matches!(label.kind, Kind::Pull);
        table[index(rsn)] = Transaction {
            since: now,
            length: label.length,
            work,
            state: TransactionState::Sent,
            code: 0,
            ulp_code: 0,
            opcode: label.opcode,
            flags: label.flags,
            pull: pull as u8,
            retained: 1,
            skipped: 0,
        };
        self.open_pulls = self.open_pulls.wrapping_add(pull as u16);
        self.passed(rsn);
        self.start_timer(now);
    }

    /// Records that the Resync of a request that ended before it was sent is on its way.
    #[inline(always)]
    pub(crate) fn skipped_sent(&mut self, table: &mut Table, sends: impl Submissions, rsn: Rsn) {
        let t = &mut table[index(rsn)];
        t.skipped = 0;
        t.retained = 0;
        self.passed(rsn);
        self.release(table, sends);
    }

    #[inline(always)]
    fn passed(&mut self, rsn: Rsn) {
        if self.ordered != 0 {
            self.next = rsn.add(1);
            self.next_pull = rsn.add(1);
        }
    }

    /// Returns whether the packet of `rsn` can still be built from what the application submitted.
    #[inline(always)]
    pub(crate) fn is_retained(&self, table: &Table, rsn: Rsn) -> bool {
        rsn.distance_from(self.released) < TRANSACTIONS as u32 && table[index(rsn)].retained != 0
    }

    /// Returns where the work request of a transaction is that has begun.
    #[inline(always)]
    pub(crate) fn work(&self, table: &Table, rsn: Rsn) -> WorkPosition {
        table[index(rsn)].work
    }

    /// Returns whether the request `rsn` was sent with this operation code and length.
    #[inline(always)]
    pub(crate) fn is_as_sent(&self, table: &Table, rsn: Rsn, opcode: u8, length: u32) -> bool {
        let t = &table[index(rsn)];
        t.opcode == opcode && t.length == length
    }

    /// Records that the packet of `rsn`, a Pull Request or the Resync in its place, is acknowledged: PullReqAckd.
    /// Its packet never has to be built again.
    #[inline(always)]
    pub(crate) fn pull_acknowledged(&mut self, table: &mut Table, rsn: Rsn) {
        if rsn.distance_from(self.released) >= TRANSACTIONS as u32 {
            return;
        }
        let t = &mut table[index(rsn)];
        t.retained = 0;
        if t.state == TransactionState::Sent {
            t.state = TransactionState::Acknowledged;
        }
    }

    /// Records that the peer knows that we have `count` responses to our pulls, and has freed its copies of them.
    #[inline(always)]
    pub(crate) fn answers_known(&mut self, count: u32) {
        self.open_pulls = self.open_pulls.saturating_sub(count as u16);
    }

    /// Returns the transaction that waits for Pull Data with `rsn`, if there is one.
    #[inline(always)]
    pub(crate) fn waiting_pull<'t>(&self, table: &'t mut Table, rsn: Rsn) -> Option<&'t mut Transaction> {
        let t = &mut table[index(rsn)];
        let waits = matches!(t.state, TransactionState::Sent | TransactionState::Acknowledged);
        if self.is_open(rsn) && waits && t.pull != 0 { Some(t) } else { None }
    }

    /// Keeps the target ULP's code until the Resync is acknowledged (D-44). Ignores a transaction that has ended, for
    /// example a pull whose answer arrived. Another transaction may use its table entry by now.
    #[inline(always)]
    pub(crate) fn remember_ulp_code(&self, table: &mut Table, rsn: Rsn, code: u8) {
        let t = &mut table[index(rsn)];
        if t.is_outstanding() && self.is_open(rsn) {
            t.ulp_code = code;
        }
    }

    /// Processes an exhausted Resync: records the code of the Resync for [`Self::drain`] (D-44, D-89). Ignores a
    /// transaction that has ended. Another transaction may use its table entry by now.
    #[inline(always)]
    pub(crate) fn exhausted(&self, table: &mut Table, rsn: Rsn, resync_code: ResyncCode) {
        let t = &mut table[index(rsn)];
        if t.is_outstanding() && self.is_open(rsn) {
            t.code = resync_code.0;
        }
    }

    /// Ends a transaction. Ignores one that has ended before or was never sent. With `answered`, Pull Data ended
    /// it: the acknowledgement of that Pull Data gives back the pull's credit.
    #[inline(never)]
    pub(crate) fn complete(
        &mut self,
        table: &mut Table,
        sends: impl Submissions,
        rsn: Rsn,
        (code, ulp_code, answered): (CompletionCode, u8, bool),
    ) {
        let t = &mut table[index(rsn)];
        if !t.is_outstanding() || !self.is_open(rsn) {
            return;
        }
        self.end(t, (code, ulp_code, answered));
        if self.ordered == 0 {
            if sends.report(rsn, t) {
                t.state = TransactionState::Reported;
                self.completed += 1;
            } else {
                self.completions_blocked = 1;
            }
        }
    }

    /// Ends an outstanding transaction, as [`Self::complete`] describes, and leaves it to be reported.
    #[inline(always)]
    fn end(&mut self, t: &mut Transaction, (code, ulp_code, answered): (CompletionCode, u8, bool)) {
        t.state = TransactionState::Done;
        t.code = code as u8;
        if ulp_code != 0 {
            t.ulp_code = ulp_code;
        }
        // After a failure the application may reuse the buffer. A push that succeeded is acknowledged, a pull may
        // not be.
        if t.pull == 0 || t.code != 0 {
            t.retained = t.skipped;
        }
        if t.pull != 0 && !answered {
            self.open_pulls = self.open_pulls.saturating_sub(1);
        }
    }

    /// Reports ended transactions, on an ordered connection in RSN order (F-8.4.2-1), and advances BRSN
    /// (F-8.4.1-1).
    #[inline(never)]
    pub(crate) fn flush(&mut self, table: &mut Table, sends: impl Submissions) {
        let released = self.released;
        let mut rsn = self.brsn;
        let mut blocked = 0;
        // `released` may follow in this loop, but no entry beyond the table that it started with was submitted.
        while rsn.distance_from(released) < TRANSACTIONS as u32 {
            bounded!();
            let t = &mut table[index(rsn)];
            if t.state == TransactionState::Done {
                if !sends.report(rsn, t) {
                    blocked = 1;
                    break;
                }
                t.state = TransactionState::Reported;
                self.completed += 1;
            } else if t.state != TransactionState::Reported {
                break;
            }
            let next = Rsn(fresh(rsn.0.wrapping_add(1)));
            if t.retained == 0 && self.released == rsn {
                t.state = TransactionState::Submitted;
                self.released = next;
            }
            rsn = next;
        }
        if self.ordered != 0 || blocked != 0 {
            self.completions_blocked = blocked;
        }
        self.brsn = rsn;
        if self.released != released {
            sends.release(WorkPosition::of(self.released));
        }
        if self.released != rsn {
            self.release(table, sends); // older ones wait for an acknowledgement, or waited until now
        }
    }

    /// Gives back the slots of reported transactions whose packets are acknowledged.
    #[inline(never)]
    fn release(&mut self, table: &mut Table, sends: impl Submissions) {
        let first = self.released;
        let mut rsn = first;
        while rsn != self.brsn && self.has_entry(rsn) {
            bounded!();
            let t = &mut table[index(rsn)];
            if t.state != TransactionState::Reported || t.retained != 0 {
                break;
            }
            t.state = TransactionState::Submitted;
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        if rsn != first {
            self.released = rsn;
            sends.release(WorkPosition::of(rsn));
        }
    }

    /// Retries the report of completions that did not fit into the completion queue. On an unordered connection,
    /// such a transaction may be behind others that are still open. Of those, one is reported per service.
    #[inline(never)]
    pub(crate) fn retry(&mut self, table: &mut Table, sends: impl Submissions) {
        if self.ordered == 0 {
            let rsn = self.oldest_unreported(table);
            let t = &mut table[index(rsn)];
            if t.state == TransactionState::Done {
                if !sends.report(rsn, t) {
                    return;
                }
                t.state = TransactionState::Reported;
                self.completed += 1;
            } else {
                self.completions_blocked = 0;
            }
        }
        // What was reported may be the oldest one: its place is free now (F-8.4.1-1).
        self.flush(table, sends);
    }

    /// Returns the oldest transaction that ended but is not reported. Returns another one if there is none.
    #[inline(never)]
    fn oldest_unreported(&self, table: &Table) -> Rsn {
        let mut rsn = self.brsn;
        while self.has_entry(rsn) {
            bounded!();
            if table[index(rsn)].state == TransactionState::Done {
                break;
            }
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        rsn
    }

    /// Processes the transaction timer: ends the oldest transaction if it is too old, and sets the timer for the
    /// next one (F-11-19). A request that waits for the gate ends in the same way, unsent (F-11-10).
    #[inline(always)]
    pub(crate) fn on_timer(&mut self, table: &mut Table, sends: impl Submissions, now: FalconTime) {
        self.timer = Deadline::NONE;
        if self.oldest_deadline(table, now).is_due(now) {
            let brsn = self.brsn;
            if table[index(brsn)].state == TransactionState::Submitted {
                self.skip(table, sends, brsn);
            }
            self.complete(table, sends, brsn, (CompletionCode::LocalTimeout, 0, false));
            self.flush(table, sends);
        } else {
            self.keep_overdue(table, now);
        }
        self.timer = self.oldest_deadline(table, now);
    }

    /// Keeps transactions overdue that are behind one that is not: they end when it has ended, and their times would wrap.
    /// The oldest one may wait as long as the application does not empty the completion queue.
    #[inline(never)]
    fn keep_overdue(&self, table: &mut Table, now: FalconTime) {
        let overdue = FalconTime(now.0.wrapping_sub(self.timeout.0));
        let known = self.known;
        let mut rsn = self.brsn;
        while rsn != known && self.has_entry(rsn) {
            bounded!();
            let t = &mut table[index(rsn)];
            if overdue.reached(t.since) {
                t.since = overdue;
            }
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
    }

    /// Turns a request that was not sent into a transaction, so that it can be completed. On an ordered connection
    /// the target still has to pass its RSN.
    #[inline(always)]
    fn skip(&mut self, table: &mut Table, sends: impl Submissions, rsn: Rsn) {
        let work = WorkPosition::of(rsn);
        let Label { kind, opcode, flags, .. } = sends.label(work);
        // Its credit is given back when it is completed, like that of any other pull.
        self.open_pulls = self.open_pulls.wrapping_add(matches!(kind, Kind::Pull) as u16);
        table[index(rsn)] = Transaction {
            work,
            state: TransactionState::Sent,
            opcode,
            flags,
            pull: matches!(kind, Kind::Pull) as u8,
            skipped: self.ordered,
            ..Transaction::default()
        };
    }

    /// Returns the deadline of the oldest transaction. Returns a full timeout from now if it is about to be
    /// reported, and none if there is no transaction.
    #[inline(always)]
    fn oldest_deadline(&self, table: &Table, now: FalconTime) -> Deadline {
        let t = &table[index(self.brsn)];
        match t.state {
            TransactionState::Submitted if !self.brsn.is_before(self.stamped) => Deadline::NONE,
            TransactionState::Done | TransactionState::Reported => Deadline::at(now.after(self.timeout)),
            _ => Deadline::at(t.since.after(self.timeout)),
        }
    }

    /// Completes everything submitted on a dead connection. A transaction whose Resync was exhausted completes
    /// with the code that the Resync stands for, usually `LocalTO`; all others complete with `DeadConn` (D-44,
    /// D-89, F-11-27). [`Self::drained`] follows. With `discard`, a completion that does not fit into the
    /// completion queue is lost.
    #[inline(never)]
    pub(crate) fn drain(&mut self, table: &mut Table, sends: impl Submissions, discard: bool) {
        // Requests submitted since the last read of the counter have to end as well, and nothing else would read
        // it again.
        self.look(sends);
        let submitted = self.known;
        let mut rsn = self.brsn;
        while rsn != submitted && self.has_entry(rsn) {
            bounded!();
            if table[index(rsn)].state == TransactionState::Submitted {
                self.skip(table, sends, rsn);
            }
            let t = &mut table[index(rsn)];
            t.skipped = 0; // a dead connection sends nothing
            t.retained = 0;
            if t.state < TransactionState::Done {
                let code = if t.code == 0 {
                    CompletionCode::DeadConnection
                } else {
                    CompletionCode::of_resync(ResyncCode(t.code))
                };
                if t.is_outstanding() {
                    self.end(t, (code, 0, false));
                }
            }
            if discard && t.state == TransactionState::Done {
                sends.report(rsn, t);
                t.state = TransactionState::Reported;
                self.completed += 1;
            }
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        self.give_up_places(table);
    }

    /// Finishes a service that called [`Self::drain`]. Returns true while there is more to report.
    #[inline(always)]
    pub(crate) fn drained(&mut self, table: &mut Table, sends: impl Submissions) -> bool {
        self.flush(table, sends);
        if self.next.is_before(self.brsn) {
            self.next = self.brsn;
        }
        if self.next_pull.is_before(self.brsn) {
            self.next_pull = self.brsn;
        }
        self.brsn != self.known
    }

    /// Marks that no packet has to be built again.
    #[inline(always)]
    fn give_up_places(&self, table: &mut Table) {
        let mut rsn = self.released;
        while rsn != self.brsn && self.has_entry(rsn) {
            bounded!();
            table[index(rsn)].retained = 0;
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
    }

    /// Returns whether more than one request waits. `known` is the last known value of the application's counter;
    /// `submitted` reads the counter, only if needed. Needs no lock: the result is a hint. A counter value that
    /// makes no sense counts as no backlog.
    #[inline(always)]
    pub fn is_backlogged(next: u32, known: u32, fruitless: u32, submitted: impl FnOnce() -> u32) -> bool {
        let several = |counter: u32| {
            let waiting = counter.wrapping_sub(next);
            waiting > 1 && waiting <= TRANSACTIONS as u32
        };
        fruitless == 0 && (several(known) || several(submitted()))
    }
}
