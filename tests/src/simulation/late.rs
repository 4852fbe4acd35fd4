//! A peer that acknowledges late, which it may: a response need not acknowledge its request (D-54), and nothing says when a
//! request that arrived is acknowledged.

use std::collections::HashMap;

use fabric_model::Time;

use crate::raw_peer::packet_of;
use transport_common::wire::inner::Inner;
use transport_common::wire::psp::{NEXT_HEADER_FALCON, Psp};
use transport_common::wire::udp::Udp;

/// Offsets in every Falcon header: destination CID, base of the request window.
const CID: usize = 0;
const REQUEST_BASE: usize = 12;
/// Offset of the bitmap of the request window in an EACK, and its length.
const REQUEST_BITMAP: usize = 64;
const EACK: usize = 72;
/// Size of the request window. A base that is further away belongs to another connection with this CID.
const WINDOW: u32 = 64;

/// What a host keeps to itself.
#[derive(Debug)]
pub(super) struct LateAcknowledgements {
    /// The host.
    pub host: usize,
    /// When it tells everything again.
    pub until: Time,
    /// The base of the request window that it tells, by receiver and CID: that of its first packet.
    told: HashMap<(u8, [u8; 4]), u32>,
}

impl LateAcknowledgements {
    pub(super) fn new(host: usize, until: Time) -> Self {
        Self { host, until, told: HashMap::new() }
    }

    /// Changes a frame of the host: it acknowledges no request that it did not acknowledge before.
    pub(super) fn hold_back(&mut self, frame: &mut [u8]) {
        let Some(parts) = packet_of(frame) else { return };
        let payload = parts.payload.as_ptr().addr() - frame.as_ptr().addr();
        let falcon = payload - parts.header.header_len();
        let psp = parts.psp.header_len();
        let inner = if parts.psp.next_header == NEXT_HEADER_FALCON {
            0
        } else {
            Inner::header_len(parts.psp.next_header) as usize
        };
        debug_assert_eq!(psp, Psp::LEN);
        let udp = falcon - inner - psp - Udp::LEN;
        let word = |at: usize| <[u8; 4]>::try_from(&frame[falcon + at..][..4]).expect("4 bytes");
        let base = u32::from_be_bytes(word(REQUEST_BASE));
        let told = self.told.entry((frame[5], word(CID))).or_insert(base);
        if base.wrapping_sub(*told) > WINDOW {
            *told = base;
        }
        let told = *told;
        overwrite(frame, udp, falcon + REQUEST_BASE, &told.to_be_bytes());
        if payload - falcon == EACK {
            overwrite(frame, udp, falcon + REQUEST_BITMAP, &[0; EACK - REQUEST_BITMAP]);
        }
    }
}

/// Overwrites words of a frame, and keeps its UDP checksum right (RFC 1624).
fn overwrite(frame: &mut [u8], udp: usize, at: usize, bytes: &[u8]) {
    let word = |bytes: &[u8]| u32::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    let checksum = word(&frame[udp + 6..]);
    let mut sum = !checksum & 0xffff;
    for (old, new) in frame[at..][..bytes.len()].chunks(2).zip(bytes.chunks(2)) {
        sum += (!word(old) & 0xffff) + word(new);
    }
    frame[at..][..bytes.len()].copy_from_slice(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let new = match !sum & 0xffff {
        0 => 0xffff,
        new => new,
    };
    if checksum != 0 {
        frame[udp + 6..udp + 8].copy_from_slice(&(new as u16).to_be_bytes());
    }
}
