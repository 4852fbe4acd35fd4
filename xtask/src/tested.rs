//! The note of the commit on which all tests passed, so that nobody offers a commit that was never tested.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::git;

/// The file of the note, in the workspace. Its first line is the full hash of the commit.
const NOTE: &str = "target/tested";

/// The result of all tests.
pub(crate) struct Verdict {
    /// Whether all passed.
    pub(crate) passed: bool,
    /// A line about them.
    pub(crate) summary: String,
}

/// Runs `tests`. If they pass, notes the commit that is checked out in `root`, unless the files there were others than
/// those of this commit, before or after. If they fail on a commit that passed earlier, takes its note back. `say`
/// tells the user what is noted, or why nothing is.
///
/// # Errors
/// Those of `tests`, and if the note cannot be written.
pub(crate) fn noting(
    root: &Path,
    say: impl Fn(&str),
    tests: impl FnOnce() -> Result<Verdict>,
) -> Result<Verdict> {
    let before = whole_commit(root);
    if let Err(reason) = &before {
        say(&format!("{NOTE} will not be written: {reason}"));
    }
    let verdict = tests()?;
    let Ok(before) = before else { return Ok(verdict) };
    match (verdict.passed, whole_commit(root)) {
        (true, Ok(after)) if after == before => {
            write(root, &before, &verdict.summary)?;
            say(&format!("{NOTE} names {before}"));
        }
        (true, Ok(after)) => {
            say(&format!("{NOTE} is not written: {before} was checked out before the tests, now {after} is"));
        }
        (true, Err(reason)) => say(&format!("{NOTE} is not written: {reason}")),
        (false, _) => take_back(root, &before)?,
    }
    Ok(verdict)
}

/// Returns the commit that is checked out, or the reason why the files in `root` are not those of a commit.
fn whole_commit(root: &Path) -> Result<String, String> {
    let commit = git::head(root).map_err(|error| format!("{error:#}"))?;
    match git::is_clean(root) {
        Ok(true) => Ok(commit),
        Ok(false) => Err("there are changes that are not committed".to_owned()),
        Err(error) => Err(format!("{error:#}")),
    }
}

fn write(root: &Path, commit: &str, summary: &str) -> Result<()> {
    let path = note(root);
    let written = fs::create_dir_all(root.join("target"))
        .and_then(|()| fs::write(&path, format!("{commit}\n{summary}\n")));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Removes the note if it names `commit`.
fn take_back(root: &Path, commit: &str) -> Result<()> {
    let path = note(root);
    let names_it = fs::read_to_string(&path).is_ok_and(|note| note.lines().next() == Some(commit));
    match if names_it { fs::remove_file(&path) } else { Ok(()) } {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn note(root: &Path) -> PathBuf {
    root.join(NOTE)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use anyhow::bail;

    use super::*;

    /// A repository with one commit, which is removed at the end of the test.
    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new() -> Self {
            let repository = Self(tempfile::tempdir().unwrap());
            repository.git(&["init", "--quiet"]);
            fs::write(repository.root().join(".gitignore"), "/target\n").unwrap();
            repository.commit("source", "1");
            repository
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        fn git(&self, arguments: &[&str]) {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-C"]).arg(self.root());
            assert!(git.args(arguments).status().unwrap().success(), "{arguments:?}");
        }

        fn commit(&self, file: &str, content: &str) {
            fs::write(self.root().join(file), content).unwrap();
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--message", content]);
        }

        fn head(&self) -> String {
            git::head(self.root()).unwrap()
        }

        /// Runs tests with this result, during which `meanwhile` happens.
        fn test(&self, passed: bool, meanwhile: impl FnOnce()) {
            let result = noting(
                self.root(),
                |_| (),
                || {
                    meanwhile();
                    Ok(Verdict { passed, summary: "3 passed".to_owned() })
                },
            );
            assert_eq!(result.unwrap().passed, passed);
        }

        fn noted(&self) -> Option<String> {
            fs::read_to_string(note(self.root())).ok()?.lines().next().map(str::to_owned)
        }
    }

    #[test]
    fn the_commit_that_passed_is_noted() {
        let repository = Repository::new();
        repository.test(true, || ());
        assert_eq!(repository.noted(), Some(repository.head()));
        let first = repository.head();
        repository.commit("source", "2");
        assert_eq!(repository.noted(), Some(first));
        repository.test(true, || ());
        assert_eq!(repository.noted(), Some(repository.head()));
    }

    #[test]
    fn changes_before_or_after_are_no_commit() {
        let repository = Repository::new();
        let change = |file: &str| fs::write(repository.root().join(file), "changed").unwrap();
        repository.test(true, || change("source"));
        assert_eq!(repository.noted(), None, "changed meanwhile");
        repository.test(true, || repository.git(&["checkout", "--quiet", "source"]));
        assert_eq!(repository.noted(), None, "changed before");
        change("another");
        repository.test(true, || fs::remove_file(repository.root().join("another")).unwrap());
        assert_eq!(repository.noted(), None, "a file that is not in the commit");
    }

    #[test]
    fn a_commit_made_meanwhile_was_not_tested() {
        let repository = Repository::new();
        repository.test(true, || repository.commit("source", "2"));
        assert_eq!(repository.noted(), None);
    }

    #[test]
    fn what_fails_is_not_noted_and_loses_its_note() {
        let repository = Repository::new();
        repository.test(false, || ());
        assert_eq!(repository.noted(), None);
        repository.test(true, || ());
        let passed = repository.noted();
        assert!(noting(repository.root(), |_| (), || bail!("no compiler")).is_err());
        assert_eq!(repository.noted(), passed, "tests that could not be run say nothing");
        repository.test(false, || ());
        assert_eq!(repository.noted(), None);
        repository.test(true, || ());
        repository.commit("source", "2");
        repository.test(false, || ());
        assert_eq!(repository.noted(), passed, "the note is about another commit");
    }

    #[test]
    fn outside_a_repository_the_tests_run_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        // An empty `.git` ends git's search in the directories above.
        fs::create_dir(directory.path().join(".git")).unwrap();
        let said = std::cell::RefCell::new(vec![]);
        let say = |what: &str| said.borrow_mut().push(what.to_owned());
        let passes = || Ok(Verdict { passed: true, summary: String::new() });
        assert!(noting(directory.path(), say, passes).unwrap().passed);
        assert!(!note(directory.path()).exists());
        assert!(said.borrow()[0].contains("not a git repository"), "{said:?}");
    }
}
