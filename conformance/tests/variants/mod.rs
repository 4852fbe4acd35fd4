//! Devices that each break one clause.

mod behaviour;
mod fields;
mod format;
mod transmitter;

use crate::device::Broken;

/// Returns a device that breaks the clause.
pub(crate) fn breaking(clause: &str) -> Option<Broken> {
    format::breaking(clause)
        .or_else(|| fields::breaking(clause))
        .or_else(|| behaviour::breaking(clause))
        .or_else(|| transmitter::breaking(clause))
}
