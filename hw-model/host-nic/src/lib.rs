//! The card on the host: the datapath over plain memory, on a clock that is told.
//!
//! [`HostNic`] is one node: connection contexts, queues, registered memory, receive cells, timing wheel. Frames go in
//! and come out by value; nothing runs by itself. It is what simulations, the hardware model and the differential
//! tests drive, and it does to the bit what the XDP programs do.

mod access;
pub mod contract;
mod doorbells;
mod platform;
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
use transport_common::connection::{Parameters, State};
use transport_common::counters::Counter;
use transport_common::datapath::{self, Scratch, Turn, Verdict};
use transport_common::ids::Rsn;
use transport_common::queues::{
    CELL_BYTES, CELLS, CONNECTIONS, Command, Completion, MEMORY_BYTES, NodeConfig, RECEIVE_QUEUE_DEPTH,
    REGIONS, ReceiveRequest, Region, SEND_QUEUE_DEPTH, WorkRequest, slot_of,
};
use transport_common::timing_wheel::{NANOS_PER_TICK, TimingWheel};
use transport_common::units::Picoseconds;

use table::Connections;

pub use doorbells::Doorbells;
pub use platform::{FrameAtHand, FrameCursor, HostMemory, HostPlatform, node_config};
pub use table::HostLocked;

/// What distinguishes one card from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Own addresses.
    pub node: NodeConfig,
    /// Receive cells, at most [`CELLS`].
    pub cells: usize,
    /// Longest frame a received frame can grow to, bytes.
    pub longest_frame: u32,
    /// Bytes by which a received frame can grow; XDP on socket buffers has none.
    pub tail_room: u32,
    /// Bytes of registered memory, at most [`MEMORY_BYTES`]. What is not written costs none of the machine's.
    pub memory: usize,
}

impl HostConfig {
    /// A card with all cells and all memory, and frames in pages as native XDP has them.
    #[must_use]
    pub const fn new(node: NodeConfig) -> Self {
        Self {
            node,
            cells: CELLS,
            longest_frame: datapath::MAX_FRAME_BYTES,
            tail_room: u32::MAX,
            memory: MEMORY_BYTES,
        }
    }
}

/// A queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub struct QueueFull;

/// One node. See the module.
pub struct HostNic {
    card: HostMemory,
    frame: FrameAtHand,
    scratch: Box<Scratch>,
    config: HostConfig,
    frames: u64,
}

/// `n` values of zero bytes, from the allocator as such: untouched pages cost nothing.
///
/// # Safety
/// Zero bytes are a valid `T`.
unsafe fn zeroed<T>(n: usize) -> Box<[T]> {
    // SAFETY: by the contract of this function.
    unsafe { Box::new_zeroed_slice(n).assume_init() }
}

impl HostNic {
    /// A card without connections; its clock stands at 0.
    ///
    /// # Panics
    /// If `config` asks for more than [`CELLS`] cells or [`MEMORY_BYTES`] of memory.
    #[must_use]
    pub fn new(config: HostConfig) -> Self {
        assert!(config.cells <= CELLS, "{} cells asked for, there are {CELLS}", config.cells);
        assert!(config.memory <= MEMORY_BYTES, "{} bytes asked for, there are {MEMORY_BYTES}", config.memory);
        // SAFETY: integers only.
        let cells: Box<[[u8; CELL_BYTES]]> = unsafe { zeroed(config.cells) };
        // SAFETY: integers only.
        let scratch: Box<Scratch> = unsafe { Box::new_zeroed().assume_init() };
        let card = HostMemory {
            clock: Picoseconds(0),
            readings: VecDeque::new(),
            config: config.node,
            connections: Connections::new(),
            memory: vec![0; config.memory],
            regions: [Region::default(); REGIONS],
            cells,
            free_cells: (1..=config.cells as u32).collect(),
            wheel: Box::new(TimingWheel::new()),
            doorbells: Doorbells::default(),
            counters: [0; Counter::COUNT],
            rx_buffer_level: 0,
            admission: Admission { capacity: 0, ..Admission::new(0) },
            events: Default::default(),
            published: [0; EVENT_QUEUES],
            results: VecDeque::new(),
            delays: [[0; BUCKETS]; DELAYS],
        };
        Self { card, frame: FrameAtHand::default(), scratch, config, frames: 0 }
    }

    /// The clock.
    pub const fn now(&self) -> Picoseconds {
        self.card.clock
    }

    /// Sets the clock. It is monotonic: an earlier time than the one it shows is ignored.
    pub fn set_time(&mut self, now: Picoseconds) {
        self.card.clock = Picoseconds(self.card.clock.0.max(now.0));
    }

    /// Sets what the next readings of the clock find, the last of which stays. A frame may take several.
    pub fn set_readings(&mut self, readings: impl IntoIterator<Item = Picoseconds>) {
        self.card.readings = readings.into_iter().collect();
    }

    /// Handles a frame from the network, as the wire program does: the verdict, and what stands in the frame then.
    pub fn receive(&mut self, frame: Vec<u8>) -> (Verdict, Vec<u8>) {
        self.receive_at_hand(FrameAtHand { limit: self.frame_limit(&frame), bytes: frame, arrival: None })
    }

    /// Likewise a frame that came off the wire at `arrival` and waited in a receive buffer of the card since then.
    pub fn receive_waited(&mut self, frame: Vec<u8>, arrival: Picoseconds) -> (Verdict, Vec<u8>) {
        let limit = self.frame_limit(&frame);
        self.receive_at_hand(FrameAtHand { limit, bytes: frame, arrival: Some(arrival) })
    }

    fn receive_at_hand(&mut self, frame: FrameAtHand) -> (Verdict, Vec<u8>) {
        self.frame = frame;
        let mut platform = HostPlatform { card: &mut self.card, frame: &mut self.frame };
        let verdict = datapath::receive(&mut platform, &mut self.scratch);
        (verdict, core::mem::take(&mut self.frame.bytes))
    }

    /// Longest a received frame can grow to, bytes.
    pub fn frame_limit(&self, frame: &[u8]) -> u32 {
        self.config.longest_frame.min((frame.len() as u32).saturating_add(self.config.tail_room))
    }

    /// The card's memory with another frame than its own: a card that has several in flight runs the datapath itself.
    pub const fn platform<'a>(&'a mut self, frame: &'a mut FrameAtHand) -> HostPlatform<'a> {
        HostPlatform { card: &mut self.card, frame }
    }

    /// Sets the occupancy level of that buffer, 0 to 31, which all connections report from now on (F-10.2-3).
    pub fn set_rx_buffer_level(&mut self, level: u8) {
        self.card.rx_buffer_level = level;
    }

    /// One frame of the engine: the verdict and what stands in the frame, or `None` if there was nobody to turn to.
    ///
    /// The wheel is looked at in every eighth frame, as the engine program does.
    pub fn engine_frame(&mut self) -> Option<(Verdict, Vec<u8>)> {
        self.frames = self.frames.wrapping_add(1);
        self.frame = FrameAtHand::of_the_engine();
        let mut platform = HostPlatform { card: &mut self.card, frame: &mut self.frame };
        let mut turn = datapath::engine(&mut platform, &mut self.scratch, self.frames & 7 == 0);
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

    /// When the engine has something to do next, by this card's clock: at once if a doorbell was rung, else at the
    /// next deadline of the timing wheel or shortly before; `None` if nothing is planned.
    pub fn next_event(&self) -> Option<Picoseconds> {
        if !self.card.doorbells.is_silent() || !self.card.results.is_empty() {
            return Some(self.card.clock);
        }
        let tick = self.card.wheel.next_event()?;
        Some(Picoseconds(self.card.clock.0.max(tick * NANOS_PER_TICK * 1000)))
    }

    /// Connections that ask for a turn of the engine, and results that wait for it.
    pub fn asking(&self) -> usize {
        let bits = self.card.doorbells.ready.iter().map(|word| word.count_ones() as usize);
        bits.sum::<usize>() + self.card.results.len()
    }

    /// Opens the connection of `slot`; nothing of a former one remains.
    ///
    /// # Panics
    /// If there is no such slot, or if it does not belong to `parameters.config.local_cid`.
    pub fn open(&mut self, slot: usize, parameters: &Parameters) {
        assert_eq!(
            slot_of(parameters.config.local_cid) as usize,
            slot,
            "a CID's slot is its value modulo {CONNECTIONS}"
        );
        let entry = self.card.connections.entry_mut(slot);
        let generation = entry.connection.generation.wrapping_add(1);
        // SAFETY: zero bytes are a closed connection by the contract of `Entry`.
        unsafe { core::ptr::from_mut(entry).write_bytes(0, 1) };
        entry.open(parameters, generation);
        self.card.reset_queues(slot, parameters.tx.rsn.0, parameters.settings, State::Open as u32);
    }

    /// Sets congestion control of `slot` anew; in force from the engine's next turn on. False while an earlier change
    /// waits for that.
    pub fn set_congestion(&mut self, slot: usize, settings: Settings) -> bool {
        let changed = self.card.connections.queue_pair(slot).change_settings(settings);
        self.card.doorbells.ring(slot as u32);
        changed
    }

    /// Opens the event queues under this policy, as a rate update engine does when it comes.
    pub fn admit_events(&mut self, admission: Admission) {
        self.card.admission = admission;
    }

    /// Takes the next event of a queue.
    pub fn take_event(&mut self, queue: usize) -> Option<CongestionEntry> {
        self.card.events[queue].pop_front()
    }

    /// Gives the card a result; handled at the engine's next frame.
    pub fn post_result(&mut self, entry: CongestionEntry) {
        self.card.results.push_back(entry);
    }

    /// The delays of all acknowledgements: full, fabric, forward, reverse.
    pub fn delay_histograms(&self) -> &DelayHistogram {
        &self.card.delays
    }

    /// Asks the engine to close the connection of `slot`: everything outstanding completes.
    pub fn close(&mut self, slot: usize) {
        self.card.connections.queue_pair(slot).command.store(Command::CLOSE.0, Ordering::Release);
        self.card.doorbells.ring(slot as u32);
    }

    /// Posts a work request and rings the doorbell; the RSN of its transaction.
    ///
    /// # Errors
    /// [`QueueFull`]: the entry's former transaction is not complete.
    pub fn post(&mut self, slot: usize, work: WorkRequest) -> Result<Rsn, QueueFull> {
        let queues = self.card.connections.queue_pair(slot);
        let producer = queues.send_producer.load(Ordering::Relaxed);
        let consumer = queues.send_consumer.load(Ordering::Acquire);
        if producer.wrapping_sub(consumer) >= SEND_QUEUE_DEPTH as u32 {
            return Err(QueueFull);
        }
        queues.send[producer as usize % SEND_QUEUE_DEPTH].store(work);
        queues.send_producer.store(producer.wrapping_add(1), Ordering::Release);
        self.card.doorbells.ring(slot as u32);
        Ok(Rsn(producer))
    }

    /// Posts a receive buffer, and rings the doorbell if a request of the peer's waits for one.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn post_receive(&mut self, slot: usize, receive: ReceiveRequest) -> Result<(), QueueFull> {
        let queues = self.card.connections.queue_pair(slot);
        let producer = queues.receive_producer.load(Ordering::Relaxed);
        let consumer = queues.receive_consumer.load(Ordering::Acquire);
        if producer.wrapping_sub(consumer) >= RECEIVE_QUEUE_DEPTH as u32 {
            return Err(QueueFull);
        }
        queues.receive[producer as usize % RECEIVE_QUEUE_DEPTH].store(receive);
        queues.receive_producer.store(producer.wrapping_add(1), Ordering::Release);
        if queues.receive_wanted.load(Ordering::Relaxed) != 0 {
            self.card.doorbells.ring(slot as u32);
        }
        Ok(())
    }

    /// Takes the oldest completion of `slot`.
    pub fn poll_completion(&mut self, slot: usize) -> Option<Completion> {
        let queues = self.card.connections.queue_pair(slot);
        let consumer = queues.completion_consumer.load(Ordering::Relaxed);
        let completion = queues.completion(consumer)?;
        queues.completion_consumer.store(consumer.wrapping_add(1), Ordering::Release);
        Some(completion)
    }

    /// Enters a region in the table, under its key; a key of another region in the same place is no longer known.
    pub fn register(&mut self, region: Region) {
        self.card.regions[region.key as usize % REGIONS] = region;
    }

    /// Removes the region with `key`.
    pub fn deregister(&mut self, key: u32) {
        self.card.regions[key as usize % REGIONS] = Region::default();
    }

    /// Asks for a turn of the engine for `slot`.
    pub fn ring(&mut self, slot: usize) {
        self.card.doorbells.ring(slot as u32);
    }
}
