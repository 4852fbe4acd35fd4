//! Devices that retransmit in a wrong way.

use super::super::behaviour::{RESYNC, forgets};
use super::super::format::word;
use super::super::transmitter;
use super::{PULL_REQUEST, PUSH_DATA, REQUESTS, cleared, copies, eacks, repeated, swaps};
use crate::device::{ATTEMPTS, Broken, Packet};

/// A device that sends each copy of the requests for which `chosen` returns true twice.
fn twice(mut chosen: impl FnMut(&Packet) -> bool + 'static) -> Option<Broken> {
    let mut copy = repeated(REQUESTS);
    Some(Broken::sends(move |packet| {
        if !REQUESTS.contains(&packet.kind()) {
            return vec![packet];
        }
        let (is_copy, is_chosen) = (copy(&packet), chosen(&packet));
        if is_copy && is_chosen { vec![packet.clone(), packet] } else { vec![packet] }
    }))
}

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    match clause {
        "F-9-7" => {
            let mut copy = repeated(REQUESTS);
            forgets(move |packet| copy(packet))
        }
        "F-9-6" => copies(REQUESTS, |packet| packet.edit(8, |word| !word)),
        "F-11-4" => copies(&[PUSH_DATA], |packet| packet.edit(5, |rsn| rsn.wrapping_add(1))),
        "F-9.1.5-2" => copies(&[PULL_REQUEST], |packet| packet.edit(5, |rsn| rsn.wrapping_add(1))),
        "F-9.1.5-5" => twice(|_| true),
        // The tester measures the timeout with the first push, so that one has sound copies.
        "F-9.1.4-2" => {
            let mut first = None;
            twice(move |packet| packet.word(4) != *first.get_or_insert(packet.word(4)))
        }
        "F-8.2.1.1-2" | "F-9.1.5-3" => swaps(REQUESTS, repeated(REQUESTS)),
        "F-6.6.6-2" | "F-9.1.4-1" | "F-9.1.4-3" | "F-9.1.4-4" => transmitter::breaking(clause),
        "F-9.2.3-8" => eacks(|packet| cleared(packet, 16..18)),
        "D-37" => eacks(|packet| packet.edit(7, |word| word & !3)),
        "D-36" | "F-9.1.5-1" => {
            Some(Broken::opened(|parameters| parameters.config.max_retransmit_attempts = ATTEMPTS - 1))
        }
        "F-11-5" | "F-7.6-1" | "F-7.6-5" | "F-7.6-2" | "F-9.1.8-1" | "F-9.1.8-2" => {
            transmitter::breaking(clause)
        }
        "F-7.6-4" => word(&[RESYNC], 6, |word| word & !(0xf << 20) | 3 << 20),
        "D-24" => word(&[RESYNC], 6, |word| word & !(0xf << 20) | 5 << 20),
        _ => None,
    }
}
