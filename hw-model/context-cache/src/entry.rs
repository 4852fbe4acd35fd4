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
    /// Assigned to a connection. Its context is being read from memory, or will be read when the write of its
    /// eviction is complete.
    Allocated,
    /// Holds the context.
    Valid,
    /// The context is being written to memory.
    Evicting,
}

/// An event that can change the state of a cache entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A command of the ULP or the network.
    Command,
    /// The memory has read the context.
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

/// One line of the table [`ARCS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    /// State before.
    pub from: State,
    /// The event.
    pub event: Event,
    /// State after.
    pub to: State,
    /// What the cache does.
    pub action: &'static str,
}

const fn arc(from: State, event: Event, to: State, action: &'static str) -> Arc {
    Arc { from, event, to, action }
}

/// The whole state machine. Pairs of state and event that are not in the table do not happen. A connection has at
/// most one memory operation, so a read completes only in `Allocated`. An entry becomes `Invalid` only by a write
/// completion.
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
        arc(Allocated, ReadCompletion,  Valid,     "fill the entry, release the queue"),
        arc(Allocated, WriteCompletion, Allocated, "the cancelled eviction is written: read the context"),
        arc(Allocated, FlushThrough,    Allocated, "stall"),
        arc(Allocated, FlushInstall,    Allocated, "stall"),
        arc(Allocated, Result,          Allocated, "stall"),
        arc(Valid,     Command,         Valid,     "hit; a ULP command is queued if others of the connection are"),
        arc(Valid,     WriteCompletion, Valid,     "the write of a flush is complete"),
        arc(Valid,     Evict,           Evicting,  "write the context"),
        arc(Valid,     FlushThrough,    Valid,     "replace and write the context; stall while one is written"),
        arc(Valid,     FlushInstall,    Valid,     "replace the context"),
        arc(Valid,     Result,          Valid,     "merge the result into the context"),
        arc(Evicting,  Command,         Allocated, "queue the command; read the context once it is written"),
        arc(Evicting,  WriteCompletion, Invalid,   "free the entry"),
        arc(Evicting,  FlushThrough,    Evicting,  "stall"),
        arc(Evicting,  FlushInstall,    Evicting,  "stall"),
        arc(Evicting,  Result,          Evicting,  "stall"),
    ]
};

/// The next state from [`ARCS`], indexed by state and event.
const NEXT: [[Option<State>; Event::ALL.len()]; State::ALL.len()] = {
    let mut next = [[None; Event::ALL.len()]; State::ALL.len()];
    let mut line = 0;
    while line < ARCS.len() {
        let Arc { from, event, to, .. } = ARCS[line];
        assert!(next[from as usize][event as usize].is_none(), "ARCS has two lines for one state and event");
        next[from as usize][event as usize] = Some(to);
        line += 1;
    }
    next
};

impl State {
    /// Returns the state after an event, or `None` if the event does not happen in this state.
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
