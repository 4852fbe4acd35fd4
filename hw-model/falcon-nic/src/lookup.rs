//! The connection lookup, which also gives each connection to one run at a time.

use std::collections::VecDeque;

use clocked::{Block as _, Cycle};
use context_cache::{self, CacheInput, Command, ContextCache, Counter};
use transport_common::ids::Cid;

use super::station::Channel;

/// A request of a run for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) run: usize,
    pub(super) slot: u32,
    /// The number of steps that the connection must have made before this run gets it. `None` means no condition.
    pub(super) after: Option<u64>,
}

/// The state of a connection in the lookup.
#[derive(Debug, Default)]
struct Connection {
    /// True while a run has the connection.
    taken: bool,
    /// True if the cache keeps the connection for that run.
    pinned: bool,
    /// Steps since the reset of the card.
    steps: u64,
    /// Runs whose lookup is done, the cycle in which it was done, and true if the cache keeps the connection for
    /// the run.
    waiting: VecDeque<(Asked, Cycle, bool)>,
}

/// The counters of the lookup, in addition to those of its cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Work that entered the cache's pipeline, including second passes and completions of its memory.
    pub(super) issued: u64,
    /// Connections granted to runs.
    pub(super) granted: u64,
    /// Cycles in which runs waited for a connection that another run had.
    pub(super) taken: u64,
    /// Cycles in which runs waited for the cache, beyond the cycles of a hit.
    pub(super) missed: u64,
    /// Cycles in which runs waited because as many commands were in the cache as its miss queues can hold.
    pub(super) full: u64,
    pub(super) queue_area: u64,
    pub(super) queue_peak: usize,
}

/// The lookup block.
pub(super) struct Lookup {
    cache: ContextCache<(), Asked>,
    /// Received frames and turns on their first pass.
    first: [VecDeque<Asked>; 2],
    returning: VecDeque<Asked>,
    room: usize,
    connections: Vec<Connection>,
    /// Steps that are over and not reported to the cache yet.
    over: VecDeque<Cid>,
    /// Number of commands in the cache's pipeline and miss queues.
    inside: usize,
    /// Connections that became free or have a new request.
    woken: Vec<u32>,
    touched: Cycle,
    pub(super) counts: Counts,
}

/// The origin of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Network,
    Turn,
}

impl Lookup {
    /// Creates the lookup. `room` is the capacity of each first-pass queue.
    ///
    /// # Errors
    /// Returns an error if a parameter of the cache is out of range.
    pub(super) fn new(
        parameters: &context_cache::Parameters,
        room: usize,
    ) -> Result<Self, context_cache::ParameterError> {
        Ok(Self {
            cache: ContextCache::new(parameters, ())?,
            first: Default::default(),
            returning: VecDeque::new(),
            room,
            connections: vec![],
            over: VecDeque::new(),
            inside: 0,
            woken: vec![],
            touched: Cycle::ZERO,
            counts: Counts::default(),
        })
    }

    pub(super) const fn cache(&self) -> &ContextCache<(), Asked> {
        &self.cache
    }

    pub(super) fn queued(&self) -> usize {
        self.returning.len() + self.first.iter().map(VecDeque::len).sum::<usize>()
    }

    pub(super) fn settle(&mut self, now: Cycle) {
        self.counts.queue_area += now.since(self.touched) * self.queued() as u64;
        self.touched = now;
    }

    /// Returns the number of steps of the connection of `slot` so far.
    pub(super) fn steps(&self, slot: u32) -> u64 {
        self.connections.get(slot as usize).map_or(0, |connection| connection.steps)
    }

    pub(super) fn has_room(&self, origin: Origin, channel: Channel) -> bool {
        channel == Channel::Returning || self.first[origin as usize].len() < self.room
    }

    pub(super) fn push(&mut self, now: Cycle, origin: Origin, channel: Channel, asked: Asked) {
        self.settle(now);
        match channel {
            Channel::Returning => self.returning.push_back(asked),
            Channel::First => self.first[origin as usize].push_back(asked),
        }
        self.counts.queue_peak = self.counts.queue_peak.max(self.queued());
    }

    /// Computes one cycle of the cache. Adds the runs that get their connection in this cycle to `granted`.
    pub(super) fn step(&mut self, now: Cycle, granted: &mut Vec<usize>) {
        let full = self.inside >= self.cache.parameters().miss_queue;
        let waits = self.queued() != 0;
        if full && waits {
            self.counts.full += 1;
        }
        let offer = |asked: Option<&Asked>| {
            let asked = asked.filter(|_| !full)?;
            Some(Command { cid: Cid(asked.slot), pending: Some(Counter::Reorder), tag: *asked })
        };
        let [network, turns] = &self.first;
        let returns = !self.returning.is_empty();
        // With space for one command, two may be offered. The cache accepts at most one per cycle, and the other
        // one stays in its queue. So the limit holds.
        let input = CacheInput {
            network: offer(network.front()),
            ulp: offer(if returns { self.returning.front() } else { turns.front() }),
            reorder_done: self.over.front().copied(),
            ..CacheInput::default()
        };
        let idle = input.network.is_none() && input.ulp.is_none() && input.reorder_done.is_none();
        if !idle || self.cache.next_event(now).is_some_and(|event| event <= now) {
            self.settle(now);
            self.cycle(now, &input, returns);
        }
        self.grant(now, granted);
    }

    fn cycle(&mut self, now: Cycle, input: &CacheInput<(), Asked>, returns: bool) {
        let (output, next) = self.cache.evaluate(now, input);
        self.cache.commit(now, &next);
        self.over.pop_front();
        self.counts.issued += u64::from(output.issued.is_some());
        if output.accepted.network {
            self.first[Origin::Network as usize].pop_front();
        }
        if output.accepted.ulp {
            if returns {
                self.returning.pop_front()
            } else {
                self.first[Origin::Turn as usize].pop_front()
            };
        }
        self.inside += usize::from(output.accepted.network) + usize::from(output.accepted.ulp);
        if let Some(processed) = output.processed {
            let hit = self.cache.parameters().hit_cycles();
            self.counts.missed += now.since(processed.accepted).saturating_sub(hit);
            self.arrive(now, processed.command.tag, true);
        }
        // The miss queues had space, so this is a connection that the cache does not know. The datapath rejects
        // the frame itself.
        if let Some(unknown) = output.dropped {
            self.arrive(now, unknown.tag, false);
        }
    }

    fn arrive(&mut self, now: Cycle, asked: Asked, pinned: bool) {
        self.inside -= 1;
        let index = asked.slot as usize;
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, Connection::default);
        }
        self.connections[index].waiting.push_back((asked, now, pinned));
        self.woken.push(asked.slot);
    }

    /// Releases the connection of `slot`, because the run that has it has completed its step.
    pub(super) fn release(&mut self, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        connection.taken = false;
        connection.steps += 1;
        if connection.pinned {
            self.over.push_back(Cid(slot));
        }
        self.woken.push(slot);
    }

    /// Gives connections that became free or have a new request to waiting runs.
    fn grant(&mut self, now: Cycle, granted: &mut Vec<usize>) {
        for slot in self.woken.drain(..) {
            let connection = &mut self.connections[slot as usize];
            if connection.taken {
                continue;
            }
            let steps = connection.steps;
            let in_turn = |asked: &Asked| asked.after.is_none_or(|after| after <= steps);
            let Some(place) = connection.waiting.iter().position(|(asked, ..)| in_turn(asked)) else {
                continue;
            };
            let Some((asked, since, pinned)) = connection.waiting.remove(place) else { continue };
            connection.taken = true;
            connection.pinned = pinned;
            self.counts.granted += 1;
            self.counts.taken += now.since(since);
            granted.push(asked.run);
        }
    }

    pub(super) fn next_event(&self, now: Cycle) -> Option<Cycle> {
        let waits = self.queued() != 0 || !self.over.is_empty() || !self.woken.is_empty();
        if waits { Some(now) } else { self.cache.next_event(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the lookup for the cycles `from..until`. Returns the granted runs and their cycles.
    fn grants(lookup: &mut Lookup, from: u64, until: u64) -> Vec<(u64, usize)> {
        let mut all = vec![];
        for cycle in from..until {
            let mut granted = vec![];
            lookup.step(Cycle(cycle), &mut granted);
            all.extend(granted.into_iter().map(|run| (cycle, run)));
        }
        all
    }

    fn lookup() -> Lookup {
        Lookup::new(&context_cache::Parameters::default(), 4).expect("possible")
    }

    #[test]
    fn a_connection_has_one_run_at_a_time_and_a_hit_takes_six_cycles() {
        let mut lookup = lookup();
        for run in 0..3 {
            let asked = Asked { run, slot: 9, after: None };
            lookup.push(Cycle(0), Origin::Network, Channel::First, asked);
        }
        let first = grants(&mut lookup, 0, 1000);
        assert!(first.len() == 1 && first[0].0 > 200, "a miss: {first:?}");
        lookup.release(9);
        assert_eq!(grants(&mut lookup, 1000, 1100), [(1000, 1)], "in the cycle of the release");
        lookup.release(9);
        assert_eq!(grants(&mut lookup, 1100, 1200), [(1100, 2)]);
        lookup.release(9);
        assert_eq!(grants(&mut lookup, 1200, 1300), []);
        lookup.push(Cycle(1300), Origin::Turn, Channel::First, Asked { run: 3, slot: 9, after: None });
        let hit = context_cache::Parameters::default().hit_cycles();
        assert_eq!(grants(&mut lookup, 1300, 1400), [(1300 + hit, 3)]);
        assert_eq!((lookup.steps(9), lookup.steps(8)), (3, 0));
        assert_eq!(lookup.counts.granted, 4);
    }

    /// A replay needs the steps of a connection in the recorded order, whichever run asks first.
    #[test]
    fn a_run_waits_until_its_step_has_its_turn() {
        let mut lookup = lookup();
        for (run, after) in [(0, 2), (1, 1), (2, 0)] {
            let asked = Asked { run, slot: 5, after: Some(after) };
            lookup.push(Cycle(0), Origin::Network, Channel::First, asked);
        }
        let mut order = vec![];
        for start in [0, 1000, 2000] {
            let granted = grants(&mut lookup, start, start + 1000);
            order.extend(granted.into_iter().map(|(_, run)| run));
            lookup.release(5);
        }
        assert_eq!(order, [2, 1, 0]);
    }
}
