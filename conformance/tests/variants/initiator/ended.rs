//! Devices that end operations at a wrong time or in a wrong way.

use transport_common::units::{Deadline, Ticks};

use super::super::format::NACK;
use crate::device::{Broken, ORDERED, Reports, TRANSACTION_TIMEOUT};

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    match clause {
        "F-11-19" => Some(Broken::opened(|parameters| {
            parameters.config.transaction_timeout = Ticks(TRANSACTION_TIMEOUT.0 * 50);
        })),
        _ => None,
    }
}

/// Returns devices that break other parts of the same clauses.
pub(super) fn parts() -> Vec<(&'static str, Broken)> {
    vec![
        (
            "F-11-19",
            Broken::opened(|parameters| {
                parameters.config.transaction_timeout = Ticks(TRANSACTION_TIMEOUT.0 / 2);
            }),
        ),
        ("F-11-19", Broken::reports(Reports::Success)),
        ("F-11-19", stopped_by_nacks()),
    ]
}

/// A device on which a NACK stops the timer of transactions, so that a push that is not served does not end.
fn stopped_by_nacks() -> Broken {
    Broken::takes(|nic, packet| {
        if packet.kind() == NACK {
            nic.entry_mut(ORDERED as usize).connection.initiator.timer = Deadline::NONE;
        }
        vec![packet]
    })
}
