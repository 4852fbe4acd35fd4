//! Applications that take no completion while their operations go on to end, until a completion queue is full.
//!
//! One seed in ten has such an application, in addition to what else its scenario has. A generator of its own draws what is
//! different there. So the other seeds are the same runs as without.

use std::ops::RangeInclusive;

use fabric_model::{Span, Time};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::queues::{COMPLETION_QUEUE_DEPTH, SEND_QUEUE_DEPTH};
use transport_common::ulp::Protocol;
use transport_common::ulp::block::BLOCK_BYTES;

use super::draw::scale;
use super::faults::{Fault, FaultKind};
use super::scenario::{Link, Profile, Scenario};

/// One seed in so many has an application that hoards.
const HOARDS: u32 = 10;
/// Operations of the end that hoards. About one in seven is not signaled, so these have more completions than a queue has
/// places.
const OPERATIONS: RangeInclusive<usize> =
    COMPLETION_QUEUE_DEPTH * 7 / 6 + 50..=COMPLETION_QUEUE_DEPTH * 7 / 6 + 300;
/// Operations of its peer, if many of them complete receives.
const MESSAGES: RangeInclusive<usize> = 400..=600;
/// Few of them are under way at once, so that some arrive while the queue is full.
const AT_ONCE: RangeInclusive<usize> = 2..=12;
/// Most receives that the end has posted then.
const MOST_RECEIVES: usize = 64;
/// Bytes of a segment: the memory of an end has room for so many of these.
const SEGMENT: u32 = 256;
/// An application hoards no longer than this, nanoseconds.
const LONGEST: u64 = 500_000_000;
/// For how long it leaves a full queue full, nanoseconds.
const FULL: RangeInclusive<u64> = 20_000..=2_000_000;
/// A network that is gone for so long ends a connection whose attempts are few, nanoseconds.
const OUTAGE: u64 = 300_000_000;

impl Scenario {
    /// Lets an application of a scenario hoard, if its seed says so.
    pub(super) fn add_hoard(&mut self) {
        let mut rng = StdRng::seed_from_u64(self.seed ^ 0x40_a4d);
        let rng = &mut rng;
        // In a crowd each connection has few operations, and a link under pressure has a number of its own.
        let occupied = self.hosts.len() > 3 || self.links.iter().any(|link| link.keen[0]);
        if !rng.random_ratio(1, HOARDS) || occupied {
            return;
        }
        let (number, side) = (rng.random_range(0..self.links.len()), rng.random_range(0..2));
        let link = &mut self.links[number];
        link.complete_much(rng, side);
        let hosts = link.ends.map(|end| end.host);
        let mut closes = None;
        // A connection may end while its queue is full.
        if self.profile == Profile::Exhausting {
            match rng.random_range(0..3) {
                0 => closes = Some(number),
                1 => {
                    let kind = FaultKind::Partition { hosts, length: Span::from_nanos(OUTAGE) };
                    self.faults.push(Fault { at: instant(rng, 10_000_000), kind });
                }
                _ => {}
            }
        }
        let kind = FaultKind::Hoard {
            host: hosts[side],
            full: Span::from_nanos(rng.random_range(FULL)),
            length: Span::from_nanos(LONGEST),
            closes,
        };
        self.faults.push(Fault { at: instant(rng, 1_000_000), kind });
        self.faults.sort_by_key(|fault| fault.at);
    }
}

impl Link {
    /// Lets more end at one end than its completion queue holds.
    fn complete_much(&mut self, rng: &mut StdRng, side: usize) {
        self.keen[side] = true;
        self.depth[side] = SEND_QUEUE_DEPTH;
        self.operations[side] = rng.random_range(OPERATIONS);
        if rng.random_bool(0.7) {
            self.receives[side] = MOST_RECEIVES;
            self.operations[1 - side] = rng.random_range(MESSAGES);
            self.depth[1 - side] = rng.random_range(AT_ONCE);
            self.mix[1 - side][4] += 100;
        }
        for parameters in &mut self.parameters {
            let longest = if parameters.config.protocol == Protocol::BLOCK { BLOCK_BYTES } else { SEGMENT };
            parameters.config.max_segment = parameters.config.max_segment.min(longest);
        }
    }
}

fn instant(rng: &mut StdRng, latest: u64) -> Time {
    Time::ZERO + Span::from_nanos(scale(rng, 1_000, latest))
}
