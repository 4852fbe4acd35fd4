//! The commands that try the tests and the code in other ways than running them: `cargo xtask threads · mutants · miri ·
//! fuzz`. What is missing is installed into the tools' directory. docs/testing/README.md says what they found.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{
    setup::NIGHTLY,
    shell::{Progress, cargo, run, succeeds, target_dir, workspace},
};

/// The versions that are installed if the tool is missing.
const MUTANTS_VERSION: &str = "27.1.0";
const FUZZ_VERSION: &str = "0.13.2";

/// Cargo's arguments for the tests under loom.
pub(crate) const THREADS: [&str; 7] =
    ["test", "--package", "transport-common", "--features", "loom", "--test", "threads"];

/// The modules of the core that are mutated, each with the test programs that find most of its mutants. The other
/// programs are slower, and `--thorough` asks them too.
const MUTATED: [(&str, &[&str]); 4] = [
    ("wire", &["--lib", "--test=wire", "--test=parts"]),
    ("packet_delivery", &["--lib", "--test=packet_delivery", "--test=transaction", "--test=parts"]),
    ("transaction", &["--lib", "--test=transaction", "--test=packet_delivery", "--test=parts"]),
    ("ulp", &["--lib", "--test=transaction", "--test=packet_delivery", "--test=parts", "--test=wire"]),
];

/// Seconds after which a test run of a mutant counts as one that never ends. The tests of a module take one second.
const MUTANT_TIMEOUT: &str = "20";

/// Options of `cargo xtask mutants`.
#[derive(Args)]
pub(crate) struct Mutants {
    /// Mutate only this module: wire, packet_delivery, transaction or ulp
    #[arg(long, value_name = "MODULE")]
    module: Option<String>,
    /// Try only a part of the mutants, for example 0/6: each sixth, from the first
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// Try again what the quick tests missed, with all tests of the core and of the host's card
    #[arg(long)]
    thorough: bool,
}

/// Options of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// Run only this target; `ls fuzz/fuzz_targets` lists them
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Runs the tests of `transport-common/tests/threads.rs`.
pub(crate) fn threads(progress: &Progress) -> Result<()> {
    progress.say("trying every order of the accesses to shared memory");
    run(cargo().args(THREADS))
}

/// Runs cargo-mutants over the modules and prints the figure of each. Missed mutants are no failure; what they are is
/// for a person to judge.
pub(crate) fn mutants(options: &Mutants, progress: &Progress) -> Result<()> {
    if let Some(name) = &options.module
        && !MUTATED.iter().any(|(module, _)| module == name)
    {
        bail!("`{name}` is not mutated: choose wire, packet_delivery, transaction or ulp");
    }
    let tool = tool("cargo-mutants", MUTANTS_VERSION, progress)?;
    let mut figures = vec![];
    for (module, tests) in MUTATED.iter().filter(|(m, _)| options.module.as_deref().is_none_or(|o| o == *m)) {
        progress.say(&format!("mutating {module}"));
        let output = target_dir().join("mutants").join(module);
        fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let mut command = Command::new(&tool);
        command.current_dir(workspace()).args(["mutants", "--package", "transport-common"]);
        command.arg(format!("--file=transport-common/src/{module}/**")).arg("--output").arg(&output);
        command.args(["--no-times", "--timeout", MUTANT_TIMEOUT]);
        if options.thorough {
            command.args(["--iterate", "--test-package=transport-common,host-nic"]);
        } else {
            command.args(tests.iter().map(|test| format!("--cargo-arg={test}")));
        }
        // cargo-mutants refuses `--sharding` without `--shard`.
        let shard = options.shard.iter();
        command.args(shard.flat_map(|shard| ["--sharding", "round-robin", "--shard", shard]));
        // Compiling takes most of the time. The directory of the copy must be its own.
        command.env_remove("CARGO_TARGET_DIR").envs([
            ("CARGO_PROFILE_TEST_DEBUG", "0"),
            ("CARGO_PROFILE_TEST_OPT_LEVEL", "0"),
            ("CARGO_INCREMENTAL", "1"),
        ]);
        let status = command.status().context("cannot start cargo-mutants")?;
        // 2: mutants were missed; 3: the tests of a mutant did not end in time.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            bail!("cargo-mutants failed ({status})");
        }
        figures.push(figure(module, &output.join("mutants.out"))?);
    }
    figures.iter().for_each(|figure| println!("{figure}"));
    Ok(())
}

/// Reads the lists that cargo-mutants wrote, and returns a line about them.
fn figure(module: &str, lists: &Path) -> Result<String> {
    let count = |name: &str| -> Result<usize> {
        let path = lists.join(name);
        let list = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(list.lines().count())
    };
    let (caught, timeout, missed) = (count("caught.txt")?, count("timeout.txt")?, count("missed.txt")?);
    let share = share(caught + timeout, missed);
    let lists = lists.display();
    Ok(format!("{module}: {caught} caught, {timeout} did not end, {missed} missed: {share} ({lists})"))
}

/// Returns which part of the viable mutants was caught, rounded down.
fn share(caught: usize, missed: usize) -> String {
    match (caught + missed, caught * 1000) {
        (0, _) => "no viable mutant".to_owned(),
        (all, caught) => format!("{}.{} % caught", caught / all / 10, caught / all % 10),
    }
}

/// Runs the core's tests in Miri.
pub(crate) fn miri(progress: &Progress) -> Result<()> {
    let present = succeeds(Command::new("cargo").args([&format!("+{NIGHTLY}"), "miri", "--version"]));
    if !present {
        progress.say("installing Miri");
        run(Command::new("rustup").args(["component", "add", "miri", "rust-src", "--toolchain", NIGHTLY]))?;
    }
    progress.say("running the core's tests in Miri");
    let mut command = Command::new("cargo");
    command.current_dir(workspace()).arg(format!("+{NIGHTLY}"));
    command.args(["miri", "test", "--package", "transport-common", "--lib", "--tests", "--no-fail-fast"]);
    // The tests read the corpus and the tables of the pages. Their own directory: another compiler built the rest.
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("CARGO_TARGET_DIR", target_dir().join("miri"));
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").env_remove("RUSTUP_TOOLCHAIN");
    run(&mut command)
}

/// Runs the fuzz targets, from their committed inputs. What libFuzzer finds stays in the target directory.
pub(crate) fn fuzz(options: &Fuzz, progress: &Progress) -> Result<()> {
    let all = targets()?;
    if let Some(name) = &options.target
        && !all.contains(name)
    {
        bail!("there is no fuzz target `{name}`: choose one of {}", all.join(", "));
    }
    let tool = tool("cargo-fuzz", FUZZ_VERSION, progress)?;
    for target in all.iter().filter(|target| options.target.as_ref().is_none_or(|only| only == *target)) {
        progress.say(&format!("fuzzing {target} for {} s", options.seconds));
        let found = target_dir().join("fuzz").join(target);
        fs::create_dir_all(&found).with_context(|| format!("cannot create {}", found.display()))?;
        let mut command = Command::new(&tool);
        // Without a sanitizer: the parsers are safe code, and Miri watches the core's unsafe code.
        command
            .current_dir(workspace())
            .arg("fuzz")
            .args(["run", "--sanitizer", "none", target])
            .arg(&found)
            .arg(corpus(target));
        command.args(["--", &format!("-max_total_time={}", options.seconds), "-max_len=4096"]);
        command.env("RUSTUP_TOOLCHAIN", NIGHTLY).env("CARGO_TARGET_DIR", target_dir().join("fuzz-build"));
        run(&mut command)?;
    }
    Ok(())
}

/// The names of the fuzz targets.
fn targets() -> Result<Vec<String>> {
    let directory = workspace().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

/// The committed inputs of a fuzz target.
fn corpus(target: &str) -> PathBuf {
    match target {
        "decode" => workspace().join("transport-common/tests/corpus"),
        _ => workspace().join("fuzz/corpus").join(target),
    }
}

/// Returns the path of a cargo command, which is installed if it is missing.
fn tool(name: &str, version: &str, progress: &Progress) -> Result<OsString> {
    let root = bpf_build::tools_dir().with_context(|| format!("cannot install {name}: set HOME"))?;
    let path = root.join("bin").join(name);
    let subcommand = name.trim_start_matches("cargo-");
    for present in [path.as_os_str(), name.as_ref()] {
        if succeeds(Command::new(present).args([subcommand, "--version"])) {
            return Ok(present.to_owned());
        }
    }
    progress.say(&format!("installing {name} {version}"));
    let mut install = cargo();
    install.args(["install", "--locked", name, "--version", version, "--root"]).arg(root);
    run(install.env_remove("CARGO_TARGET_DIR"))?;
    Ok(path.into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_rounded_down() {
        assert_eq!(share(1999, 1), "99.9 % caught");
        assert_eq!(share(17, 3), "85.0 % caught");
        assert_eq!(share(0, 0), "no viable mutant");
    }

    #[test]
    fn every_fuzz_target_has_inputs() {
        let targets = targets().unwrap();
        assert!(targets.contains(&"decode".to_owned()));
        for target in targets {
            let inputs = fs::read_dir(corpus(&target)).map(Iterator::count);
            assert!(inputs.is_ok_and(|inputs| inputs > 0), "{target} has no corpus");
        }
    }
}
