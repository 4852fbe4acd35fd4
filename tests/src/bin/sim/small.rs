//! The small worlds that `--exhaustive` walks.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tiercel_tests::simulation::Walk;

use crate::options::Options;
use crate::play::last_panic;

/// The walks of all small worlds.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Walks {
    worlds: Vec<Walked>,
    pub(crate) failed: bool,
}

/// The walk of one world.
#[derive(Clone, Debug, Serialize)]
struct Walked {
    name: String,
    /// Time that it took, seconds.
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    walk: Option<Walk>,
    /// The check that failed, and the path to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// Walks all small worlds.
pub(crate) fn walk_all(options: &Options) -> Walks {
    let mut walks = Walks::default();
    for world in options.worlds() {
        let begin = Instant::now();
        let bar = if options.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}: {human_pos} states, {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(world.name.clone());
        let mut path = String::new();
        let walk = catch_unwind(AssertUnwindSafe(|| {
            world.walk(options.states, &mut |walk| bar.set_position(walk.states), &mut |steps| {
                path = steps.to_owned();
            })
        }));
        bar.finish_and_clear();
        let failure = walk.is_err().then(|| {
            let (location, message) = last_panic();
            format!("{message}\n    checked at {location}\n    after\n{path}")
        });
        walks.failed |= failure.is_some();
        let seconds = begin.elapsed().as_secs_f64();
        let walked = Walked { name: world.name, seconds, walk: walk.ok(), failure };
        if !options.json {
            println!("{walked}"); // at once: all of them take a while
        }
        walks.worlds.push(walked);
    }
    walks
}

impl fmt::Display for Walked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.walk, &self.failure) {
            (Some(walk), _) => write!(f, "{}: {walk}, {:.1} s", self.name, self.seconds),
            (None, failure) => write!(f, "{}: {}", self.name, failure.as_deref().unwrap_or("failed")),
        }
    }
}

impl fmt::Display for Walks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let walks = || self.worlds.iter().filter_map(|world| world.walk.as_ref());
        writeln!(
            f,
            "{} of {} small worlds walked to the end: {} states, {} steps, {:.0} s on one CPU",
            walks().filter(|walk| walk.complete).count(),
            self.worlds.len(),
            walks().map(|walk| walk.states).sum::<u64>(),
            walks().map(|walk| walk.steps).sum::<u64>(),
            self.worlds.iter().map(|world| world.seconds).sum::<f64>()
        )
    }
}
