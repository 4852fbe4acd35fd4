//! A run that is offered to the card.

use super::script::Script;
use super::task::Task;

/// A received frame or a turn that is offered to the card.
pub struct Offer<B> {
    /// The kind of run.
    pub task: Task,
    /// The source of its decisions.
    pub source: Source<B>,
    /// Bytes of the frame as it came off the line, without preamble, check sequence and gap. 0 for a turn.
    pub bytes: u32,
}

/// The source of a run's decisions.
pub enum Source<B> {
    /// The datapath makes the decisions on this platform, at the cycles in which the blocks have served the run.
    Backend(B),
    /// The decisions are made already. The blocks only serve the requests of the run.
    Script(Script<B>),
}

impl<B> Source<B> {
    pub(super) fn into_backend(self) -> B {
        match self {
            Self::Backend(backend) => backend,
            Self::Script(script) => script.into_parts().1.backend,
        }
    }
}
