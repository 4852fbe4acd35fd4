//! Wrong requests. Each must end with an exit code and a sentence, and leave the node unchanged.

use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::{
    lab::{Lab, Side},
    said::sentence,
};

/// A connection attempt without a peer must end within this time.
const LIMIT: Duration = Duration::from_secs(60);
/// Number of lines that a person reads without scrolling.
const LINES: usize = 6;

/// Commands that must be refused while a node is up in the guest.
const WRONG: [(&str, &str); 6] = [
    (
        "a second node on the interface",
        "up --interface eth0 --address 10.7.0.1 --name other --control-port 4999",
    ),
    ("an interface that is not there", "up --interface eth9 --address 10.7.0.1 --name other"),
    ("an address of nobody", "up --interface lo --address 10.9.9.9 --name other"),
    ("a peer that is not there", "conn connect 10.7.0.99"),
    ("a connection that is not there", "conn show 200"),
    ("a file that is not there", "cp /nowhere 200:"),
];

/// Runs all of them and returns a note for the report.
///
/// # Errors
/// If a command is not refused, or the refusal is not readable.
pub(crate) fn refusals(lab: &mut Lab) -> Result<String> {
    if !lab.nic.has_native_xdp() {
        lab.clear()?;
        refused(lab, "native XDP on a driver without", "up --interface eth0 --address 10.7.0.1")?;
    }
    lab.up()?;
    for (what, command) in WRONG {
        refused(lab, what, command)?;
    }
    lab.must(Side::A, "tiercel status")?;
    Ok(format!(
        "{} wrong requests, each with a sentence",
        WRONG.len() + usize::from(!lab.nic.has_native_xdp())
    ))
}

fn refused(lab: &mut Lab, what: &str, command: &str) -> Result<()> {
    let output = lab.run(Side::A, &format!("tiercel {command}"), LIMIT)?;
    if output.is_ok() {
        bail!("{what} is not refused");
    }
    judge(output.code, &output.text).map_err(|fault| fault.context(format!("the refusal of {what}")))
}

/// Checks that a refusal is readable.
fn judge(code: i32, said: &str) -> Result<()> {
    ensure!(code != 128 + libc::SIGKILL && code != 137, "does not come within {} s", LIMIT.as_secs());
    ensure!((1..=6).contains(&code), "has the exit code {code}");
    ensure!(!said.contains("panicked"), "is a panic: {}", sentence(said));
    let lines = said.lines().filter(|line| !line.contains(" INFO ")).count();
    ensure!(lines > 0, "says nothing");
    ensure!(lines <= LINES, "has {lines} lines");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_code_and_a_sentence() {
        assert!(judge(1, "error: no").is_ok());
        assert!(judge(1, "").is_err());
        assert!(judge(101, "error: no").is_err());
        assert!(judge(1, "thread 'main' panicked at x").is_err());
        assert!(judge(1, &"log\n".repeat(40)).is_err());
        assert!(judge(137, "").unwrap_err().to_string().contains("not come within"));
    }
}
