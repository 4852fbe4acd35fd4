//! The connections of a replay.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use transport_common::connection::Snapshot;

use super::reader::LastStep;
use super::{Difference, Divergence};

/// The connections, shared by the runs of a replay.
pub type Shared = Rc<RefCell<Connections>>;

/// A known connection.
struct Connected {
    /// The current state. `None` while a step has it.
    entry: Option<Box<Snapshot>>,
    /// Recorded states. The connection is compared with each when it has made the same number of steps.
    checks: Vec<Box<Snapshot>>,
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
    /// The last steps of the trace, by slot. `None` before the trace has named them.
    last: Option<FxHashMap<u32, LastStep>>,
    /// Number of comparisons of a whole connection.
    pub(super) checked: u64,
    /// The first difference that does not belong to a run.
    pub(super) differing: Option<Divergence>,
}

impl Connections {
    /// Takes a recorded connection. If the connection is known, it is compared after the same number of steps. If
    /// it is unknown, this becomes its state.
    pub fn told(&mut self, slot: u32, entry: Box<Snapshot>) {
        if let Some(known) = self.slots.get_mut(&slot)
            && let Some(current) = &known.entry
            && current.connection.generation == entry.connection.generation
        {
            known.checks.push(entry);
            self.check(slot);
            return;
        }
        self.slots.insert(slot, Connected { entry: Some(entry), checks: vec![] });
    }

    /// Takes the last steps of the trace.
    pub fn end_with(&mut self, last: FxHashMap<u32, LastStep>) {
        self.last = Some(last);
    }

    /// Returns whether a run with these steps is after the end of the trace. If only its later steps are, the end moves
    /// before the run, because a run is replayed as a whole.
    pub fn is_after_end(&mut self, slot: u32, steps: &[u64]) -> bool {
        let Some(end) = &mut self.last else { return false };
        let Some(end) = end.get_mut(&slot) else { return true };
        let after = steps.iter().any(|step| *step > end.step);
        if let Some(first) = steps.iter().min()
            && after
        {
            end.step = end.step.min(first.saturating_sub(1));
        }
        after
    }

    /// Returns whether the trace ends with step `step` of this connection, or earlier.
    pub fn has_ended(&self, slot: u32, step: u64) -> bool {
        self.last.as_ref().and_then(|last| last.get(&slot)).is_some_and(|last| step >= last.step)
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
            let generation = known.entry.as_ref()?.connection.generation;
            let last = self.last.as_ref().and_then(|last| last.get(slot));
            let last = last.filter(|last| last.generation == generation).map(|last| last.step);
            let recorded = known.checks.iter().map(|check| check.tables.steps).max();
            // A recorded state after the end of the trace is not reached.
            let expected = last.or(recorded)?;
            (expected > made).then_some((*slot, made + 1))
        };
        self.slots.iter().filter_map(behind).min()
    }

    pub(super) fn take(&mut self, slot: u32) -> Option<Box<Snapshot>> {
        self.slots.get_mut(&slot)?.entry.take()
    }

    pub(super) fn give_back(&mut self, slot: u32, entry: Box<Snapshot>) {
        let Some(known) = self.slots.get_mut(&slot) else { return };
        known.entry = Some(entry);
        self.check(slot);
    }

    /// Compares a connection with its recorded states of the same number of steps.
    fn check(&mut self, slot: u32) {
        let Some(known) = self.slots.get_mut(&slot) else { return };
        let Some(entry) = &known.entry else { return };
        let step = entry.tables.steps;
        let (mut checked, mut differing) = (0, None);
        known.checks.retain_mut(|check| {
            if check.tables.steps > step {
                return true;
            }
            // A recorded state with fewer steps came too late to be compared. It is dropped.
            if check.tables.steps == step {
                checked += 1;
                // The node may have changed it after the step. The note of the next step shows it.
                check.connection.flow.endpoint.path.destination_mac =
                    entry.connection.flow.endpoint.path.destination_mac;
                check.settings.requested = entry.settings.requested;
                check.settings.pending = entry.settings.pending;
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
fn first_difference(a: &Snapshot, b: &Snapshot) -> Option<usize> {
    let (a, b) = (bytemuck::bytes_of(a), bytemuck::bytes_of(b));
    if a == b { None } else { a.iter().zip(b).position(|(a, b)| a != b) }
}
