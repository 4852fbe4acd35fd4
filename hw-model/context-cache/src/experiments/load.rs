//! Measures a cache under a random load.

use std::collections::VecDeque;

use clocked::{Clock, Cycle};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};
use transport_common::ids::Cid;

use crate::{CacheInput, Command, ContextCache, Counter, ParameterError, Parameters, Statistics};

/// The load of a cache: transactions of the ULP. They wait when the cache does not accept them, so nothing is
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Exponent of the Zipf distribution of the commands over the connections. 0 means uniform.
    pub skew: f64,
    /// Cycles from one command to the next. 1 means as many commands as the cache takes.
    pub interval: u64,
    /// Cycles for which a command's work protects its entry from eviction.
    pub work: u64,
    /// Number of commands that are counted after the warm-up.
    pub commands: u64,
}

/// The result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Number of measured cycles.
    pub cycles: u64,
    /// The cache's counters over these cycles.
    pub statistics: Statistics,
    /// Median of the cycles from acceptance to processing.
    pub median: u64,
    /// 99th percentile of the cycles from acceptance to processing.
    pub percentile_99: u64,
}

impl Outcome {
    /// Returns the share of commands that hit, 0 to 1.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        self.statistics.hit_rate()
    }

    /// Returns the commands processed per cycle, or `None` if no cycles were measured.
    #[must_use]
    pub fn throughput(&self) -> Option<f64> {
        (self.cycles > 0).then(|| self.statistics.processed as f64 / self.cycles as f64)
    }
}

/// The distribution of commands over connections.
enum Popularity {
    Uniform(u32),
    Zipf(Zipf<f64>),
}

impl Popularity {
    fn new(connections: u32, skew: f64) -> Self {
        match Zipf::new(connections.into(), skew) {
            Ok(zipf) if skew > 0.0 => Self::Zipf(zipf),
            _ => Self::Uniform(connections),
        }
    }

    fn draw(&self, random: &mut SmallRng) -> Cid {
        match self {
            Self::Uniform(connections) => Cid(random.random_range(0..*connections)),
            Self::Zipf(zipf) => Cid(zipf.sample(random) as u32 - 1),
        }
    }
}

/// Longer latencies are counted as `LONGEST - 1` cycles.
const LONGEST: usize = 1 << 20;

struct Run {
    clock: Clock<ContextCache<(), ()>>,
    input: CacheInput<(), ()>,
    popularity: Popularity,
    random: SmallRng,
    load: Load,
    next: Cycle,
    work: VecDeque<(Cycle, Cid)>,
    latencies: Vec<u64>,
}

impl Run {
    fn cycle(&mut self) {
        let now = self.clock.now();
        if self.input.ulp.is_none() && self.next <= now {
            let pending = (self.load.work > 0).then_some(Counter::Transmit);
            let cid = self.popularity.draw(&mut self.random);
            self.input.ulp = Some(Command { cid, pending, tag: () });
            self.next = now + self.load.interval;
        }
        self.input.transmit_done = self.work.pop_front_if(|(due, _)| *due <= now).map(|(_, cid)| cid);
        let output = self.clock.step(&self.input);
        if output.accepted.ulp {
            self.input.ulp = None;
        }
        if let Some(processed) = output.processed {
            let latency = now.since(processed.accepted) as usize;
            self.latencies[latency.min(LONGEST - 1)] += 1;
            if self.load.work > 0 {
                let updated = self.clock.block().parameters().command_cycles as u64;
                self.work.push_back((now + updated + self.load.work, processed.command.cid));
            }
        }
        if self.input.ulp.is_none() {
            let work = self.work.front().map_or(Cycle::NEVER, |(due, _)| *due);
            self.clock.skip_idle(self.next.min(work));
        }
    }

    fn statistics(&self) -> &Statistics {
        self.clock.block().statistics()
    }

    fn quantile(&self, of: f64) -> u64 {
        let rank = self.latencies.iter().sum::<u64>() as f64 * of;
        let mut count = 0;
        let reaches = |latency: &u64| {
            count += latency;
            count as f64 >= rank
        };
        self.latencies.iter().position(reaches).unwrap_or(0) as u64
    }
}

/// Warms up a cache, then measures it. The whole run ends at cycle `limit` at the latest.
///
/// The warm-up ends when the cache has read four contexts or processed 40 commands for each of its entries.
///
/// # Errors
/// Returns an error if a parameter is out of range.
pub fn measure(parameters: &Parameters, load: Load, limit: Cycle) -> Result<Outcome, ParameterError> {
    let cache = ContextCache::new(parameters, ())?;
    let mut run = Run {
        clock: Clock::new(cache),
        input: CacheInput::default(),
        popularity: Popularity::new(parameters.connections, load.skew),
        random: SmallRng::seed_from_u64(parameters.seed.wrapping_add(1)),
        load,
        next: Cycle::ZERO,
        work: VecDeque::new(),
        latencies: vec![0; LONGEST],
    };
    let entries = u64::from(parameters.entries);
    while run.statistics().memory_reads < 4 * entries
        && run.statistics().processed < 40 * entries
        && run.clock.now() < limit
    {
        run.cycle();
    }
    run.latencies.fill(0);
    let (from, warm) = (run.clock.now(), *run.statistics());
    while run.statistics().processed < warm.processed.saturating_add(load.commands) && run.clock.now() < limit
    {
        run.cycle();
    }
    Ok(Outcome {
        cycles: run.clock.now().since(from),
        statistics: run.statistics().since(&warm),
        median: run.quantile(0.5),
        percentile_99: run.quantile(0.99),
    })
}

/// The popularities of connections, for the theory of a cache under independent references.
#[derive(Clone, Debug)]
pub struct IndependentReferences {
    /// The share of each connection in all commands.
    shares: Vec<f64>,
}

impl IndependentReferences {
    /// Creates connections whose popularity follows Zipf's law with the exponent `skew`.
    #[must_use]
    pub fn new(connections: u32, skew: f64) -> Self {
        let mut shares: Vec<f64> = (1..=connections).map(|rank| f64::from(rank).powf(-skew)).collect();
        let sum: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        Self { shares }
    }

    /// Returns the hit rate when every command chooses its connection independently. It is the same for random and
    /// FIFO replacement. The characteristic time T solves sum of p T / (1 + p T) = entries (Gelenbe 1973; Fricker,
    /// Robert, Roberts 2012).
    #[must_use]
    pub fn hit_rate(&self, entries: u32) -> f64 {
        let entries = f64::from(entries);
        if entries >= self.shares.len() as f64 {
            return 1.0;
        }
        let inside = |share: f64, time: f64| share * time / (1.0 + share * time);
        let occupied = |time: f64| self.shares.iter().map(|share| inside(*share, time)).sum::<f64>();
        // `entries` is a time too short to fill the cache, because p T / (1 + p T) < p T and the shares sum to 1.
        let (mut low, mut high) = (0.0, entries);
        while occupied(high) < entries {
            high *= 4.0;
        }
        for _ in 0..24 {
            let middle = (low + high) / 2.0;
            if occupied(middle) < entries { low = middle } else { high = middle }
        }
        self.shares.iter().map(|share| share * inside(*share, high)).sum()
    }
}
