//! One end: a card on the host. The test carries packets instead of frames, and keeps the deadline of the connection
//! itself, because the timing wheel is coarser.

use std::ops::Range;
use std::sync::atomic::Ordering;

use host_nic::{FrameAtHand, HostConfig, HostNic, HostPlatform, node_config};
use transport_common::congestion::admission::Admission;
use transport_common::congestion::event::Event;
use transport_common::congestion::queues::EVENT_QUEUES;
use transport_common::congestion::result::Outcome;
use transport_common::connection::{Parameters, Snapshot, WorkKind};
use transport_common::counters::Counter;
use transport_common::datapath::{self, MAX_FRAME_BYTES, Scratch, Serviced, Turn, Verdict};
use transport_common::ids::{CellId, Slot};
use transport_common::queues::{
    AccessFlags, COMPLETION_QUEUE_DEPTH, Completion, LKey, NodeConfig, QueuePair, Queues,
    RECEIVE_QUEUE_DEPTH, ReceiveRequest, Region, SEND_QUEUE_DEPTH, WorkRequest,
};
use transport_common::units::{FalconTime, Picoseconds, Ticks};

use super::*;

/// One end of a connection.
pub(crate) struct Node {
    /// The connection. The card has it while it runs.
    pub(crate) entry: Box<Snapshot>,
    pub(crate) s: Box<Scratch>,
    /// The memory that the card has while it runs.
    pub(crate) memory: Vec<u8>,
    pub(crate) regions: Vec<Region>,
    /// True: the engine was asked to service the connection.
    pub(crate) wake: bool,
    /// How often the engine serviced the connection.
    pub(crate) services: u32,
    /// How often each kind of work was requested.
    pub(crate) deliveries: [u32; 8],
    /// RSNs of the pushes and atomics that were delivered to the ULP, in order.
    pub(crate) delivered: Vec<u32>,
    /// Congestion events that entered a queue.
    pub(crate) events: Vec<Event>,
    /// When the timing wheel fires. Like the wheel, it knows how long ago that is, if it is long ago.
    filed: Option<Picoseconds>,
    nic: HostNic,
    slot: usize,
}

impl Node {
    pub(crate) fn new(p: &Parameters) -> Self {
        p.check().expect("parameters in range");
        // The paths of the connections here have no addresses.
        let node = NodeConfig { memory: MEMORY as u64, ..node_config([0; 6], [0; 4], [0; 16]) };
        let mut nic = HostNic::new(HostConfig { cells: CELLS, ..HostConfig::new(node) });
        let slot = Slot::of(p.config.local_cid).index();
        nic.open(slot, p);
        let mut entry = closed_entry();
        nic.exchange_entry(slot, &mut entry);
        let everything = AccessFlags::all();
        Self {
            entry,
            s: zeroed_scratch(),
            memory: vec![0; MEMORY],
            regions: vec![Region {
                offset: 0,
                length: MEMORY as u64,
                key: RKEY,
                access: everything,
                ..Region::default()
            }],
            wake: false,
            services: 0,
            deliveries: [0; 8],
            delivered: Vec::new(),
            events: Vec::new(),
            filed: None,
            nic,
            slot,
        }
    }

    pub(crate) fn queues(&self) -> &QueuePair {
        self.nic.queue_pair(self.slot)
    }

    /// Removes `n` cells from the pool, so that fewer are left.
    pub(crate) fn withhold_cells(&mut self, n: usize) {
        let left: Vec<CellId> = self.nic.free_cells().iter().skip(n).copied().collect();
        self.nic.set_free_cells(&left);
    }

    pub(crate) fn free_cells(&self) -> usize {
        self.nic.free_cells().len()
    }

    /// Takes bytes of the memory away, so that nothing can be placed there.
    pub(crate) fn lose_memory(&mut self, bytes: Range<u64>) {
        self.nic.lose_memory(bytes);
    }

    /// Opens the event queues, as a rate update engine does.
    pub(crate) fn admit_events(&mut self, admission: Admission) {
        self.nic.admit_events(admission);
    }

    pub(crate) fn count(&self, counter: Counter) -> u32 {
        self.nic.counter(counter) as u32
    }

    /// Posts a work request and rings the doorbell. Returns its RSN.
    pub(crate) fn post(&mut self, work: WorkRequest) -> u32 {
        let queues = self.queues();
        let rsn = queues.send_producer.load(Ordering::Relaxed);
        queues.send[rsn as usize % SEND_QUEUE_DEPTH].store(work);
        queues.send_producer.store(rsn.wrapping_add(1), Ordering::Release);
        self.wake = true;
        rsn
    }

    /// Posts a receive of `length` bytes at `local_offset`.
    pub(crate) fn post_receive(&mut self, wr_id: u64, local_offset: u64, length: u32) {
        let queues = self.queues();
        let n = queues.receive_producer.load(Ordering::Relaxed);
        let receive = ReceiveRequest { local_offset, wr_id, length, lkey: LKey::OWN };
        if queues.post_receive(n, receive) {
            self.wake = true;
        }
    }

    /// Fills the completion queue but for `places` completions.
    pub(crate) fn fill_completions(&mut self, places: u32) {
        let queues = self.queues();
        let taken = queues.completion_consumer.load(Ordering::Relaxed);
        let full = taken.wrapping_add(COMPLETION_QUEUE_DEPTH as u32);
        while full.wrapping_sub(queues.completion_producer.load(Ordering::Relaxed)) > places {
            assert!(queues.complete(Completion::default()));
        }
    }

    /// Takes all completions from the queue. Rings the doorbell if something waits for their places.
    pub(crate) fn completions(&mut self) -> Vec<Completion> {
        let taken = std::iter::from_fn(|| self.nic.poll_completion(self.slot)).collect();
        self.take_doorbell();
        taken
    }

    /// Takes what the card asks of its engine.
    fn take_doorbell(&mut self) {
        let page = self.nic.page();
        self.wake |= !page.ready.is_empty();
        page.clear_ready(self.slot as u32);
    }

    /// Takes all completions from the queue. Returns RSN and status of each.
    pub(crate) fn completed(&mut self) -> Vec<(u32, u8)> {
        self.completions().iter().map(|c| (c.rsn, c.status)).collect()
    }

    /// Receives a packet. Returns the reply in its frame, if there is one.
    pub(crate) fn receive(&mut self, wire: &Wire, now: Picoseconds) -> Option<Wire> {
        self.s.poison();
        let input = &mut self.s.step.input;
        (input.packet, input.operation) = (wire.packet, wire.operation);
        let bytes = [&wire.head[..], &wire.data].concat();
        let mut frame = FrameAtHand { bytes, limit: MAX_FRAME_BYTES, arrival: None };
        let verdict = self.run(now, &mut frame, |card, s| datapath::accept(card, s));
        (verdict == Verdict::Transmit).then(|| self.transmitted(frame))
    }

    /// Lets the engine service the connection. Returns the packet that it sends, if there is one.
    pub(crate) fn turn(&mut self, now: Picoseconds) -> Option<Wire> {
        self.service(None, now)
    }

    /// Sets a result of a rate update engine, which the engine's next service applies.
    pub(crate) fn result(&mut self, outcome: Outcome, now: Picoseconds) -> Option<Wire> {
        self.service(Some(outcome), now)
    }

    fn service(&mut self, outcome: Option<Outcome>, now: Picoseconds) -> Option<Wire> {
        self.wake = false;
        self.services += 1;
        let fired = self.has_fired(now);
        if fired {
            self.filed = None;
        }
        self.s.poison();
        self.s.step.input.has_outcome = outcome.is_some().into();
        if let Some(outcome) = outcome {
            self.s.step.input.outcome = outcome;
        }
        self.s.serviced = Serviced { now, slot: self.slot as u32, fired: fired.into() };
        let mut frame = FrameAtHand::of_the_engine();
        let mut turn = self.run(now, &mut frame, |card, s| datapath::service(card, s));
        let report = &self.s.step.output.report;
        if report.file != 0 {
            let tick = Picoseconds(now.0 >> Ticks::PICOS_SHIFT << Ticks::PICOS_SHIFT);
            self.filed = Some(tick.after(report.deadline_in.as_picos()));
        }
        if turn == Turn::Redeliver {
            turn = self.run(now, &mut frame, |card, s| datapath::redeliver(card, s));
        }
        (turn == Turn::Transmit).then(|| self.transmitted(frame))
    }

    /// Returns the deadline that the last service asked for.
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

    /// Runs a part of the datapath, and notes what it did.
    fn run<T>(
        &mut self,
        now: Picoseconds,
        frame: &mut FrameAtHand,
        part: impl FnOnce(&mut HostPlatform<'_>, &mut Scratch) -> T,
    ) -> T {
        let nic = &mut self.nic;
        nic.restore_time(now);
        nic.exchange_entry(self.slot, &mut self.entry);
        nic.memory_mut().copy_from_slice(&self.memory);
        nic.regions_mut().fill(Region::default());
        self.regions.iter().for_each(|region| nic.register(*region));
        let done = part(&mut nic.platform(frame), &mut self.s);
        nic.exchange_entry(self.slot, &mut self.entry);
        self.memory.copy_from_slice(nic.memory());
        for queue in 0..EVENT_QUEUES {
            while nic.take_event(queue).is_some() {}
        }
        self.take_doorbell();
        let step = &self.s.step;
        if step.output.report.event != 0 {
            self.events.push(step.output.event);
        }
        let kind = step.output.work.kind;
        self.deliveries[kind as usize] += 1;
        if matches!(kind, WorkKind::PlaceRequest | WorkKind::CompareSwap | WorkKind::FetchAdd) {
            self.delivered.push(step.input.packet.rsn);
        }
        done
    }

    /// Returns the packet of a frame that the card sends, as its receiver reads it.
    fn transmitted(&mut self, mut frame: FrameAtHand) -> Wire {
        let mut s = zeroed_scratch();
        let is_valid = datapath::read(&mut self.nic.platform(&mut frame), &mut s);
        assert!(is_valid, "the peer drops the frame {:02x?}", frame.bytes);
        let (packet, operation) = (s.step.input.packet, s.step.input.operation);
        let mut head = frame.bytes;
        let data = head.split_off(packet.payload_offset as usize + operation.header as usize);
        Wire { packet, operation, data, head }
    }
}
