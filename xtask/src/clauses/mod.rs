//! `cargo xtask clauses`: every id of `docs/spec` that the sources cite must exist there, and
//! `docs/spec/coverage.md` says which clause is cited by which code and which test.

mod citation;
mod citations;
pub(crate) mod conformance;
mod coverage;
mod inventory;
mod items;
pub(crate) mod sources;

use std::{fmt, fs, path::Path};

use anyhow::{Context, Result, bail};

use self::{
    citation::Citation,
    inventory::{COVERAGE, Inventory},
    sources::{SPEC, Source},
};
use crate::shell::Progress;

/// A citation and its place.
struct Cited<'a> {
    /// The file, relative to the root of the repository.
    path: &'a Path,
    /// The line, counted from 1.
    line: usize,
    citation: Citation,
}

/// A citation of an id that does not exist.
struct Unresolved<'a> {
    cited: Cited<'a>,
    reason: String,
}

impl fmt::Display for Unresolved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cited { path, line, citation } = &self.cited;
        write!(f, "{}:{line}: {citation}: {}", path.display(), self.reason)
    }
}

/// The definitions and the sources of a repository.
struct Clauses {
    inventory: Inventory,
    sources: Vec<Source>,
}

impl Clauses {
    fn read(root: &Path) -> Result<Self> {
        Ok(Self { inventory: Inventory::read(&root.join(SPEC))?, sources: sources::read(root)? })
    }

    fn cited(&self) -> impl Iterator<Item = Cited<'_>> {
        self.sources.iter().flat_map(|source| {
            citation::in_text(&source.text).map(|(line, citation)| Cited {
                path: &source.path,
                line,
                citation,
            })
        })
    }

    /// Returns every citation of an id that does not exist.
    fn unresolved(&self) -> Vec<Unresolved<'_>> {
        self.cited()
            .filter_map(|cited| {
                let reason = self.inventory.resolve(&cited.citation).err()?;
                Some(Unresolved { cited, reason })
            })
            .collect()
    }
}

/// Fails if a cited id does not exist or the generated page is out of date. The error names each such citation.
///
/// # Errors
/// Also if a file cannot be read.
pub(crate) fn check(root: &Path) -> Result<()> {
    let clauses = read_resolved(root)?;
    let path = root.join(SPEC).join(COVERAGE);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if committed != coverage::page(&clauses.inventory, &clauses.sources) {
        bail!("{SPEC}/{COVERAGE} is out of date. Run `cargo xtask clauses` and commit the file");
    }
    Ok(())
}

/// Writes the generated page.
///
/// # Errors
/// As [`check`], except for the page itself.
pub(crate) fn write(root: &Path, progress: &Progress) -> Result<()> {
    let clauses = read_resolved(root)?;
    let path = root.join(SPEC).join(COVERAGE);
    fs::write(&path, coverage::page(&clauses.inventory, &clauses.sources))
        .with_context(|| format!("cannot write {}", path.display()))?;
    progress.say(&format!("{SPEC}/{COVERAGE} is written"));
    Ok(())
}

fn read_resolved(root: &Path) -> Result<Clauses> {
    let clauses = Clauses::read(root)?;
    let unresolved: Vec<String> = clauses.unresolved().iter().map(ToString::to_string).collect();
    match unresolved.len() {
        0 => Ok(clauses),
        count => bail!("{count} citations are wrong, see {SPEC} for the ids:\n  {}", unresolved.join("\n  ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with one page of definitions and one source.
    struct Repository(std::path::PathBuf);

    impl Repository {
        fn with(name: &str, source: &str) -> Self {
            let root = std::env::temp_dir().join(format!("xtask-clauses-{name}-{}", std::process::id()));
            fs::create_dir_all(root.join(SPEC)).unwrap();
            fs::create_dir_all(root.join("core/src")).unwrap();
            let page = "## 9.1 Transmitter\n\n| <a id=\"F-9.1.2-1\"></a>F-9.1.2-1 | must | The gate. |\n\n\
                        <a id=\"D-26\"></a>\n\n### D-26 [i] PSN assignment\n";
            fs::write(root.join(SPEC).join("page.md"), page).unwrap();
            fs::write(root.join("core/src/lib.rs"), source).unwrap();
            Self(root)
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_planted_id_that_nobody_defined_fails_the_check_with_its_place() {
        let source = "/// The gate (F-9.1.2-1, D-26).\nfn gate() {}\n// F-9.1.2-7\n";
        let repository = Repository::with("planted", source);
        let error = check(&repository.0).unwrap_err().to_string();
        assert!(error.contains("core/src/lib.rs:3: F-9.1.2-7"), "{error}");
        assert!(!error.contains("lib.rs:1"), "{error}");
        let progress = Progress::start();
        assert!(write(&repository.0, &progress).is_err(), "a wrong citation must prevent the table");
    }

    #[test]
    fn a_table_that_was_not_written_again_fails_the_check_and_a_moved_line_does_not() {
        let repository = Repository::with("table", "/// The gate (F-9.1.2-1).\nfn gate() {}\n");
        let error = check(&repository.0).unwrap_err().to_string();
        assert!(error.contains("cargo xtask clauses"), "{error}");

        write(&repository.0, &Progress::start()).unwrap();
        check(&repository.0).unwrap();

        let source = repository.0.join("core/src/lib.rs");
        fs::write(&source, "use core::fmt;\n\n/// The gate (F-9.1.2-1).\nfn gate() {}\n").unwrap();
        check(&repository.0).unwrap();

        fs::write(&source, "/// The gate (F-9.1.2-1).\nfn other_gate() {}\n").unwrap();
        check(&repository.0).unwrap_err();
    }
}
