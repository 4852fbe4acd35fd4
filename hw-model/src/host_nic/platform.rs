//! [`Platform`] over plain memory: what the maps and the XDP context are to the kernel's programs.

use std::collections::VecDeque;

use transport_common::congestion::admission::Admission;
use transport_common::congestion::entry::Entry as CongestionEntry;
use transport_common::congestion::histogram::{DelayHistogram, bucket_of};
use transport_common::congestion::queues::{EVENT_QUEUES, generation_of};
use transport_common::congestion::settings::Settings;
use transport_common::connection::Entry;
use transport_common::counters::Counter;
use transport_common::datapath::{HEADER_BYTES, NO_CELL, Platform, Scratch, mac_word};
use transport_common::ids::Rsn;
use transport_common::queues::{
    CELL_BYTES, CONNECTIONS, MEMORY_BYTES, MEMORY_GUARD, NodeConfig, QueuePair, REGIONS, Region,
};
use transport_common::tape::PREFIX_BYTES;
use transport_common::timing_wheel::{self, Polled, TimingWheel};
use transport_common::transaction::Initiator;
use transport_common::units::{Picoseconds, Ticks};
use transport_common::wire::cursor::Cursor;

use super::doorbells::Doorbells;

/// Longest piece of a packet that is copied or summed at once.
const MAX_COPY: u32 = 4096;
/// A frame cannot be cut below its Ethernet header.
const SHORTEST_FRAME: u32 = 14;
/// A held request needs a frame of at least this length to stand in again.
const SHORTEST_CELL_FRAME: u32 = 64;

/// The memory of one card, and the frame at hand.
///
/// Bounds, lengths, padding and the order of atomics are those of the XDP platform, bit by bit: the differential test
/// holds the two together.
pub struct HostPlatform {
    pub(super) clock: Picoseconds,
    /// What the next readings find; the clock shows the last one read.
    pub(super) readings: VecDeque<Picoseconds>,
    /// When the frame at hand came off the wire, if it waited since then.
    pub(super) arrival: Option<Picoseconds>,
    /// Occupancy level of the card's receive buffer.
    pub(super) rx_buffer_level: u8,
    pub(super) config: NodeConfig,
    pub(super) entries: Box<[Entry]>,
    pub(super) queue_pairs: Box<[QueuePair]>,
    pub(super) memory: Vec<u8>,
    pub(super) regions: [Region; REGIONS],
    pub(super) cells: Box<[[u8; CELL_BYTES]]>,
    /// Free cells, the next to be taken last.
    pub(super) free_cells: Vec<u32>,
    pub(super) wheel: Box<TimingWheel<CONNECTIONS>>,
    pub(super) doorbells: Doorbells,
    pub(super) counters: [u64; Counter::COUNT],
    /// Admission to the event queues; capacity 0 while no rate update engine is there.
    pub(super) admission: Admission,
    pub(super) events: [VecDeque<CongestionEntry>; EVENT_QUEUES],
    /// Events ever published, by queue.
    pub(super) published: [u64; EVENT_QUEUES],
    pub(super) results: VecDeque<CongestionEntry>,
    pub(super) delays: DelayHistogram,
    pub(super) frame: Vec<u8>,
    /// Longest the frame at hand can grow to, bytes.
    pub(super) frame_limit: u32,
}

impl HostPlatform {
    /// `length` bytes of the node's memory, if they start where the longest copy would still be in bounds.
    fn memory(&mut self, offset: u64, length: u32) -> Option<&mut [u8]> {
        if offset > (MEMORY_BYTES - MEMORY_GUARD) as u64 || length > MAX_COPY {
            return None;
        }
        self.memory.get_mut(offset as usize..offset as usize + length as usize)
    }

    fn piece(&self, offset: u32, length: u32) -> Option<&[u8]> {
        self.frame.get(offset as usize..offset as usize + length as usize)
    }

    fn store(&mut self, offset: u32, length: u32, from: impl FnOnce(&mut Self) -> Option<Vec<u8>>) -> bool {
        if self.piece(offset, length).is_none() {
            return false;
        }
        let Some(bytes) = from(self) else { return false };
        self.frame[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
        true
    }

    /// 8 aligned bytes of the node's memory.
    fn word(&mut self, offset: u64) -> Option<&mut [u8; 8]> {
        self.memory(offset & !7, 8)?.try_into().ok()
    }
}

const fn copyable(length: u32) -> bool {
    length != 0 && length <= MAX_COPY
}

/// Sum of 16-bit words in memory order, an odd last byte padded with zero.
fn sum(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks(2).map(|pair| [pair[0], pair.get(1).copied().unwrap_or(0)]);
    pairs.map(|pair| u32::from(u16::from_ne_bytes(pair))).sum()
}

/// The decoders' cursor, over a copy of the frame.
#[derive(Debug)]
pub struct FrameCursor {
    bytes: Vec<u8>,
    at: usize,
}

impl Cursor for FrameCursor {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.bytes[self.at..].first_chunk::<N>()?;
        self.at += N;
        Some(bytes)
    }

    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }
}

impl Platform for HostPlatform {
    type Cursor = FrameCursor;
    type Queues = QueuePair;

    fn now(&mut self) -> Picoseconds {
        self.clock = self.readings.pop_front().unwrap_or(self.clock);
        self.clock
    }

    fn owns_ipv4(&self, mac: u64, address: u32) -> bool {
        self.config.mac_word == mac && self.config.ipv4 == address
    }

    fn owns_ipv6(&self, mac: u64, address: [u64; 2]) -> bool {
        self.config.mac_word == mac && self.config.ipv6 == address
    }

    fn count(&mut self, index: u32) {
        if let Some(counter) = self.counters.get_mut(index as usize) {
            *counter += 1;
        }
    }

    fn cursor(&mut self) -> FrameCursor {
        FrameCursor { bytes: self.frame.clone(), at: 0 }
    }

    fn frame_length(&self) -> u32 {
        self.frame.len() as u32
    }

    fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]) {
        let length = self.frame.len().min(PREFIX_BYTES);
        to[..length].copy_from_slice(&self.frame[..length]);
    }

    fn resize(&mut self, length: u32) -> bool {
        let now = self.frame_length();
        let possible = length == now
            || length < now && length >= SHORTEST_FRAME
            || length > now && length <= self.frame_limit;
        if possible {
            self.frame.resize(length as usize, 0);
        }
        possible
    }

    fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool {
        const ROOM: u32 = 128;
        if start > HEADER_BYTES as u32 - ROOM - 64 || length == 0 || length > ROOM + 64 {
            return false;
        }
        self.store(0, length, |_| Some(s.header[start as usize..(start + length) as usize].to_vec()))
    }

    fn sum_frame(&mut self, _: &mut Scratch, offset: u32, length: u32) -> Option<u32> {
        if !copyable(length) {
            return None;
        }
        self.piece(offset, length).map(sum)
    }

    fn sum_header(&mut self, s: &Scratch, start: u32, length: u32) -> u32 {
        if start > 72 || length > 180 {
            return 0;
        }
        sum(&s.header[start as usize..(start + (length & !3)) as usize])
    }

    fn sum_memory(&mut self, memory_offset: u64, length: u32) -> u32 {
        if !copyable(length) {
            return 0;
        }
        self.memory(memory_offset, length).map_or(0, |bytes| sum(bytes))
    }

    fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool {
        copyable(length)
            && self.store(offset, length, |nic| nic.memory(memory_offset, length).map(|bytes| bytes.to_vec()))
    }

    fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool {
        if !copyable(length) {
            return false;
        }
        let Some(bytes) = self.piece(offset, length).map(<[u8]>::to_vec) else { return false };
        self.memory(memory_offset, length).map(|to| to.copy_from_slice(&bytes)).is_some()
    }

    fn store_value(&mut self, memory_offset: u64, value: u64) -> bool {
        self.memory(memory_offset, 8).map(|to| to.copy_from_slice(&value.to_ne_bytes())).is_some()
    }

    fn compare_swap(&mut self, memory_offset: u64, compare: u64, swap: u64) -> u64 {
        let Some(word) = self.word(memory_offset) else { return 0 };
        let original = u64::from_ne_bytes(*word);
        if original == compare {
            *word = swap.to_ne_bytes();
        }
        original
    }

    fn fetch_add(&mut self, memory_offset: u64, add: u64) -> u64 {
        let Some(word) = self.word(memory_offset) else { return 0 };
        let original = u64::from_ne_bytes(*word);
        *word = original.wrapping_add(add).to_ne_bytes();
        original
    }

    fn allocate_cell(&mut self) -> u32 {
        self.free_cells.pop().unwrap_or(NO_CELL)
    }

    fn free_cell(&mut self, cell: u32) {
        if self.free_cells.len() < self.cells.len() {
            self.free_cells.push(cell);
        }
    }

    fn frame_to_cell(&mut self, offset: u32, cell: u32, length: u32) -> bool {
        if length == 0 {
            return true;
        }
        if !copyable(length) {
            return false;
        }
        let Some(bytes) = self.piece(offset, length).map(<[u8]>::to_vec) else { return false };
        let to = self.cells.get_mut(cell as usize);
        to.map(|to| to[..bytes.len()].copy_from_slice(&bytes)).is_some()
    }

    fn cell_to_frame(&mut self, cell: u32, length: u32) -> bool {
        if !self.resize(length.max(SHORTEST_CELL_FRAME)) {
            return false;
        }
        if length == 0 {
            return true;
        }
        copyable(length)
            && self.store(0, length, |nic| {
                nic.cells.get(cell as usize).map(|from| from[..length as usize].to_vec())
            })
    }

    fn region(&mut self, rkey: u32) -> Region {
        self.regions[rkey as usize & (REGIONS - 1)]
    }

    fn locked<R>(&mut self, slot: u32, step: impl FnOnce(&mut Entry, &QueuePair) -> R) -> Option<R> {
        let entry = self.entries.get_mut(slot as usize)?;
        Some(step(entry, &self.queue_pairs[slot as usize]))
    }

    fn wake(&mut self, slot: u32) {
        self.doorbells.ring(slot);
    }

    fn expired(&mut self, now: Picoseconds) -> Option<u32> {
        match self.wheel.poll(timing_wheel::now_tick(now.0 / 1000)) {
            Polled::Expired(slot) => Some(slot),
            Polled::Idle | Polled::Busy => None,
        }
    }

    fn cells_in_use(&self) -> u32 {
        (self.cells.len() - self.free_cells.len()) as u32
    }

    fn arrival(&mut self, now: Picoseconds) -> Picoseconds {
        self.arrival.unwrap_or(now)
    }

    fn rx_buffer_level(&self) -> u8 {
        self.rx_buffer_level
    }

    fn event_queues(&mut self, s: &mut Scratch) {
        s.event_queues.admission = self.admission;
        s.event_queues.occupancy = self.events.each_ref().map(|queue| queue.len() as u32);
    }

    fn publish_event(&mut self, s: &mut Scratch) {
        let queue = usize::from(s.event.event_queue_select) % EVENT_QUEUES;
        s.event.generation = generation_of(self.published[queue]);
        self.published[queue] += 1;
        s.event.encode(&mut s.entry);
        self.events[queue].push_back(s.entry);
    }

    fn next_result(&mut self, s: &mut Scratch) -> bool {
        let Some(entry) = self.results.pop_front() else { return false };
        s.entry = entry;
        s.outcome.decode(&s.entry);
        true
    }

    fn record_delays(&mut self, s: &Scratch) {
        let delays = s.event.delays();
        let all = [delays.full, delays.fabric, delays.forward, delays.reverse];
        for (histogram, delay) in self.delays.iter_mut().zip(all) {
            histogram[bucket_of(delay.0)] += 1;
        }
    }

    fn wake_by(&mut self, slot: u32, _now: Picoseconds, _ticks: u32) {
        self.doorbells.ring(slot);
    }

    fn ready(&mut self) -> Option<u32> {
        self.doorbells.next_ready()
    }

    fn answer(&mut self, slot: u32) {
        self.doorbells.answer(slot);
    }

    fn is_backlogged(&self, slot: u32) -> bool {
        let initiator = &self.entries[slot as usize].connection.initiator;
        let submitted = || self.queue_pairs[slot as usize].look(initiator.next);
        Initiator::is_backlogged(initiator.next.0, initiator.known.0, initiator.fruitless, submitted)
    }

    fn file(&mut self, slot: u32, now: Picoseconds, ticks: u32) {
        let deadline = now.0 / 1000 + Ticks(ticks).as_nanos();
        self.wheel.schedule(slot, timing_wheel::deadline_tick(deadline));
    }
}

/// Own addresses as the datapath compares them.
#[must_use]
pub fn node_config(mac: [u8; 6], ipv4: [u8; 4], ipv6: [u8; 16]) -> NodeConfig {
    NodeConfig {
        mac_word: mac_word(&mac),
        ipv6: transport_common::datapath::words(&ipv6),
        ipv4: u32::from_ne_bytes(ipv4),
        interface_index: 0,
    }
}

impl HostPlatform {
    /// The queues' counters for a connection whose first RSN is `first`; nothing of a former one remains.
    pub(super) fn reset_queues(&self, slot: usize, first: u32, settings: Settings, state: u32) {
        let queues = &self.queue_pairs[slot];
        queues.start_settings(settings);
        queues.start(Rsn(first), state);
    }
}
