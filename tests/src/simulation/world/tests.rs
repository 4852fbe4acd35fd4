//! What is watched at every step is found there, not at the end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::simulation::application::{Area, Kind, Op};
use crate::simulation::scenario::End;
use transport_common::queues::WorkFlags;

/// Plays until operations of both ends of a link have ended, changes something, and returns what is found then.
fn found(change: impl FnOnce(&mut World)) -> String {
    let long = |scenario: &Scenario| scenario.links[0].operations.iter().all(|number| *number > 100);
    let mut scenarios = (0..).map(|seed| Scenario::random(seed, Profile::Lossy));
    let mut world = World::new(scenarios.find(long).expect("one in some"));
    while !world.ledgers[0].iter().all(|ledger| ledger.has_seen(20)) {
        assert!(!world.is_done(), "the run is too short for this test");
        world.step(&mut ());
    }
    change(&mut world);
    let until = world.steps + 2000;
    let panic = catch_unwind(AssertUnwindSafe(|| {
        while !world.is_done() && world.steps < until {
            world.step(&mut ());
        }
    }));
    let panic = panic.expect_err("nothing was found");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).expect("a text")
}

#[test]
fn a_completion_that_comes_again_is_found() {
    let said = found(|world| world.ledgers[0][0].look_again());
    assert!(said.contains("ended twice") || said.contains("ended after"), "{said}");
}

#[test]
fn a_transaction_that_is_forgotten_is_found() {
    let said = found(|world| world.ledgers[0][0].forget());
    assert!(said.contains("is forgotten and was not reported"), "{said}");
}

#[test]
fn a_cell_that_nobody_owns_is_found() {
    let said = found(|world| {
        for host in &mut world.hosts {
            let mut free = host.nic.free_cells().to_vec();
            free.pop();
            host.nic.set_free_cells(&free);
        }
    });
    assert!(said.contains("receive cells in use"), "{said}");
}

#[test]
fn a_receive_that_is_consumed_without_a_completion_is_found() {
    let said = found(|world| {
        let End { host, slot } = world.scenario.links[0].ends[1];
        let consumer = &world.hosts[host].nic.queue_pair(slot).receive_consumer;
        consumer.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    });
    assert!(said.contains("each receive that is consumed has one completion"), "{said}");
}

#[test]
fn a_push_that_is_acknowledged_and_not_placed_is_found() {
    let said = found(|world| {
        let waits = |op: &Op| op.kind == Kind::Write && op.area == Area::Unique && op.ended.is_none();
        let is_signaled = |op: &Op| op.work.flags.contains(WorkFlags::SIGNALED) && op.work.length != 0;
        while !world.flows[0].iter().flat_map(|flow| &flow.ops).any(|op| waits(op) && is_signaled(op)) {
            assert!(!world.is_done(), "the run is too short for this test");
            world.step(&mut ());
        }
        // What is on its way differs from now on from what its target has to show.
        let ops = world.flows[0].iter_mut().flat_map(|flow| &mut flow.ops);
        ops.filter_map(|op| op.data.first_mut()).for_each(|byte| *byte ^= 1);
    });
    assert!(said.contains("is acknowledged, and its ULP has not accepted it"), "{said}");
}
