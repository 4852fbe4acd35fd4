//! A slow parser that uses only the figures: every field as (word, first bit, last bit), where bit 0 is the most
//! significant bit of a big-endian 32-bit word. Fields are read and compared bit by bit.

use proptest::prelude::*;
use transport_common::ulp::rdma::{Aeth, AtomicEth, Bth, Reth};
use transport_common::wire::ack::{Ack, AckHeader};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::ethernet::Ethernet;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::Psp;
use transport_common::wire::udp::Udp;
use transport_common::wire::{FalconHeader, SliceCursor};

/// Position of a field in its figure: word, first bit, last bit.
type Place = (usize, usize, usize);

/// A field that has the same value in every packet of the format.
type Constant = (Place, u64);

/// The decoded fields, and the bytes of encoding them again.
type Reading = (Vec<u64>, Vec<u8>);

/// One format. Constants are set in the random bytes first. Then come the fields in the order in which `read`
/// lists them.
struct Figure {
    name: &'static str,
    len: usize,
    constants: &'static [Constant],
    fields: &'static [Place],
    /// Decodes the bytes, and encodes the result into a filled buffer.
    read: fn(&[u8]) -> Reading,
}

fn bit_positions((word, first, last): Place) -> impl Iterator<Item = usize> {
    word * 32 + first..=word * 32 + last
}

fn get(bytes: &[u8], place: Place) -> u64 {
    bit_positions(place).fold(0, |value, bit| value << 1 | u64::from(bytes[bit / 8] >> (7 - bit % 8) & 1))
}

fn set(bytes: &mut [u8], place: Place, value: u64) {
    let width = place.2 - place.1 + 1;
    for (i, bit) in bit_positions(place).enumerate() {
        let mask = 0x80 >> (bit % 8);
        bytes[bit / 8] = bytes[bit / 8] & !mask | if value >> (width - 1 - i) & 1 == 1 { mask } else { 0 };
    }
}

impl Figure {
    fn check(&self, random: &[u8]) {
        let mut bytes = random[..self.len].to_vec();
        for &(place, value) in self.constants {
            set(&mut bytes, place, value);
        }
        let (fields, encoded) = (self.read)(&bytes);
        assert_eq!(fields.len(), self.fields.len(), "{}: the figure lists as many fields", self.name);
        for (value, &place) in fields.iter().zip(self.fields) {
            assert_eq!(*value, get(&bytes, place), "{}: decoded {place:?}", self.name);
        }
        // Encoded are constants and fields at their positions, and reserved bits as 0 (D-09).
        let mut expected = vec![0; self.len];
        for &(place, value) in self.constants {
            set(&mut expected, place, value);
        }
        for (value, &place) in fields.iter().zip(self.fields) {
            set(&mut expected, place, *value);
        }
        assert_eq!(encoded, expected, "{}: encoded", self.name);
    }
}

/// Encodes into a filled buffer, in which a forgotten byte is visible.
fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
    let mut out = [0xa5; N];
    encode(&mut out);
    out.to_vec()
}

fn high(value: u64) -> u64 {
    value >> 32
}

fn low(value: u64) -> u64 {
    value & 0xffff_ffff
}

/// Returns the 32-bit words of an address.
fn words(address: &[u8]) -> Vec<u64> {
    address.chunks(4).map(|w| u64::from(u32::from_be_bytes(w.try_into().unwrap()))).collect()
}

fn mac(address: [u8; 6], split: usize) -> [u64; 2] {
    let value = address.iter().fold(0, |v, b| v << 8 | u64::from(*b));
    [value >> (48 - split), value & ((1 << (48 - split)) - 1)]
}

fn falcon(bytes: &[u8]) -> FalconHeader {
    FalconHeader::decode(&mut SliceCursor::new(bytes), bytes.len()).expect("the constants make it valid")
}

fn base_fields(base: &BaseHeader) -> Vec<u64> {
    vec![
        u64::from(base.dest_cid.0),
        u64::from(base.dest_function),
        u64::from(base.ack_request),
        u64::from(base.data_base_psn.0),
        u64::from(base.request_base_psn.0),
        u64::from(base.psn.0),
        u64::from(base.rsn.0),
    ]
}

const FALCON_VERSION: Constant = ((0, 0, 3), 1);
const PROTOCOL_RDMA: Constant = ((1, 24, 26), 2);
const PACKET_TYPE: Place = (1, 27, 30);
const DEST_CID: Place = (0, 8, 31);

/// F-7.2-2..13, followed by the fields of the packet type.
macro_rules! base_figure {
    ($($place:expr),*) => {
        &[DEST_CID, (1, 0, 23), (1, 31, 31), (2, 0, 31), (3, 0, 31), (4, 0, 31), (5, 0, 31), $($place),*]
    };
}

const PULL_REQUEST: Figure = Figure {
    name: "Pull Request, F-7.3-2",
    len: 32,
    constants: &[FALCON_VERSION, PROTOCOL_RDMA, (PACKET_TYPE, 0)],
    fields: base_figure![(6, 16, 31)],
    read: |bytes| {
        let FalconHeader::PullRequest(p) = falcon(bytes) else { panic!("another type") };
        let mut fields = base_fields(&p.base);
        fields.push(p.request_length.into());
        (fields, encoded(|out| p.encode(out)))
    },
};

const PULL_DATA: Figure = Figure {
    name: "Pull Data, F-7.4-1",
    len: 24,
    constants: &[FALCON_VERSION, PROTOCOL_RDMA, (PACKET_TYPE, 3)],
    fields: base_figure![],
    read: |bytes| {
        let FalconHeader::PullData(p) = falcon(bytes) else { panic!("another type") };
        (base_fields(&p.base), encoded(|out| p.encode(out)))
    },
};

/// Request Length is a constant here: it must be the length of the payload, which is empty (D-16).
const PUSH_DATA: Figure = Figure {
    name: "Push Data, F-7.5-1",
    len: 28,
    constants: &[FALCON_VERSION, ((1, 24, 26), 3), (PACKET_TYPE, 5), ((6, 16, 31), 0)],
    fields: base_figure![],
    read: |bytes| {
        let FalconHeader::PushData(p) = falcon(bytes) else { panic!("another type") };
        (base_fields(&p.base), encoded(|out| p.encode(out)))
    },
};

const RESYNC: Figure = Figure {
    name: "Resync, F-7.6-1",
    len: 32,
    constants: &[FALCON_VERSION, (PACKET_TYPE, 6), ((6, 8, 11), 3)],
    fields: base_figure![(1, 24, 26), (6, 0, 7), (7, 0, 31)],
    read: |bytes| {
        let FalconHeader::Resync(p) = falcon(bytes) else { panic!("another type") };
        let mut fields = base_fields(&p.base);
        fields.extend([p.base.protocol.into(), p.code.0.into(), u64::from(p.vendor)]);
        (fields, encoded(|out| p.encode(out)))
    },
};

/// F-7.7.1-1..6, D-05, D-06. The last fields are hops, level, ECN, RUE, OWN data, OWN request.
macro_rules! ack_figure {
    ($($place:expr),*) => {
        &[
            DEST_CID, (2, 0, 31), (3, 0, 31), (4, 0, 31), (5, 0, 31), (6, 0, 3), (6, 4, 8), (6, 9, 22),
            $($place),*
        ]
    };
}

fn ack_fields(header: &AckHeader) -> Vec<u64> {
    vec![
        u64::from(header.dest_cid.0),
        u64::from(header.data_base_psn.0),
        u64::from(header.request_base_psn.0),
        u64::from(header.t1.0),
        u64::from(header.t2.0),
        header.cc.forward_hops.into(),
        header.cc.rx_buffer_level.into(),
        header.cc.ecn_count.into(),
        u64::from(header.cc.rue),
        header.own_data.into(),
        header.own_request.into(),
    ]
}

const BACK: Figure = Figure {
    name: "BACK, F-7.7.1",
    len: 32,
    constants: &[FALCON_VERSION, (PACKET_TYPE, 9)],
    fields: ack_figure![(7, 8, 29), (7, 30, 30), (7, 31, 31)],
    read: |bytes| {
        let FalconHeader::Ack(Ack::Back(p)) = falcon(bytes) else { panic!("another type") };
        (ack_fields(&p), encoded(|out| p.encode(out)))
    },
};

const EACK: Figure = Figure {
    name: "EACK, F-7.7.2",
    len: 72,
    constants: &[FALCON_VERSION, (PACKET_TYPE, 10)],
    fields: ack_figure![
        (7, 8, 29),
        (7, 30, 30),
        (7, 31, 31),
        // Data ACK bitmap bits 127:96, 95:64, 63:32, 31:0; the data Rx bitmap in the same way; request bitmap from
        // 63:32, 31:0.
        (8, 0, 31),
        (9, 0, 31),
        (10, 0, 31),
        (11, 0, 31),
        (12, 0, 31),
        (13, 0, 31),
        (14, 0, 31),
        (15, 0, 31),
        (16, 0, 31),
        (17, 0, 31)
    ],
    read: |bytes| {
        let FalconHeader::Ack(Ack::Eack(p)) = falcon(bytes) else { panic!("another type") };
        let mut fields = ack_fields(&p.header);
        for word in [p.data_ack[1], p.data_ack[0], p.data_received[1], p.data_received[0], p.request] {
            fields.extend([high(word), low(word)]);
        }
        (fields, encoded(|out| p.encode(out)))
    },
};

const NACK: Figure = Figure {
    name: "NACK, F-7.8",
    len: 40,
    constants: &[FALCON_VERSION, (PACKET_TYPE, 8)],
    fields: ack_figure![(7, 8, 31), (8, 0, 31), (9, 0, 7), (9, 11, 15), (9, 16, 16), (9, 24, 31)],
    read: |bytes| {
        let FalconHeader::Nack(p) = falcon(bytes) else { panic!("another type") };
        let fields = vec![
            u64::from(p.dest_cid.0),
            u64::from(p.data_base_psn.0),
            u64::from(p.request_base_psn.0),
            u64::from(p.t1.0),
            u64::from(p.t2.0),
            p.cc.forward_hops.into(),
            p.cc.rx_buffer_level.into(),
            p.cc.ecn_count.into(),
            u64::from(p.cc.rue),
            u64::from(p.psn.0),
            p.code.0.into(),
            p.rnr_timeout_code.into(),
            p.request_window.into(),
            p.ulp_code.into(),
        ];
        (fields, encoded(|out| p.encode(out)))
    },
};

const PSP: Figure = Figure {
    name: "PSP without cookie",
    len: 16,
    constants: &[
        ((0, 0, 7), 252),
        ((0, 8, 15), 1),
        ((0, 18, 23), 1),
        ((0, 26, 29), 15),
        ((0, 30, 30), 0),
        ((0, 31, 31), 1),
    ],
    fields: &[(0, 24, 24), (0, 25, 25), (1, 0, 31), (2, 0, 31), (3, 0, 31)],
    read: |bytes| {
        let p = Psp::decode(&mut SliceCursor::new(bytes)).expect("the constants make it valid");
        assert!(!p.has_vc && p.vc == 0);
        let fields = vec![p.sample.into(), p.drop.into(), u64::from(p.spi.0), high(p.iv.0), low(p.iv.0)];
        (fields, encoded(|out| p.encode(out)))
    },
};

const PSP_VC: Figure = Figure {
    name: "PSP with cookie",
    len: 24,
    constants: &[
        ((0, 0, 7), 252),
        ((0, 8, 15), 2),
        ((0, 18, 23), 3),
        ((0, 26, 29), 1),
        ((0, 30, 30), 1),
        ((0, 31, 31), 1),
    ],
    fields: &[(0, 24, 24), (0, 25, 25), (1, 0, 31), (2, 0, 31), (3, 0, 31), (4, 0, 31), (5, 0, 31)],
    read: |bytes| {
        let p = Psp::decode(&mut SliceCursor::new(bytes)).expect("the constants make it valid");
        assert!(p.has_vc);
        let mut fields = vec![p.sample.into(), p.drop.into(), u64::from(p.spi.0)];
        fields.extend([high(p.iv.0), low(p.iv.0), high(p.vc), low(p.vc)]);
        (fields, encoded(|out| p.encode_with_vc(out)))
    },
};

const ETHERNET: Figure = Figure {
    name: "Ethernet",
    len: 14,
    constants: &[((3, 0, 15), 0x86dd)],
    fields: &[(0, 0, 31), (1, 0, 15), (1, 16, 31), (2, 0, 31)],
    read: |bytes| {
        let p = Ethernet::decode(&mut SliceCursor::new(bytes)).expect("whole");
        assert_eq!((p.vlan, p.ethertype), (None, 0x86dd));
        ([mac(p.dst, 32), mac(p.src, 16)].concat(), encoded(|out| p.encode(out)))
    },
};

const ETHERNET_TAGGED: Figure = Figure {
    name: "Ethernet with 802.1Q tag",
    len: 18,
    constants: &[((3, 0, 15), 0x8100)],
    fields: &[(0, 0, 31), (1, 0, 15), (1, 16, 31), (2, 0, 31), (3, 16, 31), (4, 0, 15)],
    read: |bytes| {
        let p = Ethernet::decode(&mut SliceCursor::new(bytes)).expect("whole");
        let tci = p.vlan.expect("tagged");
        let mut fields = [mac(p.dst, 32), mac(p.src, 16)].concat();
        fields.extend([u64::from(tci), u64::from(p.ethertype)]);
        (fields, encoded(|out| p.encode_tagged(tci, out)))
    },
};

const IPV6: Figure = Figure {
    name: "IPv6",
    len: 40,
    constants: &[((0, 0, 3), 6), ((1, 0, 15), 0), ((1, 16, 23), 17)],
    fields: &[
        (0, 4, 11),
        (0, 12, 31),
        (1, 24, 31),
        (2, 0, 31),
        (3, 0, 31),
        (4, 0, 31),
        (5, 0, 31),
        (6, 0, 31),
        (7, 0, 31),
        (8, 0, 31),
        (9, 0, 31),
    ],
    read: |bytes| {
        let p = Ipv6::decode(&mut SliceCursor::new(bytes)).expect("the constants make it valid");
        let mut fields = vec![p.traffic_class.into(), u64::from(p.flow_label), p.hop_limit.into()];
        fields.extend(words(&p.src));
        fields.extend(words(&p.dst));
        (fields, encoded(|out| p.encode(out)))
    },
};

const UDP: Figure = Figure {
    name: "UDP",
    len: 8,
    constants: &[((1, 0, 15), 8)],
    fields: &[(0, 0, 15), (0, 16, 31), (1, 16, 31)],
    read: |bytes| {
        let p = Udp::decode(&mut SliceCursor::new(bytes), 8).expect("the constants make it valid");
        (vec![p.src_port.into(), p.dst_port.into(), p.checksum.into()], encoded(|out| p.encode(out)))
    },
};

const BTH: Figure = Figure {
    name: "BTH, D-84",
    len: 12,
    constants: &[((0, 10, 11), 0), ((0, 12, 15), 0)],
    fields: &[(0, 0, 7), (0, 8, 8), (0, 9, 9), (0, 16, 31), (1, 8, 31), (2, 0, 0), (2, 8, 31)],
    read: |bytes| {
        let p = Bth::decode(&mut SliceCursor::new(bytes)).expect("the constants make it valid");
        let mut fields = vec![p.opcode.0.into(), p.solicited.into(), p.migration.into(), p.pkey.into()];
        fields.extend([u64::from(p.dest_qp), p.ack_request.into(), u64::from(p.psn)]);
        (fields, encoded(|out| p.encode(out)))
    },
};

const RETH: Figure = Figure {
    name: "RETH, D-84",
    len: 16,
    constants: &[],
    fields: &[(0, 0, 31), (1, 0, 31), (2, 0, 31), (3, 0, 31)],
    read: |bytes| {
        let p = Reth::decode(&mut SliceCursor::new(bytes)).expect("whole");
        let fields = vec![high(p.address), low(p.address), u64::from(p.rkey.0), u64::from(p.length)];
        (fields, encoded(|out| p.encode(out)))
    },
};

const ATOMIC_ETH: Figure = Figure {
    name: "AtomicETH, D-84",
    len: 28,
    constants: &[((1, 29, 31), 0)],
    fields: &[(0, 0, 31), (1, 0, 31), (2, 0, 31), (3, 0, 31), (4, 0, 31), (5, 0, 31), (6, 0, 31)],
    read: |bytes| {
        let p = AtomicEth::decode(&mut SliceCursor::new(bytes)).expect("the constants make it valid");
        let mut fields = vec![high(p.address), low(p.address), u64::from(p.rkey.0)];
        fields.extend([high(p.swap_or_add), low(p.swap_or_add), high(p.compare), low(p.compare)]);
        (fields, encoded(|out| p.encode(out)))
    },
};

const AETH: Figure = Figure {
    name: "AETH, D-84",
    len: 4,
    constants: &[],
    fields: &[(0, 0, 7), (0, 8, 31)],
    read: |bytes| {
        let p = Aeth::decode(&mut SliceCursor::new(bytes)).expect("whole");
        (vec![p.syndrome.into(), u64::from(p.msn)], encoded(|out| p.encode(out)))
    },
};

/// IPv4 is not here, because its checksum excludes random bytes. `golden` and `checksum` cover it.
const FIGURES: [Figure; 17] = [
    PULL_REQUEST,
    PULL_DATA,
    PUSH_DATA,
    RESYNC,
    BACK,
    EACK,
    NACK,
    PSP,
    PSP_VC,
    ETHERNET,
    ETHERNET_TAGGED,
    IPV6,
    UDP,
    BTH,
    RETH,
    ATOMIC_ETH,
    AETH,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 1000 }))]
    #[test]
    fn every_format_follows_its_figure(random in proptest::collection::vec(any::<u8>(), 72)) {
        for figure in &FIGURES {
            figure.check(&random);
        }
    }
}

/// F-7.7.2-6, D-09: reserved bits that are set change no field of an acknowledgement.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn every_single_bit_of_every_format() {
    for figure in &FIGURES {
        for bit in 0..figure.len * 8 {
            let mut bytes = vec![0; figure.len];
            bytes[bit / 8] = 0x80 >> (bit % 8);
            figure.check(&bytes);
        }
    }
}
