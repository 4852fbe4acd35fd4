//! Target: requests of the peer, in RSN order on an ordered connection, held while they have to wait
//! (section 8.5). What a request means is the ULP's business ([`crate::ulp`]).

use crate::bitmap::Bitmap128;
use crate::connection::{Entry, TRANSACTIONS, timer};
use crate::counters::Counter;
use crate::datapath::{NO_CELL, Scratch, delivery};
use crate::ids::{Psn, Rsn};
use crate::packet_delivery::{Arrival, ReceiveWindow};
use crate::queues::Queues;
use crate::units::Picoseconds;
use crate::verifier::{bounded, fresh};
use crate::wire::PacketType;
use crate::wire::nack::{NackCode, rnr_timeout};

/// No key of a request.
pub(crate) const NO_REQUEST: u32 = u32::MAX;

/// States of [`TargetRequest::state`] (F-8.5.1-3, F-8.5.1-4).
pub mod request_state {
    /// Entry not in use.
    pub const FREE: u8 = 0;
    /// PushReqUlpTx, PullReqUlpTx: the ULP works on it.
    pub const DELIVERING: u8 = 1;
    /// PushDataRx, PullReqRx: waits in a receive cell for its turn.
    pub const HELD: u8 = 2;
    /// Waits in a receive cell for the ULP to be ready (D-43).
    pub const RNR: u8 = 3;
    /// The ULP completed it in error; waits for the peer's Resync.
    pub const ERRORED: u8 = 4;
    /// A Resync took its place before it could be delivered (D-25).
    pub const CONSUMED: u8 = 5;
}

/// Bits of [`TargetRequest::flags`].
pub(crate) mod request_flag {
    /// The packet had AR set (D-32).
    pub(crate) const ACK_REQUEST: u8 = 1;
    /// It is a Pull Request.
    pub(crate) const PULL: u8 = 2;
    /// It completes a posted receive.
    pub(crate) const RECEIVES: u8 = 4;
    /// The receive completion carries immediate data.
    pub(crate) const IMMEDIATE: u8 = 8;
    /// It is the last segment of its message.
    pub(crate) const LAST: u8 = 16;
}

/// A request of the peer that is not finished.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetRequest {
    /// RSN.
    pub rsn: u32,
    /// PSN in its window.
    pub psn: u32,
    /// Receive cell that holds its payload, or `NO_CELL`.
    pub cell: u16,
    /// Bytes of ULP payload.
    pub length: u16,
    /// Posted receive it consumes, or response slot, modulo 2^16.
    pub slot: u16,
    /// See [`request_state`].
    pub state: u8,
    /// ULP code of an error.
    pub code: u8,
    /// AR, pull, receive.
    pub flags: u8,
    /// 0.
    pub reserved: [u8; 3],
    /// Immediate data for the receive completion.
    pub immediate: u32,
    /// Bytes of the message it completes; while it is held, its Request Length field.
    pub message_length: u32,
}

/// Target state of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// RSN to be delivered next (F-8.5.1-2).
    pub nrsn: Rsn,
    /// Posted receives consumed.
    pub receive_next: u32,
    /// Bytes of the current SEND message placed so far.
    pub receive_offset: u32,
    /// Oldest response not acknowledged.
    pub response_head: u32,
    /// Next response to send.
    pub response_next: u32,
    /// Behind the newest response.
    pub response_tail: u32,
    /// Requests in receive cells.
    pub held: u32,
    /// Smoothed share of the packet pool in use, 8 fraction bits (F-10.2-1).
    pub packet_occupancy: u32,
    /// Smoothed number of the node's receive cells in use, 8 fraction bits (F-10.2-1).
    pub buffer_occupancy: u32,
    /// 1: the ULP said RNR to `nrsn` and has not accepted it since (D-42).
    pub rnr: u8,
    /// 1: the RNR time of `nrsn` is over, it may be redelivered.
    pub rnr_due: u8,
    /// 1: a request is at the ULP; ordered connections deliver one at a time.
    pub delivering: u8,
    /// 1: between the first and the last segment of a SEND.
    pub in_message: u8,
    /// Unordered: pushes that wait out their RNR time, by PSN modulo 128.
    pub rnr_waiting: Bitmap128,
    /// Unordered: pushes whose RNR time is over.
    pub rnr_retry: Bitmap128,
}

impl Target {
    /// The first RSN expected is `rsn` (D-18).
    pub const fn new(rsn: Rsn) -> Self {
        Self {
            nrsn: rsn,
            receive_next: 0,
            receive_offset: 0,
            response_head: 0,
            response_next: 0,
            response_tail: 0,
            held: 0,
            packet_occupancy: 0,
            buffer_occupancy: 0,
            rnr: 0,
            rnr_due: 0,
            delivering: 0,
            in_message: 0,
            rnr_waiting: Bitmap128::ZERO,
            rnr_retry: Bitmap128::ZERO,
        }
    }

    /// The order passes over `nrsn`, which a Resync consumed (D-25). If that was a push, it may have been a segment
    /// of the SEND in progress: a message with a hole is never completed.
    #[inline(always)]
    fn pass(&mut self, nrsn: Rsn, pull: bool) {
        self.nrsn = nrsn.add(1);
        if !pull {
            self.in_message = 0;
            self.receive_offset = 0;
        }
    }

    /// Unordered: the push at `key` does not wait for redelivery any more.
    #[inline(always)]
    pub(crate) fn forget_rnr(&mut self, key: u32) {
        self.rnr_waiting.clear(key & 127);
        self.rnr_retry.clear(key & 127);
    }
}

impl Entry {
    /// Index of a request in the table: by RSN when that orders, else by window and PSN.
    #[inline(always)]
    pub(crate) fn request_key(&self, rsn: Rsn, psn: Psn, pull: bool) -> u32 {
        if self.connection.config.ordered != 0 {
            rsn.0 & (TRANSACTIONS as u32 - 1)
        } else {
            (psn.0 & 127) | (pull as u32) << 7
        }
    }

    /// The request at `key`.
    #[inline(always)]
    pub(crate) fn request(&mut self, key: u32) -> &mut TargetRequest {
        &mut self.tables.requests[key as usize & (TRANSACTIONS - 1)]
    }

    /// The receive window a request belongs to.
    #[inline(always)]
    pub(crate) fn receive_window(&mut self, pull: bool) -> &mut ReceiveWindow {
        if pull { &mut self.connection.request_rx } else { &mut self.connection.data_rx }
    }

    /// A Push Data or Pull Request that is new in its window (D-23, steps 8 to 10). The key under which the ULP gets it, or
    /// [`NO_REQUEST`].
    #[inline(always)]
    pub(crate) fn accept_request(&mut self, s: &mut Scratch, now: Picoseconds) -> u32 {
        let pull = s.packet.kind == PacketType::PullRequest as u8;
        let (rsn, psn) = (Rsn(s.packet.rsn), Psn(s.packet.psn));
        let ordered = self.connection.config.ordered != 0;
        let target = &self.connection.target;
        let (nrsn, busy, rnr) = (target.nrsn, target.delivering != 0, target.rnr != 0);
        if ordered && rsn.is_before(nrsn) {
            // D-53: a protocol error; acknowledged, or its sender would repeat it for ever.
            self.receive_window(pull).acknowledge(psn);
            self.connection.coalesce_ack(now.ticks());
            s.count(Counter::DropRsn);
            return NO_REQUEST;
        }
        let key = self.request_key(rsn, psn, pull);
        let ahead = rsn.distance_from(nrsn);
        if (ordered && ahead >= TRANSACTIONS as u32) || self.request(key).state != request_state::FREE {
            self.resource_nack(s, now);
            return NO_REQUEST;
        }
        if ordered && (ahead != 0 || busy) {
            self.hold(s, key, false);
            if rnr && !pull {
                self.nack(s, NackCode::RNR, 0, now); // D-42
            }
            return NO_REQUEST;
        }
        if pull && !self.has_response_slot() {
            self.resource_nack(s, now);
            return NO_REQUEST;
        }
        key
    }

    /// Asks for the packet's payload to be kept in a receive cell; [`Entry::request_held`] follows.
    #[inline(always)]
    pub(crate) fn hold(&mut self, s: &mut Scratch, key: u32, rnr: bool) {
        s.delivery.kind = delivery::HOLD;
        s.delivery.key = key;
        s.delivery.rsn = s.packet.rsn;
        s.delivery.rnr = rnr as u32;
        s.delivery.length = s.packet.payload_length;
    }

    /// The payload of the packet stands in `cell`, or there was none to be had. Nothing was marked before, so
    /// the window is asked again: another CPU may have been faster.
    #[inline(never)]
    pub fn request_held(&mut self, s: &mut Scratch, queues: &impl Queues, cell: u32, now: Picoseconds) {
        let pull = s.packet.kind == PacketType::PullRequest as u8;
        let (rsn, psn) = (Rsn(s.packet.rsn), Psn(s.packet.psn));
        let (key, rnr) = (s.delivery.key, s.delivery.rnr != 0);
        let outgoing = s.transmission.present;
        s.delivery.kind = delivery::NONE;
        s.delivery.free_cell = cell;
        s.report.clear(); // what the first step counted was raised after it
        if self.receive_window(pull).classify(psn) != Arrival::New
            || self.request(key).state != request_state::FREE
        {
            s.count(Counter::DropDuplicate); // another CPU was faster
            return self.reply(s, queues, now);
        }
        if cell == NO_CELL {
            // An RNR NACK already says that the packet has to come again (D-43).
            if outgoing == 0 {
                self.resource_nack(s, now);
            }
            return self.reply(s, queues, now);
        }
        s.delivery.free_cell = NO_CELL;
        let ack_request = s.packet.ack_request != 0;
        *self.request(key) = TargetRequest {
            rsn: rsn.0,
            psn: psn.0,
            cell: cell as u16,
            length: s.packet.payload_length as u16,
            state: if rnr { request_state::RNR } else { request_state::HELD },
            flags: if ack_request { request_flag::ACK_REQUEST } else { 0 }
                | if pull { request_flag::PULL } else { 0 },
            message_length: s.packet.request_length,
            ..TargetRequest::default()
        };
        self.connection.target.held += 1;
        self.occupancy_changed(s.cells_in_use + 1);
        self.tables.statistics.held += 1;
        self.mark_arrival(pull, psn, ack_request, now);
        if rnr {
            self.start_rnr(key, now);
        }
        self.reply(s, queues, now);
        s.report.wake = 1;
    }

    /// Marks a request received; a Pull Request is acknowledged with that, a push is not (F-9-2, F-9.2.2.4-5).
    #[inline(always)]
    pub(crate) fn mark_arrival(&mut self, pull: bool, psn: Psn, ack_request: bool, now: Picoseconds) {
        if pull {
            self.connection.request_rx.acknowledge(psn);
            if ack_request {
                self.connection.request_ack(); // F-9.1.6-2
            }
        } else {
            self.connection.data_rx.receive(psn);
        }
        self.connection.coalesce_ack(now.ticks());
    }

    /// The ULP is not ready for the held request at `key`: it is redelivered when the RNR time is over (D-43).
    #[inline(always)]
    pub(crate) fn start_rnr(&mut self, key: u32, now: Picoseconds) {
        let c = &mut self.connection;
        if c.config.ordered != 0 {
            c.target.rnr = 1;
            c.target.rnr_due = 0;
        } else {
            c.target.rnr_waiting.set(key & 127);
        }
        if c.timers.armed & timer::RNR == 0 {
            c.timers.armed |= timer::RNR;
            c.timers.rnr = now.ticks().after(rnr_timeout(c.config.rnr_timeout_code)).0;
        }
    }

    /// The RNR timer fired.
    #[inline(always)]
    pub(crate) fn on_rnr_timer(&mut self) {
        let target = &mut self.connection.target;
        target.rnr_due = target.rnr;
        target.rnr_retry = target.rnr_retry.or(target.rnr_waiting);
        target.rnr_waiting = Bitmap128::ZERO;
        self.connection.timers.armed &= !timer::RNR;
    }

    /// A packet whose PSN was received before (D-21): what follows depends on what became of the request. The key
    /// under which the ULP gets it after all, or [`NO_REQUEST`].
    #[inline(never)]
    pub(crate) fn duplicate_request(&mut self, s: &mut Scratch, now: Picoseconds) -> u32 {
        s.count(Counter::DropDuplicate);
        self.tables.statistics.duplicates += 1;
        self.connection.coalesce_ack(now.ticks()); // AR is ignored (D-22)
        let key = self.request_key(Rsn(s.packet.rsn), Psn(s.packet.psn), false);
        let rnr = self.connection.target.rnr != 0;
        let request = *self.request(key);
        if s.packet.kind != PacketType::PushData as u8
            || request.rsn != s.packet.rsn
            || request.psn != s.packet.psn
        {
            return NO_REQUEST;
        }
        match request.state {
            request_state::ERRORED => self.nack(s, NackCode::COMPLETE_IN_ERROR, request.code, now),
            request_state::HELD if rnr => self.nack(s, NackCode::RNR, 0, now), // D-42
            request_state::RNR => {
                // D-43: this copy is as good as the one in the cell, which deliver() gives back.
                s.report.counts = [0; 2];
                return key;
            }
            _ => {}
        }
        NO_REQUEST
    }

    /// Chooses a held request whose turn has come; it is marked as being delivered and the cell is named in the
    /// delivery ([`delivery::REDELIVER`]).
    #[inline(always)]
    pub(crate) fn next_redelivery(&mut self, s: &mut Scratch) -> bool {
        if self.connection.target.held == 0 && self.connection.config.ordered == 0 {
            return false;
        }
        if self.connection.config.ordered == 0 {
            let Some(key) = self.connection.target.rnr_retry.take_lowest() else { return false };
            return self.begin_redelivery(s, key, request_state::RNR);
        }
        if self.connection.target.delivering != 0 {
            return false;
        }
        loop {
            bounded!();
            let nrsn = Rsn(fresh(self.connection.target.nrsn.0));
            let key = nrsn.0 & (TRANSACTIONS as u32 - 1);
            let request = *self.request(key);
            if request.rsn != nrsn.0 {
                return false;
            }
            match request.state {
                request_state::CONSUMED => {
                    self.request(key).state = request_state::FREE;
                    self.connection.target.pass(nrsn, request.flags & request_flag::PULL != 0);
                }
                request_state::HELD if self.connection.target.rnr == 0 => {
                    return self.begin_redelivery(s, key, request_state::HELD);
                }
                request_state::RNR if self.connection.target.rnr_due != 0 => {
                    return self.begin_redelivery(s, key, request_state::RNR);
                }
                _ => return false,
            }
        }
        #[cfg(target_arch = "bpf")]
        false
    }

    #[inline(always)]
    fn begin_redelivery(&mut self, s: &mut Scratch, key: u32, expected: u8) -> bool {
        let request = *self.request(key);
        let pull = request.flags & request_flag::PULL != 0;
        if request.state != expected || (pull && !self.has_response_slot()) {
            return false;
        }
        self.request(key).state = request_state::DELIVERING;
        self.connection.target.delivering = 1;
        self.connection.target.rnr_due = 0;
        s.delivery.kind = delivery::REDELIVER;
        s.delivery.key = key;
        s.delivery.rsn = request.rsn;
        s.delivery.cell = request.cell as u32;
        s.delivery.length = request.length as u32;
        s.delivery.pull = pull as u32;
        s.packet.kind = if pull { PacketType::PullRequest as u8 } else { PacketType::PushData as u8 };
        s.packet.rsn = request.rsn;
        s.packet.psn = request.psn;
        s.packet.ack_request = request.flags & request_flag::ACK_REQUEST;
        s.packet.payload_length = request.length as u32;
        s.packet.request_length = request.message_length;
        true
    }

    /// A Resync was accepted for `psn`: its request is over, delivered or not (D-25).
    #[inline(never)]
    pub(crate) fn resync_request(&mut self, s: &mut Scratch, pull: bool) {
        let (rsn, psn) = (Rsn(s.packet.rsn), Psn(s.packet.psn));
        let ordered = self.connection.config.ordered != 0;
        let nrsn = self.connection.target.nrsn;
        let key = self.request_key(rsn, psn, pull);
        let request = *self.request(key);
        if request.state != request_state::FREE && request.rsn == rsn.0 {
            match request.state {
                request_state::HELD | request_state::RNR => self.release_cell(s, key),
                request_state::ERRORED => self.request(key).state = request_state::FREE,
                // The ULP is at work; its late acknowledgement finds the PSN acknowledged already.
                _ => return,
            }
        }
        if !ordered {
            if !pull {
                self.connection.target.forget_rnr(key);
            }
            return;
        }
        if rsn.is_before(nrsn) {
            return;
        }
        if rsn == nrsn {
            self.connection.target.pass(nrsn, pull);
            self.connection.target.rnr = 0;
        } else if rsn.distance_from(nrsn) < TRANSACTIONS as u32 {
            *self.request(key) = TargetRequest {
                rsn: rsn.0,
                psn: psn.0,
                state: request_state::CONSUMED,
                flags: if pull { request_flag::PULL } else { 0 },
                ..TargetRequest::default()
            };
        }
        s.report.wake = 1;
    }

    /// Gives back the cell of the held request at `key` and frees the entry.
    #[inline(always)]
    pub(crate) fn release_cell(&mut self, s: &mut Scratch, key: u32) {
        s.delivery.free_cell = self.request(key).cell as u32;
        *self.request(key) = TargetRequest::default();
        self.connection.target.held = self.connection.target.held.saturating_sub(1);
        self.occupancy_changed(s.cells_in_use.saturating_sub(1));
    }

    /// No cell, slot or table entry for a new request (F-8.5.3.1-1, F-8.5.3.3-1): nothing is marked received.
    #[inline(always)]
    pub(crate) fn resource_nack(&mut self, s: &mut Scratch, now: Picoseconds) {
        s.count(Counter::DropResources);
        self.nack(s, NackCode::INSUFFICIENT_RESOURCES, 0, now);
    }
}
