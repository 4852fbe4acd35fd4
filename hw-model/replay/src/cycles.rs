//! A replay in cycles: the blocks of the card serve the same decisions.

use std::collections::HashSet;
use std::io::Read;

use clocked::Cycle;
use falcon_nic::{
    Backend, Offer, ParameterError, Parameters, Pipeline, Script, Source, Statistics, Task, wire_bytes,
};
use transport_common::tape::Outcome;
use transport_common::units::Picoseconds;

use super::{Decisions, Ended, RecordedRun, Replayed, TraceReader};

/// The result of a replay in cycles.
#[derive(Clone, Debug)]
pub struct Course {
    /// The statistics of the card.
    pub statistics: Statistics,
    /// The cycle in which the last event was offered.
    pub offered: Cycle,
    /// Number of connections with events.
    pub connections: usize,
}

/// Maximum number of runs that are in progress or wait in the card. The replay reads no further runs until then.
const AHEAD: usize = 1 << 14;

impl Backend for Replayed {
    /// Does nothing, because the trace has its own clock readings.
    fn set_time(&mut self, _: Picoseconds) {}

    fn step_after(&self, slot: u32) -> Option<u64> {
        let (of, step) = self.waits_for()?;
        (of == slot).then(|| step.saturating_sub(1))
    }
}

/// The reason why a replay in cycles ended before its trace.
#[derive(Debug, thiserror::Error)]
pub enum CyclesError {
    /// A parameter is out of range.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The trace cannot be read, or something differs.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The card makes no progress although runs are in progress. This is a fault of the model.
    #[error("the card makes no progress with {0} unfinished events: this is a fault of the model, report it")]
    Stalled(usize),
}

/// Serves the runs of a trace in the blocks of the card.
///
/// It makes the decisions in the order of the trace. Then it offers the events in that order, as fast as the
/// incoming line carries their frames and the outgoing line carries the frames that they send. So the trace
/// decides the events, and the rate decides their speed. No frame is dropped. The statistics report how much the
/// receive buffer would have to hold.
pub struct InCycles {
    pipeline: Pipeline<Replayed>,
    slots: HashSet<u32>,
    /// The times in picoseconds when the incoming and the outgoing line are free.
    line_in: u64,
    line_out: u64,
    /// The time in picoseconds when the last event was offered.
    latest: u64,
}

impl InCycles {
    /// Replays the first `events` runs of a trace. `progress` gets the number of runs read so far.
    ///
    /// # Errors
    /// Returns a [`CyclesError`] if the replay ends before its trace.
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

    /// Offers a run to the card at the time when the lines have carried its frames.
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

    /// Runs the card until at most `left` events are unfinished.
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
    /// Returns the bytes of the frame that the run sent, if it sent one.
    fn sent_bytes(&self) -> Option<u32> {
        use transport_common::tape::Tag;
        let (mut length, mut transmits) = (self.frame_length, false);
        for note in self.notes().map_while(Result::ok) {
            match note.tag {
                // The lengths of the headers and of the payload.
                Tag::PutFrame if note.short != 0 => {
                    let word = |n: usize| note.words.get(n).copied().unwrap_or(0);
                    length = word(1).saturating_add(word(4));
                }
                Tag::End => transmits = Outcome(note.short) == Outcome::TRANSMIT,
                _ => {}
            }
        }
        transmits.then_some(length)
    }
}
