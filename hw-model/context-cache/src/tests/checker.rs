//! A reference model that watches a cache from outside. For each connection it knows the expected state, the one
//! memory operation, the pending work, the order of ULP commands, and the expected context.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use clocked::Cycle;
use transport_common::ids::Cid;

use crate::{
    CacheInput, CacheOutput, Command, Context, ContextCache, Event, FlushMode, Operation, Parameters,
    Processed, Source, State, Transition,
};

/// A context that keeps a hash of all its updates, and the last result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) history: u64,
    pub(super) result: u32,
}

impl Log {
    fn add(&mut self, what: u64) {
        self.history = (self.history ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// Returns the context after a command.
    pub(super) fn after(mut self, command: &Command<u32>) -> Self {
        self.add(command.tag.into());
        self
    }
}

impl Context for Log {
    type Result = u32;

    fn merge(&mut self, result: &u32) {
        self.add(u64::from(*result) << 32);
        self.result = *result;
    }
}

/// Returns a command without work.
pub(super) const fn command(cid: u32, tag: u32) -> Command<u32> {
    Command { cid: Cid(cid), pending: None, tag }
}

type Cache = ContextCache<Log, u32>;

/// The arrows of figure 9, and those that the patent's text adds. A flush or a result may go from `Invalid` to
/// `Evicting`. A flush that installs may go from `Invalid` to `Valid`. A command turns `Evicting` back to
/// `Allocated`.
const ARROWS: [(State, State); 7] = [
    (State::Invalid, State::Allocated),
    (State::Invalid, State::Evicting),
    (State::Invalid, State::Valid),
    (State::Allocated, State::Valid),
    (State::Valid, State::Evicting),
    (State::Evicting, State::Allocated),
    (State::Evicting, State::Invalid),
];

#[derive(Debug)]
pub(super) struct Checker {
    parameters: Parameters,
    /// Accepted commands that are neither processed nor dropped, by tag.
    open: BTreeMap<u32, (Cid, Source, Cycle)>,
    ulp: BTreeMap<Cid, VecDeque<u32>>,
    results: BTreeMap<Cid, VecDeque<u32>>,
    flush: Option<(Cid, Log)>,
    contexts: BTreeMap<Cid, Log>,
    pending: BTreeMap<Cid, u32>,
    states: BTreeMap<Cid, (u32, State)>,
    /// Memory operations that are requested and not complete. The flag is true if the memory has taken the
    /// request.
    memory: BTreeMap<Cid, (Operation, bool)>,
    issued: Vec<(Cycle, Cid, Event)>,
    /// The arcs that were taken, and whether the work had to wait.
    pub(super) reached: BTreeSet<(State, Event, State, bool)>,
    pub(super) processed: u64,
    pub(super) dropped: u64,
}

type Verdict = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

impl Checker {
    pub(super) fn new(parameters: &Parameters) -> Self {
        Self {
            parameters: parameters.clone(),
            open: BTreeMap::new(),
            ulp: BTreeMap::new(),
            results: BTreeMap::new(),
            flush: None,
            contexts: BTreeMap::new(),
            pending: BTreeMap::new(),
            states: BTreeMap::new(),
            memory: BTreeMap::new(),
            issued: Vec::new(),
            reached: BTreeSet::new(),
            processed: 0,
            dropped: 0,
        }
    }

    /// Allows commands of one connection in adjacent cycles.
    pub(super) const fn allow_adjacent(&mut self) {
        self.parameters.command_cycles = 1;
    }

    fn expected(&self, cid: Cid) -> Log {
        self.contexts.get(&cid).copied().unwrap_or_default()
    }

    /// Checks the inputs and outputs of a cycle. `cache` is in the state before the clock edge.
    pub(super) fn cycle(
        &mut self,
        now: Cycle,
        cache: &Cache,
        input: &CacheInput<Log, u32>,
        output: &CacheOutput<u32>,
    ) -> Verdict {
        if let Some(processed) = &output.processed {
            self.processed(now, cache, processed)?;
        }
        for (cid, operation) in output.memory.iter().flatten() {
            let request = self.memory.get_mut(cid);
            ensure(request == Some(&mut (*operation, false)), || format!("{now}: {cid:?} memory twice"))?;
            self.memory.insert(*cid, (*operation, true));
        }
        if let Some(transition) = &output.transition {
            self.transition(now, cache, transition, output.dropped.is_some())?;
        }
        if let Some(command) = &output.dropped {
            let source = self.open.remove(&command.tag).map(|(_, source, _)| source);
            ensure(source == Some(Source::Network), || format!("{now}: {command:?} of {source:?} dropped"))?;
            self.dropped += 1;
        }
        self.accept(now, input, output);
        for cid in [input.transmit_done, input.reorder_done].into_iter().flatten() {
            *self.pending.entry(cid).or_default() -= 1;
        }
        self.issue(now, output)
    }

    fn accept(&mut self, now: Cycle, input: &CacheInput<Log, u32>, output: &CacheOutput<u32>) {
        if let (true, Some(command)) = (output.accepted.ulp, input.ulp) {
            self.open.insert(command.tag, (command.cid, Source::Ulp, now));
            self.ulp.entry(command.cid).or_default().push_back(command.tag);
        }
        if let (true, Some(command)) = (output.accepted.network, input.network) {
            self.open.insert(command.tag, (command.cid, Source::Network, now));
        }
        if let (true, Some((cid, result))) = (output.accepted.result, input.result) {
            self.results.entry(cid).or_default().push_back(result);
        }
        if let (true, Some(flush)) = (output.accepted.flush, input.flush) {
            self.flush = Some((flush.cid, flush.context));
            assert!(matches!(flush.mode, FlushMode::Through | FlushMode::Install));
        }
    }

    fn processed(&mut self, now: Cycle, cache: &Cache, processed: &Processed<u32>) -> Verdict {
        let Processed { command, source, entry, accepted, first_pass } = processed;
        let cid = command.cid;
        let open = self.open.remove(&command.tag);
        ensure(open == Some((cid, *source, *accepted)), || format!("{now}: {processed:?} is not open"))?;
        ensure(self.states.get(&cid) == Some(&(*entry, State::Valid)), || {
            format!("{now}: {processed:?} without context")
        })?;
        if *source == Source::Ulp {
            let first = self.ulp.entry(cid).or_default().pop_front();
            ensure(first == Some(command.tag), || format!("{now}: {processed:?} overtakes {first:?}"))?;
        }
        let hit = *accepted + self.parameters.lookup_cycles as u64;
        ensure(!first_pass || hit == now, || format!("{now}: {processed:?} is later than a hit"))?;
        let (found, expected) = (*cache.context(*entry), self.expected(cid));
        ensure(found == expected, || {
            format!("{now}: {cid:?} has lost an update: {found:?}, not {expected:?}")
        })?;
        self.contexts.insert(cid, expected.after(command));
        *self.pending.entry(cid).or_default() += u32::from(command.pending.is_some());
        self.processed += 1;
        Ok(())
    }

    fn request(&mut self, now: Cycle, cid: Cid, operation: Operation) -> Verdict {
        let earlier = self.memory.insert(cid, (operation, false));
        ensure(earlier.is_none(), || format!("{now}: {cid:?} {operation:?} beside {earlier:?}"))
    }

    fn transition(&mut self, now: Cycle, cache: &Cache, transition: &Transition, dropped: bool) -> Verdict {
        let Transition { cid, entry, event, from, to, waits } = *transition;
        let (number, state) = self.states.get(&cid).map_or((None, State::Invalid), |(n, s)| (Some(*n), *s));
        ensure(state == from, || format!("{now}: {transition:?} from {state:?}"))?;
        ensure(number.is_none() || number == entry, || format!("{now}: {transition:?} of {number:?}"))?;
        ensure(from == to || ARROWS.contains(&(from, to)), || {
            format!("{now}: {transition:?}: no such arrow")
        })?;
        let evicts = (from, event, to) == (State::Valid, Event::Evict, State::Evicting);
        if evicts {
            let pending = self.pending.get(&cid).copied().unwrap_or(0);
            ensure(pending == 0 && !cache.queues.contains(cid), || {
                format!("{now}: {transition:?} with {pending} pending")
            })?;
        }
        match event {
            Event::ReadCompletion | Event::WriteCompletion => {
                let complete = self.memory.remove(&cid);
                let operation =
                    if event == Event::ReadCompletion { Operation::Read } else { Operation::Write };
                ensure(complete == Some((operation, true)), || {
                    format!("{now}: {transition:?}: {complete:?}")
                })?;
            }
            Event::Result if !waits => {
                let result =
                    self.results.entry(cid).or_default().pop_front().ok_or("a result from nowhere")?;
                let mut context = self.expected(cid);
                context.merge(&result);
                self.contexts.insert(cid, context);
            }
            Event::FlushThrough | Event::FlushInstall if !waits => {
                let (of, context) = self.flush.take().ok_or("a flush from nowhere")?;
                ensure(of == cid, || format!("{now}: {transition:?}: flush of {of:?}"))?;
                self.contexts.insert(cid, context);
            }
            _ => {}
        }
        let reads_again = (from, event) == (State::Allocated, Event::WriteCompletion);
        let writes_through = (from, event, waits) == (State::Valid, Event::FlushThrough, false);
        if (from, to) == (State::Invalid, State::Allocated) || reads_again {
            self.request(now, cid, Operation::Read)?;
        }
        if to == State::Evicting && from != State::Evicting || writes_through {
            self.request(now, cid, Operation::Write)?;
        }
        self.states.remove(&cid);
        if let (Some(entry), true) = (entry, to != State::Invalid) {
            let shared = self.states.values().any(|(number, _)| *number == entry);
            ensure(!shared, || format!("{now}: {transition:?}: entry taken twice"))?;
            self.states.insert(cid, (entry, to));
        }
        // These take no arc: work that waits for an entry, an eviction that is refused, a dropped packet.
        let stays = from == to && (to == State::Invalid || event == Event::Evict || dropped);
        if !stays {
            self.reached.insert((from, event, to, waits));
        }
        Ok(())
    }

    fn issue(&mut self, now: Cycle, output: &CacheOutput<u32>) -> Verdict {
        let Some(issued) = output.issued else { return Ok(()) };
        for (at, cid, event) in &self.issued {
            let apart = now.since(*at);
            let stall = if *event == Event::WriteCompletion { self.parameters.deallocation_stall } else { 0 };
            let fits = apart >= self.parameters.command_cycles as u64 && apart > stall;
            ensure(*cid != issued.cid || fits, || {
                format!("{now}: {issued:?} too soon behind {event:?} at {at}")
            })?;
        }
        let window = self.parameters.deallocation_stall.max(self.parameters.command_cycles as u64);
        self.issued.retain(|(at, ..)| now.since(*at) <= window);
        self.issued.push((now, issued.cid, issued.event));
        Ok(())
    }

    /// Checks the end of a run: nothing is lost, and cache and memory together hold every expected context.
    pub(super) fn end(&self, cache: &Cache) -> Verdict {
        ensure(self.open.is_empty(), || format!("never processed: {:?}", self.open))?;
        ensure(self.memory.is_empty(), || format!("never completed: {:?}", self.memory))?;
        ensure(self.results.values().all(VecDeque::is_empty), || {
            format!("never merged: {:?}", self.results)
        })?;
        for cid in (0..self.parameters.connections).map(Cid) {
            let cached = cache.entry(cid).filter(|entry| entry.state == State::Valid);
            let found = cached.map_or(*cache.stored(cid), |entry| *cache.context(entry.entry));
            let expected = self.expected(cid);
            ensure(found == expected, || format!("{cid:?} ends as {found:?}, not {expected:?}"))?;
        }
        Ok(())
    }
}
