//! Random networks on virtual time, each decided by its seed.
//!
//! A failure names its seed: `SIMULATION_SEED=n cargo test -p tiercel-tests --test simulation` plays only this
//! seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tiercel_tests::simulation::{Profile, Reached, Scenario, SmallWorld, World, map_large_allocations};
use transport_common::counters::{Counter, Raised};

/// What the seeds of each test reach. A change after which they no longer reach it takes away what they show.
const ALWAYS: [&str; 15] = [
    "ack_stale",
    "bad_work_request",
    "congestion_results",
    "drop_duplicate",
    "drop_old_duplicate",
    "drop_resources",
    "eacks_sent",
    "held",
    "nacks_sent",
    "paced",
    "path_changes",
    "resyncs_sent",
    "retransmitted_early",
    "tail_probes",
    "wraps_2_32_ticks",
];
/// What they reach with hostile packets and other faults.
const WITH_FAULTS: [&str; 15] = [
    "answered_and_open",
    "congestion_lost",
    "drop_source",
    "drop_spi",
    "drop_tunnel",
    "drop_unknown_cid",
    "late_data",
    "late_oldest",
    "late_requests",
    "send_queue_full",
    "steps_blocked_ordered",
    "steps_blocked_unordered",
    "wraps_2_24_ticks",
    "wraps_2_63_ps",
    "wraps_2_64_ps",
];
/// A target that keeps as many answers as it can, while their initiator acknowledges late and nothing times out.
const ANSWERS_FULL: [&str; 1] = ["answers_full"];
/// What a full completion queue does while its connection lives, and when its connection is closed.
const FULL_QUEUES: [&str; 2] = ["completion_queue_full", "receives_blocked"];
const FULL_QUEUES_CLOSED: [&str; 1] = ["ends_lost"];

/// Returns the seeds of one run: that of the environment, or the given number of seeds.
fn seeds(count: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    match (number("SIMULATION_SEED"), number("SIMULATION_RUNS")) {
        (Some(seed), None) => vec![seed],
        (first, runs) => (first.unwrap_or(0)..).take(runs.unwrap_or(count) as usize).collect(),
    }
}

/// Plays the seeds. All of them together must reach [`ALWAYS`] and `faults`; those of the environment need not.
fn play(profile: Profile, count: u64, draw: fn(u64, Profile) -> Scenario, faults: &[&str]) {
    play_until(profile, count, draw, &[&ALWAYS[..], faults].concat());
}

/// Plays the seeds. All of them together must reach `names`; those of the environment need not.
fn play_until(profile: Profile, count: u64, draw: fn(u64, Profile) -> Scenario, names: &[&str]) {
    map_large_allocations();
    let seeds = seeds(count);
    let mut reached = Reached::default();
    for &seed in &seeds {
        let scenario = draw(seed, profile);
        let run = || {
            let mut world = World::new(scenario.clone());
            world.run(&mut ());
            reached.add(&world.reached());
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            eprintln!("{profile:?}, seed {seed}: {scenario:#?}");
            eprintln!("play it alone: SIMULATION_SEED={seed} cargo test -p tiercel-tests --test simulation");
            std::panic::resume_unwind(panic);
        }
    }
    let missing: Vec<_> = names.iter().filter(|name| reached.count(name) == 0).collect();
    assert!(
        missing.is_empty() || (seeds.len() as u64) < count,
        "the seeds never reach {missing:?}; what they reach:\n{reached}"
    );
}

#[test]
fn every_operation_takes_effect_once_on_a_lossy_network() {
    play(Profile::Lossy, 150, Scenario::random, &[]);
}

#[test]
fn operations_that_fail_say_so_and_leave_nothing_behind() {
    play(Profile::Exhausting, 150, Scenario::random, &[]);
}

/// CPUs that pause, partitions, clocks that drift and jump, and hostile frames.
#[test]
fn every_operation_takes_effect_once_despite_faults() {
    let reached = [&WITH_FAULTS[..], &FULL_QUEUES, &ANSWERS_FULL].concat();
    play(Profile::Lossy, 150, Scenario::with_faults, &reached);
}

/// The same and hosts that restart.
#[test]
fn operations_that_fail_say_so_despite_faults() {
    play(Profile::Exhausting, 150, Scenario::with_faults, &[&WITH_FAULTS[..], &FULL_QUEUES_CLOSED].concat());
}

/// A node is stopped for longer than times can be compared. What was under way ends soon after it goes on.
#[test]
fn operations_end_although_a_node_was_stopped_for_minutes() {
    play_until(Profile::Exhausting, 60, |seed, _| Scenario::with_stop(seed), &["timers_behind"]);
}

/// An application overwrites the page that it shares with its card, and the other connections do not notice.
#[test]
fn an_application_that_scribbles_harms_only_itself() {
    play(Profile::Exhausting, 150, Scenario::with_scribbler, &["bad_work_request", "local_protection"]);
}

/// Every order of events in small worlds, of the larger ones as far as the number of states allows here. `cargo xtask sim
/// --exhaustive` walks all of them to their end.
#[test]
fn small_worlds_are_walked() {
    const STATES: u64 = 30_000;
    const LEAST_WHOLE: usize = 5;
    map_large_allocations();
    let (worlds, mut whole) = (SmallWorld::all(), 0);
    for world in &worlds {
        let walk = world.walk(STATES, &mut |_| {}, &mut |path| eprintln!("{}:\n{path}", world.name));
        assert!(walk.complete || walk.states == STATES, "{}: {walk}", world.name);
        assert!(walk.ends > 0 && walk.steps > walk.states, "{}: {walk}", world.name);
        whole += usize::from(walk.complete);
    }
    assert!(whole >= LEAST_WHOLE, "{whole} of {} worlds were walked to their end", worlds.len());
}

/// The core of these simulations is built with debug assertions. So the runs above show that no step raises a counter
/// twice, which would lose one count.
#[test]
#[should_panic(expected = "raised twice in one step")]
fn a_step_that_raises_a_counter_twice_is_found() {
    let mut raised = Raised::default();
    raised.raise(Counter::DropDuplicate);
    raised.raise(Counter::DropDuplicate);
}
