//! Nodes that are stopped for minutes while operations are under way: by a signal, a debugger, the host of their machine.
//!
//! The times of the core wrap after 563 s and are compared in half of that. So a node that was stopped for longer than 281 s
//! cannot see from them what is long past.

use fabric_model::{Span, Time};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::draw::scale;
use super::faults::{Fault, FaultKind};
use super::scenario::{Profile, Scenario};
use super::wraps;

/// For how long a node is stopped, seconds: less than half of the wrap, a little more, between half and all of it, and more
/// than all of it.
const SECONDS: [u64; 6] = [100, 281, 282, 300, 500, 1000];
/// When it is stopped, nanoseconds.
const SOONEST: u64 = 20_000;
const LATEST: u64 = 3_000_000;

impl Scenario {
    /// Draws the scenario of `seed`, in which the node of a host is stopped once. Operations may fail.
    #[must_use]
    pub fn with_stop(seed: u64) -> Self {
        let mut this = Self::random(seed, Profile::Exhausting);
        let mut rng = StdRng::seed_from_u64(seed ^ 0x5709);
        let rng = &mut rng;
        let host = rng.random_range(0..this.hosts.len());
        // Sometimes just before one of the wraps.
        if rng.random_bool(0.5) {
            let number = rng.random_range(0..wraps::WRAPS.len());
            this.hosts[host].clock = wraps::instant(number).wrapping_sub(rng.random_range(0..1 << 34));
        }
        let at = Time::ZERO + Span::from_nanos(scale(rng, SOONEST, LATEST));
        let length = Span::from_nanos(SECONDS[rng.random_range(0..SECONDS.len())] * 1_000_000_000);
        this.faults = vec![Fault { at, kind: FaultKind::Stop { host, length, receives: rng.random() } }];
        this
    }

    /// Returns for how long nodes are stopped in all.
    pub(super) fn stops(&self) -> Span {
        let length = |fault: &Fault| match fault.kind {
            FaultKind::Stop { length, .. } => length.0,
            _ => 0,
        };
        Span(self.faults.iter().map(length).sum())
    }
}
