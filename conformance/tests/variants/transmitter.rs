//! Devices that transmit, or take acknowledgements, in a wrong way.

use host_nic::HostNic;

use super::behaviour::{RESYNC, any_spi, forgets, loses, reads, repeated};
use super::format::{BACK, EACK, NACK, PULL_DATA, word};
use crate::device::{Broken, ORDERED, Packet};

/// A device whose second and later copies are different.
fn copies(change: fn(Packet) -> Packet) -> Option<Broken> {
    let mut copy = repeated(&[PULL_DATA]);
    Some(Broken::sends(move |packet| vec![if copy(&packet) { change(packet) } else { packet }]))
}

/// A device that takes EACKs as if they were others.
fn eacks(change: fn(Packet) -> Packet) -> Option<Broken> {
    reads(move |_, packet| if packet.kind() == EACK { change(packet) } else { packet })
}

/// A device that takes NACKs as if they were others.
fn nacks(change: fn(&HostNic, Packet) -> Packet) -> Option<Broken> {
    reads(move |nic, packet| if packet.kind() == NACK { change(nic, packet) } else { packet })
}

/// The base of the device's transmit window for data.
fn base(nic: &HostNic) -> u32 {
    nic.entry(ORDERED as usize).connection.flow.delivery.data().tx.base.0
}

/// Sets four words to 0.
fn cleared(packet: Packet, first: usize) -> Packet {
    (first..first + 4).fold(packet, |packet, word| packet.edit(word, |_| 0))
}

/// Returns whether the device has a data packet with this PSN in flight.
fn may_be_acknowledged(nic: &HostNic, psn: u32) -> bool {
    let tx = &nic.entry(ORDERED as usize).connection.flow.delivery.data().tx;
    psn.wrapping_sub(tx.base.0) <= tx.in_flight()
}

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    acknowledgements(clause).or_else(|| packets(clause))
}

fn packets(clause: &str) -> Option<Broken> {
    match clause {
        "F-9-7" => {
            let mut copy = repeated(&[PULL_DATA]);
            forgets(move |packet| copy(packet))
        }
        "F-9-6" => copies(|packet| packet.edit(10, |word| !word)),
        "F-11-4" => copies(|packet| packet.edit(5, |rsn| rsn.wrapping_add(1))),
        "F-11-5" => forgets(|packet| packet.kind() == RESYNC),
        "F-7.6-1" => word(&[RESYNC], 6, |word| word | 1),
        "F-7.6-2" => word(&[RESYNC], 6, |word| word & 0x00ff_ffff | 4 << 24),
        "F-7.6-4" => word(&[RESYNC], 6, |word| word & !(0xf << 20) | 5 << 20),
        "F-7.6-5" => word(&[RESYNC], 7, |_| 1),
        "F-9.1.8-2" => word(&[RESYNC], 5, |rsn| rsn.wrapping_add(1)),
        "F-9.1.8-1" => {
            let mut copy = repeated(&[RESYNC]);
            forgets(move |packet| copy(packet))
        }
        "F-9.1.4-1" => Some(Broken::opened(|parameters| parameters.config.ooo_threshold = 0)),
        "F-9.1.4-2" => {
            let mut copy = repeated(&[PULL_DATA]);
            Some(Broken::sends(
                move |packet| {
                    if copy(&packet) { vec![packet.clone(), packet] } else { vec![packet] }
                },
            ))
        }
        _ => None,
    }
}

fn acknowledgements(clause: &str) -> Option<Broken> {
    match clause {
        "F-9.2.3-2" => loses(|_, packet| packet.kind() == BACK),
        "F-9.2.3-6" | "F-9.1.1-1" => eacks(|packet| cleared(packet, 8)),
        "D-19" => reads(|nic, packet| {
            let fits = may_be_acknowledged(nic, packet.word(2));
            if packet.kind() != BACK || fits {
                return packet;
            }
            // It takes everything as acknowledged.
            let tx = &nic.entry(ORDERED as usize).connection.flow.delivery.data().tx;
            let end = tx.base.0.wrapping_add(tx.in_flight());
            packet.edit(2, |_| end)
        }),
        "F-9.2.2.3-1" | "F-11-12" => any_spi(),
        "F-7.7.2-6" => loses(|_, packet| packet.kind() == BACK && packet.word(1) >> 8 != 0),
        "F-9.2.4-1" | "F-9.2.4-2" => nacks(|nic, packet| {
            let base = base(nic);
            packet.edit(2, |_| base)
        }),
        "F-9.2.4-3" => nacks(|_, packet| packet.edit(9, |word| word & 0x00ff_ffff | 4 << 24)),
        "F-11-8" | "F-9.2.4-5" => loses(|_, packet| packet.kind() == NACK),
        "F-6.6.6-2" => eacks(|packet| cleared(packet, 12)),
        // It looks at the acknowledged packets instead of the received ones.
        "F-9.1.4-3" => eacks(|packet| {
            let words = [8, 9, 10, 11].map(|word| packet.word(word));
            (0..4).fold(packet, |packet, n| packet.edit(12 + n, |_| words[n]))
        }),
        "F-9.1.4-4" => eacks(|packet| packet.edit(7, |word| word & !3)),
        "F-9.2.3-1" => reads(|nic, packet| {
            if packet.kind() != EACK || may_be_acknowledged(nic, packet.word(2)) {
                return packet;
            }
            let base = base(nic);
            packet.edit(2, |_| base)
        }),
        _ => None,
    }
}
