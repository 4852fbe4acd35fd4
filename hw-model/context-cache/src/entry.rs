//! The state machine of a cache entry (patent, figure 9).

use core::fmt;

use serde::{Deserialize, Serialize};

/// State of a cache entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Free.
    #[default]
    Invalid,
    /// Given to a connection whose context is read from memory, or will be when the write of its eviction is
    /// complete.
    Allocated,
    /// Holds the context.
    Valid,
    /// The context is written to memory.
    Evicting,
}

/// What happens to a cache entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A command of the ULP or the network.
    Command,
    /// The context read from memory is here.
    ReadCompletion,
    /// The memory has written the context.
    WriteCompletion,
    /// The cache policy has chosen this entry, and it is idle.
    Evict,
    /// Software writes a context, and it is written through to memory.
    FlushThrough,
    /// Software writes a context, and it is installed in the cache.
    FlushInstall,
    /// The rate update engine writes its result.
    Result,
}

impl State {
    /// All states, in the order of figure 9.
    pub const ALL: [Self; 4] = [Self::Invalid, Self::Allocated, Self::Valid, Self::Evicting];
}

impl Event {
    /// All events.
    pub const ALL: [Self; 7] = [
        Self::Command,
        Self::ReadCompletion,
        Self::WriteCompletion,
        Self::Evict,
        Self::FlushThrough,
        Self::FlushInstall,
        Self::Result,
    ];
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    /// State before.
    pub from: State,
    /// What happens.
    pub event: Event,
    /// State after.
    pub to: State,
    /// What is done.
    pub action: &'static str,
}

const fn arc(from: State, event: Event, to: State, action: &'static str) -> Arc {
    Arc { from, event, to, action }
}

/// The whole state machine. What is not in the table does not happen: a connection has one memory operation at
/// most, so a read completes in `Allocated` only, and an entry becomes `Invalid` by a write completion only.
#[rustfmt::skip]
pub const ARCS: [Arc; 21] = {
    use Event::{Command, Evict, FlushInstall, FlushThrough, ReadCompletion, Result, WriteCompletion};
    use State::{Allocated, Evicting, Invalid, Valid};
    [
        arc(Invalid,   Command,         Allocated, "take an entry, read the context, queue the command"),
        arc(Invalid,   FlushThrough,    Evicting,  "take an entry, write the context"),
        arc(Invalid,   FlushInstall,    Valid,     "take an entry, fill it"),
        arc(Invalid,   Result,          Evicting,  "take an entry, write the result into the context"),
        arc(Allocated, Command,         Allocated, "queue the command"),
        arc(Allocated, ReadCompletion,  Valid,     "fill the entry, let the queue go"),
        arc(Allocated, WriteCompletion, Allocated, "the eviction it came back from is written: read the context"),
        arc(Allocated, FlushThrough,    Allocated, "stall"),
        arc(Allocated, FlushInstall,    Allocated, "stall"),
        arc(Allocated, Result,          Allocated, "stall"),
        arc(Valid,     Command,         Valid,     "hit; queued only if of the ULP and others of the connection are"),
        arc(Valid,     WriteCompletion, Valid,     "a flush is written through"),
        arc(Valid,     Evict,           Evicting,  "write the context"),
        arc(Valid,     FlushThrough,    Valid,     "replace the context and write it; stall if one is being written"),
        arc(Valid,     FlushInstall,    Valid,     "replace the context"),
        arc(Valid,     Result,          Valid,     "merge the result into the context"),
        arc(Evicting,  Command,         Allocated, "queue the command; the context is read once it is written"),
        arc(Evicting,  WriteCompletion, Invalid,   "free the entry"),
        arc(Evicting,  FlushThrough,    Evicting,  "stall"),
        arc(Evicting,  FlushInstall,    Evicting,  "stall"),
        arc(Evicting,  Result,          Evicting,  "stall"),
    ]
};

/// [`ARCS`] by state and event.
const NEXT: [[Option<State>; Event::ALL.len()]; State::ALL.len()] = {
    let mut next = [[None; Event::ALL.len()]; State::ALL.len()];
    let mut line = 0;
    while line < ARCS.len() {
        let Arc { from, event, to, .. } = ARCS[line];
        assert!(next[from as usize][event as usize].is_none(), "one line for a state and an event");
        next[from as usize][event as usize] = Some(to);
        line += 1;
    }
    next
};

impl State {
    /// The state behind an event; `None` if the event does not happen in this state.
    #[must_use]
    pub const fn after(self, event: Event) -> Option<Self> {
        NEXT[self as usize][event as usize]
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Arc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} | {:?} | {:?} | {}", self.from, self.event, self.to, self.action)
    }
}
