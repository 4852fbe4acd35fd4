//! Usual patterns of traffic.

use fabric_model::Time;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::plan::{FIRST_ENTROPY_PORT, FlowPlan, Message};

/// Source ports that a seed draws, one after another without end.
pub fn entropy_ports(seed: u64) -> impl Iterator<Item = u16> {
    let mut rng = StdRng::seed_from_u64(seed);
    core::iter::repeat_with(move || rng.random_range(FIRST_ENTROPY_PORT..=u16::MAX))
}

/// Hosts 1 to `senders` each write `bytes` to host 0, all at once.
#[must_use]
pub fn incast(senders: u16, bytes: u64, seed: u64) -> Vec<FlowPlan> {
    let message = Message { at: Time::ZERO, bytes };
    let flow = |(source, entropy)| FlowPlan { entropy, ..FlowPlan::new(source, 0, vec![message]) };
    (1..=senders).zip(entropy_ports(seed)).map(flow).collect()
}

/// Each of `hosts` hosts writes `bytes` to another one, and each is written to by one: a cycle that the seed draws.
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
