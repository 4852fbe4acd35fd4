//! The RDMA ULP at the target: WRITE is placed, READ and atomics are answered, SEND consumes a posted receive.
//!
//! [`Entry::deliver`] decides under the lock; copying and atomics happen outside it, and
//! [`Entry::request_placed`] or [`Entry::atomic_executed`] is the ULP's acknowledgement (F-8.5.3.3-2, D-55).

use super::rdma::{UlpCode, operation};
use crate::connection::Entry;
use crate::datapath::{NO_CELL, Scratch, delivery};
use crate::ids::{Psn, Rsn};
use crate::queues::{
    Completion, Queues, RECEIVE_QUEUE_DEPTH, ReceiveRequest, USABLE_BYTES, access, flag, opcode,
};
use crate::transaction::{
    CompletionCode, Response, TargetRequest, request_flag, request_state, response_kind, response_state,
};
use crate::units::Picoseconds;
use crate::wire::PacketType;
use crate::wire::nack::NackCode;

/// The ULP takes the push; where its data goes stands in the delivery.
const TAKEN: u32 = 0;
/// No posted receive (F-6.4-1). All other answers are the ULP codes of D-84: complete in error.
const NOT_READY: u32 = 0x100;

impl Entry {
    /// Hands the parsed request to the ULP. `key` names a free entry (a new packet), one in RNR (a duplicate) or
    /// one being delivered (out of its receive cell).
    #[inline(always)]
    pub(crate) fn deliver(&mut self, s: &mut Scratch, queues: &impl Queues, key: u32, now: Picoseconds) {
        if s.packet.kind == PacketType::PullRequest as u8 {
            self.deliver_pull(s, key, now);
        } else {
            let answer = match s.packet.operation.kind {
                operation::WRITE => self.write_destination(s, queues),
                operation::SEND => self.send_destination(s, queues),
                _ => UlpCode::INVALID_REQUEST as u32,
            };
            match answer {
                TAKEN => self.place(s, key, now),
                NOT_READY => self.push_not_ready(s, key, now),
                code => self.push_error(s, key, code as u8, now),
            }
        }
    }

    #[inline(always)]
    fn write_destination(&mut self, s: &mut Scratch, queues: &impl Queues) -> u32 {
        let op = &s.packet.operation;
        let Some(memory_offset) = s.region.resolve(op.rkey, access::REMOTE_WRITE, op.address, op.length)
        else {
            return UlpCode::ACCESS as u32;
        };
        s.delivery.memory_offset = memory_offset;
        s.delivery.message_length = op.length;
        s.delivery.flags = 0;
        if op.has_immediate != 0 {
            if self.posted_receive(queues).is_none() {
                return NOT_READY;
            }
            let target = &mut self.connection.target;
            s.delivery.slot = target.receive_next;
            s.delivery.flags = (request_flag::RECEIVES | request_flag::IMMEDIATE) as u32;
            target.receive_next = target.receive_next.wrapping_add(1);
        }
        TAKEN
    }

    /// The posted receive whose turn it is. The application's counter is untrusted.
    #[inline(always)]
    fn posted_receive(&self, queues: &impl Queues) -> Option<ReceiveRequest> {
        let next = self.connection.target.receive_next;
        let posted = queues.receive_producer().wrapping_sub(next);
        if posted == 0 || posted > RECEIVE_QUEUE_DEPTH as u32 {
            return None;
        }
        Some(queues.receive_request(next))
    }

    #[inline(never)]
    fn send_destination(&mut self, s: &mut Scratch, queues: &impl Queues) -> u32 {
        let op = &s.packet.operation;
        let target = &self.connection.target;
        let whole = op.first != 0 && op.last != 0;
        // D-84: messages of several segments need an order.
        let out_of_place = (op.first == 0) != (target.in_message != 0);
        if out_of_place || (self.connection.config.ordered == 0 && !whole) {
            // What was begun cannot be completed any more; its posted receive waits for the next message.
            let target = &mut self.connection.target;
            target.in_message = 0;
            target.receive_offset = 0;
            return UlpCode::INVALID_REQUEST as u32;
        }
        let Some(receive) = self.posted_receive(queues) else { return NOT_READY };
        let slot = target.receive_next;
        let offset = target.receive_offset as u64;
        let end = offset + op.length as u64;
        let start = receive.local_offset.wrapping_add(offset);
        let target = &mut self.connection.target;
        if end > receive.length as u64
            || receive.local_offset > USABLE_BYTES
            || receive.local_offset + end > USABLE_BYTES
        {
            target.receive_next = target.receive_next.wrapping_add(1);
            target.in_message = 0;
            target.receive_offset = 0;
            queues.set_receive_consumer(target.receive_next);
            queues.complete(Completion {
                wr_id: receive.wr_id,
                length: end as u32,
                rsn: s.packet.rsn,
                status: CompletionCode::OperationError as u8,
                opcode: opcode::RECEIVE,
                ..Completion::default()
            });
            return UlpCode::INVALID_REQUEST as u32;
        }
        let mut flags = request_flag::RECEIVES;
        if op.last != 0 {
            flags |= request_flag::LAST;
            if op.has_immediate != 0 {
                flags |= request_flag::IMMEDIATE;
            }
            target.receive_next = target.receive_next.wrapping_add(1);
            target.receive_offset = 0;
            target.in_message = 0;
        } else {
            target.receive_offset = end as u32;
            target.in_message = 1;
        }
        s.delivery.memory_offset = start;
        s.delivery.slot = slot;
        s.delivery.flags = flags as u32;
        s.delivery.message_length = end as u32;
        TAKEN
    }

    /// The ULP takes the push: its data is copied, then [`Entry::request_placed`].
    #[inline(always)]
    fn place(&mut self, s: &mut Scratch, key: u32, now: Picoseconds) {
        let cell = self.admit(s, key, now);
        let ack_request = if s.packet.ack_request != 0 { request_flag::ACK_REQUEST } else { 0 };
        *self.request(key) = TargetRequest {
            rsn: s.packet.rsn,
            psn: s.packet.psn,
            cell: cell as u16,
            length: s.packet.payload_length as u16,
            slot: s.delivery.slot as u16,
            state: request_state::DELIVERING,
            flags: ack_request | s.delivery.flags as u8,
            immediate: s.packet.operation.immediate,
            message_length: s.delivery.message_length,
            ..TargetRequest::default()
        };
        self.connection.target.delivering = 1;
        s.delivery.kind = delivery::PLACE_REQUEST;
        s.delivery.key = key;
        s.delivery.rsn = s.packet.rsn;
        s.delivery.length = s.packet.operation.length;
    }

    /// Marks a new packet received and lets the order move on; returns the cell of a held one.
    #[inline(always)]
    fn admit(&mut self, s: &Scratch, key: u32, now: Picoseconds) -> u32 {
        let pull = s.packet.kind == PacketType::PullRequest as u8;
        let request = *self.request(key);
        let cell = if request.state == request_state::FREE {
            self.mark_arrival(pull, Psn(s.packet.psn), s.packet.ack_request != 0, now);
            NO_CELL
        } else {
            request.cell as u32
        };
        if self.connection.config.ordered != 0 {
            self.connection.target.nrsn = Rsn(s.packet.rsn).add(1);
            self.connection.target.rnr = 0;
        } else if !pull {
            self.connection.target.forget_rnr(key);
        }
        cell
    }

    /// Frees the table entry of a finished request, and the cell it was held in.
    #[inline(always)]
    fn finish(&mut self, s: &mut Scratch, key: u32, cell: u32) {
        *self.request(key) = TargetRequest::default();
        self.give_back(s, cell);
    }

    #[inline(always)]
    fn give_back(&mut self, s: &mut Scratch, cell: u32) {
        let target = &mut self.connection.target;
        target.delivering = 0;
        if cell != NO_CELL {
            s.delivery.free_cell = cell;
            target.held = target.held.saturating_sub(1);
            self.occupancy_changed(s.cells_in_use.saturating_sub(1));
        }
        if self.connection.target.held != 0 {
            s.report.wake = 1; // the next in order may wait in a cell
        }
    }

    /// The ULP says RNR to a push: kept in a cell and NACKed (D-42, D-43).
    #[inline(never)]
    fn push_not_ready(&mut self, s: &mut Scratch, key: u32, now: Picoseconds) {
        if self.request(key).state == request_state::FREE {
            self.hold(s, key, true);
        } else {
            self.request(key).state = request_state::RNR;
            self.connection.target.delivering = 0;
            self.start_rnr(key, now);
        }
        self.nack(s, NackCode::RNR, 0, now);
    }

    /// The ULP completes a push in error (F-8.5.3.5-1); the entry waits for the peer's Resync.
    #[inline(never)]
    fn push_error(&mut self, s: &mut Scratch, key: u32, code: u8, now: Picoseconds) {
        let cell = self.admit(s, key, now);
        *self.request(key) = TargetRequest {
            rsn: s.packet.rsn,
            psn: s.packet.psn,
            cell: NO_CELL as u16,
            state: request_state::ERRORED,
            code,
            ..TargetRequest::default()
        };
        self.give_back(s, cell);
        self.nack(s, NackCode::COMPLETE_IN_ERROR, code, now);
    }

    /// The data of a push stands in memory: the ULP acknowledges it, so does packet delivery (F-6.1.1.1-2).
    #[inline(always)]
    pub fn request_placed(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) {
        let key = s.delivery.key;
        let request = self.request(key);
        let (psn, cell, flags) = (Psn(request.psn), request.cell as u32, request.flags);
        s.begin();
        self.connection.data_rx.acknowledge(psn);
        self.connection.coalesce_ack(now.ticks());
        if flags & request_flag::ACK_REQUEST != 0 {
            self.connection.request_ack(); // D-32
        }
        self.tables.statistics.bytes_received += s.packet.operation.length as u64;
        let write = s.packet.operation.kind == operation::WRITE;
        if flags & request_flag::RECEIVES != 0 && (write || flags & request_flag::LAST != 0) {
            self.receive_completed(queues, key, write);
        }
        self.finish(s, key, cell);
        self.reply(s, queues, now);
    }

    /// The message of the request at `key` stands in its posted receive, or behind it the immediate of a WRITE: the
    /// application hears of it.
    #[inline(never)]
    fn receive_completed(&mut self, queues: &impl Queues, key: u32, write: bool) {
        let request = self.request(key);
        let receive = queues.receive_request(request.slot as u32);
        let immediate = request.flags & request_flag::IMMEDIATE != 0;
        let completion = Completion {
            wr_id: receive.wr_id,
            length: request.message_length,
            immediate: request.immediate,
            rsn: request.rsn,
            opcode: if write { opcode::RECEIVE_IMMEDIATE } else { opcode::RECEIVE },
            flags: if immediate { flag::IMMEDIATE } else { 0 },
            ..Completion::default()
        };
        queues.set_receive_consumer(self.connection.target.receive_next);
        queues.complete(completion);
    }

    /// The data of a push could not be placed: its posted receive lies outside the node's memory. The ULP completes
    /// it in error.
    #[inline(never)]
    pub fn request_failed(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) {
        let key = s.delivery.key;
        let cell = self.request(key).cell as u32;
        s.begin();
        let request = self.request(key);
        request.state = request_state::ERRORED;
        request.cell = NO_CELL as u16;
        request.code = UlpCode::OPERATIONAL;
        self.give_back(s, cell);
        self.nack(s, NackCode::COMPLETE_IN_ERROR, UlpCode::OPERATIONAL, now);
        self.reply(s, queues, now);
    }

    /// A held request stands in the frame again and was parsed: the ULP gets it.
    #[inline(never)]
    pub fn redeliver(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) {
        let key = s.delivery.key;
        s.begin();
        self.deliver(s, queues, key, now);
        self.reply(s, queues, now);
    }

    /// Pulls: READ is answered at once, atomics are executed outside the lock first.
    #[inline(never)]
    fn deliver_pull(&mut self, s: &mut Scratch, key: u32, now: Picoseconds) {
        let op = &s.packet.operation;
        let read = op.kind == operation::READ;
        let rights = if read { access::REMOTE_READ } else { access::REMOTE_ATOMIC };
        let resolved = s.region.resolve(op.rkey, rights, op.address, op.length);
        let valid = (read || matches!(op.kind, operation::COMPARE_SWAP | operation::FETCH_ADD))
            && op.length <= self.connection.config.max_segment;
        let (kind, code) = if !valid {
            (response_kind::ERROR, UlpCode::INVALID_REQUEST)
        } else if resolved.is_none() {
            (response_kind::ERROR, UlpCode::ACCESS)
        } else if read {
            (response_kind::READ, 0)
        } else {
            (response_kind::ATOMIC, 0)
        };
        let atomic = kind == response_kind::ATOMIC;
        let cell = self.admit(s, key, now);
        let position = self.append_response(Response {
            rsn: s.packet.rsn,
            kind,
            state: if atomic { response_state::EXECUTING } else { response_state::READY },
            code,
            reserved: 0,
            address: op.address,
            rkey: op.rkey,
            length: op.length,
            value: 0,
        });
        if !atomic {
            self.finish(s, key, cell);
            return;
        }
        *self.request(key) = TargetRequest {
            rsn: s.packet.rsn,
            psn: s.packet.psn,
            cell: cell as u16,
            slot: position as u16,
            state: request_state::DELIVERING,
            flags: request_flag::PULL,
            ..TargetRequest::default()
        };
        self.connection.target.delivering = 1;
        let swap = op.kind == operation::COMPARE_SWAP;
        s.delivery.kind = if swap { delivery::COMPARE_SWAP } else { delivery::FETCH_ADD };
        s.delivery.key = key;
        s.delivery.rsn = s.packet.rsn;
        s.delivery.memory_offset = resolved.unwrap_or(0);
        s.delivery.value = op.swap_or_add;
        s.delivery.compare = op.compare;
    }

    /// The atomic was executed and found `value`: the answer is ready.
    #[inline(never)]
    pub fn atomic_executed(&mut self, s: &mut Scratch, queues: &impl Queues, value: u64, now: Picoseconds) {
        let key = s.delivery.key;
        let request = *self.request(key);
        s.begin();
        let response = self.response(request.slot as u32);
        response.value = value;
        response.state = response_state::READY;
        self.finish(s, key, request.cell as u32);
        self.reply(s, queues, now);
    }
}
