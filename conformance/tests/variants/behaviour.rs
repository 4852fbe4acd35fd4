//! Devices that take packets that they should not take, or do something wrong with them.

use std::collections::HashSet;
use std::net::IpAddr;

use host_nic::HostNic;
use transport_common::ids::Spi;
use transport_common::ulp::rdma::{Bth, Reth};
use transport_common::units::{Picoseconds, Ticks};

use super::format::{BACK, EACK, NACK, PULL_DATA};
use crate::device::{Broken, MEMORY, ORDERED, Packet, subjects, tester};

const PULL_REQUEST: u8 = 0;
const PUSH_DATA: u8 = 5;
pub(super) const RESYNC: u8 = 6;

/// A device that loses the received packets for which `lost` returns true.
pub(super) fn loses(mut lost: impl FnMut(&mut HostNic, &Packet) -> bool + 'static) -> Option<Broken> {
    Some(Broken::takes(move |nic, packet| if lost(nic, &packet) { vec![] } else { vec![packet] }))
}

/// A device that takes a received packet as if it were another.
pub(super) fn reads(mut change: impl FnMut(&mut HostNic, Packet) -> Packet + 'static) -> Option<Broken> {
    Some(Broken::takes(move |nic, packet| vec![change(nic, packet)]))
}

/// A device that loses the packets that it sends and for which `lost` returns true.
pub(super) fn forgets(mut lost: impl FnMut(&Packet) -> bool + 'static) -> Option<Broken> {
    Some(Broken::sends(move |packet| if lost(&packet) { vec![] } else { vec![packet] }))
}

/// Returns true for the second and every later packet with the same PSN, of the types in `kinds`.
pub(super) fn repeated(kinds: &'static [u8]) -> impl FnMut(&Packet) -> bool {
    let mut seen = HashSet::new();
    move |packet| kinds.contains(&packet.kind()) && !seen.insert((packet.kind(), packet.word(4)))
}

/// Places the data of a received WRITE, whatever its PSN is.
fn place(nic: &mut HostNic, packet: &Packet) {
    const RETH: usize = 28 + Bth::LEN;
    let data = &packet.falcon[RETH + Reth::LEN..];
    let low = u32::from_be_bytes([4, 5, 6, 7].map(|n| packet.falcon[RETH + n])) as usize;
    nic.memory_mut()[MEMORY + low..MEMORY + low + data.len()].copy_from_slice(data);
}

/// A device that takes any SPI.
pub(super) fn any_spi() -> Option<Broken> {
    reads(|_, mut packet| {
        packet.psp.spi = subjects()[0].tx_spi;
        packet
    })
}

/// A device that does not compare the IV.
pub(super) fn any_iv() -> Option<Broken> {
    let mut newest = 0;
    reads(move |_, mut packet| {
        newest = newest.max(packet.psp.iv.0) + 1;
        packet.psp.iv = Picoseconds(newest);
        packet
    })
}

/// Replaces the UDP length by the number of bytes that are there.
fn real_udp_length(frame: &mut [u8]) {
    let udp = tester().udp_offset();
    let length = (frame.len() - udp) as u16;
    frame[udp + 4..udp + 6].copy_from_slice(&length.to_be_bytes());
}

fn unordered() -> Option<Broken> {
    Some(Broken::opened(|parameters| parameters.config.ordered = 0))
}

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    acceptance(clause).or_else(|| delivery(clause)).or_else(|| acknowledgement(clause))
}

fn acceptance(clause: &str) -> Option<Broken> {
    match clause {
        // It computes the checksum again, so that it always fits.
        "F-9.2.2.1-1" => reads(|_, packet| packet),
        "F-9.2.2.1-2" => Some(Broken::takes_frames(|_, mut frame| {
            assert!(matches!(tester().source, IpAddr::V4(_)));
            real_udp_length(&mut frame);
            vec![frame]
        })),
        "F-9.2.2-1" => reads(|_, packet| {
            let function = subjects()[0].peer_function;
            if [BACK, EACK, NACK].contains(&packet.kind()) {
                return packet;
            }
            packet.edit(1, |word| word & 0xff | function << 8)
        }),
        "F-6.5-4" | "F-9.2.2.3-2" => any_spi(),
        "F-9.2.2.3-8" => reads(|_, mut packet| {
            if packet.psp.spi == Spi(0) {
                packet.psp.spi = subjects()[0].tx_spi;
            }
            packet
        }),
        "F-9.2.2.2-1" | "F-9.2.2.2-2" => any_iv(),
        "F-6.5-6" => {
            let mut newest = 0;
            loses(move |_, packet| {
                let old = packet.psp.iv.0 < newest;
                newest = newest.max(packet.psp.iv.0);
                old
            })
        }
        "F-11-18" => reads(|_, packet| packet.edit(0, |word| word & 0xff00_0000 | ORDERED)),
        "F-9-1" => loses(|nic, packet| {
            let base = nic.entry(ORDERED as usize).connection.flow.delivery.data().rx.base;
            packet.kind() == PUSH_DATA && packet.word(4).wrapping_sub(base.0) >= 64
        }),
        _ => None,
    }
}

fn delivery(clause: &str) -> Option<Broken> {
    match clause {
        "F-9.2.2.4-1" => {
            let mut copy = repeated(&[PUSH_DATA]);
            reads(move |nic, packet| {
                if copy(&packet) {
                    place(nic, &packet);
                }
                packet
            })
        }
        "F-9.2.2.4-3" => {
            let mut copy = repeated(&[PULL_REQUEST]);
            reads(move |nic, packet| {
                if copy(&packet) {
                    nic.memory_mut()[MEMORY + 1] += 1;
                }
                packet
            })
        }
        "F-6.1-2" => Some(Broken::sends(|packet| {
            let again =
                (packet.kind() == PULL_DATA).then(|| packet.clone().edit(4, |psn| psn.wrapping_add(1)));
            [packet].into_iter().chain(again).collect()
        })),
        "F-6.6.1-1" | "F-6.6.2-1" | "F-7.2-13" | "F-6.6.6-3" => unordered(),
        "F-6.1.2-1" => Some(Broken::opened(|parameters| parameters.config.ordered = 1)),
        "F-6.6.5-2" | "F-9.2.5-1" | "F-9.2.5-2" | "F-11-3" => loses(|_, packet| packet.kind() == RESYNC),
        "F-6.4-3" => forgets(|packet| packet.kind() == NACK),
        "F-6.4-5" | "F-6.6.3-2" => {
            let mut sent = false;
            forgets(move |packet| packet.kind() == NACK && std::mem::replace(&mut sent, true))
        }
        "F-6.4-4" => forgets(|packet| packet.kind() == PULL_DATA && packet.falcon.len() <= 40),
        _ => None,
    }
}

fn acknowledgement(clause: &str) -> Option<Broken> {
    match clause {
        "F-9.1.6-1" => Some(Broken::opened(|parameters| {
            parameters.config.ack_coalescing = Ticks::from_nanos(10_000_000_000);
        })),
        "F-9.1.6-2" => reads(|_, packet| match packet.kind() {
            PULL_REQUEST => packet.edit(1, |word| word & !1),
            _ => packet,
        }),
        "F-11-13" | "F-11-14" => {
            let mut copy = repeated(&[PUSH_DATA]);
            loses(move |_, packet| copy(packet))
        }
        "F-9.1.6-4" => {
            let mut piggybacked = false;
            forgets(move |packet| {
                let eack = packet.kind() == EACK;
                let lost = eack && piggybacked;
                piggybacked |= packet.kind() == PULL_DATA;
                lost
            })
        }
        _ => None,
    }
}
