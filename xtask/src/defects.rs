//! `cargo xtask defects`: puts defects back into the core, one at a time, and lets the simulation find them.
//!
//! Each file of `tests/defects` is a patch with a description, and the options with which `cargo xtask sim` has to find
//! it, or the test of the core that fails with it. The patches are applied in a copy of the sources below cargo's target
//! directory, which is built in a target directory of its own: cargo takes two copies of a workspace for one. The checkout
//! and what is built of it stay as they are.

use std::{
    collections::BTreeSet,
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    git,
    shell::{Progress, cargo, run, target_dir, workspace},
};

/// Where the patches are.
const PATCHES: &str = "tests/defects";
/// Cargo's arguments for the simulation.
const BUILD: [&str; 8] =
    ["build", "--quiet", "--profile", "test", "--package", "tiercel-tests", "--bin", "sim"];
/// Options of the run without a change, which must not fail.
const CONTROL: &str = "--seeds 400";
/// Build scripts that build the XDP programs. The simulation has none, and a defect need not compile for BPF.
const BUILD_SCRIPTS: [&str; 2] = ["tests/build.rs", "transport-user/build.rs"];

/// Options of `cargo xtask defects`.
#[derive(Args)]
pub(crate) struct Options {
    /// Put only these back; `ls tests/defects` lists them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The results of all defects.
#[derive(Debug, Serialize)]
struct Report {
    defects: Vec<Defect>,
    /// Whether the simulation found each of them.
    passed: bool,
}

/// One defect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Defect {
    name: String,
    /// What is wrong, in a sentence.
    what: String,
    /// The command that finds it.
    by: Search,
    /// What became of it.
    result: Outcome,
    /// Time for building and playing, seconds.
    seconds: u64,
}

/// How a defect is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Search {
    /// By the simulation, with these options.
    Simulation { options: String },
    /// By a test of the core.
    Test { name: String },
}

impl Search {
    /// Reads it from the description of a patch.
    fn read(text: &str) -> Option<Self> {
        let line =
            |what| text.lines().find_map(|line| line.strip_prefix(what)).map(|rest| rest.trim().to_owned());
        let options = line("Options: ").map(|options| Self::Simulation { options });
        options.or_else(|| line("Test: ").map(|name| Self::Test { name }))
    }
}

/// What became of a defect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// It was not tried yet.
    Untried,
    /// A check failed.
    Found { seed: u64, message: String },
    /// The test failed.
    Failed,
    /// No check failed.
    NotFound { seeds: u64 },
    /// The test passed.
    Passed,
    /// The patch does not apply, or its sources do not compile.
    DoesNotFit { why: String },
}

/// What is read of the simulation's own report.
#[derive(Deserialize)]
struct Played {
    seeds: u64,
    failed: Vec<Failed>,
}

#[derive(Deserialize)]
struct Failed {
    seed: u64,
    message: String,
}

/// Puts the defects back, one at a time.
pub(crate) fn defects(options: &Options, progress: &Progress) -> Result<ExitCode> {
    let mut defects = read_all(&workspace().join(PATCHES))?;
    if let Some(unknown) = options.names.iter().find(|name| defects.iter().all(|one| one.name != **name)) {
        bail!("`{unknown}` is no defect: `ls {PATCHES}` lists them");
    }
    defects.retain(|one| options.names.is_empty() || options.names.contains(&one.name));
    let copy =
        Copy { dir: target_dir().join("defects/sources"), target: target_dir().join("defects/target") };
    copy.refresh()?;
    progress.say("without a change");
    copy.build().context("the sources do not compile without a change")?;
    let control = copy.play(CONTROL)?;
    ensure!(
        control.failed.is_empty(),
        "the simulation fails without a change: `cargo xtask sim {CONTROL}` shows it"
    );
    for defect in &mut defects {
        let begin = Instant::now();
        progress.say(&defect.name);
        defect.result = copy.try_defect(defect)?;
        defect.seconds = begin.elapsed().as_secs();
        progress.say(&format!("{}: {}", defect.name, defect.result));
    }
    let passed = defects.iter().all(|one| one.result.is_found());
    let report = Report { defects, passed };
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{report}");
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads the descriptions of all patches, in the order of their names.
fn read_all(dir: &Path) -> Result<Vec<Defect>> {
    let mut defects = vec![];
    for file in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let text = fs::read_to_string(&path)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            defects.push(describe(name, &text)?);
        }
    }
    defects.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(defects)
}

/// Reads the description of a patch: its first line, and the line that says how it is found.
fn describe(name: String, text: &str) -> Result<Defect> {
    let what = text.lines().next().unwrap_or_default().trim().to_owned();
    let by = Search::read(text)
        .with_context(|| format!("{PATCHES}/{name}.patch has no line `Options: ...` or `Test: ...`"))?;
    ensure!(!what.is_empty(), "{PATCHES}/{name}.patch does not begin with a description");
    Ok(Defect { name, what, by, result: Outcome::Untried, seconds: 0 })
}

/// A copy of the sources, and the simulation that is built from it.
struct Copy {
    dir: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Makes the copy equal to the checkout, without a defect. A file that is equal is not written, so that cargo builds
    /// only what changes.
    fn refresh(&self) -> Result<()> {
        fs::create_dir_all(&self.dir).with_context(|| format!("cannot create {}", self.dir.display()))?;
        let all = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = git::said(workspace(), &all).context("cannot list the sources")?;
        let mut kept = BTreeSet::new();
        for name in listed.split_terminator('\0') {
            let (from, to) = (workspace().join(name), self.dir.join(name));
            if !from.is_file() {
                continue; // deleted, and git does not know it yet
            }
            let content = if BUILD_SCRIPTS.contains(&name) {
                without_programs().into_bytes()
            } else {
                fs::read(&from)?
            };
            if fs::read(&to).ok().as_ref() != Some(&content) {
                fs::create_dir_all(to.parent().unwrap_or(&self.dir))?;
                fs::write(&to, content).with_context(|| format!("cannot write {}", to.display()))?;
            }
            kept.insert(to);
        }
        remove_others(&self.dir, &kept)
    }

    /// Builds the simulation. Returns what the compiler says if it does not compile.
    fn build(&self) -> Result<()> {
        run(cargo().args(BUILD).current_dir(&self.dir).env("CARGO_TARGET_DIR", &self.target))
    }

    /// Plays seeds.
    fn play(&self, options: &str) -> Result<Played> {
        let program = self.target.join("debug/sim");
        let mut command = Command::new(&program);
        command.args(["--json", "--failures", "1", "--shrink", "0"]).args(options.split_whitespace());
        let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("the simulation said {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Puts a defect into the copy, plays seeds until a check fails, and restores the copy.
    fn try_defect(&self, defect: &Defect) -> Result<Outcome> {
        if let Err(error) = self.apply(defect, &[]) {
            return Ok(Outcome::DoesNotFit { why: error.to_string() });
        }
        let outcome = match &defect.by {
            Search::Simulation { options } => self.find(options),
            Search::Test { name } => self.run_test(name),
        };
        self.apply(defect, &["--reverse"])?;
        outcome
    }

    /// Applies a defect's patch to the copy.
    fn apply(&self, defect: &Defect, how: &[&str]) -> Result<()> {
        let mut git = Command::new("git");
        git.arg("apply").args(how).arg(workspace().join(PATCHES).join(format!("{}.patch", defect.name)));
        // The copy is in a directory that the checkout's git ignores, and belongs to no repository.
        git.current_dir(&self.dir).env("GIT_CEILING_DIRECTORIES", self.dir.parent().unwrap_or(&self.dir));
        let applied = git.output().context("cannot start git")?;
        ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr).trim());
        Ok(())
    }

    /// Builds the copy and plays seeds until a check fails.
    fn find(&self, options: &str) -> Result<Outcome> {
        if let Err(error) = self.build() {
            return Ok(Outcome::DoesNotFit { why: error.to_string() });
        }
        let played = self.play(options)?;
        Ok(match played.failed.into_iter().min_by_key(|failed| failed.seed) {
            Some(Failed { seed, message }) => Outcome::Found { seed, message },
            None => Outcome::NotFound { seeds: played.seeds },
        })
    }

    /// Runs a test of the core.
    fn run_test(&self, name: &str) -> Result<Outcome> {
        let mut test = cargo();
        test.args([
            "test",
            "--package",
            "transport-common",
            "--lib",
            "--tests",
            "--no-fail-fast",
            "--",
            name,
        ]);
        test.current_dir(&self.dir).env("CARGO_TARGET_DIR", &self.target);
        let output = test.output().context("cannot start cargo test")?;
        let text = [output.stdout, output.stderr].concat();
        Ok(told_by_test(name, &String::from_utf8_lossy(&text)))
    }
}

/// Returns what the output of a run of one test says about a defect.
fn told_by_test(name: &str, output: &str) -> Outcome {
    let ended = |how| {
        let end = format!("{name} ... {how}");
        output.lines().any(|line| line.starts_with("test ") && line.ends_with(&end))
    };
    if ended("FAILED") {
        Outcome::Failed
    } else if ended("ok") {
        Outcome::Passed
    } else {
        Outcome::DoesNotFit {
            why: format!("no test {name} was run: {}", output.lines().last().unwrap_or_default()),
        }
    }
}

/// Returns a build script that writes empty files in place of the XDP programs.
fn without_programs() -> String {
    let mut script = "//! Writes empty files.\n\nfn main() {\n    let dir = std::env::var(\"OUT_DIR\").expect(\"cargo sets it\");\n".to_owned();
    for object in bpf_build::OBJECTS {
        script += &format!("    std::fs::write(format!(\"{{dir}}/{object}\"), []).expect(\"writable\");\n");
    }
    script + "    println!(\"cargo:rerun-if-changed=build.rs\");\n}\n"
}

/// Removes the files of `dir` that are not in `kept`.
fn remove_others(dir: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

impl Outcome {
    fn is_found(&self) -> bool {
        matches!(self, Self::Found { .. } | Self::Failed)
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulation { options } => write!(f, "cargo xtask sim {options}"),
            Self::Test { name } => write!(f, "cargo test --package transport-common {name}"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untried => f.write_str("not tried"),
            Self::Found { seed, message } => {
                write!(f, "found by seed {seed}: {}", message.lines().next().unwrap_or_default())
            }
            Self::NotFound { seeds } => write!(f, "NOT FOUND in {seeds} seeds"),
            Self::Failed => f.write_str("found: the test fails"),
            Self::Passed => f.write_str("NOT FOUND: the test passes"),
            Self::DoesNotFit { why } => write!(f, "DOES NOT FIT: {why}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Defect { name, what, by, result, seconds } in &self.defects {
            writeln!(f, "{name}: {what}\n    {by}, {seconds} s: {result}")?;
        }
        let found = self.defects.iter().filter(|one| one.result.is_found()).count();
        writeln!(f, "{found} of {} defects found", self.defects.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each patch says what it is and how it is found, and is a patch.
    #[test]
    fn every_patch_is_described() {
        let dir = workspace().join(PATCHES);
        let defects = read_all(&dir).expect("descriptions");
        assert!(defects.len() > 10, "{defects:?}");
        for defect in &defects {
            let text = fs::read_to_string(dir.join(format!("{}.patch", defect.name))).expect("readable");
            assert!(text.contains("\n--- a/") && text.contains("\n+++ b/"), "{}", defect.name);
            match &defect.by {
                Search::Simulation { options } => assert!(options.starts_with("--"), "{defect:?}"),
                Search::Test { name } => assert!(!name.contains(' '), "{defect:?}"),
            }
        }
    }

    #[test]
    fn a_patch_without_options_is_refused() {
        let refused = describe("x".to_owned(), "Something is wrong.\n").expect_err("no options");
        assert!(refused.to_string().contains("`Options: ...` or `Test: ...`"), "{refused}");
        let refused = describe("x".to_owned(), "\nOptions: --seeds 1\n").expect_err("no description");
        assert!(refused.to_string().contains("description"), "{refused}");
    }

    #[test]
    fn a_test_that_is_not_there_finds_nothing() {
        let told = |output| told_by_test("it", output);
        assert!(told("running 1 test\ntest a::it ... FAILED\n").is_found());
        assert_eq!(told("running 1 test\ntest a::it ... ok\n"), Outcome::Passed);
        assert!(matches!(told("running 0 tests\n"), Outcome::DoesNotFit { .. }));
    }

    /// A patch applies to the sources as they are. `cargo xtask defects` says whether the simulation finds it.
    #[test]
    fn every_patch_applies() {
        for defect in read_all(&workspace().join(PATCHES)).expect("descriptions") {
            let patch = workspace().join(PATCHES).join(format!("{}.patch", defect.name));
            let mut check = Command::new("git");
            check.args(["apply", "--check"]).arg(&patch).current_dir(workspace());
            let output = check.output().expect("git starts");
            assert!(
                output.status.success(),
                "{}: {}: make the patch again",
                defect.name,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
