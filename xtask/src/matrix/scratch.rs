//! A directory for sockets and logs that is removed at the end. Its path is short, because the path of a socket
//! may have at most 107 bytes.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Result};

const NAME: &str = "tiercel-matrix-";

/// The directory. Dropping it removes it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the directory, and removes those of runs that died.
    ///
    /// # Errors
    /// If the directory for temporary files is not writable.
    pub(crate) fn new() -> Result<Self> {
        let all = std::env::temp_dir();
        remove_dead(&all, NAME);
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

/// Removes the directories whose name is `prefix` and the id of a process of this program that has died.
pub(crate) fn remove_dead(all: &Path, prefix: &str) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        if owner(&entry.file_name().to_string_lossy(), prefix).is_some_and(is_dead) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the process that made a directory of this name.
fn owner(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// Returns whether no process of this program has the id any more.
fn is_dead(process: u32) -> bool {
    let name_of = |process: u32| fs::read_to_string(format!("/proc/{process}/comm")).ok();
    process == process::id() || name_of(process) != name_of(process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_its_process() {
        assert_eq!(owner("tiercel-matrix-17", NAME), Some(17));
        assert_eq!(owner("tiercel-matrix-x", NAME), None);
        assert_eq!(owner("other-17", NAME), None);
    }

    #[test]
    fn only_folders_of_dead_runs_are_stale() {
        assert!(is_dead(u32::MAX), "no process has this id");
        let parent = std::os::unix::process::parent_id();
        assert!(is_dead(parent), "another program has the id now");
    }
}
