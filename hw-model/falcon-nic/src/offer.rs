//! A frame for the card, and where what it does comes from.

use super::script::Script;
use super::task::Task;

/// A frame for the card.
pub struct Offer<B> {
    /// What it is for.
    pub task: Task,
    /// Where what it does comes from.
    pub source: Source<B>,
    /// Bytes of the frame as it came off the line, without preamble, check sequence and gap; 0 for a turn.
    pub bytes: u32,
}

/// Where what a run does comes from.
pub enum Source<B> {
    /// The datapath makes it at the cycles in which the blocks have served it, on this platform.
    Backend(B),
    /// It was made already; the blocks serve what it asked for.
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
