//! What a difference is said to be.

use std::fmt;

use transport_common::tape::Tag;

/// How what was done differs from what the trace has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Something else was asked for.
    Asked {
        /// Of the platform, now.
        now: Tag,
        /// In the trace; `None`: nothing any more.
        recorded: Option<Tag>,
    },
    /// The same was asked for with other arguments.
    Arguments {
        /// What.
        of: Tag,
        /// Now.
        now: Vec<u32>,
        /// In the trace.
        recorded: Vec<u32>,
    },
    /// The context is another after the step.
    Context,
    /// The header of the frame to send is another, from this byte on.
    Header {
        /// Offset in the frame.
        byte: usize,
        /// Now.
        now: u8,
        /// In the trace.
        recorded: u8,
    },
    /// The run ended otherwise: outcomes as [`transport_common::tape::outcome`] has them.
    Ending {
        /// Now.
        now: u16,
        /// In the trace.
        recorded: u16,
    },
    /// The whole connection is another, from this byte of the entry on.
    Entry {
        /// Offset in the entry.
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
                write!(f, "it asks for \"{}\" where the trace has \"{}\"", now.name(), recorded.name())
            }
            Self::Asked { now, recorded: None } => {
                write!(f, "it asks for \"{}\" where the trace has nothing more", now.name())
            }
            Self::Arguments { of, now, recorded } => {
                write!(f, "\"{}\" with {now:x?} where the trace has {recorded:x?}", of.name())
            }
            Self::Context => f.write_str("the context after the step is another"),
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
                write!(f, "it ends with \"{}\" where the trace has \"{}\"", name(now), name(recorded))
            }
            Self::Entry { byte } => {
                write!(f, "the connection is another than the trace tells, from byte {byte} of its entry on")
            }
            Self::Missing { step } => write!(f, "step {step} of the connection is not in the trace"),
        }
    }
}

/// The first difference between a replay and its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Number of the run in the trace, from 0; `None` if it is not a run's.
    pub run: Option<u64>,
    /// What kind of run it was.
    pub kind: &'static str,
    /// Connection slot.
    pub slot: Option<u32>,
    /// Number of the step it was in, or behind.
    pub step: Option<u64>,
    /// What differs.
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
