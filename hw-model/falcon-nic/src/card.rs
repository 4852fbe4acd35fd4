//! The platform of a run. For each call it requests the block that serves it, waits until the block has served it,
//! and then calls the backend.

use corosensei::Yielder;
use transport_common::connection::Whole;
use transport_common::datapath::{
    Cells, CongestionQueues, Connections, Frames, Host, Locked, Memory, Scratch, Services,
};
use transport_common::ids::CellId;
use transport_common::units::Picoseconds;
use transport_common::wire::cursor::Cursor as _;

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

/// Implements the traits of the list.
macro_rules! served {
    ($(
        $(#[$about:meta])* trait $trait:ident { $(
            $(#[$doc:meta])* fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                $($note:tt)*
            }
        )* }
    )*) => { $(
        impl<B: Backend> $trait for Card<'_, B> {
            associated! { $trait }
            $(fn $name(&mut self $(, $argument: $of)*) $(-> $answer)? {
                serve! { self $name($($argument),*) }
            })*
        }
    )* };
}

/// What the traits have in addition to the calls of the list.
macro_rules! associated {
    (Frames) => {
        type Cursor = B::Cursor;

        fn build(&mut self, s: &mut Scratch) -> bool {
            transport_common::datapath::build(self, s)
        }
    };
    ($other:ident) => {};
}

/// Which block serves a call, and how many bytes it handles. What is not named here is a register or a part of another
/// call, and takes no time.
macro_rules! serve {
    ($card:ident now()) => { $card.read_clock() };
    ($card:ident cursor()) => { $card.parse() };
    ($card:ident frame_to_cell($offset:ident, $length:ident)) => { $card.fill_cell($offset, $length) };

    ($card:ident put_frame($s:ident, $start:ident, $headers:ident, $length:ident)) => {{
        $card.build_frame($s, $headers, $length);
        $card.inner.put_frame($s, $start, $headers, $length)
    }};
    ($card:ident sum_packet($s:ident, $headers:ident, $length:ident)) => {{
        $card.sum($s, $headers, $length);
        $card.inner.sum_packet($s, $headers, $length)
    }};

    ($card:ident sum_frame($s:ident, $offset:ident, $length:ident)) => {
        serve! { $card SumFrame { bytes: $length } => sum_frame($s, $offset, $length) }
    };
    ($card:ident frame_to_memory($offset:ident, $at:ident, $length:ident)) => {
        serve! { $card WriteMemory { bytes: $length } => frame_to_memory($offset, $at, $length) }
    };
    ($card:ident cell_to_frame($cell:ident, $length:ident)) => {
        serve! { $card MoveCell { bytes: $length } => cell_to_frame($cell, $length) }
    };
    ($card:ident store_value($($call:tt)*)) => {
        serve! { $card WriteMemory { bytes: VALUE } => store_value($($call)*) }
    };
    ($card:ident atomic($($call:tt)*)) => { serve! { $card ReadMemory { bytes: VALUE } => atomic($($call)*) } };
    ($card:ident region($($call:tt)*)) => { serve! { $card Region => region($($call)*) } };
    ($card:ident free_cell($($call:tt)*)) => { serve! { $card CellList => free_cell($($call)*) } };
    ($card:ident publish_event($($call:tt)*)) => { serve! { $card RueQueues => publish_event($($call)*) } };
    ($card:ident next_result($($call:tt)*)) => { serve! { $card RueQueues => next_result($($call)*) } };
    ($card:ident wake($($call:tt)*)) => { serve! { $card Scheduler => wake($($call)*) } };
    // `ready` and `answer` are one operation of the scheduler: no other turn comes between them. So only `ready` takes time.
    ($card:ident ready($($call:tt)*)) => { serve! { $card Scheduler => ready($($call)*) } };
    ($card:ident expired($($call:tt)*)) => { serve! { $card TimingWheel => expired($($call)*) } };
    ($card:ident file($($call:tt)*)) => { serve! { $card TimingWheel => file($($call)*) } };

    ($card:ident $request:ident $({ $($field:tt)* })? => $($call:tt)*) => {{
        $card.ask(Request::$request $({ $($field)* })?);
        $card.inner.$($call)*
    }};
    ($card:ident $($call:tt)*) => { $card.inner.$($call)* };
}

transport_common::platform_calls! { served }

impl<B: Backend> Card<'_, B> {
    fn read_clock(&mut self) -> Picoseconds {
        let now = self.inner.now();
        self.readings.push(now);
        now
    }

    fn parse(&mut self) -> B::Cursor {
        let cursor = self.inner.cursor();
        let arriving = core::mem::take(&mut self.arriving);
        self.ask(Request::Parse { bytes: cursor.remaining() as u32, arriving });
        cursor
    }

    /// Waits for the sums of a packet. The builder keeps the payload that was read.
    fn sum(&mut self, s: &Scratch, headers: u32, length: u32) {
        self.ask(Request::SumHeader { bytes: headers });
        if length != 0 {
            self.ask(Request::SumMemory { bytes: length });
            self.fetched = Some((s.step.output.packet.ulp.memory_offset, length));
        }
    }

    /// Waits until a frame is built. Its payload is read, unless the builder has it.
    fn build_frame(&mut self, s: &Scratch, headers: u32, length: u32) {
        self.ask(Request::Build { bytes: headers });
        if length != 0 {
            if self.fetched.take() != Some((s.step.output.packet.ulp.memory_offset, length)) {
                self.ask(Request::ReadMemory { bytes: length });
            }
            self.ask(Request::Build { bytes: length });
        }
    }

    fn fill_cell(&mut self, offset: u32, length: u32) -> CellId {
        self.ask(Request::CellList);
        let cell = self.inner.frame_to_cell(offset, length);
        if !cell.is_none() {
            self.ask(Request::MoveCell { bytes: length });
        }
        cell
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
