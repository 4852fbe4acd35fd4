//! Properties that the decoders must have for any bytes. The fuzz target and the replay share this file. It uses
//! only `transport_common`.

use transport_common::ulp::rdma::{self, RdmaPull, RdmaPush, RdmaResponse};
use transport_common::wire::ack::Ack;
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use transport_common::wire::inner::Inner;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::{NEXT_HEADER_FALCON, NEXT_HEADER_IPV4, NEXT_HEADER_IPV6, Psp};
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{Cursor, FalconHeader, Malformed, ProtocolType, SliceCursor};

/// Either IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ip {
    V4(Ipv4),
    V6(Ipv6),
}

/// The RDMA operation of a packet that carries one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Push(RdmaPush, usize),
    Pull(RdmaPull),
    Response(RdmaResponse, usize),
}

/// Every header of a Falcon frame, and the length of its Falcon payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) ethernet: Ethernet,
    pub(crate) ip: Ip,
    pub(crate) udp: Udp,
    pub(crate) psp: Psp,
    /// The inner IP header in tunnel mode (F-7.1.2-1).
    pub(crate) inner: Option<Inner>,
    pub(crate) falcon: FalconHeader,
    pub(crate) operation: Option<Operation>,
    pub(crate) payload_len: usize,
}

/// Verdict on a frame: not Falcon, Falcon, or malformed.
pub(crate) type Verdict = Result<Option<Packet>, Malformed>;

/// Decodes a frame from its first byte. The cursor ends after the last header.
pub(crate) fn decode_frame<C: Cursor>(c: &mut C) -> Verdict {
    let ethernet = Ethernet::decode(c)?;
    let (ip, protocol, ip_payload) = match ethernet.ethertype {
        ETHERTYPE_IPV4 => {
            let ip = Ipv4::decode(c)?;
            (Ip::V4(ip), ip.protocol, ip.payload_length())
        }
        ETHERTYPE_IPV6 => {
            let ip = Ipv6::decode(c)?;
            (Ip::V6(ip), ip.next_header, ip.payload_length)
        }
        _ => return Ok(None),
    };
    if protocol != IP_PROTOCOL_UDP {
        return Ok(None);
    }
    let udp = Udp::decode(c, ip_payload)?;
    if udp.dst_port != FALCON_UDP_PORT {
        return Ok(None);
    }
    // A PSP header that extends beyond its datagram is truncated, even if padding follows in the frame.
    let datagram = usize::from(udp.payload_length());
    if datagram < Psp::LEN {
        return Err(Malformed::PspTruncated);
    }
    let psp = Psp::decode(c)?;
    let Some(room) = datagram.checked_sub(psp.header_len()) else {
        return Err(Malformed::PspTruncated);
    };
    let (inner, falcon_length) = if psp.next_header == NEXT_HEADER_FALCON {
        (None, room)
    } else {
        let inner = Inner::decode(c, psp.next_header, room as u32)?;
        (Some(inner), room - Inner::header_len(psp.next_header) as usize)
    };
    let falcon = FalconHeader::decode(c, falcon_length)?;
    let payload_len = falcon_length - falcon.header_len();
    let operation = decode_operation(c, &falcon, payload_len)?;
    Ok(Some(Packet { ethernet, ip, udp, psp, inner, falcon, operation, payload_len }))
}

fn decode_operation<C: Cursor>(
    c: &mut C,
    falcon: &FalconHeader,
    payload_len: usize,
) -> Result<Option<Operation>, Malformed> {
    let operation = match falcon {
        FalconHeader::PushData(p) if p.base.protocol == ProtocolType::Rdma as u8 => {
            let (push, len) = rdma::decode_push(c, payload_len)?;
            Operation::Push(push, len)
        }
        FalconHeader::PullRequest(p) if p.base.protocol == ProtocolType::Rdma as u8 => {
            Operation::Pull(rdma::decode_pull(c, payload_len, p.request_length)?)
        }
        FalconHeader::PullData(p) if p.base.protocol == ProtocolType::Rdma as u8 => {
            let (response, len) = rdma::decode_response(c, payload_len)?;
            Operation::Response(response, len)
        }
        _ => return Ok(None),
    };
    Ok(Some(operation))
}

/// The second cursor: start and end, with a check before every read, as with packet pointers.
struct BoundsCursor<'a> {
    bytes: &'a [u8],
    data: usize,
    data_end: usize,
}

impl Cursor for BoundsCursor<'_> {
    type Taken<const N: usize> = [u8; N];

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.data + N > self.data_end {
            return None;
        }
        let at = self.data;
        self.data += N;
        Some(std::array::from_fn(|i| self.bytes[at + i]))
    }

    fn remaining(&self) -> usize {
        self.data_end - self.data
    }
}

/// Encodes the headers of `packet` up to Falcon, followed by `payload`.
pub(crate) fn encode_frame(packet: &Packet, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match packet.ethernet.vlan {
        Some(tci) => append(&mut out, |b| packet.ethernet.encode_tagged(tci, b)),
        None => append(&mut out, |b| packet.ethernet.encode(b)),
    }
    match &packet.ip {
        Ip::V4(ip) => append(&mut out, |b| ip.encode(b)),
        Ip::V6(ip) => append(&mut out, |b| ip.encode(b)),
    }
    append(&mut out, |b| packet.udp.encode(b));
    if packet.psp.has_vc {
        append(&mut out, |b| packet.psp.encode_with_vc(b));
    } else {
        append(&mut out, |b| packet.psp.encode(b));
    }
    match &packet.inner {
        Some(Inner::V4(ip)) => append(&mut out, |b| ip.encode(b)),
        Some(Inner::V6(ip)) => append(&mut out, |b| ip.encode(b)),
        None => {}
    }
    match &packet.falcon {
        FalconHeader::PullRequest(p) => append(&mut out, |b| p.encode(b)),
        FalconHeader::PushData(p) => append(&mut out, |b| p.encode(b)),
        FalconHeader::PullData(p) => append(&mut out, |b| p.encode(b)),
        FalconHeader::Resync(p) => append(&mut out, |b| p.encode(b)),
        FalconHeader::Ack(Ack::Back(p)) => append(&mut out, |b| p.encode(b)),
        FalconHeader::Ack(Ack::Eack(p)) => append(&mut out, |b| p.encode(b)),
        FalconHeader::Nack(p) => append(&mut out, |b| p.encode(b)),
    }
    out.extend(payload);
    out
}

/// Appends one header. It is encoded over a filled buffer, so that a forgotten byte is visible.
pub(crate) fn append<const N: usize>(out: &mut Vec<u8>, encode: impl FnOnce(&mut [u8; N])) {
    let mut bytes = [0xa5; N];
    encode(&mut bytes);
    out.extend(bytes);
}

/// Decodes `bytes` in every way, and checks the properties that hold for any bytes.
///
/// # Panics
/// If a decoder panics, or if one of the properties does not hold.
pub(crate) fn exercise(bytes: &[u8]) -> Verdict {
    let mut cursor = SliceCursor::new(bytes);
    let verdict = decode_frame(&mut cursor);
    let mut bounds = BoundsCursor { bytes, data: 0, data_end: bytes.len() };
    assert_eq!(decode_frame(&mut bounds), verdict, "both cursors must give the same result");
    assert_eq!(bounds.remaining(), cursor.remaining(), "both cursors must end at the same place");
    if let Ok(Some(packet)) = &verdict {
        check_packet(bytes, packet);
    }
    exercise_inner_layers(bytes);
    verdict
}

fn check_packet(bytes: &[u8], packet: &Packet) {
    // A decoded packet can be encoded, and decodes to the same packet again.
    let header_len = encode_frame(packet, &[]).len();
    let payload = &bytes[header_len..header_len + packet.payload_len];
    let mut again = encode_frame(packet, payload);
    let declared = again.len();
    let beyond = match &packet.ip {
        Ip::V4(ip) => ip.payload_length(),
        Ip::V6(ip) => ip.payload_length,
    } - packet.udp.length;
    again.resize(declared + usize::from(beyond), 0);
    assert_eq!(decode_frame(&mut SliceCursor::new(&again)), Ok(Some(*packet)), "round trip");
    // A frame that ends before its datagram is refused wherever it ends. One position per run is enough.
    let cut = bytes.iter().fold(0usize, |h, b| h.wrapping_mul(31).wrapping_add(usize::from(*b))) % declared;
    assert!(decode_frame(&mut SliceCursor::new(&bytes[..cut])).is_err(), "cut at {cut}");
}

/// Runs the inner decoders on the bytes themselves: they must be safe without the layers before them.
fn exercise_inner_layers(bytes: &[u8]) {
    let cursor = || SliceCursor::new(bytes);
    for length in [0, bytes.len() / 2, bytes.len(), bytes.len() + 1, usize::MAX] {
        if let Ok(header) = FalconHeader::decode(&mut cursor(), length) {
            assert!(header.header_len() <= length && length <= bytes.len());
        }
        if let Ok((_, header_len)) = rdma::decode_push(&mut cursor(), length) {
            assert!(header_len <= length);
        }
        if let Ok((_, header_len)) = rdma::decode_response(&mut cursor(), length) {
            assert!(header_len <= length);
        }
        if let Ok(RdmaPull::Read { reth }) = rdma::decode_pull(&mut cursor(), length, length as u16) {
            assert!(reth.length as usize <= usize::from(u16::MAX));
        }
    }
    if let Ok(udp) = Udp::decode(&mut cursor(), u16::MAX) {
        assert!(usize::from(udp.length) <= bytes.len());
    }
    if let Ok(psp) = Psp::decode(&mut cursor()) {
        assert!(psp.header_len() <= bytes.len());
    }
    for next_header in [NEXT_HEADER_IPV4, NEXT_HEADER_IPV6] {
        for room in [bytes.len() as u32, u32::MAX] {
            if Inner::decode(&mut cursor(), next_header, room).is_ok() {
                assert!(Inner::header_len(next_header) <= room && room as usize <= bytes.len());
            }
        }
    }
}
