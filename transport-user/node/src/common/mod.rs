//! What everything uses: locks, and the words for too many open files.

pub(crate) mod mutex;
pub(crate) mod open_files;
