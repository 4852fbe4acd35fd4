//! The release: a commit, and the version and time that follow from it.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::program::{NAME, output};
use crate::git;

/// The commit that is packaged.
pub(super) struct Release {
    /// The package's version, in Debian's form.
    pub(super) version: String,
    /// The full hash of the commit.
    pub(super) commit: String,
    /// Whether the sources are unchanged since the commit.
    pub(super) clean: bool,
    /// The time of the build in seconds since 1970: `SOURCE_DATE_EPOCH` if it is set, otherwise the time of the commit.
    pub(super) epoch: u64,
    /// Name and address of the committer.
    pub(super) maintainer: String,
}

impl Release {
    /// Describes the commit that is checked out in `root`.
    ///
    /// # Errors
    /// Without git, or outside a repository.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let git = |arguments: &[&str]| git::said(root, arguments);
        let commit = git::head(root).context(
            "the package's version and time come from a git commit: install git, and build in a git checkout",
        )?;
        let committed = git(&["log", "-1", "--format=%ct"])?;
        let epoch = env::var("SOURCE_DATE_EPOCH").unwrap_or(committed);
        let epoch = epoch
            .parse()
            .with_context(|| format!("SOURCE_DATE_EPOCH is not a number of seconds: {epoch}"))?;
        let clean = git::is_clean(root)?;
        let tag = format!("v{}", env!("CARGO_PKG_VERSION"));
        let tagged = git(&["tag", "--points-at", "HEAD"])?.lines().any(|line| line == tag);
        let time = date(epoch, "+%Y%m%d%H%M%S")?;
        Ok(Self {
            version: version(env!("CARGO_PKG_VERSION"), tagged, clean, &time, &commit),
            commit,
            clean,
            epoch,
            maintainer: git(&["log", "-1", "--format=%cn <%ce>"])?,
        })
    }

    /// Returns the changelog of the package, in Debian's format.
    pub(super) fn changelog(&self) -> Result<String> {
        let date = date(self.epoch, "+%a, %d %b %Y %H:%M:%S +0000")?;
        Ok(format!(
            "{NAME} ({}) unstable; urgency=medium\n\n  * Built from commit {}.\n\n -- {}  {date}\n",
            self.version, self.commit, self.maintainer
        ))
    }
}

/// Returns the version. An untagged commit sorts before the release of its version and after older commits.
fn version(number: &str, tagged: bool, clean: bool, time: &str, commit: &str) -> String {
    let short = &commit[..commit.len().min(8)];
    match (tagged, clean) {
        (true, true) => format!("{number}-1"),
        (_, true) => format!("{number}~git{time}.{short}-1"),
        (_, false) => format!("{number}~git{time}.{short}+modified-1"),
    }
}

/// Returns a time in UTC, in a format of date(1).
fn date(epoch: u64, format: &str) -> Result<String> {
    let said = output(Command::new("date").args(["--utc", "--date", &format!("@{epoch}"), format]))?;
    ensure!(!said.trim().is_empty(), "date printed nothing");
    Ok(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_comes_before_its_release() {
        let version = |tagged, clean| version("0.1.0", tagged, clean, "20261123005514", "1d3d461aa0ff");
        assert_eq!(version(true, true), "0.1.0-1");
        assert_eq!(version(false, true), "0.1.0~git20261123005514.1d3d461a-1");
        assert_eq!(version(true, false), "0.1.0~git20261123005514.1d3d461a+modified-1");
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(date(0, "+%a, %d %b %Y %H:%M:%S +0000").unwrap(), "Thu, 01 Jan 1970 00:00:00 +0000");
    }
}
