//! `cargo xtask defects`: puts defects back, one at a time, and lets the simulation or a test find them.
//!
//! Each file of `tests/defects` is a patch with a description, and the options with which `cargo xtask sim` has to find
//! it, or the test that fails with it: `Test: PACKAGE lib NAME` names a unit test of the library, `Test: PACKAGE bin/PROGRAM
//! NAME` one of a program, `Test: PACKAGE PROGRAM NAME` a test of a program in the package's `tests`. Only what has this test
//! is built. The patches are applied in a copy of the sources below cargo's target directory, which is built in a target
//! directory of its own: cargo takes two copies of a workspace for one. The checkout and what is built of it stay as they
//! are.

use std::{
    collections::{BTreeMap, BTreeSet},
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
/// Build scripts that build the XDP programs. Neither the simulation nor a unit test has any, and a defect need not compile
/// for BPF.
const BUILD_SCRIPTS: [&str; 2] = ["tests/build.rs", "transport-user/node/build.rs"];

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
    /// By a test.
    Test {
        #[serde(flatten)]
        place: TestPlace,
        name: String,
    },
}

/// What has to be built for a test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct TestPlace {
    package: String,
    /// `lib` for the unit tests of the library, `bin/` and the name of a program for those of that program, otherwise the
    /// name of a program in the package's `tests`.
    target: String,
}

impl TestPlace {
    /// The target of unit tests of the library.
    const LIB: &str = "lib";
    /// What the targets of unit tests of programs begin with.
    const BIN: &str = "bin/";

    /// Reads the place and the name of a test: three words.
    fn read(text: &str) -> Option<(Self, String)> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let (package, target, name) = (words.next()?, words.next()?, words.next()?);
        words.next().is_none().then_some((Self { package, target }, name))
    }

    /// Returns cargo's arguments for it.
    fn arguments(&self) -> Vec<&str> {
        let mut arguments = vec!["test", "--package", &self.package];
        match (self.target.as_str(), self.target.strip_prefix(Self::BIN)) {
            (Self::LIB, _) => arguments.push("--lib"),
            (_, Some(program)) => arguments.extend(["--bin", program]),
            (program, None) => arguments.extend(["--test", program]),
        }
        arguments
    }
}

impl Search {
    /// Reads it from the description of a patch.
    fn read(text: &str) -> Option<Self> {
        let line =
            |what| text.lines().find_map(|line| line.strip_prefix(what)).map(|rest| rest.trim().to_owned());
        let options = line("Options: ").map(|options| Self::Simulation { options });
        options.or_else(|| {
            let (place, name) = TestPlace::read(&line("Test: ")?)?;
            Some(Self::Test { place, name })
        })
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
    copy.control(&defects)?;
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
    let by = Search::read(text).with_context(|| {
        format!("{PATCHES}/{name}.patch has no line `Options: ...` or `Test: PACKAGE TARGET NAME`")
    })?;
    ensure!(!what.is_empty(), "{PATCHES}/{name}.patch does not begin with a description");
    Ok(Defect { name, what, by, result: Outcome::Untried, seconds: 0 })
}

/// A copy of the sources, and what is built from it.
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

    /// Checks that nothing fails without a change, of what has to find these defects.
    fn control(&self, defects: &[Defect]) -> Result<()> {
        let mut tests: BTreeMap<&TestPlace, BTreeSet<&str>> = BTreeMap::new();
        for defect in defects {
            if let Search::Test { place, name } = &defect.by {
                tests.entry(place).or_default().insert(name);
            }
        }
        for (place, names) in tests {
            let names: Vec<_> = names.into_iter().collect();
            let said = self.test(place, &names)?;
            for name in names {
                let outcome = told_by_test(name, &said);
                ensure!(outcome == Outcome::Passed, "without a change, test {name}: {outcome}");
            }
        }
        if defects.iter().all(|one| matches!(one.by, Search::Test { .. })) {
            return Ok(());
        }
        self.build().context("the sources do not compile without a change")?;
        ensure!(
            self.play(CONTROL)?.failed.is_empty(),
            "the simulation fails without a change: `cargo xtask sim {CONTROL}` shows it"
        );
        Ok(())
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

    /// Puts a defect into the copy, looks for it, and restores the copy.
    fn try_defect(&self, defect: &Defect) -> Result<Outcome> {
        if let Err(error) = self.apply(defect, &[]) {
            return Ok(Outcome::DoesNotFit { why: error.to_string() });
        }
        let outcome = match &defect.by {
            Search::Simulation { options } => self.find(options),
            Search::Test { place, name } => self.test(place, &[name]).map(|said| told_by_test(name, &said)),
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

    /// Runs tests of one place. Returns what cargo and they say.
    fn test(&self, place: &TestPlace, names: &[&str]) -> Result<String> {
        let mut test = cargo();
        test.args(place.arguments()).arg("--").args(names);
        test.current_dir(&self.dir).env("CARGO_TARGET_DIR", &self.target);
        let output = test.output().context("cannot start cargo test")?;
        // What the test program says comes last: the end of a run that has not begun says why.
        let parts = if output.stdout.is_empty() {
            [output.stdout, output.stderr]
        } else {
            [output.stderr, output.stdout]
        };
        Ok(String::from_utf8_lossy(&parts.concat()).into_owned())
    }
}

/// Returns what the output of a run says about a test.
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
            Self::Test { place, name } => write!(f, "cargo {} {name}", place.arguments().join(" ")),
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
                Search::Test { place, name } => {
                    assert!(has_test(place, name), "there is no such test: {defect:?}")
                }
            }
        }
    }

    /// Returns whether the sources of a place have a test.
    fn has_test(place: &TestPlace, name: &str) -> bool {
        let TestPlace { package, target } = place;
        let directory = match package.as_str() {
            "falcon-conformance" => "conformance",
            "tiercel" => "transport-user/library",
            "tiercel-cli" => "transport-user/program",
            "tiercel-node" => "transport-user/node",
            "tiercel-tests" => "tests",
            "trace-replay" => "replay",
            other => other,
        };
        let sources = if target == TestPlace::LIB || target.starts_with(TestPlace::BIN) {
            vec![format!(":(glob)**/{directory}/src/**")]
        } else {
            ["/**", ".rs"].map(|end| format!(":(glob)**/{directory}/tests/{target}{end}")).to_vec()
        };
        let head = format!("fn {name}(");
        let grep = ["grep", "--untracked", "--files-with-matches", "--fixed-strings", &head, "--"];
        let arguments: Vec<_> = grep.into_iter().chain(sources.iter().map(String::as_str)).collect();
        git::said(workspace(), &arguments).is_ok_and(|found| !found.is_empty())
    }

    #[test]
    fn a_test_is_named_with_its_place() {
        let read = |text: &str| describe("x".to_owned(), &format!("Something is wrong.\n{text}\n"));
        for (text, command) in [
            ("Test: tiercel-node lib it", "cargo test --package tiercel-node --lib it"),
            (
                "Test: transport-common transaction it",
                "cargo test --package transport-common --test transaction it",
            ),
            ("Test: tiercel-cli bin/tiercel it", "cargo test --package tiercel-cli --bin tiercel it"),
        ] {
            assert_eq!(read(text).expect("a test").by.to_string(), command);
        }
        for text in ["Test: it", "Test: tiercel-node it", "Test: tiercel-node lib it that"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_patch_without_options_is_refused() {
        let refused = describe("x".to_owned(), "Something is wrong.\n").expect_err("no options");
        assert!(refused.to_string().contains("`Options: ...` or `Test: PACKAGE TARGET NAME`"), "{refused}");
        let refused = describe("x".to_owned(), "\nOptions: --seeds 1\n").expect_err("no description");
        assert!(refused.to_string().contains("description"), "{refused}");
    }

    #[test]
    fn a_test_that_is_not_there_finds_nothing() {
        let told = |output| told_by_test("it", output);
        assert!(told("running 1 test\ntest a::it ... FAILED\n").is_found());
        assert_eq!(told("running 1 test\ntest a::it ... ok\n"), Outcome::Passed);
        assert!(matches!(told("running 0 tests\n"), Outcome::DoesNotFit { .. }));
        let broken = told("error: could not compile `x`\n");
        assert_eq!(broken.to_string(), "DOES NOT FIT: no test it was run: error: could not compile `x`");
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
