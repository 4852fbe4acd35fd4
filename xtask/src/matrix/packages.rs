//! Reads Debian's packages of several releases without installing any. It uses apt with a configuration of its
//! own, separate from the machine's. The mirror is the one that the machine itself uses.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail};

use super::said::last_line;
use crate::shell::{Progress, is_on_path};

/// The releases whose kernels are needed: the oldest one, whose kernel Tiercel refuses, the stable one, and its
/// backports.
const SUITES: &str = "bookworm trixie trixie-backports";
const SECURITY_SUITES: &str = "bookworm-security trixie-security";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Maximum age of the package lists.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// The sources of Debian's packages.
#[derive(Debug, PartialEq, Eq)]
struct Mirrors {
    main: String,
    security: Option<String>,
}

/// An apt with a configuration of its own.
pub(crate) struct Archive {
    dir: PathBuf,
}

impl Archive {
    /// Opens the archive in the directory. Downloads the package lists again if they are old.
    ///
    /// # Errors
    /// Says why there are no package lists.
    pub(crate) fn open(dir: &Path, progress: &Progress) -> Result<Self> {
        if !is_on_path("apt-get") || !Path::new(KEYRING).is_file() {
            bail!(
                "the kernels are Debian's, and this machine has no apt with Debian's keys ({KEYRING}). Run it on Debian"
            );
        }
        for folder in ["lists/partial", "cache/archives/partial", "sources"] {
            fs::create_dir_all(dir.join(folder))
                .with_context(|| format!("cannot create {folder} in {}", dir.display()))?;
        }
        let archive = Self { dir: dir.to_owned() };
        archive.refresh(progress)?;
        Ok(archive)
    }

    fn refresh(&self, progress: &Progress) -> Result<()> {
        let stamp = self.dir.join("fresh");
        let age = fs::metadata(&stamp).and_then(|stamp| stamp.modified()).ok();
        let is_fresh = |time| SystemTime::now().duration_since(time).is_ok_and(|age| age < FRESH);
        if age.is_some_and(is_fresh) {
            return Ok(());
        }
        progress.say("reading Debian's lists of kernels");
        fs::write(self.dir.join("sources/matrix.sources"), sources(&mirrors()?))?;
        let output = self.apt("apt-get").arg("update").output().context("cannot start apt-get")?;
        if output.status.success() {
            fs::write(stamp, "")?;
        } else if self.kernel_names().is_ok_and(|names| !names.is_empty()) {
            eprintln!(
                "warning: Debian's lists of kernels could not be read again; those of the last time serve"
            );
        } else {
            bail!("Debian's lists of packages cannot be read: {}", last_line(&output.stderr));
        }
        Ok(())
    }

    /// Returns the names of all packages that begin with `linux-`.
    ///
    /// # Errors
    /// If apt-cache fails.
    pub(crate) fn kernel_names(&self) -> Result<Vec<String>> {
        let output =
            self.apt("apt-cache").args(["pkgnames", "linux-"]).output().context("cannot start apt-cache")?;
        if !output.status.success() {
            bail!("apt-cache failed: {}", last_line(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    /// Downloads a package and unpacks it into `root`.
    ///
    /// # Errors
    /// If the download or the unpacking fails.
    pub(crate) fn unpack(&self, package: &str, root: &Path) -> Result<()> {
        let folder = root.join(".package");
        fs::create_dir_all(&folder)?;
        let output = self.apt("apt-get").args(["download", package]).current_dir(&folder).output()?;
        if !output.status.success() {
            bail!("the package {package} cannot be downloaded: {}", last_line(&output.stderr));
        }
        let mut files = fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path()));
        let file = files.next().with_context(|| format!("apt-get downloaded no file for {package}"))?;
        let output = Command::new("dpkg-deb").arg("-x").arg(file).arg(root).output()?;
        if !output.status.success() {
            bail!("the package {package} cannot be unpacked: {}", last_line(&output.stderr));
        }
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    /// Returns a command of apt that uses only this archive.
    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let option = |name: &str, folder: &str| format!("{name}={}", self.dir.join(folder).display());
        let options = [
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            option("Dir::Etc::sourceparts", "sources"),
            option("Dir::State::lists", "lists"),
            option("Dir::Cache", "cache"),
            // apt's own user may not be able to write to the directory.
            "APT::Sandbox::User=root".to_owned(),
        ];
        command.arg("-q").args(options.iter().flat_map(|option| ["-o", option]));
        command
    }
}

/// Returns the mirror of Debian's packages that this machine uses.
///
/// # Errors
/// If it uses none.
pub(crate) fn mirror() -> Result<String> {
    Ok(mirrors()?.main)
}

/// Returns the mirrors of this machine.
fn mirrors() -> Result<Mirrors> {
    let format = "$(REPO_URI)|$(ORIGIN)|$(LABEL)";
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", format, "Created-By: Packages"])
        .output()
        .context("cannot start apt-get")?;
    parse_mirrors(&String::from_utf8_lossy(&output.stdout))
        .context("no source of Debian's packages is configured; run `apt-get update`, then repeat")
}

/// Parses lines of repository, origin and label.
fn parse_mirrors(targets: &str) -> Option<Mirrors> {
    let find = |label: &str| {
        targets.lines().find_map(|line| {
            let mut parts = line.split('|');
            let uri = parts.next()?;
            (parts.next() == Some("Debian") && parts.next() == Some(label)).then(|| uri.to_owned())
        })
    };
    Some(Mirrors { main: find("Debian")?, security: find("Debian-Security") })
}

/// Returns the source list for apt.
fn sources(mirrors: &Mirrors) -> String {
    let entry = |uri: &str, suites: &str| {
        format!("Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {KEYRING}\n\n")
    };
    let security = mirrors.security.as_ref().map(|uri| entry(uri, SECURITY_SUITES));
    entry(&mirrors.main, SUITES) + &security.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_those_of_debian() {
        let targets = "http://other.example/|Other|Other\nhttp://one.example/debian/|Debian|Debian\n\
                       http://two.example/security/|Debian|Debian-Security\n";
        let mirrors = parse_mirrors(targets).unwrap();
        assert_eq!(mirrors.main, "http://one.example/debian/");
        assert_eq!(mirrors.security.as_deref(), Some("http://two.example/security/"));
        assert_eq!(parse_mirrors("http://other.example/|Other|Other\n"), None);
    }

    #[test]
    fn a_machine_without_security_mirror_has_one_source() {
        let of = |security: Option<&str>| {
            sources(&Mirrors { main: "http://one.example/".into(), security: security.map(str::to_owned) })
        };
        assert_eq!(of(None).matches("Types: deb").count(), 1);
        assert!(
            of(Some("http://two.example/")).contains("URIs: http://two.example/\nSuites: bookworm-security")
        );
    }
}
