//! Runs that are made before the card serves them.
//!
//! A recorded run has its place in the order of its connection's steps, and that order was the recorder's: one CPU that did
//! a frame after the other. The decisions are made in that order, and what they asked for is written down; the blocks then
//! serve it as they serve any frame, with many of a connection under way.

use std::collections::VecDeque;

use corosensei::CoroutineResult;
use transport_common::units::Picoseconds;

use super::backend::Backend;
use super::course::{Course, Done, Spares, course};
use super::request::Request;
use super::task::Task;

/// What a run asked the blocks for, in order, and what came of it.
pub struct Script<B> {
    requests: VecDeque<Request>,
    done: Done<B>,
}

impl<B> Script<B> {
    pub(super) fn into_parts(self) -> (VecDeque<Request>, Done<B>) {
        (self.requests, self.done)
    }

    /// The platform it was made on.
    pub const fn backend(&self) -> &B {
        &self.done.backend
    }

    /// How it ended: the verdict, and whether a turn found nothing to do.
    pub const fn ending(&self) -> (transport_common::datapath::Verdict, bool) {
        (self.done.verdict, self.done.idle)
    }
}

/// A run that is being made.
pub struct Making<B: Backend> {
    course: Course<B>,
    requests: VecDeque<Request>,
    /// It has asked for the lock of a connection and waits for its turn.
    waits: Option<Request>,
}

/// How far a run could be made.
pub enum Written<B: Backend> {
    /// Its next step of the connection of `slot` has its turn after so many.
    Waits {
        /// The run.
        making: Making<B>,
        /// The connection's slot.
        slot: u32,
        /// Steps.
        after: u64,
    },
    /// All of it.
    Whole(Script<B>),
}

impl<B: Backend> Making<B> {
    /// A run from its begin.
    pub fn new(task: Task, backend: B, spares: &mut Spares) -> Self {
        let course = course(task, backend, spares.stack(), spares.scratch());
        Self { course, requests: VecDeque::new(), waits: None }
    }

    /// Makes it as far as it goes. `steps` are those that a connection has made.
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
