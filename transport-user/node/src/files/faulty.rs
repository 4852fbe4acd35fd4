//! A file system that fails, fills up and stalls, for tests.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use super::{FileSystem, HostFiles, Named};

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails with this code.
    Fails(i32),
    /// It does not return before [`Faulty::answer`].
    Stalls,
}

/// The files of the host, with one fault.
#[derive(Debug, Default)]
pub(crate) struct Faulty {
    state: Mutex<State>,
    answers: Condvar,
    /// What a file system does not have.
    without: &'static [&'static str],
    /// Its free space, bytes, if it is not that of the host.
    free: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Calls until the fault. `None`: no fault comes any more.
    calls: Option<u32>,
    fault: Option<Fault>,
    /// The call that had the fault.
    hit: Option<&'static str>,
    stalled: bool,
    /// The calls so far.
    called: BTreeSet<&'static str>,
}

impl Faulty {
    /// Makes a file system whose call after so many others has the fault.
    pub(crate) fn after(calls: u32, fault: Fault) -> Arc<Self> {
        let state = State { calls: Some(calls), fault: Some(fault), ..State::default() };
        Arc::new(Self { state: Mutex::new(state), ..Self::default() })
    }

    /// Makes a file system that does not have these calls.
    pub(crate) fn without(without: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self { without, ..Self::default() })
    }

    /// Makes a file system with so much free space.
    pub(crate) fn with_free_space(bytes: u64) -> Arc<Self> {
        Arc::new(Self { free: Some(bytes), ..Self::default() })
    }

    /// Returns the call that had the fault, if it has come.
    pub(crate) fn hit(&self) -> Option<&'static str> {
        self.state.lock().unwrap().hit
    }

    /// Returns the calls so far.
    pub(crate) fn called(&self) -> BTreeSet<&'static str> {
        self.state.lock().unwrap().called.clone()
    }

    /// Lets stalled calls return.
    pub(crate) fn answer(&self) {
        self.state.lock().unwrap().stalled = false;
        self.answers.notify_all();
    }

    fn call(&self, name: &'static str) -> io::Result<()> {
        if self.without.contains(&name) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let mut state = self.state.lock().unwrap();
        state.called.insert(name);
        let Some(calls) = state.calls else { return Ok(()) };
        state.calls = calls.checked_sub(1);
        if calls > 0 {
            return Ok(());
        }
        state.hit = Some(name);
        match state.fault {
            Some(Fault::Fails(code)) => Err(io::Error::from_raw_os_error(code)),
            Some(Fault::Stalls) => {
                state.stalled = true;
                drop(self.answers.wait_while(state, |state| state.stalled).unwrap());
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl FileSystem for Faulty {
    fn open_root(&self, path: &Path) -> io::Result<OwnedFd> {
        self.call("open_root")?;
        HostFiles.open_root(path)
    }

    fn open(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
        self.call("open")?;
        HostFiles.open(directory, path)
    }

    fn open_directory(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
        self.call("open_directory")?;
        HostFiles.open_directory(directory, path)
    }

    fn create(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
        self.call("create")?;
        HostFiles.create(directory, name)
    }

    fn create_directory(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.call("create_directory")?;
        HostFiles.create_directory(directory, name)
    }

    fn open_path(&self, path: &Path) -> io::Result<File> {
        self.call("open_path")?;
        HostFiles.open_path(path)
    }

    fn create_path(&self, path: &Path) -> io::Result<File> {
        self.call("create_path")?;
        HostFiles.create_path(path)
    }

    fn remove_path(&self, path: &Path) -> io::Result<()> {
        self.call("remove_path")?;
        HostFiles.remove_path(path)
    }

    fn metadata(&self, file: &File) -> io::Result<Metadata> {
        self.call("metadata")?;
        HostFiles.metadata(file)
    }

    fn look_up(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Named> {
        self.call("look_up")?;
        HostFiles.look_up(directory, name)
    }

    fn names(&self, directory: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
        self.call("names")?;
        HostFiles.names(directory)
    }

    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call("read_at")?;
        HostFiles.read_at(file, bytes, offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call("write_at")?;
        HostFiles.write_at(file, bytes, offset)
    }

    fn next_data(&self, file: &File, from: u64) -> io::Result<Option<(u64, u64)>> {
        self.call("next_data")?;
        HostFiles.next_data(file, from)
    }

    fn set_length(&self, file: &File, length: u64) -> io::Result<()> {
        self.call("set_length")?;
        HostFiles.set_length(file, length)
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        self.call("set_mode")?;
        HostFiles.set_mode(file, mode)
    }

    fn lock(&self, file: &File) -> io::Result<bool> {
        self.call("lock")?;
        HostFiles.lock(file)
    }

    fn rename(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.call("rename")?;
        HostFiles.rename(directory, from, to)
    }

    fn rename_new(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.call("rename_new")?;
        HostFiles.rename_new(directory, from, to)
    }

    fn link(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.call("link")?;
        HostFiles.link(directory, from, to)
    }

    fn remove(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.call("remove")?;
        HostFiles.remove(directory, name)
    }

    fn free_space(&self, directory: BorrowedFd<'_>) -> io::Result<u64> {
        self.call("free_space")?;
        self.free.map_or_else(|| HostFiles.free_space(directory), Ok)
    }
}
