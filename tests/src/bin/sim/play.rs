//! Plays one scenario and catches its failure.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tiercel_tests::simulation::{Reached, Scenario, World};

/// What became of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    /// Steps of cards.
    pub(crate) steps: u64,
    /// Virtual time, picoseconds.
    pub(crate) picoseconds: u64,
    /// What happened.
    pub(crate) reached: Reached,
    /// The failed check.
    pub(crate) failure: Option<Failure>,
    /// The last events, if they were kept.
    pub(crate) trace: Option<String>,
}

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Where the check is.
    pub(crate) location: String,
    /// What it says.
    pub(crate) message: String,
    /// The last events, if they were kept.
    pub(crate) trace: Option<String>,
}

thread_local! {
    /// Location and message of the last panic of this thread.
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Lets panics be kept and not printed.
pub(crate) fn keep_panics_for_the_report() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("a panic without a text").to_owned();
        PANIC.set(Some((location, message)));
    }));
}

/// Returns location and message of the last panic of this thread.
pub(crate) fn last_panic() -> (String, String) {
    PANIC.take().unwrap_or_default()
}

/// Plays a scenario. `trace` keeps its last events.
pub(crate) fn play(scenario: &Scenario, trace: bool) -> Played {
    let mut world = World::new(scenario.clone());
    if trace {
        world.keep_trace();
    }
    let failed = catch_unwind(AssertUnwindSafe(|| world.run(&mut ()))).is_err();
    let (steps, time) = world.progress_made();
    let trace = world.trace().map(ToString::to_string);
    let failure = failed.then(|| {
        let (location, message) = last_panic();
        Failure { location, message, trace: trace.clone() }
    });
    Played { steps, picoseconds: time.0, reached: world.reached(), failure, trace }
}
