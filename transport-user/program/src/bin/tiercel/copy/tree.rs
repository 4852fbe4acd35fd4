//! A directory that is fetched from the peer: its list first, then each file.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tiercel::control::tree::{Entry, Kind, LONGEST_LIST, parse_list};

use super::one::{How, copy_one};
use super::plan::Job;
use crate::exit::Exit;
use crate::talk::Node;

/// Permission bits of a directory while its files arrive, and those that it may get: others never get the right to write.
const PRIVATE: u32 = 0o700;
const TAKEN_OVER: u32 = 0o755;

/// What the peer says about a directory, and the directories that were made for it.
pub(super) struct Fetched<'j> {
    job: &'j Job,
    entries: Vec<Entry>,
    made: Vec<(PathBuf, u32)>,
}

impl<'j> Fetched<'j> {
    /// Fetches the list.
    pub(super) async fn list(node: &Node, job: &'j Job, how: How) -> Result<Self, Exit> {
        let here = tempfile::tempdir()
            .map_err(|error| Exit::file(format!("cannot create a temporary directory: {error}")))?;
        let file = here.path().join("list");
        let wanted = Job { file: file.clone(), name: format!("{}/", job.name), ..job.clone() };
        copy_one(node, &wanted, How { overwrite: false, ..how }).await?;
        let entries = parse(&file).map_err(|error| {
            Exit::file(format!("the peer listed {}:{} wrongly: {error}", job.cid, job.name))
        })?;
        Ok(Self { job, entries, made: Vec::new() })
    }

    /// Returns what does not cross, and what it is.
    pub(super) fn left_out(&self) -> Vec<(PathBuf, &'static str)> {
        let what = |entry: &Entry| match entry.kind {
            Kind::SymbolicLink => Some("a symbolic link"),
            Kind::Other => Some("no file, or its name cannot cross"),
            Kind::File | Kind::Directory => None,
        };
        // These paths are for people only.
        let shown = |entry: &Entry| Path::new(&self.job.name).join(entry.path.escape_debug().to_string());
        self.entries.iter().filter_map(|entry| Some((shown(entry), what(entry)?))).collect()
    }

    /// Returns the directories to make, each before those in it.
    pub(super) fn directories(&self) -> Vec<Job> {
        self.of(Kind::Directory)
    }

    /// Returns the files to fetch.
    pub(super) fn files(&self) -> Vec<Job> {
        self.of(Kind::File)
    }

    fn of(&self, kind: Kind) -> Vec<Job> {
        let job = |entry: &Entry| {
            let (file, name) = (&self.job.file, &self.job.name);
            let (file, name) = match (entry.path.as_str(), name.as_str()) {
                ("", _) => (file.clone(), name.clone()),
                (path, "") => (file.join(path), path.to_owned()),
                (path, _) => (file.join(path), format!("{name}/{path}")),
            };
            Job { file, name, ..self.job.clone() }
        };
        self.entries.iter().filter(|entry| entry.kind == kind).map(job).collect()
    }

    /// Makes a directory, unless it is there.
    pub(super) fn make(&mut self, directory: &Job) -> Result<(), Exit> {
        let path = &directory.file;
        match DirBuilder::new().mode(PRIVATE).create(path) {
            Ok(()) => {
                let entry = self.entries.iter().find(|entry| self.job.file.join(&entry.path) == *path);
                self.made.push((path.clone(), entry.map_or(PRIVATE, |entry| entry.mode & TAKEN_OVER)));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(error) => Err(Exit::file(format!("cannot create the directory {}: {error}", path.display()))),
        }
    }

    /// Gives the directories that were made their permission bits.
    pub(super) fn finish(self) -> Result<(), Exit> {
        for (path, mode) in self.made.iter().rev() {
            fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(|error| {
                Exit::file(format!("cannot set the permissions of {}: {error}", path.display()))
            })?;
        }
        Ok(())
    }
}

/// Reads the list. Its length is the peer's word, so no more is read than a list may have.
fn parse(file: &Path) -> Result<Vec<Entry>, String> {
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(|error| error.to_string())?;
    opened.take(LONGEST_LIST as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    parse_list(&bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tiercel::control::request::CopyDirection;

    use super::*;

    #[test]
    fn directories_get_their_permissions_when_their_files_are_there() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().join("root");
        let job =
            Job { cid: 5, direction: CopyDirection::FromPeer, file: root.clone(), name: "music".into() };
        let entry = |path: &str, kind, mode| Entry { path: path.into(), kind, mode };
        let entries = vec![
            entry("", Kind::Directory, 0o777),
            entry("deep", Kind::Directory, 0o555),
            entry("deep/a", Kind::File, 0o644),
            entry("link\u{1b}", Kind::SymbolicLink, 0o777),
        ];
        let mut fetched = Fetched { job: &job, entries, made: Vec::new() };
        for directory in fetched.directories() {
            fetched.make(&directory).unwrap();
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&root), mode(&root.join("deep"))), (PRIVATE, PRIVATE));
        let [file] = &fetched.files()[..] else { panic!("one file") };
        assert_eq!((file.name.as_str(), &file.file), ("music/deep/a", &root.join("deep/a")));
        assert_eq!(fetched.left_out(), [("music/link\\u{1b}".into(), "a symbolic link")]);
        fetched.make(&Job { file: root.clone(), ..job.clone() }).expect("it is there");
        fetched.finish().unwrap();
        assert_eq!((mode(&root), mode(&root.join("deep"))), (0o755, 0o555));
        fs::write(here.path().join("plain"), "x").unwrap();
        let mut other = Fetched { job: &job, entries: vec![], made: Vec::new() };
        assert!(other.make(&Job { file: here.path().join("plain"), ..job.clone() }).is_err());
    }
}
