//! The staged tree: the files of the package, under a directory that stands for the root.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::program::output;

/// A directory that stands for the root of the machine. File modes do not depend on the umask.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Creates an empty tree in `root`, and deletes what was there.
    pub(super) fn new(root: PathBuf) -> Result<Self> {
        let tree = Self { root };
        tree.remove()?;
        tree.directory("")?;
        Ok(tree)
    }

    /// Returns the tree's directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Creates a directory and its parents, and returns its path.
    pub(super) fn directory(&self, path: &str) -> Result<PathBuf> {
        let directory = self.root.join(path);
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        for made in directory.ancestors().take_while(|it| it.starts_with(&self.root)) {
            set_mode(made, 0o755)?;
        }
        Ok(directory)
    }

    /// Writes a file, creates its directories, and returns its path.
    pub(super) fn put(&self, path: &str, content: &[u8], mode: u32) -> Result<PathBuf> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let file = self.directory(above)?.join(name);
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        set_mode(&file, mode)?;
        Ok(file)
    }

    /// Writes the compressed file `path`.gz.
    pub(super) fn put_compressed(&self, path: &str, content: &[u8]) -> Result<()> {
        compress(&self.put(path, content, 0o644)?)
    }

    /// Compresses every file in a directory.
    pub(super) fn compress_all(&self, path: &str) -> Result<()> {
        for entry in fs::read_dir(self.root.join(path))? {
            let file = entry?.path();
            set_mode(&file, 0o644)?;
            compress(&file)?;
        }
        Ok(())
    }

    /// Returns the paths of all files relative to the root, sorted.
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

    /// Deletes the tree.
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

/// Replaces a file by a compressed one without name and time in its header.
fn compress(file: &Path) -> Result<()> {
    output(Command::new("gzip").args(["-9n", "--force"]).arg(file)).map(drop)
}
