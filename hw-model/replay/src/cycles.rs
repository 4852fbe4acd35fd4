//! A replay in cycles: the same decisions, made by the blocks of the card.

use std::collections::HashSet;
use std::io::Read;

use clocked::Cycle;
use falcon_nic::{
    Backend, Offer, ParameterError, Parameters, Pipeline, Script, Source, Statistics, Task, wire_bytes,
};
use transport_common::tape::Outcome;
use transport_common::units::Picoseconds;

use super::{Decisions, Ended, RecordedRun, Replayed, TraceReader};

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
    slots: HashSet<u32>,
    /// When the lines are free, picoseconds.
    line_in: u64,
    line_out: u64,
    /// When the last event was offered.
    latest: u64,
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
        let pipeline = Pipeline::new(parameters)?;
        let mut this = Self { pipeline, slots: HashSet::new(), line_in: 0, line_out: 0, latest: 0 };
        let mut decisions = Decisions::default();
        while reader.runs() < events
            && decisions.take(reader, &mut |task, script| this.offer(task, script))?
        {
            this.run_down_to(AHEAD)?;
            progress(reader.runs());
        }
        this.run_down_to(0)?;
        Ok(Course {
            statistics: this.pipeline.statistics(),
            offered: this.pipeline.cycle_of(Picoseconds(this.latest)),
            connections: this.slots.len(),
        })
    }

    /// Gives the card a run that was made, when the lines have carried its frames.
    fn offer(&mut self, task: Task, script: Script<Replayed>) {
        let recorded = script.backend().run();
        self.slots.extend(recorded.slot);
        let parameters = self.pipeline.parameters();
        let time = |bytes: u32| parameters.rate.time_of(wire_bytes(bytes).into()).0;
        let sent = recorded.sent_bytes();
        if sent.is_some() {
            self.latest = self.latest.max(self.line_out);
        }
        let (bytes, line) = if task == Task::Receive {
            self.line_in = self.line_in.max(self.latest) + time(recorded.frame_length);
            (recorded.frame_length, self.line_in)
        } else {
            (0, self.line_out)
        };
        self.latest = self.latest.max(line);
        if let Some(sent) = sent {
            self.line_out = self.line_out.max(self.latest) + time(sent);
        }
        let at = self.pipeline.cycle_of(Picoseconds(self.latest));
        self.pipeline.offer(Offer { task, source: Source::Script(script), bytes }, at);
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

impl RecordedRun {
    /// Bytes of the frame that it sent, if it sent one.
    fn sent_bytes(&self) -> Option<u32> {
        use transport_common::tape::Tag;
        let (mut length, mut transmits) = (self.frame_length, false);
        for note in self.notes().map_while(Result::ok) {
            match note.tag {
                Tag::Resize if note.short != 0 => length = note.words.first().copied().unwrap_or(0),
                Tag::End => transmits = Outcome(note.short) == Outcome::TRANSMIT,
                _ => {}
            }
        }
        transmits.then_some(length)
    }
}
