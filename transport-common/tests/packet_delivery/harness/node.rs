//! One end: the steps of [`Entry`], and the work of the datapath between them.

use std::sync::atomic::Ordering;

use transport_common::congestion::admission::Admission;
use transport_common::congestion::event::Event;
use transport_common::congestion::queues::AdmissionView;
use transport_common::congestion::result::Outcome;
use transport_common::connection::{Entry, Parameters, Serviced, WorkDone, WorkKind};
use transport_common::counters::Counter;
use transport_common::datapath::Scratch;
use transport_common::queues::{
    AccessFlags, Completion, QueuePair, RECEIVE_QUEUE_DEPTH, ReceiveRequest, Region, SEND_QUEUE_DEPTH,
    WorkRequest,
};
use transport_common::transaction::{Held, NO_CELL, RequestFlags};
use transport_common::ulp::rdma::{Aeth, Operation, UlpCode};
use transport_common::units::{FalconTime, Picoseconds, Ticks};
use transport_common::wire::packet::Packet;

use super::wire::parsed;
use super::*;

/// One end of a connection.
pub(crate) struct Node {
    pub(crate) entry: Box<Entry>,
    pub(crate) queues: Box<QueuePair>,
    pub(crate) s: Box<Scratch>,
    pub(crate) memory: Vec<u8>,
    pub(crate) regions: Vec<Region>,
    /// True: the engine was asked to service the connection.
    pub(crate) wake: bool,
    /// How often the engine serviced the connection.
    pub(crate) services: u32,
    /// True: the current step is one of the engine.
    at_engine: bool,
    /// How often each kind of work was requested.
    pub(crate) deliveries: [u32; 8],
    /// RSNs of the pushes and atomics that were delivered to the ULP, in order.
    pub(crate) delivered: Vec<u32>,
    cells: Vec<Option<Wire>>,
    free_cells: usize,
    /// When the timing wheel fires. Like the wheel, it knows how long ago that is, if it is long ago.
    filed: Option<Picoseconds>,
    /// The event queues as the next step sees them.
    pub(crate) event_queues: AdmissionView,
    /// Congestion events that entered a queue.
    pub(crate) events: Vec<Event>,
    counts: [u32; Counter::COUNT],
}

impl Node {
    pub(crate) fn new(p: &Parameters) -> Self {
        p.check().expect("parameters in range");
        let mut entry = closed_entry();
        entry.open(p, 1);
        let everything = AccessFlags::all();
        let queues = zeroed_queues(p.tx.rsn);
        queues.start_settings(p.settings);
        Self {
            entry,
            queues,
            s: zeroed_scratch(),
            memory: vec![0; MEMORY],
            regions: vec![Region { offset: 0, length: MEMORY as u64, key: RKEY, access: everything }],
            wake: false,
            services: 0,
            at_engine: false,
            deliveries: [0; 8],
            delivered: Vec::new(),
            cells: vec![None; CELLS],
            free_cells: CELLS,
            filed: None,
            event_queues: AdmissionView { occupancy: [0; 4], admission: Admission::new(0) },
            events: Vec::new(),
            counts: [0; Counter::COUNT],
        }
    }

    /// Removes `n` cells from the pool, so that fewer are left.
    pub(crate) fn withhold_cells(&mut self, n: usize) {
        for cell in self.cells.iter_mut().filter(|c| c.is_none()).take(n) {
            *cell =
                Some(Wire { packet: Packet::default(), operation: Operation::default(), data: Vec::new() });
            self.free_cells -= 1;
        }
    }

    pub(crate) fn free_cells(&self) -> usize {
        self.free_cells
    }

    pub(crate) fn count(&self, counter: Counter) -> u32 {
        self.counts[counter as usize]
    }

    /// Posts a work request and rings the doorbell. Returns its RSN.
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
        self.wake |= self.queues.receive_wanted.load(Ordering::Acquire) != 0;
    }

    /// Takes all completions from the queue.
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

    /// Takes all completions from the queue. Returns RSN and status of each.
    pub(crate) fn completed(&mut self) -> Vec<(u32, u8)> {
        self.completions().iter().map(|c| (c.rsn, c.status)).collect()
    }

    /// Receives a packet. Returns the reply in its frame, if there is one.
    pub(crate) fn receive(&mut self, wire: &Wire, now: Picoseconds) -> Option<Wire> {
        self.s.poison();
        let input = &mut self.s.step.input;
        input.packet = wire.packet;
        input.packet.arrival = now;
        input.operation = wire.operation;
        self.look(wire.operation.rkey);
        self.entry.on_packet(&mut self.s.step, &*self.queues, now);
        self.carry_out(wire, now);
        self.settle();
        self.transmitted()
    }

    /// Fills in the input that the datapath prepares before a step.
    fn look(&mut self, rkey: u32) {
        let (region, used) = (self.region(rkey), CELLS - self.free_cells);
        let input = &mut self.s.step.input;
        input.region = region;
        input.cells_in_use = used as u32;
        input.rx_buffer_level = 0;
        input.has_outcome = 0;
        input.event_queues = self.event_queues;
    }

    /// Lets the engine service the connection. Returns the packet that it sends, if there is one.
    pub(crate) fn turn(&mut self, now: Picoseconds) -> Option<Wire> {
        self.service(None, now)
    }

    fn service(&mut self, outcome: Option<Outcome>, now: Picoseconds) -> Option<Wire> {
        self.wake = false;
        self.services += 1;
        let fired = self.has_fired(now);
        if fired {
            self.filed = None;
        }
        self.s.poison();
        self.look(0);
        if let Some(outcome) = outcome {
            self.s.step.input.outcome = outcome;
            self.s.step.input.has_outcome = 1;
        }
        let serviced = self.entry.on_service(&mut self.s.step, &*self.queues, now, fired);
        self.at_engine = true;
        self.settle();
        self.at_engine = false;
        if self.s.step.output.report.file != 0 {
            let tick = Picoseconds(now.0 >> Ticks::PICOS_SHIFT << Ticks::PICOS_SHIFT);
            self.filed = Some(tick.after(self.s.step.output.report.deadline_in.as_picos()));
        }
        if serviced == Serviced::Held
            && let Some(held) = self.entry.next_held()
        {
            self.deliver(&held, now);
        }
        self.transmitted()
    }

    /// Puts the held request into a frame again.
    fn deliver(&mut self, held: &Held, now: Picoseconds) {
        let request = &held.request;
        let wire =
            self.cells[request.cell as usize - 1].clone().expect("the cell of a held request is in use");
        self.s.poison();
        let s = &mut self.s.step;
        s.begin();
        s.input.packet = Packet {
            kind: if request.is_pull() { PULL_REQUEST } else { PUSH_DATA },
            psn: request.psn.0,
            rsn: request.rsn.0,
            ack_request: request.flags.contains(RequestFlags::ACK_REQUEST) as u8,
            payload_length: request.length.into(),
            request_length: request.request_length.into(),
            protocol: wire.packet.protocol,
            ..Packet::default()
        };
        s.input.operation = wire.operation;
        self.look(wire.operation.rkey);
        self.entry.on_held(&mut self.s.step, &*self.queues, held.key, now);
        self.carry_out(&wire, now);
        self.settle();
    }

    /// Sets a result of a rate update engine, which the engine's next service applies.
    pub(crate) fn result(&mut self, outcome: Outcome, now: Picoseconds) -> Option<Wire> {
        self.service(Some(outcome), now)
    }

    /// Returns the deadline in the timing wheel.
    pub(crate) fn deadline(&self) -> Option<FalconTime> {
        self.filed.map(Picoseconds::ticks)
    }

    fn has_fired(&self, now: Picoseconds) -> bool {
        self.filed.is_some_and(|deadline| !deadline.is_later_than(now))
    }

    /// Services the connection as long as there is a reason: a doorbell, or a deadline that has passed.
    pub(crate) fn drain(&mut self, now: Picoseconds) -> Vec<Wire> {
        let mut sent = Vec::new();
        for _ in 0..10_000 {
            if !self.wake && !self.has_fired(now) {
                return sent;
            }
            sent.extend(self.turn(now));
        }
        panic!("the engine never becomes idle");
    }

    fn region(&self, rkey: u32) -> Region {
        self.regions.iter().copied().find(|r| r.key == rkey).unwrap_or_default()
    }

    fn settle(&mut self) {
        let report = &mut self.s.step.output.report;
        while let Some(counter) = report.raised.take() {
            self.counts[counter as usize] += 1;
        }
        if report.event != 0 {
            self.events.push(self.s.step.output.event);
        }
        if report.free_cell != NO_CELL {
            let cell = report.free_cell as usize - 1;
            assert!(self.cells[cell].take().is_some(), "cell {cell} is given back once");
            self.free_cells += 1;
        }
        self.wake_if_asked();
    }

    /// Files the deadline with the wheel. Only the engine can do this.
    fn wake_if_asked(&mut self) {
        let report = &self.s.step.output.report;
        self.wake |= report.wake != 0 || (report.file != 0 && !self.at_engine);
    }

    /// Does the work that the step requested, in its lock hold.
    fn carry_out(&mut self, wire: &Wire, now: Picoseconds) {
        let work = self.s.step.output.work;
        self.deliveries[work.kind as usize] += 1;
        if matches!(work.kind, WorkKind::PlaceRequest | WorkKind::CompareSwap | WorkKind::FetchAdd) {
            self.delivered.push(self.s.step.input.packet.rsn);
        }
        let start = work.place.memory_offset as usize;
        let mut done = WorkDone { done: true, value: 0, cell: NO_CELL };
        match work.kind {
            WorkKind::None => return,
            WorkKind::PlaceRequest | WorkKind::PlaceResponse => {
                let end = start + work.length as usize;
                done.done = end <= self.memory.len();
                if done.done {
                    self.memory[start..end].copy_from_slice(&wire.data);
                }
            }
            WorkKind::StoreValue => {
                self.memory[start..start + 8].copy_from_slice(&work.value.to_le_bytes());
            }
            WorkKind::CompareSwap | WorkKind::FetchAdd => {
                let bytes = &mut self.memory[start..start + 8];
                let old = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
                let swaps = old == work.compare;
                let new = match work.kind {
                    WorkKind::FetchAdd => old.wrapping_add(work.value),
                    _ if swaps => work.value,
                    _ => old,
                };
                bytes.copy_from_slice(&new.to_le_bytes());
                done.value = old;
            }
            WorkKind::Hold => {
                if let Some(cell) = self.cells.iter().position(Option::is_none) {
                    self.cells[cell] = Some(wire.clone());
                    self.free_cells -= 1;
                    done.cell = cell as u32 + 1;
                }
            }
        }
        self.entry.on_work_done(&mut self.s.step, &*self.queues, done, now);
    }

    /// Returns the packet that the last step asked to send, as its receiver parses it.
    fn transmitted(&mut self) -> Option<Wire> {
        let t = self.s.step.output.packet;
        if t.present == 0 {
            return None;
        }
        let mut data = Vec::new();
        let mut ulp = t.ulp;
        if ulp.resolve != 0 {
            let region = self.region(ulp.rkey);
            match region.resolve(ulp.rkey, AccessFlags::REMOTE_READ, ulp.address, ulp.length) {
                Some(offset) => ulp.memory_offset = offset,
                None => (ulp.data_length, ulp.syndrome) = (0, Aeth::ERROR_BASE | UlpCode::ACCESS.0),
            }
        }
        if ulp.data_length != 0 {
            let start = ulp.memory_offset as usize;
            data.extend(&self.memory[start..start + ulp.data_length as usize]);
        }
        let (packet, operation) = parsed(&t, &ulp);
        Some(Wire { packet, operation, data })
    }
}
