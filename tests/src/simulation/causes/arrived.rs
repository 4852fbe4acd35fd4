//! The acknowledgement that a step processed.

use falcon_conformance::Parts;
use transport_common::bitmap::Bitmap128;
use transport_common::ids::{Cid, Psn};
use transport_common::packet_delivery::{TransmitWindow, Window};
use transport_common::units::{FalconTime, Ticks};
use transport_common::wire::ack::Ack;
use transport_common::wire::falcon::FalconHeader;
use transport_common::wire::nack::NackCode;

/// The BACK, EACK or NACK of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) struct Arrived {
    pub(in crate::simulation) cid: Cid,
    bases: [Psn; 2],
    /// What it says of the packets from the bases on.
    beyond: [Bitmap128; 2],
    pub(super) t1: FalconTime,
    /// How long its sender had the packet of T1 by then: T3 - T2.
    pub(super) kept: Ticks,
    /// The packet for which the peer's ULP is not ready.
    pub(super) not_ready: Option<(Window, Psn)>,
}

impl Arrived {
    /// Reads a frame. Returns `None` if it is no acknowledgement.
    pub(in crate::simulation) fn of(frame: &[u8]) -> Option<Self> {
        let parts = Parts::of(frame)?;
        let t3 = parts.psp.iv.ticks();
        match parts.header? {
            FalconHeader::Ack(ack) => {
                let beyond = match &ack {
                    Ack::Back(_) => [Bitmap128::ZERO; 2],
                    Ack::Eack(eack) => {
                        let [acknowledged, received] =
                            [eack.data_ack, eack.data_received].map(Bitmap128::from_words);
                        [acknowledged.or(received), Bitmap128::from_words([eack.request, 0])]
                    }
                };
                let header = ack.header();
                Some(Self {
                    cid: header.dest_cid,
                    bases: [header.data_base_psn, header.request_base_psn],
                    beyond,
                    t1: header.t1,
                    kept: t3.since(header.t2),
                    not_ready: None,
                })
            }
            FalconHeader::Nack(nack) => {
                let window = if nack.request_window { Window::Request } else { Window::Data };
                Some(Self {
                    cid: nack.dest_cid,
                    bases: [nack.data_base_psn, nack.request_base_psn],
                    beyond: [Bitmap128::ZERO; 2],
                    t1: nack.t1,
                    kept: t3.since(nack.t2),
                    not_ready: (nack.code == NackCode::RNR).then_some((window, nack.psn)),
                })
            }
            _ => None,
        }
    }

    /// Whether it speaks only of packets that were sent, and of none before the bases that are known (D-19, D-35).
    pub(super) fn fits(&self, windows: &[TransmitWindow; 2]) -> bool {
        let both = self.bases.iter().zip(&self.beyond).zip(windows);
        both.into_iter().all(|((base, beyond), window)| {
            let moved = base.distance_from(window.base);
            moved <= window.in_flight() && moved + beyond.top() <= window.in_flight()
        })
    }
}
