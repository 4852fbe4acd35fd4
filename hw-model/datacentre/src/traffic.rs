//! Common traffic patterns.

use fabric_model::Time;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::plan::{FIRST_ENTROPY_PORT, FlowPlan, Message};

/// Returns an endless sequence of random source ports for a seed.
pub fn entropy_ports(seed: u64) -> impl Iterator<Item = u16> {
    let mut rng = StdRng::seed_from_u64(seed);
    core::iter::repeat_with(move || rng.random_range(FIRST_ENTROPY_PORT..=u16::MAX))
}

/// Returns flows in which hosts 1 to `senders` each write `bytes` to host 0, all at time 0.
#[must_use]
pub fn incast(senders: u16, bytes: u64, seed: u64) -> Vec<FlowPlan> {
    let message = Message { at: Time::ZERO, bytes };
    let flow = |(source, entropy)| FlowPlan { entropy, ..FlowPlan::new(source, 0, vec![message]) };
    (1..=senders).zip(entropy_ports(seed)).map(flow).collect()
}

/// Returns flows in which each of `hosts` hosts writes `bytes` to one other host and receives from one other host.
/// The seed draws the order of this cycle.
#[must_use]
pub fn permutation(hosts: u16, bytes: u64, seed: u64) -> Vec<FlowPlan> {
    let mut cycle: Vec<u16> = (0..hosts).collect();
    cycle.shuffle(&mut StdRng::seed_from_u64(seed));
    let next = cycle.iter().cycle().skip(1);
    let message = Message { at: Time::ZERO, bytes };
    let flow = |((source, destination), entropy): ((&u16, &u16), u16)| FlowPlan {
        entropy,
        ..FlowPlan::new(*source, *destination, vec![message])
    };
    cycle.iter().zip(next).zip(entropy_ports(seed)).map(flow).collect()
}
