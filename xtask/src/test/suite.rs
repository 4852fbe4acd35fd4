//! One program that runs tests: its output and its result.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::tally::Tally;

/// A program that runs tests.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) command: Command,
}

/// How the tests of a suite ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) name: String,
    /// What the program printed.
    pub(super) output: Vec<u8>,
    pub(super) tally: Tally,
    /// Why the suite does not count as passed, other than tests that failed.
    pub(super) fault: Option<String>,
    pub(super) took: Duration,
}

impl Suite {
    /// Runs the tests.
    pub(super) fn run(self) -> Ended {
        let started = Instant::now();
        let (output, tally, fault) = match watch(self.command) {
            Ok((output, tally, true)) if tally != Tally::default() || is_empty(&output) => {
                (output, tally, None)
            }
            Ok((output, tally, false)) if tally.failed > 0 => (output, tally, None),
            Ok((output, tally, _)) => {
                (output, tally, Some("did not build, or ended without a result".to_owned()))
            }
            Err(error) => (vec![], Tally::default(), Some(format!("{error:#}"))),
        };
        Ended { name: self.name, output, tally, fault, took: started.elapsed() }
    }
}

/// Returns whether a program with this output says that it has no tests.
fn is_empty(output: &[u8]) -> bool {
    output.split(|&byte| byte == b'\n').any(|line| line == b"running 0 tests")
}

/// Marks the end of the output of a suite.
const END_OF_OUTPUT: &[u8] = b"\0end of output";

/// Runs a suite. Returns its output and the counts in it, and whether the command succeeded.
fn watch(mut command: Command) -> Result<(Vec<u8>, Tally, bool)> {
    // One pipe for both: cargo names the test program on one stream, the program reports on the other.
    let (reader, mut writer) = io::pipe().context("cannot make a pipe")?;
    let share = || writer.try_clone().context("cannot share a pipe");
    command.stdout(share()?).stderr(share()?);
    let mut child = command.spawn().context("cannot start it")?;
    thread::scope(|scope| {
        let output = scope.spawn(|| collect(reader));
        let status = child.wait().context("cannot wait for it")?;
        // A process that a test left behind may keep the pipe open forever, so this function marks the end of
        // the output.
        writer
            .write_all(END_OF_OUTPUT)
            .and_then(|()| writer.write_all(b"\n"))
            .context("cannot end a pipe")?;
        let (output, tally) = output.join().expect("reading does not panic")?;
        Ok((output, tally, status.success()))
    })
}

/// Collects the output up to [`END_OF_OUTPUT`] and adds up the results in it.
fn collect(output: impl Read) -> Result<(Vec<u8>, Tally)> {
    let (mut kept, mut tally) = (vec![], Tally::default());
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read the output")?;
        let last = line.strip_suffix(END_OF_OUTPUT);
        let text = last.unwrap_or(&line);
        if last.is_none() || !text.is_empty() {
            kept.extend_from_slice(text);
            kept.push(b'\n');
        }
        if let Some(of_program) = Tally::parse(&String::from_utf8_lossy(text)) {
            tally += of_program;
        }
        if last.is_some() {
            break;
        }
    }
    Ok((kept, tally))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_PASSED: &str = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
    const ONE_FAILED: &str = "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";

    fn run(script: &str) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Suite { name: "it".to_owned(), command }.run()
    }

    #[test]
    fn adds_up_both_streams_and_a_last_line_without_its_end() {
        let ended = run(&format!("echo '{ONE_PASSED}'; echo '{ONE_PASSED}' >&2; printf '{ONE_PASSED}'"));
        assert_eq!((ended.tally.passed, ended.fault), (3, None));
        assert_eq!(String::from_utf8(ended.output).unwrap(), format!("{ONE_PASSED}\n").repeat(3));
    }

    #[test]
    fn a_failed_test_is_no_other_fault() {
        let ended = run(&format!("echo '{ONE_FAILED}'; exit 101"));
        assert_eq!((ended.tally.failed, ended.fault), (1, None));
        assert_eq!(run("echo running 0 tests").fault, None);
    }

    #[test]
    fn notices_a_test_program_that_dies() {
        for script in ["echo running 1 test; kill -9 $$", "true", "exit 1"] {
            let ended = run(script);
            assert!(ended.fault.is_some_and(|fault| fault.contains("without a result")), "{script}");
            assert_eq!(ended.tally, Tally::default());
        }
    }

    #[test]
    fn notices_a_program_that_is_not_there() {
        let ended = Suite { name: "it".to_owned(), command: Command::new("/nowhere") }.run();
        assert!(ended.fault.is_some_and(|fault| fault.contains("cannot start")));
    }

    #[test]
    fn does_not_wait_for_a_process_a_test_left_behind() {
        let note = std::env::temp_dir().join(format!("xtask-left-behind-{}", std::process::id()));
        let ended = run(&format!("sleep 600 & echo $! > '{}'; echo '{ONE_PASSED}'", note.display()));
        assert_eq!((ended.tally.passed, ended.fault), (1, None));
        let left_behind = std::fs::read_to_string(&note).unwrap();
        // The shell's own kill: a bare Debian has no program of that name.
        let killed =
            Command::new("sh").args(["-c", &format!("kill {}", left_behind.trim())]).status().unwrap();
        assert!(killed.success(), "the process still runs when the result is available");
        std::fs::remove_file(note).unwrap();
    }
}
