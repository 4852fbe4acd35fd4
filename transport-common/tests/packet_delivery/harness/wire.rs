//! Packets between the two ends, and packets made by hand.

use transport_common::ids::Psn;
use transport_common::packet_delivery::{Acknowledgement, Window};
use transport_common::ulp::Operation;
use transport_common::units::Picoseconds;
use transport_common::wire::packet::Packet;

use super::*;

/// A packet on its way, as its receiver reads it. A test may change what was read, and the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(crate) packet: Packet,
    pub(crate) operation: Operation,
    /// The bytes after the headers.
    pub(crate) data: Vec<u8>,
    /// The headers of its frame. Empty for a packet that was made by hand.
    pub(crate) head: Vec<u8>,
}

impl Wire {
    /// Returns packet type, PSN, RSN.
    pub(crate) fn id(&self) -> (PacketType, u32, u32) {
        (self.packet.kind, self.packet.psn, self.packet.rsn)
    }

    /// Returns the data and request base that the packet acknowledges.
    pub(crate) fn bases(&self) -> (u32, u32) {
        (self.packet.acknowledgement.data_base.0, self.packet.acknowledgement.request_base.0)
    }

    pub(crate) fn is(&self, kind: PacketType) -> bool {
        self.packet.kind == kind
    }
}

/// Returns an acknowledgement from `peer`'s side, with the bases of its receive windows set to `data` and
/// `request`.
pub(crate) fn back(to: &Node, data: u32, request: u32, now: Picoseconds) -> Wire {
    let c = &to.entry.connection;
    let packet = Packet {
        kind: BACK,
        hop_limit: 255,
        psp_version: c.flow.security.version,
        dest_cid: c.flow.endpoint.local_cid.0,
        spi: c.flow.security.rx_spi.0,
        iv: now,
        t1: now.ticks(),
        t2: now.ticks(),
        acknowledgement: Acknowledgement {
            data_base: Psn(data),
            request_base: Psn(request),
            ..Acknowledgement::default()
        },
        ..Packet::default()
    };
    Wire { packet, operation: Operation::default(), data: Vec::new(), head: Vec::new() }
}

/// Returns a NACK for `psn` with the current bases.
pub(crate) fn nack(to: &Node, window: Window, psn: u32, code: NackCode, now: Picoseconds) -> Wire {
    let c = &to.entry.connection;
    let mut wire = back(to, c.flow.delivery.data().tx.base.0, c.flow.delivery.request().tx.base.0, now);
    wire.packet.kind = NACK;
    wire.packet.psn = psn;
    wire.packet.nack_code = code;
    wire.packet.nack_window = (window == Window::Request) as u8;
    wire
}
