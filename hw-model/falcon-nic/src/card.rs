//! The platform of a run. For each call it requests the block that serves it, waits until the block has served it,
//! and then calls the backend.

use corosensei::Yielder;
use transport_common::connection::Whole;
use transport_common::datapath::{
    self, Cells, CongestionQueues, Connections, Frames, Host, Locked, Memory, Scratch, Services,
};
use transport_common::queues::Region;
use transport_common::tape::PREFIX_BYTES;
use transport_common::units::{Picoseconds, Ticks};

use super::backend::Backend;
use super::request::Request;
use super::work::{Before, StepWork};

/// Bytes of a value that is stored, or changed by an atomic operation.
const VALUE: u32 = 8;

/// A backend behind the card's blocks.
pub(super) struct Card<'a, B> {
    inner: B,
    blocks: &'a Yielder<Picoseconds, Request>,
    /// True if the frame came off the line and has not passed security yet.
    arriving: bool,
    /// Payload that was read for the checksum and is in the builder: memory offset and bytes.
    fetched: Option<(u64, u32)>,
    /// The combined work of the run's steps.
    work: StepWork,
    steps: u32,
    readings: Vec<Picoseconds>,
}

impl<'a, B: Backend> Card<'a, B> {
    pub(super) fn new(inner: B, blocks: &'a Yielder<Picoseconds, Request>, arriving: bool) -> Self {
        let work = StepWork::default();
        Self { inner, blocks, arriving, fetched: None, work, steps: 0, readings: vec![] }
    }

    /// Returns the backend, the work of the steps, the number of steps, and the clock readings.
    pub(super) fn into_parts(self) -> (B, StepWork, u32, Vec<Picoseconds>) {
        (self.inner, self.work, self.steps, self.readings)
    }

    /// Ends a step. Other runs can have the connection when its context is written back.
    fn write_back(&mut self, slot: u32, work: StepWork) {
        self.work = self.work.and(work);
        self.steps += 1;
        self.ask(Request::WriteBack { slot, work });
    }

    /// Waits until the blocks have served the request. The run continues in that cycle.
    fn ask(&mut self, request: Request) {
        let now = self.blocks.suspend(request);
        self.inner.set_time(now);
    }
}

/// A connection that a run has, and its state before the step.
pub(super) struct Held<L> {
    inner: L,
    slot: u32,
    before: Before,
}

impl<L: Locked> Locked for Held<L> {
    type Queues = L::Queues;

    fn parts(&mut self) -> (Whole<'_>, &L::Queues) {
        self.inner.parts()
    }
}

impl<B: Backend> Host for Card<'_, B> {
    fn now(&mut self) -> Picoseconds {
        let now = self.inner.now();
        self.readings.push(now);
        now
    }

    fn owns_ipv4(&self, mac: u64, address: u32) -> bool {
        self.inner.owns_ipv4(mac, address)
    }

    fn owns_ipv6(&self, mac: u64, address: [u64; 2]) -> bool {
        self.inner.owns_ipv6(mac, address)
    }

    fn count(&mut self, index: u32) {
        self.inner.count(index);
    }

    fn arrival(&mut self, now: Picoseconds) -> Picoseconds {
        self.inner.arrival(now)
    }

    fn rx_buffer_level(&self) -> u8 {
        self.inner.rx_buffer_level()
    }
}

impl<B: Backend> Frames for Card<'_, B> {
    type Cursor = B::Cursor;

    fn build(&mut self, s: &mut Scratch) -> bool {
        datapath::build(self, s)
    }

    fn cursor(&mut self) -> B::Cursor {
        let arriving = core::mem::take(&mut self.arriving);
        self.ask(Request::Parse { bytes: self.inner.frame_length(), arriving });
        self.inner.cursor()
    }

    fn frame_length(&self) -> u32 {
        self.inner.frame_length()
    }

    fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]) {
        self.inner.peek(to);
    }

    fn resize(&mut self, length: u32) -> bool {
        self.inner.resize(length)
    }

    fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool {
        self.ask(Request::Build { bytes: length });
        self.inner.store_header(s, start, length)
    }

    fn sum_frame(&mut self, s: &mut Scratch, offset: u32, length: u32) -> Option<u32> {
        self.ask(Request::SumFrame { bytes: length });
        self.inner.sum_frame(s, offset, length)
    }

    fn sum_header(&mut self, s: &Scratch, start: u32, length: u32) -> u32 {
        self.ask(Request::SumHeader { bytes: length });
        self.inner.sum_header(s, start, length)
    }
}

impl<B: Backend> Memory for Card<'_, B> {
    fn sum_memory(&mut self, memory_offset: u64, length: u32) -> u32 {
        self.ask(Request::SumMemory { bytes: length });
        self.fetched = Some((memory_offset, length));
        self.inner.sum_memory(memory_offset, length)
    }

    fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool {
        if self.fetched.take() != Some((memory_offset, length)) {
            self.ask(Request::ReadMemory { bytes: length });
        }
        self.ask(Request::Build { bytes: length });
        self.inner.memory_to_frame(memory_offset, offset, length)
    }

    fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool {
        self.ask(Request::WriteMemory { bytes: length });
        self.inner.frame_to_memory(offset, memory_offset, length)
    }

    fn store_value(&mut self, memory_offset: u64, value: u64) -> bool {
        self.ask(Request::WriteMemory { bytes: VALUE });
        self.inner.store_value(memory_offset, value)
    }

    fn compare_swap(&mut self, memory_offset: u64, compare: u64, swap: u64) -> u64 {
        self.ask(Request::ReadMemory { bytes: VALUE });
        self.inner.compare_swap(memory_offset, compare, swap)
    }

    fn fetch_add(&mut self, memory_offset: u64, add: u64) -> u64 {
        self.ask(Request::ReadMemory { bytes: VALUE });
        self.inner.fetch_add(memory_offset, add)
    }

    fn region(&mut self, rkey: u32) -> Region {
        self.ask(Request::Region);
        self.inner.region(rkey)
    }
}

impl<B: Backend> Cells for Card<'_, B> {
    fn allocate_cell(&mut self) -> u32 {
        self.ask(Request::CellList);
        self.inner.allocate_cell()
    }

    fn free_cell(&mut self, cell: u32) {
        self.ask(Request::CellList);
        self.inner.free_cell(cell);
    }

    fn frame_to_cell(&mut self, offset: u32, cell: u32, length: u32) -> bool {
        self.ask(Request::MoveCell { bytes: length });
        self.inner.frame_to_cell(offset, cell, length)
    }

    fn cell_to_frame(&mut self, cell: u32, length: u32) -> bool {
        self.ask(Request::MoveCell { bytes: length });
        self.inner.cell_to_frame(cell, length)
    }

    fn cells_in_use(&self) -> u32 {
        self.inner.cells_in_use()
    }
}

impl<B: Backend> Connections for Card<'_, B> {
    type Locked = Held<B::Locked>;

    fn lock(&mut self, slot: u32) -> Option<Self::Locked> {
        self.ask(Request::Lock { slot, after: self.inner.step_after(slot) });
        let Some(mut inner) = self.inner.lock(slot) else {
            self.write_back(slot, StepWork::default());
            return None;
        };
        let before = Before::of(inner.parts().0.inspect());
        Some(Held { inner, slot, before })
    }

    fn unlock(&mut self, connection: Self::Locked) {
        let Held { mut inner, slot, before } = connection;
        let work = before.work(inner.parts().0.inspect());
        self.inner.unlock(inner);
        self.write_back(slot, work);
    }
}

impl<B: Backend> CongestionQueues for Card<'_, B> {
    fn event_queues(&mut self, s: &mut Scratch, slot: u32) {
        self.inner.event_queues(s, slot);
    }

    fn publish_event(&mut self, s: &mut Scratch) {
        self.ask(Request::RueQueues);
        self.inner.publish_event(s);
    }

    fn next_result(&mut self, s: &mut Scratch) -> bool {
        self.ask(Request::RueQueues);
        self.inner.next_result(s)
    }

    fn record_delays(&mut self, s: &Scratch) {
        self.inner.record_delays(s);
    }
}

impl<B: Backend> Services for Card<'_, B> {
    fn wake(&mut self, slot: u32) {
        self.ask(Request::Scheduler);
        self.inner.wake(slot);
    }

    fn wake_by(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        self.ask(Request::Scheduler);
        self.inner.wake_by(slot, now, ticks);
    }

    fn expired(&mut self, now: Picoseconds) -> Option<u32> {
        self.ask(Request::TimingWheel);
        self.inner.expired(now)
    }

    fn ready(&mut self) -> Option<u32> {
        self.ask(Request::Scheduler);
        self.inner.ready()
    }

    // `ready` and `answer` are one operation of the scheduler: no other turn comes between them. So only `ready`
    // takes time.
    fn answer(&mut self, slot: u32) {
        self.inner.answer(slot);
    }

    fn is_backlogged(&self, slot: u32) -> bool {
        self.inner.is_backlogged(slot)
    }

    fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        self.ask(Request::TimingWheel);
        self.inner.file(slot, now, ticks);
    }
}
