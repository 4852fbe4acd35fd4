//! Circles of imports in every crate, and the lines of the largest files.

use std::fs;
use std::path::{Path, PathBuf};

use source_check::{Circle, lines, modules};

/// Largest number of lines of a file, tests in the file included. It may only become smaller.
const MOST_LINES: usize = 662;

/// The roots whose modules import one another in circles, and how many modules do. The numbers may only become
/// smaller; all other crates have no circle.
const IN_CIRCLES: [(&str, usize); 2] = [("tests/src/lib.rs", 16), ("transport-user/node/src/lib.rs", 22)];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the paths of a directory in the order of their names, without what was built and what is hidden.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name != "target" && !name.starts_with('.')
    });
    paths.sort();
    paths
}

/// Returns the directories below one that have a manifest, and the directory itself if it has one.
fn crates(directory: &Path) -> Vec<PathBuf> {
    let own = directory.join("Cargo.toml").is_file().then(|| directory.to_owned());
    let below = entries(directory).into_iter().filter(|path| path.is_dir());
    own.into_iter().chain(below.flat_map(|path| crates(&path))).collect()
}

/// Returns the root files of a crate: of its library, and of its programs.
fn roots(of: &Path) -> Vec<PathBuf> {
    let source = of.join("src");
    let mut roots = vec![source.join("lib.rs"), source.join("main.rs")];
    let programs = source.join("bin");
    if programs.is_dir() {
        for program in entries(&programs) {
            roots.push(if program.is_dir() { program.join("main.rs") } else { program });
        }
    }
    roots.retain(|root| root.is_file());
    roots
}

/// Returns the Rust files below a directory, without those that only tests have.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for path in entries(directory) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The crate `tests` is a library with programs.
        if path.is_dir() && (name != "tests" || path.join("Cargo.toml").is_file()) {
            files.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn modules_import_one_another_in_no_circle() {
    let workspace = workspace();
    let (mut number, mut wrong) = (0, vec![]);
    for root in crates(&workspace).iter().flat_map(|of| roots(of)) {
        number += 1;
        let name = root.strip_prefix(&workspace).expect("below the workspace").display().to_string();
        let circles = modules(&root).expect("the sources can be read").circles();
        let found: usize = circles.iter().map(|circle: &Circle| circle.modules.len()).sum();
        let known = IN_CIRCLES.iter().find(|(of, _)| *of == name).map_or(0, |(_, known)| *known);
        if found > known {
            wrong.push(format!("{name}: {found} modules, {known} are known:{}", lines(&circles)));
        } else if found < known {
            wrong.push(format!("{name}: write {found} instead of {known} into IN_CIRCLES"));
        }
    }
    assert!(number > 25, "only {number} crates and programs were found");
    assert!(wrong.is_empty(), "circles of imports:{}", lines(&wrong));
}

#[test]
fn files_stay_small() {
    let workspace = workspace();
    let length = |path: PathBuf| {
        let lines = fs::read_to_string(&path).expect("readable").lines().count();
        (lines, path.strip_prefix(&workspace).expect("below the workspace").to_owned())
    };
    let files: Vec<(usize, PathBuf)> = sources(&workspace).into_iter().map(length).collect();
    assert!(files.len() > 500, "only {} files were found", files.len());
    let large: Vec<_> = files.iter().filter(|(lines, _)| *lines > MOST_LINES).collect();
    assert!(large.is_empty(), "more than {MOST_LINES} lines: divide them: {large:?}");
}
