//! Small types that everything uses: addresses, errors, locks.

pub(crate) mod address;
pub(crate) mod error;
pub(crate) mod mac;
pub(crate) mod mutex;
pub(crate) mod open_files;
pub(crate) mod scoped;
