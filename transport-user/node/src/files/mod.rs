//! What a node does with files. Every call may take long.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, RenameFlags, ResolveFlag, openat, openat2, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstatat, mkdirat};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{UnlinkatFlags, Whence, linkat, lseek, unlinkat};

#[cfg(test)]
pub(crate) mod faulty;

/// Permission bits of a file while it is written, and of a directory while its files arrive.
const PRIVATE_FILE: Mode = Mode::from_bits_truncate(0o600);
const PRIVATE_DIRECTORY: Mode = Mode::from_bits_truncate(0o700);

/// What a name in a directory stands for. Symbolic links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Whether it is a directory.
    pub(crate) is_directory: bool,
    /// Whether it is a regular file.
    pub(crate) is_file: bool,
    /// Whether it is a symbolic link.
    pub(crate) is_link: bool,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Bytes that it takes on its file system.
    pub(crate) stored: u64,
    /// Device and inode.
    pub(crate) id: (u64, u64),
}

/// The calls to a file system. Names are names in an open directory, so that nobody can exchange a path in between. Paths are
/// those that a local client names.
pub(crate) trait FileSystem: std::fmt::Debug + Send + Sync + 'static {
    /// Opens a directory by its path.
    fn open_root(&self, path: &Path) -> io::Result<OwnedFd>;

    /// Opens a file beneath a directory for reading. Neither `..` nor a symbolic link leads out of it. Does not wait for
    /// the writer of a pipe.
    fn open(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<File>;

    /// Opens a directory beneath a directory, with the same promise.
    fn open_directory(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd>;

    /// Creates a file that only its owner may read.
    fn create(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<File>;

    /// Creates a directory that only its owner may use.
    fn create_directory(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()>;

    /// Opens a file for reading. Does not wait for the writer of a pipe.
    fn open_path(&self, path: &Path) -> io::Result<File>;

    /// Creates a new file for writing.
    fn create_path(&self, path: &Path) -> io::Result<File>;

    /// Removes a file.
    fn remove_path(&self, path: &Path) -> io::Result<()>;

    /// Returns what is known about an open file.
    fn metadata(&self, file: &File) -> io::Result<Metadata>;

    /// Returns what a name stands for.
    fn look_up(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Named>;

    /// Returns the names in a directory.
    fn names(&self, directory: BorrowedFd<'_>) -> io::Result<Vec<OsString>>;

    /// Reads bytes at an offset. Returns 0 at the end of the file.
    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes at an offset.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns begin and end of the next data from an offset on, and `None` if only a hole follows.
    fn next_data(&self, file: &File, from: u64) -> io::Result<Option<(u64, u64)>>;

    /// Sets the length of a file.
    fn set_length(&self, file: &File, length: u64) -> io::Result<()>;

    /// Sets the permission bits of an open file or directory.
    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()>;

    /// Takes the lock of a file. Returns false if somebody else has it.
    fn lock(&self, file: &File) -> io::Result<bool>;

    /// Gives a file a new name, in place of the file that has it.
    fn rename(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Gives a file a new name that nobody has.
    fn rename_new(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Gives a file one more name that nobody has.
    fn link(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()>;

    /// Returns the free space, bytes.
    fn free_space(&self, directory: BorrowedFd<'_>) -> io::Result<u64>;
}

/// The file systems of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostFiles;

fn beneath(directory: BorrowedFd<'_>, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | OFlag::O_NONBLOCK)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    loop {
        match openat2(directory, path, how) {
            // A rename elsewhere on the way makes the kernel unsure. It asks to try again.
            Err(Errno::EAGAIN) => std::thread::yield_now(),
            other => return Ok(other?),
        }
    }
}

impl FileSystem for HostFiles {
    fn open_root(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(nix::fcntl::open(path, flags, Mode::empty())?)
    }

    fn open(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
        Ok(beneath(directory, path, OFlag::O_RDONLY)?.into())
    }

    fn open_directory(&self, directory: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
        beneath(directory, path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
    }

    fn create(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        Ok(openat(directory, name, flags, PRIVATE_FILE)?.into())
    }

    fn create_directory(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        Ok(mkdirat(directory, name, PRIVATE_DIRECTORY)?)
    }

    fn open_path(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
    }

    fn create_path(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    fn remove_path(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn metadata(&self, file: &File) -> io::Result<Metadata> {
        file.metadata()
    }

    fn look_up(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Named> {
        let FileStat { st_mode, st_blocks, st_dev, st_ino, .. } =
            fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let kind = SFlag::from_bits_truncate(st_mode) & SFlag::S_IFMT;
        Ok(Named {
            is_directory: kind == SFlag::S_IFDIR,
            is_file: kind == SFlag::S_IFREG,
            is_link: kind == SFlag::S_IFLNK,
            mode: st_mode & 0o7777,
            stored: st_blocks as u64 * 512,
            id: (st_dev, st_ino),
        })
    }

    fn names(&self, directory: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut opened = Dir::openat(directory, ".", flags, Mode::empty())?;
        let name = |entry: nix::Result<nix::dir::Entry>| -> io::Result<OsString> {
            Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned())
        };
        let all: io::Result<Vec<_>> = opened.iter().map(name).collect();
        Ok(all?.into_iter().filter(|name| name != "." && name != "..").collect())
    }

    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(bytes, offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn next_data(&self, file: &File, from: u64) -> io::Result<Option<(u64, u64)>> {
        let from = i64::try_from(from).map_err(|_| io::Error::from(Errno::EOVERFLOW))?;
        let begin = match lseek(file, from, Whence::SeekData) {
            Ok(begin) => begin,
            Err(Errno::ENXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = lseek(file, begin, Whence::SeekHole)?;
        Ok(Some((begin as u64, end as u64)))
    }

    fn set_length(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        Ok(fchmod(file, Mode::from_bits_truncate(mode))?)
    }

    fn lock(&self, file: &File) -> io::Result<bool> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(std::fs::TryLockError::WouldBlock) => Ok(false),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn rename(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(directory, from, directory, to)?)
    }

    fn rename_new(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat2(directory, from, directory, to, RenameFlags::RENAME_NOREPLACE)?)
    }

    fn link(&self, directory: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(linkat(directory, from, directory, to, AtFlags::empty())?)
    }

    fn remove(&self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(directory, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn free_space(&self, directory: BorrowedFd<'_>) -> io::Result<u64> {
        let space = fstatvfs(directory.as_fd())?;
        Ok(space.blocks_available() * space.fragment_size())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// `openat2`: a symbolic link may lead to another file in the directory, and never out of it.
    #[test]
    fn nothing_leads_out_of_a_directory() {
        let (outside, inside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (outside, inside) = (outside.path(), inside.path());
        std::fs::write(outside.join("secret"), "x").unwrap();
        std::fs::create_dir(inside.join("deep")).unwrap();
        std::fs::write(inside.join("deep/kept"), "y").unwrap();
        symlink("deep/kept", inside.join("good")).unwrap();
        symlink(outside.join("secret"), inside.join("absolute")).unwrap();
        symlink(outside, inside.join("out")).unwrap();
        let up = format!("../{}/secret", outside.file_name().unwrap().to_str().unwrap());
        symlink(&up, inside.join("relative")).unwrap();
        let directory = File::open(inside).unwrap();
        let open = |path: &str| HostFiles.open(directory.as_fd(), Path::new(path));
        assert!(open("good").is_ok() && open("deep/kept").is_ok());
        for path in ["absolute", "relative", "out/secret", &up, "/etc/passwd", "deep/../../x"] {
            let error = open(path).expect_err(path);
            assert_eq!(error.raw_os_error(), Some(libc::EXDEV), "{path}: {error}");
        }
        assert!(HostFiles.open_directory(directory.as_fd(), Path::new("out")).is_err());
    }
}
