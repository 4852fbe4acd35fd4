//! The second stage of parsing: what is in an opened packet.

use super::open::Opened;
use super::parsed::{CONGESTION_EXPERIENCED, Parsed, counter_of, words};
use crate::bitmap::Bitmap128;
use crate::datapath::Scratch;
use crate::ids::Psn;
use crate::ulp::{Operation, OperationKind, Protocol};
use crate::units::FalconTime;
use crate::wire::ack::{Ack, AckHeader, CongestionInfo};
use crate::wire::base::{BaseHeader, FirstWords};
use crate::wire::cursor::Cursor;
use crate::wire::falcon::{FalconHeader, Reader};
use crate::wire::inner::Inner;
use crate::wire::packet::Packet;
use crate::wire::{Malformed, PacketType, psp};

/// Reads the inner IP header, if there is one, the Falcon and the ULP headers into `s.step.input`.
#[inline(always)]
pub(super) fn read<C: Cursor>(s: &mut Scratch, cursor: &mut C, opened: Opened) -> Parsed {
    let (mut falcon_offset, mut length) = (opened.offset(), opened.length());
    let next_header = opened.next_header();
    s.step.input.packet.inner_version = 0;
    if next_header != psp::NEXT_HEADER_FALCON {
        if let Err(malformed) = tunnel(s, cursor, next_header, length) {
            return Parsed::Drop(counter_of(malformed));
        }
        falcon_offset += Inner::header_len(next_header);
        length = length.wrapping_sub(Inner::header_len(next_header));
    }
    let length = (length & 0xffff) as usize;
    let input = &mut s.step.input;
    let reader = IntoPacket { packet: &mut input.packet, operation: &mut input.operation, falcon_offset };
    let first = match FirstWords::decode_in(cursor, length) {
        Ok(first) => first,
        Err(malformed) => return Parsed::Drop(counter_of(malformed)),
    };
    match FalconHeader::decode_after(first, cursor, length, reader) {
        Ok(()) => Parsed::Falcon,
        Err(malformed) => Parsed::Drop(counter_of(malformed)),
    }
}

/// Reads the inner IP header of a packet in tunnel mode (F-7.1.2-1). `room` is the number of bytes from there to the end
/// of the UDP payload.
#[inline(always)]
fn tunnel<C: Cursor>(s: &mut Scratch, cursor: &mut C, next_header: u8, room: u32) -> Result<(), Malformed> {
    let packet = &mut s.step.input.packet;
    let experienced = match Inner::decode(cursor, next_header, room)? {
        Inner::V4(ip) => {
            packet.inner_version = 4;
            packet.inner_source = [u32::from_ne_bytes(ip.src) as u64, 0];
            packet.inner_destination = [u32::from_ne_bytes(ip.dst) as u64, 0];
            ip.dscp_ecn & 3
        }
        Inner::V6(ip) => {
            packet.inner_version = 6;
            packet.inner_source = words(&ip.src);
            packet.inner_destination = words(&ip.dst);
            ip.traffic_class & 3
        }
    };
    // RFC 6040: the mark of either header counts.
    packet.congestion_experienced |= (experienced == CONGESTION_EXPERIENCED) as u8;
    Ok(())
}

/// Writes a Falcon header, and the ULP header after it, into a packet.
struct IntoPacket<'a> {
    packet: &'a mut Packet,
    operation: &'a mut Operation,
    /// Offset of the Falcon header in the frame.
    falcon_offset: u32,
}

impl<C: Cursor> Reader<C> for IntoPacket<'_> {
    type Output = ();

    #[inline(always)]
    fn header(self, header: FalconHeader, payload: usize, cursor: &mut C) {
        let Self { packet, operation, falcon_offset } = self;
        packet.kind = header.packet_type();
        packet.dest_cid = header.dest_cid().0;
        packet.payload_offset = falcon_offset + header.header_len() as u32;
        packet.payload_length = payload as u32;
        packet.request_length = 0;
        operation.kind = OperationKind::None;
        operation.rkey = 0;
        match header {
            FalconHeader::PullRequest(p) => {
                base(packet, &p.base);
                packet.request_length = p.request_length as u32;
                let kind = PacketType::PullRequest;
                Protocol::of_wire(p.base.protocol).parse(cursor, kind, payload, p.request_length, operation);
            }
            FalconHeader::PushData(p) => {
                base(packet, &p.base);
                packet.request_length = p.request_length as u32;
                let kind = PacketType::PushData;
                Protocol::of_wire(p.base.protocol).parse(cursor, kind, payload, p.request_length, operation);
            }
            FalconHeader::PullData(p) => {
                base(packet, &p.base);
                Protocol::of_wire(p.base.protocol).parse(cursor, PacketType::PullData, payload, 0, operation);
            }
            FalconHeader::Resync(p) => {
                base(packet, &p.base);
                packet.resync_code = p.code;
                packet.resync_type = p.packet_type;
            }
            FalconHeader::Ack(ack) => acknowledgement(packet, &ack),
            FalconHeader::Nack(p) => {
                bases_only(packet, p.data_base_psn, p.request_base_psn);
                congestion_information(packet, &p.cc, (p.t1, p.t2));
                packet.cc_metadata = p.cc.rue; // D-07
                packet.psn = p.psn.0;
                packet.nack_code = p.code;
                packet.nack_window = p.request_window as u8;
                packet.rnr_timeout_code = p.rnr_timeout_code;
                packet.ulp_code = p.ulp_code;
            }
        }
    }
}

#[inline(always)]
fn base(packet: &mut Packet, base: &BaseHeader) {
    packet.dest_function = base.dest_function;
    packet.ack_request = base.ack_request as u8;
    packet.protocol = base.protocol;
    packet.psn = base.psn.0;
    packet.rsn = base.rsn.0;
    bases_only(packet, base.data_base_psn, base.request_base_psn);
}

/// Writes an acknowledgement without bitmaps. Plain stores clear the bitmaps of an earlier packet: a struct
/// literal would become a slow byte loop on the BPF target.
#[inline(always)]
fn bases_only(packet: &mut Packet, data: Psn, request: Psn) {
    let a = &mut packet.acknowledgement;
    a.data_base = data;
    a.request_base = request;
    a.selective = 0;
    a.own_data = 0;
    a.own_request = 0;
    a.data_acknowledged = Bitmap128::ZERO;
    a.data_received = Bitmap128::ZERO;
    a.request = Bitmap128::ZERO;
}

#[inline(always)]
fn acknowledgement(packet: &mut Packet, ack: &Ack) {
    let header: &AckHeader = ack.header();
    congestion_information(packet, &header.cc, (header.t1, header.t2));
    let own = (header.own_data as u32) << 1 | header.own_request as u32;
    packet.cc_metadata = header.cc.rue << 2 | own; // D-07
    bases_only(packet, header.data_base_psn, header.request_base_psn);
    if let Ack::Eack(eack) = ack {
        let a = &mut packet.acknowledgement;
        a.own_data = header.own_data as u8;
        a.own_request = header.own_request as u8;
        a.selective = 1;
        a.data_acknowledged = Bitmap128::from_words(eack.data_ack);
        a.data_received = Bitmap128::from_words(eack.data_received);
        a.request = Bitmap128::from_words([eack.request, 0]);
    }
}

/// Copies what an acknowledgement says about the forward path (F-7.7.1-5, F-7.8-2).
#[inline(always)]
fn congestion_information(packet: &mut Packet, cc: &CongestionInfo, (t1, t2): (FalconTime, FalconTime)) {
    packet.t1 = t1;
    packet.t2 = t2;
    packet.ecn_count = cc.ecn_count;
    packet.forward_hops = cc.forward_hops;
    packet.rx_buffer_level = cc.rx_buffer_level;
}
