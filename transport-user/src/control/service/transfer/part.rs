//! The hidden `.part` file of a transfer, and the `.part` files that killed nodes left.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::super::protocol::Failure;
use super::file_failure;
use super::sink::exists;

/// Number of attempts to lock a new `.part` file before another copy takes it for a leftover.
const TRIES: usize = 100;
/// Time between two attempts. This is far longer than it takes to remove a file.
const MOMENT: Duration = Duration::from_micros(100);

/// The `.part` file of a transfer. It is hidden and locked while it is written. Dropping it removes it, unless it
/// got its name.
pub(super) struct Part {
    path: PathBuf,
    target: PathBuf,
    file: File,
    kept: bool,
}

impl Part {
    pub(super) fn create(target: &Path, transfer: u64) -> Result<Self, Failure> {
        let path = target.with_file_name(format!("{}{transfer:016x}.part", prefix(target)));
        let create = || {
            let file = OpenOptions::new().write(true).create_new(true).open(&path);
            file.map_err(|error| file_failure(&path, "create", &error))
        };
        let mut file = create()?;
        for _ in 0..TRIES {
            if !lock(&file) {
                // Between the two calls, another copy took the file for a leftover and locked it. It removes the
                // file and releases the lock.
                std::thread::sleep(MOMENT);
            } else if is_at(&file, &path) {
                return Ok(Self { path, target: target.to_owned(), file, kept: false });
            } else {
                file = create()?;
            }
        }
        Err(file_failure(&path, "lock", &ErrorKind::WouldBlock.into()))
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| file_failure(&self.path, "write", &error))
    }

    /// Gives the file its name.
    pub(super) fn keep(&mut self, overwrite: bool) -> Result<(), Failure> {
        // A link never replaces a file that appeared in the meantime. A rename replaces it.
        let named = if overwrite {
            fs::rename(&self.path, &self.target)
        } else {
            fs::hard_link(&self.path, &self.target)
        };
        named.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&self.target),
            _ => file_failure(&self.target, "create", &error),
        })?;
        self.kept = overwrite;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path); // an error cannot be handled here
        }
    }
}

/// Removes the `.part` files of `target` that no copy writes any more, because their node was killed or its
/// machine went down. Their content is not used, because its hash was never checked. Writes each removal to the
/// node's log, and returns the removed files.
pub(super) fn remove_leftovers(target: &Path) -> Vec<PathBuf> {
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let prefix = prefix(target);
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.flatten().filter(|entry| is_part(&entry.file_name().to_string_lossy(), &prefix));
    let removed: Vec<_> = paths.map(|entry| entry.path()).filter(|path| remove_if_left(path)).collect();
    for path in &removed {
        tracing::warn!("removed {}: an earlier copy left it, because its node was killed", path.display());
    }
    removed
}

/// Returns the prefix of the names of all `.part` files of `target`.
fn prefix(target: &Path) -> String {
    format!(".{}.", target.file_name().unwrap_or_default().to_string_lossy())
}

/// Returns whether a name is that of a `.part` file: the prefix, the number of the transfer, `.part`.
fn is_part(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".part"));
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removes a `.part` file if it can be locked. The kernel releases a lock when its process ends in any way, so no
/// copy writes a file that can be locked.
fn remove_if_left(path: &Path) -> bool {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let Ok(file) = file else { return false };
    let plain = file.metadata().is_ok_and(|metadata| metadata.is_file());
    plain && file.try_lock().is_ok() && is_at(&file, path) && fs::remove_file(path).is_ok()
}

/// Locks a file. Returns false if another lock exists. On a file system without locks it returns true: others
/// cannot take a lock there either.
fn lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Returns whether `path` still names this open file.
fn is_at(file: &File, path: &Path) -> bool {
    let same = || -> io::Result<bool> {
        let (here, there) = (file.metadata()?, fs::symlink_metadata(path)?);
        Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
    };
    same().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

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
        assert_eq!(remove_leftovers(&path("a.bin")), [left]);
        assert_eq!(names(&directory).len(), others.len() + 2, "nothing else was touched");
        assert_eq!(remove_leftovers(&path("a.bin")), [] as [PathBuf; 0]);
    }

    #[test]
    fn what_is_written_at_this_moment_stays() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a.bin");
        let mut part = Part::create(&target, 7).unwrap();
        part.append(b"whole").unwrap();
        assert_eq!(remove_leftovers(&target), [] as [PathBuf; 0]);
        part.keep(false).unwrap();
        drop(part);
        assert_eq!(fs::read(&target).unwrap(), b"whole");
        assert_eq!(names(&directory), ["a.bin"]);
    }

    #[test]
    fn copies_that_begin_together_do_not_take_one_another_for_leftovers() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a.bin");
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let target = &target;
                scope.spawn(move || {
                    for n in 0..200 {
                        remove_leftovers(target);
                        let mut part = Part::create(target, thread << 32 | n).unwrap();
                        part.append(b"x").unwrap();
                        part.keep(true).unwrap(); // fails if it was removed
                    }
                });
            }
        });
        assert_eq!(names(&directory), ["a.bin"]);
    }
}
