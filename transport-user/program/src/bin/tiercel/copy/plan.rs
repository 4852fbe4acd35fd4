//! What a command line of `cp` asks for.

use std::fs;
use std::path::{Path, PathBuf};

use tiercel::control::request::CopyDirection;

use crate::exit::Exit;
use crate::values::CopyPlace;

/// One file or directory to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) cid: u32,
    pub(super) direction: CopyDirection,
    pub(super) file: PathBuf,
    pub(super) name: String,
}

/// One step of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// To copy a file to or from the peer, or to make a directory there.
    Copy(Job),
    /// To fetch whatever has this name at the peer, with all that is in it.
    Tree(Job),
}

/// Returns what there is to copy: the last place is the destination.
pub(super) fn plan(mut places: Vec<CopyPlace>, recursive: bool) -> Result<Vec<Task>, Exit> {
    let to = places.pop().ok_or_else(|| Exit::usage("name a source and a destination"))?;
    let several = places.len() > 1;
    let mut tasks = Vec::new();
    for from in places {
        match (from, &to) {
            (CopyPlace::Local(file), CopyPlace::Peer { cid, name }) => {
                let name = match name.strip_suffix('/') {
                    Some(directory) => format!("{directory}/{}", file_name(&file)?),
                    None if name.is_empty() => file_name(&file)?,
                    None if several => format!("{name}/{}", file_name(&file)?),
                    None => name.clone(),
                };
                add(&mut tasks, *cid, &file, name, recursive)?;
            }
            (CopyPlace::Peer { name, .. }, CopyPlace::Local(_)) if name.is_empty() && !recursive => {
                return Err(Exit::usage(
                    "name the file to fetch: CID:NAME, or fetch the whole receive directory with -r",
                ));
            }
            (CopyPlace::Peer { .. }, CopyPlace::Local(file)) if several && !file.is_dir() => {
                let text = format!("{} is not a directory: several files need one", file.display());
                return Err(Exit::usage(text));
            }
            (CopyPlace::Peer { cid, name }, CopyPlace::Local(file)) => {
                let name = if recursive { name.trim_end_matches('/').to_owned() } else { name };
                let own = name.rsplit('/').next().unwrap_or(&name);
                // Without a name, what is in the receive directory comes into the directory itself.
                let file = if file.is_dir() && !own.is_empty() { file.join(own) } else { file.clone() };
                let job = Job { cid, direction: CopyDirection::FromPeer, file, name };
                tasks.push(if recursive { Task::Tree(job) } else { Task::Copy(job) });
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
    Ok(tasks)
}

/// Adds a file, and with `recursive` a directory and what is in it. Each directory comes before its files.
fn add(tasks: &mut Vec<Task>, cid: u32, file: &Path, name: String, recursive: bool) -> Result<(), Exit> {
    let is_directory = file.is_dir();
    if is_directory && !recursive {
        return Err(Exit::file(format!("{} is a directory: copy it with -r", file.display())));
    }
    let job = Job { cid, direction: CopyDirection::ToPeer, file: file.to_owned(), name: name.clone() };
    tasks.push(Task::Copy(job));
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
        add(tasks, cid, &path, inner, recursive)?;
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

    fn jobs(places: Vec<CopyPlace>, recursive: bool) -> Vec<Job> {
        let job = |task| match task {
            Task::Copy(job) | Task::Tree(job) => job,
        };
        plan(places, recursive).expect("a good command").into_iter().map(job).collect()
    }

    fn one(places: [CopyPlace; 2]) -> Job {
        let mut jobs = jobs(places.into(), false);
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
            jobs(places, false).into_iter().map(|job| job.name).collect()
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
        let names: Vec<_> = jobs(places(), true).into_iter().map(|job| job.name).collect();
        assert_eq!(names, ["root", "root/a", "root/deep", "root/deep/empty", "root/deep/file"]);
    }

    #[test]
    fn directories_of_a_peer_are_trees() {
        let tree = |name: &str, to: &str| match &plan(vec![peer(name), local(to)], true).expect("good")[..] {
            [Task::Tree(job)] => (job.name.clone(), job.file.clone()),
            other => panic!("{other:?}"),
        };
        assert_eq!(tree("music", "/"), ("music".into(), "/music".into()));
        assert_eq!(tree("deep/music/", "/x/new"), ("deep/music".into(), "/x/new".into()));
        assert_eq!(tree("", "/"), (String::new(), "/".into()));
    }
}
