//! Decodes the layers of a packet.

use super::decoded::{DecodeError, Decoded, Field, Layer, Value};
use super::text;
use std::net::{Ipv4Addr, Ipv6Addr};
use transport_common::ids::Psn;
use transport_common::ulp::UlpCode;
use transport_common::ulp::rdma::{self, Aeth, Bth, RdmaError, RdmaPull, RdmaPush, RdmaResponse, Reth};
use transport_common::wire::ack::{Ack, AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::checksum::{
    checksum_holds, pseudo_header_v4, pseudo_header_v6, sum_bytes, sum_length,
};
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use transport_common::wire::inner::Inner;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::nack::{Nack, RNR_TIMEOUT_NANOS};
use transport_common::wire::psp::{NEXT_HEADER_FALCON, PLAINTEXT_VERSION, Psp};
use transport_common::wire::resync::Resync;
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{Cursor, FalconHeader, Malformed, ProtocolType, SliceCursor};

/// Number of payload bytes that are shown.
const SHOWN: usize = 64;

/// Why decoding ends before the end of the bytes.
pub(super) enum Stop {
    Malformed(DecodeError),
    Note(String),
}

/// The state of decoding.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    cursor: SliceCursor<'a>,
    layers: Vec<Layer>,
}

/// Decodes `bytes` with `walk`, and returns the result.
pub(super) fn decode(bytes: &[u8], walk: impl FnOnce(&mut Walk<'_>) -> Result<(), Stop>) -> Decoded {
    let mut state = Walk { bytes, cursor: SliceCursor::new(bytes), layers: Vec::new() };
    let (error, note) = match walk(&mut state) {
        Ok(()) => (None, None),
        Err(Stop::Malformed(error)) => {
            state.rest_from(error.offset);
            (Some(error), None)
        }
        Err(Stop::Note(note)) => (None, Some(note)),
    };
    Decoded { length: bytes.len(), layers: state.layers, error, note }
}

impl<'a> Walk<'a> {
    fn offset(&self) -> usize {
        self.bytes.len() - self.cursor.remaining()
    }

    /// Runs one decoder. Returns the header, and the offset at which it began.
    fn read<T, E>(
        &mut self,
        layer: &'static str,
        decoder: impl FnOnce(&mut SliceCursor<'a>) -> Result<T, E>,
    ) -> Result<(T, usize), Stop>
    where
        Malformed: From<E>,
    {
        let start = self.offset();
        match decoder(&mut self.cursor) {
            Ok(header) => Ok((header, start)),
            Err(reason) => Err(Stop::Malformed(DecodeError::new(layer, start, reason.into()))),
        }
    }

    /// Adds a layer that began at `start` and ends at the cursor.
    fn add(&mut self, name: &'static str, start: usize, fields: Vec<Field>) {
        self.layers.push(Layer { name, offset: start, length: self.offset() - start, fields });
    }

    /// Adds bytes without structure.
    fn add_bytes(&mut self, name: &'static str, start: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let mut shown: String = hex.chars().take(2 * SHOWN).collect();
        if bytes.len() > SHOWN {
            shown.push_str(" ...");
        }
        let fields = vec![Field { name: "bytes", value: Value::Text(hex), text: shown }];
        self.layers.push(Layer { name, offset: start, length: bytes.len(), fields });
    }

    fn rest_from(&mut self, start: usize) {
        self.add_bytes("Not decoded", start, &self.bytes[start..]);
    }
}

fn number(name: &'static str, value: impl Into<u64>) -> Field {
    let value = value.into();
    Field { name, value: Value::Number(value), text: value.to_string() }
}

/// Makes a field of a number with its meaning as text.
fn meaning(name: &'static str, value: impl Into<u64>, words: &str) -> Field {
    let value = value.into();
    Field { name, value: Value::Number(value), text: format!("{words} ({value})") }
}

/// Makes a field of a number with its own text.
fn told(name: &'static str, value: impl Into<u64>, text: String) -> Field {
    Field { name, value: Value::Number(value.into()), text }
}

fn hex(name: &'static str, value: impl Into<u64>, digits: usize) -> Field {
    let value = value.into();
    Field { name, value: Value::Number(value), text: format!("0x{value:0digits$x}") }
}

fn flag(name: &'static str, value: bool) -> Field {
    Field { name, value: Value::Flag(value), text: if value { "yes" } else { "no" }.into() }
}

fn address(name: &'static str, text: String) -> Field {
    Field { name, value: Value::Text(text.clone()), text }
}

/// Decodes an Ethernet frame.
pub(super) fn frame(w: &mut Walk<'_>) -> Result<(), Stop> {
    let (ethernet, start) = w.read("Ethernet", Ethernet::decode)?;
    let mut fields =
        vec![address("destination", text::mac(ethernet.dst)), address("source", text::mac(ethernet.src))];
    if let Some(tci) = ethernet.vlan {
        fields.push(number("vlan", tci & 0x0fff));
        fields.push(number("priority", tci >> 13));
    }
    let name = text::ethertype(ethernet.ethertype);
    let as_hex = format!("{name} (0x{:04x})", ethernet.ethertype);
    fields.push(told("ethertype", ethernet.ethertype, as_hex));
    w.add("Ethernet", start, fields);
    match ethernet.ethertype {
        ETHERTYPE_IPV4 => ipv4(w),
        ETHERTYPE_IPV6 => ipv6(w),
        _ => Err(Stop::Note(format!("not Falcon: the EtherType is {name}"))),
    }
}

fn ipv4(w: &mut Walk<'_>) -> Result<(), Stop> {
    let (ip, start) = w.read("IPv4", Ipv4::decode)?;
    w.add("IPv4", start, ipv4_fields(&ip));
    only_udp(ip.protocol)?;
    udp(w, ip.payload_length(), pseudo_header_v4(&ip.src, &ip.dst))
}

fn ipv4_fields(ip: &Ipv4) -> Vec<Field> {
    vec![
        number("dscp", ip.dscp_ecn >> 2),
        meaning("ecn", ip.dscp_ecn & 3, text::ecn(ip.dscp_ecn)),
        number("total_length", ip.total_length),
        hex("identification", ip.identification, 4),
        number("ttl", ip.ttl),
        meaning("protocol", ip.protocol, text::ip_protocol(ip.protocol)),
        address("source", Ipv4Addr::from(ip.src).to_string()),
        address("destination", Ipv4Addr::from(ip.dst).to_string()),
    ]
}

fn ipv6(w: &mut Walk<'_>) -> Result<(), Stop> {
    let (ip, start) = w.read("IPv6", Ipv6::decode)?;
    w.add("IPv6", start, ipv6_fields(&ip));
    only_udp(ip.next_header)?;
    udp(w, ip.payload_length, pseudo_header_v6(&ip.src, &ip.dst))
}

fn ipv6_fields(ip: &Ipv6) -> Vec<Field> {
    vec![
        number("dscp", ip.traffic_class >> 2),
        meaning("ecn", ip.traffic_class & 3, text::ecn(ip.traffic_class)),
        hex("flow_label", ip.flow_label, 5),
        number("payload_length", ip.payload_length),
        meaning("next_header", ip.next_header, text::ip_protocol(ip.next_header)),
        number("hop_limit", ip.hop_limit),
        address("source", Ipv6Addr::from(ip.src).to_string()),
        address("destination", Ipv6Addr::from(ip.dst).to_string()),
    ]
}

fn only_udp(protocol: u8) -> Result<(), Stop> {
    if protocol == IP_PROTOCOL_UDP {
        return Ok(());
    }
    Err(Stop::Note(format!("not Falcon: the IP payload is {} ({protocol})", text::ip_protocol(protocol))))
}

fn udp(w: &mut Walk<'_>, ip_payload: u16, pseudo_header: u64) -> Result<(), Stop> {
    let (udp, start) = w.read("UDP", |c| Udp::decode(c, ip_payload))?;
    // The decoder has checked that the datagram is within the frame.
    let datagram = &w.bytes[start..start + usize::from(udp.length)];
    let verdict = if udp.checksum == 0 {
        "none (0)".to_owned()
    } else if checksum_holds(pseudo_header + sum_length(udp.length) + sum_bytes(datagram)) {
        format!("0x{:04x}, correct", udp.checksum)
    } else {
        format!("0x{:04x}, WRONG: a node drops this packet", udp.checksum)
    };
    let fields = vec![
        number("source_port", udp.src_port),
        number("destination_port", udp.dst_port),
        number("length", udp.length),
        told("checksum", udp.checksum, verdict),
    ];
    w.add("UDP", start, fields);
    if udp.dst_port != FALCON_UDP_PORT {
        let note = format!("not Falcon: the UDP destination port is {}, not {FALCON_UDP_PORT}", udp.dst_port);
        return Err(Stop::Note(note));
    }
    psp(w, usize::from(udp.payload_length()))
}

fn psp(w: &mut Walk<'_>, datagram: usize) -> Result<(), Stop> {
    // Bytes after the datagram do not belong to it. A header that extends beyond the datagram is truncated.
    let (psp, start) = w.read("PSP", |c| match Psp::decode(c) {
        Ok(psp) if psp.header_len() <= datagram => Ok(psp),
        Err(reason) if datagram >= Psp::LEN => Err(reason),
        _ => Err(Malformed::PspTruncated),
    })?;
    let mut fields = vec![
        meaning("next_header", psp.next_header, text::ip_protocol(psp.next_header)),
        number("header_ext_len", psp.ext_len),
        told(
            "crypt_offset",
            psp.crypt_offset,
            format!("{} ({} bytes)", psp.crypt_offset, 4 * psp.crypt_offset),
        ),
        flag("sample", psp.sample),
        flag("drop", psp.drop),
        meaning("version", psp.version, text::psp_version(psp.version)),
        flag("virtualisation_cookie", psp.has_vc),
        hex("spi", psp.spi.0, 8),
        told("iv", psp.iv.0, format!("{} ps = {}", psp.iv.0, text::picoseconds(psp.iv))),
    ];
    if psp.has_vc {
        fields.push(hex("vc", psp.vc, 16));
    }
    w.add("PSP", start, fields);
    let room = datagram - psp.header_len();
    let length = if psp.next_header == NEXT_HEADER_FALCON { room } else { inner(w, psp.next_header, room)? };
    if psp.version == PLAINTEXT_VERSION { falcon(w, length) } else { encrypted(w, length) }
}

/// Decodes the inner IP header of a tunnel, which is never encrypted (F-7.1.2-1). Returns the length of the Falcon packet.
fn inner(w: &mut Walk<'_>, next_header: u8, room: usize) -> Result<usize, Stop> {
    // Bytes after the datagram do not belong to it.
    let (header, start) = w.read("Inner IP", |c| {
        let mut datagram = SliceCursor::new(c.rest().get(..room).unwrap_or(c.rest()));
        let header = Inner::decode(&mut datagram, next_header, room as u32)?;
        *c = SliceCursor::new(&c.rest()[Inner::header_len(next_header) as usize..]);
        Ok::<_, Malformed>(header)
    })?;
    match header {
        Inner::V4(ip) => w.add("Inner IPv4", start, ipv4_fields(&ip)),
        Inner::V6(ip) => w.add("Inner IPv6", start, ipv6_fields(&ip)),
    }
    Ok(room - Inner::header_len(next_header) as usize)
}

/// Decodes an encrypted packet, of which only the first Falcon word can be read (F-7.1-3).
fn encrypted(w: &mut Walk<'_>, length: usize) -> Result<(), Stop> {
    let start = w.offset();
    let rest = &w.cursor.rest()[..length.min(w.cursor.remaining())];
    let word = match rest.first_chunk::<4>() {
        Some(word) => u32::from_be_bytes(*word),
        None => return Err(Stop::Malformed(DecodeError::new("Falcon", start, Malformed::FalconTruncated))),
    };
    let fields = vec![number("version", word >> 28), number("dest_cid", word & 0x00ff_ffff)];
    w.layers.push(Layer { name: "Falcon, first word", offset: start, length: 4, fields });
    w.add_bytes("Encrypted", start + 4, &rest[4..]);
    Err(Stop::Note("encrypted: nothing after the first Falcon word can be read without the key".into()))
}

/// Decodes a Falcon packet that extends to the end of the bytes.
pub(super) fn bare_falcon(w: &mut Walk<'_>) -> Result<(), Stop> {
    falcon(w, w.bytes.len())
}

fn falcon(w: &mut Walk<'_>, length: usize) -> Result<(), Stop> {
    let (header, start) = w.read("Falcon", |c| FalconHeader::decode(c, length))?;
    let payload = length - header.header_len();
    let (name, fields) = match &header {
        FalconHeader::PullRequest(p) => ("Falcon Pull Request", with_length(&p.base, p.request_length)),
        FalconHeader::PushData(p) => ("Falcon Push Data", with_length(&p.base, p.request_length)),
        FalconHeader::PullData(p) => ("Falcon Pull Data", base_fields(&p.base)),
        FalconHeader::Resync(p) => ("Falcon Resync", resync_fields(p)),
        FalconHeader::Ack(Ack::Back(p)) => ("Falcon BACK", ack_fields(p)),
        FalconHeader::Ack(Ack::Eack(p)) => ("Falcon EACK", eack_fields(p)),
        FalconHeader::Nack(p) => ("Falcon NACK", nack_fields(p)),
    };
    w.add(name, start, fields);
    let end = start + length;
    match &header {
        FalconHeader::PullRequest(p) if is_rdma(&p.base) => rdma_pull(w, payload, p.request_length)?,
        FalconHeader::PushData(p) if is_rdma(&p.base) => rdma_push(w, payload)?,
        FalconHeader::PullData(p) if is_rdma(&p.base) => rdma_response(w, payload)?,
        _ => {}
    }
    let data_start = w.offset();
    let data = &w.bytes[data_start..end];
    w.add_bytes("Data", data_start, data);
    Ok(())
}

fn is_rdma(base: &BaseHeader) -> bool {
    base.protocol == ProtocolType::Rdma as u8
}

fn base_fields(base: &BaseHeader) -> Vec<Field> {
    vec![
        number("dest_cid", base.dest_cid.0),
        number("dest_function", base.dest_function),
        meaning("protocol_type", base.protocol, text::protocol(base.protocol)),
        meaning("packet_type", base.packet_type as u8, text::packet_type(base.packet_type)),
        flag("ack_request", base.ack_request),
        number("data_window.base_psn", base.data_base_psn.0),
        number("request_window.base_psn", base.request_base_psn.0),
        number("psn", base.psn.0),
        number("rsn", base.rsn.0),
    ]
}

fn with_length(base: &BaseHeader, request_length: u16) -> Vec<Field> {
    let mut fields = base_fields(base);
    fields.push(told("request_length", request_length, text::bytes(request_length.into())));
    fields
}

fn resync_fields(resync: &Resync) -> Vec<Field> {
    let mut fields = base_fields(&resync.base);
    fields.extend([
        meaning("resync_code", resync.code.0, text::resync_code(resync.code)),
        meaning("resync_packet_type", resync.packet_type as u8, text::packet_type(resync.packet_type)),
        hex("vendor_defined", resync.vendor, 8),
    ]);
    fields
}

fn congestion_fields(cc: &CongestionInfo) -> [Field; 4] {
    [
        number("forward_hops", cc.forward_hops),
        number("rx_buffer_level", cc.rx_buffer_level),
        number("ecn_count", cc.ecn_count),
        hex("rue_info", cc.rue, 6),
    ]
}

fn ack_fields(ack: &AckHeader) -> Vec<Field> {
    let mut fields = vec![
        number("dest_cid", ack.dest_cid.0),
        number("data_window.base_psn", ack.data_base_psn.0),
        number("request_window.base_psn", ack.request_base_psn.0),
        told("t1", ack.t1.0, text::falcon_time(ack.t1)),
        told("t2", ack.t2.0, text::falcon_time(ack.t2)),
    ];
    fields.extend(congestion_fields(&ack.cc));
    fields.extend([flag("own_data", ack.own_data), flag("own_request", ack.own_request)]);
    fields
}

/// Makes the field of a bitmap: the highest bit first as on the wire, and the PSNs whose bits are set.
fn bitmap(name: &'static str, base: Psn, words: &[u64]) -> Field {
    let digits: String = words.iter().rev().map(|word| format!("{word:016x}")).collect();
    Field { name, value: Value::Text(digits), text: text::psns(base, words) }
}

fn eack_fields(eack: &Eack) -> Vec<Field> {
    let (data, request) = (eack.header.data_base_psn, eack.header.request_base_psn);
    let mut fields = ack_fields(&eack.header);
    fields.extend([
        bitmap("data_window.ack_bitmap", data, &eack.data_ack),
        bitmap("data_window.rx_bitmap", data, &eack.data_received),
        bitmap("request_window.bitmap", request, &[eack.request]),
    ]);
    fields
}

fn nack_fields(nack: &Nack) -> Vec<Field> {
    let mut fields = vec![
        number("dest_cid", nack.dest_cid.0),
        number("data_window.base_psn", nack.data_base_psn.0),
        number("request_window.base_psn", nack.request_base_psn.0),
        told("t1", nack.t1.0, text::falcon_time(nack.t1)),
        told("t2", nack.t2.0, text::falcon_time(nack.t2)),
    ];
    fields.extend(congestion_fields(&nack.cc));
    let window = if nack.request_window { "request window" } else { "data window" };
    let rnr_nanos = RNR_TIMEOUT_NANOS[usize::from(nack.rnr_timeout_code & 0x1f)];
    let rnr = format!("{}.{:02} ms", rnr_nanos / 1_000_000, rnr_nanos % 1_000_000 / 10_000);
    fields.extend([
        number("psn", nack.psn.0),
        meaning("nack_code", nack.code.0, text::nack_code(nack.code)),
        meaning("rnr_timeout_code", nack.rnr_timeout_code, &rnr),
        Field { name: "window", value: Value::Flag(nack.request_window), text: window.into() },
        meaning("ulp_nack_code", nack.ulp_code, text::ulp_code(UlpCode(nack.ulp_code))),
    ]);
    fields
}

fn bth(w: &mut Walk<'_>, payload: usize) -> Result<Bth, Stop> {
    let (bth, start) =
        w.read("RDMA BTH", |c| if payload < Bth::LEN { Err(RdmaError::Truncated) } else { Bth::decode(c) })?;
    let opcode = format!("{} (0x{:02x})", text::rdma_opcode(bth.opcode), bth.opcode.0);
    let fields = vec![
        told("opcode", bth.opcode.0, opcode),
        flag("solicited_event", bth.solicited),
        flag("migration", bth.migration),
        hex("p_key", bth.pkey, 4),
        number("destination_qp", bth.dest_qp),
        flag("ack_request", bth.ack_request),
        told("psn", bth.psn, format!("{} (segment of the operation)", bth.psn)),
    ];
    w.add("RDMA BTH", start, fields);
    Ok(bth)
}

fn reth_fields(reth: &Reth) -> Vec<Field> {
    vec![
        told("address", reth.address, format!("0x{:x} (offset in the region)", reth.address)),
        hex("r_key", reth.rkey.0, 8),
        told("length", reth.length, text::bytes(reth.length as usize)),
    ]
}

fn rdma_push(w: &mut Walk<'_>, payload: usize) -> Result<(), Stop> {
    let bth = bth(w, payload)?;
    let ((push, _), start) = w.read("RDMA operation", |c| rdma::decode_push_after(&bth, c, payload))?;
    let (name, mut fields, immediate) = match push {
        RdmaPush::Write { reth, immediate } => ("RDMA WRITE", reth_fields(&reth), immediate),
        RdmaPush::Send { position, immediate } => {
            let text = format!("{position:?}").to_lowercase();
            ("RDMA SEND", vec![address("position", text)], immediate)
        }
    };
    if let Some(immediate) = immediate {
        fields.push(hex("immediate", immediate, 8));
    }
    w.add(name, start, fields);
    Ok(())
}

fn rdma_pull(w: &mut Walk<'_>, payload: usize, request_length: u16) -> Result<(), Stop> {
    let bth = bth(w, payload)?;
    let decoder = |c: &mut SliceCursor<'_>| rdma::decode_pull_after(&bth, c, payload, request_length);
    let (pull, start) = w.read("RDMA operation", decoder)?;
    let (name, fields) = match pull {
        RdmaPull::Read { reth } => ("RDMA READ", reth_fields(&reth)),
        RdmaPull::CompareSwap { atomic } => (
            "RDMA Compare and Swap",
            vec![
                hex("address", atomic.address, 1),
                hex("r_key", atomic.rkey.0, 8),
                number("swap", atomic.swap_or_add),
                number("compare", atomic.compare),
            ],
        ),
        RdmaPull::FetchAdd { atomic } => (
            "RDMA Fetch and Add",
            vec![
                hex("address", atomic.address, 1),
                hex("r_key", atomic.rkey.0, 8),
                number("add", atomic.swap_or_add),
            ],
        ),
    };
    w.add(name, start, fields);
    Ok(())
}

fn rdma_response(w: &mut Walk<'_>, payload: usize) -> Result<(), Stop> {
    let bth = bth(w, payload)?;
    let (aeth, start) = w.read("RDMA AETH", |c| {
        if payload < rdma::RESPONSE_HEADER_LEN { Err(RdmaError::Truncated) } else { Aeth::decode(c) }
    })?;
    let words = match (aeth.syndrome, aeth.error_code()) {
        (Aeth::SUCCESS, _) => "success",
        (_, Some(code)) => text::ulp_code(code),
        _ => "unknown",
    };
    let syndrome = format!("{words} (0x{:02x})", aeth.syndrome);
    w.add("RDMA AETH", start, vec![told("syndrome", aeth.syndrome, syndrome), number("msn", aeth.msn)]);
    let decoder = |c: &mut SliceCursor<'_>| rdma::decode_response_after(&bth, &aeth, c, payload);
    let ((response, _), start) = w.read("RDMA response", decoder)?;
    if let RdmaResponse::Atomic { original } = response {
        w.add("RDMA atomic response", start, vec![number("original_value", original)]);
    }
    Ok(())
}
