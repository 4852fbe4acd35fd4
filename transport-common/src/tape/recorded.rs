//! A platform that records every question and every answer on a tape.

use super::noted::write_struct;
use super::{KEPT_HEADER, Recorder, TAPE_WORDS, Tag, Tape, digest_of_state, record};
use crate::connection::{Parts, Whole};
use crate::datapath::{
    self, Cells, CongestionQueues, Connections, Frames, Host, Locked, Memory, Platform, Scratch, Services,
    Turn, Verdict,
};

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

/// Implements the traits of the list: each call is passed on, and its note is written.
macro_rules! recorded {
    ($(
        $(#[$about:meta])* trait $trait:ident { $(
            $(#[$doc:meta])* fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                $($tag:ident $label:literal $words:tt)?
            }
        )* }
    )*) => { $(
        impl<P: Platform> $trait for Recorded<'_, P> {
            not_in_the_list! { $trait }
            $(call! { fn $name(&mut self $(, $argument: $of)*) $(-> $answer)? { $($tag $words)? } })*
        }
    )* };
}

/// Implements one call. It is inline, unless its note needs space on the stack.
macro_rules! call {
    (fn atomic $($rest:tt)*) => { call! { #[inline(never)] atomic $($rest)* } };
    (fn $name:ident $($rest:tt)*) => { call! { #[inline(always)] $name $($rest)* } };
    (
        #[$inline:meta] $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
            $($tag:ident $words:tt)?
        }
    ) => {
        #[$inline]
        fn $name(&mut self $(, $argument: $of)*) $(-> $answer)? {
            pass_on! { self $name($($argument),*) $($tag $words)? }
        }
    };
}

/// Passes a call on, and writes its note.
macro_rules! pass_on {
    ($this:ident $name:ident($($argument:ident),*)) => { $this.platform.$name($($argument),*) };
    ($this:ident $name:ident($($argument:ident),*) $tag:ident { $words:literal }) => {
        by_hand::$name($this, $($argument),*)
    };
    ($this:ident $name:ident($($argument:ident),*) $tag:ident $words:tt) => {
        record!($this.tape, $tag $words, $this.platform.$name($($argument),*))
    };
}

/// What the traits have in addition to the calls of the list.
macro_rules! not_in_the_list {
    (Frames) => {
        type Cursor = P::Cursor;

        #[inline(never)]
        fn build(&mut self, s: &mut Scratch) -> bool {
            datapath::build(self, s)
        }
    };
    ($other:ident) => {};
}

crate::platform_calls! { recorded }

/// The calls whose notes are not made from the list.
mod by_hand {
    use super::{KEPT_HEADER, Platform, Recorded, Scratch, Tag, Tape};
    use crate::ids::CellId;
    use crate::tape::{Noted, Words};

    #[inline(never)] // The note needs space on the stack.
    pub(super) fn observe<P: Platform>(r: &mut Recorded<'_, P>, s: &mut Scratch, slot: u32, events: bool) {
        r.platform.observe(s, slot, events);
        let input = &s.step.input;
        let level = input.rx_buffer_level as u16;
        if events {
            r.tape.open(Tag::Observe, level, 1 + size_of_val(&input.event_queues) / 4);
            r.tape.word(input.cells_in_use);
            super::write_struct(&input.event_queues, r.tape);
        } else {
            r.tape.long(Tag::Observe, level, [input.cells_in_use]);
        }
    }

    #[inline(always)]
    pub(super) fn put_frame<P: Platform>(
        r: &mut Recorded<'_, P>,
        s: &Scratch,
        start: u32,
        headers: u32,
        length: u32,
    ) -> bool {
        let done = r.platform.put_frame(s, start, headers, length);
        note_put_frame(r.tape, s, start, headers, length << 1 | done as u32);
        done
    }

    /// Writes the note of [`put_frame`]. The last argument has the length of the payload, and in its lowest bit whether the
    /// frame was made: a function of the BPF target has five arguments.
    #[inline(never)] // The note needs space on the stack.
    fn note_put_frame(tape: &Tape, s: &Scratch, start: u32, headers: u32, outcome: u32) {
        const ARGUMENTS: usize = 5;
        let kept = KEPT_HEADER.end - KEPT_HEADER.start;
        tape.open(Tag::PutFrame, (outcome & 1) as u16, ARGUMENTS + kept / 4);
        tape.word(start);
        tape.word(headers);
        s.payload_place(outcome >> 1).write(tape);
        tape.word(outcome >> 1);
        let mut at = KEPT_HEADER.start;
        while at < KEPT_HEADER.end {
            let h = &s.header;
            tape.word(u32::from_ne_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]));
            at += 4;
        }
    }

    #[inline(always)]
    pub(super) fn cell_to_frame<P: Platform>(r: &mut Recorded<'_, P>, cell: CellId, length: u32) -> bool {
        let done = r.platform.cell_to_frame(cell, length);
        r.tape.long(Tag::CellToFrame, done.into(), [cell.0, length]);
        r.note_frame(length);
        done
    }

    #[inline(always)]
    pub(super) fn publish_event<P: Platform>(r: &mut Recorded<'_, P>, s: &mut Scratch) {
        r.platform.publish_event(s);
        r.tape.value(Tag::PublishEvent, 0, &s.entry);
    }

    #[inline(always)]
    pub(super) fn next_result<P: Platform>(r: &mut Recorded<'_, P>, s: &mut Scratch) -> bool {
        let there = r.platform.next_result(s);
        if there {
            r.tape.value(Tag::NextResult, 1, &s.entry);
        } else {
            r.tape.short(Tag::NextResult, 0);
        }
        there
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
