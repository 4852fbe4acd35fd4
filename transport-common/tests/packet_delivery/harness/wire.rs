//! Conversion of an outgoing packet to the packet that its receiver parses, and packets made by hand.

use transport_common::connection::Outgoing;
use transport_common::ids::Psn;
use transport_common::packet_delivery::{Acknowledgement, Window};
use transport_common::ulp::rdma::{Aeth, Opcode};
use transport_common::ulp::{Headers, Operation, OperationKind, Payload, Protocol, UlpCode, block};
use transport_common::units::Picoseconds;
use transport_common::wire::packet::Packet;

use super::*;

/// A packet on its way: as the receiver's parser would return it, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(crate) packet: Packet,
    pub(crate) operation: Operation,
    pub(crate) data: Vec<u8>,
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

/// Returns the result of the parser for the bytes of an outgoing packet.
pub(super) fn parsed(t: &Outgoing, ulp: &Payload) -> (Packet, Operation) {
    let mut acknowledgement = Acknowledgement {
        data_base: Psn(t.data_base),
        request_base: Psn(t.request_base),
        ..Acknowledgement::default()
    };
    if t.kind == EACK {
        acknowledgement.selective = 1;
        acknowledgement.own_data = t.own_data;
        acknowledgement.own_request = t.own_request;
        (acknowledgement.data_acknowledged.low, acknowledgement.data_acknowledged.high) =
            (t.data_acknowledged[0], t.data_acknowledged[1]);
        (acknowledgement.data_received.low, acknowledgement.data_received.high) =
            (t.data_received[0], t.data_received[1]);
        acknowledgement.request.low = t.request;
    }
    let mut packet = Packet {
        kind: t.kind,
        ack_request: t.ack_request,
        hop_limit: 255,
        psp_version: t.psp_version,
        dest_cid: t.dest_cid,
        dest_function: t.dest_function,
        spi: t.spi,
        iv: t.iv,
        protocol: t.protocol.number(),
        payload_length: ulp.data_length,
        acknowledgement,
        ..Packet::default()
    };
    let mut operation = operation_of(t.protocol, ulp);
    if matches!(t.kind, BACK | EACK | NACK) {
        packet.t2 = t.t2;
        packet.ecn_count = t.ecn_count as u16;
        packet.forward_hops = t.forward_hops;
        packet.rx_buffer_level = t.rx_buffer_level;
        packet.cc_metadata = t.cc_metadata;
    }
    match t.kind {
        BACK | EACK => (packet.t1, packet.dest_function) = (t.t1, 0),
        NACK => {
            packet.t1 = t.t1;
            packet.psn = t.psn;
            packet.nack_code = t.nack_code;
            packet.nack_window = t.nack_window;
            packet.rnr_timeout_code = t.rnr_timeout_code;
            packet.ulp_code = t.ulp_code;
        }
        RESYNC => {
            (packet.psn, packet.rsn) = (t.psn, t.rsn);
            (packet.resync_code, packet.resync_type) = (t.resync_code, t.resync_type);
            operation = Operation::default();
            packet.payload_length = 0;
        }
        _ => (packet.psn, packet.rsn, packet.request_length) = (t.psn, t.rsn, t.request_length),
    }
    (packet, operation)
}

fn operation_of(protocol: Protocol, u: &Payload) -> Operation {
    let mut out = Operation {
        length: u.data_length,
        rkey: u.rkey,
        address: u.address,
        swap_or_add: u.swap_or_add,
        compare: u.compare,
        has_immediate: u.has_immediate,
        immediate: u.immediate,
        segment: u.segment,
        ..Operation::default()
    };
    let read = if protocol.is_block() { block::READ } else { Opcode::READ_REQUEST.0 };
    out.kind = match (u.headers, Opcode(u.opcode)) {
        (Headers::None, _) => OperationKind::None,
        (Headers::Access, _) if u.opcode == read => OperationKind::Read,
        (Headers::Access, _) => OperationKind::Write,
        (Headers::Atomic, Opcode::COMPARE_SWAP) => OperationKind::CompareSwap,
        (Headers::Atomic, _) => OperationKind::FetchAdd,
        (Headers::Status, _) if u.status != 0 => OperationKind::ErrorResponse,
        (Headers::Status, _) => OperationKind::ReadResponse,
        (Headers::Value, _) => OperationKind::AtomicResponse,
        (Headers::Message, code) => {
            let only = matches!(code, Opcode::SEND_ONLY | Opcode::SEND_ONLY_IMMEDIATE);
            let last = matches!(code, Opcode::SEND_LAST | Opcode::SEND_LAST_IMMEDIATE);
            out.first = (only || code == Opcode::SEND_FIRST) as u8;
            out.last = (only || last) as u8;
            OperationKind::Send
        }
    };
    match out.kind {
        OperationKind::Read => out.length = u.length,
        OperationKind::CompareSwap | OperationKind::FetchAdd | OperationKind::AtomicResponse => {
            out.length = 8
        }
        OperationKind::ErrorResponse => out.code = UlpCode(u.status & !Aeth::ERROR_BASE),
        _ => {}
    }
    out
}

/// Returns an acknowledgement from `peer`'s side, with the bases of its receive windows set to `data` and
/// `request`.
pub(crate) fn back(to: &Node, data: u32, request: u32, now: Picoseconds) -> Wire {
    let c = &to.entry.connection;
    let packet = Packet {
        kind: BACK,
        hop_limit: 255,
        psp_version: c.security.version,
        dest_cid: c.endpoint.local_cid.0,
        spi: c.security.rx_spi.0,
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
    Wire { packet, operation: Operation::default(), data: Vec::new() }
}

/// Returns a NACK for `psn` with the current bases.
pub(crate) fn nack(to: &Node, window: Window, psn: u32, code: NackCode, now: Picoseconds) -> Wire {
    let c = &to.entry.connection;
    let mut wire = back(to, c.delivery.data().tx.base.0, c.delivery.request().tx.base.0, now);
    wire.packet.kind = NACK;
    wire.packet.psn = psn;
    wire.packet.nack_code = code;
    wire.packet.nack_window = (window == Window::Request) as u8;
    wire
}
