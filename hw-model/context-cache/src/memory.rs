//! The memories behind the cache.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use clocked::Cycle;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustc_hash::FxHashMap;
use transport_common::ids::Cid;

use super::command::{Context, Operation};
use super::parameters::{MemoryParameters, Parameters};

/// A memory operation on the context of a connection.
#[derive(Clone, Debug)]
pub(super) enum Access<C: Context> {
    Read,
    Write(C),
    /// Writes only the bytes of the context that the result covers.
    Merge(C::Result),
}

impl<C: Context> Access<C> {
    const fn operation(&self) -> Operation {
        match self {
            Self::Read => Operation::Read,
            Self::Write(_) | Self::Merge(_) => Operation::Write,
        }
    }
}

/// A completed request.
#[derive(Clone, Debug)]
pub(super) struct Completion<C> {
    pub(super) cid: Cid,
    /// The context, if the request was a read.
    pub(super) read: Option<C>,
}

/// A request in progress.
#[derive(Clone, Debug)]
struct Working<C: Context> {
    due: Cycle,
    /// Number of requests taken before this one. It orders requests that are due in the same cycle.
    ordinal: u64,
    side: usize,
    cid: Cid,
    access: Access<C>,
    /// The context that a read returns.
    read: Option<C>,
}

impl<C: Context> Working<C> {
    const fn key(&self) -> (Cycle, u64) {
        (self.due, self.ordinal)
    }
}

impl<C: Context> PartialEq for Working<C> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<C: Context> Eq for Working<C> {}

impl<C: Context> PartialOrd for Working<C> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<C: Context> Ord for Working<C> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// One of the two memories.
#[derive(Clone, Debug)]
struct Side<C: Context> {
    parameters: MemoryParameters,
    interval: u64,
    requests: VecDeque<(Cid, Access<C>)>,
    outstanding: usize,
    /// The first cycle in which this memory can take a request.
    free_at: Cycle,
}

impl<C: Context> Side<C> {
    fn new(parameters: MemoryParameters, context_bytes: u32) -> Self {
        let interval = parameters.request_interval(context_bytes);
        Self { parameters, interval, requests: VecDeque::new(), outstanding: 0, free_at: Cycle::ZERO }
    }

    fn takes(&self, now: Cycle) -> Option<&(Cid, Access<C>)> {
        let ready = self.outstanding < self.parameters.outstanding && self.free_at <= now;
        if ready { self.requests.front() } else { None }
    }

    fn next_event(&self) -> Option<Cycle> {
        let blocked = self.requests.is_empty() || self.outstanding == self.parameters.outstanding;
        (!blocked).then_some(self.free_at)
    }
}

/// The on-chip and the off-chip memory, and the contexts in them. Completions are not in the order of the
/// requests.
///
/// A read returns the context at the time the memory took the request. A write takes effect when it completes. So
/// if two operations on one context were in progress at once, the tests would find the wrong context.
#[derive(Clone, Debug)]
pub(super) struct Backing<C: Context> {
    sides: [Side<C>; 2],
    on_chip_connections: u32,
    working: BinaryHeap<Reverse<Working<C>>>,
    taken: u64,
    contexts: FxHashMap<Cid, C>,
    initial: C,
    random: SmallRng,
}

impl<C: Context> Backing<C> {
    pub(super) fn new(parameters: &Parameters, initial: C) -> Self {
        let side = |of| Side::new(of, parameters.context_bytes);
        Self {
            sides: [side(parameters.on_chip), side(parameters.off_chip)],
            on_chip_connections: parameters.on_chip_connections,
            working: BinaryHeap::new(),
            taken: 0,
            contexts: FxHashMap::default(),
            initial,
            random: SmallRng::seed_from_u64(parameters.seed),
        }
    }

    /// Returns the context as the memory holds it.
    pub(super) fn context(&self, cid: Cid) -> &C {
        self.contexts.get(&cid).unwrap_or(&self.initial)
    }

    pub(super) fn store(&mut self, cid: Cid, context: C) {
        if size_of::<C>() > 0 {
            self.contexts.insert(cid, context);
        }
    }

    /// Returns the completion that was due first, if one is due. The order of taking decides between equal cycles.
    pub(super) fn completion(&self, now: Cycle) -> Option<(Cid, Operation)> {
        let Reverse(first) = self.working.peek()?;
        (first.due <= now).then(|| (first.cid, first.access.operation()))
    }

    /// Returns the requests that the memories take in this cycle.
    pub(super) fn takes(&self, now: Cycle) -> [Option<(Cid, Operation)>; 2] {
        [0, 1].map(|side| {
            let (cid, access) = self.sides[side].takes(now)?;
            Some((*cid, access.operation()))
        })
    }

    pub(super) fn next_event(&self) -> Option<Cycle> {
        let due = self.working.peek().map(|Reverse(first)| first.due);
        self.sides.iter().filter_map(Side::next_event).chain(due).min()
    }

    /// Returns the number of requests that wait or are in progress.
    pub(super) fn busy(&self) -> usize {
        self.working.len() + self.sides.iter().map(|side| side.requests.len()).sum::<usize>()
    }

    /// Enters a request. The memory takes it in the next cycle at the earliest.
    pub(super) fn request(&mut self, cid: Cid, access: Access<C>) {
        let side = usize::from(cid.0 >= self.on_chip_connections);
        self.sides[side].requests.push_back((cid, access));
    }

    /// Updates the memories at the clock edge. They take requests, and return the completion if it is `taken`.
    pub(super) fn commit(&mut self, now: Cycle, taken: bool) -> Option<Completion<C>> {
        for side in 0..2 {
            if self.sides[side].takes(now).is_none() {
                continue;
            }
            let Some((cid, access)) = self.sides[side].requests.pop_front() else { continue };
            let read = matches!(access, Access::Read).then(|| self.context(cid).clone());
            let Side { parameters, interval, outstanding, free_at, .. } = &mut self.sides[side];
            *outstanding += 1;
            *free_at = now + *interval;
            let jitter =
                if parameters.jitter == 0 { 0 } else { self.random.random_range(0..=parameters.jitter) };
            let due = now + parameters.latency + jitter;
            self.working.push(Reverse(Working { due, ordinal: self.taken, side, cid, access, read }));
            self.taken += 1;
        }
        if !taken {
            return None;
        }
        let Reverse(Working { side, cid, access, read, .. }) = self.working.pop()?;
        self.sides[side].outstanding -= 1;
        match access {
            Access::Read => {}
            Access::Write(context) => self.store(cid, context),
            Access::Merge(result) => {
                let mut context = self.context(cid).clone();
                context.merge(&result);
                self.store(cid, context);
            }
        }
        Some(Completion { cid, read })
    }
}
