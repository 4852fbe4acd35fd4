//! Toolchains that cannot be used.

use std::fmt;

/// A toolchain that cannot build the XDP programs, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub(crate) name: String,
    pub(crate) reason: &'static str,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}
