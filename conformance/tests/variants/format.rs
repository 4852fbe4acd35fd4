//! Devices whose packets have wrong fields.

use crate::device::{Broken, Packet};

pub(super) const PULL_DATA: u8 = 3;
pub(super) const NACK: u8 = 8;
pub(super) const BACK: u8 = 9;
pub(super) const EACK: u8 = 10;

/// A device that changes a word of the packets of these types.
pub(super) fn word(kinds: &'static [u8], number: usize, change: fn(u32) -> u32) -> Option<Broken> {
    Some(Broken::sends(move |packet| {
        vec![if kinds.contains(&packet.kind()) { packet.edit(number, change) } else { packet }]
    }))
}

pub(super) fn psp(change: fn(&mut Packet)) -> Option<Broken> {
    Some(Broken::sends(move |mut packet| {
        change(&mut packet);
        vec![packet]
    }))
}

/// A device that changes the length of the packets of a type.
pub(super) fn length(kind: u8, change: fn(&mut Vec<u8>)) -> Option<Broken> {
    Some(Broken::sends(move |mut packet| {
        if packet.kind() == kind {
            change(&mut packet.falcon);
        }
        vec![packet]
    }))
}

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    const ACKS: &[u8] = &[BACK, EACK];
    const ALL: &[u8] = &[PULL_DATA, NACK, BACK, EACK];
    match clause {
        "F-9.1.1-2" | "F-7.2-12" => word(&[PULL_DATA], 4, |word| word.wrapping_add(1)),
        "F-7.1-1" => psp(|packet| packet.psp.next_header = 4),
        "F-7.1-3" => psp(|packet| packet.psp.crypt_offset = 0),
        "F-6.5-2" => psp(|packet| packet.psp.spi.0 += 1),
        "F-7.2-2" => word(ALL, 0, |word| word & 0x0fff_ffff | 2 << 28),
        "F-7.2-3" => word(ALL, 0, |word| word | 1 << 26),
        "F-7.2-4" => word(&[PULL_DATA], 0, |word| word + 1),
        "F-7.2-5" => word(&[PULL_DATA], 1, |word| word ^ 1 << 8),
        "F-7.2-6" => word(&[PULL_DATA], 1, |word| word & !0xe0 | 3 << 5),
        "F-7.2-7" => word(&[PULL_DATA], 1, |word| word & !0x1e | 5 << 1),
        "F-7.2-8" => word(ACKS, 1, |word| word & !0x1e | 11 << 1),
        "F-7.2-10" => word(&[PULL_DATA], 2, |word| word.wrapping_sub(1)),
        "F-7.2-11" => word(&[PULL_DATA], 3, |word| word.wrapping_sub(1)),
        "F-6.1.2-2" => word(&[PULL_DATA], 4, |word| word.wrapping_mul(2)),
        "F-7.4-1" => length(PULL_DATA, |falcon| {
            falcon.splice(24..24, [0; 4]);
        }),
        "F-7.4-2" => word(&[PULL_DATA], 5, |word| word.wrapping_add(1)),
        "F-7.3-3" => length(PULL_DATA, |falcon| falcon.push(0)),
        "F-7.7.1-1" => word(ACKS, 6, |word| word | 1),
        "F-7.7.1-2" => word(ACKS, 3, |word| word.wrapping_sub(1)),
        "F-7.7.1-8" => word(ACKS, 0, |word| word + 1),
        "F-7.8-1" => length(NACK, |falcon| falcon.truncate(36)),
        "F-7.8-3" => word(&[NACK], 8, |word| word.wrapping_add(1)),
        "F-7.8-4" => word(&[NACK], 9, |word| word | 1 << 8),
        "F-7.8-5" => word(&[NACK], 9, |word| word & 0x00ff_ffff | 7 << 24),
        "F-7.8-6" => word(&[NACK], 9, |word| word | 1 << 15),
        "F-9.1.3.1-3" => word(&[NACK, BACK, EACK], 1, |word| word | 1),
        _ => None,
    }
}
