//! Devices that take NACKs in a wrong way.

use std::collections::HashMap;

use super::super::behaviour::{RESYNC, forgets, loses};
use super::super::format::{NACK, word};
use super::{PUSH_DATA, base, copies, nacks};
use crate::device::{Broken, Packet};

const RNR: u32 = 2;

fn code(packet: &Packet) -> u32 {
    packet.word(9) >> 24
}

/// A device that takes one NACK code as another.
fn takes(from: u32, to: u32) -> Option<Broken> {
    nacks(
        move |_, packet| {
            if code(&packet) == from { packet.edit(9, |word| word & 0x00ff_ffff | to << 24) } else { packet }
        },
    )
}

/// A device that takes the RNR timeout codes of NACKs as others.
fn timeouts(change: fn(u32) -> u32) -> Option<Broken> {
    nacks(move |_, packet| {
        packet.edit(9, |word| word & !(0x1f << 16) | (change(word >> 16 & 0x1f) & 0x1f) << 16)
    })
}

/// A device that does not know NACK code 2.
fn without_rnr() -> Option<Broken> {
    loses(|_, packet| packet.kind() == NACK && code(packet) == RNR)
}

/// Forgets the packets of a type from the `number`th with the same PSN on, or only that one.
fn forgets_copies(kind: u8, number: u32, and_later: bool) -> Option<Broken> {
    let mut counts: HashMap<u32, u32> = HashMap::new();
    forgets(move |packet| {
        if packet.kind() != kind {
            return false;
        }
        let count = counts.entry(packet.word(4)).or_default();
        *count += 1;
        *count == number || and_later && *count > number
    })
}

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    match clause {
        "F-9.2.4-1" | "F-9.2.4-2" => nacks(|nic, packet| {
            let base = base(nic);
            packet.edit(2, |_| base)
        }),
        "F-9.2.4-3" => takes(1, 4),
        "F-9.2.4-5" => takes(4, 6),
        "F-9.2.4-6" => takes(6, 7),
        "F-9.2.4-7" => takes(7, 8),
        "F-9.2.4-8" => takes(8, 6),
        "F-8.4.3.5-1" => word(&[RESYNC], 5, |rsn| rsn.wrapping_add(1)),
        "F-6.6.5-2" => nacks(|_, packet| packet.edit(8, |psn| psn.wrapping_add(1))),
        "F-7.8-6" => nacks(|_, packet| packet.edit(9, |word| word & !(1 << 15))),
        "F-7.8-3" | "F-8.4.3.4-1" => nacks(|nic, packet| {
            let base = base(nic);
            packet.edit(8, |_| base)
        }),
        "F-11-7" => forgets_copies(RESYNC, 3, true),
        "D-38" => takes(5, 6),
        "F-6.4-1" => takes(RNR, 6),
        "F-6.6.3-1" => copies(&[PUSH_DATA], |packet| packet.edit(5, |rsn| rsn.wrapping_add(1))),
        "F-6.6.3-3" | "F-11-8" | "D-41" => without_rnr(),
        "F-9.2.4-4" => timeouts(|_| 0),
        // The second copy comes after two timeouts.
        "D-40" => forgets_copies(PUSH_DATA, 3, false),
        "F-7.8-9" => timeouts(|code| code + 1),
        "F-7.8-12" => timeouts(|code| code - 1),
        _ => None,
    }
}
