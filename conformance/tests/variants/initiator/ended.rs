//! Devices that end operations, or connections, at a wrong time or in a wrong way.

use std::collections::HashMap;

use transport_common::connection::State;
use transport_common::units::{Deadline, Ticks};

use super::super::behaviour::RESYNC;
use super::super::format::NACK;
use crate::device::{ATTEMPTS, Broken, ORDERED, Reports, TRANSACTION_TIMEOUT, UNORDERED};

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    match clause {
        "F-11-19" => Some(Broken::opened(|parameters| {
            parameters.config.transaction_timeout = Ticks(TRANSACTION_TIMEOUT.0 * 50);
        })),
        "F-11-6" => Some(sends_last_resync(2)),
        "F-11-27" => Some(lives_again()),
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
        ("F-11-6", sends_last_resync(0)),
        ("F-11-6", lives_again()),
        ("F-11-6", Broken::reports(Reports::Success)),
        ("F-11-6", Broken::reports(Reports::Nothing)),
        ("F-11-27", Broken::reports(Reports::Success)),
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

/// A device that sends the last Resync with a PSN this often.
fn sends_last_resync(times: usize) -> Broken {
    let mut counts: HashMap<u32, u32> = HashMap::new();
    Broken::sends(move |packet| {
        if packet.kind() != RESYNC {
            return vec![packet];
        }
        let count = counts.entry(packet.word(4)).or_default();
        *count += 1;
        vec![packet; if *count == 1 + ATTEMPTS { times } else { 1 }]
    })
}

/// A device whose dead connections are alive again when a packet arrives.
fn lives_again() -> Broken {
    Broken::takes(|nic, packet| {
        for slot in [ORDERED, UNORDERED] {
            let state = &mut nic.entry_mut(slot as usize).connection.state;
            if *state == State::Fatal {
                *state = State::Open;
            }
        }
        vec![packet]
    })
}
