//! Runs whose decisions are made before the card serves them.
//!
//! A recorded run has a fixed place in the order of its connection's steps. The recorder's CPU made that order,
//! and it processed one frame after the other. The replay makes the decisions in that order, and writes down the
//! requests to the blocks. Then the blocks serve these requests like those of any frame, with many runs of a
//! connection in progress.

use std::collections::VecDeque;

use corosensei::CoroutineResult;
use transport_common::units::Picoseconds;

use super::backend::Backend;
use super::course::{Course, Done, Spares, course};
use super::request::Request;
use super::task::Task;

/// The requests of a run to the blocks, in order, and its result.
pub struct Script<B> {
    requests: VecDeque<Request>,
    done: Done<B>,
}

impl<B> Script<B> {
    pub(super) fn into_parts(self) -> (VecDeque<Request>, Done<B>) {
        (self.requests, self.done)
    }

    /// Returns the platform on which the run was made.
    pub const fn backend(&self) -> &B {
        &self.done.backend
    }

    /// Returns the verdict, and true if a turn found no work.
    pub const fn ending(&self) -> (transport_common::datapath::Verdict, bool) {
        (self.done.verdict, self.done.idle)
    }
}

/// A run whose decisions are being made.
pub struct Making<B: Backend> {
    course: Course<B>,
    requests: VecDeque<Request>,
    /// The request for a connection's lock that the run waits for.
    waits: Option<Request>,
}

/// The progress of a run.
pub enum Written<B: Backend> {
    /// The run waits: its next step of a connection must come after earlier steps.
    Waits {
        /// The run.
        making: Making<B>,
        /// The connection's slot.
        slot: u32,
        /// Number of steps that the connection must have made before.
        after: u64,
    },
    /// The run is complete.
    Whole(Script<B>),
}

impl<B: Backend> Making<B> {
    /// Creates a run that has not started.
    pub fn new(task: Task, backend: B, spares: &mut Spares) -> Self {
        let course = course(task, backend, spares.stack(), spares.scratch());
        Self { course, requests: VecDeque::new(), waits: None }
    }

    /// Continues the run as far as possible. `steps` returns the number of steps that a connection has made, or
    /// `None` if it is unknown.
    pub fn go_on(mut self, steps: impl Fn(u32) -> Option<u64>, spares: &mut Spares) -> Written<B> {
        loop {
            if let Some(request) = self.waits {
                if let Request::Lock { slot, after: Some(after) } = request
                    && steps(slot).is_none_or(|made| made < after)
                {
                    return Written::Waits { making: self, slot, after };
                }
                self.waits = None;
            }
            match self.course.resume(Picoseconds(0)) {
                CoroutineResult::Yield(Request::Lock { slot, after }) => {
                    self.waits = Some(Request::Lock { slot, after });
                    self.requests.push_back(Request::Lock { slot, after: None });
                }
                CoroutineResult::Yield(request) => self.requests.push_back(request),
                CoroutineResult::Return(mut done) => {
                    spares.stacks.push(self.course.into_stack());
                    spares.scratches.extend(done.scratch.take());
                    return Written::Whole(Script { requests: self.requests, done });
                }
            }
        }
    }
}
