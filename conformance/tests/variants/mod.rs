//! Devices that each break one clause.

mod format;

use crate::device::Broken;

/// Returns a device that breaks the clause.
pub(crate) fn breaking(clause: &str) -> Option<Broken> {
    format::breaking(clause)
}
