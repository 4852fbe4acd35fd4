//! Initiator: transactions from submission to completion (section 8.4).

use super::CompletionCode;
use crate::connection::{Entry, RESPONSES, TRANSACTIONS, timer};
use crate::ids::Rsn;
use crate::queues::{Completion, Queues, WorkRequest, flag, opcode};
use crate::units::FalconTime;
use crate::verifier::{bounded, fresh};
use crate::wire::PacketType;

/// States of [`Transaction::state`] (F-8.4.1-3, F-8.4.1-4).
pub mod transaction_state {
    /// Not sent yet: PullReqUlpRx, PushReqUlpRx.
    pub const SUBMITTED: u8 = 0;
    /// PullReqTx, PushDataTx.
    pub const SENT: u8 = 1;
    /// PullReqAckd.
    pub const ACKNOWLEDGED: u8 = 2;
    /// PullDataRx: the response is being placed.
    pub const PLACING: u8 = 3;
    /// Over, but not reported to the application.
    pub const DONE: u8 = 4;
    /// PullDataUlpTx, PushCplTx, on an unordered connection behind an older one.
    pub const REPORTED: u8 = 5;
}

/// One of our transactions, found by its RSN.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// When its first packet was sent, ticks.
    pub since: u32,
    /// Bytes placed or sent, for the completion.
    pub length: u32,
    /// See [`transaction_state`].
    pub state: u8,
    /// [`CompletionCode`] once done. Before that the code of its Resync, should that have run out of attempts, or 0.
    pub code: u8,
    /// The target ULP's code.
    pub ulp_code: u8,
    /// Work request opcode, as it was when sent.
    pub opcode: u8,
    /// Work request flags, as they were when sent.
    pub flags: u8,
    /// 0.
    pub reserved: [u8; 3],
}

/// Initiator state of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Initiator {
    /// Oldest transaction not completed (F-8.4.1-1).
    pub brsn: Rsn,
    /// Next to send; on an unordered connection the next push to look at.
    pub next: Rsn,
    /// Unordered: the next pull to look at.
    pub next_pull: Rsn,
    /// Work requests before this one are known to be submitted. The application's counter is read again only when they
    /// are used up: its cache line is written on another CPU.
    pub known: Rsn,
    /// 1: it is the target's turn to send (F-8.3-2).
    pub targets_turn: u8,
    /// 1: completions wait for room in the completion queue.
    pub completions_blocked: u8,
    /// 1: the last turn of the engine found nothing to send.
    pub fruitless: u8,
    /// 0.
    pub reserved: [u8; 7],
    /// Pulls sent and not over: no more than a target keeps responses for ([`PULL_CREDITS`]).
    pub open_pulls: u16,
}

/// Pulls of a connection that may be open at once. A target of ours keeps [`RESPONSES`] responses until they are
/// acknowledged; more pulls would be refused there for want of resources (F-8.5.3.1-1).
pub const PULL_CREDITS: u16 = RESPONSES as u16;

impl Initiator {
    /// Nothing submitted; the first RSN is `rsn` (D-18).
    pub const fn new(rsn: Rsn) -> Self {
        Self {
            brsn: rsn,
            next: rsn,
            next_pull: rsn,
            known: rsn,
            targets_turn: 0,
            completions_blocked: 0,
            fruitless: 0,
            reserved: [0; 7],
            open_pulls: 0,
        }
    }

    /// Whether more than one work request waits for the engine, given what is known of the application's counter, and
    /// the counter itself, which is read only if needed. Needs no lock: the answer is a hint, and a counter that makes
    /// no sense is none.
    #[inline(always)]
    pub fn is_backlogged(next: u32, known: u32, fruitless: u8, submitted: impl FnOnce() -> u32) -> bool {
        let several = |counter: u32| {
            let waiting = counter.wrapping_sub(next);
            waiting > 1 && waiting <= TRANSACTIONS as u32
        };
        fruitless == 0 && (several(known) || several(submitted()))
    }
}

/// The packet type a work request is sent as. An unknown opcode takes a push's turn, to be refused then.
#[inline(always)]
const fn packet_type_of(code: u8) -> PacketType {
    match code {
        opcode::READ | opcode::COMPARE_SWAP | opcode::FETCH_ADD => PacketType::PullRequest,
        _ => PacketType::PushData,
    }
}

const fn index(rsn: Rsn) -> usize {
    rsn.0 as usize & (TRANSACTIONS - 1)
}

impl Entry {
    /// RSN behind the newest submitted transaction. The application's counter is untrusted: one that claims more than
    /// the table holds, or falls back behind what was looked at already, counts as nothing new.
    #[inline(always)]
    pub(crate) fn submitted(&mut self, queues: &impl Queues) -> Rsn {
        let Initiator { brsn, next, next_pull, known, .. } = self.connection.initiator;
        let looked_at = if next.is_before(next_pull) { next_pull } else { next };
        let looked_at = if looked_at.is_before(brsn) { brsn } else { looked_at };
        let is_new =
            |counter: Rsn| counter.distance_from(brsn) <= TRANSACTIONS as u32 && looked_at.is_before(counter);
        // Unordered pulls may pass pushes that wait at the gate, new ones too: there each look is a new one.
        if self.connection.config.ordered != 0 && is_new(known) {
            return known;
        }
        let producer = Rsn(queues.send_producer());
        let submitted = if is_new(producer) { producer } else { looked_at };
        self.connection.initiator.known = submitted;
        self.fetch_ahead(queues, looked_at, submitted);
        submitted
    }

    /// Touches the first of the new work requests: each lies in a cache line of the application's, and fetched together
    /// they cost little more than one.
    #[inline(always)]
    fn fetch_ahead(&self, queues: &impl Queues, from: Rsn, to: Rsn) {
        const AHEAD: u32 = 8;
        let new = to.distance_from(from);
        let mut n = 0;
        while n < AHEAD {
            if n < new {
                queues.touch(from.add(n));
            }
            n += 1;
        }
    }

    /// Whether nothing is submitted behind `rsn`, which is.
    #[inline(always)]
    pub(crate) fn is_last_submitted(&self, queues: &impl Queues, rsn: Rsn) -> bool {
        let behind = rsn.add(1);
        self.connection.initiator.known == behind && queues.send_producer() == behind.0
    }

    /// Whether the application has submitted what the engine has not looked at.
    #[inline(always)]
    pub(crate) fn has_new_work(&self, queues: &impl Queues) -> bool {
        let Initiator { next, next_pull, known, .. } = self.connection.initiator;
        let unordered = self.connection.config.ordered == 0;
        if next.is_before(known) || (unordered && next_pull.is_before(known)) {
            return true;
        }
        let submitted = Rsn(queues.send_producer());
        submitted != next || (unordered && submitted != next_pull)
    }

    /// The transaction with `rsn`.
    #[inline(always)]
    pub(crate) fn transaction(&mut self, rsn: Rsn) -> &mut Transaction {
        &mut self.tables.transactions[index(rsn)]
    }

    /// The next work request whose turn it is and that the gate lets pass: strictly in RSN order on an ordered
    /// connection (F-9.1.3-2), each kind in its own order on an unordered one (D-85).
    #[inline(always)]
    pub(crate) fn next_work_request(&mut self, queues: &impl Queues) -> Option<(Rsn, PacketType)> {
        let submitted = self.submitted(queues);
        if self.connection.config.ordered != 0 {
            let rsn = self.connection.initiator.next;
            if rsn == submitted {
                return None;
            }
            let kind = packet_type_of(queues.opcode(rsn));
            return self.passes_gate(kind).then_some((rsn, kind));
        }
        let push = self.look_past(queues, submitted, false);
        if push != submitted && self.passes_gate(PacketType::PushData) {
            return Some((push, PacketType::PushData));
        }
        let pull = self.look_past(queues, submitted, true);
        if pull != submitted && self.passes_gate(PacketType::PullRequest) {
            return Some((pull, PacketType::PullRequest));
        }
        None
    }

    /// Unordered: moves the cursor of pushes or pulls to the next unsent work request of that kind, or to
    /// `submitted`.
    #[inline(never)]
    fn look_past(&mut self, queues: &impl Queues, submitted: Rsn, pull: bool) -> Rsn {
        let initiator = &self.connection.initiator;
        let mut rsn = if pull { initiator.next_pull } else { initiator.next };
        if rsn.is_before(initiator.brsn) {
            rsn = initiator.brsn; // completed ones were reset; they are not to be sent again
        }
        while rsn != submitted {
            bounded!();
            if self.transaction(rsn).state == transaction_state::SUBMITTED {
                let kind = packet_type_of(queues.opcode(rsn));
                if matches!(kind, PacketType::PullRequest) == pull {
                    break;
                }
            }
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        let initiator = &mut self.connection.initiator;
        if pull {
            initiator.next_pull = rsn;
        } else {
            initiator.next = rsn;
        }
        rsn
    }

    /// A malformed work request completes in error as soon as it is booked.
    #[inline(never)]
    pub(crate) fn refuse(&mut self, queues: &impl Queues, rsn: Rsn) {
        self.complete(queues, rsn, CompletionCode::OperationError, 0);
        self.flush_completions(queues);
    }

    #[inline(always)]
    fn passes_gate(&self, kind: PacketType) -> bool {
        let (fabric, ncwnd) = (self.connection.fabric_window(), self.connection.congestion.ncwnd);
        if matches!(kind, PacketType::PullRequest) {
            return self.connection.initiator.open_pulls < PULL_CREDITS
                && self.connection.request_tx.may_send_new(kind, fabric, ncwnd);
        }
        self.connection.data_tx.may_send_new(kind, fabric, ncwnd)
    }

    /// Books the first transmission of `rsn` (F-8.4.3.1-2, F-8.4.3.3-1).
    #[inline(always)]
    pub(crate) fn transaction_sent(&mut self, rsn: Rsn, work: &WorkRequest, now: FalconTime) {
        let since = now.0;
        *self.transaction(rsn) = Transaction {
            since,
            length: work.length,
            state: transaction_state::SENT,
            code: 0,
            ulp_code: 0,
            opcode: work.opcode,
            flags: work.flags,
            reserved: [0; 3],
        };
        let ordered = self.connection.config.ordered != 0;
        let initiator = &mut self.connection.initiator;
        if matches!(packet_type_of(work.opcode), PacketType::PullRequest) {
            initiator.open_pulls = initiator.open_pulls.wrapping_add(1);
        }
        if ordered {
            initiator.next = rsn.add(1);
            initiator.next_pull = rsn.add(1);
        }
        let timers = &mut self.connection.timers;
        if timers.armed & timer::TRANSACTION == 0 {
            timers.armed |= timer::TRANSACTION;
            timers.transaction = now.after(self.connection.config.transaction_timeout).0;
        }
    }

    /// The Pull Request of `rsn` is acknowledged: PullReqAckd.
    #[inline(always)]
    pub(crate) fn pull_acknowledged(&mut self, rsn: Rsn) {
        let t = self.transaction(rsn);
        if t.state == transaction_state::SENT {
            t.state = transaction_state::ACKNOWLEDGED;
        }
    }

    /// Keeps the target ULP's code until the Resync is acknowledged (D-44).
    #[inline(always)]
    pub(crate) fn remember_ulp_code(&mut self, rsn: Rsn, code: u8) {
        self.transaction(rsn).ulp_code = code;
    }

    /// The Resync of a transaction is exhausted: notes for [`Self::drain_dead`] what the Resync stood for (D-44, D-89). A
    /// transaction that has ended, whose place may be another's by now, is left alone.
    #[inline(always)]
    pub(crate) fn exhausted(&mut self, rsn: Rsn, resync_code: u8) {
        let brsn = self.connection.initiator.brsn;
        let t = self.transaction(rsn);
        let open = t.state != transaction_state::SUBMITTED && t.state < transaction_state::DONE;
        if open && rsn.distance_from(brsn) < TRANSACTIONS as u32 {
            t.code = resync_code;
        }
    }

    /// Ends a transaction; one that has ended before, or was never sent, is left alone.
    #[inline(never)]
    pub(crate) fn complete(&mut self, queues: &impl Queues, rsn: Rsn, code: CompletionCode, ulp_code: u8) {
        let brsn = self.connection.initiator.brsn;
        let ordered = self.connection.config.ordered != 0;
        if rsn.distance_from(brsn) >= TRANSACTIONS as u32 {
            return;
        }
        let t = self.transaction(rsn);
        if t.state == transaction_state::SUBMITTED || t.state >= transaction_state::DONE {
            return;
        }
        t.state = transaction_state::DONE;
        t.code = code as u8;
        if ulp_code != 0 {
            t.ulp_code = ulp_code;
        }
        let t = *t;
        let pull = matches!(packet_type_of(t.opcode), PacketType::PullRequest);
        let initiator = &mut self.connection.initiator;
        // What is drained from a dead connection may never have been sent.
        initiator.open_pulls = initiator.open_pulls.saturating_sub(pull as u16);
        if !ordered {
            if report(queues, rsn, &t) {
                self.transaction(rsn).state = transaction_state::REPORTED;
                self.tables.statistics.completions += 1;
            } else {
                self.connection.initiator.completions_blocked = 1;
            }
        }
    }

    /// Reports what is done, on an ordered connection in RSN order (F-8.4.2-1), and moves BRSN (F-8.4.1-1).
    #[inline(never)]
    pub(crate) fn flush_completions(&mut self, queues: &impl Queues) {
        let mut rsn = self.connection.initiator.brsn;
        let mut blocked = 0;
        let first = rsn;
        loop {
            bounded!();
            let t = *self.transaction(rsn);
            if t.state == transaction_state::DONE {
                if !report(queues, rsn, &t) {
                    blocked = 1;
                    break;
                }
                self.tables.statistics.completions += 1;
            } else if t.state != transaction_state::REPORTED {
                break;
            }
            self.transaction(rsn).state = transaction_state::SUBMITTED;
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        let ordered = self.connection.config.ordered != 0;
        let initiator = &mut self.connection.initiator;
        if ordered || blocked != 0 {
            initiator.completions_blocked = blocked;
        }
        if rsn != first {
            initiator.brsn = rsn;
            queues.set_send_consumer(rsn);
        }
    }

    /// Tries again to report what did not fit into the completion queue. Without an order it may stand behind
    /// transactions that are still open; then one is reported a turn.
    #[inline(never)]
    pub(crate) fn retry_completions(&mut self, queues: &impl Queues) {
        if self.connection.config.ordered == 0 {
            let rsn = self.oldest_unreported();
            let t = *self.transaction(rsn);
            if t.state == transaction_state::DONE {
                if report(queues, rsn, &t) {
                    self.transaction(rsn).state = transaction_state::REPORTED;
                    self.tables.statistics.completions += 1;
                }
                return;
            }
            self.connection.initiator.completions_blocked = 0;
        }
        self.flush_completions(queues);
    }

    /// The oldest transaction that is over but not reported; any other if there is none.
    #[inline(never)]
    fn oldest_unreported(&mut self) -> Rsn {
        let mut rsn = self.connection.initiator.brsn;
        let end = rsn.add(TRANSACTIONS as u32);
        while rsn != end {
            bounded!();
            if self.transaction(rsn).state == transaction_state::DONE {
                break;
            }
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        rsn
    }

    /// The transaction timer fired: the oldest transaction ends if it is too old, and the timer is set for the
    /// next (F-11-19).
    #[inline(always)]
    pub(crate) fn on_transaction_timer(&mut self, queues: &impl Queues, now: FalconTime) {
        self.connection.timers.armed &= !timer::TRANSACTION;
        if let Some(deadline) = self.oldest_deadline(now)
            && now.reached(deadline)
        {
            let brsn = self.connection.initiator.brsn;
            self.complete(queues, brsn, CompletionCode::LocalTimeout, 0);
            self.flush_completions(queues);
        }
        if let Some(deadline) = self.oldest_deadline(now) {
            self.connection.timers.transaction = deadline.0;
            self.connection.timers.armed |= timer::TRANSACTION;
        }
    }

    /// When the oldest transaction times out; a full timeout from now if it is about to be reported, never if it was
    /// not sent.
    #[inline(always)]
    fn oldest_deadline(&mut self, now: FalconTime) -> Option<FalconTime> {
        let timeout = self.connection.config.transaction_timeout;
        let t = self.transaction(self.connection.initiator.brsn);
        match t.state {
            transaction_state::SUBMITTED => None,
            transaction_state::SENT | transaction_state::ACKNOWLEDGED => {
                Some(FalconTime(t.since).after(timeout))
            }
            _ => Some(now.after(timeout)),
        }
    }

    /// A dead connection completes everything submitted: transactions whose Resync was exhausted with what it stood for,
    /// usually `LocalTO`, all others with `DeadConn` (D-44, D-89, F-11-27). True while there is more.
    #[inline(never)]
    pub(crate) fn drain_dead(&mut self, queues: &impl Queues) -> bool {
        let submitted = self.submitted(queues);
        let mut rsn = self.connection.initiator.brsn;
        while rsn != submitted {
            bounded!();
            let t = self.transaction(rsn);
            if t.state < transaction_state::DONE {
                if t.state == transaction_state::SUBMITTED {
                    *t = Transaction { opcode: queues.opcode(rsn), ..Transaction::default() };
                }
                t.state = transaction_state::SENT;
                let code = if t.code == 0 {
                    CompletionCode::DeadConnection
                } else {
                    CompletionCode::of_resync(t.code)
                };
                self.complete(queues, rsn, code, 0);
            }
            rsn = Rsn(fresh(rsn.0.wrapping_add(1)));
        }
        self.flush_completions(queues);
        let initiator = &mut self.connection.initiator;
        if initiator.next.is_before(initiator.brsn) {
            initiator.next = initiator.brsn;
        }
        if initiator.next_pull.is_before(initiator.brsn) {
            initiator.next_pull = initiator.brsn;
        }
        self.connection.initiator.brsn != submitted
    }
}

/// Writes the completion of a transaction, unless it succeeded and was not signaled; false when the queue is
/// full.
#[inline(always)]
fn report(queues: &impl Queues, rsn: Rsn, t: &Transaction) -> bool {
    let silent = t.flags & flag::SIGNALED == 0 && t.code == 0 && t.ulp_code == 0;
    silent
        || queues.complete(Completion {
            wr_id: queues.wr_id(rsn),
            length: t.length,
            rsn: rsn.0,
            status: t.code,
            ulp_code: t.ulp_code,
            opcode: t.opcode,
            ..Completion::default()
        })
}
