//! [`Platform`](datapath::Platform) over plain memory. It replaces the maps and the XDP context of the kernel's
//! programs.

use core::ops::Range;
use std::collections::VecDeque;

use transport_common::congestion::admission::Admission;
use transport_common::congestion::entry::Entry as CongestionEntry;
use transport_common::congestion::histogram::{DelayHistogram, bucket_of};
use transport_common::congestion::queues::{EVENT_QUEUES, generation_of};
use transport_common::counters::Counter;
use transport_common::datapath::{
    self, Atomic, Cells, CongestionQueues, Frames, HEADER_BYTES, Host, MAX_COPY, MAX_FRAME_BYTES,
    MAX_HEADERS, MAX_SUMMED_HEADERS, MIN_CELL_FRAME, MIN_FRAME, Memory, Scratch, Services, UDP_AT, mac_word,
};
use transport_common::ids::{CellId, Cid, Rsn};
use transport_common::queues::{CELL_BYTES, DEFAULT_MEMORY, NodeConfig, REGIONS, Region};
use transport_common::shard::{Parts, Shard};
use transport_common::tape::PREFIX_BYTES;
use transport_common::units::{Picoseconds, Ticks};
use transport_common::wire::cursor::Cursor;

use super::table::{Connections, HostLocked};

/// Length of the frames that the engine starts with, in bytes.
const ENGINE_FRAME_BYTES: usize = 128;

/// The memory of one card, which all its frames share.
pub struct HostMemory {
    pub(super) clock: Picoseconds,
    /// The values of the next clock readings. The clock shows the last value that was read.
    pub(super) readings: VecDeque<Picoseconds>,
    /// Occupancy level of the card's receive buffer.
    pub(super) rx_buffer_level: u8,
    pub(super) config: NodeConfig,
    pub(super) connections: Connections,
    pub(super) memory: Vec<u8>,
    /// Bytes of the memory that the datapath cannot access.
    pub(super) lost: Range<u64>,
    pub(super) regions: [Region; REGIONS],
    /// The receive cells. [`CellId::index`] is the index of a cell.
    pub(super) cells: Box<[[u8; CELL_BYTES]]>,
    /// Doorbells, timing wheel, and the numbers of the free cells.
    pub(super) shard: Box<Shard>,
    pub(super) counters: [u64; Counter::COUNT],
    /// Admission to the event queues. Its capacity is 0 while there is no rate update engine.
    pub(super) admission: Admission,
    pub(super) events: [VecDeque<CongestionEntry>; EVENT_QUEUES],
    /// Number of events published so far, by queue.
    pub(super) published: [u64; EVENT_QUEUES],
    pub(super) results: VecDeque<CongestionEntry>,
    pub(super) delays: DelayHistogram,
    /// Slots whose applications were woken.
    pub(super) notices: Vec<u32>,
}

/// A frame and its properties. A card with several frames in flight has one of these for each.
#[derive(Clone, Debug, Default)]
pub struct FrameAtHand {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Maximum length in bytes to which it can grow.
    pub limit: u32,
    /// The time when it came off the wire, if it has waited since then.
    pub arrival: Option<Picoseconds>,
}

/// The platform of the datapath: one card's memory and one frame.
///
/// Bounds, lengths, padding and the order of atomics are those of the XDP platform, bit by bit. The differential
/// test compares the two.
pub struct HostPlatform<'a> {
    /// The memory that all frames share.
    pub(super) card: &'a mut HostMemory,
    /// The current frame.
    pub(super) frame: &'a mut FrameAtHand,
}

impl HostMemory {
    /// Returns `length` bytes of the node's memory, if there are so many at `offset`.
    fn memory(&mut self, offset: u64, length: u32) -> Option<&mut [u8]> {
        if offset < self.lost.end && self.lost.start < offset.saturating_add(length.into()) {
            return None;
        }
        let (offset, length) = (usize::try_from(offset).ok()?, length as usize);
        self.memory.get_mut(offset..offset.checked_add(length)?)
    }

    /// Returns 8 aligned bytes of the node's memory.
    fn word(&mut self, offset: u64) -> Option<&mut [u8; 8]> {
        self.memory(offset & !7, 8)?.try_into().ok()
    }

    /// Returns a receive cell.
    pub(super) fn cell(&self, cell: CellId) -> Option<&[u8; CELL_BYTES]> {
        self.cells.get(cell.index() as usize)
    }

    /// Returns a receive cell for changes.
    pub(super) fn cell_mut(&mut self, cell: CellId) -> Option<&mut [u8; CELL_BYTES]> {
        self.cells.get_mut(cell.index() as usize)
    }

    /// Resets the queues of a slot for the connection with the local CID `cid`, whose first RSN is `first`. Nothing of an
    /// earlier connection remains.
    pub(super) fn reset_queues(&self, slot: usize, cid: Cid, first: Rsn, state: u32) {
        self.connections.queue_pair(slot).start(cid, first, state);
    }
}

impl FrameAtHand {
    /// Returns the frame that the engine starts with.
    #[must_use]
    pub fn of_the_engine() -> Self {
        Self { bytes: vec![0; ENGINE_FRAME_BYTES], limit: MAX_FRAME_BYTES, arrival: None }
    }

    fn piece(&self, offset: u32, length: u32) -> Option<&[u8]> {
        self.bytes.get(offset as usize..offset as usize + length as usize)
    }

    /// Copies `from` to `offset`. Returns false if the frame is too short.
    fn store(&mut self, offset: u32, from: &[u8]) -> bool {
        let to = self.bytes.get_mut(offset as usize..offset as usize + from.len());
        to.map(|to| to.copy_from_slice(from)).is_some()
    }
}

const fn copyable(length: u32) -> bool {
    length != 0 && length <= MAX_COPY
}

/// Returns the sum of 16-bit words in memory order. An odd last byte is padded with zero.
fn sum(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks(2).map(|pair| [pair[0], pair.get(1).copied().unwrap_or(0)]);
    pairs.map(|pair| u32::from(u16::from_ne_bytes(pair))).sum()
}

/// The cursor of the decoders over a copy of the frame.
#[derive(Debug)]
pub struct FrameCursor {
    bytes: Vec<u8>,
    at: usize,
}

impl Cursor for FrameCursor {
    type Taken<const N: usize> = [u8; N];

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.bytes[self.at..].first_chunk::<N>()?;
        self.at += N;
        Some(bytes)
    }

    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }
}

impl HostPlatform<'_> {
    /// Shortens or extends the frame at its end.
    pub(super) fn resize(&mut self, length: u32) -> bool {
        let now = self.frame.bytes.len() as u32;
        let possible = length == now
            || length < now && length >= MIN_FRAME
            || length > now && length <= self.frame.limit;
        if possible {
            self.frame.bytes.resize(length as usize, 0);
        }
        possible
    }

    /// Copies `scratch.header[start..start + length]` to the beginning of the frame.
    fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool {
        if start > HEADER_BYTES as u32 - MAX_HEADERS || length == 0 || length > MAX_HEADERS {
            return false;
        }
        self.frame.store(0, &s.header[start as usize..(start + length) as usize])
    }

    /// Copies from node memory to the frame.
    fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool {
        let Self { card, frame } = self;
        copyable(length) && card.memory(memory_offset, length).is_some_and(|bytes| frame.store(offset, bytes))
    }

    /// Copies from the frame to a cell.
    fn fill_cell(&mut self, offset: u32, cell: CellId, length: u32) -> bool {
        if length == 0 {
            return true;
        }
        if !copyable(length) {
            return false;
        }
        let Some(bytes) = self.frame.piece(offset, length) else { return false };
        let to = self.card.cell_mut(cell);
        to.map(|to| to[..bytes.len()].copy_from_slice(bytes)).is_some()
    }
}

impl Host for HostPlatform<'_> {
    fn now(&mut self) -> Picoseconds {
        self.card.clock = self.card.readings.pop_front().unwrap_or(self.card.clock);
        self.card.clock
    }

    fn owns_ipv4(&mut self, mac: u64, address: u32) -> bool {
        self.card.config.mac_word == mac && self.card.config.ipv4 == address
    }

    fn owns_ipv6(&mut self, mac: u64, address: [u64; 2]) -> bool {
        self.card.config.mac_word == mac && self.card.config.ipv6 == address
    }

    fn count(&mut self, index: u32) {
        if let Some(counter) = self.card.counters.get_mut(index as usize) {
            *counter += 1;
        }
    }

    fn arrival(&mut self, now: Picoseconds) -> Picoseconds {
        self.frame.arrival.unwrap_or(now)
    }

    fn observe(&mut self, s: &mut Scratch, _slot: u32, events: bool) {
        let input = &mut s.step.input;
        input.cells_in_use = self.card.shard.cells_in_use();
        input.rx_buffer_level = self.card.rx_buffer_level.into();
        if events {
            input.event_queues.admission = self.card.admission;
            input.event_queues.occupancy = self.card.events.each_ref().map(|queue| queue.len() as u32);
        }
    }
}

impl Frames for HostPlatform<'_> {
    type Cursor = FrameCursor;

    fn build(&mut self, s: &mut Scratch) -> bool {
        datapath::build(self, s)
    }

    fn cursor(&mut self) -> FrameCursor {
        FrameCursor { bytes: self.frame.bytes.clone(), at: 0 }
    }

    fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]) {
        let length = self.frame.bytes.len().min(PREFIX_BYTES);
        to[..length].copy_from_slice(&self.frame.bytes[..length]);
    }

    fn sum_frame(&mut self, _: &mut Scratch, offset: u32, length: u32) -> Option<u32> {
        if !copyable(length) {
            return None;
        }
        self.frame.piece(offset, length).map(sum)
    }

    fn sum_packet(&mut self, s: &Scratch, headers: u32, length: u32) -> u64 {
        let mut total = 0;
        if headers <= MAX_SUMMED_HEADERS {
            total += u64::from(sum(&s.header[UDP_AT..UDP_AT + (headers & !3) as usize]));
        }
        if copyable(length) {
            let payload = self.card.memory(s.step.output.packet.ulp.memory_offset, length);
            total += payload.map_or(0, |bytes| u64::from(sum(bytes)));
        }
        total
    }

    fn put_frame(&mut self, s: &Scratch, start: u32, headers: u32, length: u32) -> bool {
        self.resize(headers.saturating_add(length))
            && self.store_header(s, start, headers)
            && (length == 0 || self.memory_to_frame(s.step.output.packet.ulp.memory_offset, headers, length))
    }
}

impl Memory for HostPlatform<'_> {
    fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool {
        if !copyable(length) {
            return false;
        }
        let Some(bytes) = self.frame.piece(offset, length) else { return false };
        self.card.memory(memory_offset, length).map(|to| to.copy_from_slice(bytes)).is_some()
    }

    fn store_value(&mut self, memory_offset: u64, value: u64) -> bool {
        self.card.memory(memory_offset, 8).map(|to| to.copy_from_slice(&value.to_ne_bytes())).is_some()
    }

    fn atomic(&mut self, kind: Atomic, memory_offset: u64, value: u64, compare: u64) -> u64 {
        let Some(word) = self.card.word(memory_offset) else { return 0 };
        let original = u64::from_ne_bytes(*word);
        let changed = match kind {
            Atomic::CompareSwap if original == compare => value,
            Atomic::CompareSwap => original,
            Atomic::FetchAdd => original.wrapping_add(value),
        };
        *word = changed.to_ne_bytes();
        original
    }

    fn region(&mut self, rkey: u32) -> Region {
        self.card.regions[rkey as usize & (REGIONS - 1)].within(self.card.memory.len() as u64)
    }
}

impl Cells for HostPlatform<'_> {
    fn frame_to_cell(&mut self, offset: u32, length: u32) -> CellId {
        let cell = self.card.shard.allocate_cell();
        if cell.is_none() || self.fill_cell(offset, cell, length) {
            return cell;
        }
        self.card.shard.free_cell(cell);
        CellId::NONE
    }

    fn free_cell(&mut self, cell: CellId) {
        self.card.shard.free_cell(cell);
    }

    fn cell_to_frame(&mut self, cell: CellId, length: u32) -> bool {
        if !self.resize(length.max(MIN_CELL_FRAME)) {
            return false;
        }
        if length == 0 {
            return true;
        }
        let Self { card, frame } = self;
        let from = card.cell(cell);
        copyable(length) && from.is_some_and(|from| frame.store(0, &from[..length as usize]))
    }
}

impl datapath::Connections for HostPlatform<'_> {
    type Locked = HostLocked;

    fn lock(&mut self, slot: u32) -> Option<HostLocked> {
        self.card.connections.lock(slot)
    }

    fn unlock(&mut self, connection: HostLocked) {
        self.card.connections.unlock(connection);
    }
}

impl CongestionQueues for HostPlatform<'_> {
    fn publish_event(&mut self, s: &mut Scratch) {
        let queue = usize::from(s.step.output.event.event_queue_select) % EVENT_QUEUES;
        s.step.output.event.generation = generation_of(self.card.published[queue]);
        self.card.published[queue] += 1;
        s.step.output.event.encode(&mut s.entry);
        self.card.events[queue].push_back(s.entry);
    }

    fn next_result(&mut self, s: &mut Scratch) -> bool {
        let Some(entry) = self.card.results.pop_front() else { return false };
        s.entry = entry;
        s.step.input.outcome.decode(&s.entry);
        true
    }

    fn record_delays(&mut self, s: &Scratch) {
        let delays = s.step.output.event.delays();
        let all = [delays.full, delays.fabric, delays.forward, delays.reverse];
        for (histogram, delay) in self.card.delays.iter_mut().zip(all) {
            histogram[bucket_of(delay)] += 1;
        }
    }
}

impl Services for HostPlatform<'_> {
    fn notify(&mut self, slot: u32) {
        if self.card.connections.takes_notice(slot as usize) {
            self.card.notices.push(slot);
        }
    }

    fn wake(&mut self, slot: u32, deadline: Option<Picoseconds>) {
        match deadline {
            Some(deadline) => self.card.shard.wake_by(slot, deadline),
            None => self.card.shard.wake(slot),
        }
    }

    fn expired(&mut self, now: Picoseconds) -> Option<u32> {
        self.card.shard.expired(now)
    }

    fn ready(&mut self) -> Option<u32> {
        self.card.shard.next_ready()
    }

    fn answer(&mut self, slot: u32) {
        if !self.card.connections.is_backlogged(slot as usize) {
            self.card.shard.answer(slot);
        }
    }

    fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        self.card.shard.file(slot, now, ticks);
    }
}

/// Returns a card's own addresses in the form in which the datapath compares them, with memory of the default size.
#[must_use]
pub fn node_config(mac: [u8; 6], ipv4: [u8; 4], ipv6: [u8; 16]) -> NodeConfig {
    NodeConfig {
        mac_word: mac_word(&mac),
        ipv6: transport_common::datapath::words(&ipv6),
        ipv4: u32::from_ne_bytes(ipv4),
        interface_index: 0,
        memory: DEFAULT_MEMORY,
    }
}
