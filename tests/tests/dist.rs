//! The Debian package: its content, its reproducibility, and its way from installation to purge.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tiercel_tests::cli::{Outcome, program, xtask};
use tiercel_tests::need_root;

/// Files that the package must contain, with their modes as `dpkg-deb --contents` prints them.
const FILES: [(&str, &str); 19] = [
    ("-rwxr-xr-x", "./usr/bin/tiercel"),
    ("-rw-r--r--", "./usr/lib/systemd/system/tiercel@.service"),
    ("-rw-r--r--", "./usr/share/tiercel/wireshark/falcon.lua"),
    ("-rw-r--r--", "./etc/tiercel/example.toml"),
    ("-rw-r--r--", "./usr/share/man/man1/tiercel.1.gz"),
    ("-rw-r--r--", "./usr/share/man/man1/tiercel-up.1.gz"),
    ("-rw-r--r--", "./usr/share/man/man1/tiercel-atomic-fetch-add.1.gz"),
    ("-rw-r--r--", "./usr/share/bash-completion/completions/tiercel"),
    ("-rw-r--r--", "./usr/share/zsh/vendor-completions/_tiercel"),
    ("-rw-r--r--", "./usr/share/fish/vendor_completions.d/tiercel.fish"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/copyright"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/changelog.Debian.gz"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/changelog.gz"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/third-party-licences.gz"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/README.md.gz"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/docs/limits.md.gz"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/docs/platforms.md.gz"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/docs/conformance-tester.md.gz"),
    ("-rw-r--r--", "./usr/share/doc/tiercel/docs/wireshark.md.gz"),
];

/// Completes `tiercel conn c` with the package's completion script, as bash does.
const COMPLETE: &str = r#"
source "$1"
COMP_WORDS=(tiercel conn c) COMP_CWORD=2
_tiercel tiercel c conn
echo "${COMPREPLY[*]}"
"#;

/// A package of the program that was built for the tests.
struct Package {
    path: PathBuf,
    /// The output of `cargo xtask dist --json`.
    report: Value,
    directory: TempDir,
}

impl Package {
    fn build() -> Result<Self> {
        let directory = TempDir::new()?;
        let mut dist = Command::new(xtask()?);
        dist.args(["dist", "--json", "--programs"])
            .arg(program().parent().context("it lies in a directory")?);
        dist.arg("--out").arg(directory.path());
        let report: Value = serde_json::from_str(&succeed(&mut dist)?)?;
        let path = PathBuf::from(report["path"].as_str().context("a path")?);
        Ok(Self { path, report, directory })
    }
}

/// Returns whether this machine can build and install Debian packages.
fn is_debian() -> bool {
    let there = Command::new("dpkg-deb").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("not run: this machine has no dpkg-deb");
    }
    there
}

/// Runs a program that must succeed, and returns its output.
fn succeed(command: &mut Command) -> Result<String> {
    let outcome = Outcome::try_from(command.stdin(Stdio::null()).output()?)?;
    ensure!(outcome.code == 0, "{command:?}: {}{}", outcome.stdout, outcome.stderr);
    Ok(outcome.stdout)
}

/// Runs a program that must succeed if it is installed, and returns its output.
fn succeed_if_there(command: &mut Command) -> Result<Option<String>> {
    let found = Command::new("which").arg(command.get_program()).stdout(Stdio::null()).status()?.success();
    if found { succeed(command).map(Some) } else { Ok(None) }
}

#[test]
fn a_package_has_what_it_should_and_the_report_is_true() -> Result<()> {
    if !is_debian() {
        return Ok(());
    }
    let package = Package::build()?;
    let bytes = std::fs::read(&package.path)?;
    assert_eq!(package.report["size"], bytes.len());
    let sum = succeed(Command::new("sha256sum").arg(&package.path))?;
    assert_eq!(package.report["sha256"].as_str(), sum.split(' ').next());

    let contents = succeed(Command::new("dpkg-deb").arg("--contents").arg(&package.path))?;
    for (mode, file) in FILES {
        let line = contents.lines().find(|line| line.ends_with(&format!(" {file}")));
        let line = line.with_context(|| format!("{file} is missing from {contents}"))?;
        ensure!(line.starts_with(mode) && line.contains(" root/root "), "{line}");
    }
    for field in ["Version", "Depends", "Maintainer", "Installed-Size"] {
        let value = succeed(Command::new("dpkg-deb").arg("--field").arg(&package.path).arg(field))?;
        ensure!(!value.trim().is_empty(), "the field {field} is empty");
    }
    completions_and_pages_are_good(&package)
}

fn completions_and_pages_are_good(package: &Package) -> Result<()> {
    let root = package.directory.path().join("root");
    succeed(Command::new("dpkg-deb").arg("--extract").arg(&package.path).arg(&root))?;
    let share = root.join("usr/share");
    let bash = share.join("bash-completion/completions/tiercel");
    let completed = succeed_if_there(Command::new("bash").args(["-c", COMPLETE, "bash"]).arg(&bash))?;
    if let Some(completed) = completed {
        let words: Vec<&str> = completed.split_whitespace().collect();
        ensure!(["connect", "close", "cc"].iter().all(|word| words.contains(word)), "{completed}");
    }
    succeed_if_there(Command::new("zsh").arg("-n").arg(share.join("zsh/vendor-completions/_tiercel")))?;
    let fish = share.join("fish/vendor_completions.d/tiercel.fish");
    succeed_if_there(Command::new("fish").arg("--no-execute").arg(fish))?;
    for page in std::fs::read_dir(share.join("man/man1"))? {
        page_renders(&page?.path())?;
    }
    Ok(())
}

fn page_renders(page: &Path) -> Result<()> {
    let mut man = Command::new("man");
    man.args(["--warnings=w", "--local-file"]).arg(page).env("MANWIDTH", "100").env("MAN_KEEP_STDERR", "1");
    let output = man.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output();
    let Ok(output) = output else { return Ok(()) }; // no man here
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() && said.is_empty(), "{}: {said}", page.display());
    ensure!(text.contains("NAME") && text.contains("tiercel"), "{}: {text}", page.display());
    Ok(())
}

#[test]
fn the_same_commit_gives_the_same_bytes() -> Result<()> {
    if !is_debian() {
        return Ok(());
    }
    let [one, other] = [Package::build()?, Package::build()?];
    ensure!(std::fs::read(&one.path)? == std::fs::read(&other.path)?, "the packages differ");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn from_installation_to_purge() -> Result<()> {
    need_root();
    if !is_debian() {
        return Ok(());
    }
    let package = Package::build()?;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("package");
    let mut machine = Command::new("sh");
    machine.arg(scripts.join("throw-away-machine.sh")).arg(scripts.join("install-to-purge.sh"));
    let said = succeed(machine.arg(&package.path))?;
    ensure!(said.contains("== all is well"), "{said}");
    Ok(())
}
