//! The differences between a replay and its trace.

use std::fmt;

use transport_common::tape::Tag;

/// A difference between the replay and the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The replay made another call to the platform.
    Asked {
        /// The call in the replay.
        now: Tag,
        /// The call in the trace. `None` if the trace has no further calls.
        recorded: Option<Tag>,
    },
    /// The replay made the same call with other arguments.
    Arguments {
        /// The call.
        of: Tag,
        /// The arguments in the replay.
        now: Vec<u32>,
        /// The arguments in the trace.
        recorded: Vec<u32>,
    },
    /// The context after the step differs.
    Context,
    /// The header of the frame to send differs.
    Header {
        /// Offset of the first different byte in the frame.
        byte: usize,
        /// The byte in the replay.
        now: u8,
        /// The byte in the trace.
        recorded: u8,
    },
    /// The run ended with another outcome. The numbers are those of [`transport_common::tape::Outcome`].
    Ending {
        /// The outcome in the replay.
        now: u16,
        /// The outcome in the trace.
        recorded: u16,
    },
    /// The whole connection differs.
    Entry {
        /// Offset of the first different byte in the entry.
        byte: usize,
    },
    /// Runs wait for a step that the trace does not have.
    Missing {
        /// Number of the step.
        step: u64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked { now, recorded: Some(recorded) } => {
                write!(
                    f,
                    "the replay asks for \"{}\" where the trace has \"{}\"",
                    now.name(),
                    recorded.name()
                )
            }
            Self::Asked { now, recorded: None } => {
                write!(f, "the replay asks for \"{}\" where the trace has nothing more", now.name())
            }
            Self::Arguments { of, now, recorded } => {
                write!(f, "the replay has \"{}\" with {now:x?} where the trace has {recorded:x?}", of.name())
            }
            Self::Context => f.write_str("the context after the step differs"),
            Self::Header { byte, now, recorded } => {
                write!(
                    f,
                    "byte {byte} of the frame to send is {now:#04x} where the trace has {recorded:#04x}"
                )
            }
            Self::Ending { now, recorded } => {
                let name = |outcome: &u16| {
                    ["pass", "drop", "transmit", "idle"].get(usize::from(*outcome)).unwrap_or(&"unknown")
                };
                write!(f, "the replay ends with \"{}\" where the trace has \"{}\"", name(now), name(recorded))
            }
            Self::Entry { byte } => {
                write!(f, "the connection differs from the trace, from byte {byte} of its entry on")
            }
            Self::Missing { step } => write!(f, "step {step} of the connection is not in the trace"),
        }
    }
}

/// The first difference between a replay and its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Number of the run in the trace, from 0. `None` if the difference does not belong to a run.
    pub run: Option<u64>,
    /// The kind of run.
    pub kind: &'static str,
    /// The connection slot.
    pub slot: Option<u32>,
    /// Number of the step in or after which the difference is.
    pub step: Option<u64>,
    /// The difference.
    pub difference: Difference,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.run {
            Some(run) => write!(f, "event {run} ({})", self.kind)?,
            None => f.write_str(self.kind)?,
        }
        if let Some(slot) = self.slot {
            write!(f, ", connection slot {slot}")?;
        }
        if let Some(step) = self.step {
            write!(f, ", step {step}")?;
        }
        write!(f, ": {}", self.difference)
    }
}

impl std::error::Error for Divergence {}
