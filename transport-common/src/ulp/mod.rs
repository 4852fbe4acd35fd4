//! Upper layer protocols: the operation headers carried in Falcon payloads, and the RDMA ULP served in the
//! datapath.

use crate::wire::base::FirstWords;
use crate::wire::{PacketType, ProtocolType};

pub mod rdma;
mod requester;
mod responder;

pub(crate) use requester::{Answer, is_valid, request_payload, response_payload};

/// Whether the ULP that a packet's first words name is here; a packet that carries none needs none. This is the one place
/// that tells upper layer protocols apart (F-7.1-2, F-7.2-6). Reserved protocol types are for the decoder to refuse, and
/// in a Resync the protocol type means nothing (D-09).
#[inline(always)]
pub(crate) const fn is_here(first: &FirstWords) -> bool {
    let carries =
        matches!(first.packet_type, PacketType::PullRequest | PacketType::PullData | PacketType::PushData);
    match ProtocolType::from_wire(first.protocol) {
        Some(ProtocolType::Nvme) => !carries,
        Some(ProtocolType::Rdma) | None => true,
    }
}
