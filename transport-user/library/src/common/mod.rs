//! Small types that everything uses: addresses and errors.

pub(crate) mod address;
pub(crate) mod error;
pub(crate) mod error_kind;
pub(crate) mod mac;
pub(crate) mod scoped;
