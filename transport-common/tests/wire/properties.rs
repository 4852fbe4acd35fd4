//! Round trips of every Falcon packet, fields that are too wide, and truncated packets.

use proptest::prelude::*;
use transport_common::ids::{Cid, Psn, RKey, Rsn, Spi};
use transport_common::ulp::rdma::Opcode;
use transport_common::ulp::rdma::{Bth, Reth};
use transport_common::units::{FalconTime, Picoseconds};
use transport_common::wire::ack::{Ack, AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::falcon::header_len;
use transport_common::wire::nack::Nack;
use transport_common::wire::nack::NackCode;
use transport_common::wire::psp::Psp;
use transport_common::wire::pull_data::PullData;
use transport_common::wire::pull_request::PullRequest;
use transport_common::wire::push_data::PushData;
use transport_common::wire::resync::Resync;
use transport_common::wire::resync::ResyncCode;
use transport_common::wire::{Cursor, FalconHeader, Malformed, PacketType, SliceCursor};

prop_compose! {
    /// A base header whose fields fit. The packet's encoder writes its own type.
    fn base(packet_type: PacketType)(
        cid in 0u32..1 << 24, function in 0u32..1 << 24, protocol in 2u8..4, ack_request: bool,
        data_base_psn: u32, request_base_psn: u32, psn: u32, rsn: u32,
    ) -> BaseHeader {
        BaseHeader {
            dest_cid: Cid(cid),
            dest_function: function,
            protocol,
            packet_type,
            ack_request,
            data_base_psn: Psn(data_base_psn),
            request_base_psn: Psn(request_base_psn),
            psn: Psn(psn),
            rsn: Rsn(rsn),
        }
    }
}

prop_compose! {
    fn ack_header()(
        cid in 0u32..1 << 24, words: [u32; 4], forward_hops in 0u8..16, rx_buffer_level in 0u8..32,
        ecn_count in 0u16..1 << 14, rue in 0u32..1 << 22, own_request: bool, own_data: bool,
    ) -> AckHeader {
        AckHeader {
            dest_cid: Cid(cid),
            data_base_psn: Psn(words[0]),
            request_base_psn: Psn(words[1]),
            t1: FalconTime(words[2]),
            t2: FalconTime(words[3]),
            cc: CongestionInfo { forward_hops, rx_buffer_level, ecn_count, rue },
            own_request,
            own_data,
        }
    }
}

prop_compose! {
    fn nack()(
        h in ack_header(), rue in 0u32..1 << 24, psn: u32, code: u8, rnr_timeout_code in 0u8..32,
        request_window: bool, ulp_code: u8,
    ) -> Nack {
        Nack {
            dest_cid: h.dest_cid,
            data_base_psn: h.data_base_psn,
            request_base_psn: h.request_base_psn,
            t1: h.t1,
            t2: h.t2,
            cc: CongestionInfo { rue, ..h.cc },
            psn: Psn(psn),
            code: NackCode(code),
            rnr_timeout_code,
            request_window,
            ulp_code,
        }
    }
}

fn original() -> impl Strategy<Value = PacketType> {
    prop_oneof![Just(PacketType::PullRequest), Just(PacketType::PullData), Just(PacketType::PushData)]
}

fn falcon_header() -> impl Strategy<Value = FalconHeader> {
    prop_oneof![
        (base(PacketType::PullRequest), any::<u16>()).prop_map(|(base, request_length)| {
            FalconHeader::PullRequest(PullRequest { base, request_length })
        }),
        base(PacketType::PullData).prop_map(|base| FalconHeader::PullData(PullData { base })),
        (base(PacketType::PushData), 0u16..2000)
            .prop_map(|(base, request_length)| FalconHeader::PushData(PushData { base, request_length })),
        (base(PacketType::Resync), any::<u8>(), original(), any::<u32>()).prop_map(
            |(base, code, packet_type, vendor)| FalconHeader::Resync(Resync {
                base,
                code: ResyncCode(code),
                packet_type,
                vendor
            })
        ),
        ack_header().prop_map(|header| FalconHeader::Ack(Ack::Back(header))),
        (ack_header(), any::<[u64; 2]>(), any::<[u64; 2]>(), any::<u64>()).prop_map(
            |(header, data_ack, data_received, request)| {
                FalconHeader::Ack(Ack::Eack(Eack { header, data_ack, data_received, request }))
            }
        ),
        nack().prop_map(FalconHeader::Nack),
    ]
}

/// Encodes the header into a filled buffer, followed by the payload that its type allows.
fn packet(header: &FalconHeader) -> Vec<u8> {
    fn dirty<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
        let mut out = [0xa5; N];
        encode(&mut out);
        out.to_vec()
    }
    let (mut bytes, payload) = match header {
        FalconHeader::PullRequest(p) => (dirty(|out| p.encode(out)), 28),
        FalconHeader::PullData(p) => (dirty(|out| p.encode(out)), 100),
        FalconHeader::PushData(p) => (dirty(|out| p.encode(out)), usize::from(p.request_length)),
        FalconHeader::Resync(p) => (dirty(|out| p.encode(out)), 0),
        FalconHeader::Ack(Ack::Back(p)) => (dirty(|out| p.encode(out)), 0),
        FalconHeader::Ack(Ack::Eack(p)) => (dirty(|out| p.encode(out)), 0),
        FalconHeader::Nack(p) => (dirty(|out| p.encode(out)), 0),
    };
    bytes.resize(bytes.len() + payload, 0x5a);
    bytes
}

proptest! {
    #[test]
    fn falcon_round_trip(header in falcon_header(), padding in 0usize..20) {
        let mut bytes = packet(&header);
        let falcon_length = bytes.len();
        bytes.resize(falcon_length + padding, 0xff); // Ethernet padding is not part of the packet
        let mut cursor = SliceCursor::new(&bytes);
        prop_assert_eq!(FalconHeader::decode(&mut cursor, falcon_length), Ok(header));
        prop_assert_eq!(bytes.len() - cursor.remaining(), header_len(header.packet_type()));
    }

    #[test]
    fn a_packet_cut_short_is_never_taken_for_whole(header in falcon_header()) {
        let bytes = packet(&header);
        let header_len = header.header_len();
        for cut in 0..bytes.len() {
            // The frame ends early, but the UDP length still states the whole packet.
            let early = FalconHeader::decode(&mut SliceCursor::new(&bytes[..cut]), bytes.len());
            prop_assert_eq!(early, Err(Malformed::FalconTruncated));
            // The UDP length is as short as the frame.
            let short = FalconHeader::decode(&mut SliceCursor::new(&bytes[..cut]), cut);
            if cut < header_len {
                prop_assert_eq!(short, Err(Malformed::FalconTruncated));
            } else if matches!(header, FalconHeader::PushData(_)) {
                prop_assert_eq!(short, Err(Malformed::FalconLength)); // D-16
            } else {
                prop_assert_eq!(short, Ok(header)); // D-03: no length on the wire shows that the payload is shorter
            }
        }
    }

    #[test]
    fn a_field_too_wide_is_cut_and_disturbs_no_neighbour(h in ack_header(), wide: u32, word: [u64; 2]) {
        let mut narrow_out = [0; AckHeader::LEN];
        let mut wide_out = [0; AckHeader::LEN];
        h.encode(&mut narrow_out);
        AckHeader {
            dest_cid: Cid(h.dest_cid.0 | wide << 24),
            cc: CongestionInfo {
                forward_hops: h.cc.forward_hops | (wide as u8) << 4,
                rx_buffer_level: h.cc.rx_buffer_level | (wide as u8) << 5,
                ecn_count: h.cc.ecn_count | (wide as u16) << 14,
                rue: h.cc.rue | wide << 22,
            },
            ..h
        }
        .encode(&mut wide_out);
        prop_assert_eq!(narrow_out, wide_out);

        let base = BaseHeader {
            dest_cid: Cid(wide), dest_function: wide, protocol: wide as u8, packet_type: PacketType::PullData,
            ack_request: false, data_base_psn: h.data_base_psn, request_base_psn: h.request_base_psn,
            psn: Psn(0), rsn: Rsn(0),
        };
        let mut out = [0; BaseHeader::LEN];
        base.encode(&mut out);
        prop_assert_eq!(out[0], 0x10);
        prop_assert_eq!(out[7] & 0x1f, 3 << 1);

        let mut bth = [0; Bth::LEN];
        Bth::new(Opcode(4), wide, wide).encode(&mut bth);
        prop_assert_eq!((bth[4], bth[8]), (0, 0));

        let mut psp = [0; Psp::LEN];
        Psp { version: wide as u8, crypt_offset: wide as u8, ..Psp::plaintext(Spi(wide), Picoseconds(word[0])) }.encode(&mut psp);
        prop_assert_eq!((psp[2] & 0xc0, psp[3] & 0xc3), (0, 1));
    }

    #[test]
    fn rdma_headers_round_trip(address: u64, rkey: u32, length: u32, flags: [bool; 3], qp in 0u32..1 << 24) {
        let reth = Reth { address, rkey: RKey(rkey), length };
        let mut out = [0xa5; Reth::LEN];
        reth.encode(&mut out);
        prop_assert_eq!(Reth::decode(&mut SliceCursor::new(&out)), Ok(reth));
        let bth = Bth {
            opcode: Opcode(length as u8), solicited: flags[0], migration: flags[1], pkey: rkey as u16, dest_qp: qp,
            ack_request: flags[2], psn: qp ^ 1,
        };
        let mut out = [0xa5; Bth::LEN];
        bth.encode(&mut out);
        prop_assert_eq!(Bth::decode(&mut SliceCursor::new(&out)), Ok(bth));
    }
}

#[test]
fn a_cursor_that_cannot_give_does_not_advance() {
    let mut cursor = SliceCursor::new(&[1, 2, 3]);
    assert_eq!(cursor.take::<4>(), None);
    assert_eq!(cursor.remaining(), 3);
    assert_eq!(cursor.take::<2>(), Some([1, 2]));
    assert_eq!(cursor.rest(), [3]);
    assert_eq!(cursor.take::<0>(), Some([]));
    assert_eq!(cursor.take::<1>(), Some([3]));
    assert_eq!(cursor.take::<1>(), None);
}

#[test]
fn reasons_are_numbered_without_gaps_and_named_apart() {
    let names: std::collections::HashSet<_> = Malformed::ALL.iter().map(|m| m.name()).collect();
    assert_eq!(names.len(), Malformed::ALL.len());
    for (i, reason) in Malformed::ALL.iter().enumerate() {
        assert_eq!(*reason as usize, i);
    }
}
