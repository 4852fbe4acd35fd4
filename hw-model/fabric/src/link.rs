//! A link out of a switch: its queue, its wire, and what it decides about each frame.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::buffer::Memory;
use super::header::{self, Class};
use super::impairments::{Impairments, Scope};
use super::outgoing::{Name, Outgoing};
use super::priority::PriorityQueues;
use super::random::{Decision, Draws};
use super::stats::{BitFlip, Corruption, LinkStats};
use super::time::{Span, Time};

/// Corruptions kept in a link's log; later ones are only counted.
const LOG_LIMIT: usize = 1 << 16;
/// Bytes of a corrupted frame kept in the log: Ethernet, IPv6 and UDP headers.
const LOGGED_HEADER: usize = 62;

/// A frame held back, as its direction remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Held {
    /// Released once so many frames of the direction have passed.
    pub(super) until_passed: u64,
    /// The frame's event; stale if the frame's slot now has another.
    pub(super) event: u64,
    /// The frame's slot.
    pub(super) slot: usize,
}

/// What is remembered of the frames between one port and another.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// Frames so far that took an ordinal, which is the next frame's ordinal.
    next_ordinal: u64,
    /// The Gilbert-Elliott state.
    in_burst: bool,
    /// Frames that went by without being held back.
    pub(super) passed: u64,
    /// Frames held back, the first to be released on top.
    pub(super) held: BinaryHeap<Reverse<Held>>,
    /// Highest ordinal delivered.
    highest_delivered: Option<u64>,
}

impl Direction {
    /// Takes the next frame held back that as many have passed as were to.
    pub(super) fn pop_overtaken(&mut self) -> Option<Held> {
        self.held.peek().filter(|Reverse(held)| held.until_passed <= self.passed)?;
        self.held.pop().map(|Reverse(held)| held)
    }

    /// Notes a delivery. True if a frame with a higher ordinal came before (RFC 4737, 3.3).
    pub(super) fn deliver(&mut self, ordinal: u64) -> bool {
        let reordered = self.highest_delivered.is_some_and(|highest| highest > ordinal);
        self.highest_delivered = self.highest_delivered.max(Some(ordinal));
        reordered
    }
}

/// What becomes of a frame that comes to a link.
#[derive(Debug)]
pub(super) enum Admission {
    /// Its last bit leaves at that instant.
    Departs(Outgoing, Time),
    /// It waits, the first to do so: call [`Link::serve`] at that instant.
    Serve(Time),
    /// Nothing more to do: it waits behind others, or was dropped, and counted.
    Settled,
}

/// How a frame that was not dropped travels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    /// When it reaches the end of the link if it is not held back.
    pub(super) arrival: Time,
    /// Frames that are to overtake it, if it is held back.
    pub(super) behind: Option<u64>,
}

/// A link towards a host or another switch.
#[derive(Debug)]
pub(super) struct Link {
    /// Its number, which its decisions depend on: that of the port it leads to, or a higher one.
    number: u16,
    impairments: Impairments,
    pub(super) up: bool,
    /// By port of origin, as far as frames have come from there.
    directions: Vec<Direction>,
    /// When the last bit of each frame in the queue leaves, and the frame's bytes.
    queue: VecDeque<(Time, u64)>,
    queued_bytes: u64,
    /// Frames whose turn is not decided yet, on a link that trims.
    waiting: PriorityQueues,
    /// When the last bit in the queue leaves.
    busy_until: Time,
    /// When the last frame that was not held back arrives: the wire keeps order.
    last_arrival: Time,
    pub(super) stats: LinkStats,
    pub(super) corruptions: Vec<Corruption>,
}

impl Link {
    pub(super) fn new(number: u16, impairments: Impairments) -> Self {
        Self {
            number,
            impairments,
            up: true,
            directions: vec![],
            queue: VecDeque::new(),
            queued_bytes: 0,
            waiting: PriorityQueues::default(),
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            stats: LinkStats::default(),
            corruptions: Vec::new(),
        }
    }

    pub(super) fn impairments(&self) -> &Impairments {
        &self.impairments
    }

    /// From now on. What is queued keeps its times, bursts and ordinals go on.
    pub(super) fn set_impairments(&mut self, impairments: Impairments) {
        self.impairments = impairments;
    }

    /// False while the link is switched off or an outage lasts.
    pub(super) fn is_up(&self, now: Time) -> bool {
        self.up && !self.impairments.down.iter().any(|outage| outage.from <= now && now < outage.until)
    }

    /// What is remembered of the frames from a port.
    pub(super) fn direction(&mut self, ingress: u16) -> &mut Direction {
        let index = usize::from(ingress);
        if index >= self.directions.len() {
            self.directions.resize_with(index + 1, Direction::default);
        }
        &mut self.directions[index]
    }

    /// Bytes queued at `now`, those of the frame on the wire included.
    pub(super) fn queued_bytes(&self, now: Time) -> u64 {
        let gone = self.queue.iter().take_while(|(departure, _)| *departure <= now);
        let on_their_way = self.queued_bytes - gone.map(|(_, bytes)| bytes).sum::<u64>();
        on_their_way + self.waiting.data_bytes + self.waiting.header_bytes
    }

    fn draws(&self, seed: u64, name: Name) -> Draws {
        Draws::new(seed, name.ingress, self.number, name.ordinal, name.copy)
    }

    /// Gives a frame its ordinal and takes the burst chain's step. `None`, and counted, if the frame is out of
    /// scope, not to be impaired.
    pub(super) fn enter(&mut self, seed: u64, ingress: u16, class: Class) -> Option<Name> {
        let in_scope = match self.impairments.scope {
            Scope::Ip => class != Class::Housekeeping,
            Scope::Udp => class == Class::Udp,
        };
        if !in_scope {
            self.stats.spared += 1;
            return None;
        }
        let (number, burst) = (self.number, self.impairments.burst);
        let direction = self.direction(ingress);
        let ordinal = direction.next_ordinal;
        direction.next_ordinal += 1;
        let draws = Draws::new(seed, ingress, number, ordinal, 0);
        direction.in_burst = burst.is_some_and(|burst| {
            let turn = if direction.in_burst { burst.leave } else { burst.enter };
            direction.in_burst ^ draws.of(Decision::BurstTransition).happens(turn)
        });
        Some(Name { ingress, ordinal, copy: 0, in_burst: direction.in_burst })
    }

    /// Decides the frame's loss and counts it.
    pub(super) fn loses(&mut self, seed: u64, name: Name) -> bool {
        let draws = self.draws(seed, name);
        let burst = self.impairments.burst.filter(|_| name.in_burst);
        if burst.is_some_and(|burst| draws.of(Decision::BurstLoss).happens(burst.loss)) {
            self.stats.burst_lost += 1;
            return true;
        }
        let lost = draws.of(Decision::Loss).happens(self.impairments.loss);
        self.stats.lost += u64::from(lost);
        lost
    }

    /// Decides whether the frame is sent twice.
    pub(super) fn duplicates(&self, seed: u64, name: Name) -> bool {
        self.draws(seed, name).of(Decision::Duplicate).happens(self.impairments.duplicate)
    }

    /// Lowers the hop limit; false, and counted, if that ends the frame's way.
    pub(super) fn pass_hops(&mut self, frame: &mut [u8], class: Class) -> bool {
        let passes = class == Class::Housekeeping || header::pass_hops(frame, self.impairments.hops);
        self.stats.hop_limit_expired += u64::from(!passes);
        passes
    }

    /// Takes one frame, or one copy of it: tail drop or trimming, and ECN.
    pub(super) fn admit(&mut self, seed: u64, mut outgoing: Outgoing, memory: &mut Memory) -> Admission {
        let now = outgoing.way.time;
        self.forget_departed(now);
        memory.advance(now);
        let trim = self.impairments.trim.map(|length| (length.0 as usize).max(header::LEAST_TRIMMED));
        let is_control = |outgoing: &Outgoing, length| {
            outgoing.class != Class::Housekeeping && outgoing.frame.len() <= length
        };
        if trim.is_some_and(|length| is_control(&outgoing, length)) {
            return self.admit_header(outgoing, memory);
        }
        let occupancy = self.queued_bytes + self.waiting.data_bytes + outgoing.bytes();
        let fits = self.impairments.rate.is_none()
            || (occupancy <= self.impairments.queue.0 && memory.admits(occupancy, outgoing.bytes()));
        if fits {
            self.mark(&mut outgoing, occupancy);
            return self.admit_data(outgoing, memory);
        }
        match trim.filter(|_| outgoing.class != Class::Housekeeping) {
            Some(length) => self.trim(seed, outgoing, length, memory),
            None => self.refuse(occupancy),
        }
    }

    /// Counts a frame that the queue or the memory has no room for.
    fn refuse(&mut self, occupancy: u64) -> Admission {
        let is_queue_full = occupancy > self.impairments.queue.0;
        let counter =
            if is_queue_full { &mut self.stats.queue_dropped } else { &mut self.stats.buffer_dropped };
        *counter += 1;
        Admission::Settled
    }

    fn mark(&mut self, outgoing: &mut Outgoing, occupancy: u64) {
        if outgoing.class != Class::Housekeeping
            && self.impairments.ecn.is_some_and(|threshold| occupancy > threshold.0)
            && header::mark_congestion(&mut outgoing.frame, self.impairments.ecn_mark)
        {
            self.stats.ecn_marked += 1;
        }
    }

    /// Cuts the frame that came or the last one that waits, on equal odds: flows in step would else be cut in step
    /// (Handley et al., section 3.1). What waits stays within its bounds, as only a longer frame gives way.
    fn trim(&mut self, seed: u64, mut outgoing: Outgoing, length: usize, memory: &mut Memory) -> Admission {
        let may_give_way = self.waiting.last_data().is_some_and(|last| {
            last.class != Class::Housekeeping && last.frame.len() >= outgoing.frame.len()
        });
        let other = outgoing.name.is_some_and(|name| self.draws(seed, name).of(Decision::Trim).below(2) == 1);
        self.stats.trimmed += 1;
        if may_give_way
            && other
            && let Some(last) = self.waiting.pop_last_data()
        {
            memory.give_back(last.bytes());
            self.stats.in_flight -= 1;
            let occupancy = self.queued_bytes + self.waiting.data_bytes + outgoing.bytes();
            self.mark(&mut outgoing, occupancy);
            self.keep(&outgoing, memory);
            self.waiting.push_data(core::mem::replace(&mut outgoing, last));
        }
        outgoing.frame.truncate(length);
        self.admit_header(outgoing, memory)
    }

    /// A header, or a frame no longer than one: it goes before all data.
    fn admit_header(&mut self, outgoing: Outgoing, memory: &mut Memory) -> Admission {
        let occupancy = self.waiting.header_bytes + outgoing.bytes();
        let is_limited = self.impairments.rate.is_some();
        if is_limited && occupancy > self.impairments.header_queue.0 {
            self.stats.queue_dropped += 1;
            return Admission::Settled;
        }
        if is_limited && !memory.has_room(outgoing.bytes()) {
            self.stats.buffer_dropped += 1;
            return Admission::Settled;
        }
        self.admit_waiting(outgoing, memory, PriorityQueues::push_header)
    }

    fn admit_data(&mut self, outgoing: Outgoing, memory: &mut Memory) -> Admission {
        if self.impairments.trim.is_some() || !self.waiting.is_empty() {
            return self.admit_waiting(outgoing, memory, PriorityQueues::push_data);
        }
        // First come, first served: its time is known at once.
        self.keep(&outgoing, memory);
        let departure = self.transmit(outgoing.way.time, outgoing.bytes(), memory);
        Admission::Departs(outgoing, departure)
    }

    /// A frame of a link that trims: on the wire if that is free, else into its queue.
    fn admit_waiting(
        &mut self,
        outgoing: Outgoing,
        memory: &mut Memory,
        push: fn(&mut PriorityQueues, Outgoing),
    ) -> Admission {
        let now = outgoing.way.time;
        self.keep(&outgoing, memory);
        let is_first = self.waiting.is_empty();
        if is_first && self.busy_until <= now {
            let departure = self.transmit(now, outgoing.bytes(), memory);
            return Admission::Departs(outgoing, departure);
        }
        push(&mut self.waiting, outgoing);
        let queued = self.queued_bytes + self.waiting.data_bytes + self.waiting.header_bytes;
        self.stats.queue_peak = self.stats.queue_peak.max(queued);
        if is_first { Admission::Serve(self.busy_until) } else { Admission::Settled }
    }

    /// Puts the next frame that waits onto the wire, which is free now: the frame, when its last bit leaves, and when
    /// to serve the link again, if more wait.
    pub(super) fn serve(&mut self, now: Time, memory: &mut Memory) -> Option<(Outgoing, Time, Option<Time>)> {
        self.forget_departed(now);
        let outgoing = self.waiting.pop()?;
        let departure = self.transmit(now, outgoing.bytes(), memory);
        Some((outgoing, departure, (!self.waiting.is_empty()).then_some(departure)))
    }

    /// Counts a frame that will leave by this link.
    fn keep(&mut self, outgoing: &Outgoing, memory: &mut Memory) {
        self.stats.in_flight += 1;
        memory.take(outgoing.bytes());
    }

    fn forget_departed(&mut self, now: Time) {
        while let Some(&(_, bytes)) = self.queue.front().filter(|(departure, _)| *departure <= now) {
            self.queue.pop_front();
            self.queued_bytes -= bytes;
        }
    }

    /// Serialisation behind what is queued. The instant the frame's last bit leaves.
    fn transmit(&mut self, now: Time, bytes: u64, memory: &mut Memory) -> Time {
        // A rate switched off lets what is queued leave first.
        let start = self.busy_until.max(now);
        let departure = start + self.impairments.rate.map_or(Span::ZERO, |rate| rate.time_of(bytes));
        if departure > now {
            self.queue.push_back((departure, bytes));
            self.queued_bytes += bytes;
            let queued = self.queued_bytes + self.waiting.data_bytes + self.waiting.header_bytes;
            self.stats.queue_peak = self.stats.queue_peak.max(queued);
            self.busy_until = departure;
        }
        memory.departs(departure, bytes);
        departure
    }

    /// When a MAC control frame arrives: behind the frame that is on the wire, before those that wait.
    pub(super) fn control(&mut self, now: Time, bytes: u64) -> Time {
        self.stats.offered += 1;
        self.stats.in_flight += 1;
        self.forget_departed(now);
        let free = self.queue.front().map_or(now, |(departure, _)| *departure);
        free + self.impairments.rate.map_or(Span::ZERO, |rate| rate.time_of(bytes)) + self.impairments.delay
    }

    /// Corruption, delay and reordering of a frame whose last bit leaves at `departure`.
    pub(super) fn launch(&mut self, seed: u64, departure: Time, outgoing: &mut Outgoing) -> Passage {
        let Some(name) = outgoing.name else {
            return Passage { arrival: self.arrival(departure, Span::ZERO), behind: None };
        };
        let draws = self.draws(seed, name);
        if draws.of(Decision::Corrupt).happens(self.impairments.corrupt) {
            self.corrupt(draws, name, &mut outgoing.frame);
        }
        let jitter = Span(draws.of(Decision::Jitter).below(self.impairments.jitter.0.saturating_add(1)));
        if !draws.of(Decision::Reorder).happens(self.impairments.reorder) {
            return Passage { arrival: self.arrival(departure, jitter), behind: None };
        }
        self.stats.held_back += 1;
        let distance = u64::from(self.impairments.reorder_distance.get());
        let behind = 1 + draws.of(Decision::ReorderDistance).below(distance);
        let arrival = departure + self.impairments.delay + jitter + self.impairments.reorder_hold;
        Passage { arrival, behind: Some(behind) }
    }

    fn arrival(&mut self, departure: Time, jitter: Span) -> Time {
        self.last_arrival = self.last_arrival.max(departure + self.impairments.delay + jitter);
        self.last_arrival
    }

    /// Flips distinct bits behind the Ethernet header: the check sequence of a frame damaged before the
    /// header was rewritten would have failed at the next switch.
    fn corrupt(&mut self, draws: Draws, name: Name, frame: &mut [u8]) {
        let header = frame[..frame.len().min(LOGGED_HEADER)].to_vec();
        let bits = (frame.len() - header::ETHERNET) * 8;
        let mut places = draws.of(Decision::CorruptPlace);
        let mut flips = Vec::new();
        for _ in 0..usize::from(self.impairments.corrupt_bits.get()).min(bits) {
            let mut position = places.below(bits as u64) as usize;
            let flip = loop {
                let flip = BitFlip { offset: header::ETHERNET + position / 8, bit: (position % 8) as u8 };
                // A bit flipped twice is a bit not flipped: take the next free one.
                if !flips.contains(&flip) {
                    break flip;
                }
                position = (position + 1) % bits;
            };
            frame[flip.offset] ^= 1 << flip.bit;
            flips.push(flip);
        }
        if flips.is_empty() {
            return;
        }
        self.stats.corrupted += 1;
        if self.corruptions.len() < LOG_LIMIT {
            let Name { ingress, ordinal, copy, .. } = name;
            self.corruptions.push(Corruption { ingress, ordinal, copy, header, length: frame.len(), flips });
        }
    }
}
