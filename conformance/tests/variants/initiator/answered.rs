//! Devices that take the answers to their pulls in a wrong way.

use super::super::behaviour::{self, RESYNC, any_iv, any_spi, forgets, loses, reads};
use super::super::fields;
use super::super::format::{BACK, EACK, PULL_DATA, word};
use super::{cleared, repeated};
use crate::device::Broken;

/// Bytes of an answer to a READ as the tester asks for it: the Falcon header, the RDMA headers and the data.
const ANSWER: usize = 24 + 16 + 64;

pub(super) fn breaking(clause: &str) -> Option<Broken> {
    match clause {
        // It takes only the answer that its application needs next.
        "F-9-2" => {
            let mut waiting = true;
            loses(move |_, packet| packet.kind() == PULL_DATA && std::mem::take(&mut waiting))
        }
        "F-6.6.1-3" => word(&[BACK, EACK], 2, |base| base.wrapping_add(1)),
        "F-9-3" | "F-9.2.2.4-2" => fields::breaking(clause),
        "F-6.1.2-5" => forgets(|packet| packet.kind() == EACK),
        "F-9.2.2.4-6" => Some(Broken::sends(|packet| {
            vec![if packet.kind() == EACK { cleared(packet, 8..12) } else { packet }]
        })),
        "F-9.2.2.4-7" => word(&[BACK, EACK], 2, |base| base.wrapping_sub(1)),
        "F-11-13" => {
            let mut copy = repeated(&[PULL_DATA]);
            loses(move |_, packet| copy(packet))
        }
        "F-8.4.3.2-1" => {
            let mut first = true;
            loses(move |_, packet| packet.kind() == PULL_DATA && std::mem::take(&mut first))
        }
        "F-8.4.3.2-2" => loses(|_, packet| packet.kind() == PULL_DATA && packet.falcon.len() > ANSWER),
        "F-11-22" => loses(|_, packet| packet.kind() == PULL_DATA && packet.falcon.len() < ANSWER),
        "F-7.4-2" => {
            reads(
                |_, packet| {
                    if packet.kind() == PULL_DATA {
                        packet.edit(5, |rsn| rsn.wrapping_add(1))
                    } else {
                        packet
                    }
                },
            )
        }
        "F-9.2.5-1" | "F-9.2.5-2" | "D-25" => loses(|_, packet| packet.kind() == RESYNC),
        "F-6.5-4" => any_spi(),
        "F-6.5-5" => any_iv(),
        "F-9.2.2-1" => behaviour::breaking(clause),
        _ => None,
    }
}
