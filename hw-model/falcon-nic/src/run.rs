//! A run in the pipelines, and its result.

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

/// The result of a run.
pub struct Finished<B> {
    /// The backend of its [`Offer`].
    pub backend: B,
    /// The kind of run.
    pub task: Task,
    /// The verdict. `None` if the frame was dropped because the receive buffer was full.
    pub verdict: Option<Verdict>,
    /// True for a turn that found no connection, or no work.
    pub idle: bool,
    /// The kind of event.
    pub event: Event,
    /// The combined work of its steps.
    pub work: StepWork,
    /// Number of connection steps.
    pub steps: u32,
    /// All readings of the clock, in order.
    pub readings: Vec<Picoseconds>,
    /// The cycle in which it was offered.
    pub offered: Cycle,
    /// The cycle in which it left the receive buffer.
    pub started: Cycle,
    /// The cycle in which its verdict was known.
    pub decided: Cycle,
    /// The cycle in which it was over. If it sends a frame, the last bit of the frame is on the line by then.
    pub finished: Cycle,
    /// Cycles for which it occupied each block.
    pub busy: [u32; Block::COUNT],
    /// Cycles for which it had a connection.
    pub held: u64,
}

/// The state of a run.
pub(super) enum At<B: Backend> {
    Running(Course<B>),
    /// The run was made before. The values are its remaining requests and its result.
    Scripted(VecDeque<Request>, Done<B>),
    /// The verdict is known. A frame to send is on its way out.
    Decided(Done<B>),
}

/// A run in the pipelines.
pub(super) struct Run<B: Backend> {
    /// The state. `None` only while the run is resumed.
    pub(super) at: Option<At<B>>,
    pub(super) task: Task,
    /// Bytes of the received frame.
    pub(super) bytes: u32,
    /// True until the run has its first step. Its queues are finite until then.
    pub(super) first_pass: bool,
    /// The current request to the blocks.
    pub(super) request: Option<Request>,
    /// The blocks that the run still has to visit for the request.
    pub(super) hops: VecDeque<Hop>,
    pub(super) offered: Cycle,
    pub(super) started: Cycle,
    pub(super) decided: Cycle,
    /// The cycle in which the run got its connection.
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

    /// Continues until the next request. Returns false if the run is over and has no block left to visit.
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
            Some(At::Decided(_)) | None => unreachable!("a decided run is not resumed"),
        };
        self.decided = cycle;
        let sends = done.verdict == Verdict::Transmit;
        self.request = sends.then_some(Request::Send { bytes: done.bytes });
        self.at = Some(At::Decided(done));
        sends
    }

    /// Returns the result, and the bytes of the frame.
    pub(super) fn finish(self, finished: Cycle, spares: &mut Spares) -> (Finished<B>, u32) {
        let Some(At::Decided(done)) = self.at else {
            unreachable!("a run is finished only after its verdict")
        };
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
