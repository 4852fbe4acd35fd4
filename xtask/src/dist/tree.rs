//! The staged tree: what the package installs, under a directory of its own.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::output;

/// A directory that stands for the root of the machine. Modes are set, whatever the umask says.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// An empty tree in `root`; what was there is gone.
    pub(super) fn new(root: PathBuf) -> Result<Self> {
        let tree = Self { root };
        tree.remove()?;
        tree.directory("")?;
        Ok(tree)
    }

    /// Its directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a directory and those above it; where it lies.
    pub(super) fn directory(&self, path: &str) -> Result<PathBuf> {
        let directory = self.root.join(path);
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        for made in directory.ancestors().take_while(|it| it.starts_with(&self.root)) {
            set_mode(made, 0o755)?;
        }
        Ok(directory)
    }

    /// Writes a file, and the directories above it; where it lies.
    pub(super) fn put(&self, path: &str, content: &[u8], mode: u32) -> Result<PathBuf> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let file = self.directory(above)?.join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        set_mode(&file, mode)?;
        Ok(file)
    }

    /// Writes a compressed file, `path`.gz.
    pub(super) fn put_compressed(&self, path: &str, content: &[u8]) -> Result<()> {
        compress(&self.put(path, content, 0o644)?)
    }

    /// Compresses every file of a directory.
    pub(super) fn compress_all(&self, path: &str) -> Result<()> {
        for entry in fs::read_dir(self.root.join(path))? {
            let file = entry?.path();
            set_mode(&file, 0o644)?;
            compress(&file)?;
        }
        Ok(())
    }

    /// Paths of all files, seen from the root, in order.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = vec![];
        let mut directories = vec![self.root.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory)? {
                let path = entry?.path();
                match path.is_dir() {
                    true => directories.push(path),
                    false => files.push(path.strip_prefix(&self.root)?.to_owned()),
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Takes it away.
    pub(super) fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.root.display()))
            }
            _ => Ok(()),
        }
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

/// Replaces a file by a compressed one that holds neither its name nor its time.
fn compress(file: &Path) -> Result<()> {
    output(Command::new("gzip").args(["-9n", "--force"]).arg(file)).map(drop)
}
