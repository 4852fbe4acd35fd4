//! Devices that take acknowledgements, or their windows, in a wrong way, or tell their application a wrong end.

use std::cell::Cell;
use std::rc::Rc;

use transport_common::packet_delivery::Window;
use transport_common::units::Fcwnd;

use super::super::behaviour::{any_spi, forgets, loses, reads};
use super::super::format::{BACK, EACK, PULL_DATA};
use super::super::transmitter;
use super::{PULL_REQUEST, PUSH_DATA, REQUESTS, base, cleared, eacks, repeated};
use crate::device::{Broken, ORDERED, Reports};

fn unordered() -> Option<Broken> {
    Some(Broken::opened(|parameters| parameters.config.ordered = 0))
}

fn ordered() -> Option<Broken> {
    Some(Broken::opened(|parameters| parameters.config.ordered = 1))
}

/// A device that takes packets of a type with an old base of the data window as if the base were new.
fn refreshes(kind: u8) -> Option<Broken> {
    reads(move |nic, packet| {
        let base = base(nic);
        let is_old = (packet.word(2).wrapping_sub(base) as i32) < 0;
        if packet.kind() == kind && is_old { packet.edit(2, |_| base) } else { packet }
    })
}

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    ends(clause).or_else(|| windows(clause)).or_else(|| acknowledgements(clause))
}

fn ends(clause: &str) -> Option<Broken> {
    match clause {
        "F-6.1-1" => Some(Broken::sends(|packet| {
            let other = packet.clone().edit(1, |word| word & !0x1e | 7 << 1);
            let is_push = packet.kind() == PUSH_DATA;
            [packet].into_iter().chain(is_push.then_some(other)).collect()
        })),
        "F-6.1.1.1-1" | "F-6.1.1.2-2" | "F-6.6.5-3" => Some(Broken::reports(Reports::SuccessAtOnce)),
        "F-6.1.1.1-3" => reads(|nic, packet| {
            let base = base(nic);
            if packet.kind() == PUSH_DATA { packet.edit(2, |_| base) } else { packet }
        }),
        "F-6.1.1.2-1" => Some(Broken::sends(|packet| {
            let again = (packet.kind() == PULL_REQUEST).then(|| packet.clone());
            [packet].into_iter().chain(again).collect()
        })),
        "F-8.4.3.3-2" => Some(Broken::reports(Reports::Error)),
        "F-6.1-2" => Some(Broken::reports(Reports::Nothing)),
        "F-6.6.2-2" => reads(|nic, packet| {
            let next = base(nic).wrapping_add(1);
            let is_far = (next.wrapping_sub(packet.word(2)) as i32) < 0;
            if packet.kind() == BACK && is_far { packet.edit(2, |_| next) } else { packet }
        }),
        "F-8.4.2-1" | "F-8.4.3.5-2" => unordered(),
        "F-8.4.1-1" => ordered(),
        "F-6.4-3" | "F-11-24" | "F-11-23" | "D-47" | "F-11-21" | "F-6.4-4" => {
            Some(Broken::reports(Reports::Success))
        }
        _ => None,
    }
}

fn windows(clause: &str) -> Option<Broken> {
    match clause {
        "F-9.1.2-3" | "F-9.1.2-1" => Some(Broken::opened(|parameters| {
            parameters.fcwnd = Fcwnd::from_packets(128);
            parameters.ncwnd = 128;
        })),
        "F-6.1.2-6" | "F-9.1.2-2" => {
            Some(Broken::opened(|parameters| parameters.fcwnd = Fcwnd::from_packets(128)))
        }
        "F-9.2.3-3" => loses(|_, packet| packet.kind() == BACK),
        "F-9.1.1-6" => eacks(|packet| cleared(packet, 16..18)),
        // A base that passes packets which an EACK acknowledged counts them again.
        "D-30" => {
            let early = Cell::new(0);
            reads(move |nic, packet| {
                let acknowledged =
                    if packet.kind() == EACK { packet.word(17).count_ones() as u16 } else { 0 };
                if packet.kind() == BACK {
                    let window = &mut nic.entry_mut(ORDERED as usize).connection.flow.delivery.lanes;
                    window[Window::Request as usize].tx.outstanding_requests -= early.take();
                }
                early.set(early.get() + acknowledged);
                packet
            })
        }
        "F-9.1.1-7" | "F-8.3-4" => forgets(|packet| packet.kind() == PULL_DATA),
        "F-8.2.1.2-2" => {
            // Its own requests keep it from acknowledging.
            let busy = Rc::new(Cell::new(false));
            forgets(move |packet| {
                busy.set(busy.get() || packet.kind() == PUSH_DATA);
                busy.get() && [BACK, EACK].contains(&packet.kind())
            })
        }
        "F-6.1.2-1" => ordered(),
        _ => None,
    }
}

fn acknowledgements(clause: &str) -> Option<Broken> {
    match clause {
        // Of two acknowledged packets it forgets the second.
        "F-9.2.3-2" => reads(|nic, packet| {
            let is_far = packet.word(2).wrapping_sub(base(nic)) >= 2;
            if packet.kind() == BACK && is_far { packet.edit(2, |base| base.wrapping_sub(1)) } else { packet }
        }),
        "F-9.2.3-6" | "F-9.1.1-1" | "F-9.2.3-7" => eacks(|packet| cleared(packet, 8..12)),
        "F-9.2.3-5" => eacks(|packet| cleared(packet, 16..18)),
        "D-34" => eacks(|packet| {
            let words = [12, 13, 14, 15].map(|word| packet.word(word));
            (0..4).fold(packet, |packet, n| packet.edit(8 + n, |_| words[n]))
        }),
        "F-9.2.3-1" => refreshes(BACK),
        "D-35" => refreshes(PUSH_DATA),
        "F-9.2.2.3-1" | "F-11-12" => any_spi(),
        "D-19" | "F-7.7.2-6" => transmitter::breaking(clause),
        // It takes the answer as an acknowledgement of the request.
        "D-54" => {
            let mut copy = repeated(REQUESTS);
            forgets(move |packet| copy(packet))
        }
        _ => None,
    }
}
