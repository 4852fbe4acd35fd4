//! A small world, walked entirely: every order in which its events can happen.
//!
//! Two hosts have one connection with windows of a few packets, and a few operations. In each state the walk takes every
//! step that is possible: an engine serves a connection; a frame arrives, any of those on their way; a frame is lost; a
//! copy of it arrives; time passes to the next timer, also while there is other work; the target posts a receive; an end
//! closes the connection. How often the network and the timers may interfere is limited. Whatever cannot be undone is
//! checked after each step, the results at the end of each path. States are compared by a hash, so none is walked twice.
//!
//! The clock stands still between timers. IVs, which would tell apart states that differ in nothing else, are not hashed.

mod canonical;
mod results;
mod state;

use std::fmt;

use rustc_hash::FxHashSet;

use state::{Saved, Small};

use SmallOp::{FetchAdd, Read, Send, Write};

/// Bytes of a WRITE, a READ or a SEND.
const BYTES: u32 = 24;
/// Longest path. A longer one is a livelock.
const LONGEST_PATH: usize = 400;

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
    /// A name for people.
    pub name: &'static str,
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
    /// Whether every state was seen. Otherwise the limit was reached.
    pub complete: bool,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The engine of a host works.
    Engine(usize),
    /// A frame arrives, by its place among those on their way.
    Deliver(usize),
    /// A frame arrives, and a copy of it stays on its way.
    Duplicate(usize),
    /// A frame is lost.
    Lose(usize),
    /// Time passes to the next timer.
    Timeout,
    /// A host posts its next receive.
    Receive(usize),
    /// A host closes the connection.
    Close(usize),
}

/// One loss, one copy, one early timer.
const fn world(name: &'static str, ordered: bool, operations: [&'static [SmallOp]; 2]) -> SmallWorld {
    SmallWorld { name, ordered, operations, window: 2, losses: 1, duplicates: 1, timeouts: 1, close: false }
}

/// Either end may close the connection at any time.
const fn closed(world: SmallWorld) -> SmallWorld {
    SmallWorld { close: true, ..world }
}

const fn bounded(losses: u8, duplicates: u8, timeouts: u8, world: SmallWorld) -> SmallWorld {
    SmallWorld { losses, duplicates, timeouts, ..world }
}

const WRITES: [&[SmallOp]; 2] = [&[Write, Write, Write], &[]];
const READS: [&[SmallOp]; 2] = [&[Read, Read, Read], &[]];
const SENDS: [&[SmallOp]; 2] = [&[Send, Send, Send], &[]];
const ADDS: [&[SmallOp]; 2] = [&[FetchAdd, FetchAdd, FetchAdd], &[]];
const MIXED: [&[SmallOp]; 2] = [&[Write, Read, Send], &[]];

impl SmallWorld {
    /// The small worlds that are walked.
    pub const ALL: [Self; 20] = [
        world("ordered, three WRITEs", true, WRITES),
        world("unordered, three WRITEs", false, WRITES),
        world("ordered, three READs", true, READS),
        world("unordered, three READs", false, READS),
        world("ordered, three SENDs", true, SENDS),
        world("unordered, three SENDs", false, SENDS),
        world("ordered, three fetch-adds", true, ADDS),
        world("unordered, three fetch-adds", false, ADDS),
        world("ordered, mixed", true, MIXED),
        world("unordered, mixed", false, MIXED),
        bounded(2, 1, 1, world("ordered, two losses", true, [&[Write, Read], &[]])),
        bounded(2, 1, 1, world("unordered, two losses", false, [&[Send, FetchAdd], &[]])),
        bounded(0, 2, 1, world("ordered, two copies", true, [&[FetchAdd, Send], &[]])),
        bounded(0, 2, 1, world("unordered, two copies", false, [&[FetchAdd, Send], &[]])),
        bounded(1, 0, 0, world("ordered, both ends", true, [&[Write, Send], &[Read]])),
        bounded(1, 0, 0, world("unordered, both ends", false, [&[FetchAdd], &[Send, Write]])),
        bounded(0, 1, 1, closed(world("ordered, closed", true, [&[Write, Read], &[]]))),
        bounded(0, 1, 1, closed(world("unordered, closed", false, [&[Write, Read], &[]]))),
        bounded(0, 1, 1, closed(world("ordered, closed, RNR", true, [&[Send, Read], &[]]))),
        bounded(0, 1, 1, closed(world("unordered, closed, RNR", false, [&[Send, Read], &[]]))),
    ];

    /// Walks the world, depth first. Stops after `most` states.
    ///
    /// # Panics
    /// If a check fails; `on_failure` gets the path before.
    pub fn walk(
        &self,
        most: u64,
        progress: &mut dyn FnMut(&Walk),
        on_failure: &mut dyn FnMut(&[Choice]),
    ) -> Walk {
        let mut seen: FxHashSet<u64> = FxHashSet::default();
        let mut walk = Walk { complete: true, ..Walk::default() };
        let mut state = Small::new(self);
        let mut path = vec![];
        let guard = Guard { path: &mut path, tell: on_failure };
        // The states on the path, each with the steps that were not taken yet.
        let mut open: Vec<(Saved, Vec<Choice>)> = vec![];
        let mut is_new = true;
        loop {
            if is_new && seen.insert(state.hash()) {
                walk.states += 1;
                if walk.states.is_multiple_of(4096) {
                    progress(&walk);
                }
                if walk.states >= most {
                    walk.complete = false;
                    break;
                }
                let choices = state.choices();
                walk.steps += choices.len() as u64;
                if choices.is_empty() {
                    state.verify();
                    walk.ends += 1;
                }
                open.push((state.save(), choices));
            } else if is_new {
                guard.path.pop();
            }
            let Some((saved, choices)) = open.last_mut() else { break };
            let Some(choice) = choices.pop() else {
                open.pop();
                guard.path.pop();
                is_new = false;
                continue;
            };
            state.restore(saved);
            guard.path.push(choice);
            walk.longest = walk.longest.max(guard.path.len());
            assert!(guard.path.len() < LONGEST_PATH, "the world does not come to rest");
            state.take(choice);
            is_new = true;
        }
        core::mem::forget(guard);
        walk
    }
}

/// Tells the path if a check fails.
struct Guard<'a> {
    path: &'a mut Vec<Choice>,
    tell: &'a mut dyn FnMut(&[Choice]),
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        (self.tell)(self.path);
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.complete { "all" } else { "not all" };
        write!(
            f,
            "{} states ({all}), {} steps, {} ends, longest path {}",
            self.states, self.steps, self.ends, self.longest
        )
    }
}
