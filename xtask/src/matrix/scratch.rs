//! A folder for sockets and logs that is removed at the end. Its path is short: a socket's may have 107 bytes.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Result};

const NAME: &str = "tiercel-matrix-";

/// The folder; removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it, and removes those of runs that died.
    ///
    /// # Errors
    /// If the folder for temporary files cannot be written.
    pub(crate) fn new() -> Result<Self> {
        let all = std::env::temp_dir();
        for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if owner(&name.to_string_lossy()).is_some_and(is_dead) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let own = all.join(format!("{NAME}{}", process::id()));
        fs::create_dir(&own).with_context(|| format!("cannot create {}", own.display()))?;
        Ok(Self(own))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The process that made a folder of this name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.parse().ok()
}

/// Whether no process of this program has the id any more.
fn is_dead(process: u32) -> bool {
    let name_of = |process: u32| fs::read_to_string(format!("/proc/{process}/comm")).ok();
    process == process::id() || name_of(process) != name_of(process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_its_process() {
        assert_eq!(owner("tiercel-matrix-17"), Some(17));
        assert_eq!(owner("tiercel-matrix-x"), None);
        assert_eq!(owner("other-17"), None);
    }

    #[test]
    fn only_folders_of_dead_runs_are_stale() {
        assert!(is_dead(u32::MAX), "no process has this id");
        let parent = std::os::unix::process::parent_id();
        assert!(is_dead(parent), "another program has the id now");
    }
}
