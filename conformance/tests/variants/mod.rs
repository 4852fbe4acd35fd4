//! Devices that each break one clause.

mod behaviour;
mod fields;
mod format;
mod initiator;
mod transmitter;

use falcon_conformance::{Check, Role};

use crate::device::Broken;

/// Returns a device that breaks the clause of a check.
pub(crate) fn breaking(check: &Check) -> Option<Broken> {
    match check.role {
        Role::Target => target(check.clause),
        Role::Initiator => initiator::breaking(check.clause),
    }
}

/// Returns devices that each break another part of a clause of the initiator.
pub(crate) fn parts() -> Vec<(&'static str, Broken)> {
    initiator::parts()
}

fn target(clause: &str) -> Option<Broken> {
    format::breaking(clause)
        .or_else(|| fields::breaking(clause))
        .or_else(|| behaviour::breaking(clause))
        .or_else(|| transmitter::breaking(clause))
}
