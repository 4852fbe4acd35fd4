//! The hidden `.part` file of a transfer, and the `.part` files that killed nodes left.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::super::disk::FileSystem;
use super::trouble::Trouble;

/// Number of attempts to lock a new `.part` file before another copy takes it for a leftover.
const TRIES: usize = 100;
/// Time between two attempts. This is far longer than it takes to remove a file.
const MOMENT: Duration = Duration::from_micros(100);
/// Permission bits that a copy takes over. Others than the owner never get the right to write, and no file gets the
/// rights of its owner.
const TAKEN_OVER: u32 = 0o755;

/// A name in an open directory.
#[derive(Clone, Debug)]
pub(in super::super) struct Place {
    /// The directory.
    pub(in super::super) directory: Arc<OwnedFd>,
    /// The name in it.
    pub(in super::super) name: OsString,
    /// Its path, for people.
    pub(in super::super) shown: PathBuf,
}

impl Place {
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// The `.part` file of a transfer. It is hidden, locked and private while it is written. Dropping it removes it, unless
/// it got its name.
pub(super) struct Part {
    files: Arc<dyn FileSystem>,
    name: OsString,
    target: Place,
    file: File,
    kept: bool,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Part").field(&self.name).finish()
    }
}

impl Part {
    pub(super) fn create(
        files: &Arc<dyn FileSystem>,
        target: &Place,
        transfer: u64,
    ) -> Result<Self, Trouble> {
        let mut name = prefix(&target.name);
        name.push(format!("{transfer:016x}.part"));
        let create = || -> Result<Self, Trouble> {
            let file =
                files.create(target.directory(), &name).map_err(|error| Trouble::File("create", error))?;
            let (files, name, target) = (Arc::clone(files), name.clone(), target.clone());
            Ok(Self { files, name, target, file, kept: false })
        };
        let mut part = create()?;
        for _ in 0..TRIES {
            if !is_locked(files.as_ref(), &part.file) {
                // Between the two calls, another copy took the file for a leftover and locked it. It removes the
                // file and releases the lock.
                std::thread::sleep(MOMENT);
            } else if part.is_there().map_err(|error| Trouble::File("create", error))? {
                return Ok(part);
            } else {
                part.kept = true; // its name may belong to somebody else now
                part = create()?;
            }
        }
        Err(Trouble::File("lock", ErrorKind::WouldBlock.into()))
    }

    pub(super) fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), Trouble> {
        self.files.write_at(&self.file, bytes, at).map_err(|error| Trouble::File("write", error))
    }

    /// Gives the file its length, its permissions and its name.
    pub(super) fn keep(mut self, length: u64, mode: u32, overwrite: bool) -> Result<(), Trouble> {
        let files = Arc::clone(&self.files);
        files.set_length(&self.file, length).map_err(|error| Trouble::File("write", error))?;
        set_mode(files.as_ref(), self.file.as_fd(), mode)
            .map_err(|error| Trouble::File("set the permissions of", error))?;
        let (directory, name) = (self.target.directory(), self.target.name.clone());
        let named = if overwrite {
            files.rename(directory, &self.name, &name)
        } else {
            name_new(files.as_ref(), directory, &self.name, &name)
        };
        named.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Trouble::Exists,
            _ => Trouble::File("create", error),
        })?;
        self.kept = true;
        Ok(())
    }

    fn is_there(&self) -> io::Result<bool> {
        is_at(self.files.as_ref(), &self.file, self.target.directory(), &self.name)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = self.files.remove(self.target.directory(), &self.name)
        {
            tracing::warn!(
                "cannot remove {}: {error}",
                self.target.shown.with_file_name(&self.name).display()
            );
        }
    }
}

/// Sets the permission bits of a file or a directory that a copy made.
pub(super) fn set_mode(files: &dyn FileSystem, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    match files.set_mode(file, mode & TAKEN_OVER) {
        // A file system without permissions, such as FAT, refuses. Its mount decides who may read its files.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) || error.kind() == ErrorKind::Unsupported => {
            Ok(())
        }
        other => other,
    }
}

/// Gives a file a name that nobody has. Not every file system can do that in one step.
fn name_new(files: &dyn FileSystem, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
    match files.rename_new(directory, from, to) {
        Err(error) if cannot(&error) => {}
        other => return other,
    }
    match files.link(directory, from, to) {
        Err(error) if cannot(&error) => {}
        other => {
            other?;
            return files.remove(directory, from);
        }
    }
    // An empty file takes the name, so that nobody else can.
    drop(files.create(directory, to)?);
    files.rename(directory, from, to).inspect_err(|_| {
        let _ = files.remove(directory, to); // the first error is the one to report
    })
}

/// Returns whether a file system does not have this call.
fn cannot(error: &io::Error) -> bool {
    let codes = [libc::EINVAL, libc::ENOSYS, libc::EOPNOTSUPP, libc::EPERM, libc::EMLINK];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Removes the `.part` files of `target` that no copy writes any more, because their node was killed or its
/// machine went down. Their content is not used, because its hash was never checked. Writes each removal to the
/// node's log, and returns the removed files.
pub(super) fn remove_leftovers(files: &dyn FileSystem, target: &Place) -> Vec<PathBuf> {
    let prefix = prefix(&target.name);
    let Ok(names) = files.names(target.directory()) else { return Vec::new() };
    let parts = names.into_iter().filter(|name| is_part_of(name, &prefix));
    let removed = parts.filter(|name| remove_if_left(files, target.directory(), name));
    let removed: Vec<_> = removed.map(|name| target.shown.with_file_name(name)).collect();
    for path in &removed {
        tracing::warn!("removed {}: an earlier copy left it, because its node was killed", path.display());
    }
    removed
}

/// Returns the prefix of the names of all `.part` files of a file.
fn prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// Returns whether a name is that of a `.part` file: the prefix, the number of the transfer, `.part`.
fn is_part_of(name: &OsStr, prefix: &OsStr) -> bool {
    let number = name.as_bytes().strip_prefix(prefix.as_bytes()).and_then(|rest| rest.strip_suffix(b".part"));
    number.is_some_and(|number| number.len() == 16 && number.iter().all(u8::is_ascii_hexdigit))
}

/// Removes a `.part` file if it can be locked. The kernel releases a lock when its process ends in any way, so no
/// copy writes a file that can be locked.
fn remove_if_left(files: &dyn FileSystem, directory: BorrowedFd<'_>, name: &OsStr) -> bool {
    let plain = files.look_up(directory, name).is_ok_and(|named| named.is_file);
    let Some(file) = plain.then(|| files.open(directory, name.as_ref()).ok()).flatten() else { return false };
    files.lock(&file).is_ok_and(|locked| locked)
        && is_at(files, &file, directory, name).is_ok_and(|same| same)
        && files.remove(directory, name).is_ok()
}

/// Locks a file. Returns false if another lock exists. On a file system without locks it returns true: others
/// cannot take a lock there either.
fn is_locked(files: &dyn FileSystem, file: &File) -> bool {
    files.lock(file).unwrap_or(true)
}

/// Returns whether a name still stands for this open file.
fn is_at(files: &dyn FileSystem, file: &File, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    let here = files.metadata(file)?;
    match files.look_up(directory, name) {
        Ok(there) => Ok((here.dev(), here.ino()) == there.id),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use tempfile::TempDir;

    use super::super::super::disk::HostFiles;
    use super::*;

    fn files() -> Arc<dyn FileSystem> {
        Arc::new(HostFiles)
    }

    fn place(directory: &Path, name: &str) -> Place {
        let opened = File::open(directory).unwrap();
        Place { directory: Arc::new(opened.into()), name: name.into(), shown: directory.join(name) }
    }

    fn names(directory: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_nobody_writes_is_removed_and_named() {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let left = path(".a.bin.00000000000000ff.part");
        fs::write(&left, "half").unwrap();
        let others = [
            ".a.bin.0ff.part",
            ".a.bin.00000000000000fg.part",
            ".a.bin.00000000000000ff.part2",
            ".b.bin.00000000000000ff.part",
            "a.bin.00000000000000ff.part",
            "a.bin",
        ];
        others.iter().for_each(|name| fs::write(path(name), name).unwrap());
        std::os::unix::fs::symlink(path("a.bin"), path(".a.bin.0000000000000001.part")).unwrap();
        fs::create_dir(path(".a.bin.0000000000000002.part")).unwrap();
        let target = place(directory.path(), "a.bin");
        assert_eq!(remove_leftovers(&HostFiles, &target), [left]);
        assert_eq!(names(&directory).len(), others.len() + 2, "nothing else was touched");
        assert_eq!(remove_leftovers(&HostFiles, &target), [] as [PathBuf; 0]);
    }

    #[test]
    fn what_is_written_at_this_moment_stays() {
        let directory = TempDir::new().unwrap();
        let target = place(directory.path(), "a.bin");
        let mut part = Part::create(&files(), &target, 7).unwrap();
        part.write(b"whole", 0).unwrap();
        assert_eq!(remove_leftovers(&HostFiles, &target), [] as [PathBuf; 0]);
        part.keep(5, 0o644, false).unwrap();
        assert_eq!(fs::read(&target.shown).unwrap(), b"whole");
        assert_eq!(names(&directory), ["a.bin"]);
    }

    /// The `.part` file is private from its first moment.
    #[test]
    fn a_file_has_its_permissions_only_when_it_is_whole() {
        let directory = TempDir::new().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for (given, taken) in
            [(0o600, 0o600), (0o755, 0o755), (0o666, 0o644), (0o4777, 0o755), (0o400, 0o400)]
        {
            let target = place(directory.path(), "a.bin");
            let part = Part::create(&files(), &target, 7).unwrap();
            assert_eq!(mode(&directory.path().join(&part.name)), 0o600);
            part.keep(0, given, true).unwrap();
            assert_eq!(mode(&target.shown), taken, "{given:o}");
        }
    }

    #[test]
    fn copies_that_begin_together_do_not_take_one_another_for_leftovers() {
        let directory = TempDir::new().unwrap();
        let target = place(directory.path(), "a.bin");
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let target = &target;
                scope.spawn(move || {
                    for n in 0..200 {
                        remove_leftovers(&HostFiles, target);
                        let mut part = Part::create(&files(), target, thread << 32 | n).unwrap();
                        part.write(b"x", 0).unwrap();
                        part.keep(1, 0o644, true).unwrap(); // fails if it was removed
                    }
                });
            }
        });
        assert_eq!(names(&directory), ["a.bin"]);
    }
}
