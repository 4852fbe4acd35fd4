//! Upper layer protocols: what a request means. A ULP parses its headers, admits a request (with a verdict and a
//! place for the data) and answers it. It has no access to windows, PSNs or packets.

use crate::wire::base::FirstWords;
use crate::wire::{PacketType, ProtocolType};

pub mod rdma;

/// Returns whether this build has the ULP that a packet's first words name. A packet that carries no ULP needs
/// none. This is the only place that distinguishes upper layer protocols (F-7.1-2, F-7.2-6). The decoder refuses
/// reserved protocol types. In a Resync the protocol type has no meaning (D-09).
#[inline(always)]
pub const fn is_here(first: &FirstWords) -> bool {
    let carries =
        matches!(first.packet_type, PacketType::PullRequest | PacketType::PullData | PacketType::PushData);
    match ProtocolType::from_wire(first.protocol) {
        Some(ProtocolType::Nvme) => !carries,
        Some(ProtocolType::Rdma) | None => true,
    }
}
