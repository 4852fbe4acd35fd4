//! `cargo xtask sim`: plays whole networks on virtual time, each decided by a seed, and checks them after every event.

mod options;
mod play;
mod report;
mod shrink;
mod small;

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tiercel_tests::simulation::{Scenario, map_large_allocations};

use crate::options::Options;
use crate::play::{Failure, Played, play};
use crate::report::{Failed, Report};
use crate::shrink::shrink;

fn main() -> ExitCode {
    let options = Options::parse();
    map_large_allocations();
    play::keep_panics_for_the_report();
    match start(&options) {
        Ok(code) => code,
        Err(error) => {
            let text = format!("{error:#}");
            if options.json {
                println!("{}", serde_json::json!({ "error": text }));
            }
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Walks the small worlds or plays seeds, and shows the result.
fn start(options: &Options) -> Result<ExitCode> {
    options.check()?;
    if options.exhaustive {
        let walks = small::walk_all(options);
        return Ok(show(&walks, !walks.failed, options));
    }
    let report = run(options)?;
    Ok(show(&report, report.failed.is_empty(), options))
}

/// Prints a result for people or for programs.
fn show(result: &(impl Display + Serialize), kept: bool, options: &Options) -> ExitCode {
    if options.json {
        println!("{}", serde_json::to_string(result).expect("numbers and texts"));
    } else {
        print!("{result}");
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(options: &Options) -> Result<Report> {
    let begin = Instant::now();
    let (mut report, failures) = match options.seed {
        Some(_) => play_one(options)?,
        None => play_many(options, begin)?,
    };
    report.seconds = begin.elapsed().as_secs_f64();
    for (number, (scenario, failure)) in failures.into_iter().enumerate() {
        // Each takes a while, and they often have one cause.
        let found = if number < options.shrink {
            shrink(&scenario, &failure, options.json)
        } else {
            (vec![], failure)
        };
        report.failed.push(Failed::new(&scenario, options, found));
    }
    Ok(report)
}

type Failures = Vec<(Scenario, Failure)>;

/// Plays one seed, reduced as the options say.
fn play_one(options: &Options) -> Result<(Report, Failures)> {
    let seed = options.seed.context("a seed")?;
    let mut scenario = options.scenario(seed);
    for reduction in &options.reduce {
        scenario = reduction.apply(&scenario).with_context(|| {
            format!("the scenario of seed {seed} has nothing that `{reduction}` could take away")
        })?;
    }
    let played = play(&scenario, options.trace);
    let mut report = Report::default();
    report.add(&played);
    if options.trace
        && let Played { trace: Some(trace), failure: None, .. } = &played
    {
        report.trace = Some(trace.clone());
    }
    Ok((report, played.failure.map(|failure| (scenario, failure)).into_iter().collect()))
}

/// Plays seeds on all threads until the number or the time is reached.
fn play_many(options: &Options, begin: Instant) -> Result<(Report, Failures)> {
    let end = options.minutes.map(|minutes| begin + Duration::from_secs_f64(minutes * 60.0));
    let seeds = options.seeds();
    let bar = progress_bar(options, seeds);
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let results = Mutex::new((Report::default(), Failures::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs() {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    let late = end.is_some_and(|end| Instant::now() >= end);
                    if number >= seeds || late || stop.load(Relaxed) {
                        break;
                    }
                    let scenario = options.scenario(options.first.wrapping_add(number));
                    let played = play(&scenario, false);
                    let mut results = results.lock().expect("no panic under the lock");
                    results.0.add(&played);
                    if let Some(failure) = played.failure {
                        results.1.push((scenario, failure));
                        stop.store(results.1.len() >= options.failures, Relaxed);
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let (mut report, mut failures) = results.into_inner().expect("no panic under the lock");
    report.jobs = options.jobs();
    failures.sort_by_key(|(scenario, _)| scenario.seed);
    Ok((report, failures))
}

fn progress_bar(options: &Options, seeds: u64) -> ProgressBar {
    if options.json {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(seeds); // drawn on a terminal only
    let counted = "{bar:40} {human_pos} of {human_len} seeds, {per_sec}, {eta} left";
    let open = "{spinner} {human_pos} seeds, {per_sec}, {elapsed}";
    let template = if options.minutes.is_some() { open } else { counted };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
