//! The CPUs of a host. Their runs of the datapath interleave wherever no connection's lock is held.
//!
//! A run is a coroutine. Before a call to the platform that it makes without a lock, it may stop, and whatever else
//! happens in the world can happen in between: a run on another CPU, a timeout, a close.
//!
//! A run has to leave a connection alone that was opened in the slot of the one that it began with. The only exception is
//! a held request: the engine looks it up again under the lock, whatever connection that is.

use std::ptr::NonNull;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use fabric_model::Time;
use host_nic::{FrameAtHand, HostNic, HostPlatform, Reach, Remote};
use rand::Rng;
use rand::rngs::StdRng;
use transport_common::connection::Snapshot;
use transport_common::datapath::{self, Scratch, Turn, Verdict};

use super::causes::Arrived;

/// Bytes of a run's stack. The datapath fits the 512 bytes of a BPF program; the platform on the host needs more.
const STACK_BYTES: usize = 128 << 10;
/// Largest number of calls that a run makes at once.
const MOST_CALLS: u32 = 12;

/// What a run gets when it goes on: the card, and how many calls it may make without a lock before it stops again. The
/// card is valid until then.
struct Go {
    card: NonNull<HostNic>,
    calls: u32,
}

/// The result of a run.
struct Done {
    verdict: Verdict,
    frame: Vec<u8>,
    scratch: Box<Scratch>,
}

/// When it stops, a run tells whether it has made a step of a connection.
type Course = Coroutine<Go, bool, Done>;

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Receive,
    Engine { look_at_wheel: bool },
}

/// A run that is not over.
pub(super) struct Run {
    course: Option<Course>,
    pub(super) task: Task,
    /// It has made a step of a connection, and still has its packet in hand.
    has_stepped: bool,
    /// The acknowledgement in its frame, until its step.
    pub(super) arrived: Option<Arrived>,
    /// When it goes on.
    pub(super) next: Time,
}

/// Memory of ended runs, for new ones.
#[derive(Default)]
pub(super) struct Spares {
    stacks: Vec<DefaultStack>,
    scratches: Vec<Box<Scratch>>,
}

/// The way of a run to its card.
struct Cpu<'y> {
    go: Go,
    frame: FrameAtHand,
    stops: &'y Yielder<Go, bool>,
    holds_lock: bool,
    /// The connection that its first step was of: its slot, and how often that had been opened.
    first: Option<(u32, u32)>,
    /// A connection of a later opening, as it was when the run took its lock.
    successor: Option<Box<Snapshot>>,
}

impl Reach for Cpu<'_> {
    fn reach<T>(&mut self, call: impl FnOnce(&mut HostPlatform<'_>) -> T) -> T {
        if !self.holds_lock {
            if self.go.calls == 0 {
                self.go = self.stops.suspend(self.first.is_some());
            }
            self.go.calls = self.go.calls.saturating_sub(1);
        }
        // SAFETY: whoever resumes the run gives it the card until it stops.
        call(&mut unsafe { self.go.card.as_mut() }.platform(&mut self.frame))
    }

    fn locked(&mut self, slot: u32, entry: &Snapshot) {
        self.holds_lock = true;
        let here = (slot, entry.connection.generation);
        let first = *self.first.get_or_insert(here);
        self.successor = (first != here).then(|| Box::new(*entry));
    }

    fn unlocks(&mut self, entry: &Snapshot) {
        let Some(before) = self.successor.take() else { return };
        assert!(
            *before == *entry,
            "a run changed a connection that was opened after its own had been closed"
        );
    }

    fn unlocked(&mut self) {
        self.holds_lock = false;
    }
}

impl Run {
    /// Creates a run that has not made a call yet.
    pub(super) fn new(task: Task, frame: FrameAtHand, next: Time, spares: &mut Spares) -> Self {
        let stack = spares.stacks.pop().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("the address space is large enough for a small stack")
        });
        let arrived = if task == Task::Receive { Arrived::of(&frame.bytes) } else { None };
        let mut scratch = spares.scratches.pop().unwrap_or_else(bytemuck::zeroed_box);
        scratch.poison();
        let course = Coroutine::with_stack(stack, move |stops: &Yielder<Go, bool>, go: Go| {
            let mut cpu = Remote(Cpu { go, frame, stops, holds_lock: false, first: None, successor: None });
            let verdict = match task {
                Task::Receive => datapath::receive(&mut cpu, &mut scratch),
                Task::Engine { look_at_wheel } => {
                    let mut turn = datapath::engine(&mut cpu, &mut scratch, look_at_wheel);
                    if turn == Turn::Redeliver {
                        cpu.0.first = None;
                        turn = datapath::redeliver(&mut cpu, &mut scratch);
                    }
                    if turn == Turn::Transmit { Verdict::Transmit } else { Verdict::Drop }
                }
            };
            Done { verdict, frame: cpu.0.frame.bytes, scratch }
        });
        Self { course: Some(course), task, has_stepped: false, arrived, next }
    }

    /// Whether it receives a frame, and has made its step and not yet sent its packet.
    pub(super) fn has_packet_in_hand(&self) -> bool {
        self.task == Task::Receive && self.has_stepped
    }

    /// Lets the run go on for some calls. Returns its verdict and its frame when it is over.
    pub(super) fn go_on(
        &mut self,
        card: &mut HostNic,
        rng: &mut StdRng,
        spares: &mut Spares,
    ) -> Option<(Verdict, Vec<u8>)> {
        let course = self.course.as_mut()?;
        let calls = rng.random_range(1..=MOST_CALLS);
        match course.resume(Go { card: NonNull::from(card), calls }) {
            CoroutineResult::Yield(has_stepped) => {
                self.has_stepped = has_stepped;
                None
            }
            CoroutineResult::Return(done) => {
                spares.stacks.extend(self.course.take().map(Coroutine::into_stack));
                spares.scratches.push(done.scratch);
                Some((done.verdict, done.frame))
            }
        }
    }
}

impl Drop for Run {
    /// A run that is never continued has nothing to clean up but memory, and it must not unwind while a failed check
    /// unwinds.
    fn drop(&mut self) {
        if let Some(mut course) = self.course.take() {
            // SAFETY: nothing refers to values on its stack. What they own on the heap is leaked.
            unsafe { course.force_reset() };
        }
    }
}
