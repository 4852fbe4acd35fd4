//! A link out of a switch: its queue, its wire, and its decisions about each frame.

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

/// Maximum number of corruptions in a link's log. Later ones are only counted.
const LOG_LIMIT: usize = 1 << 16;
/// Bytes of a corrupted frame in the log: Ethernet, IPv6 and UDP headers.
const LOGGED_HEADER: usize = 62;

/// A held frame, as its direction stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Held {
    /// The frame is released when this many frames of the direction have passed.
    pub(super) until_passed: u64,
    /// The frame's event. It is stale if the frame's slot has another event now.
    pub(super) event: u64,
    /// The frame's slot.
    pub(super) slot: usize,
}

/// The state of the frames between one port of entry and one link.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// Number of frames so far that took an ordinal. It is the ordinal of the next frame.
    next_ordinal: u64,
    /// True in the bad state of the Gilbert-Elliott model.
    in_burst: bool,
    /// Number of frames that passed without being held back.
    pub(super) passed: u64,
    /// Held frames. The first to be released is on top.
    pub(super) held: BinaryHeap<Reverse<Held>>,
    /// Highest ordinal delivered.
    highest_delivered: Option<u64>,
}

impl Direction {
    /// Removes the next held frame that enough frames have overtaken.
    pub(super) fn pop_overtaken(&mut self) -> Option<Held> {
        self.held.peek().filter(|Reverse(held)| held.until_passed <= self.passed)?;
        self.held.pop().map(|Reverse(held)| held)
    }

    /// Records a delivery. Returns true if a frame with a higher ordinal was delivered before (RFC 4737, 3.3).
    pub(super) fn deliver(&mut self, ordinal: u64) -> bool {
        let reordered = self.highest_delivered.is_some_and(|highest| highest > ordinal);
        self.highest_delivered = self.highest_delivered.max(Some(ordinal));
        reordered
    }
}

/// The result of offering a frame to a link's queue.
#[derive(Debug)]
pub(super) enum Admission {
    /// The last bit of the frame leaves at this time.
    Departs(Outgoing, Time),
    /// The frame is the first that waits. The caller has to call [`Link::serve`] at this time.
    Serve(Time),
    /// The frame waits behind others, or was dropped and counted. The caller has nothing to do.
    Settled,
}

/// The transit of a frame that was not dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    /// The time when the frame reaches the end of the link. For a held frame it is the latest such time.
    pub(super) arrival: Time,
    /// The number of frames that have to overtake the frame, if it is held back.
    pub(super) behind: Option<u64>,
}

/// A link towards a host or another switch.
#[derive(Debug)]
pub(super) struct Link {
    /// The number of the link, on which its decisions depend. It is the port of the host, or a higher number for
    /// trunks.
    number: u16,
    impairments: Impairments,
    pub(super) up: bool,
    /// By port of entry, up to the highest port that frames have come from.
    directions: Vec<Direction>,
    /// The departure time of the last bit of each frame in the queue, and the frame's bytes.
    queue: VecDeque<(Time, u64)>,
    queued_bytes: u64,
    /// Frames on a link that trims whose order is not decided yet.
    waiting: PriorityQueues,
    /// The departure time of the last bit in the queue.
    busy_until: Time,
    /// The arrival time of the last frame that was not held back. The wire keeps the order of frames.
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

    /// Changes the impairments from now on. Queued frames keep their times. Bursts and ordinals continue.
    pub(super) fn set_impairments(&mut self, impairments: Impairments) {
        self.impairments = impairments;
    }

    /// Returns false while the link is unplugged or in an outage.
    pub(super) fn is_up(&self, now: Time) -> bool {
        self.up && !self.impairments.down.iter().any(|outage| outage.from <= now && now < outage.until)
    }

    /// Returns the state of the frames from a port.
    pub(super) fn direction(&mut self, ingress: u16) -> &mut Direction {
        let index = usize::from(ingress);
        if index >= self.directions.len() {
            self.directions.resize_with(index + 1, Direction::default);
        }
        &mut self.directions[index]
    }

    /// Returns the queued bytes at `now`, including the frame on the wire.
    pub(super) fn queued_bytes(&self, now: Time) -> u64 {
        let gone = self.queue.iter().take_while(|(departure, _)| *departure <= now);
        let on_their_way = self.queued_bytes - gone.map(|(_, bytes)| bytes).sum::<u64>();
        on_their_way + self.waiting.data_bytes + self.waiting.header_bytes
    }

    fn draws(&self, seed: u64, name: Name) -> Draws {
        Draws::new(seed, name.ingress, self.number, name.ordinal, name.copy)
    }

    /// Gives a frame its ordinal and advances the burst model by one step. If the frame is out of scope, it counts
    /// the frame and returns `None`, and the frame is not impaired.
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

    /// Decides whether the frame is lost, and counts the loss.
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

    /// Lowers the hop limit. If it would reach zero, it counts the frame and returns false.
    pub(super) fn pass_hops(&mut self, frame: &mut [u8], class: Class) -> bool {
        let passes = class == Class::Housekeeping || header::pass_hops(frame, self.impairments.hops);
        self.stats.hop_limit_expired += u64::from(!passes);
        passes
    }

    /// Admits one frame, or one copy of it, to the queue: tail drop or trimming, and ECN.
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

    /// Counts a frame for which the queue or the memory has no space.
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

    /// Cuts either the new frame or the last one that waits, with equal probability. Otherwise synchronised flows
    /// would be cut in the same pattern (Handley et al., section 3.1). A waiting frame is replaced only if it is
    /// at least as long as the new one, so the queue stays within its limit.
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

    /// Admits a header, or a frame that is not longer than one. It goes before all data.
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
        // The queue is first in, first out, so the departure time is known now.
        self.keep(&outgoing, memory);
        let departure = self.transmit(outgoing.way.time, outgoing.bytes(), memory);
        Admission::Departs(outgoing, departure)
    }

    /// Sends a frame of a link that trims if the wire is free. Otherwise it puts the frame into its queue.
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

    /// Sends the next frame that waits, because the wire is free now. Returns the frame, the departure time of its
    /// last bit, and the time of the next call if more frames wait.
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

    /// Serialises a frame after the queued ones. Returns the departure time of its last bit.
    fn transmit(&mut self, now: Time, bytes: u64, memory: &mut Memory) -> Time {
        // If the rate was removed, queued frames still leave first.
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

    /// Returns the arrival time of a MAC control frame. It goes after the frame on the wire and before those that
    /// wait.
    pub(super) fn control(&mut self, now: Time, bytes: u64) -> Time {
        self.stats.offered += 1;
        self.stats.in_flight += 1;
        self.forget_departed(now);
        let free = self.queue.front().map_or(now, |(departure, _)| *departure);
        free + self.impairments.rate.map_or(Span::ZERO, |rate| rate.time_of(bytes)) + self.impairments.delay
    }

    /// Decides corruption, delay and reordering of a frame whose last bit leaves at `departure`.
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

    /// Flips distinct bits after the Ethernet header. The header itself is never damaged: a frame that was damaged
    /// before the switch rewrote the header would have failed its check sequence at that switch.
    fn corrupt(&mut self, draws: Draws, name: Name, frame: &mut [u8]) {
        let header = frame[..frame.len().min(LOGGED_HEADER)].to_vec();
        let bits = (frame.len() - header::ETHERNET) * 8;
        let mut places = draws.of(Decision::CorruptPlace);
        let mut flips = Vec::new();
        for _ in 0..usize::from(self.impairments.corrupt_bits.get()).min(bits) {
            let mut position = places.below(bits as u64) as usize;
            let flip = loop {
                let flip = BitFlip { offset: header::ETHERNET + position / 8, bit: (position % 8) as u8 };
                // A bit flipped twice is not flipped. So take the next bit that is not flipped yet.
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
