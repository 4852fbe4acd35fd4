//! The connections of a replay.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use transport_common::congestion::settings::Settings;
use transport_common::connection::Entry;

use super::{Difference, Divergence};

/// Connections that the runs of a replay share.
pub type Shared = Rc<RefCell<Connections>>;

/// One as far as it is known.
struct Connected {
    /// `None` while a step has it.
    entry: Option<Box<Entry>>,
    settings: Settings,
    /// How it has to be when it has made as many steps as these.
    checks: Vec<Box<Entry>>,
}

/// What a run is to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All its steps are still to be made.
    Ahead,
    /// All its steps were made before the trace told the connection.
    Behind,
    /// Some were: it cannot be made again.
    Between,
    /// The connection was not told yet.
    Unknown,
}

/// The connections of a replay.
#[derive(Default)]
pub struct Connections {
    slots: FxHashMap<u32, Connected>,
    /// Connections compared whole.
    pub(super) checked: u64,
    /// The first difference that is no run's.
    pub(super) differing: Option<Divergence>,
}

impl Connections {
    /// The trace tells a connection: a known one is to be like that after as many steps, an unknown one is like that.
    pub fn told(&mut self, slot: u32, entry: Box<Entry>, settings: Settings) {
        if let Some(known) = self.slots.get_mut(&slot)
            && let Some(current) = &known.entry
            && current.connection.generation == entry.connection.generation
        {
            known.checks.push(entry);
            self.check(slot);
            return;
        }
        self.slots.insert(slot, Connected { entry: Some(entry), settings, checks: vec![] });
    }

    /// How a run with these steps stands to the connection of `slot`.
    pub fn standing(&self, slot: u32, steps: &[u64]) -> Standing {
        let Some(made) = self.steps_made(slot) else { return Standing::Unknown };
        let behind = steps.iter().filter(|step| **step <= made).count();
        match behind {
            0 => Standing::Ahead,
            all if all == steps.len() => Standing::Behind,
            _ => Standing::Between,
        }
    }

    /// Steps that the connection of `slot` has made, if it is known.
    pub fn steps_made(&self, slot: u32) -> Option<u64> {
        Some(self.slots.get(&slot)?.entry.as_ref()?.tables.steps)
    }

    /// Forgets a connection until it is told anew.
    pub fn forget(&mut self, slot: u32) {
        self.slots.remove(&slot);
    }

    /// Forgets all: runs were lost.
    pub fn forget_all(&mut self) {
        self.slots.clear();
    }

    /// Number of connections known.
    pub fn known(&self) -> usize {
        self.slots.len()
    }

    /// A connection that has not come as far as it was told to be, and the first step that is missing.
    pub fn behind(&self) -> Option<(u32, u64)> {
        let behind = |(slot, known): (&u32, &Connected)| {
            let made = known.entry.as_ref()?.tables.steps;
            (!known.checks.is_empty()).then_some((*slot, made + 1))
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

    /// Compares a connection with what was told of it, if it has come so far.
    fn check(&mut self, slot: u32) {
        let Some(known) = self.slots.get_mut(&slot) else { return };
        let Some(entry) = &known.entry else { return };
        let step = entry.tables.steps;
        let (mut checked, mut differing) = (0, None);
        known.checks.retain(|check| {
            if check.tables.steps > step {
                return true;
            }
            // One of fewer steps was told late: it was compared when it was the latest.
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
                kind: "a connection as the trace tells it",
                slot: Some(slot),
                step: Some(step),
                difference: Difference::Entry { byte },
            });
        }
    }
}

/// The first byte in which two entries differ.
fn first_difference(a: &Entry, b: &Entry) -> Option<usize> {
    let (a, b) = (bytemuck::bytes_of(a), bytemuck::bytes_of(b));
    if a == b { None } else { a.iter().zip(b).position(|(a, b)| a != b) }
}
