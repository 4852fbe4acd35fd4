//! The acknowledgement that a step processed, and whether congestion control must be told of it.
//!
//! This follows from the frame, from the windows and the timeout before the step, and from what arrived earlier. It uses
//! nothing that the connection has noted about the acknowledgement, so a note that is missing is found.

use falcon_conformance::Parts;
use transport_common::bitmap::Bitmap128;
use transport_common::ids::{Cid, Psn};
use transport_common::packet_delivery::{PACKETS, PacketFlags, TransmitWindow, Window};
use transport_common::units::{FalconTime, Ticks};
use transport_common::wire::ack::Ack;
use transport_common::wire::falcon::FalconHeader;
use transport_common::wire::nack::NackCode;

use super::{Causes, Look};

/// The BACK, EACK or NACK of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulation) struct Arrived {
    pub(in crate::simulation) cid: Cid,
    bases: [Psn; 2],
    /// What it says of the packets from the bases on.
    beyond: [Bitmap128; 2],
    pub(super) t1: FalconTime,
    /// How long its sender had the packet of T1 by then: T3 - T2.
    kept: Ticks,
    /// The packet for which the peer's ULP is not ready.
    not_ready: Option<(Window, Psn)>,
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
    fn fits(&self, windows: &[TransmitWindow; 2]) -> bool {
        let both = self.bases.iter().zip(&self.beyond).zip(windows);
        both.into_iter().all(|((base, beyond), window)| {
            let moved = base.distance_from(window.base);
            moved <= window.in_flight() && moved + beyond.top() <= window.in_flight()
        })
    }
}

impl Causes {
    /// Whether congestion control must be told of the acknowledgement of a step (F-10.6.2.1-1). `None` if nothing says so.
    ///
    /// # Panics
    /// If the acknowledgement was taken although it may not be, or the other way round.
    pub(super) fn must_be_told(&mut self, look: &Look<'_>, arrived: Option<&Arrived>) -> Option<bool> {
        let config = &look.entry.connection.endpoint;
        let accepted = arrived.filter(|arrived| arrived.cid == config.local_cid && !look.refused);
        let taken = accepted.filter(|arrived| arrived.fits(&self.transmit));
        assert_eq!(
            look.counts.acks,
            u64::from(taken.is_some()),
            "only an acknowledgement that is neither stale nor invalid counts (D-19, D-35): {arrived:?}"
        );
        let Some(taken) = taken else { return Some(false) };
        let repeats = taken.t1 == self.last_t1;
        self.last_t1 = taken.t1;
        // The times of both are of the peer's clock. One that seems to be before the other was not kept.
        let was_kept = taken.kept.0 as i32 > 0 && taken.kept > self.rto;
        let first = match taken.not_ready {
            Some(at) => self.is_first_refusal(look, at),
            None => Some(true),
        };
        // "Waiting for a receive is no congestion" in docs/decisions/protocol.md.
        if repeats || was_kept { Some(false) } else { first }
    }

    /// Notes an RNR NACK. Returns whether it is the first one for its packet, or names none that waits.
    fn is_first_refusal(&mut self, look: &Look<'_>, (window, psn): (Window, Psn)) -> Option<bool> {
        let w = window as usize;
        let (old, new) = (self.transmit[w], look.entry.connection.delivery.lanes[w].tx);
        let place = psn.distance_from(new.base);
        let was_sent = psn.distance_from(old.base) < old.in_flight();
        if !was_sent || place >= new.in_flight() || new.acknowledged.get(place) {
            return Some(true);
        }
        let index = psn.0 as usize % PACKETS;
        if look.entry.tables.delivery.packets[w][index].flags.contains(PacketFlags::RESYNC) {
            // A Resync does not wait for the ULP. Nothing says whether such a NACK counts as one for the packet that the
            // Resync stands for.
            return None;
        }
        let again = self.refused[w].get(index as u32);
        self.refused[w].set(index as u32);
        Some(!again)
    }
}
