//! Upper layer protocols: what a request means. A ULP parses its headers, admits a request (a verdict and a place), and
//! answers; it touches no window, no PSN and no packet.

use crate::wire::base::FirstWords;
use crate::wire::{PacketType, ProtocolType};

pub mod rdma;

/// Whether the ULP that a packet's first words name is here; a packet that carries none needs none. This is the one place
/// that tells upper layer protocols apart (F-7.1-2, F-7.2-6). Reserved protocol types are for the decoder to refuse, and
/// in a Resync the protocol type means nothing (D-09).
#[inline(always)]
pub const fn is_here(first: &FirstWords) -> bool {
    let carries =
        matches!(first.packet_type, PacketType::PullRequest | PacketType::PullData | PacketType::PushData);
    match ProtocolType::from_wire(first.protocol) {
        Some(ProtocolType::Nvme) => !carries,
        Some(ProtocolType::Rdma) | None => true,
    }
}
