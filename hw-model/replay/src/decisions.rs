//! Makes the decisions of a trace again, in its order.

use std::io::Read;
use std::rc::Rc;

use falcon_nic::{Making, Script, Spares, Task, Written};
use rustc_hash::FxHashMap;
use serde::Serialize;
use transport_common::datapath::{Turn, Verdict};
use transport_common::tape::RunKind;

use super::connections::Standing;
use super::{Chunk, Difference, Divergence, ReadError, RecordedRun, Replayed, Shared, TraceReader};

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of runs that were replayed.
    pub events: u64,
    /// Number of connection steps in these runs.
    pub steps: u64,
    /// Number of comparisons of a whole connection, with context and tables.
    pub connections_compared: u64,
    /// Number of runs with a step before the trace recorded their connection. They are not replayed.
    pub before: u64,
    /// Number of runs with a step after the end of the trace. They are not replayed.
    pub after: u64,
    /// Number of runs that could not be replayed because runs before them were lost.
    pub abandoned: u64,
    /// Number of runs that were lost according to the trace.
    pub lost: u64,
}

/// The reason why a replay ended before its trace.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Something differs.
    #[error("{0}")]
    Diverged(#[from] Divergence),
}

/// Replays the runs of a trace in the order of their connections' steps, and compares them.
#[derive(Default)]
pub struct Decisions {
    connections: Shared,
    spares: Spares,
    /// Runs that wait for earlier steps of their connection, by slot and the number of these steps.
    waiting: FxHashMap<(u32, u64), (Making<Replayed>, Task)>,
    summary: Summary,
}

/// A function that takes a replayed run.
type Made<'a> = &'a mut dyn FnMut(Task, Script<Replayed>);

impl Decisions {
    /// Replays a whole trace. `progress` gets the number of runs read so far.
    ///
    /// # Errors
    /// Returns [`Ended`] with the first difference, or with the reason why the trace cannot be read.
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

    /// Takes the next chunk of a trace, and passes the runs that can be replayed now to `made`. Returns false at
    /// the end.
    pub(super) fn take(
        &mut self,
        reader: &mut TraceReader<impl Read>,
        made: Made<'_>,
    ) -> Result<bool, Ended> {
        match reader.next_chunk()? {
            Chunk::Connection { slot, entry } => {
                self.connections.borrow_mut().told(slot, entry);
            }
            Chunk::Last(last) => self.connections.borrow_mut().end_with(last),
            Chunk::Run(run) => self.make(reader.runs() - 1, *run, made)?,
            // Runs that wait for a lost run cannot be replayed. The trace records the connections again.
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

    /// Replays a run and the runs that waited for it. If the run has to wait itself, it is stored.
    fn make(&mut self, number: u64, recorded: RecordedRun, made: Made<'_>) -> Result<(), Divergence> {
        if let Some(slot) = recorded.slot {
            if self.connections.borrow_mut().is_after_end(slot, &recorded.steps) {
                self.summary.after += 1;
                return Ok(());
            }
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

    /// Returns the summary, if nothing is missing.
    fn end(mut self) -> Result<Summary, Divergence> {
        self.summary.connections_compared = self.connections.borrow().checked;
        let before = self.waiting.len();
        self.waiting.retain(|(slot, after), _| !self.connections.borrow().has_ended(*slot, *after));
        self.summary.after += (before - self.waiting.len()) as u64;
        // The waiting runs wait for the next step of their connection.
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

    /// Drops the runs that wait for a step of the connections that `of` selects.
    fn abandon(&mut self, of: impl Fn(u32) -> bool) {
        let before = self.waiting.len();
        self.waiting.retain(|(slot, _), _| !of(*slot));
        self.summary.abandoned += (before - self.waiting.len()) as u64;
    }
}

/// Returns the difference in a replayed run, if there is one.
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
