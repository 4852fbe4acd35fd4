//! The receive directory: the files that peers may fetch, and where they may store files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use tiercel::control::answer::ReceiveLimits;
use tiercel::control::file_name::{is_file_name, is_part};
use tiercel::control::tree::{self, Entry, Kind, LONGEST_LIST};

use super::disk::{FileSystem, Pulse};
use super::transfer::{Place, Trouble, kind};
use crate::common::mutex::lock;
use crate::config::ReceiveOptions;

/// The deepest directory that counts.
const DEEPEST: usize = 64;
/// How often the receive directory is measured again because other transfers wrote meanwhile.
const AGAIN: u32 = 3;
/// What each file and each directory counts at least, bytes: a block. An empty one takes no bytes for data on many file
/// systems, and a peer could store any number of them.
const BLOCK: u64 = 4096;

/// The receive directory of a node. All functions but [`Self::new`] and [`Self::options`] run on a lane.
#[derive(Debug)]
pub(super) struct Inbox {
    options: ReceiveOptions,
    files: Arc<dyn FileSystem>,
    space: Mutex<Space>,
}

/// What current transfers do with space.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    /// Bytes that they will still write.
    reserved: u64,
    /// Bytes that transfers have written since the node came up.
    written: u64,
}

/// What was measured before a reservation.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Bytes in the receive directory.
    stored: u64,
    /// Free bytes of the file system.
    free: u64,
    /// [`Space::written`] before the measurement.
    written: u64,
}

/// Space that a transfer will use. Dropping it gives back what it did not use.
#[derive(Debug)]
pub(super) struct Reservation {
    inbox: Arc<Inbox>,
    left: u64,
}

impl Inbox {
    pub(super) fn new(options: ReceiveOptions, files: Arc<dyn FileSystem>) -> Self {
        Self { options, files, space: Mutex::default() }
    }

    pub(super) fn options(&self) -> &ReceiveOptions {
        &self.options
    }

    /// Returns what peers may store.
    pub(super) fn limits(&self) -> ReceiveLimits {
        let ReceiveOptions { overwrite, max_file, max_total, .. } = self.options;
        ReceiveLimits { overwrite, max_file, max_total }
    }

    /// Returns whether peers may replace files.
    pub(super) fn replaces(&self) -> bool {
        self.options.overwrite
    }

    /// Opens a file for a peer.
    pub(super) fn open(&self, name: &Path) -> Result<File, Trouble> {
        let directory = self.directory()?;
        self.files.open(directory.as_fd(), name).map_err(|error| Trouble::File("open", error))
    }

    /// Lists a directory, or the file with this name, for a peer that copies it.
    pub(super) fn list(&self, name: &Path, pulse: &Pulse) -> Result<Vec<u8>, Trouble> {
        let directory = self.directory()?;
        let unreadable = |error| Trouble::File("list", error);
        let mut list = Vec::new();
        if name.as_os_str().is_empty() {
            self.list_directory(&mut list, directory, (Path::new(""), Path::new("")), 0o755, pulse)?;
            return Ok(list);
        }
        let opened = self.files.open(directory.as_fd(), name).map_err(unreadable)?;
        let metadata = self.files.metadata(&opened).map_err(unreadable)?;
        let mode = metadata.permissions().mode() & 0o7777;
        match kind(&metadata) {
            None => add(&mut list, Path::new(""), Kind::File, mode)?,
            Some("a directory") => {
                self.list_directory(&mut list, opened.into(), (name, Path::new("")), mode, pulse)?;
            }
            Some(other) => return Err(Trouble::NotAFile(other)),
        }
        Ok(list)
    }

    /// Adds a directory and what is in it to a list. `name` and `path` are its paths in the receive directory and in the list.
    fn list_directory(
        &self,
        list: &mut Vec<u8>,
        directory: OwnedFd,
        (name, path): (&Path, &Path),
        mode: u32,
        pulse: &Pulse,
    ) -> Result<(), Trouble> {
        add(list, path, Kind::Directory, mode)?;
        let gone = |error: &io::Error| error.kind() == ErrorKind::NotFound; // removed in the meantime
        let unreadable = |error| Trouble::File("list", error);
        let mut names = self.files.names(directory.as_fd()).map_err(unreadable)?;
        names.sort();
        for own in &names {
            if !pulse.goes_on() {
                return Err(Trouble::Cancelled);
            }
            let full = name.join(own);
            if own.to_str().is_some_and(is_part) || full.to_str().is_some_and(|full| full.starts_with('.')) {
                continue; // no peer may fetch it
            }
            let (path, fetchable) = (path.join(own), full.to_str().is_some_and(is_file_name));
            let named = match self.files.look_up(directory.as_fd(), own) {
                Ok(named) => named,
                Err(error) if gone(&error) => continue,
                Err(error) => return Err(unreadable(error)),
            };
            match () {
                () if named.is_link => add(list, &path, Kind::SymbolicLink, named.mode)?,
                () if named.is_file && fetchable => add(list, &path, Kind::File, named.mode)?,
                () if named.is_directory && fetchable => {
                    match self.files.open_directory(directory.as_fd(), Path::new(own)) {
                        Ok(inner) => self.list_directory(list, inner, (&full, &path), named.mode, pulse)?,
                        Err(error) if gone(&error) => {}
                        Err(error) => return Err(unreadable(error)),
                    }
                }
                () => add(list, &path, Kind::Other, named.mode)?,
            }
        }
        Ok(())
    }

    /// Returns the place with a name. Its directory is open.
    pub(super) fn place(&self, name: &Path) -> Result<Place, Trouble> {
        let mut directory = self.directory()?;
        if let Some(parent) = name.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let opened = self.files.open_directory(directory.as_fd(), parent);
            directory = opened.map_err(|error| Trouble::File("open the directory of", error))?;
        }
        let own = name.file_name().ok_or(Trouble::IsDirectory)?.to_owned();
        Ok(Place { directory: Arc::new(directory), name: own, shown: self.options.directory.join(name) })
    }

    /// Reserves space for a file or a directory: `crossing` bytes of data, and its length.
    pub(super) fn reserve(
        self: &Arc<Self>,
        place: BorrowedFd<'_>,
        crossing: u64,
        length: u64,
        pulse: &Pulse,
    ) -> Result<Reservation, Trouble> {
        if let Some(most) = self.options.max_file.filter(|most| length > *most) {
            return Err(Trouble::TooLong(length, most));
        }
        let needed = crossing.max(BLOCK);
        let mut again = AGAIN;
        loop {
            let measured = self.measure(place, pulse)?;
            match self.take(needed, measured) {
                // Some bytes may count twice.
                Err(_) if again > 0 && self.space().written != measured.written => again -= 1,
                taken => return taken,
            }
        }
    }

    /// Measures what is stored and what is free.
    fn measure(&self, place: BorrowedFd<'_>, pulse: &Pulse) -> Result<Measured, Trouble> {
        let unknown = |error| Trouble::File("find the free space for", error);
        let written = self.space().written;
        let stored = match self.options.max_total {
            Some(_) => {
                stored(self.files.as_ref(), self.directory()?.as_fd(), DEEPEST, pulse).map_err(unknown)?
            }
            None => 0,
        };
        let free = self.files.free_space(place).map_err(unknown)?;
        Ok(Measured { stored, free, written })
    }

    /// Takes the space for `needed` bytes, if there is so much. What was written since the measurement began counts as not
    /// measured, though some of it may be: so nothing is left out.
    fn take(self: &Arc<Self>, needed: u64, measured: Measured) -> Result<Reservation, Trouble> {
        let mut space = self.space();
        let others = space.reserved.saturating_add(space.written - measured.written);
        let used = measured.stored.saturating_add(others);
        if let Some(most) = self.options.max_total.filter(|most| used.saturating_add(needed) > *most) {
            return Err(Trouble::TotalFull(used, needed, most));
        }
        let free = measured.free.saturating_sub(others);
        if needed > free {
            return Err(Trouble::NoSpace(needed, free));
        }
        space.reserved += needed; // not more than is free, so it fits
        drop(space);
        Ok(Reservation { inbox: Arc::clone(self), left: needed })
    }

    fn directory(&self) -> Result<OwnedFd, Trouble> {
        // It is opened each time: it may have been mounted since the node came up.
        let opened = self.files.open_root(&self.options.directory);
        opened.map_err(|error| Trouble::File("open the receive directory for", error))
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        lock(&self.space)
    }
}

impl Reservation {
    /// Tells that bytes were written. The file system counts them now.
    pub(super) fn used(&mut self, bytes: u64) {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        let mut space = self.inbox.space();
        space.reserved -= bytes;
        space.written = space.written.saturating_add(bytes);
    }

    /// Tells that the file or the directory has its name. A small one counts as a block from now on.
    pub(super) fn kept(&mut self) {
        self.used(BLOCK);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.inbox.space().reserved -= self.left;
    }
}

fn add(list: &mut Vec<u8>, path: &Path, kind: Kind, mode: u32) -> Result<(), Trouble> {
    let entry = Entry { path: path.to_string_lossy().into_owned(), kind, mode };
    if tree::add(list, &entry) { Ok(()) } else { Err(Trouble::TooManyEntries(LONGEST_LIST)) }
}

/// Returns the bytes that the files and the directories beneath a directory take, of each a [`BLOCK`] at least.
fn stored(
    files: &dyn FileSystem,
    directory: BorrowedFd<'_>,
    deepest: usize,
    pulse: &Pulse,
) -> io::Result<u64> {
    let mut all: u64 = 0;
    for name in files.names(directory)? {
        if !pulse.goes_on() {
            return Err(ErrorKind::Interrupted.into());
        }
        let name: &OsStr = &name;
        let named = match files.look_up(directory, name) {
            Ok(named) => named,
            Err(error) if error.kind() == ErrorKind::NotFound => continue, // removed in the meantime
            Err(error) => return Err(error),
        };
        all = all.saturating_add(named.stored.max(BLOCK));
        if named.is_directory && deepest > 0 {
            let inner = match files.open_directory(directory, Path::new(name)) {
                Ok(inner) => inner,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            all = all.saturating_add(stored(files, inner.as_fd(), deepest - 1, pulse)?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::disk::HostFiles;
    use super::*;

    fn inbox(directory: &TempDir, change: impl FnOnce(&mut ReceiveOptions)) -> Arc<Inbox> {
        let mut options = ReceiveOptions::new(directory.path().to_owned());
        change(&mut options);
        Arc::new(Inbox::new(options, Arc::new(HostFiles)))
    }

    fn reserve(inbox: &Arc<Inbox>, bytes: u64) -> Result<Reservation, Trouble> {
        let place = inbox.place(Path::new("x"))?;
        inbox.reserve(place.directory.as_fd(), bytes, bytes, &Pulse::default())
    }

    #[test]
    fn files_and_their_sum_have_limits() {
        let directory = TempDir::new().unwrap();
        let limited = inbox(&directory, |options| {
            (options.max_file, options.max_total) = (Some(1 << 20), Some(3 << 20));
        });
        assert!(matches!(reserve(&limited, (1 << 20) + 1), Err(Trouble::TooLong(..))));
        std::fs::create_dir(directory.path().join("deep")).unwrap();
        std::fs::write(directory.path().join("deep/old"), vec![1; 1 << 20]).unwrap();
        let mut first = reserve(&limited, 1 << 20).unwrap();
        // What is stored and what others will store leave less than a mebibyte.
        assert!(matches!(reserve(&limited, 1 << 20), Err(Trouble::TotalFull(..))));
        first.used(1 << 20); // and it is not in the directory
        assert!(reserve(&limited, 1 << 20).is_ok());
        drop(first);
        assert_eq!(limited.space().reserved, 0);
    }

    /// Files, directories and links without a byte of data count as well, so their number has a limit.
    #[test]
    fn what_is_empty_counts_as_a_block() {
        let directory = TempDir::new().unwrap();
        let limited = inbox(&directory, |options| options.max_total = Some(3 * BLOCK));
        std::fs::write(directory.path().join("a"), "").unwrap();
        std::os::unix::fs::symlink("a", directory.path().join("b")).unwrap();
        let third = reserve(&limited, 0).unwrap();
        let Err(Trouble::TotalFull(used, needed, most)) = reserve(&limited, 0) else {
            panic!("it was accepted")
        };
        assert_eq!((used, needed, most), (3 * BLOCK, BLOCK, 3 * BLOCK));
        drop(third);
        assert!(reserve(&limited, 0).is_ok(), "it came to nothing");
        std::fs::create_dir(directory.path().join("c")).unwrap();
        assert!(matches!(reserve(&limited, 0), Err(Trouble::TotalFull(..))));
    }

    /// While another transfer measures the directory, a small file gets its name: it counts as a block, in the directory
    /// or as written.
    #[test]
    fn a_small_file_counts_as_a_block_at_every_moment() {
        let directory = TempDir::new().unwrap();
        let limited = inbox(&directory, |options| options.max_total = Some(2 * BLOCK));
        let mut small = reserve(&limited, 10).unwrap();
        let place = limited.place(Path::new("x")).unwrap();
        let measured = limited.measure(place.directory.as_fd(), &Pulse::default()).unwrap();
        small.used(10);
        let used = |limited: &Arc<Inbox>| match limited.take(2 * BLOCK, measured) {
            Err(Trouble::TotalFull(used, ..)) => used,
            other => panic!("{other:?}"),
        };
        assert_eq!(used(&limited), BLOCK);
        small.kept();
        assert_eq!(used(&limited), BLOCK);
        drop(small);
        assert_eq!((used(&limited), limited.space().reserved), (BLOCK, 0));
    }

    #[test]
    fn nothing_is_accepted_that_does_not_fit() {
        let directory = TempDir::new().unwrap();
        let open = inbox(&directory, |_| {});
        let Err(Trouble::NoSpace(needed, free)) = reserve(&open, u64::MAX) else { panic!("it was accepted") };
        assert_eq!(needed, u64::MAX);
        let _most = reserve(&open, free / 2).unwrap();
        assert!(matches!(reserve(&open, free), Err(Trouble::NoSpace(..))), "two cannot have the same space");
    }
}
