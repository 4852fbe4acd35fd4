//! The files that may cite an id.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The directory of the pages with the definitions, relative to the root of the repository.
pub(super) const SPEC: &str = "docs/spec";

/// The extensions of the files in which citations are searched.
const EXTENSIONS: [&str; 10] = ["c", "cc", "h", "lua", "md", "p4", "py", "rs", "sh", "toml"];

/// A directory that is not read, because the ids in the tests of this check are invented.
const OWN: &str = "xtask/src/clauses";

/// The conformance tester. Its own sources are checks of clauses.
const TESTER: &str = "conformance";

/// The role of a file in the table of clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Code,
    Test,
    /// Documentation. Its citations are checked, but do not count in the table.
    Document,
}

/// One file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the root of the repository.
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(path: PathBuf, text: String) -> Self {
        let kind = kind(&path);
        Self { path, kind, text }
    }
}

/// Returns every file of the repository that may cite an id, in the order of the paths.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn read(root: &Path) -> Result<Vec<Source>> {
    let mut paths = vec![];
    collect(root, &mut paths).with_context(|| format!("cannot list the files in {}", root.display()))?;
    paths.retain(|path| !path.starts_with(root.join(OWN)));
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            Ok(Source::new(path.strip_prefix(root).unwrap_or(&path).to_owned(), text))
        })
        .collect()
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            // Skips build directories, which cargo marks, and directories that contain no sources, such as `.git`.
            if !name.starts_with('.') && name != "target" && !path.join("CACHEDIR.TAG").is_file() {
                collect(&path, paths)?;
            }
        } else if path.extension().is_some_and(|it| EXTENSIONS.iter().any(|known| it == *known)) {
            paths.push(path);
        }
    }
    Ok(())
}

/// Returns the role of a file. Tests are in a directory or a file with a name for tests. Tests inside a source
/// file are found by their module. The whole conformance tester is a test of the device.
fn kind(path: &Path) -> Kind {
    if path.starts_with(SPEC) || path.extension().is_some_and(|it| it == "md") {
        return Kind::Document;
    }
    if path.starts_with(TESTER) {
        return Kind::Test;
    }
    let mut names = path.iter().map(|name| name.to_string_lossy());
    let in_tests = names.any(|name| {
        matches!(&*name, "tests" | "fuzz" | "tests.rs" | "examples") || name.ends_with("_tests.rs")
    });
    if in_tests { Kind::Test } else { Kind::Code }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_tests_from_code_by_the_path() {
        for (path, expected) in [
            ("transport-common/src/wire/ack.rs", Kind::Code),
            ("transport-common/tests/windows.rs", Kind::Test),
            ("transport-user/node/src/config/tests.rs", Kind::Test),
            ("transport-user/library/src/verbs/queue_pair_tests.rs", Kind::Test),
            ("tests/src/simulation/oracle.rs", Kind::Test),
            ("hw-model/p4/swift.p4", Kind::Code),
            ("conformance/src/checks/order.rs", Kind::Test),
            ("xtask/src/checks.rs", Kind::Code),
            ("tests/README.md", Kind::Document),
            ("docs/spec/chapter-9.md", Kind::Document),
        ] {
            assert_eq!(kind(Path::new(path)), expected, "{path}");
        }
    }
}
