//! Incast: many initiators push to one target, with or without solicitation.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use anyhow::{Result, bail};
use clocked::{Clock, Cycle};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use transport_common::ids::{Cid, Rsn};

use crate::solicitation::{
    Body, GrantPool, Initiator, Message, Numbers, Packet, Request, SolicitationError, Target, UlpRequest,
};
use crate::{CacheInput, Command, ContextCache, Parameters, Source};

use super::common::{experiment, limit};

/// An incast. The messages of the target go through a context cache. Times are in cycles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incast {
    /// Number of initiators. Each has one connection.
    pub initiators: u32,
    /// Number of pushes of each initiator. All start at cycle 0.
    pub pushes: u32,
    /// Bytes of a push.
    pub bytes: u32,
    /// True if pushes are solicited.
    pub solicited: bool,
    /// Maximum number of bytes that are granted and not placed.
    pub room: u64,
    /// Minimum number of cycles of a message from end to end.
    pub one_way: u64,
    /// Maximum random addition to `one_way`, in cycles. It changes the order of messages.
    pub spread: u64,
    /// Bytes that the target's ULP places per cycle.
    pub bytes_per_cycle: u32,
    /// The target's cache.
    pub cache: Parameters,
}

/// The result of an [`Incast`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncastOutcome {
    /// Cycles until the last push was complete for its initiator's ULP.
    pub cycles: u64,
    /// Number of completed pushes.
    pub complete: u64,
    /// The largest number of bytes that were sent and not placed. They are in the network or in the target's
    /// buffer.
    pub peak_bytes: u64,
    /// Commands that the target's cache processed.
    pub commands: u64,
}

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    ToTarget(u32),
    ToInitiator(u32),
    Placed { connection: u32, rsn: u32 },
}

/// The subject of a command in the target's cache.
#[derive(Clone, Copy, Debug)]
enum Tag {
    Message(Message),
    UlpAck(Rsn),
}

struct World<'a> {
    incast: &'a Incast,
    clock: Clock<ContextCache<(), Tag>>,
    initiators: Vec<Initiator>,
    targets: Vec<Target>,
    pool: GrantPool,
    random: SmallRng,
    /// Time, order of entry, and event. The order of entry is also the index of its message in `messages`.
    events: BinaryHeap<Reverse<(Cycle, u64, Event)>>,
    messages: Vec<Option<Message>>,
    network: VecDeque<Command<Tag>>,
    ulp: VecDeque<Command<Tag>>,
    ulp_free_at: Cycle,
    on_the_way: u64,
    outcome: IncastOutcome,
}

impl World<'_> {
    fn schedule(&mut self, at: Cycle, event: Event, message: Option<Message>) {
        let ordinal = self.messages.len() as u64;
        self.messages.push(message);
        self.events.push(Reverse((at, ordinal, event)));
    }

    fn delay(&mut self) -> u64 {
        self.incast.one_way + self.random.random_range(0..=self.incast.spread)
    }

    /// Sends the messages of both ends of a connection, passes requests to the ULP, and counts completions.
    fn poll(&mut self, connection: u32) {
        let now = self.clock.now();
        let of = connection as usize;
        while let Some(message) = self.initiators[of].poll() {
            if let Message::Packet(Packet {
                body: Body::PushSolicitedData { bytes } | Body::PushUnsolicitedData { bytes },
                ..
            }) = message
            {
                self.on_the_way += u64::from(bytes);
                self.outcome.peak_bytes = self.outcome.peak_bytes.max(self.on_the_way);
            }
            let at = now + self.delay();
            self.schedule(at, Event::ToTarget(connection), Some(message));
        }
        while let Some(message) = self.targets[of].poll() {
            let at = now + self.delay();
            self.schedule(at, Event::ToInitiator(connection), Some(message));
        }
        while let Some(request) = self.targets[of].poll_ulp() {
            let (UlpRequest::Place { rsn, bytes } | UlpRequest::Give { rsn, bytes }) = request;
            let time = bytes.div_ceil(self.incast.bytes_per_cycle);
            self.ulp_free_at = self.ulp_free_at.max(now) + u64::from(time);
            self.schedule(self.ulp_free_at, Event::Placed { connection, rsn: rsn.0 }, None);
        }
        while self.initiators[of].poll_completion().is_some() {
            self.outcome.complete += 1;
            self.outcome.cycles = now.0;
        }
    }

    fn happens(&mut self, event: Event, message: Option<Message>) -> Result<(), SolicitationError> {
        let command = |connection, tag| Command { cid: Cid(connection), pending: None, tag };
        match (event, message) {
            (Event::ToTarget(connection), Some(message)) => {
                self.network.push_back(command(connection, Tag::Message(message)));
            }
            (Event::ToInitiator(connection), Some(message)) => {
                self.initiators[connection as usize].receive(message)?;
                self.poll(connection);
            }
            (Event::Placed { connection, rsn }, _) => {
                self.on_the_way -= u64::from(self.incast.bytes);
                self.ulp.push_back(command(connection, Tag::UlpAck(Rsn(rsn))));
            }
            _ => {}
        }
        Ok(())
    }

    fn processed(&mut self, command: &Command<Tag>, source: Source) -> Result<(), SolicitationError> {
        let connection = command.cid.0;
        let target = &mut self.targets[connection as usize];
        match command.tag {
            Tag::Message(message) => target.receive(message, &mut self.pool)?,
            Tag::UlpAck(rsn) => target.ulp_ack(rsn, &mut self.pool)?,
        }
        self.poll(connection);
        if source == Source::Ulp && self.incast.solicited {
            // Any connection may use the returned space. The others are tried in order, starting after this one.
            let all = self.incast.initiators;
            for other in (1..all).map(|step| (connection + step) % all) {
                self.targets[other as usize].grant(&mut self.pool);
                self.poll(other);
            }
        }
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), SolicitationError> {
        let now = self.clock.now();
        while let Some(Reverse((at, ordinal, event))) = self.events.peek().copied()
            && at <= now
        {
            self.events.pop();
            let message = self.messages[ordinal as usize].take();
            self.happens(event, message)?;
        }
        let input = CacheInput {
            ulp: self.ulp.front().copied(),
            network: self.network.front().copied(),
            ..CacheInput::default()
        };
        let output = self.clock.step(&input);
        if output.accepted.ulp {
            self.ulp.pop_front();
        }
        if output.accepted.network {
            self.network.pop_front();
        }
        // The sliding window retransmits what was dropped.
        self.network.extend(output.dropped);
        if let Some(processed) = output.processed {
            self.outcome.commands += 1;
            self.processed(&processed.command, processed.source)?;
        }
        if self.ulp.is_empty() && self.network.is_empty() {
            let next = self.events.peek().map_or(Cycle::NEVER, |Reverse((at, ..))| *at);
            self.clock.skip_idle(next);
        }
        Ok(())
    }
}

impl Incast {
    /// Runs until all pushes are complete, or until the cycle `limit`.
    ///
    /// # Errors
    /// Returns an error if a cache parameter is out of range, a push is larger than `room`, `initiators` is 0 or
    /// more than the cache's connections, or `bytes_per_cycle` is 0.
    pub fn run(&self, limit: Cycle) -> Result<IncastOutcome> {
        if self.initiators == 0 || self.initiators > self.cache.connections || self.bytes_per_cycle == 0 {
            bail!(
                "{} initiators and {} bytes per cycle are impossible: set 1 or more of each, {} initiators at most",
                self.initiators,
                self.bytes_per_cycle,
                self.cache.connections
            );
        }
        let numbers = Numbers::default();
        let initiator = Initiator::new(self.solicited.then_some(1), numbers, numbers);
        let mut world = World {
            incast: self,
            clock: Clock::new(ContextCache::new(&self.cache, ())?),
            initiators: vec![initiator; self.initiators as usize],
            targets: vec![Target::new(numbers, numbers); self.initiators as usize],
            pool: GrantPool::new(self.room),
            random: SmallRng::seed_from_u64(self.cache.seed),
            events: BinaryHeap::new(),
            messages: Vec::new(),
            network: VecDeque::new(),
            ulp: VecDeque::new(),
            ulp_free_at: Cycle::ZERO,
            on_the_way: 0,
            outcome: IncastOutcome { cycles: 0, complete: 0, peak_bytes: 0, commands: 0 },
        };
        for connection in 0..self.initiators {
            for _ in 0..self.pushes {
                world.initiators[connection as usize].submit(Request::Push { bytes: self.bytes })?;
            }
            world.poll(connection);
        }
        let all = u64::from(self.initiators) * u64::from(self.pushes);
        while world.outcome.complete < all && world.clock.now() < limit {
            world.cycle()?;
        }
        Ok(world.outcome)
    }
}

/// Runs `cache-push`: the benefit of solicited push for a target, and its cost.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn push(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let cache = Parameters { seed: options.seed, ..Parameters::default() };
    let mut report = experiment(
        "cache-push",
        "What does asking before pushing do for the target?",
        "Each initiator pushes 16 times 4 KiB to one target. All pushes start at the same time. The network takes \
         5.0 to 5.5 us. The target's ULP places 25 B per cycle (200 Gb/s). A solicited push waits for a grant, \
         and at most 1 MB is granted and not placed. Every message of the target goes through its context cache.",
        options,
        &cache,
    );
    let base = Incast {
        initiators: 1,
        pushes: 16,
        bytes: 4096,
        solicited: false,
        room: 1_000_000,
        one_way: 5_000,
        spread: 500,
        bytes_per_cycle: 25,
        cache,
    };
    let counts = [1, 4, 16, 64, 256, 1024];
    let steps = 2 * (counts.len() + 1);
    let mut figure =
        Figure::new("bytes", "Most bytes on the way to the target or in its buffer", "initiators", "kB")
            .log_x()
            .log_y();
    let mut lone = Vec::new();
    for (place, solicited) in [false, true].into_iter().enumerate() {
        let name = if solicited { "solicited" } else { "unsolicited" };
        let mut peaks = Vec::new();
        let one = Incast { solicited, pushes: 1, spread: 0, ..base.clone() }.run(limit(options))?;
        lone.push(one.cycles as f64 / 1000.0);
        for (done, initiators) in counts.into_iter().enumerate() {
            progress(place * (counts.len() + 1) + done, steps);
            let incast = Incast { initiators, solicited, ..base.clone() };
            let outcome = incast.run(limit(options))?;
            let pushes = f64::from(initiators * incast.pushes);
            let placing = pushes * f64::from(incast.bytes.div_ceil(incast.bytes_per_cycle));
            peaks.push([f64::from(initiators), outcome.peak_bytes as f64 / 1000.0]);
            let case = Case::new(format!("{name}, {initiators} initiators"))
                .with("complete", 100.0 * outcome.complete as f64 / pushes, "%")
                .with("last complete", outcome.cycles as f64 / 1000.0, "us")
                .with("of which placing", placing / 1000.0, "us")
                .with("placing busy", 100.0 * placing / outcome.cycles as f64, "%")
                .with("most bytes", outcome.peak_bytes as f64 / 1000.0, "kB")
                .with("commands per push", outcome.commands as f64 / pushes, "");
            report.verdicts.push(Verdict::of(&case, "complete", Bound::AtLeast(100.0)));
            if solicited {
                report.verdicts.push(Verdict::of(&case, "most bytes", Bound::AtMost(1000.0)));
            }
            if initiators == 1024 {
                // The space of 1 MB is more than the ULP places in a round trip of 10.5 us at 25 B per cycle.
                report.verdicts.push(Verdict::of(&case, "placing busy", Bound::AtLeast(95.0)));
            }
            report.cases.push(case);
        }
        figure = figure.line(Look::Main, name, peaks);
    }
    progress(steps, steps);
    let case = Case::new("a lone push").with("unsolicited", lone[0], "us").with("solicited", lone[1], "us");
    let more = lone[1] - lone[0];
    report.verdicts.push(Verdict::new(
        "a lone solicited push takes longer by",
        more,
        "us",
        Bound::AtLeast(10.0),
    ));
    report.verdicts.push(Verdict::new(
        "a lone solicited push takes longer by",
        more,
        "us",
        Bound::AtMost(10.5),
    ));
    report.cases.push(case);
    report.figures.push(figure.level("room", 1000.0));
    Ok(report)
}
