//! A card in user space: the datapath over plain memory, with a clock that the caller sets.
//!
//! # What it models
//!
//! [`HostNic`] is one node: connection contexts, queues, registered memory, receive cells and a timing wheel. It
//! runs the same code as the XDP programs, [`transport_common::datapath`], and its results are equal to theirs bit
//! by bit. The source of its behaviour is the Falcon specification (clauses F-…) and the project's decisions
//! (D-…).
//!
//! Frames go in and come out by value. Nothing runs by itself: the caller passes received frames in, and calls the
//! engine. Simulations, the hardware model and the differential tests use this crate.
//!
//! # Where to start
//!
//! - [`HostConfig`] configures a card, and [`node_config`] its addresses.
//! - [`HostNic::open`] opens a connection. [`testbed`] has the parameters of two ends for tests.
//! - [`HostNic::post`], [`HostNic::post_receive`] and [`HostNic::poll_completion`] are the application's
//!   interface.
//! - [`HostNic::receive`] processes a received frame. [`HostNic::engine_frame`] makes one service of the engine,
//!   which can send one frame. [`HostNic::next_event`] returns when the engine has work next.
//! - [`HostPlatform`] is the platform over one frame ([`FrameAtHand`]), for callers with several frames in flight.
//! - [`contract`] has the checks that every platform must pass.
//!
//! # Units
//!
//! The clock is in picoseconds ([`Picoseconds`]). The model has no cycles: every call takes no time on the clock.
//! `falcon_nic` runs the same card in cycles.
//!
//! # Experiments
//!
//! The crate has no experiments of its own. `cargo xtask experiment` runs data centres of such cards, see
//! `docs/experiments.md`. `tiercel model experiment nic-pipeline` runs the card in cycles, see
//! `docs/model/falcon-nic.md`.
//!
//! # Example
//!
//! ```
//! use host_nic::{HostConfig, HostNic, testbed};
//! use transport_common::queues::{AccessFlags, Region, Verb, WorkFlags, WorkRequest};
//!
//! let [mut a, mut b] = [0, 1].map(|side| HostNic::new(HostConfig::new(testbed::node(side))));
//! a.open(5, &testbed::connection(0, 5));
//! b.open(5, &testbed::connection(1, 5));
//! b.register(Region { offset: 8192, length: 4096, key: 1, access: AccessFlags::REMOTE_WRITE, ..Region::default() });
//! a.memory_mut()[..100].fill(0xa5);
//! let work = WorkRequest {
//!     opcode: Verb::WRITE,
//!     flags: WorkFlags::SIGNALED,
//!     length: 100,
//!     rkey: 1,
//!     ..WorkRequest::default()
//! };
//! a.post(5, work).expect("the queue is empty");
//! let (_, frame) = a.engine_frame().expect("the engine has work");
//! let (_, acknowledgement) = b.receive(frame);
//! a.receive(acknowledgement);
//! assert_eq!(b.memory()[8192..8292], [0xa5; 100]);
//! assert!(a.poll_completion(5).is_some());
//! ```

mod access;
pub mod contract;
mod platform;
mod remote;
mod table;
pub mod testbed;

#[cfg(test)]
mod tests;

use core::sync::atomic::Ordering;
use std::collections::VecDeque;

use transport_common::congestion::admission::Admission;
use transport_common::congestion::entry::Entry as CongestionEntry;
use transport_common::congestion::histogram::{BUCKETS, DELAYS, DelayHistogram};
use transport_common::congestion::queues::EVENT_QUEUES;
use transport_common::congestion::settings::Settings;
use transport_common::connection::{Endpoint, Parameters, State};
use transport_common::counters::Counter;
use transport_common::datapath::exchange::set_next_hop;
use transport_common::datapath::{self, Scratch, Turn, Verdict};
use transport_common::ids::{Rsn, Slot};
use transport_common::queues::{
    BANK_BYTES, CELL_BYTES, CELLS, CONNECTIONS, Command, Completion, MAX_BANKS, NodeConfig,
    RECEIVE_QUEUE_DEPTH, REGIONS, ReceiveRequest, Region, SEND_QUEUE_DEPTH, WorkRequest,
};
use transport_common::shard::{Parts, Shard};
use transport_common::units::Picoseconds;

use table::Connections;

pub use platform::{FrameAtHand, FrameCursor, HostMemory, HostPlatform, node_config};
pub use remote::{Reach, Remote};
pub use table::HostLocked;

/// The configuration of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Own addresses, and the bytes of registered memory. Bytes that are never written take no memory of the machine.
    pub node: NodeConfig,
    /// Number of receive cells, at most [`CELLS`].
    pub cells: usize,
    /// Maximum length in bytes to which a received frame can grow.
    pub longest_frame: u32,
    /// Bytes by which a received frame can grow. With XDP on socket buffers it is 0.
    pub tail_room: u32,
}

impl HostConfig {
    /// Returns the configuration of a card with all cells and all memory. Its frames are in pages, as with native
    /// XDP.
    #[must_use]
    pub const fn new(node: NodeConfig) -> Self {
        Self { node, cells: CELLS, longest_frame: datapath::MAX_FRAME_BYTES, tail_room: u32::MAX }
    }
}

/// The error of a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: wait until an entry is complete, then post again")]
pub struct QueueFull;

/// One node. See the crate's page for an example.
pub struct HostNic {
    card: HostMemory,
    frame: FrameAtHand,
    scratch: Box<Scratch>,
    config: HostConfig,
}

impl HostNic {
    /// Creates a card without connections. Its clock is at 0.
    ///
    /// # Panics
    /// Panics if `config` has more than [`CELLS`] cells or more memory than [`MAX_BANKS`].
    #[must_use]
    pub fn new(config: HostConfig) -> Self {
        assert!(config.cells <= CELLS, "{} cells are too many: the maximum is {CELLS}", config.cells);
        let (memory, most) = (config.node.memory, (MAX_BANKS * BANK_BYTES) as u64);
        assert!(memory <= most, "{memory} bytes of memory are too many: the maximum is {most}");
        // Zeroed by the allocator: pages that are not touched take no memory.
        let cells: Box<[[u8; CELL_BYTES]]> = bytemuck::zeroed_slice_box(config.cells);
        let scratch: Box<Scratch> = bytemuck::zeroed_box();
        let card = HostMemory {
            clock: Picoseconds(0),
            readings: VecDeque::new(),
            config: config.node,
            connections: Connections::new(),
            memory: vec![0; memory as usize],
            lost: 0..0,
            regions: [Region::default(); REGIONS],
            cells,
            shard: Box::new(Shard::new(config.cells)),
            counters: [0; Counter::COUNT],
            rx_buffer_level: 0,
            admission: Admission { capacity: 0, ..Admission::new(0) },
            events: Default::default(),
            published: [0; EVENT_QUEUES],
            results: VecDeque::new(),
            delays: [[0; BUCKETS]; DELAYS],
            notices: vec![],
        };
        Self { card, frame: FrameAtHand::default(), scratch, config }
    }

    /// Returns the time of the clock.
    pub const fn now(&self) -> Picoseconds {
        self.card.clock
    }

    /// Returns the time on this card's clock.
    pub const fn time(&self) -> Picoseconds {
        self.card.clock
    }

    /// Sets the clock. The clock is monotonic, so an earlier time than its current one is ignored.
    pub fn set_time(&mut self, now: Picoseconds) {
        // A new card has no time. Any may come first.
        if self.card.clock.0 == 0 || now.is_later_than(self.card.clock) {
            self.card.clock = now;
        }
    }

    /// Sets the values of the next readings of the clock. After them, the clock stays at the last value. The
    /// processing of one frame may read the clock several times.
    pub fn set_readings(&mut self, readings: impl IntoIterator<Item = Picoseconds>) {
        self.card.readings = readings.into_iter().collect();
    }

    /// Processes a frame from the network, as the wire program does. Returns the verdict and the bytes of the
    /// frame after the processing.
    pub fn receive(&mut self, frame: Vec<u8>) -> (Verdict, Vec<u8>) {
        self.receive_at_hand(FrameAtHand { limit: self.frame_limit(&frame), bytes: frame, arrival: None })
    }

    /// Processes a frame that came off the wire at `arrival` and has waited in a receive buffer of the card since
    /// then. Returns the same as [`Self::receive`].
    pub fn receive_waited(&mut self, frame: Vec<u8>, arrival: Picoseconds) -> (Verdict, Vec<u8>) {
        let limit = self.frame_limit(&frame);
        self.receive_at_hand(FrameAtHand { limit, bytes: frame, arrival: Some(arrival) })
    }

    fn receive_at_hand(&mut self, frame: FrameAtHand) -> (Verdict, Vec<u8>) {
        self.frame = frame;
        let mut platform = HostPlatform { card: &mut self.card, frame: &mut self.frame };
        self.scratch.poison();
        let verdict = datapath::receive(&mut platform, &mut self.scratch);
        (verdict, core::mem::take(&mut self.frame.bytes))
    }

    /// Returns the maximum length in bytes to which a received frame can grow.
    pub fn frame_limit(&self, frame: &[u8]) -> u32 {
        self.config.longest_frame.min((frame.len() as u32).saturating_add(self.config.tail_room))
    }

    /// Returns the platform over the card's memory and the caller's frame. A caller with several frames in flight
    /// runs the datapath on it.
    pub const fn platform<'a>(&'a mut self, frame: &'a mut FrameAtHand) -> HostPlatform<'a> {
        HostPlatform { card: &mut self.card, frame }
    }

    /// Sets the occupancy level of the receive buffer, 0 to 31. All connections report it from now on (F-10.2-3).
    pub fn set_rx_buffer_level(&mut self, level: u8) {
        self.card.rx_buffer_level = level;
    }

    /// Runs the engine for one frame. Returns the verdict and the bytes of the frame, or `None` if no connection
    /// had work.
    ///
    /// The engine polls the timing wheel in every eighth frame, as the engine program does.
    pub fn engine_frame(&mut self) -> Option<(Verdict, Vec<u8>)> {
        let looks = self.card.shard.page.begin_frame();
        self.frame = FrameAtHand::of_the_engine();
        let mut platform = HostPlatform { card: &mut self.card, frame: &mut self.frame };
        self.scratch.poison();
        let mut turn = datapath::engine(&mut platform, &mut self.scratch, looks);
        platform.card.shard.page.end_frame(turn == Turn::Idle);
        if turn == Turn::Redeliver {
            turn = datapath::redeliver(&mut platform, &mut self.scratch);
        }
        let verdict = match turn {
            Turn::Idle => return None,
            Turn::Transmit => Verdict::Transmit,
            Turn::Drop | Turn::Redeliver => Verdict::Drop,
        };
        Some((verdict, core::mem::take(&mut self.frame.bytes)))
    }

    /// Returns the time on this card's clock when the engine has work next. That is now if a doorbell was rung or
    /// a result waits. Otherwise it is the next deadline of the timing wheel, or shortly before it. Returns `None`
    /// if no work is planned.
    pub fn next_event(&self) -> Option<Picoseconds> {
        if !self.card.shard.page.ready.is_empty() || !self.card.results.is_empty() {
            return Some(self.card.clock);
        }
        let (at, now) = (self.card.shard.wheel.next_event()?.start(), self.card.clock);
        Some(if at.is_later_than(now) { at } else { now })
    }

    /// Returns the number of connections that request service by the engine, plus the number of results that wait
    /// for it.
    pub fn asking(&self) -> usize {
        let bits = self.card.shard.page.ready.bits();
        bits.iter().map(|word| word.count_ones() as usize).sum::<usize>() + self.card.results.len()
    }

    /// Returns the slots of the connections that were locked since the last call. A run of the datapath changes no
    /// others.
    pub fn take_locked(&mut self) -> Vec<usize> {
        self.card.connections.take_locked()
    }

    /// Opens the connection of `slot`. Nothing of an earlier connection of the slot remains.
    ///
    /// # Panics
    /// Panics if there is no such slot, or if it does not belong to `parameters.config.local_cid`.
    pub fn open(&mut self, slot: usize, parameters: &Parameters) {
        assert_eq!(
            Slot::of(parameters.config.local_cid).index(),
            slot,
            "a CID's slot is its value modulo {CONNECTIONS}"
        );
        let entry = self.card.connections.entry_mut(slot);
        let generation = entry.connection.generation.wrapping_add(1);
        bytemuck::write_zeroes(entry);
        entry.open(parameters, generation);
        self.card.reset_queues(slot, parameters.config.local_cid, parameters.tx.rsn, State::Open as u32);
    }

    /// Sends the packets of `slot` to the next hop of `request` from now on. Returns false if the slot has another connection
    /// than that of the request: see [`set_next_hop`].
    ///
    /// # Panics
    /// Panics if there is no such slot.
    pub fn set_next_hop(&mut self, slot: usize, request: &Endpoint, generation: u32) -> bool {
        set_next_hop(&mut self.card.connections.entry_mut(slot).connection, request, generation)
    }

    /// Changes the congestion control of `slot`. The change takes effect at the next service of the connection.
    ///
    /// # Panics
    /// Panics if there is no such slot.
    pub fn set_congestion(&mut self, slot: usize, settings: Settings) {
        self.card.connections.entry_mut(slot).settings.request(&settings);
        self.card.shard.wake(slot as u32);
    }

    /// Opens the event queues with this admission policy, as a rate update engine does when it starts.
    pub fn admit_events(&mut self, admission: Admission) {
        self.card.admission = admission;
    }

    /// Takes the next event of a queue.
    pub fn take_event(&mut self, queue: usize) -> Option<CongestionEntry> {
        self.card.events[queue].pop_front()
    }

    /// Gives a result to the card. The engine handles it in its next frame.
    pub fn post_result(&mut self, entry: CongestionEntry) {
        self.card.results.push_back(entry);
    }

    /// Returns the delay histograms of all acknowledgements: full, fabric, forward, reverse.
    pub fn delay_histograms(&self) -> &DelayHistogram {
        &self.card.delays
    }

    /// Returns the slots whose applications were woken since the last call, in their order.
    pub fn take_notices(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.card.notices)
    }

    /// Asks the engine to close the connection of `slot`. All outstanding work completes.
    pub fn close(&mut self, slot: usize) {
        self.card.connections.queue_pair(slot).control.command.store(Command::CLOSE.0, Ordering::Release);
        self.card.shard.wake(slot as u32);
    }

    /// Posts a work request and rings the doorbell. Returns the RSN of its transaction.
    ///
    /// # Errors
    /// Returns [`QueueFull`] if the earlier transaction in the same queue entry is not complete.
    pub fn post(&mut self, slot: usize, work: WorkRequest) -> Result<Rsn, QueueFull> {
        let queue = self.card.connections.queue_pair(slot).work_queue();
        let at = queue.producer();
        if at.0.wrapping_sub(queue.consumer().0) >= SEND_QUEUE_DEPTH as u32 {
            return Err(QueueFull);
        }
        queue.post(at, work);
        self.card.shard.wake(slot as u32);
        Ok(at.rsn())
    }

    /// Posts a receive buffer. Rings the doorbell if a request of the peer waits for a buffer.
    ///
    /// # Errors
    /// Returns [`QueueFull`] if the receive queue is full.
    pub fn post_receive(&mut self, slot: usize, receive: ReceiveRequest) -> Result<(), QueueFull> {
        let queues = self.card.connections.queue_pair(slot);
        let producer = queues.receive_producer.load(Ordering::Relaxed);
        let consumer = queues.receive_consumer.load(Ordering::Acquire);
        if producer.wrapping_sub(consumer) >= RECEIVE_QUEUE_DEPTH as u32 {
            return Err(QueueFull);
        }
        if queues.post_receive(producer, receive) {
            self.card.shard.wake(slot as u32);
        }
        Ok(())
    }

    /// Takes the oldest completion of `slot`. Rings the doorbell if something waits for its place.
    pub fn poll_completion(&mut self, slot: usize) -> Option<Completion> {
        let queues = self.card.connections.queue_pair(slot);
        let consumer = queues.completion_queue().consumer();
        let completion = queues.completion_queue().get(consumer)?;
        if queues.take_completions(consumer.wrapping_add(1)) {
            self.card.shard.wake(slot as u32);
        }
        Some(completion)
    }

    /// Registers a region under its key. It replaces a region whose key has the same index in the table.
    pub fn register(&mut self, region: Region) {
        self.card.regions[region.key as usize % REGIONS] = region;
    }

    /// Removes the region with `key`.
    pub fn deregister(&mut self, key: u32) {
        self.card.regions[key as usize % REGIONS] = Region::default();
    }

    /// Requests service by the engine for `slot`.
    pub fn ring(&mut self, slot: usize) {
        self.card.shard.wake(slot as u32);
    }
}
