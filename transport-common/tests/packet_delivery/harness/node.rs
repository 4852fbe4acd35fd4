//! One end: the steps of [`Entry`] and what the datapath does between them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use transport_common::congestion::event::Event;
use transport_common::congestion::result::Outcome;
use transport_common::connection::{Entry, Parameters};
use transport_common::counters::Counter;
use transport_common::datapath::{NO_CELL, Packet, Scratch, delivery};
use transport_common::queues::{
    Completion, QueuePair, RECEIVE_QUEUE_DEPTH, ReceiveRequest, Region, SEND_QUEUE_DEPTH, WorkRequest, access,
};
use transport_common::ulp::rdma::{Aeth, UlpCode};
use transport_common::units::{FalconTime, Picoseconds, Ticks};

use super::wire::parsed;
use super::*;

/// One end of a connection.
pub(crate) struct Node {
    pub(crate) entry: Box<Entry>,
    pub(crate) queues: Box<QueuePair>,
    pub(crate) s: Box<Scratch>,
    pub(crate) memory: Vec<u8>,
    pub(crate) regions: Vec<Region>,
    /// True: a push or atomic handed to the ULP stays there until [`Node::ulp_done`].
    pub(crate) slow_ulp: bool,
    /// True: the engine was asked to look at the connection.
    pub(crate) wake: bool,
    /// The step at hand is the engine's own.
    at_engine: bool,
    /// Times each kind of delivery was asked for.
    pub(crate) deliveries: [u32; 8],
    /// RSNs of pushes and atomics handed to the ULP, in order.
    pub(crate) delivered: Vec<u32>,
    /// How many of them the ULP has finished.
    pub(crate) finished: u32,
    cells: Vec<Option<Wire>>,
    free_cells: usize,
    at_ulp: VecDeque<(Box<Scratch>, Vec<u8>)>,
    filed: Option<FalconTime>,
    /// Congestion events that entered a queue.
    pub(crate) events: Vec<Event>,
    counts: [u32; Counter::COUNT],
}

impl Node {
    pub(crate) fn new(p: &Parameters) -> Self {
        p.check().expect("parameters in range");
        let mut entry = closed_entry();
        entry.open(p, 1);
        let everything = access::REMOTE_READ | access::REMOTE_WRITE | access::REMOTE_ATOMIC;
        let queues = zeroed_queues(p.tx.rsn);
        queues.start_settings(p.settings);
        Self {
            entry,
            queues,
            s: zeroed_scratch(),
            memory: vec![0; MEMORY],
            regions: vec![Region { offset: 0, length: MEMORY as u64, key: RKEY, access: everything }],
            slow_ulp: false,
            wake: false,
            at_engine: false,
            deliveries: [0; 8],
            delivered: Vec::new(),
            finished: 0,
            cells: vec![None; CELLS],
            free_cells: CELLS,
            at_ulp: VecDeque::new(),
            filed: None,
            events: Vec::new(),
            counts: [0; Counter::COUNT],
        }
    }

    /// Takes `n` cells out of the pool, so that fewer are left.
    pub(crate) fn withhold_cells(&mut self, n: usize) {
        for cell in self.cells.iter_mut().filter(|c| c.is_none()).take(n) {
            *cell = Some(Wire { packet: Packet::default(), data: Vec::new() });
            self.free_cells -= 1;
        }
    }

    pub(crate) fn free_cells(&self) -> usize {
        self.free_cells
    }

    pub(crate) fn count(&self, counter: Counter) -> u32 {
        self.counts[counter as usize]
    }

    /// Posts a work request and rings the doorbell; returns its RSN.
    pub(crate) fn post(&mut self, work: WorkRequest) -> u32 {
        let rsn = self.queues.send_producer.load(Ordering::Relaxed);
        self.queues.send[rsn as usize % SEND_QUEUE_DEPTH].store(work);
        self.queues.send_producer.store(rsn.wrapping_add(1), Ordering::Release);
        self.wake = true;
        rsn
    }

    /// Posts a receive of `length` bytes at `local_offset`.
    pub(crate) fn post_receive(&mut self, wr_id: u64, local_offset: u64, length: u32) {
        let n = self.queues.receive_producer.load(Ordering::Relaxed);
        let receive = ReceiveRequest { local_offset, wr_id, length, reserved: 0 };
        self.queues.receive[n as usize % RECEIVE_QUEUE_DEPTH].store(receive);
        self.queues.receive_producer.store(n.wrapping_add(1), Ordering::Release);
    }

    /// Takes all completions there are.
    pub(crate) fn completions(&mut self) -> Vec<Completion> {
        let mut out = Vec::new();
        let mut consumer = self.queues.completion_consumer.load(Ordering::Relaxed);
        while let Some(completion) = self.queues.completion(consumer) {
            out.push(completion);
            consumer = consumer.wrapping_add(1);
        }
        self.queues.completion_consumer.store(consumer, Ordering::Release);
        out
    }

    /// Takes all completions there are: RSN and status of each.
    pub(crate) fn completed(&mut self) -> Vec<(u32, u8)> {
        self.completions().iter().map(|c| (c.rsn, c.status)).collect()
    }

    /// A packet arrives; the answer that leaves in its frame, if any.
    pub(crate) fn receive(&mut self, wire: &Wire, now: Picoseconds) -> Option<Wire> {
        self.s.packet = wire.packet;
        self.s.packet.arrival = now.0;
        self.s.region = self.region(wire.packet.operation.rkey);
        self.entry.on_packet(&mut self.s, &*self.queues, now);
        self.settle();
        self.carry_out(wire, now);
        self.transmitted()
    }

    /// The engine turns to the connection; the packet it sends, if any.
    pub(crate) fn turn(&mut self, now: Picoseconds) -> Option<Wire> {
        self.wake = false;
        let fired = self.filed.is_some_and(|deadline| now.ticks().reached(deadline));
        if fired {
            self.filed = None;
        }
        self.entry.on_turn(&mut self.s, &*self.queues, now, fired);
        self.at_engine = true;
        self.settle();
        self.at_engine = false;
        if self.s.report.file != 0 {
            self.filed = Some(now.ticks().after(Ticks(self.s.report.file_ticks)));
        }
        if self.s.delivery.kind == delivery::REDELIVER {
            let cell = self.s.delivery.cell as usize;
            let held = self.cells[cell].clone().expect("the cell of a redelivery is in use");
            self.s.packet.operation = held.packet.operation;
            self.s.region = self.region(held.packet.operation.rkey);
            self.entry.redeliver(&mut self.s, &*self.queues, now);
            self.settle();
            self.carry_out(&held, now);
        }
        self.transmitted()
    }

    /// A result of an engine behind the queues comes with the engine's next turn.
    pub(crate) fn result(&mut self, outcome: Outcome, now: Picoseconds) -> Option<Wire> {
        self.s.outcome = outcome;
        self.s.result = 1;
        let sent = self.turn(now);
        self.s.result = 0;
        sent
    }

    /// The deadline in the timing wheel.
    pub(crate) fn deadline(&self) -> Option<FalconTime> {
        self.filed
    }

    /// Turns as long as the engine has a reason to: a doorbell, or a deadline that has come.
    pub(crate) fn drain(&mut self, now: Picoseconds) -> Vec<Wire> {
        let mut sent = Vec::new();
        for _ in 0..10_000 {
            if !self.wake && !self.filed.is_some_and(|deadline| now.ticks().reached(deadline)) {
                return sent;
            }
            sent.extend(self.turn(now));
        }
        panic!("the engine finds no rest");
    }

    /// The slow ULP finishes the oldest push or atomic it has.
    pub(crate) fn ulp_done(&mut self, now: Picoseconds) -> Option<Wire> {
        let (scratch, data) = self.at_ulp.pop_front().expect("something is at the ULP");
        self.s = scratch;
        self.finished += 1;
        self.finish(&data, now);
        self.transmitted()
    }

    fn region(&self, rkey: u32) -> Region {
        self.regions.iter().copied().find(|r| r.key == rkey).unwrap_or_default()
    }

    fn settle(&mut self) {
        for count in self.s.report.counts.into_iter().filter(|&c| c != 0) {
            self.counts[count as usize - 1] += 1;
        }
        if self.s.report.congestion_count != 0 {
            self.counts[self.s.report.congestion_count as usize - 1] += 1;
        }
        if self.s.report.event != 0 {
            self.s.report.event = 0;
            self.events.push(self.s.event);
        }
        if self.s.delivery.free_cell != NO_CELL {
            let cell = self.s.delivery.free_cell as usize;
            assert!(self.cells[cell].take().is_some(), "cell {cell} is given back once");
            self.free_cells += 1;
        }
        self.wake_if_asked();
    }

    /// Only the engine can file a deadline with the wheel.
    fn wake_if_asked(&mut self) {
        self.wake |= self.s.report.wake != 0 || (self.s.report.file != 0 && !self.at_engine);
    }

    fn carry_out(&mut self, wire: &Wire, now: Picoseconds) {
        let kind = self.s.delivery.kind;
        self.deliveries[kind as usize] += 1;
        let ulp = matches!(kind, delivery::PLACE_REQUEST | delivery::COMPARE_SWAP | delivery::FETCH_ADD);
        if ulp {
            self.delivered.push(self.s.delivery.rsn);
        }
        if kind == delivery::NONE {
            return;
        }
        if kind == delivery::HOLD {
            let cell = self.cells.iter().position(Option::is_none);
            if let Some(cell) = cell {
                self.cells[cell] = Some(wire.clone());
                self.free_cells -= 1;
            }
            let cell = cell.map_or(NO_CELL, |c| c as u32);
            self.entry.request_held(&mut self.s, &*self.queues, cell, now);
            self.settle();
        } else if ulp && self.slow_ulp {
            self.at_ulp.push_back((self.s.clone(), wire.data.clone()));
            self.entry.reply(&mut self.s, &*self.queues, now);
            self.wake_if_asked();
        } else {
            self.finished += u32::from(ulp);
            self.finish(&wire.data, now);
        }
    }

    fn finish(&mut self, data: &[u8], now: Picoseconds) {
        let d = self.s.delivery;
        let start = d.memory_offset as usize;
        let entry = &mut self.entry;
        match d.kind {
            delivery::PLACE_REQUEST | delivery::PLACE_RESPONSE => {
                let end = start + d.length as usize;
                let room = end <= self.memory.len();
                if room {
                    self.memory[start..end].copy_from_slice(data);
                }
                match (d.kind, room) {
                    (delivery::PLACE_RESPONSE, _) => {
                        entry.response_placed(&mut self.s, &*self.queues, now, room);
                    }
                    (_, true) => entry.request_placed(&mut self.s, &*self.queues, now),
                    (_, false) => entry.request_failed(&mut self.s, &*self.queues, now),
                }
            }
            delivery::STORE_VALUE => {
                self.memory[start..start + 8].copy_from_slice(&d.value.to_le_bytes());
                entry.response_placed(&mut self.s, &*self.queues, now, true);
            }
            delivery::COMPARE_SWAP | delivery::FETCH_ADD => {
                let bytes = &mut self.memory[start..start + 8];
                let old = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
                let swaps = old == d.compare;
                let new = match d.kind {
                    delivery::FETCH_ADD => old.wrapping_add(d.value),
                    _ if swaps => d.value,
                    _ => old,
                };
                bytes.copy_from_slice(&new.to_le_bytes());
                entry.atomic_executed(&mut self.s, &*self.queues, old, now);
            }
            other => panic!("delivery {other} is not the ULP's"),
        }
        self.settle();
    }

    /// The packet the last step asked to send, as its receiver parses it.
    fn transmitted(&mut self) -> Option<Wire> {
        let t = self.s.transmission;
        if t.present == 0 {
            return None;
        }
        let mut data = Vec::new();
        let mut ulp = t.ulp;
        if ulp.resolve != 0 {
            let region = self.region(ulp.rkey);
            match region.resolve(ulp.rkey, access::REMOTE_READ, ulp.address, ulp.length) {
                Some(offset) => ulp.memory_offset = offset,
                None => (ulp.data_length, ulp.syndrome) = (0, Aeth::ERROR_BASE | UlpCode::ACCESS),
            }
        }
        if ulp.data_length != 0 {
            let start = ulp.memory_offset as usize;
            data.extend(&self.memory[start..start + ulp.data_length as usize]);
        }
        Some(Wire { packet: parsed(&t, &ulp), data })
    }
}
