//! A link out of a switch: its queue, its wire, and what it decides about each frame.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::config::{Impairments, Scope};
use super::header::{self, Class};
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
    /// Notes a delivery. True if a frame with a higher ordinal came before (RFC 4737, 3.3).
    pub(super) fn deliver(&mut self, ordinal: u64) -> bool {
        let reordered = self.highest_delivered.is_some_and(|highest| highest > ordinal);
        self.highest_delivered = self.highest_delivered.max(Some(ordinal));
        reordered
    }
}

/// An impairable frame's name, of which all decisions about it are a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) ingress: u16,
    pub(super) ordinal: u64,
    pub(super) copy: u8,
    /// The burst chain is in its bad state at this frame.
    pub(super) in_burst: bool,
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
        self.queued_bytes - gone.map(|(_, bytes)| bytes).sum::<u64>()
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

    /// Puts one frame, or one copy of it, into the queue and onto the wire. `None`: dropped, and counted.
    pub(super) fn send(
        &mut self,
        seed: u64,
        now: Time,
        frame: &mut [u8],
        class: Class,
        name: Option<Name>,
    ) -> Option<Passage> {
        let departure = self.enqueue(now, frame, class)?;
        let Some(name) = name else {
            return Some(Passage { arrival: self.arrival(departure, Span::ZERO), behind: None });
        };
        let draws = self.draws(seed, name);
        if draws.of(Decision::Corrupt).happens(self.impairments.corrupt) {
            self.corrupt(draws, name, frame);
        }
        let jitter = Span(draws.of(Decision::Jitter).below(self.impairments.jitter.0.saturating_add(1)));
        if !draws.of(Decision::Reorder).happens(self.impairments.reorder) {
            return Some(Passage { arrival: self.arrival(departure, jitter), behind: None });
        }
        self.stats.held_back += 1;
        let distance = u64::from(self.impairments.reorder_distance.get());
        let behind = 1 + draws.of(Decision::ReorderDistance).below(distance);
        let arrival = departure + self.impairments.delay + jitter + self.impairments.reorder_hold;
        Some(Passage { arrival, behind: Some(behind) })
    }

    /// Tail drop, ECN and serialisation. The instant the frame's last bit leaves.
    fn enqueue(&mut self, now: Time, frame: &mut [u8], class: Class) -> Option<Time> {
        while let Some(&(_, bytes)) = self.queue.front().filter(|(departure, _)| *departure <= now) {
            self.queue.pop_front();
            self.queued_bytes -= bytes;
        }
        let bytes = frame.len() as u64;
        let occupancy = self.queued_bytes + bytes;
        if self.impairments.rate.is_some() && occupancy > self.impairments.queue.0 {
            self.stats.queue_dropped += 1;
            return None;
        }
        if class != Class::Housekeeping
            && self.impairments.ecn.is_some_and(|threshold| occupancy > threshold.0)
            && header::mark_congestion(frame, self.impairments.ecn_mark)
        {
            self.stats.ecn_marked += 1;
        }
        // A rate switched off lets what is queued leave first.
        let start = self.busy_until.max(now);
        let departure = start + self.impairments.rate.map_or(Span::ZERO, |rate| rate.time_of(bytes));
        if departure > now {
            self.queue.push_back((departure, bytes));
            self.queued_bytes = occupancy;
            self.stats.queue_peak = self.stats.queue_peak.max(occupancy);
            self.busy_until = departure;
        }
        Some(departure)
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
