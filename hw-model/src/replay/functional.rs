//! A replay without cycles: the decisions alone.

use std::io::Read;
use std::ptr::NonNull;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rustc_hash::FxHashMap;
use serde::Serialize;
use transport_common::datapath::{self, Scratch, Turn};
use transport_common::tape::run;

use super::connections::Standing;
use super::{Chunk, Difference, Divergence, ReadError, RecordedRun, Replayed, Shared, TraceReader};

/// Bytes of a run's stack. The datapath's own need is small, as it has to fit the BPF target's.
const STACK_BYTES: usize = 128 << 10;

/// What a replay came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Runs made again.
    pub events: u64,
    /// Steps of connections in them.
    pub steps: u64,
    /// Connections compared whole, context and tables.
    pub connections_compared: u64,
    /// Runs from before their connection was told, or that were cut by that.
    pub before: u64,
    /// Runs that could not be made again because others before them were lost.
    pub abandoned: u64,
    /// Runs that the trace says were lost.
    pub lost: u64,
}

/// A run on its way: it stops where it has to wait for its turn at the connection, and says for which slot and step.
type Course = Coroutine<(), (u32, u64), (Replayed, Option<Divergence>, Box<Scratch>)>;

/// Makes the runs of a trace again, in the order of their connections' steps.
#[derive(Default)]
pub struct Functional {
    connections: Shared,
    /// By connection slot and number of the step that they are to make next.
    waiting: FxHashMap<(u32, u64), Course>,
    stacks: Vec<DefaultStack>,
    scratches: Vec<Box<Scratch>>,
    summary: Summary,
}

/// Why a replay ended before its trace.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Something differs.
    #[error("{0}")]
    Diverged(#[from] Divergence),
}

impl Functional {
    /// Replays a whole trace. `progress` is told the runs made so far.
    ///
    /// # Errors
    /// [`Ended`]: the first difference, or why the trace cannot be read on.
    pub fn replay(
        reader: &mut TraceReader<impl Read>,
        mut progress: impl FnMut(u64),
    ) -> Result<Summary, Ended> {
        let mut this = Self::default();
        loop {
            match reader.next_chunk()? {
                Chunk::Connection { slot, entry, settings } => {
                    this.connections.borrow_mut().told(slot, entry, settings);
                }
                Chunk::Run(run) => {
                    this.make(reader.runs() - 1, run)?;
                    progress(reader.runs());
                }
                Chunk::Lost(lost) => this.lost(lost),
                Chunk::End { lost, .. } => {
                    this.summary.lost = lost;
                    return Ok(this.end()?);
                }
            }
            if let Some(divergence) = this.connections.borrow_mut().differing.take() {
                return Err(divergence.into());
            }
        }
    }

    /// Makes a run, now or when its turn has come, and those that waited for it.
    fn make(&mut self, number: u64, recorded: RecordedRun) -> Result<(), Divergence> {
        if let Some(slot) = recorded.slot {
            let standing = self.connections.borrow().standing(slot, &recorded.steps);
            if standing != Standing::Ahead {
                self.summary.before += 1;
                if standing == Standing::Between {
                    self.forget(slot);
                }
                return Ok(());
            }
        }
        let replayed = Replayed::new(number, Rc::new(recorded), Rc::clone(&self.connections));
        let stack = self.stacks.pop().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("the address space has room for a small stack")
        });
        // SAFETY: integers only; every field a step reads is written before by the same frame's processing.
        let scratch = self.scratches.pop().unwrap_or_else(|| unsafe { Box::new_zeroed().assume_init() });
        self.resume(course(replayed, stack, scratch))
    }

    /// Lets a run go on to its end or to a step that is not its turn yet; then those whose turn has come.
    fn resume(&mut self, course: Course) -> Result<(), Divergence> {
        let mut next = Some(course);
        while let Some(mut course) = next {
            let slot = match course.resume(()) {
                CoroutineResult::Yield((slot, step)) => {
                    self.waiting.insert((slot, step), course);
                    Some(slot)
                }
                CoroutineResult::Return((replayed, divergence, scratch)) => {
                    self.stacks.push(course.into_stack());
                    self.scratches.push(scratch);
                    if let Some(divergence) = divergence {
                        return Err(divergence);
                    }
                    let run = replayed.run();
                    self.summary.events += 1;
                    self.summary.steps += run.steps.len() as u64;
                    run.slot
                }
            };
            next = slot.and_then(|slot| {
                let made = self.connections.borrow().steps_made(slot)?;
                self.waiting.remove(&(slot, made + 1))
            });
        }
        Ok(())
    }

    /// Runs are missing from here on: what waits for them cannot be made, and the connections are told anew.
    fn lost(&mut self, lost: u64) {
        self.summary.lost = lost;
        self.abandon(|_| true);
        self.connections.borrow_mut().forget_all();
    }

    fn end(mut self) -> Result<Summary, Divergence> {
        self.summary.connections_compared = self.connections.borrow().checked;
        // The step before that of a run that waits is the one that is missing.
        let waiting = self.waiting.keys().min().map(|(slot, step)| {
            (*slot, self.connections.borrow().steps_made(*slot).map_or(*step, |made| made + 1))
        });
        if let Some((slot, step)) = waiting.or_else(|| self.connections.borrow().behind()) {
            return Err(Divergence {
                run: None,
                kind: "the end of the trace",
                slot: Some(slot),
                step: None,
                difference: Difference::Missing { step },
            });
        }
        Ok(self.summary)
    }

    /// Gives up the runs that wait for a step of such connections.
    fn abandon(&mut self, of: impl Fn(u32) -> bool) {
        let before = self.waiting.len();
        self.waiting.retain(|(slot, _), _| !of(*slot));
        self.summary.abandoned += (before - self.waiting.len()) as u64;
    }

    fn forget(&mut self, slot: u32) {
        self.connections.borrow_mut().forget(slot);
        self.abandon(|of| of == slot);
    }
}

/// A run from its begin.
fn course(replayed: Replayed, stack: DefaultStack, scratch: Box<Scratch>) -> Course {
    Coroutine::with_stack(stack, move |gate: &Yielder<(), (u32, u64)>, ()| {
        let (mut replayed, mut scratch) = (replayed, scratch);
        replayed.set_gate(Some(NonNull::from(gate)));
        let recorded = replayed.run();
        let divergence = if recorded.kind == run::RECEIVE {
            let verdict = datapath::receive(&mut replayed, &mut scratch);
            replayed.finish(verdict)
        } else {
            let mut turn = datapath::engine(&mut replayed, &mut scratch, recorded.looked_at_wheel);
            if turn == Turn::Redeliver {
                turn = datapath::redeliver(&mut replayed, &mut scratch);
            }
            replayed.finish(turn)
        };
        replayed.set_gate(None);
        (replayed, divergence, scratch)
    })
}
