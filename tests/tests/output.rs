//! What becomes of the output of `tiercel` if it cannot be written.

use std::fs::File;
use std::io;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use tiercel_tests::cli::{Outcome, program};

/// A frame that is not Falcon.
const FRAME: &str = "ffffffffffff0200000000010806";

/// Commands that print something and need no node.
const PRINTING: [&[&str]; 8] = [
    &["--help"],
    &["--version"],
    &["conn", "connect", "--help"],
    &["completions", "bash"],
    &["completions", "bash", "--json"],
    &["conformance", "--list"],
    &["conformance", "--list", "--json"],
    &["decode", "--hex", FRAME],
];

/// Runs `tiercel` with this stdout.
fn run(arguments: &[&str], stdout: impl Into<Stdio>) -> Result<Outcome> {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    command.spawn()?.wait_with_output()?.try_into()
}

/// Returns a file that takes nothing, as on a full disk.
fn full_disk() -> Result<File> {
    Ok(File::options().write(true).open("/dev/full")?)
}

/// Returns a pipe whose reader has gone.
fn closed_pipe() -> Result<io::PipeWriter> {
    let (reader, writer) = io::pipe()?;
    drop(reader);
    Ok(writer)
}

#[test]
fn lost_output_is_a_failure() -> Result<()> {
    for arguments in PRINTING {
        let Outcome { code, stderr, .. } = run(arguments, full_disk()?)?;
        ensure!(code == 5, "{arguments:?}: exit code {code}: {stderr}");
        ensure!(stderr.contains("cannot write to stdout: No space left"), "{arguments:?}: {stderr}");
    }
    Ok(())
}

#[test]
fn a_reader_that_has_enough_is_no_failure() -> Result<()> {
    for arguments in PRINTING {
        let Outcome { code, stderr, .. } = run(arguments, closed_pipe()?)?;
        ensure!(code == 0 && !stderr.contains("stdout"), "{arguments:?}: exit code {code}: {stderr}");
    }
    Ok(())
}

#[test]
fn a_failure_keeps_its_exit_code_although_its_json_is_lost() -> Result<()> {
    let wrong = ["write", "5", "--rkey", "1", "--json"];
    let lost = run(&wrong, full_disk()?)?;
    ensure!(lost.code == 2 && lost.stderr.contains("cannot write to stdout"), "{lost:?}");
    let unread = run(&wrong, closed_pipe()?)?;
    ensure!(unread.code == 2 && !unread.stderr.contains("stdout"), "{unread:?}");
    Ok(())
}
