//! A command works on the sources beside which it is started, not on those from which it was compiled.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Makes a workspace in `root` that has one fuzz target, `only_here`.
fn make_workspace(root: &Path) {
    for file in ["xtask/Cargo.toml", "transport-ebpf/Cargo.toml", "fuzz/fuzz_targets/only_here.rs"] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("below the root")).expect("writable");
        fs::write(path, "").expect("writable");
    }
}

/// Asks for a fuzz target that does not exist. The answer lists those of the workspace.
fn ask(current: &Path, manifest: Option<&Path>) -> Output {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["fuzz", "nowhere"]).current_dir(current).env_remove("CARGO_MANIFEST_DIR");
    if let Some(manifest) = manifest {
        xtask.env("CARGO_MANIFEST_DIR", manifest);
    }
    xtask.output().expect("it starts")
}

#[test]
fn the_workspace_is_the_one_that_cargo_names() {
    let directory = tempfile::tempdir().expect("a directory");
    make_workspace(directory.path());
    let answer = ask(Path::new("/"), Some(&directory.path().join("xtask")));
    let text = String::from_utf8_lossy(&answer.stderr);
    assert!(text.contains("choose one of only_here"), "{text}");
}

#[test]
fn without_cargo_the_workspace_is_the_one_around_the_current_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    make_workspace(directory.path());
    // A variable that another crate's cargo left says nothing about this workspace.
    for manifest in [None, Some(Path::new("/"))] {
        let answer = ask(&directory.path().join("fuzz"), manifest);
        let text = String::from_utf8_lossy(&answer.stderr);
        assert!(text.contains("choose one of only_here"), "{text}");
    }
}

#[test]
fn outside_a_workspace_the_user_is_sent_into_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let answer = ask(directory.path(), None);
    let text = String::from_utf8_lossy(&answer.stderr);
    assert!(!answer.status.success() && text.contains("run `cargo xtask` inside one"), "{text}");
}

/// The name of this crate's directory, as the compiler would write it into a program.
const BAKED_IN: &str = concat!("env!(\"CARGO_MANIFEST", "_DIR\")");

/// A module that only tests have, although its file is not called so.
const TEST_MODULE: &str = "transport-user/library/src/control/protocol/schema.rs";

/// Cargo does not compile programs again whose sources were moved together with the target directory. So only tests may
/// know a directory of the sources from the compiler: they are what cargo runs from the same place.
#[test]
fn no_program_knows_the_sources_from_the_compiler() {
    let crate_dir = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = crate_dir.parent().expect("the workspace");
    let (mut files, mut found) = (0, vec![]);
    for file in sources(root) {
        files += 1;
        let text = fs::read_to_string(&file).expect("readable");
        let program = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        if program.lines().any(|line| line.contains(BAKED_IN) && !line.trim_start().starts_with("//")) {
            found.push(file.strip_prefix(root).expect("below the root").to_owned());
        }
    }
    assert!(files > 300, "only {files} sources were found");
    assert_eq!(found, [Path::new(TEST_MODULE)]);
}

/// Returns the sources of all programs and libraries below a directory: no integration tests, and nothing that was built.
fn sources(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    let mut files = vec![];
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The crate `tests` is a library with programs.
        let of_tests = name == "tests" && !path.join("Cargo.toml").is_file();
        if path.is_dir() && !of_tests && name != "target" && !name.starts_with('.') {
            files.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    files
}
