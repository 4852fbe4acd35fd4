//! `cargo xtask test`: runs and counts every check and every test, and reports any that it left out.

mod pool;
mod programs;
mod suite;
mod tally;

use std::{
    io::{self, Write},
    process::ExitCode,
    thread,
};

use anyhow::Result;
use clap::Args;

use self::{suite::Ended, tally::Tally};
use crate::{
    ahead::BuildAhead,
    checks,
    matrix::{self, Quick, QuickNeeds},
    preflight,
    programs::build_programs,
    setup::{self, Scope},
    shell::{Progress, cargo, run, target_dir, workspace},
    tested::{self, Verdict},
};

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only the tests whose names contain NAME, and no other checks
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
}

/// Builds everything that `cargo test` builds, and the programs, because the tests start them. It is one call,
/// so that features and profile are the same and nothing is compiled twice.
const BUILD: [&str; 8] =
    ["build", "--workspace", "--profile", "test", "--lib", "--bins", "--tests", "--examples"];

/// Runs all checks and tests, also after a failure. The last line is `N passed, N failed, N skipped`: tests
/// passed, tests and other checks failed, tests ignored or filtered out. If everything passed, notes the commit.
///
/// # Errors
/// If the machine cannot run Tiercel or a program cannot be started.
pub(crate) fn test(options: &Options, progress: &Progress) -> Result<ExitCode> {
    let all = || perform(options, progress);
    let Verdict { passed, summary } = match options.filter {
        Some(_) => all()?,
        None => tested::noting(workspace(), |what| progress.say(what), all)?,
    };
    println!("{summary}");
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs what the options ask for, and prints everything but the last line.
fn perform(options: &Options, progress: &Progress) -> Result<Verdict> {
    preflight::kernel()?;
    preflight::room(&target_dir())?;
    let scope = if options.filter.is_some() { Scope::Build } else { Scope::Checks };
    let mut ahead = BuildAhead::of(&BUILD);
    setup::setup(scope, &mut ahead, progress)?;
    preflight::veth()?;
    build_programs(ahead, progress)?;

    let mut complaints = vec![];
    if options.filter.is_none() {
        complaints = checks::complaints(checks::LINTS.into_iter().chain([checks::DOCUMENTATION]), progress);
    }
    let built = build_tests(progress);
    let mut not_run = None;
    let mut tests = thread::scope(|scope| {
        // Guests mostly wait, and the tests wait for conditions, so both fit on two CPUs at the same time. What guests
        // need is installed before, because tests look at the machine's files.
        let guests = (options.filter.is_none() && built.is_ok()).then(|| {
            let needs = QuickNeeds::get(target_dir().join("debug/tiercel"), progress);
            scope.spawn(|| matrix::quick(needs, progress))
        });
        let ended = match built {
            Ok(()) => run_tests(options, progress),
            Err(error) => Tests::not_run(&error),
        };
        match guests.map(|guests| guests.join().expect("trying a kernel does not panic")) {
            Some(Ok(Quick::Ran(faults))) => complaints.extend(faults),
            Some(Ok(Quick::NotHere(reason))) => not_run = Some(reason),
            Some(Err(error)) => complaints.push(format!("guests: {error:#}")),
            None => {}
        }
        ended
    });
    complaints.append(&mut tests.faults);
    let mut tally = tests.tally;
    tally.failed += complaints.len();
    complaints.append(&mut tests.failed);
    if tally.passed == 0 {
        complaints.push("tests: no test was run; check the name given with --filter".to_owned());
    }
    if tally.skipped > 0 && options.filter.is_none() {
        complaints.push(format!("tests: {} were not run; every test must run here", tally.skipped));
    }

    progress.say("done");
    for complaint in &complaints {
        eprintln!("error: {complaint}");
    }
    if let Some(reason) = not_run {
        eprintln!("note: no kernel was tried in a guest: {reason}");
    }
    let summary = format!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    Ok(Verdict { passed: complaints.is_empty() && tally.failed == 0, summary })
}

/// Builds all test programs.
fn build_tests(progress: &Progress) -> Result<()> {
    progress.say("building the tests");
    run(cargo().args(BUILD))
}

/// What came of the tests.
#[derive(Default)]
struct Tests {
    tally: Tally,
    /// What is wrong other than tests that failed.
    faults: Vec<String>,
    /// The suites in which tests failed.
    failed: Vec<String>,
}

impl Tests {
    fn not_run(error: &anyhow::Error) -> Self {
        Self { faults: vec![format!("tests: {error:#}")], ..Self::default() }
    }

    fn add(&mut self, ended: Ended) {
        let (name, failed) = (ended.name, ended.tally.failed);
        self.tally += ended.tally;
        self.faults.extend(ended.fault.map(|fault| format!("tests: {name} {fault}")));
        if failed > 0 {
            self.failed.push(format!("tests: {failed} of {name} failed, see above"));
        }
    }
}

/// Runs all test programs and the documentation tests.
fn run_tests(options: &Options, progress: &Progress) -> Tests {
    progress.say("running the tests");
    // Plain `cargo test` leaves out the tests that need root, because they are marked ignored.
    let arguments: Vec<&str> = ["--include-ignored"].into_iter().chain(options.filter.as_deref()).collect();
    let suites = match programs::suites(&arguments) {
        Ok(suites) => suites,
        Err(error) => return Tests::not_run(&error),
    };
    let (mut tests, mut left) = (Tests::default(), suites.len());
    // Many tests wait, and a suite with one long test leaves a CPU to others.
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    pool::run(suites, at_once, |ended| {
        left -= 1;
        show(&ended, left, progress);
        tests.add(ended);
    });
    tests
}

/// Shows what the program of a suite printed.
fn show(ended: &Ended, left: usize, progress: &Progress) {
    // Nobody may read any more what is printed; the result counts.
    let _ = io::stdout().lock().write_all(&ended.output);
    let (name, seconds) = (&ended.name, ended.took.as_secs_f64());
    progress.say(&format!("{name} took {seconds:.1} s; {left} programs left"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_and_other_faults_are_told_apart() {
        let ended = |name: &str, failed, fault: Option<&str>| Ended {
            name: name.to_owned(),
            output: vec![],
            tally: Tally { passed: 2, failed, skipped: 0 },
            fault: fault.map(str::to_owned),
            took: std::time::Duration::ZERO,
        };
        let mut tests = Tests::default();
        for ended in [ended("a", 0, None), ended("b", 1, None), ended("c", 0, Some("died"))] {
            tests.add(ended);
        }
        assert_eq!(tests.tally, Tally { passed: 6, failed: 1, skipped: 0 });
        assert_eq!(
            (tests.faults, tests.failed),
            (vec!["tests: c died".to_owned()], vec!["tests: 1 of b failed, see above".to_owned()],)
        );
    }
}
