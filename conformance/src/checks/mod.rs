//! The catalogue: one check for each clause.

mod format;

use crate::check::Check;

/// Returns all checks, in the order in which they run.
pub fn catalogue() -> Vec<Check> {
    [format::CHECKS].concat()
}
