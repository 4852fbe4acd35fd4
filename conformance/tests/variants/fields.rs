//! Devices whose acknowledgements say something wrong.

use super::format::{BACK, EACK, NACK, word};
use crate::device::{Broken, Packet};

const ACKS: &[u8] = &[BACK, EACK];

/// A device that changes its EACKs.
fn eacks(change: fn(Packet) -> Packet) -> Option<Broken> {
    Some(Broken::sends(move |packet| vec![if packet.kind() == EACK { change(packet) } else { packet }]))
}

/// Exchanges two words.
fn swapped(packet: Packet, [one, other]: [usize; 2]) -> Packet {
    let words = [packet.word(one), packet.word(other)];
    packet.edit(one, |_| words[1]).edit(other, |_| words[0])
}

/// Copies four words.
fn copied(packet: Packet, from: usize, to: usize) -> Packet {
    (0..4).fold(packet, |packet, n| {
        let word = packet.word(from + n);
        packet.edit(to + n, |_| word)
    })
}

/// A device that says in a word of its packets of a type what the packet before said.
fn late(kinds: &'static [u8], number: usize) -> Option<Broken> {
    let mut before = 0;
    Some(Broken::sends(move |packet| {
        if !kinds.contains(&packet.kind()) {
            return vec![packet];
        }
        vec![packet.edit(number, |word| std::mem::replace(&mut before, word))]
    }))
}

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    match clause {
        "F-7.7.1-3" => word(ACKS, 4, |word| word.wrapping_add(1)),
        "F-7.7.1-4" => word(ACKS, 5, |word| word.wrapping_mul(2)),
        "F-9.1.6-6" => late(ACKS, 4),
        "F-9.1.6-5" => word(ACKS, 2, |word| word.wrapping_sub(1)),
        "F-9-2" | "F-6.6.1-2" => word(ACKS, 3, |word| word.wrapping_sub(1)),
        "F-9-3" => Some(Broken::sends(|mut packet| {
            if packet.kind() == BACK {
                packet.falcon.extend([0; 40]);
                packet = packet.edit(1, |word| word & !0x1e | u32::from(EACK) << 1);
            }
            vec![packet]
        })),
        "F-6.1.2-3" => eacks(|packet| copied(packet, 12, 8)),
        "F-6.1.1.1-2" => eacks(|packet| packet.edit(11, |word| word | 2)),
        "F-6.1.2-5" => eacks(|packet| packet.edit(17, |_| 0)),
        // D-08: the bitmap as the specification prints it.
        "F-6.6.6-1" => eacks(|packet| packet.edit(15, |word| word >> 1)),
        "F-7.7.2-1" => eacks(|mut packet| {
            packet.falcon.extend([0; 4]);
            packet
        }),
        "F-7.7.2-2" => eacks(|packet| swapped(packet, [10, 9])),
        "F-7.7.2-3" => eacks(|packet| swapped(packet, [14, 13])),
        "F-7.7.2-4" => eacks(|packet| swapped(packet, [16, 17])),
        "F-7.7.2-5" => late(&[EACK], 15),
        "F-9.1.6-7" => eacks(|mut packet| {
            packet.falcon.truncate(32);
            packet.edit(1, |word| word & !0x1e | u32::from(BACK) << 1)
        }),
        "F-7.7.1-6" => eacks(|packet| packet.edit(7, |word| word & !3 | word >> 1 & 1 | (word & 1) << 1)),
        "F-9.2.2.4-2" => eacks(|packet| packet.edit(7, |word| word & !3)),
        "F-9.2.2.4-7" => eacks(|packet| packet.edit(15, |word| word << 2)),
        "F-11-15" | "F-9.2.2.4-5" => eacks(|packet| packet.edit(11, |_| 0)),
        "F-9.2.2.4-6" => eacks(|packet| packet.edit(17, |_| 0)),
        "F-9.1.7-1" => word(&[NACK], 4, |word| word.wrapping_sub(1)),
        "F-6.6.5-1" => {
            let mut sent = 0;
            Some(Broken::sends(move |packet| {
                sent += u32::from(packet.kind() == NACK);
                vec![if packet.kind() == NACK { packet.edit(9, |word| word ^ sent) } else { packet }]
            }))
        }
        "F-9.1.7-2" => word(&[NACK], 9, |word| word & 0x00ff_ffff | 1 << 24),
        _ => None,
    }
}
