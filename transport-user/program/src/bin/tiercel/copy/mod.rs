//! The command `cp`.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tiercel::control::answer::Copied;

use crate::exit::Exit;
use crate::output::{print, print_json, rate};
use crate::talk::Node;
use crate::values::CopyPlace;

mod one;
mod plan;
mod tree;

pub(crate) use one::How;
use one::{Done, Kind, copy_one};
use plan::{Job, Task, plan};
use tree::Fetched;

/// A copy that failed, as `--json` prints it among several.
#[derive(Serialize)]
struct Missing<'f> {
    file: &'f Path,
    name: &'f str,
    error: Value,
}

/// A directory that was made here, as `--json` prints it among several.
#[derive(Serialize)]
struct Made<'f> {
    kind: Kind,
    directory: &'f Path,
    name: &'f str,
}

/// What has been copied so far.
struct Copying<'n> {
    node: &'n Node,
    how: How,
    json: bool,
    outcomes: Vec<Value>,
    /// Number of files and directories that were tried, and of those that failed.
    tried: usize,
    failed: usize,
    /// The first failure.
    first: Option<Exit>,
}

pub(crate) async fn copy(node: &Node, places: Vec<CopyPlace>, how: How, json: bool) -> Result<(), Exit> {
    let tasks = plan(places, how.recursive)?;
    if let [Task::Copy(job)] = &tasks[..] {
        let done = copy_one(node, job, how).await?;
        match json {
            true => print_json(&done),
            false => report(&done, None),
        }
        return Ok(());
    }
    let mut copying = Copying { node, how, json, outcomes: Vec::new(), tried: 0, failed: 0, first: None };
    for task in &tasks {
        let goes_on = match task {
            Task::Copy(job) => copying.file(job).await?,
            Task::Tree(tree) => copying.tree(tree).await?,
        };
        if !goes_on {
            break;
        }
    }
    copying.end()
}

impl Copying<'_> {
    /// Copies a file. Returns false if the next ones would fail as well.
    async fn file(&mut self, job: &Job) -> Result<bool, Exit> {
        self.tried += 1;
        match copy_one(self.node, job, self.how).await {
            Ok(done) if self.json => self.add(&done)?,
            Ok(done) => report(&done, Some(&job.file)),
            Err(exit) => return self.missing(&job.file, &job.name, exit),
        }
        Ok(true)
    }

    /// Fetches a directory and what is in it. Returns false if the next copies would fail as well.
    async fn tree(&mut self, job: &Job) -> Result<bool, Exit> {
        self.tried += 1;
        let mut fetched = match Fetched::list(self.node, job, self.how).await {
            Ok(fetched) => fetched,
            Err(exit) => return self.missing(&job.file, &job.name, exit),
        };
        self.tried -= 1; // what is in the list counts
        for (path, what) in fetched.left_out() {
            eprintln!("{} is {what}: not copied", path.display());
        }
        for directory in fetched.directories() {
            self.tried += 1;
            match fetched.make(&directory) {
                Ok(()) if self.json => {
                    let Job { file, name, .. } = &directory;
                    self.add(&Made { kind: Kind::Directory, directory: file, name })?;
                }
                Ok(()) => print(directory_text(&directory.file)),
                Err(exit) => return self.missing(&directory.file, &directory.name, exit),
            }
        }
        let mut goes_on = true;
        for file in fetched.files() {
            goes_on = self.file(&file).await?;
            if !goes_on {
                break;
            }
        }
        match fetched.finish() {
            Ok(()) => Ok(goes_on),
            Err(exit) => self.missing(&job.file, &job.name, exit),
        }
    }

    fn add(&mut self, outcome: &impl Serialize) -> Result<(), Exit> {
        self.outcomes.push(serde_json::to_value(outcome).map_err(Exit::node)?);
        Ok(())
    }

    /// Notes a failure. Returns whether the next copy may succeed.
    fn missing(&mut self, file: &Path, name: &str, exit: Exit) -> Result<bool, Exit> {
        self.failed += 1;
        let goes_on = exit.concerns_one_file();
        self.add(&Missing { file, name, error: exit.value() })?;
        // Whoever called this command says what ended it.
        if goes_on {
            eprintln!("error: {exit}");
        }
        self.first.get_or_insert(exit);
        Ok(goes_on)
    }

    /// Reports the failures.
    fn end(self) -> Result<(), Exit> {
        if self.json {
            print_json(&self.outcomes);
        }
        match self.first {
            None => Ok(()),
            Some(exit) if exit.concerns_one_file() => {
                Err(exit.about(format!("{} of {} were not copied", self.failed, self.tried)))
            }
            Some(exit) => Err(exit.reported()),
        }
    }
}

fn report(done: &Done, file: Option<&Path>) {
    print(text(done, file));
    for path in &done.copied.removed {
        print(format!("removed {}: an earlier copy left it, because its node was killed", path.display()));
    }
}

/// Says what was copied. `file` is named if there are several.
fn text(done: &Done, file: Option<&Path>) -> String {
    let Copied { via, bytes, sha256, seconds, .. } = &done.copied;
    if done.kind == Kind::Directory {
        return directory_text(file.unwrap_or(&done.copied.file));
    }
    let file = file.map(|file| format!("{}: ", file.display())).unwrap_or_default();
    format!(
        "{file}{bytes} bytes by {} in {seconds:.3} s ({}), SHA-256 {sha256} at both ends",
        via.to_string().to_uppercase(),
        rate(*bytes, *seconds),
    )
}

fn directory_text(directory: &Path) -> String {
    format!("{}: directory", directory.display())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiercel::control::request::Via;

    use super::*;

    fn done(kind: Kind, bytes: u64) -> Done {
        let copied = Copied {
            file: "/x/music".into(),
            name: "music".into(),
            via: Via::Send,
            bytes,
            sha256: "e3b0".into(),
            seconds: 0.5,
            removed: vec![],
        };
        Done { kind, copied }
    }

    #[test]
    fn a_directory_is_called_one() {
        let directory = done(Kind::Directory, 0);
        assert_eq!(text(&directory, Some(Path::new("music"))), "music: directory");
        assert_eq!(text(&directory, None), "/x/music: directory");
        let empty = text(&done(Kind::File, 0), Some(Path::new("empty")));
        assert!(empty.starts_with("empty: 0 bytes by SEND in 0.500 s"), "{empty}");
    }

    #[test]
    fn programs_are_told_the_kind_of_a_copy_in_addition() {
        for (kind, name) in [(Kind::File, "file"), (Kind::Directory, "directory")] {
            let printed = serde_json::to_value(done(kind, 7)).expect("plain data");
            let expected = json!({
                "kind": name, "file": "/x/music", "name": "music", "via": "send", "bytes": 7, "sha256": "e3b0",
                "seconds": 0.5,
            });
            assert_eq!(printed, expected);
        }
    }
}
