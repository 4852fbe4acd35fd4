//! Asks git about a checkout.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Variables with which a git hook names its repository. They would win over the directory that is asked about.
const OF_A_HOOK: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"];

/// Returns what git prints about the checkout in `root`, without the space around it.
///
/// # Errors
/// Without git, outside a repository, or if git refuses the arguments.
pub(crate) fn said(root: &Path, arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    // Only reads, so the owner of the directory does not matter.
    git.args(["-c", "safe.directory=*", "-C"]).arg(root).args(arguments).env("LC_ALL", "C");
    OF_A_HOOK.iter().for_each(|variable| {
        git.env_remove(variable);
    });
    let output = git.output().context("cannot start git")?;
    if !output.status.success() {
        bail!(
            "`git {}` failed ({}): {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the full hash of the commit that is checked out in `root`.
///
/// # Errors
/// As [`said`].
pub(crate) fn head(root: &Path) -> Result<String> {
    said(root, &["rev-parse", "HEAD"])
}

/// Returns whether the files in `root` are those of the commit, and no others except for ignored ones.
///
/// # Errors
/// As [`said`].
pub(crate) fn is_clean(root: &Path) -> Result<bool> {
    Ok(said(root, &["status", "--porcelain", "--untracked-files=normal"])?.is_empty())
}
