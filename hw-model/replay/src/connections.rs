//! The connections of a replay.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use transport_common::congestion::settings::Settings;
use transport_common::connection::Entry;

use super::{Difference, Divergence};

/// The connections, shared by the runs of a replay.
pub type Shared = Rc<RefCell<Connections>>;

/// A known connection.
struct Connected {
    /// The current state. `None` while a step has it.
    entry: Option<Box<Entry>>,
    settings: Settings,
    /// Recorded states. The connection is compared with each when it has made the same number of steps.
    checks: Vec<Box<Entry>>,
    /// The number of steps that it has to have made at the end of the trace.
    last_step: Option<u64>,
}

/// The position of a run relative to the steps of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All steps of the run are after the connection's current state.
    Ahead,
    /// All steps of the run were before the trace recorded the connection.
    Behind,
    /// Some steps of the run were before. The run cannot be replayed.
    Between,
    /// The trace has not recorded the connection yet.
    Unknown,
}

/// The connections of a replay.
#[derive(Default)]
pub struct Connections {
    slots: FxHashMap<u32, Connected>,
    /// Number of comparisons of a whole connection.
    pub(super) checked: u64,
    /// The first difference that does not belong to a run.
    pub(super) differing: Option<Divergence>,
}

impl Connections {
    /// Takes a recorded connection. If the connection is known, it is compared after the same number of steps. If
    /// it is unknown, this becomes its state.
    pub fn told(&mut self, slot: u32, entry: Box<Entry>, settings: Settings) {
        if let Some(known) = self.slots.get_mut(&slot)
            && let Some(current) = &known.entry
            && current.connection.generation == entry.connection.generation
        {
            known.checks.push(entry);
            self.check(slot);
            return;
        }
        self.slots.insert(slot, Connected { entry: Some(entry), settings, checks: vec![], last_step: None });
    }

    /// Takes the number of steps that a connection has to have made at the end of the trace.
    pub fn expect(&mut self, slot: u32, generation: u32, steps: u64) {
        if let Some(known) = self.slots.get_mut(&slot)
            && known.entry.as_ref().is_some_and(|entry| entry.connection.generation == generation)
        {
            known.last_step = Some(steps);
        }
    }

    /// Returns the position of a run with these steps relative to the connection of `slot`.
    pub fn standing(&self, slot: u32, steps: &[u64]) -> Standing {
        let Some(made) = self.steps_made(slot) else { return Standing::Unknown };
        let behind = steps.iter().filter(|step| **step <= made).count();
        match behind {
            0 => Standing::Ahead,
            all if all == steps.len() => Standing::Behind,
            _ => Standing::Between,
        }
    }

    /// Returns the number of steps that the connection of `slot` has made, if it is known.
    pub fn steps_made(&self, slot: u32) -> Option<u64> {
        Some(self.slots.get(&slot)?.entry.as_ref()?.tables.steps)
    }

    /// Forgets a connection until the trace records it again.
    pub fn forget(&mut self, slot: u32) {
        self.slots.remove(&slot);
    }

    /// Forgets all connections, because runs were lost.
    pub fn forget_all(&mut self) {
        self.slots.clear();
    }

    /// Returns the number of known connections.
    pub fn known(&self) -> usize {
        self.slots.len()
    }

    /// Returns a connection that has made fewer steps than the trace recorded, and its first missing step.
    pub fn behind(&self) -> Option<(u32, u64)> {
        let behind = |(slot, known): (&u32, &Connected)| {
            let made = known.entry.as_ref()?.tables.steps;
            let missing = !known.checks.is_empty() || known.last_step.is_some_and(|last| last > made);
            missing.then_some((*slot, made + 1))
        };
        self.slots.iter().filter_map(behind).min()
    }

    pub(super) fn take(&mut self, slot: u32) -> Option<(Box<Entry>, Settings)> {
        let known = self.slots.get_mut(&slot)?;
        Some((known.entry.take()?, known.settings))
    }

    pub(super) fn give_back(&mut self, slot: u32, entry: Box<Entry>, settings: Settings) {
        let Some(known) = self.slots.get_mut(&slot) else { return };
        known.entry = Some(entry);
        known.settings = settings;
        self.check(slot);
    }

    /// Compares a connection with its recorded states of the same number of steps.
    fn check(&mut self, slot: u32) {
        let Some(known) = self.slots.get_mut(&slot) else { return };
        let Some(entry) = &known.entry else { return };
        let step = entry.tables.steps;
        let (mut checked, mut differing) = (0, None);
        known.checks.retain(|check| {
            if check.tables.steps > step {
                return true;
            }
            // A recorded state with fewer steps came too late to be compared. It is dropped.
            if check.tables.steps == step {
                checked += 1;
                differing = differing.or(first_difference(entry, check));
            }
            false
        });
        self.checked += checked;
        if let Some(byte) = differing
            && self.differing.is_none()
        {
            self.differing = Some(Divergence {
                run: None,
                kind: "a connection that the trace recorded",
                slot: Some(slot),
                step: Some(step),
                difference: Difference::Entry { byte },
            });
        }
    }
}

/// Returns the first byte in which two entries differ.
fn first_difference(a: &Entry, b: &Entry) -> Option<usize> {
    let (a, b) = (bytemuck::bytes_of(a), bytemuck::bytes_of(b));
    if a == b { None } else { a.iter().zip(b).position(|(a, b)| a != b) }
}
