//! The decisions of a trace, made again in its order.

use std::io::Read;
use std::rc::Rc;

use falcon_nic::{Making, Script, Spares, Task, Written};
use rustc_hash::FxHashMap;
use serde::Serialize;
use transport_common::datapath::{Turn, Verdict};
use transport_common::tape::RunKind;

use super::connections::Standing;
use super::{Chunk, Difference, Divergence, ReadError, RecordedRun, Replayed, Shared, TraceReader};

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

/// Makes the runs of a trace again, in the order of their connections' steps, and compares them.
#[derive(Default)]
pub struct Decisions {
    connections: Shared,
    spares: Spares,
    /// Runs that wait for their turn, by slot and steps before it.
    waiting: FxHashMap<(u32, u64), (Making<Replayed>, Task)>,
    summary: Summary,
}

/// What is done with a run that was made.
type Made<'a> = &'a mut dyn FnMut(Task, Script<Replayed>);

impl Decisions {
    /// Replays a whole trace. `progress` is told the runs read so far.
    ///
    /// # Errors
    /// [`Ended`]: the first difference, or why the trace cannot be read on.
    pub fn replay(
        reader: &mut TraceReader<impl Read>,
        mut progress: impl FnMut(u64),
    ) -> Result<Summary, Ended> {
        let mut this = Self::default();
        while this.take(reader, &mut |_, _| {})? {
            progress(reader.runs());
        }
        Ok(this.end()?)
    }

    /// Takes the next piece of a trace and hands over the runs that could be made then; false at the end.
    pub(super) fn take(
        &mut self,
        reader: &mut TraceReader<impl Read>,
        made: Made<'_>,
    ) -> Result<bool, Ended> {
        match reader.next_chunk()? {
            Chunk::Connection { slot, entry, settings } => {
                self.connections.borrow_mut().told(slot, entry, settings);
            }
            Chunk::Run(run) => self.make(reader.runs() - 1, run, made)?,
            // What waits for a run that is missing cannot be made, and the connections are told anew.
            Chunk::Lost(_) => {
                self.abandon(|_| true);
                self.connections.borrow_mut().forget_all();
            }
            Chunk::End { lost, .. } => {
                self.summary.lost = lost;
                return Ok(false);
            }
        }
        match self.connections.borrow_mut().differing.take() {
            Some(divergence) => Err(divergence.into()),
            None => Ok(true),
        }
    }

    /// Makes a run, now or when its turn has come, and those that waited for it.
    fn make(&mut self, number: u64, recorded: RecordedRun, made: Made<'_>) -> Result<(), Divergence> {
        if let Some(slot) = recorded.slot {
            let standing = self.connections.borrow().standing(slot, &recorded.steps);
            if standing != Standing::Ahead {
                self.summary.before += 1;
                if standing == Standing::Between {
                    self.connections.borrow_mut().forget(slot);
                    self.abandon(|of| of == slot);
                }
                return Ok(());
            }
        }
        let task = match recorded.kind {
            RunKind::RECEIVE => Task::Receive,
            _ => Task::Turn { look_at_wheel: recorded.looked_at_wheel },
        };
        let backend = Replayed::new(number, Rc::new(recorded), Rc::clone(&self.connections));
        let mut next = Some((Making::new(task, backend, &mut self.spares), task));
        while let Some((making, task)) = next {
            let connections = &self.connections;
            let slot = match making.go_on(|slot| connections.borrow().steps_made(slot), &mut self.spares) {
                Written::Waits { making, slot, after } => {
                    self.waiting.insert((slot, after), (making, task));
                    Some(slot)
                }
                Written::Whole(script) => {
                    if let Some(divergence) = difference(&script, task) {
                        return Err(divergence);
                    }
                    let run = script.backend().run();
                    self.summary.events += 1;
                    self.summary.steps += run.steps.len() as u64;
                    made(task, script);
                    run.slot
                }
            };
            next = slot.and_then(|slot| {
                let steps = self.connections.borrow().steps_made(slot)?;
                self.waiting.remove(&(slot, steps))
            });
        }
        Ok(())
    }

    /// What it came to, if nothing is missing.
    fn end(mut self) -> Result<Summary, Divergence> {
        self.summary.connections_compared = self.connections.borrow().checked;
        // The step behind those that a connection has made is the one for which others wait.
        let waiting =
            self.waiting.keys().min().map(|(slot, after)| {
                (*slot, self.connections.borrow().steps_made(*slot).unwrap_or(*after) + 1)
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
}

/// What differs in a run that was made.
fn difference(script: &Script<Replayed>, task: Task) -> Option<Divergence> {
    let (verdict, idle) = script.ending();
    let backend = script.backend();
    match (task, verdict) {
        (Task::Receive, _) => backend.finish(verdict),
        (Task::Turn { .. }, _) if idle => backend.finish(Turn::Idle),
        (Task::Turn { .. }, Verdict::Transmit) => backend.finish(Turn::Transmit),
        (Task::Turn { .. }, _) => backend.finish(Turn::Drop),
    }
}
