//! `cargo xtask test`: runs and counts every check and every test, and reports any that it left out.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    ops::AddAssign,
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Context, Result};
use clap::Args;

use crate::{
    ahead::BuildAhead,
    build_programs, checks,
    matrix::{self, Quick, QuickNeeds},
    preflight, proof,
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

/// The environment variable that tells the tests where their programs are.
const PROGRAMS_VAR: &str = "TIERCEL_PROGRAMS";

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
    let (mut tally, failure) = thread::scope(|scope| {
        // Guests mostly wait, and the tests wait for conditions, so both fit on two CPUs at the same time. What guests
        // need is installed before, because tests look at the machine's files.
        let guests = (options.filter.is_none() && built.is_ok()).then(|| {
            let needs = QuickNeeds::get(target_dir().join("debug/tiercel"), progress);
            scope.spawn(|| matrix::quick(needs, progress))
        });
        let ended = match built {
            Ok(()) => run_tests(options, progress),
            Err(error) => Ok((Tally::default(), Some(format!("tests: {error:#}")))),
        };
        match guests.map(|guests| guests.join().expect("trying a kernel does not panic")) {
            Some(Ok(Quick::Ran(faults))) => complaints.extend(faults),
            Some(Ok(Quick::NotHere(reason))) => not_run = Some(reason),
            Some(Err(error)) => complaints.push(format!("guests: {error:#}")),
            None => {}
        }
        ended
    })?;
    complaints.extend(failure);
    tally.failed += complaints.len();
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

/// Runs all test programs and the documentation tests. Returns the counts, and any failure other than failed tests.
fn run_tests(options: &Options, progress: &Progress) -> Result<(Tally, Option<String>)> {
    progress.say("running the tests");
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).env(PROGRAMS_VAR, target_dir().join("debug"));
    // Plain `cargo test` leaves out the tests that need root, because they are marked ignored.
    command.args(["--", "--include-ignored"]).args(&options.filter);
    let (mut tally, mut in_order) = watch_tests(command)?;
    progress.say("trying every order of the accesses to shared memory");
    let mut threads = cargo();
    threads.args(proof::THREADS).args(["--no-fail-fast", "--"]).args(&options.filter);
    let (of_threads, threads_in_order) = watch_tests(threads)?;
    tally += of_threads;
    in_order &= threads_in_order;
    let died = !in_order && tally.failed == 0;
    Ok((tally, died.then(|| "tests: a test program did not build, or ended without a result".to_owned())))
}

/// Runs the tests and shows their output. Returns the counts, and whether the command succeeded.
fn watch_tests(mut command: Command) -> Result<(Tally, bool)> {
    // One pipe for both: cargo names the test program on one stream, the program reports on the other.
    let (reader, mut writer) = io::pipe().context("cannot make a pipe")?;
    let share = || writer.try_clone().context("cannot share a pipe");
    command.stdout(share()?).stderr(share()?);
    let mut child = command.spawn().context("cannot start cargo test")?;
    thread::scope(|scope| {
        let tally = scope.spawn(|| tally_output(reader));
        let status = child.wait().context("cannot wait for cargo test")?;
        // A process that a test left behind may keep the pipe open forever, so this function marks the end of
        // the output.
        writer
            .write_all(END_OF_OUTPUT)
            .and_then(|()| writer.write_all(b"\n"))
            .context("cannot end a pipe")?;
        Ok((tally.join().expect("reading does not panic")?, status.success()))
    })
}

/// Marks the end of the output of the tests.
const END_OF_OUTPUT: &[u8] = b"\0end of output";

/// Shows the output up to [`END_OF_OUTPUT`] and adds up the results in it.
fn tally_output(output: impl Read) -> Result<Tally> {
    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read the output of cargo test")?;
        let last = line.strip_suffix(END_OF_OUTPUT);
        let text = String::from_utf8_lossy(last.unwrap_or(&line));
        if last.is_none() || !text.is_empty() {
            println!("{text}");
        }
        if let Some(of_program) = Tally::parse(&text) {
            tally += of_program;
        }
        if last.is_some() {
            break;
        }
    }
    Ok(tally)
}

/// The numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
    /// Ignored or filtered out.
    skipped: usize,
}

impl Tally {
    /// Reads the last line of a test program:
    /// `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
    fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            counts.split("; ").find_map(|count| count.strip_suffix(what)?.trim_end().parse::<usize>().ok())
        };
        let skipped = count("ignored")? + count("filtered out")?;
        Some(Self { passed: count("passed")?, failed: count("failed")?, skipped })
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_a_test_program_says() {
        let line = "test result: FAILED. 12 passed; 3 failed; 4 ignored; 0 measured; 5 filtered out; finished in 0.10s";
        assert_eq!(Tally::parse(line), Some(Tally { passed: 12, failed: 3, skipped: 9 }));
        let ok =
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s";
        assert_eq!(Tally::parse(ok), Some(Tally { passed: 1, failed: 0, skipped: 0 }));
    }

    #[test]
    fn counts_no_other_line() {
        for line in ["running 3 tests", "test a::b ... ok", "test result: ", "test result: ok. 1 passed"] {
            assert_eq!(Tally::parse(line), None, "{line}");
        }
    }

    const ONE_PASSED: &str = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn adds_up_both_streams_and_a_last_line_without_its_end() {
        let script = format!("echo '{ONE_PASSED}'; echo '{ONE_PASSED}' >&2; printf '{ONE_PASSED}'");
        let expected = Tally { passed: 3, failed: 0, skipped: 0 };
        assert_eq!(watch_tests(shell(&script)).unwrap(), (expected, true));
    }

    #[test]
    fn notices_a_test_program_that_dies() {
        let died = watch_tests(shell("echo running 1 test; kill -9 $$")).unwrap();
        assert_eq!(died, (Tally::default(), false));
    }

    #[test]
    fn does_not_wait_for_a_process_a_test_left_behind() {
        let note = std::env::temp_dir().join(format!("xtask-left-behind-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > '{}'; echo '{ONE_PASSED}'", note.display());
        let (tally, in_order) = watch_tests(shell(&script)).unwrap();
        assert_eq!((tally.passed, in_order), (1, true));
        let left_behind = std::fs::read_to_string(&note).unwrap();
        // The shell's own kill: a bare Debian has no program of that name.
        let killed = shell(&format!("kill {}", left_behind.trim())).status().unwrap();
        assert!(killed.success(), "the process still runs when the result is available");
        std::fs::remove_file(note).unwrap();
    }
}
