//! A run in the pipelines: where it is, and what came of it.

use std::collections::VecDeque;

use clocked::Cycle;
use corosensei::CoroutineResult;
use transport_common::datapath::Verdict;
use transport_common::units::Picoseconds;

use super::backend::Backend;
use super::block::{Block, Hop};
use super::course::{Course, Done, Spares, course};
use super::event::Event;
use super::offer::{Offer, Source};
use super::request::Request;
use super::task::Task;
use super::work::StepWork;

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
