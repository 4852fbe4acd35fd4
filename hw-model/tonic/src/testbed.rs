//! A test bed: one Tonic, a receiver, and a path between them, all on Tonic's clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use clocked::{Clock, Cycle};
use fabric_model::Probability;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::engine::{Tonic, TonicInput, TonicOutput};
use super::packet::{ControlPacket, SegmentAddress};
use super::protocol::Protocol;
use super::receiver::{Arrival, Receiver};

/// The delays and impairments of a path. The default has no impairments and a round trip of 30 cycles.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The delay from the output pins to the receiver, in cycles.
    pub delay: u64,
    /// The delay from the receiver to the input pins, in cycles.
    pub return_delay: u64,
    /// The time in which the link takes one segment, in cycles.
    pub link_cycles: u64,
    /// The probability that a segment is lost.
    pub loss: Probability,
    /// The probability that a segment is trimmed.
    pub trim: Probability,
    /// The probability that a segment takes longer.
    pub late: Probability,
    /// The largest additional delay of such a segment, in cycles.
    pub late_cycles: u64,
    /// The probability that a control packet is lost.
    pub control_loss: Probability,
    /// The seed of all random decisions.
    pub seed: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            delay: 15,
            return_delay: 15,
            link_cycles: 1,
            loss: Probability::NEVER,
            trim: Probability::NEVER,
            late: Probability::NEVER,
            late_cycles: 0,
            control_loss: Probability::NEVER,
            seed: 0,
        }
    }
}

/// The items in flight, ordered by their arrival.
#[derive(Clone, Debug)]
struct UnderWay<T> {
    /// The items that keep their order.
    in_order: VecDeque<(Cycle, T)>,
    /// The items that take longer: the cycle of arrival, and the index in `items`.
    late: BinaryHeap<Reverse<(Cycle, usize)>>,
    items: Vec<T>,
}

impl<T: Copy> UnderWay<T> {
    const fn new() -> Self {
        Self { in_order: VecDeque::new(), late: BinaryHeap::new(), items: Vec::new() }
    }

    fn send(&mut self, arrives: Cycle, item: T, late: u64) {
        if late == 0 {
            self.in_order.push_back((arrives, item));
        } else {
            self.late.push(Reverse((arrives + late, self.items.len())));
            self.items.push(item);
        }
    }

    fn next(&self) -> Option<Cycle> {
        let in_order = self.in_order.front().map(|(cycle, _)| *cycle);
        let late = self.late.peek().map(|Reverse((cycle, _))| *cycle);
        in_order.into_iter().chain(late).min()
    }

    fn receive(&mut self, now: Cycle) -> Option<T> {
        if let Some((_, item)) = self.in_order.pop_front_if(|(cycle, _)| *cycle <= now) {
            return Some(item);
        }
        let place = self.late.peek().filter(|Reverse((cycle, _))| *cycle <= now)?.0.1;
        self.late.pop();
        Some(self.items[place])
    }
}

/// One Tonic with a receiver and the path between them.
pub struct Testbed<P: Protocol, const WORDS: usize = 2> {
    clock: Clock<Tonic<P, WORDS>>,
    receiver: Receiver,
    path: Path,
    random: StdRng,
    segments: UnderWay<Arrival>,
    packets: UnderWay<ControlPacket>,
    link_free: Cycle,
    transmitted: u64,
}

impl<P: Protocol, const WORDS: usize> Testbed<P, WORDS> {
    /// Creates a test bed in cycle 0.
    #[must_use]
    pub fn new(tonic: Tonic<P, WORDS>, receiver: Receiver, path: Path) -> Self {
        Self {
            clock: Clock::new(tonic),
            receiver,
            path,
            random: StdRng::seed_from_u64(path.seed),
            segments: UnderWay::new(),
            packets: UnderWay::new(),
            link_free: Cycle::ZERO,
            transmitted: 0,
        }
    }

    /// Returns Tonic's clock.
    pub const fn clock(&self) -> &Clock<Tonic<P, WORDS>> {
        &self.clock
    }

    /// Returns Tonic so that the caller can set it up between two cycles.
    pub const fn tonic_mut(&mut self) -> &mut Tonic<P, WORDS> {
        self.clock.block_mut()
    }

    /// Returns the receiver.
    pub const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Returns the number of segments that left Tonic.
    pub const fn transmitted(&self) -> u64 {
        self.transmitted
    }

    fn happens(&mut self, probability: Probability) -> bool {
        let denominator = Probability::DENOMINATOR;
        probability != Probability::NEVER
            && self.random.random_ratio(probability.parts_per_billion(), denominator)
    }

    /// Computes the next cycle that is not idle, if it is before `end`. Returns the cycle and Tonic's outputs.
    #[inline]
    pub fn step(&mut self, end: Cycle) -> Option<(Cycle, TonicOutput)> {
        let next = self.segments.next().into_iter().chain(self.packets.next()).min();
        self.clock.skip_idle(next.unwrap_or(end).min(end));
        let now = self.clock.now();
        if now >= end {
            return None;
        }
        self.deliver(now);
        let input = TonicInput { packet: self.packets.receive(now), link_ready: self.link_free <= now };
        let output = self.clock.step(&input);
        if let Some(address) = output.transmit {
            self.transmit(now, address);
        }
        Some((now, output))
    }

    /// Runs until cycle `end`, or until `done` returns true.
    pub fn run(&mut self, end: Cycle, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) && self.step(end).is_some() {}
    }

    fn deliver(&mut self, now: Cycle) {
        while let Some(arrival) = self.segments.receive(now) {
            let arrives = now + self.path.return_delay;
            let (packets, random) = (&mut self.packets, &mut self.random);
            let loss = self.path.control_loss.parts_per_billion();
            self.receiver.receive(now, &arrival, |packet| {
                if loss == 0 || !random.random_ratio(loss, Probability::DENOMINATOR) {
                    packets.send(arrives, packet, 0);
                }
            });
        }
    }

    fn transmit(&mut self, now: Cycle, address: SegmentAddress) {
        self.transmitted += 1;
        self.link_free = now + self.path.link_cycles;
        if self.happens(self.path.loss) {
            return;
        }
        let trimmed = self.happens(self.path.trim);
        let late = if self.happens(self.path.late) {
            self.random.random_range(1..=self.path.late_cycles.max(1))
        } else {
            0
        };
        let arrival = Arrival { address, sent: now, trimmed, marked: false };
        self.segments.send(now + self.path.delay, arrival, late);
    }
}
