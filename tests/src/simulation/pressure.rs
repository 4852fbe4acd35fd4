//! Send queues that are kept full while nothing gets through, and applications whose threads stall.
//!
//! One seed in eight is under pressure, in addition to what else its scenario has. A generator of its own draws what is different
//! there. So the other seeds are the same runs as without.

use std::ops::RangeInclusive;

use fabric_model::{Span, Time};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::packet_delivery::Window;
use transport_common::queues::SEND_QUEUE_DEPTH;

use super::draw::{micros, scale};
use super::faults::{Fault, FaultKind, Lateness, Thread};
use super::scenario::{Link, Profile, Scenario};

/// One seed in so many is under pressure.
const UNDER_PRESSURE: u32 = 8;
/// Transaction timeouts of a link under pressure, if its transactions time out, microseconds.
const SHORTEST_TIMEOUT: u64 = 1_000;
const LONGEST_TIMEOUT: u64 = 30_000;
/// Attempts of packets that outlive an outage. A peer that is dead forever is noticed within seconds.
const ATTEMPTS: u32 = 500;
/// Longest time for which a thread stalls, nanoseconds.
const LONGEST_STALL: u64 = 100_000_000;
/// Longest outage of a link whose transactions do not time out, and longest time for which its requests are not
/// acknowledged, nanoseconds.
const LONGEST_OUTAGE: u64 = 60_000_000;
/// Operations of an end whose send queue is kept full, if they never time out, and if they do. The memory of an end has room for no more
/// receives.
const OPERATIONS: [RangeInclusive<usize>; 2] = [270..=300, 300..=600];

impl Scenario {
    /// Puts a scenario under pressure, if its seed says so.
    pub(super) fn add_pressure(&mut self) {
        let mut rng = StdRng::seed_from_u64(self.seed ^ 0xf11_1ed);
        let rng = &mut rng;
        // In a crowd each connection has few operations.
        if !rng.random_ratio(1, UNDER_PRESSURE) || self.hosts.len() > 3 {
            return;
        }
        let number = rng.random_range(0..self.links.len());
        let times_out = self.profile == Profile::Exhausting;
        let link = &mut self.links[number];
        let timeout = link.keep_full(rng, times_out);
        let hosts = link.ends.map(|end| end.host);
        // An outage ends when every transaction of the full queue has timed out, and its successor too.
        let outage = |rng: &mut StdRng| match timeout {
            Some(micros) => micros * rng.random_range(2_100..=4_000),
            None => scale(rng, 1_000_000, LONGEST_OUTAGE),
        };
        for _ in 0..rng.random_range(1..=3) {
            let host = hosts[rng.random_range(0..2)];
            let kind = match rng.random_range(0..5) {
                0 | 1 => FaultKind::Partition { hosts, length: Span::from_nanos(outage(rng)) },
                2 => {
                    let length = Span::from_nanos(outage(rng));
                    FaultKind::Late { host, lateness: Lateness::Window(Window::Request), length }
                }
                n => {
                    let thread = if n == 3 { Thread::Completions } else { Thread::Receives };
                    let length = Span::from_nanos(scale(rng, 1_000_000, LONGEST_STALL));
                    FaultKind::Stall { host, thread, length }
                }
            };
            let at = Time::ZERO + Span::from_nanos(scale(rng, 1_000, 3_000_000));
            self.faults.push(Fault { at, kind });
        }
        self.faults.sort_by_key(|fault| fault.at);
    }
}

impl Link {
    /// Lets the applications keep the send queues full. Returns the transaction timeout in microseconds, if
    /// transactions time out.
    fn keep_full(&mut self, rng: &mut StdRng, times_out: bool) -> Option<u64> {
        self.keen = [true, rng.random_bool(0.5)];
        for side in [0, 1].into_iter().filter(|side| self.keen[*side]) {
            self.operations[side] = rng.random_range(OPERATIONS[usize::from(times_out)].clone());
            self.depth[side] = SEND_QUEUE_DEPTH;
            // Pulls wait for the request window or for credit. With many of them the queue is full of what was never sent,
            // with few of what was.
            if rng.random_bool(0.5) {
                self.mix[side][0] += rng.random_range(100..1000);
            }
        }
        let timeout = times_out.then(|| scale(rng, SHORTEST_TIMEOUT, LONGEST_TIMEOUT));
        for parameters in &mut self.parameters {
            if let Some(timeout) = timeout {
                parameters.config.transaction_timeout = micros(timeout);
                // Often the packets outlive the transactions.
                if rng.random_bool(0.7) {
                    parameters.config.max_retransmit_attempts = ATTEMPTS;
                }
            }
        }
        timeout
    }
}
