//! Drives a cache and runs the checker in every cycle.

use std::collections::VecDeque;

use clocked::{Block, Clock, Cycle};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::ids::Cid;

use crate::{CacheInput, CacheOutput, Command, ContextCache, Counter, Flush, FlushMode, Parameters};

use super::checker::{Checker, Log};

/// A random load. The numbers are chances in 256 that a free input is used in a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) ulp: u8,
    pub(super) network: u8,
    pub(super) result: u8,
    pub(super) flush: u8,
    /// The chance in 256 that a command has work, and the maximum cycles of that work.
    pub(super) work: (u8, u64),
}

/// A cache with its environment: the logic that updates contexts, and the engines that report work done.
pub(super) struct Bench {
    pub(super) clock: Clock<ContextCache<Log, u32>>,
    pub(super) checker: Checker,
    update_after: u64,
    updates: VecDeque<(Cycle, Log)>,
    work: Vec<(Cycle, Cid, Counter)>,
    input: CacheInput<Log, u32>,
}

impl Bench {
    pub(super) fn new(parameters: &Parameters) -> Self {
        let cache = ContextCache::new(parameters, Log::default()).expect("valid parameters");
        Self {
            clock: Clock::new(cache),
            checker: Checker::new(parameters),
            update_after: parameters.command_cycles as u64 - 1,
            updates: VecDeque::new(),
            work: Vec::new(),
            input: CacheInput::default(),
        }
    }

    pub(super) fn cache(&self) -> &ContextCache<Log, u32> {
        self.clock.block()
    }

    /// Makes all work end now.
    pub(super) fn finish_work(&mut self) {
        self.work.iter_mut().for_each(|(at, ..)| *at = Cycle::ZERO);
    }

    fn work_done(&mut self, now: Cycle, counter: Counter) -> Option<Cid> {
        let due = self.work.iter().position(|(at, _, of)| *at <= now && *of == counter)?;
        Some(self.work.swap_remove(due).1)
    }

    /// Runs one cycle. `work` is the duration of the work of the command whose processing begins in this cycle.
    pub(super) fn cycle(
        &mut self,
        input: CacheInput<Log, u32>,
        work: u64,
    ) -> Result<CacheOutput<u32>, String> {
        let now = self.clock.now();
        let update = self.updates.pop_front_if(|(at, _)| *at == now).map(|(_, update)| update);
        let [transmit_done, reorder_done] =
            [Counter::Transmit, Counter::Reorder].map(|counter| self.work_done(now, counter));
        let input = CacheInput { update, transmit_done, reorder_done, ..input };
        // The logic beside the cache sees the state before the edge.
        let (seen, _) = self.cache().evaluate(now, &input);
        self.checker.cycle(now, self.clock.block(), &input, &seen)?;
        let read = seen.processed.map(|of| self.cache().context(of.entry).after(&of.command));
        let output = self.clock.step(&input);
        assert_eq!(output, seen, "evaluation is pure");
        if let (Some(processed), Some(update)) = (output.processed, read) {
            self.updates.push_back((now + self.update_after, update));
            if let Some(counter) = processed.command.pending {
                self.work.push((now + self.update_after + work, processed.command.cid, counter));
            }
        }
        Ok(output)
    }

    /// Runs without new input until nothing is in progress, for `limit` cycles at most.
    pub(super) fn drain(&mut self, limit: u64) -> Result<(), String> {
        for _ in 0..limit {
            self.cycle(CacheInput::default(), 0)?;
            if self.cache().is_quiet() && self.work.is_empty() && self.updates.is_empty() {
                return self.checker.end(self.cache());
            }
        }
        Err(format!("not done after {limit} cycles: {:?}", self.checker))
    }

    /// Runs for `cycles` cycles under a random load, then until everything is done.
    pub(super) fn run(&mut self, seed: u64, cycles: u64, load: &Load) -> Result<(), String> {
        let mut random = StdRng::seed_from_u64(seed);
        let connections = self.cache().parameters().connections;
        for number in 0..cycles as u32 {
            let mut chance = |of: u8| random.random_range(0..=255u8) < of;
            let [ulp, network, result, flush] =
                [load.ulp, load.network, load.result, load.flush].map(&mut chance);
            let has_work = [chance(load.work.0), chance(load.work.0)];
            let mut cid = || Cid(random.random_range(0..connections));
            let counters = [Counter::Transmit, Counter::Reorder];
            let mut command = |tag: u32| {
                let side = (tag % 2) as usize;
                Command { cid: cid(), pending: has_work[side].then_some(counters[side]), tag }
            };
            if ulp && self.input.ulp.is_none() {
                self.input.ulp = Some(command(2 * number));
            }
            if network && self.input.network.is_none() {
                self.input.network = Some(command(2 * number + 1));
            }
            if result && self.input.result.is_none() {
                self.input.result = Some((cid(), number));
            }
            if flush && self.input.flush.is_none() {
                let mode = if number % 2 == 0 { FlushMode::Through } else { FlushMode::Install };
                let context = Log { history: number.into(), result: 0 };
                self.input.flush = Some(Flush { cid: cid(), context, mode });
            }
            let work = random.random_range(0..=load.work.1);
            let output = self.cycle(self.input.clone(), work)?;
            if output.accepted.ulp {
                self.input.ulp = None;
            }
            if output.accepted.network {
                self.input.network = None;
            }
            if output.accepted.result {
                self.input.result = None;
            }
            if output.accepted.flush {
                self.input.flush = None;
            }
        }
        self.drain(200_000)
    }
}
