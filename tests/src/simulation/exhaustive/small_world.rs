//! What a walk walks, and what it saw.

use std::fmt;

use transport_common::ulp::block::BLOCK_BYTES;
use transport_common::units::Picoseconds;

/// An operation of a small world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallOp {
    /// WRITE.
    Write,
    /// READ.
    Read,
    /// Fetch-add.
    FetchAdd,
    /// SEND, for which the target has to post a receive.
    Send,
}

/// A small world, and how often the network and the timers may interfere.
#[derive(Clone, Debug)]
pub struct SmallWorld {
    /// A name for people: what is in it.
    pub name: String,
    /// Whether the ULP is the block protocol.
    pub blocks: bool,
    /// Whether the targets of the block protocol are busy at first. A SEND finds no receive at first in any case.
    pub busy: bool,
    /// Whether the connection is ordered.
    pub ordered: bool,
    /// Operations of both hosts.
    pub operations: [&'static [SmallOp]; 2],
    /// Size of the request and data windows, packets.
    pub window: u32,
    /// Frames that may be lost.
    pub losses: u8,
    /// Frames of which a copy may arrive.
    pub duplicates: u8,
    /// Timers that may run although there is other work.
    pub timeouts: u8,
    /// Whether an end may close the connection.
    pub close: bool,
}

/// What a walk saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Walk {
    /// Different states.
    pub states: u64,
    /// Steps from one state to another.
    pub steps: u64,
    /// States in which everything has ended.
    pub ends: u64,
    /// Steps of the longest path.
    pub longest: usize,
    /// Different states of each end of the connection, and the steps between them that the core made.
    pub ends_of_connection: [[usize; 2]; 2],
    /// Steps that were made again from another state with the same canonical form, and came to the same.
    pub compared: u64,
    /// Whether every state was seen. Otherwise the limit was reached.
    pub complete: bool,
}

/// A step. Frames have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The engine of an end works.
    Engine(usize),
    /// A frame arrives.
    Deliver(u16),
    /// A frame arrives, and a copy of it stays on its way.
    Duplicate(u16),
    /// A frame is lost.
    Lose(u16),
    /// Time passes to the next timer.
    Timeout {
        /// When it runs.
        at: Picoseconds,
        /// Whether there is other work.
        early: bool,
    },
    /// An application gets ready for one more request.
    Ready(usize),
    /// An application closes the connection.
    Close(usize),
}

impl SmallWorld {
    /// Returns the bytes of a WRITE, a READ or a SEND.
    pub(super) const fn bytes(&self) -> u32 {
        if self.blocks { BLOCK_BYTES } else { 24 }
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.complete { "all" } else { "not all" };
        let [a, b] = self.ends_of_connection;
        write!(
            f,
            "{} states ({all}), {} steps, {} ends, longest path {}; at either end {} and {} states, {} steps",
            self.states,
            self.steps,
            self.ends,
            self.longest,
            a[0],
            b[0],
            a[1] + b[1]
        )
    }
}
