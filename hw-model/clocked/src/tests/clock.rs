//! Tests of the clock: state in registers, and skipped idle cycles.

use crate::{Block, Clock, Cycle};

/// Two counters that swap their values. Each must see what the other held before the edge.
struct Swap(u32, u32);

impl Block for Swap {
    type Input = ();
    type Output = (u32, u32);
    type Next = (u32, u32);
    fn evaluate(&self, _now: Cycle, (): &()) -> (Self::Output, Self::Next) {
        ((self.0, self.1), (self.1, self.0))
    }
    fn commit(&mut self, _now: Cycle, next: &Self::Next) {
        (self.0, self.1) = *next;
    }
    fn next_event(&self, now: Cycle) -> Option<Cycle> {
        Some(now)
    }
}

/// Rings in every cycle that is a multiple of 1000.
struct Bell(Vec<Cycle>);

impl Block for Bell {
    type Input = ();
    type Output = bool;
    type Next = bool;
    fn evaluate(&self, now: Cycle, (): &()) -> (bool, bool) {
        let rings = now.0.is_multiple_of(1_000);
        (rings, rings)
    }
    fn commit(&mut self, now: Cycle, rings: &bool) {
        if *rings {
            self.0.push(now);
        }
    }
    fn next_event(&self, now: Cycle) -> Option<Cycle> {
        Some(Cycle(now.0.next_multiple_of(1_000)))
    }
}

#[test]
fn state_changes_at_the_edge_only() {
    let mut clock = Clock::new(Swap(1, 2));
    assert_eq!([clock.step(&()), clock.step(&()), clock.step(&())], [(1, 2), (2, 1), (1, 2)]);
}

#[test]
fn passing_over_idle_cycles_changes_nothing() {
    let mut every = Clock::new(Bell(Vec::new()));
    while every.now() < Cycle(10_000) {
        every.step(&());
    }
    let mut skipping = Clock::new(Bell(Vec::new()));
    while skipping.now() < Cycle(10_000) {
        skipping.step(&());
        skipping.skip_idle(Cycle(10_000));
    }
    assert_eq!(skipping.block().0, every.block().0);
    assert_eq!((every.evaluated(), skipping.evaluated()), (10_000, 10));
    assert_eq!(skipping.now(), Cycle(10_000), "not past the limit");
}
