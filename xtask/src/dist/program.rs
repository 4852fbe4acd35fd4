//! The program that is packed, and how those are run that pack it.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// The name of the package and of its program.
pub(super) const NAME: &str = "tiercel";

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// If the program cannot be started, or if it fails; with its error message.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.env("LC_ALL", "C").output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed no text"))
}
