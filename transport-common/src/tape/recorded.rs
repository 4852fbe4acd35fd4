//! A platform that records every question and every answer on a tape.

use super::{KEPT_HEADER, PREFIX_BYTES, Recorder, TAPE_WORDS, Tag, Tape, digest_of_state};
use crate::connection::{Parts, Whole};
use crate::datapath::{
    self, Cells, CongestionQueues, Connections, Frames, Host, Locked, Memory, Platform, Scratch, Services,
    Turn, Verdict,
};
use crate::memory::Region;
use crate::units::{Picoseconds, Ticks};

/// How a run ended, as the note [`Tag::End`] records it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome(pub u16);

impl Outcome {
    /// [`Verdict::Pass`](crate::datapath::Verdict::Pass).
    pub const PASS: Self = Self(0);
    /// [`Verdict::Drop`](crate::datapath::Verdict::Drop) and [`Turn::Drop`](crate::datapath::Turn::Drop).
    pub const DROP: Self = Self(1);
    /// The frame holds a packet for the wire.
    pub const TRANSMIT: Self = Self(2);
    /// [`Turn::Idle`](crate::datapath::Turn::Idle).
    pub const IDLE: Self = Self(3);
}

/// The end of a run of the datapath, which [`finish`] records.
pub trait Ending: Copy {
    /// Returns the [`Outcome`].
    fn outcome(self) -> Outcome;
}

impl Ending for Verdict {
    #[inline(always)]
    fn outcome(self) -> Outcome {
        match self {
            Self::Pass => Outcome::PASS,
            Self::Drop => Outcome::DROP,
            Self::Transmit => Outcome::TRANSMIT,
        }
    }
}

impl Ending for Turn {
    #[inline(always)]
    fn outcome(self) -> Outcome {
        match self {
            Self::Idle => Outcome::IDLE,
            Self::Transmit => Outcome::TRANSMIT,
            Self::Drop | Self::Redeliver => Outcome::DROP,
        }
    }
}

/// Records how the run ended. Returns the number of bytes of the tape to keep: 0 for a run that took no step of a
/// connection and dropped nothing, and [`usize::MAX`] for a run that did not fit.
#[inline(always)]
pub fn finish(tape: &Tape, ending: impl Ending) -> usize {
    tape.short(Tag::End, ending.outcome().0);
    let used = tape.used.get() as usize;
    if used > TAPE_WORDS {
        return usize::MAX;
    }
    let idle = tape.steps.get() == 0 && ending.outcome() != Outcome::DROP;
    if idle { 0 } else { Tape::HEAD_BYTES + 4 * used }
}

/// A [`Platform`] that records.
pub struct Recorded<'t, P> {
    platform: P,
    tape: &'t Tape,
}

impl<'t, P: Platform> Recorded<'t, P> {
    /// Records on `tape` what is asked of `platform`, after what the tape already holds. For a received frame,
    /// record its first bytes before anything else ([`Recorded::note_frame`]).
    #[inline(always)]
    pub const fn new(platform: P, tape: &'t Tape) -> Self {
        Self { platform, tape }
    }

    /// Records the first bytes of the frame, and `length`, the number of bytes that belong to it.
    #[inline(always)]
    pub fn note_frame(&mut self, length: u32) {
        self.tape.frame_length.set(length);
        // SAFETY: nothing else reads this run's tape.
        self.platform.peek(unsafe { &mut *self.tape.prefix.get() });
    }

    /// Returns the platform whose calls are recorded. What is asked of it directly is not recorded.
    #[inline(always)]
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    #[inline(always)]
    fn optional(&self, tag: Tag, slot: Option<u32>) {
        match slot {
            Some(slot) => self.tape.long(tag, 1, [slot]),
            None => self.tape.long(tag, 0, [0]),
        }
    }
}

const fn low(value: u64) -> u32 {
    value as u32
}

const fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

/// A connection whose queues record.
pub struct RecordedConnection<L: Locked> {
    connection: L,
    recorder: Recorder<L::Queues>,
}

impl<L: Locked> Locked for RecordedConnection<L> {
    type Queues = Recorder<L::Queues>;

    #[inline(always)]
    fn parts(&mut self) -> (Whole<'_>, &Self::Queues) {
        let (whole, queues) = self.connection.parts();
        self.recorder.reads(queues);
        (whole, &self.recorder)
    }
}

impl<P: Platform> Host for Recorded<'_, P> {
    #[inline(always)]
    fn now(&mut self) -> Picoseconds {
        let now = self.platform.now();
        self.tape.wide(Tag::Now, 0, now.0);
        now
    }

    #[inline(always)]
    fn owns_ipv4(&self, mac: u64, address: u32) -> bool {
        let owns = self.platform.owns_ipv4(mac, address);
        self.tape.short(Tag::Owns, owns.into());
        owns
    }

    #[inline(always)]
    fn owns_ipv6(&self, mac: u64, address: [u64; 2]) -> bool {
        let owns = self.platform.owns_ipv6(mac, address);
        self.tape.short(Tag::Owns, owns.into());
        owns
    }

    #[inline(always)]
    fn count(&mut self, index: u32) {
        self.platform.count(index);
        self.tape.short(Tag::Count, index as u16);
    }

    #[inline(always)]
    fn arrival(&mut self, now: Picoseconds) -> Picoseconds {
        let arrival = self.platform.arrival(now);
        self.tape.wide(Tag::Arrival, 0, arrival.0);
        arrival
    }

    #[inline(always)]
    fn rx_buffer_level(&self) -> u8 {
        let level = self.platform.rx_buffer_level();
        self.tape.short(Tag::RxBufferLevel, level.into());
        level
    }
}

impl<P: Platform> Frames for Recorded<'_, P> {
    type Cursor = P::Cursor;

    #[inline(never)]
    fn build(&mut self, s: &mut Scratch) -> bool {
        datapath::build(self, s)
    }

    #[inline(always)]
    fn cursor(&mut self) -> P::Cursor {
        self.platform.cursor()
    }

    #[inline(always)]
    fn frame_length(&self) -> u32 {
        self.platform.frame_length()
    }

    #[inline(always)]
    fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]) {
        self.platform.peek(to);
    }

    #[inline(never)] // The note needs space on the stack.
    fn resize(&mut self, length: u32) -> bool {
        let done = self.platform.resize(length);
        self.tape.long(Tag::Resize, done.into(), [length]);
        done
    }

    #[inline(never)] // The note needs space on the stack.
    fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool {
        let done = self.platform.store_header(s, start, length);
        self.tape.open(Tag::StoreHeader, done.into(), 2 + (KEPT_HEADER.end - KEPT_HEADER.start) / 4);
        self.tape.word(start);
        self.tape.word(length);
        let mut at = KEPT_HEADER.start;
        while at < KEPT_HEADER.end {
            let h = &s.header;
            self.tape.word(u32::from_ne_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]));
            at += 4;
        }
        done
    }

    #[inline(always)]
    fn sum_frame(&mut self, s: &mut Scratch, offset: u32, length: u32) -> Option<u32> {
        let sum = self.platform.sum_frame(s, offset, length);
        // In two branches: the BPF target may read the payload of an absent option, and the verifier rejects that.
        match sum {
            Some(sum) => self.tape.long(Tag::SumFrame, 1, [offset, length, sum]),
            None => self.tape.long(Tag::SumFrame, 0, [offset, length, 0]),
        }
        sum
    }

    #[inline(always)]
    fn sum_header(&mut self, s: &Scratch, start: u32, length: u32) -> u32 {
        let sum = self.platform.sum_header(s, start, length);
        self.tape.long(Tag::SumHeader, 0, [sum]);
        sum
    }
}

impl<P: Platform> Memory for Recorded<'_, P> {
    #[inline(always)]
    fn sum_memory(&mut self, memory_offset: u64, length: u32) -> u32 {
        let sum = self.platform.sum_memory(memory_offset, length);
        self.tape.long(Tag::SumMemory, 0, [low(memory_offset), high(memory_offset), length, sum]);
        sum
    }

    #[inline(always)]
    fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool {
        let done = self.platform.memory_to_frame(memory_offset, offset, length);
        let words = [low(memory_offset), high(memory_offset), offset, length];
        self.tape.long(Tag::MemoryToFrame, done.into(), words);
        done
    }

    #[inline(always)]
    fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool {
        let done = self.platform.frame_to_memory(offset, memory_offset, length);
        let words = [low(memory_offset), high(memory_offset), offset, length];
        self.tape.long(Tag::FrameToMemory, done.into(), words);
        done
    }

    #[inline(always)]
    fn store_value(&mut self, memory_offset: u64, value: u64) -> bool {
        let done = self.platform.store_value(memory_offset, value);
        let words = [low(memory_offset), high(memory_offset), low(value), high(value)];
        self.tape.long(Tag::StoreValue, done.into(), words);
        done
    }

    #[inline(never)] // The note needs space on the stack.
    fn compare_swap(&mut self, memory_offset: u64, compare: u64, swap: u64) -> u64 {
        let original = self.platform.compare_swap(memory_offset, compare, swap);
        let words = [
            low(memory_offset),
            high(memory_offset),
            low(compare),
            high(compare),
            low(swap),
            high(swap),
            low(original),
            high(original),
        ];
        self.tape.long(Tag::CompareSwap, 0, words);
        original
    }

    #[inline(never)] // The note needs space on the stack.
    fn fetch_add(&mut self, memory_offset: u64, add: u64) -> u64 {
        let original = self.platform.fetch_add(memory_offset, add);
        let words =
            [low(memory_offset), high(memory_offset), low(add), high(add), low(original), high(original)];
        self.tape.long(Tag::FetchAdd, 0, words);
        original
    }

    #[inline(always)]
    fn region(&mut self, key: u32) -> Region {
        let region = self.platform.region(key);
        let Region { offset, length, key: found, access, domain, reserved: _ } = region;
        let (offset, length) = ([low(offset), high(offset)], [low(length), high(length)]);
        let words = [key, offset[0], offset[1], length[0], length[1], found, access.bits(), domain.0];
        self.tape.long(Tag::Region, 0, words);
        region
    }
}

impl<P: Platform> Cells for Recorded<'_, P> {
    #[inline(always)]
    fn allocate_cell(&mut self) -> u32 {
        let cell = self.platform.allocate_cell();
        self.tape.short(Tag::AllocateCell, cell as u16);
        cell
    }

    #[inline(always)]
    fn free_cell(&mut self, cell: u32) {
        self.platform.free_cell(cell);
        self.tape.short(Tag::FreeCell, cell as u16);
    }

    #[inline(always)]
    fn frame_to_cell(&mut self, offset: u32, cell: u32, length: u32) -> bool {
        let done = self.platform.frame_to_cell(offset, cell, length);
        self.tape.long(Tag::FrameToCell, done.into(), [offset, cell, length]);
        done
    }

    #[inline(always)]
    fn cell_to_frame(&mut self, cell: u32, length: u32) -> bool {
        let done = self.platform.cell_to_frame(cell, length);
        self.tape.long(Tag::CellToFrame, done.into(), [cell, length]);
        self.note_frame(length);
        done
    }

    #[inline(always)]
    fn cells_in_use(&self) -> u32 {
        let cells = self.platform.cells_in_use();
        self.tape.long(Tag::CellsInUse, 0, [cells]);
        cells
    }
}

impl<P: Platform> Connections for Recorded<'_, P> {
    type Locked = RecordedConnection<P::Locked>;

    #[inline(always)]
    fn lock(&mut self, slot: u32) -> Option<Self::Locked> {
        let tape = self.tape;
        tape.long(Tag::Lock, 0, [slot]);
        tape.steps.set(tape.steps.get() + 1);
        let mut connection = self.platform.lock(slot)?;
        let (whole, queues) = connection.parts();
        let Parts { hot, steps, settings, .. } = whole.parts();
        let number = *steps + 1;
        *steps = number;
        tape.wide(Tag::Step, 0, number);
        tape.next_hop(hot.flow.endpoint.path.destination_mac);
        if settings.is_pending() {
            tape.settings(&settings.requested);
        }
        // SAFETY: it is not used before `parts` sets it again.
        let recorder = unsafe { Recorder::new(queues, tape) };
        Some(RecordedConnection { connection, recorder })
    }

    #[inline(always)]
    fn unlock(&mut self, mut connection: Self::Locked) {
        let (whole, _) = connection.connection.parts();
        let Parts { hot, cold, .. } = whole.parts();
        self.tape.wide(Tag::Context, 0, digest_of_state(hot, cold));
        self.platform.unlock(connection.connection);
    }
}

impl<P: Platform> CongestionQueues for Recorded<'_, P> {
    #[inline(never)] // The note needs space on the stack.
    fn event_queues(&mut self, s: &mut Scratch, slot: u32) {
        self.platform.event_queues(s, slot);
        self.tape.value(Tag::EventQueues, 0, &s.step.input.event_queues);
    }

    #[inline(always)]
    fn publish_event(&mut self, s: &mut Scratch) {
        self.platform.publish_event(s);
        self.tape.value(Tag::PublishEvent, 0, &s.entry);
    }

    #[inline(always)]
    fn next_result(&mut self, s: &mut Scratch) -> bool {
        let there = self.platform.next_result(s);
        if there {
            self.tape.value(Tag::NextResult, 1, &s.entry);
        } else {
            self.tape.short(Tag::NextResult, 0);
        }
        there
    }

    #[inline(always)]
    fn record_delays(&mut self, s: &Scratch) {
        self.platform.record_delays(s);
        self.tape.short(Tag::RecordDelays, 0);
    }
}

impl<P: Platform> Services for Recorded<'_, P> {
    #[inline(always)]
    fn wake(&mut self, slot: u32) {
        self.platform.wake(slot);
        self.tape.long(Tag::Wake, 0, [slot]);
    }

    #[inline(always)]
    fn wake_by(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        self.platform.wake_by(slot, now, ticks);
        self.tape.long(Tag::WakeBy, 0, [slot, ticks.0, low(now.0), high(now.0)]);
    }

    #[inline(always)]
    fn expired(&mut self, now: Picoseconds) -> Option<u32> {
        let slot = self.platform.expired(now);
        self.optional(Tag::Expired, slot);
        slot
    }

    #[inline(always)]
    fn ready(&mut self) -> Option<u32> {
        let slot = self.platform.ready();
        self.optional(Tag::Ready, slot);
        slot
    }

    #[inline(always)]
    fn answer(&mut self, slot: u32) {
        self.platform.answer(slot);
        self.tape.long(Tag::Answer, 0, [slot]);
    }

    #[inline(always)]
    fn is_backlogged(&self, slot: u32) -> bool {
        let is = self.platform.is_backlogged(slot);
        self.tape.long(Tag::IsBacklogged, is.into(), [slot]);
        is
    }

    #[inline(always)]
    fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        self.platform.file(slot, now, ticks);
        self.tape.long(Tag::File, 0, [slot, ticks.0, low(now.0), high(now.0)]);
    }
}
