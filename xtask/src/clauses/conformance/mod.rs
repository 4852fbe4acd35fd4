//! `cargo xtask conformance`: how many of the specification's requirements a test shows, section by section, and
//! why the others have none. It counts the same citations as the table of clauses, and writes `docs/conformance.md`.

mod page;
mod reasons;
mod report;

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use self::{reasons::Reasons, report::Report};
use super::{Clauses, SPEC, citations::Citations, read_resolved};
use crate::shell::Progress;

/// The generated page, relative to the root of the repository.
const PAGE: &str = "docs/conformance.md";

/// The file with the reasons, in [`SPEC`].
const REASONS: &str = "untested.toml";

/// Options of `cargo xtask conformance`.
#[derive(Args)]
pub(crate) struct Options {
    /// Print the result, or the failure, as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the result and writes the page. Fails if a requirement has neither a test nor a reason, if a reason is
/// wrong, or if tests show too few requirements. In these cases the page stays as it is.
///
/// # Errors
/// If a citation is wrong or a file cannot be read or written.
pub(crate) fn conformance(root: &Path, options: &Options, progress: &Progress) -> Result<ExitCode> {
    let result = read_resolved(root).and_then(|clauses| report(root, &clauses)).and_then(|report| {
        if report.problems.is_empty() {
            let path = root.join(PAGE);
            fs::write(&path, page::page(&report))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(report)
    });
    if options.json {
        let value =
            result.as_ref().map_or_else(|error| json!({ "error": format!("{error:#}") }), |it| json!(it));
        println!("{value:#}");
        let fits = result.is_ok_and(|report| report.problems.is_empty());
        return Ok(if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let report = result?;
    print!("{}", page::text(&report));
    if !report.problems.is_empty() {
        bail!("{}", complaint(&report.problems));
    }
    progress.say(&format!("{PAGE} is written"));
    Ok(ExitCode::SUCCESS)
}

/// Fails where [`conformance`] would, and if the page is out of date.
///
/// # Errors
/// As [`conformance`].
pub(crate) fn check(root: &Path) -> Result<()> {
    let report = report(root, &read_resolved(root)?)?;
    if !report.problems.is_empty() {
        bail!("{}", complaint(&report.problems));
    }
    if fs::read_to_string(root.join(PAGE)).unwrap_or_default() != page::page(&report) {
        bail!("{PAGE} is out of date. Run `cargo xtask conformance` and commit the file");
    }
    Ok(())
}

fn report(root: &Path, clauses: &Clauses) -> Result<Report> {
    let path = root.join(SPEC).join(REASONS);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let reasons = Reasons::parse(&text).with_context(|| format!("cannot read {}", path.display()))?;
    let citations = Citations::collect(&clauses.inventory, &clauses.sources);
    Ok(Report::new(&clauses.inventory, &citations, &reasons))
}

fn complaint(problems: &[String]) -> String {
    format!("{} problems, see {SPEC}/{REASONS} for the reasons:\n  {}", problems.len(), problems.join("\n  "))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A repository with two requirements, a test of the first, and the given reasons.
    struct Repository(PathBuf);

    impl Repository {
        fn with(name: &str, reasons: &str) -> Self {
            let root = std::env::temp_dir().join(format!("xtask-conformance-{name}-{}", std::process::id()));
            fs::create_dir_all(root.join(SPEC)).unwrap();
            fs::create_dir_all(root.join("core/tests")).unwrap();
            let rows = "## 11 Errors\n| <a id=\"F-11-1\"></a>F-11-1 | must | A. |\n\
                        | <a id=\"F-11-2\"></a>F-11-2 | should | B. |\n";
            fs::write(root.join(SPEC).join("chapter-11.md"), rows).unwrap();
            let test = "/// F-11-1\n#[test]\nfn errors() {}\n";
            fs::write(root.join("core/tests/errors.rs"), test).unwrap();
            fs::write(root.join(SPEC).join(REASONS), reasons).unwrap();
            Self(root)
        }

        fn run(&self) -> Result<ExitCode> {
            conformance(&self.0, &Options { json: false }, &Progress::start())
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_page_that_was_not_written_again_fails_the_check() {
        let repository = Repository::with("page", "[clauses]\n\"F-11-2\" = \"descriptive\"\n");
        let error = check(&repository.0).unwrap_err().to_string();
        assert!(error.contains("cargo xtask conformance"), "{error}");
        repository.run().unwrap();
        check(&repository.0).unwrap();

        let other = "[clauses]\n\"F-11-2\" = \"a statement about hardware\"\n";
        fs::write(repository.0.join(SPEC).join(REASONS), other).unwrap();
        check(&repository.0).unwrap_err();
    }

    #[test]
    fn a_requirement_without_test_and_reason_writes_no_page() {
        let repository = Repository::with("reason", "");
        let error = repository.run().unwrap_err().to_string();
        assert!(error.contains("F-11-2"), "{error}");
        assert!(!repository.0.join(PAGE).exists());
        check(&repository.0).unwrap_err();
        let json = conformance(&repository.0, &Options { json: true }, &Progress::start()).unwrap();
        assert_eq!(format!("{json:?}"), format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn a_reason_for_an_id_that_does_not_exist_fails() {
        let reasons = "[clauses]\n\"F-11-2\" = \"descriptive\"\n\"F-11-9\" = \"descriptive\"\n";
        let repository = Repository::with("unknown", reasons);
        let error = repository.run().unwrap_err().to_string();
        assert!(error.contains("F-11-9"), "{error}");
    }
}
