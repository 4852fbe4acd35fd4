//! The command `cp`.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use transport_user::connection_manager::Via;
use transport_user::control::answer::Copied;
use transport_user::control::request::{self, CopyDirection};

use crate::exit::Exit;
use crate::output::{Bar, print, print_json, rate};
use crate::talk::{Node, absolute};
use crate::values::CopyPlace;

/// How files are copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) via: Via,
    pub(crate) overwrite: bool,
    pub(crate) recursive: bool,
}

/// One file or directory to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    cid: u32,
    direction: CopyDirection,
    file: PathBuf,
    name: String,
}

/// A copy that failed, as `--json` prints it among several.
#[derive(Serialize)]
struct Missing<'f> {
    file: &'f Path,
    name: &'f str,
    error: Value,
}

pub(crate) async fn copy(node: &Node, places: Vec<CopyPlace>, how: How, json: bool) -> Result<(), Exit> {
    let jobs = plan(places, how.recursive)?;
    if let [job] = &jobs[..] {
        let copied = copy_one(node, job, how).await?;
        match json {
            true => print_json(&copied),
            false => report(&copied, None),
        }
        return Ok(());
    }
    let (mut outcomes, mut first, mut failed) = (Vec::new(), None, 0);
    for job in &jobs {
        match copy_one(node, job, how).await {
            Ok(copied) if json => outcomes.push(serde_json::to_value(&copied).map_err(Exit::node)?),
            Ok(copied) => report(&copied, Some(&job.file)),
            Err(exit) => {
                failed += 1;
                let error = exit.value();
                let missing = Missing { file: &job.file, name: &job.name, error };
                outcomes.push(serde_json::to_value(missing).map_err(Exit::node)?);
                let ends = !exit.concerns_one_file();
                if !ends {
                    eprintln!("error: {exit}");
                }
                first.get_or_insert(exit);
                if ends {
                    break;
                }
            }
        }
    }
    if json {
        print_json(&outcomes);
    }
    match first {
        None => Ok(()),
        Some(exit) if exit.concerns_one_file() => {
            Err(exit.about(format!("{failed} of {} were not copied", jobs.len())))
        }
        Some(exit) => Err(exit.reported()),
    }
}

/// Copies one file. Its path is opened here, so that it means what it means to the caller.
async fn copy_one(node: &Node, job: &Job, how: How) -> Result<Copied, Exit> {
    let Job { cid, direction, file, name } = job.clone();
    let opened = open(direction, &file)?;
    let How { via, overwrite, .. } = how;
    let call = request::Copy { cid, direction, file: absolute(&file)?, name, via, overwrite };
    let bar = Bar::new();
    node.ask_with_file(call, opened.as_fd(), |progress| bar.show(progress)).await
}

/// Opens the file to send, or the directory in which the new file gets its name.
fn open(direction: CopyDirection, file: &Path) -> Result<File, Exit> {
    match direction {
        CopyDirection::ToPeer => {
            // Opening a pipe would wait for its writer.
            let opened =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file);
            opened.map_err(|error| Exit::file(format!("cannot read {}: {error}", file.display())))
        }
        CopyDirection::FromPeer => {
            let directory = match file.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(directory);
            opened.map_err(|error| {
                Exit::file(format!("cannot create {}: {}: {error}", file.display(), directory.display()))
            })
        }
    }
}

fn report(copied: &Copied, file: Option<&Path>) {
    let Copied { via, bytes, sha256, seconds, removed, .. } = copied;
    let file = file.map(|file| format!("{}: ", file.display())).unwrap_or_default();
    print(format!(
        "{file}{bytes} bytes by {} in {seconds:.3} s ({}), SHA-256 {sha256} at both ends",
        via.to_string().to_uppercase(),
        rate(*bytes, *seconds),
    ));
    for path in removed {
        print(format!("removed {}: an earlier copy left it, because its node was killed", path.display()));
    }
}

/// Returns what there is to copy: the last place is the destination.
fn plan(mut places: Vec<CopyPlace>, recursive: bool) -> Result<Vec<Job>, Exit> {
    let to = places.pop().ok_or_else(|| Exit::usage("name a source and a destination"))?;
    let several = places.len() > 1;
    let mut jobs = Vec::new();
    for from in places {
        match (from, &to) {
            (CopyPlace::Local(file), CopyPlace::Peer { cid, name }) => {
                let name = match name.strip_suffix('/') {
                    Some(directory) => format!("{directory}/{}", file_name(&file)?),
                    None if name.is_empty() => file_name(&file)?,
                    None if several => format!("{name}/{}", file_name(&file)?),
                    None => name.clone(),
                };
                add(&mut jobs, *cid, &file, name, recursive)?;
            }
            (CopyPlace::Peer { name, .. }, CopyPlace::Local(_)) if name.is_empty() => {
                return Err(Exit::usage("name the file to fetch: CID:NAME"));
            }
            (CopyPlace::Peer { .. }, CopyPlace::Local(_)) if recursive => {
                return Err(Exit::usage(
                    "-r copies directories to a peer: name each file to fetch as CID:NAME",
                ));
            }
            (CopyPlace::Peer { .. }, CopyPlace::Local(file)) if several && !file.is_dir() => {
                let text = format!("{} is not a directory: several files need one", file.display());
                return Err(Exit::usage(text));
            }
            (CopyPlace::Peer { cid, name }, CopyPlace::Local(file)) => {
                let own = name.rsplit('/').next().unwrap_or(&name);
                let file = if file.is_dir() { file.join(own) } else { file.clone() };
                jobs.push(Job { cid, direction: CopyDirection::FromPeer, file, name });
            }
            (CopyPlace::Local(_), CopyPlace::Local(_)) => {
                return Err(Exit::usage(
                    "both places are on this machine: write one as CID:[NAME], with a CID that `tiercel conn list` shows",
                ));
            }
            (CopyPlace::Peer { .. }, CopyPlace::Peer { .. }) => {
                return Err(Exit::usage("both places are at a peer: write one as a path on this machine"));
            }
        }
    }
    Ok(jobs)
}

/// Adds a file, and with `recursive` a directory and what is in it. Each directory comes before its files.
fn add(jobs: &mut Vec<Job>, cid: u32, file: &Path, name: String, recursive: bool) -> Result<(), Exit> {
    let is_directory = file.is_dir();
    if is_directory && !recursive {
        return Err(Exit::file(format!("{} is a directory: copy it with -r", file.display())));
    }
    jobs.push(Job { cid, direction: CopyDirection::ToPeer, file: file.to_owned(), name: name.clone() });
    if !is_directory {
        return Ok(());
    }
    let failed = |error| Exit::file(format!("cannot read {}: {error}", file.display()));
    let entries = fs::read_dir(file).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_symlink() {
            eprintln!("{} is a symbolic link: not copied", path.display());
            continue;
        }
        let inner = format!("{name}/{}", file_name(&path)?);
        add(jobs, cid, &path, inner, recursive)?;
    }
    Ok(())
}

fn file_name(file: &Path) -> Result<String, Exit> {
    // `.` and `..` have no name of their own.
    let named = match file.file_name() {
        Some(_) => file.to_owned(),
        None => file.canonicalize().unwrap_or_else(|_| file.to_owned()),
    };
    let name = named.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        Exit::usage(format!("{} has no name that the copy can keep: write CID:NAME", file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(path: &str) -> CopyPlace {
        CopyPlace::Local(path.into())
    }

    fn peer(name: &str) -> CopyPlace {
        CopyPlace::Peer { cid: 5, name: name.into() }
    }

    fn one(places: [CopyPlace; 2]) -> Job {
        let mut jobs = plan(places.into(), false).expect("a good command");
        assert_eq!(jobs.len(), 1);
        jobs.remove(0)
    }

    #[test]
    fn exactly_one_end_of_a_copy_is_at_the_peer() {
        let job = one([local("/x/a.bin"), peer("")]);
        assert_eq!((job.cid, job.direction, job.name.as_str()), (5, CopyDirection::ToPeer, "a.bin"));
        assert_eq!(job.file, Path::new("/x/a.bin"));
        let job = one([peer("kept"), local("/x/y")]);
        assert_eq!((job.direction, job.name.as_str()), (CopyDirection::FromPeer, "kept"));
        assert_eq!(job.file, Path::new("/x/y"));
        for places in
            [[local("a"), local("b")], [peer("a"), peer("b")], [peer(""), local("b")], [local("/"), peer("")]]
        {
            assert!(plan(places.into(), false).is_err());
        }
    }

    #[test]
    fn fetching_into_a_directory_keeps_the_name() {
        assert_eq!(one([peer("kept"), local("/")]).file, Path::new("/kept"));
        assert_eq!(one([peer("deep/kept"), local("/")]).file, Path::new("/kept"));
    }

    #[test]
    fn several_sources_go_into_a_directory() {
        let names = |places: Vec<CopyPlace>| -> Vec<String> {
            plan(places, false).expect("good").into_iter().map(|job| job.name).collect()
        };
        assert_eq!(names(vec![local("/x/a"), local("b"), peer("")]), ["a", "b"]);
        assert_eq!(names(vec![local("/x/a"), local("b"), peer("in")]), ["in/a", "in/b"]);
        assert_eq!(names(vec![local("/x/a"), peer("in/")]), ["in/a"]);
        assert!(plan(vec![peer("a"), peer("b"), local("/nonexistent")], false).is_err());
        assert_eq!(plan(vec![peer("a"), peer("b"), local("/")], false).expect("good").len(), 2);
    }

    #[test]
    fn directories_need_a_word_and_come_before_their_files() {
        let tree = tempfile::tempdir().expect("a directory");
        let root = tree.path().join("root");
        fs::create_dir_all(root.join("deep/empty")).expect("a tree");
        fs::write(root.join("deep/file"), "x").expect("a file");
        fs::write(root.join("a"), "x").expect("a file");
        std::os::unix::fs::symlink("a", root.join("link")).expect("a link");
        let places = || vec![CopyPlace::Local(root.clone()), peer("")];
        assert!(plan(places(), false).is_err());
        let names: Vec<_> = plan(places(), true).expect("good").into_iter().map(|job| job.name).collect();
        assert_eq!(names, ["root", "root/a", "root/deep", "root/deep/empty", "root/deep/file"]);
        assert!(plan(vec![peer("a"), local("/")], true).is_err(), "only to a peer");
    }
}
