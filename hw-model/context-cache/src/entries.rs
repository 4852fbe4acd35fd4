//! The cached contexts and the CID lookup.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustc_hash::FxHashMap;
use transport_common::ids::Cid;

use super::command::Counter;
use super::entry::State;
use super::parameters::{Eviction, Parameters};

/// A cache entry.
#[derive(Clone, Debug)]
pub(super) struct Entry<C> {
    pub(super) cid: Cid,
    pub(super) state: State,
    /// True while a write to memory is in progress.
    pub(super) writing: bool,
    /// Commands whose work is not done, indexed by [`Counter`].
    pending: [u32; 2],
    pub(super) context: C,
}

impl<C> Entry<C> {
    pub(super) const fn pending(&self) -> u32 {
        self.pending[0] + self.pending[1]
    }
}

/// All entries. Any entry can hold any connection.
#[derive(Clone, Debug)]
pub(super) struct Entries<C> {
    entries: Box<[Entry<C>]>,
    by_cid: FxHashMap<Cid, u32>,
    free: VecDeque<u32>,
    evicting: u32,
    threshold: u32,
    eviction: Eviction,
    /// The entry that the eviction policy examines in this cycle.
    candidate: u32,
    random: SmallRng,
}

impl<C: Clone> Entries<C> {
    pub(super) fn new(parameters: &Parameters, initial: &C) -> Self {
        let entry = Entry {
            cid: Cid::default(),
            state: State::Invalid,
            writing: false,
            pending: [0; 2],
            context: initial.clone(),
        };
        Self {
            entries: vec![entry; parameters.entries as usize].into(),
            by_cid: FxHashMap::default(),
            free: (0..parameters.entries).collect(),
            evicting: 0,
            threshold: parameters.threshold,
            eviction: parameters.eviction,
            candidate: 0,
            random: SmallRng::seed_from_u64(!parameters.seed),
        }
    }
}

impl<C> Entries<C> {
    pub(super) fn find(&self, cid: Cid) -> Option<u32> {
        self.by_cid.get(&cid).copied()
    }

    pub(super) const fn get(&self, entry: u32) -> &Entry<C> {
        &self.entries[entry as usize]
    }

    pub(super) const fn get_mut(&mut self, entry: u32) -> &mut Entry<C> {
        &mut self.entries[entry as usize]
    }

    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    pub(super) fn occupied(&self) -> u32 {
        self.entries.len() as u32 - self.free()
    }

    /// Returns true if more entries are occupied than the threshold allows. Entries that are being evicted and
    /// `chosen` more count as free.
    pub(super) fn over_threshold(&self, chosen: u32) -> bool {
        self.occupied() > self.threshold + self.evicting + chosen
    }

    /// Returns the connection of the examined entry if the entry is valid, has no work pending and no write in
    /// progress.
    pub(super) const fn candidate(&self) -> Option<Cid> {
        let entry = &self.entries[self.candidate as usize];
        let idle = matches!(entry.state, State::Valid) && entry.pending() == 0 && !entry.writing;
        if idle { Some(entry.cid) } else { None }
    }

    /// Moves the eviction policy to another entry.
    pub(super) fn next_candidate(&mut self) {
        let entries = self.entries.len() as u32;
        self.candidate = match self.eviction {
            Eviction::Random => self.random.random_range(0..entries),
            Eviction::Fifo => (self.candidate + 1) % entries,
        };
    }

    /// Returns the entry that is taken next.
    pub(super) fn next_free(&self) -> Option<u32> {
        self.free.front().copied()
    }

    /// Gives the next free entry to a connection that has none.
    pub(super) fn take(&mut self, cid: Cid, state: State) -> Option<u32> {
        let number = self.free.pop_front()?;
        self.by_cid.insert(cid, number);
        let entry = self.get_mut(number);
        entry.cid = cid;
        entry.writing = false;
        entry.pending = [0; 2];
        self.set_state(number, state);
        Some(number)
    }

    pub(super) fn set_state(&mut self, number: u32, state: State) {
        let entry = &mut self.entries[number as usize];
        self.evicting -= u32::from(entry.state == State::Evicting);
        self.evicting += u32::from(state == State::Evicting);
        entry.state = state;
        if state == State::Invalid {
            self.by_cid.remove(&entry.cid);
            self.free.push_back(number);
        }
    }

    pub(super) const fn raise(&mut self, number: u32, counter: Counter) {
        self.entries[number as usize].pending[counter as usize] += 1;
    }

    /// Lowers a counter of a connection. Returns false if the counter is 0 or the connection is not cached.
    pub(super) fn lower(&mut self, cid: Cid, counter: Counter) -> bool {
        let Some(number) = self.find(cid) else { return false };
        let pending = &mut self.get_mut(number).pending[counter as usize];
        let counted = *pending > 0;
        *pending -= u32::from(counted);
        counted
    }
}
