//! A replay in cycles: the same decisions, made by the blocks of the card.

use std::collections::HashSet;
use std::io::Read;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use transport_common::datapath::{Turn, Verdict};
use transport_common::tape::{outcome, run};
use transport_common::units::Picoseconds;

use super::connections::Standing;
use super::{Chunk, Divergence, Ended, RecordedRun, Replayed, Shared, TraceReader};
use crate::clocked::Cycle;
use crate::falcon_nic::{
    Backend, Making, Offer, ParameterError, Parameters, Pipeline, Script, Source, Spares, Statistics, Task,
    Written, wire_bytes,
};

/// What a replay in cycles came to.
#[derive(Clone, Debug)]
pub struct Course {
    /// What the card counted.
    pub statistics: Statistics,
    /// Cycle in which the last event was offered.
    pub offered: Cycle,
    /// Connections that took part.
    pub connections: usize,
}

/// Runs that may be under way or waiting in the card at once; more are not read yet.
const AHEAD: usize = 1 << 14;

impl Backend for Replayed {
    /// The trace has its own readings of the clock.
    fn set_time(&mut self, _: Picoseconds) {}

    fn step_after(&self, slot: u32) -> Option<u64> {
        let (of, step) = self.waits_for()?;
        (of == slot).then(|| step.saturating_sub(1))
    }
}

/// Why a replay in cycles ended before its trace.
#[derive(Debug, thiserror::Error)]
pub enum CyclesError {
    /// The parameters describe no hardware.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The trace cannot be read, or something differs.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The card stands still although runs are under way: a fault of the model.
    #[error("the card stands still with {0} events under way")]
    Stalled(usize),
}

/// The runs of a trace in the card's blocks.
///
/// Decisions are made in the order of the trace. Then the events come in that order, as fast as the line in carries their
/// frames and the line out carries what they send: the trace says what happens, the rate how fast. Nothing is dropped; what the receive buffer would have to hold is told.
pub struct InCycles {
    pipeline: Pipeline<Replayed>,
    connections: Shared,
    spares: Spares,
    /// Runs that wait for their turn, by slot and steps before it, with the time of their arrival.
    waiting: FxHashMap<(u32, u64), (Making<Replayed>, Arrival)>,
    slots: HashSet<u32>,
    /// When the lines are free, picoseconds.
    line_in: u64,
    line_out: u64,
    /// When the last event was offered.
    latest: u64,
}

/// When an event comes, and as what.
#[derive(Clone, Copy)]
struct Arrival {
    task: Task,
    bytes: u32,
    at: Cycle,
}

impl InCycles {
    /// Replays the first `events` runs of a trace; `progress` is told how many have been read.
    ///
    /// # Errors
    /// [`CyclesError`].
    pub fn replay(
        reader: &mut TraceReader<impl Read>,
        parameters: &Parameters,
        events: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<Course, CyclesError> {
        let parameters = Parameters { receive_buffer: u64::MAX, ..parameters.clone() };
        let mut this = Self {
            pipeline: Pipeline::new(parameters)?,
            connections: Shared::default(),
            spares: Spares::default(),
            waiting: FxHashMap::default(),
            slots: HashSet::new(),
            line_in: 0,
            line_out: 0,
            latest: 0,
        };
        while reader.runs() < events {
            match reader.next_chunk().map_err(Ended::from)? {
                Chunk::Connection { slot, entry, settings } => {
                    this.connections.borrow_mut().told(slot, entry, settings);
                }
                Chunk::Run(run) => {
                    this.make(reader.runs() - 1, run)?;
                    this.run_down_to(AHEAD)?;
                    progress(reader.runs());
                }
                Chunk::Lost(_) => {
                    this.waiting.clear();
                    this.connections.borrow_mut().forget_all();
                }
                Chunk::End { .. } => break,
            }
            if let Some(divergence) = this.connections.borrow_mut().differing.take() {
                return Err(Ended::from(divergence).into());
            }
        }
        this.run_down_to(0)?;
        Ok(Course {
            statistics: this.pipeline.statistics(),
            offered: this.pipeline.cycle_of(Picoseconds(this.latest)),
            connections: this.slots.len(),
        })
    }

    fn make(&mut self, number: u64, recorded: RecordedRun) -> Result<(), CyclesError> {
        if let Some(slot) = recorded.slot {
            let standing = self.connections.borrow().standing(slot, &recorded.steps);
            if standing == Standing::Between {
                self.waiting.retain(|(of, _), _| *of != slot);
                self.connections.borrow_mut().forget(slot);
            }
            if standing != Standing::Ahead {
                return Ok(());
            }
            self.slots.insert(slot);
        }
        let arrival = self.arrival(&recorded);
        let backend = Replayed::new(number, Rc::new(recorded), Rc::clone(&self.connections));
        let making = Making::new(arrival.task, backend, &mut self.spares);
        self.go_on(making, arrival)
    }

    /// When a run comes to the card.
    fn arrival(&mut self, recorded: &RecordedRun) -> Arrival {
        let parameters = self.pipeline.parameters();
        let time = |bytes: u32| parameters.rate.time_of(wire_bytes(bytes).into()).0;
        let sent = recorded.sent_bytes();
        if sent.is_some() {
            self.latest = self.latest.max(self.line_out);
        }
        let (task, bytes, line) = if recorded.kind == run::RECEIVE {
            self.line_in = self.line_in.max(self.latest) + time(recorded.frame_length);
            (Task::Receive, recorded.frame_length, self.line_in)
        } else {
            (Task::Turn { look_at_wheel: recorded.looked_at_wheel }, 0, self.line_out)
        };
        self.latest = self.latest.max(line);
        if let Some(sent) = sent {
            self.line_out = self.line_out.max(self.latest) + time(sent);
        }
        Arrival { task, bytes, at: self.pipeline.cycle_of(Picoseconds(self.latest)) }
    }

    /// Makes a run, and then those whose turn has come.
    fn go_on(&mut self, making: Making<Replayed>, arrival: Arrival) -> Result<(), CyclesError> {
        let mut next = Some((making, arrival));
        while let Some((making, arrival)) = next {
            let connections = &self.connections;
            let steps = |slot| connections.borrow().steps_made(slot);
            let slot = match making.go_on(steps, &mut self.spares) {
                Written::Waits { making, slot, after } => {
                    self.waiting.insert((slot, after), (making, arrival));
                    Some(slot)
                }
                Written::Whole(script) => {
                    if let Some(divergence) = difference(&script, arrival.task) {
                        return Err(Ended::from(divergence).into());
                    }
                    let slot = script.backend().run().slot;
                    let Arrival { task, bytes, at } = arrival;
                    self.pipeline.offer(Offer { task, source: Source::Script(script), bytes }, at);
                    slot
                }
            };
            next = slot.and_then(|slot| {
                let made = self.connections.borrow().steps_made(slot)?;
                self.waiting.remove(&(slot, made))
            });
        }
        Ok(())
    }

    /// Lets the card work until at most `left` events are under way.
    fn run_down_to(&mut self, left: usize) -> Result<(), CyclesError> {
        while self.pipeline.unfinished() > left {
            if self.pipeline.next_event().is_none() {
                return Err(CyclesError::Stalled(self.pipeline.unfinished()));
            }
            self.pipeline.skip_idle(Cycle::NEVER);
            self.pipeline.step();
            while self.pipeline.take_finished().is_some() {}
        }
        Ok(())
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

impl RecordedRun {
    /// Bytes of the frame that it sent, if it sent one.
    fn sent_bytes(&self) -> Option<u32> {
        use transport_common::tape::Tag;
        let (mut length, mut transmits) = (self.frame_length, false);
        for note in self.notes().map_while(Result::ok) {
            match note.tag {
                Tag::Resize if note.short != 0 => length = note.words.first().copied().unwrap_or(0),
                Tag::End => transmits = note.short == outcome::TRANSMIT,
                _ => {}
            }
        }
        transmits.then_some(length)
    }
}
