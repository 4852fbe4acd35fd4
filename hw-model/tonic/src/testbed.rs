//! One Tonic, a path to a receiver and back, on the clock of Tonic.

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

/// What a path does to packets. The default does nothing and takes 30 cycles there and back.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// From the output pins to the receiver, cycles.
    pub delay: u64,
    /// From there to the input pins, cycles.
    pub return_delay: u64,
    /// The link takes a segment every so many cycles.
    pub link_cycles: u64,
    /// Probability that a segment is lost.
    pub loss: Probability,
    /// Probability that a segment is trimmed.
    pub trim: Probability,
    /// Probability that a segment takes longer,
    pub late: Probability,
    /// by up to so many cycles.
    pub late_cycles: u64,
    /// Probability that a control packet is lost.
    pub control_loss: Probability,
    /// Decides all that is random.
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

/// What is under way, by when it arrives; those of one cycle in the order in which they were sent.
#[derive(Clone, Debug)]
struct UnderWay<T> {
    /// Those that keep their order.
    in_order: VecDeque<(Cycle, T)>,
    /// Those that take longer: the cycle, their place in `items`.
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

/// One Tonic and its receiver.
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
    /// Nothing has happened yet.
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

    /// Tonic's clock.
    pub const fn clock(&self) -> &Clock<Tonic<P, WORDS>> {
        &self.clock
    }

    /// Tonic, to be set up between two cycles.
    pub const fn tonic_mut(&mut self) -> &mut Tonic<P, WORDS> {
        self.clock.block_mut()
    }

    /// The receiver.
    pub const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Segments that left Tonic.
    pub const fn transmitted(&self) -> u64 {
        self.transmitted
    }

    fn happens(&mut self, probability: Probability) -> bool {
        let denominator = Probability::DENOMINATOR;
        probability != Probability::NEVER
            && self.random.random_ratio(probability.parts_per_billion(), denominator)
    }

    /// Computes the next cycle that is not idle, if it is before `end`: the cycle and Tonic's outputs.
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

    /// Runs until `end`, or until `done`.
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
