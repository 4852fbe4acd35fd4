//! A file system that a test can stall.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, ensure};

/// Size of the file system, bytes.
const BYTES: u64 = 500 << 20;

/// A file system on a loop device. Dropping it thaws and unmounts it.
///
/// A process with a thread that waits for a frozen file system does not end. So a volume has to be dropped before what
/// waits for the end of such processes: bind it later than them.
#[derive(Debug)]
pub struct Volume {
    at: PathBuf,
    frozen: AtomicBool,
}

impl Volume {
    /// Makes a file system in a directory and mounts it there.
    ///
    /// # Errors
    /// Without root, or without the tools of ext4.
    pub fn mount(directory: &Path) -> Result<Self> {
        let (image, at) = (directory.join("volume.img"), directory.join("volume"));
        File::create(&image)?.set_len(BYTES)?;
        fs::create_dir(&at)?;
        run("mkfs.ext4", &[Path::new("-q"), &image])?;
        run("mount", &[Path::new("-o"), Path::new("loop"), &image, &at])?;
        Ok(Self { at, frozen: AtomicBool::new(false) })
    }

    /// Returns where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Has everybody who writes to it wait from now on.
    ///
    /// # Errors
    /// The error of `fsfreeze`.
    pub fn freeze(&self) -> Result<()> {
        self.frozen.store(true, Relaxed);
        run("fsfreeze", &[Path::new("--freeze"), &self.at])
    }

    /// Has it answer again.
    ///
    /// # Errors
    /// The error of `fsfreeze`.
    pub fn thaw(&self) -> Result<()> {
        self.frozen.store(false, Relaxed);
        run("fsfreeze", &[Path::new("--unfreeze"), &self.at])
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if *self.frozen.get_mut() {
            let _ = self.thaw(); // the unmount tells more
        }
        if let Err(error) = run("umount", &[Path::new("--lazy"), &self.at]) {
            eprintln!("{error:#}");
        }
    }
}

fn run(name: &str, arguments: &[&Path]) -> Result<()> {
    let outcome =
        Command::new(name).args(arguments).output().with_context(|| format!("cannot run {name}"))?;
    ensure!(outcome.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&outcome.stderr));
    Ok(())
}
