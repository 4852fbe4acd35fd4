//! Target: the peer's requests, in RSN order on an ordered connection, held while they have to wait (section 8.5).
//! Only the ULP knows the meaning of a request.

use super::TRANSACTIONS;
use crate::ids::{CellId, Psn, Rsn};
use crate::packet_delivery::WindowBits;
use crate::ring::{at, at_mut, place};
use crate::units::{Deadline, FalconTime};
use crate::verifier::{bounded, fresh};
use crate::wire::nack::rnr_timeout;
use bitflags::bitflags;
use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

/// Code of the longest RNR delay that a target of ours requests: 163.84 ms (F-7.8-12).
const LONGEST_RNR_CODE: u8 = 28;
/// Unordered: index of the first pull in the table. The pushes are before it.
const PULLS_FROM: u32 = WindowBits::WIDTH;
const _: () =
    assert!(TRANSACTIONS as u32 >= 2 * PULLS_FROM, "the table has a place for each packet of both windows");
/// Step from an RNR code to the code of twice the delay.
const TWICE: u8 = 2;

/// State of a request of the peer (F-8.5.1-3, F-8.5.1-4). A request that the ULP processes has no state: this
/// happens within the step that delivers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
#[repr(u8)]
pub enum RequestState {
    /// The entry is not in use.
    #[default]
    Free = 0,
    /// PushDataRx, PullReqRx: waits in a receive cell until it is next in order.
    Held = 1,
    /// Waits in a receive cell for the ULP to be ready (D-43).
    Rnr = 2,
    /// The ULP completed it in error. It waits for the peer's Resync.
    Errored = 3,
    /// A Resync took its place before it could be delivered (D-25).
    Consumed = 4,
}

bitflags! {
    /// Properties of a held request.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub struct RequestFlags: u8 {
        /// The packet had AR set (D-32).
        const ACK_REQUEST = 1;
        /// It is a Pull Request.
        const PULL = 2;
        /// It is for an upper layer protocol that does not know this connection.
        const FOREIGN = 4;
    }
}

/// A request of the peer that is not finished.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct TargetRequest {
    /// RSN.
    pub rsn: Rsn,
    /// PSN in its window.
    pub psn: Psn,
    /// Receive cell that holds its payload.
    pub cell: CellId,
    /// Bytes of ULP payload.
    pub length: u16,
    /// Its Request Length field.
    pub request_length: u16,
    /// State.
    pub state: RequestState,
    /// ULP code of an error. While the request waits for the ULP: code of the last RNR delay.
    pub code: u8,
    /// See [`RequestFlags`].
    pub flags: RequestFlags,
    /// Always 0.
    pub reserved: u8,
    /// While the request waits for the ULP: time when it is offered to the ULP again.
    pub retry_at: FalconTime,
}

impl TargetRequest {
    /// Returns whether it is a Pull Request.
    #[inline(always)]
    pub const fn is_pull(&self) -> bool {
        self.flags.contains(RequestFlags::PULL)
    }
}

/// What an ordered connection in RNR waits for (D-42): nothing.
const NOT_IN_RNR: u8 = 0;
/// A push, which was refused. All pushes behind it are refused too (F-8.5.3.4-4).
const PUSH_IN_RNR: u8 = 1;
/// A pull. Its peer does not know, so nothing behind it is refused (F-8.5.3.4-2).
const PULL_IN_RNR: u8 = 2;

/// The peer's unfinished requests: by RSN (ordered) or by window and PSN (unordered).
type Table = [TargetRequest; TRANSACTIONS];

/// Target of a connection. Requests and responses are in tables beside it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Target {
    /// RSN to be delivered next (F-8.5.1-2).
    pub nrsn: Rsn,
    /// Oldest response not acknowledged.
    pub response_head: u32,
    /// Next response to send.
    pub response_next: u32,
    /// Where the next response is put.
    pub response_tail: u32,
    /// Requests in receive cells.
    pub held: u32,
    /// 1: requests are delivered in RSN order (F-5-1).
    pub ordered: u8,
    /// Ordered: the ULP answered `nrsn`, a push (1) or a pull (2), with RNR and has not accepted it since (D-42).
    pub rnr: u8,
    /// First RNR delay to ask for, as a code (F-7.8-9).
    pub first_rnr_code: u8,
    /// 1: a push was passed over in the order without being delivered.
    pub gap: u8,
    /// Time when the next request in RNR is offered to the ULP again.
    pub rnr_timer: Deadline,
    /// Requests whose RNR time is over. Unordered: pushes by PSN modulo the window. Ordered: only one bit, for `nrsn`.
    pub rnr_due: WindowBits,
    /// Unordered: pushes that wait until their RNR time is over, by PSN modulo the window.
    pub rnr_waiting: WindowBits,
    /// Unordered: pulls whose RNR time is over, by PSN modulo the window.
    pub pulls_due: WindowBits,
    /// Unordered: pulls that wait until their RNR time is over, by PSN modulo the window.
    pub pulls_waiting: WindowBits,
}

/// What to do with a request that is new in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Arrived {
    /// The ULP gets it now.
    Deliver,
    /// It waits in a receive cell.
    Hold,
    /// As [`Self::Hold`], and its sender is notified that the ULP is not ready (D-42).
    HoldRnr,
    /// There is no space for it: nothing is marked as received (F-8.5.3.1-1, F-8.5.3.3-1).
    NoRoom,
    /// Its RSN is already passed: a protocol error of the peer (D-53).
    Past,
}

/// What to do with a push that was received before (D-21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// Nothing.
    Drop,
    /// Its sender is notified again that the ULP is not ready, with this delay.
    Rnr(u8),
    /// Its sender is notified again that the ULP completed it in error.
    Error(u8),
    /// Its sender is notified again that the ULP does not know the connection.
    InvalidCid,
    /// Deliver it to the ULP: this copy is as good as the one that is held.
    Deliver,
}

/// A held request that is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its index in the table.
    pub key: u32,
    /// Its table entry.
    pub request: TargetRequest,
}

impl Target {
    /// Creates a target that expects `rsn` as the first RSN (D-18).
    pub fn new(rsn: Rsn, ordered: bool, first_rnr_code: u8) -> Self {
        Self { nrsn: rsn, ordered: ordered as u8, first_rnr_code, ..Self::default() }
    }

    /// Returns the index of a request in the table: by RSN if the connection is ordered, otherwise by window and
    /// PSN.
    #[inline(always)]
    pub fn key(&self, rsn: Rsn, psn: Psn, pull: bool) -> u32 {
        if self.ordered != 0 {
            place::<TRANSACTIONS>(rsn.0) as u32
        } else {
            bit_of(psn.0) | if pull { PULLS_FROM } else { 0 }
        }
    }

    /// Decides about a Push Data or Pull Request that is new in its window (D-23, steps 8 to 10).
    #[inline(always)]
    pub(crate) fn arrived(&self, table: &Table, key: u32, rsn: Rsn, pull: bool) -> Arrived {
        let ahead = rsn.distance_from(self.nrsn);
        if self.ordered != 0 && rsn.is_before(self.nrsn) {
            return Arrived::Past;
        }
        let too_far = self.ordered != 0 && ahead >= TRANSACTIONS as u32;
        if too_far || at(table, key).state != RequestState::Free {
            return Arrived::NoRoom;
        }
        if self.ordered != 0 && ahead != 0 {
            return if self.rnr == PUSH_IN_RNR && !pull { Arrived::HoldRnr } else { Arrived::Hold };
        }
        if pull && !self.has_response_slot() {
            return Arrived::NoRoom;
        }
        Arrived::Deliver
    }

    /// Returns whether `rsn` is the request that all others of an ordered connection wait for.
    #[inline(always)]
    pub(crate) fn is_next_in_order(&self, rsn: Rsn) -> bool {
        self.ordered != 0 && rsn == self.nrsn
    }

    /// Decides about a push whose PSN was received before, according to the state of its request.
    #[inline(always)]
    pub(crate) fn duplicate(&self, table: &Table, key: u32, rsn: Rsn, psn: Psn) -> Duplicate {
        let request = at(table, key);
        if request.rsn != rsn || request.psn != psn || request.is_pull() {
            return Duplicate::Drop;
        }
        match request.state {
            RequestState::Errored if request.flags.contains(RequestFlags::FOREIGN) => Duplicate::InvalidCid,
            RequestState::Errored => Duplicate::Error(request.code),
            RequestState::Held if self.rnr == PUSH_IN_RNR => Duplicate::Rnr(self.rnr_code(table, key)),
            RequestState::Rnr => Duplicate::Deliver, // D-43
            _ => Duplicate::Drop,
        }
    }

    /// Returns the RNR delay code for the push at `key`: its own, or that of an earlier push it waits for (D-42).
    #[inline(always)]
    pub(crate) fn rnr_code(&self, table: &Table, key: u32) -> u8 {
        let key = if self.ordered != 0 { self.nrsn.0 } else { key };
        let request = at(table, key);
        if request.state == RequestState::Rnr { request.code } else { self.first_rnr_code }
    }

    /// Returns the RNR delay code for a push that arrives and is not kept yet. If other pushes of an unordered connection
    /// wait for a receive, that of one of them: this push will not find one earlier. If it finds no cell either, its
    /// sender asks again after that delay, and not each time after the first delay.
    #[inline(always)]
    pub(crate) fn rnr_code_without_cell(&self, table: &Table) -> u8 {
        let key = self.rnr_waiting.trailing_zeros();
        if key < WindowBits::WIDTH { at(table, key).code } else { self.first_rnr_code }
    }

    /// Records a request whose payload is in a receive cell.
    #[inline(always)]
    pub(crate) fn held(&mut self, table: &mut Table, key: u32, request: TargetRequest) {
        *at_mut(table, key) = request;
        self.held += 1;
    }

    /// Records that the ULP is not ready for the request at `key`, which is in a cell. It is offered again when its RNR
    /// time is over (D-43, F-8.5.3.4-2). Each further refusal doubles the delay: when the application posts a
    /// receive, a push is offered earlier. Returns the code of the delay.
    #[inline(always)]
    pub(crate) fn not_ready(&mut self, table: &mut Table, key: u32, now: FalconTime) -> u8 {
        let request = at_mut(table, key);
        let code = if request.state != RequestState::Rnr {
            self.first_rnr_code
        } else {
            next_rnr_code(request.code)
        };
        let at = now.after(rnr_timeout(code));
        request.state = RequestState::Rnr;
        request.code = code;
        request.retry_at = at;
        let pull = request.is_pull();
        if self.ordered != 0 {
            self.rnr = if pull { PULL_IN_RNR } else { PUSH_IN_RNR };
            self.rnr_due = WindowBits::ZERO;
            self.rnr_timer = Deadline::at(at);
        } else {
            if pull {
                self.pulls_due.clear(bit_of(key));
                self.pulls_waiting.set(bit_of(key));
            } else {
                self.rnr_due.clear(bit_of(key));
                self.rnr_waiting.set(bit_of(key));
            }
            self.rnr_timer = Deadline::at(at).or_earlier(self.rnr_timer);
        }
        code
    }

    /// Processes the RNR timer: requests that are due are offered to the ULP again (F-6.4-1).
    #[inline(always)]
    pub(crate) fn on_rnr_timer(&mut self, table: &Table, now: FalconTime) {
        self.rnr_timer = Deadline::NONE;
        if self.ordered != 0 {
            if self.rnr != NOT_IN_RNR {
                self.rnr_due = WindowBits::bit(0);
            }
            return;
        }
        self.find_due(table, now);
    }

    #[inline(never)]
    fn find_due(&mut self, table: &Table, now: FalconTime) {
        let mut waiting = self.rnr_waiting;
        while let Some(key) = waiting.take_lowest() {
            bounded!();
            let retry_at = at(table, key).retry_at;
            if now.reached(retry_at) {
                self.rnr_waiting.clear(key);
                self.rnr_due.set(key);
            } else {
                self.rnr_timer = Deadline::at(retry_at).or_earlier(self.rnr_timer);
            }
        }
        let mut waiting = self.pulls_waiting;
        while let Some(key) = waiting.take_lowest() {
            bounded!();
            let retry_at = at(table, fresh(key | PULLS_FROM)).retry_at;
            if now.reached(retry_at) {
                self.pulls_waiting.clear(key);
                self.pulls_due.set(key);
            } else {
                self.rnr_timer = Deadline::at(retry_at).or_earlier(self.rnr_timer);
            }
        }
    }

    /// Returns whether a request whose RNR time is over could be offered to the ULP now.
    #[inline(always)]
    pub fn has_due(&self) -> bool {
        let pulls = !self.pulls_due.is_zero() || self.rnr == PULL_IN_RNR && !self.rnr_due.is_zero();
        pulls && self.has_response_slot() || self.rnr != PULL_IN_RNR && !self.rnr_due.is_zero()
    }

    /// Returns whether a push waits for the ULP to be ready.
    #[inline(always)]
    pub fn waits_for_ulp(&self) -> bool {
        self.rnr == PUSH_IN_RNR || !self.rnr_waiting.is_zero()
    }

    /// Records that the ULP is ready: the pushes that wait for it are offered at once.
    #[inline(always)]
    pub(crate) fn ulp_ready(&mut self) {
        // A pull does not wait for a receive: its time goes on.
        if self.ordered != 0 {
            if self.rnr != PUSH_IN_RNR {
                return;
            }
            self.rnr_due = WindowBits::bit(0);
        } else {
            self.rnr_due = self.rnr_due.or(self.rnr_waiting);
            self.rnr_waiting = WindowBits::ZERO;
            if !self.pulls_waiting.is_zero() {
                return;
            }
        }
        self.rnr_timer = Deadline::NONE;
    }

    /// Returns whether a held request could be next, as far as this is visible without the table.
    #[inline(always)]
    pub(crate) fn may_have_next(&self) -> bool {
        self.ordered != 0 && self.held != 0 && self.rnr == NOT_IN_RNR && self.has_response_slot()
    }

    /// Returns whether a Resync took the place of the next request. [`Self::next_held`] passes over it.
    #[inline(always)]
    pub(crate) fn is_next_consumed(&self, table: &Table) -> bool {
        let next = at(table, self.nrsn.0);
        self.ordered != 0 && next.state == RequestState::Consumed && next.rsn == self.nrsn
    }

    /// Returns a held request that is next, if there is one. It is not marked: if the caller does not deliver it,
    /// a later call returns it again.
    #[inline(always)]
    pub(crate) fn next_held(&mut self, table: &mut Table) -> Option<Held> {
        if self.ordered == 0 {
            let mut key = self.rnr_due.trailing_zeros();
            if key >= WindowBits::WIDTH {
                let pull = self.pulls_due.trailing_zeros();
                if pull >= WindowBits::WIDTH || !self.has_response_slot() {
                    return None;
                }
                key = fresh(pull | PULLS_FROM);
            }
            let request = *at(table, key);
            if request.state != RequestState::Rnr {
                self.forget_rnr(key, key & PULLS_FROM != 0);
                return None;
            }
            return Some(Held { key, request });
        }
        let request = *at(table, self.nrsn.0);
        if request.state == RequestState::Free || request.rsn != self.nrsn {
            return None;
        }
        self.next_in_order(table)
    }

    #[inline(always)]
    fn next_in_order(&mut self, table: &mut Table) -> Option<Held> {
        let mut looked_at = 0;
        while looked_at < TRANSACTIONS as u32 {
            bounded!();
            looked_at = fresh(looked_at + 1);
            let nrsn = Rsn(fresh(self.nrsn.0));
            let key = place::<TRANSACTIONS>(nrsn.0) as u32;
            let request = *at(table, key);
            if request.rsn != nrsn {
                return None;
            }
            match request.state {
                RequestState::Consumed => {
                    at_mut(table, key).state = RequestState::Free;
                    self.gap |= !request.is_pull() as u8;
                    self.nrsn = nrsn.add(1);
                }
                RequestState::Held if !request.is_pull() || self.has_response_slot() => {
                    return Some(Held { key, request });
                }
                RequestState::Rnr if self.has_due() => return Some(Held { key, request }),
                _ => return None,
            }
        }
        None
    }

    /// Records that the ULP has taken, answered or refused the request `rsn`: the next RSN is expected (F-8.5.1-2).
    #[inline(always)]
    pub(crate) fn delivered(&mut self, key: u32, rsn: Rsn, pull: bool) {
        if self.ordered != 0 {
            self.nrsn = rsn.add(1);
            if self.rnr != NOT_IN_RNR {
                self.rnr = NOT_IN_RNR;
                self.rnr_timer = Deadline::NONE;
                self.rnr_due = WindowBits::ZERO;
            }
        } else {
            self.forget_rnr(key, pull);
        }
    }

    #[inline(always)]
    fn forget_rnr(&mut self, key: u32, pull: bool) {
        if pull {
            self.pulls_waiting.clear(bit_of(key));
            self.pulls_due.clear(bit_of(key));
        } else {
            self.rnr_waiting.clear(bit_of(key));
            self.rnr_due.clear(bit_of(key));
        }
    }

    /// Frees the table entry of a request. Returns the cell that held it, if any.
    #[inline(always)]
    pub(crate) fn free(&mut self, table: &mut Table, key: u32) -> CellId {
        let request = at_mut(table, key);
        let cell = request.cell;
        *request = TargetRequest::default();
        if !cell.is_none() {
            self.held = self.held.saturating_sub(1);
        }
        cell
    }

    /// Records that the ULP completed a push in error (F-8.5.3.5-1), or does not know the connection
    /// ([`RequestFlags::FOREIGN`]). Its entry waits for the peer's Resync. Returns the cell that held it, if
    /// any.
    #[inline(always)]
    pub(crate) fn errored(
        &mut self,
        table: &mut Table,
        key: u32,
        (rsn, psn): (Rsn, Psn),
        (code, flags): (u8, RequestFlags),
    ) -> CellId {
        let cell = self.free(table, key);
        *at_mut(table, key) =
            TargetRequest { rsn, psn, state: RequestState::Errored, code, flags, ..TargetRequest::default() };
        cell
    }

    /// Records a Resync for a request: the request is over, delivered or not (D-25). Returns the cell that held it,
    /// if any. Returns `None` if there is no space to record the Resync. Then the peer has to send it
    /// again.
    #[inline(always)]
    pub(crate) fn resync(&mut self, table: &mut Table, rsn: Rsn, psn: Psn, pull: bool) -> Option<CellId> {
        let key = self.key(rsn, psn, pull);
        let request = *at(table, key);
        let taken = request.state != RequestState::Free;
        let same = taken && request.rsn == rsn && request.psn == psn && request.is_pull() == pull;
        let ahead = rsn.distance_from(self.nrsn);
        let awaited = self.ordered != 0 && !rsn.is_before(self.nrsn);
        if awaited && ahead >= TRANSACTIONS as u32 {
            return None; // forgotten, it would stop the order when its turn comes
        }
        if awaited && ahead != 0 && taken && !same {
            return None; // the entry belongs to another transaction, which must not be ended here
        }
        let mut cell = CellId::NONE;
        if same {
            cell = self.free(table, key);
            if self.ordered == 0 {
                self.forget_rnr(key, pull);
            }
        }
        if awaited && ahead == 0 {
            self.gap |= !pull as u8;
            self.delivered(key, rsn, pull);
        } else if awaited {
            *at_mut(table, key) = TargetRequest {
                rsn,
                psn,
                state: RequestState::Consumed,
                flags: if pull { RequestFlags::PULL } else { RequestFlags::empty() },
                ..TargetRequest::default()
            };
        }
        Some(cell)
    }

    /// Returns whether a push was passed over without being delivered since the last call. It may have been a
    /// segment of a message in progress.
    #[inline(always)]
    pub(crate) fn take_gap(&mut self) -> bool {
        core::mem::take(&mut self.gap) != 0
    }

    /// Frees one held request of a connection that ended. Returns its cell, or `None` if no request is held.
    #[inline(never)]
    pub(crate) fn give_up_one(&mut self, table: &mut Table) -> Option<CellId> {
        // From a place that the verifier does not know: it would walk a loop from 0 to its end.
        let first = self.nrsn.0;
        let mut key = first;
        while key.wrapping_sub(first) < TRANSACTIONS as u32 {
            bounded!();
            if !at(table, key).cell.is_none() {
                return Some(self.free(table, key));
            }
            key = fresh(key.wrapping_add(1));
        }
        self.held = 0;
        None
    }
}

/// Returns the bit of a request of an unordered connection, by its PSN or its key.
#[inline(always)]
const fn bit_of(number: u32) -> u32 {
    place::<{ WindowBits::WIDTH as usize }>(number) as u32
}

/// Returns the code of about twice the delay, up to the longest.
#[inline(always)]
const fn next_rnr_code(code: u8) -> u8 {
    // Code 0 is the longest delay of all.
    if code == 0 || code >= LONGEST_RNR_CODE {
        code
    } else if code + TWICE > LONGEST_RNR_CODE {
        LONGEST_RNR_CODE
    } else {
        code + TWICE
    }
}
