//! The test programs that cargo built, and how cargo would run them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::suite::Suite;
use crate::{
    proof,
    shell::{cargo, target_dir},
};

/// Suites that take longest, the longest first. They begin first, so that none of them is alone at the end.
const LONGEST: [&str; 13] = [
    "soak",
    "trace",
    "conformance",
    "mtu",
    "congestion",
    "exactly_once",
    "differential",
    "data_path",
    "dist",
    "lifecycle",
    "hostile_peer",
    "path_mtu",
    "lossy",
];

/// The environment variable that tells the tests where their programs are.
const PROGRAMS_VAR: &str = "TIERCEL_PROGRAMS";

/// A line of `cargo --message-format=json`.
#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Returns every suite: the test programs, the tests in the documentation, and the orders of accesses to shared memory.
/// `arguments` go to each of them. All must have been built.
pub(super) fn suites(arguments: &[&str]) -> Result<Vec<Suite>> {
    let mut list = cargo();
    list.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let listed = list.stderr(Stdio::inherit()).output().context("cannot start cargo test")?;
    if !listed.status.success() {
        bail!("the tests did not build");
    }
    let mut suites = programs(&String::from_utf8_lossy(&listed.stdout))?;
    ensure!(!suites.is_empty(), "cargo names no test program");
    let mut documentation = cargo();
    documentation.args(["test", "--workspace", "--doc", "--no-fail-fast", "--"]);
    suites.push(Suite { name: "documentation".to_owned(), command: documentation });
    let mut threads = cargo();
    threads.args(proof::THREADS).args(["--no-fail-fast", "--"]);
    suites.push(Suite { name: "every order of the accesses to shared memory".to_owned(), command: threads });
    for suite in &mut suites {
        suite.command.args(arguments).env(PROGRAMS_VAR, target_dir().join("debug"));
    }
    suites.sort_by_key(|suite| LONGEST.iter().position(|name| *name == suite.name).unwrap_or(LONGEST.len()));
    Ok(suites)
}

/// Reads what cargo says about the programs that it built.
fn programs(messages: &str) -> Result<Vec<Suite>> {
    let mut suites = vec![];
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line)
            .with_context(|| format!("cargo says what nobody understands: {line}"))?;
        if message.reason != "compiler-artifact" || !message.profile.is_some_and(|profile| profile.test) {
            continue;
        }
        let (Some(program), Some(manifest), Some(target)) =
            (message.executable, message.manifest_path, message.target)
        else {
            continue;
        };
        let package = manifest.parent().unwrap_or(Path::new("/"));
        let mut command = Command::new(program);
        command.current_dir(package).env("CARGO_MANIFEST_DIR", package);
        suites.push(Suite { name: target.name, command });
    }
    Ok(suites)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = r#"{"reason":"compiler-artifact","package_id":"x","manifest_path":"/clone/tests/Cargo.toml","target":{"kind":["test"],"name":"soak"},"profile":{"opt_level":"1","test":true},"executable":"/clone/target/debug/deps/soak-1"}"#;

    #[test]
    fn programs_run_in_their_packages() {
        let library = PROGRAM.replace(r#""test":true"#, r#""test":false"#);
        let unit = PROGRAM.replace(r#""/clone/target/debug/deps/soak-1""#, "null");
        let text =
            format!("{PROGRAM}\n{library}\n{unit}\n{{\"reason\":\"build-finished\",\"success\":true}}\n");
        let suites = programs(&text).unwrap();
        assert_eq!(suites.len(), 1);
        assert_eq!(suites[0].name, "soak");
        assert_eq!(suites[0].command.get_program(), "/clone/target/debug/deps/soak-1");
        assert_eq!(suites[0].command.get_current_dir(), Some(Path::new("/clone/tests")));
    }

    #[test]
    fn what_cargo_says_otherwise_is_an_error() {
        let error = programs("{\"reason\":3}").unwrap_err();
        assert!(format!("{error:#}").contains("nobody understands"), "{error:#}");
        assert!(programs("a warning\n").unwrap().is_empty());
    }
}
