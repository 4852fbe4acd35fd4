//! Devices whose requests have wrong fields or a wrong order.

use std::collections::HashMap;

use super::super::format::{PULL_DATA, length, psp, word};
use super::{PULL_REQUEST, PUSH_DATA, REQUESTS, swaps};
use crate::device::{Broken, Packet};

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    numbers(clause).or_else(|| format(clause))
}

/// A device whose packets of type `kind` have PSNs that packets of type `others` count as well.
fn counts(others: u8, kind: u8) -> Option<Broken> {
    let mut count = 0;
    Some(Broken::sends(move |packet| {
        let before = count;
        count += u32::from(packet.kind() == others);
        vec![if packet.kind() == kind { packet.edit(4, |psn| psn.wrapping_add(before)) } else { packet }]
    }))
}

fn numbers(clause: &str) -> Option<Broken> {
    match clause {
        "F-9.1.1-2" => word(&[PUSH_DATA], 4, |psn| psn.wrapping_add(1)),
        "F-8.4.1-2" => word(REQUESTS, 5, |rsn| rsn.wrapping_add(1)),
        "F-6.1.1-1" => word(REQUESTS, 5, |rsn| rsn.wrapping_mul(2)),
        // It leaves out every second PSN.
        "F-6.1.2-2" => counts(PUSH_DATA, PUSH_DATA),
        "F-7.2-12" => counts(PUSH_DATA, PULL_REQUEST),
        "F-8.2.1.2-3" => counts(PULL_DATA, PULL_REQUEST),
        "F-9.1.3-1" => swaps(&[PUSH_DATA], |_| true),
        "F-9.1.3-2" => swaps(REQUESTS, |packet| packet.kind() == PULL_REQUEST),
        // A copy has the bases of the original.
        "F-9.1.6-3" => {
            let mut originals = HashMap::new();
            Some(Broken::sends(move |packet| {
                if packet.kind() != PUSH_DATA {
                    return vec![packet];
                }
                let bases = [packet.word(2), packet.word(3)];
                let [data, request] = *originals.entry(packet.word(4)).or_insert(bases);
                vec![packet.edit(2, |_| data).edit(3, |_| request)]
            }))
        }
        "F-9.1.3.1-2" => word(REQUESTS, 1, |word| word & !1),
        _ => None,
    }
}

fn format(clause: &str) -> Option<Broken> {
    match clause {
        "F-7.1-1" => psp(|packet| packet.psp.next_header = 4),
        "F-7.1-3" => psp(|packet| packet.psp.crypt_offset = 0),
        "F-6.5-2" => psp(|packet| packet.psp.spi.0 += 1),
        // A copy has the IV of the original.
        "D-12" => {
            let mut originals = HashMap::new();
            Some(Broken::sends(move |mut packet: Packet| {
                if packet.kind() == PUSH_DATA {
                    packet.psp.iv = *originals.entry(packet.word(4)).or_insert(packet.psp.iv);
                }
                vec![packet]
            }))
        }
        "F-7.2-2" => word(REQUESTS, 0, |word| word & 0x0fff_ffff | 2 << 28),
        "F-7.2-3" => word(REQUESTS, 0, |word| word | 1 << 26),
        "F-7.2-4" => word(REQUESTS, 0, |word| word + 1),
        "F-7.2-5" => word(REQUESTS, 1, |word| word ^ 1 << 8),
        "F-7.2-6" => word(REQUESTS, 1, |word| word & !0xe0 | 3 << 5),
        "F-7.2-7" => word(&[PUSH_DATA], 1, |word| word & !0x1e | 3 << 1),
        "F-7.2-10" => word(REQUESTS, 2, |word| word.wrapping_sub(1)),
        "F-7.2-11" => word(REQUESTS, 3, |word| word.wrapping_sub(1)),
        "F-7.3-2" => word(&[PULL_REQUEST], 7, |word| word | 1),
        "F-7.3-3" => word(&[PULL_REQUEST], 6, |word| word + 1),
        "F-7.3-4" => word(&[PULL_REQUEST], 6, |word| word | 1 << 20),
        "F-7.5-1" => length(PUSH_DATA, |falcon| {
            falcon.splice(28..28, [0; 4]);
        }),
        "F-7.5-2" => word(&[PUSH_DATA], 6, |word| word + 1),
        "F-7.1-2" => length(PULL_REQUEST, |falcon| {
            falcon.splice(32..32, [0; 4]);
        }),
        "D-84" => word(&[PUSH_DATA], 7, |word| word & 0x00ff_ffff | 0x06 << 24),
        _ => None,
    }
}
