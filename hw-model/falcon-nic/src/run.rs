//! One frame's way through the datapath, as a coroutine that stops at every block.

use std::collections::VecDeque;

use clocked::Cycle;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use transport_common::datapath::{self, Scratch, Turn, Verdict};
use transport_common::units::Picoseconds;

use super::backend::Backend;
use super::block::{Block, Hop};
use super::card::Card;
use super::event::Event;
use super::pipeline::{Offer, Source};
use super::request::Request;
use super::work::StepWork;

/// Bytes of a run's stack. The datapath's own need is a few kilobytes, as it has to fit the BPF target's.
const STACK_BYTES: usize = 128 << 10;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It came off the line: `datapath::receive`.
    Receive,
    /// A turn of the engine: `datapath::engine`, and `datapath::redeliver` if that comes of it.
    Turn {
        /// Whether it looks at the timing wheel.
        look_at_wheel: bool,
    },
}

/// What came of a run.
pub struct Finished<B> {
    /// Of its [`Offer`].
    pub backend: B,
    /// What it was for.
    pub task: Task,
    /// What became of the frame; `None`: the receive buffer was full, and it did not run.
    pub verdict: Option<Verdict>,
    /// A turn that found nobody, or nothing to do.
    pub idle: bool,
    /// What it was, by the packet that came or left.
    pub event: Event,
    /// What its steps did together.
    pub work: StepWork,
    /// Steps of a connection it took.
    pub steps: u32,
    /// What the clock showed it, each time it looked.
    pub readings: Vec<Picoseconds>,
    /// When it was offered.
    pub offered: Cycle,
    /// When it left the receive buffer.
    pub started: Cycle,
    /// When its verdict was there.
    pub decided: Cycle,
    /// When it was over, the way out included. The last bit of a frame for the wire is on the line then.
    pub finished: Cycle,
    /// Cycles for which it kept each block from others.
    pub busy: [u32; Block::COUNT],
    /// Cycles for which it kept a connection from others.
    pub held: u64,
}

/// What a coroutine returns.
pub(super) struct Done<B> {
    pub(super) backend: B,
    pub(super) verdict: Verdict,
    pub(super) idle: bool,
    pub(super) event: Event,
    pub(super) work: StepWork,
    pub(super) steps: u32,
    pub(super) readings: Vec<Picoseconds>,
    /// Bytes of the frame.
    pub(super) bytes: u32,
    pub(super) scratch: Option<Box<Scratch>>,
}

pub(super) type Course<B> = Coroutine<Picoseconds, Request, Done<B>>;

/// What a run is at.
pub(super) enum At<B: Backend> {
    Running(Course<B>),
    /// It was made before: what it asks for, and what came of it.
    Scripted(VecDeque<Request>, Done<B>),
    /// The verdict is there; a frame for the wire is on its way out.
    Decided(Done<B>),
}

/// A run in the pipelines.
pub(super) struct Run<B: Backend> {
    /// `None` for the moment in which it is resumed.
    pub(super) at: Option<At<B>>,
    pub(super) task: Task,
    /// Bytes of the frame on its way in.
    pub(super) bytes: u32,
    /// It had no step yet: its queues are finite.
    pub(super) first_pass: bool,
    /// What the blocks are asked for.
    pub(super) request: Option<Request>,
    /// Blocks that are still to be visited for it.
    pub(super) hops: VecDeque<Hop>,
    pub(super) offered: Cycle,
    pub(super) started: Cycle,
    pub(super) decided: Cycle,
    /// Since when the connection is its own, while it is.
    pub(super) granted: Cycle,
    pub(super) held: u64,
    pub(super) busy: [u32; Block::COUNT],
}

/// Stacks and scratches that are used again.
#[derive(Default)]
pub struct Spares {
    pub(super) stacks: Vec<DefaultStack>,
    pub(super) scratches: Vec<Box<Scratch>>,
}

impl Spares {
    pub(super) fn stack(&mut self) -> DefaultStack {
        self.stacks.pop().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("the address space has room for a small stack")
        })
    }

    pub(super) fn scratch(&mut self) -> Box<Scratch> {
        // SAFETY: integers only; every field a step reads is written before by the same frame's processing.
        self.scratches.pop().unwrap_or_else(|| unsafe { Box::new_zeroed().assume_init() })
    }
}

fn finish<B: Backend>(
    card: Card<'_, B>,
    scratch: Box<Scratch>,
    task: Task,
    (verdict, idle): (Verdict, bool),
) -> Done<B> {
    let (backend, work, steps, readings) = card.into_parts();
    let event = Event::of(task, &scratch, &work, steps, verdict);
    let bytes = backend.frame_length();
    Done { backend, verdict, idle, event, work, steps, readings, bytes, scratch: Some(scratch) }
}

/// The datapath for one frame.
pub(super) fn course<B: Backend>(
    task: Task,
    backend: B,
    stack: DefaultStack,
    mut scratch: Box<Scratch>,
) -> Course<B> {
    Coroutine::with_stack(stack, move |blocks, now| {
        let mut backend = backend;
        backend.set_time(now);
        let mut card = Card::new(backend, blocks, task == Task::Receive);
        match task {
            Task::Receive => {
                let verdict = datapath::receive(&mut card, &mut scratch);
                finish(card, scratch, task, (verdict, false))
            }
            Task::Turn { look_at_wheel } => {
                let mut turn = datapath::engine(&mut card, &mut scratch, look_at_wheel);
                if turn == Turn::Redeliver {
                    turn = datapath::redeliver(&mut card, &mut scratch);
                }
                let verdict = if turn == Turn::Transmit { Verdict::Transmit } else { Verdict::Drop };
                finish(card, scratch, task, (verdict, turn == Turn::Idle))
            }
        }
    })
}

impl<B: Backend> Run<B> {
    pub(super) fn new(offer: Offer<B>, (offered, started): (Cycle, Cycle), spares: &mut Spares) -> Self {
        let Offer { task, source, bytes } = offer;
        let at = match source {
            Source::Backend(backend) => At::Running(course(task, backend, spares.stack(), spares.scratch())),
            Source::Script(script) => {
                let (requests, done) = script.into_parts();
                At::Scripted(requests, done)
            }
        };
        Self {
            at: Some(at),
            task,
            bytes,
            first_pass: true,
            request: None,
            hops: VecDeque::new(),
            offered,
            started,
            decided: started,
            granted: started,
            held: 0,
            busy: [0; Block::COUNT],
        }
    }

    /// Goes on until the next block is asked for. False when the run is over and no block is left to visit.
    pub(super) fn resume(&mut self, cycle: Cycle, now: Picoseconds, spares: &mut Spares) -> bool {
        let done = match self.at.take() {
            Some(At::Running(mut course)) => match course.resume(now) {
                CoroutineResult::Yield(request) => {
                    self.request = Some(request);
                    self.at = Some(At::Running(course));
                    return true;
                }
                CoroutineResult::Return(done) => {
                    spares.stacks.push(course.into_stack());
                    done
                }
            },
            Some(At::Scripted(mut requests, done)) => {
                if let Some(request) = requests.pop_front() {
                    self.request = Some(request);
                    self.at = Some(At::Scripted(requests, done));
                    return true;
                }
                done
            }
            Some(At::Decided(_)) | None => unreachable!("a decided run has nothing to go on with"),
        };
        self.decided = cycle;
        let sends = done.verdict == Verdict::Transmit;
        self.request = sends.then_some(Request::Send { bytes: done.bytes });
        self.at = Some(At::Decided(done));
        sends
    }

    /// What came of it, and the bytes of its frame.
    pub(super) fn finish(self, finished: Cycle, spares: &mut Spares) -> (Finished<B>, u32) {
        let Some(At::Decided(done)) = self.at else { unreachable!("it is over when its verdict is there") };
        spares.scratches.extend(done.scratch);
        let finished = Finished {
            backend: done.backend,
            task: self.task,
            verdict: Some(done.verdict),
            idle: done.idle,
            event: done.event,
            work: done.work,
            steps: done.steps,
            readings: done.readings,
            offered: self.offered,
            started: self.started,
            decided: self.decided,
            finished,
            busy: self.busy,
            held: self.held,
        };
        (finished, done.bytes)
    }
}
