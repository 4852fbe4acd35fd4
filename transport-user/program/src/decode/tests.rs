use super::*;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;
use std::io::Cursor;
use std::time::Duration;

/// A 3-byte RDMA WRITE: Ethernet, IPv4, UDP with checksum, PSP in plaintext mode, Push Data, BTH, RETH, data.
const WRITE: &str = "
    02 00 00 00 00 02  02 00 00 00 00 01  08 00
    45 02 00 67 12 34 40 00 ff 11 55 3f 0a 07 00 01 0a 07 00 02
    c0 01 03 e8 00 53 8f 5d
    fc 01 01 3d 00 00 10 01 00 00 00 e8 d4 a5 10 00
    10 00 00 05 00 00 00 4b 00 00 02 bc ff ff ff fe 00 00 01 2c 00 00 00 07 00 00 00 1f
    0a 00 ff ff 00 00 00 05 00 00 00 00  00 00 00 00 00 00 10 00 00 00 00 01 00 00 00 03
    aa bb cc";

/// An EACK for connection 10: received 301 to 303 and 310, not 300; request 101.
const EACK: &str = "1000000a 00000014 0000012c 00000064 00010000 00010100 22800000 00000002
    00000000 00000000 00000000 00000000
    00000000 00000000 00000000 0000040e
    00000000 00000002";

fn frame() -> Vec<u8> {
    parse_hex(WRITE).expect("hexadecimal")
}

fn field<'a>(decoded: &'a Decoded, layer: &str, name: &str) -> &'a Field {
    let layer =
        decoded.layers.iter().find(|l| l.name == layer).unwrap_or_else(|| panic!("{layer} in {decoded}"));
    layer.fields.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name} in {layer}"))
}

fn names(decoded: &Decoded) -> Vec<&str> {
    decoded.layers.iter().map(|l| l.name).collect()
}

#[test]
fn what_reaches_the_falcon_port_is_told_from_the_rest() {
    assert!(decode_frame(&frame()).is_falcon());
    assert!(decode_falcon(&parse_hex(EACK).unwrap()).is_falcon());
    let (mut other, mut cut) = (frame(), frame());
    other[36] ^= 1; // the UDP destination port
    assert!(!decode_frame(&other).is_falcon());
    assert!(!decode_frame(&[0]).is_falcon());
    cut[43] |= 2; // the header extension of PSP
    assert!(decode_frame(&cut).is_falcon());
}

#[test]
fn every_layer_of_a_write() {
    let decoded = decode_frame(&frame());
    assert_eq!(decoded.error, None, "{decoded}");
    assert_eq!(
        names(&decoded),
        ["Ethernet", "IPv4", "UDP", "PSP", "Falcon Push Data", "RDMA BTH", "RDMA WRITE", "Data"]
    );
    // The layers cover the frame without gaps.
    let mut at = 0;
    for layer in &decoded.layers {
        assert_eq!(layer.offset, at, "{layer}");
        at += layer.length;
    }
    assert_eq!(at, decoded.length);
    assert_eq!(field(&decoded, "Ethernet", "source").text, "02:00:00:00:00:01");
    assert_eq!(field(&decoded, "IPv4", "ecn").text, "ECT(0) (2)");
    assert_eq!(field(&decoded, "UDP", "checksum").text, "0x8f5d, correct");
    assert_eq!(field(&decoded, "PSP", "version").text, "plaintext lab mode (15)");
    assert_eq!(field(&decoded, "PSP", "iv").text, "1000000000000 ps = 1.000000000000 s");
    assert_eq!(field(&decoded, "Falcon Push Data", "psn").value, Value::Number(300));
    assert_eq!(field(&decoded, "Falcon Push Data", "packet_type").text, "Push Data (5)");
    assert_eq!(field(&decoded, "Falcon Push Data", "ack_request").value, Value::Flag(true));
    assert_eq!(field(&decoded, "RDMA BTH", "opcode").text, "RDMA WRITE Only (0x0a)");
    assert_eq!(field(&decoded, "RDMA WRITE", "length").text, "3 bytes");
    assert_eq!(field(&decoded, "Data", "bytes").value, Value::Text("aabbcc".into()));
}

#[test]
fn display_is_indented() {
    let text = decode_frame(&frame()).to_string();
    assert!(
        text.starts_with(
            "Ethernet (14 bytes at byte 0)\n    destination                 02:00:00:00:00:02\n"
        )
    );
    assert!(
        text.contains("\nRDMA WRITE (16 bytes at byte 98)\n    address                     0x1000"),
        "{text}"
    );
    assert!(text.ends_with("Data (3 bytes at byte 114)\n    bytes                       aabbcc\n"), "{text}");
}

#[test]
fn json_has_value_and_text() {
    let json = serde_json::to_value(decode_frame(&frame())).expect("plain data");
    let psn = &json["layers"][4]["fields"][7];
    assert_eq!(psn, &serde_json::json!({"name": "psn", "value": 300, "text": "300"}));
    assert_eq!(json["error"], serde_json::Value::Null);
}

#[test]
fn bare_falcon_packets_and_bitmaps() {
    let decoded = decode_falcon(&parse_hex(EACK).expect("hexadecimal"));
    assert_eq!((names(&decoded), &decoded.error), (vec!["Falcon EACK"], &None), "{decoded}");
    assert_eq!(field(&decoded, "Falcon EACK", "data_window.rx_bitmap").text, "301-303, 310");
    assert_eq!(field(&decoded, "Falcon EACK", "data_window.ack_bitmap").text, "none");
    assert_eq!(field(&decoded, "Falcon EACK", "request_window.bitmap").text, "101");
    assert_eq!(field(&decoded, "Falcon EACK", "own_data").text, "yes");
    assert_eq!(field(&decoded, "Falcon EACK", "forward_hops").value, Value::Number(2));
    assert_eq!(field(&decoded, "Falcon EACK", "t1").text, "65536 ticks = 0.008589934 s");
}

#[test]
fn bitmaps_name_psns_across_the_wrap() {
    let base = transport_common::ids::Psn(u32::MAX);
    assert_eq!(text::psns(base, &[0b11]), "4294967295-0");
    assert_eq!(text::psns(base, &[1 << 63, 1]), "62-63");
    assert_eq!(text::psns(base, &[u64::MAX, u64::MAX]), "4294967295-126");
}

#[test]
fn nack_in_words() {
    let nack = "1000000a 00000010 0000012c 00000064 00010000 00010100 22800000 00000000 0000012d 02010001";
    let decoded = decode_falcon(&parse_hex(nack).expect("hexadecimal"));
    assert_eq!(field(&decoded, "Falcon NACK", "nack_code").text, "receiver not ready (2)");
    assert_eq!(field(&decoded, "Falcon NACK", "rnr_timeout_code").text, "0.01 ms (1)");
    assert_eq!(field(&decoded, "Falcon NACK", "window").text, "data window");
}

#[test]
fn an_error_names_layer_offset_and_reason_and_keeps_what_was_read() {
    let mut bytes = frame();
    bytes[58] = 0x20;
    let decoded = decode_frame(&bytes);
    let error = decoded.error.as_ref().expect("the version is wrong");
    assert_eq!((error.layer, error.offset, error.reason), ("Falcon", 58, "falcon_version"));
    assert_eq!(error.to_string(), "Falcon at byte 58: the Falcon version is not 1 (falcon_version)");
    assert_eq!(names(&decoded), ["Ethernet", "IPv4", "UDP", "PSP", "Not decoded"]);
    assert!(decoded.to_string().ends_with("(falcon_version)\n"));
}

#[test]
fn a_wrong_udp_checksum_is_told() {
    let mut bytes = frame();
    *bytes.last_mut().expect("not empty") ^= 1;
    let decoded = decode_frame(&bytes);
    assert!(field(&decoded, "UDP", "checksum").text.contains("WRONG"), "{decoded}");
}

#[test]
fn foreign_frames_are_no_error() {
    let mut bytes = frame();
    bytes[12..14].copy_from_slice(&[0x08, 0x06]);
    let decoded = decode_frame(&bytes);
    assert_eq!((decoded.error, decoded.note.as_deref()), (None, Some("not Falcon: the EtherType is ARP")));
    let mut bytes = frame();
    bytes[37] = 0xe9;
    let note = decode_frame(&bytes).note.expect("another port");
    assert_eq!(note, "not Falcon: the UDP destination port is 1001, not 1000");
}

#[test]
fn of_an_encrypted_packet_the_first_word_is_read() {
    // F-7.1-3
    let mut bytes = frame();
    bytes[45] = 0x01; // AES-GCM-128
    let decoded = decode_frame(&bytes);
    assert_eq!(field(&decoded, "Falcon, first word", "dest_cid").value, Value::Number(5));
    assert_eq!(names(&decoded).last(), Some(&"Encrypted"));
    assert!(decoded.note.expect("a note").starts_with("encrypted"));
}

#[test]
fn every_cut_tells_why() {
    let whole = frame();
    for cut in 0..whole.len() {
        let decoded = decode_frame(&whole[..cut]);
        let error = decoded.error.as_ref().unwrap_or_else(|| panic!("cut at {cut}: {decoded}"));
        assert!(error.offset <= cut, "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..120, byte: u8, cut in 0usize..120,
    ) {
        // Random bytes rarely get past the Ethernet header. A good frame that is cut or has one byte changed does.
        let mut changed = frame();
        if let Some(b) = changed.get_mut(at) {
            *b = byte;
        }
        changed.truncate(cut.max(20));
        for decoded in [decode_frame(&bytes), decode_falcon(&bytes), decode_frame(&changed)] {
            let end = decoded.layers.iter().map(|l| l.offset + l.length).max().unwrap_or(0);
            prop_assert!(end <= decoded.length);
            prop_assert!(!decoded.to_string().is_empty() || decoded.length == 0);
        }
        let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        if !bytes.is_empty() {
            prop_assert_eq!(parse_hex(&text), Ok(bytes.clone()));
        }
        bytes.push(0);
        let colons: Vec<String> = bytes.iter().map(|b| format!("{b:02X}")).collect();
        prop_assert_eq!(parse_hex(&colons.join(":")), Ok(bytes));
    }
}

#[test]
fn hex_in_every_dress() {
    let expected = Ok(vec![0xde, 0xad, 0xbe, 0xef]);
    for text in [
        "deadbeef",
        "DE AD be ef",
        "de:ad:be:ef",
        "0xdeadbeef",
        "0xde, 0xad,\n0xbe\t0xef\r\n",
        "de-ad\n\nbeef",
    ] {
        assert_eq!(parse_hex(text), expected, "{text}");
    }
    let tcpdump = "\t0x0000:  dead\n\t0x0010:  beef\n";
    assert_eq!(parse_hex(tcpdump), expected);
}

#[test]
fn hex_errors_say_where() {
    assert_eq!(parse_hex(" \n"), Err(HexError::Empty));
    assert_eq!(parse_hex("dead\n  be e"), Err(HexError::OddDigits { line: 2, column: 6, group: "e".into() }));
    assert_eq!(parse_hex("ab 0xcg"), Err(HexError::NotADigit { line: 1, column: 7, found: 'g' }));
    assert_eq!(parse_hex("0x"), Err(HexError::OddDigits { line: 1, column: 1, group: "0x".into() }));
    let message = parse_hex("abc").expect_err("odd").to_string();
    assert!(message.starts_with("line 1, column 1: \"abc\" has an odd number of digits"), "{message}");
}

fn read(bytes: Vec<u8>) -> Result<Capture, CaptureError> {
    Capture::new(Box::new(Cursor::new(bytes)))
}

fn pcap(resolution: TsResolution, endianness: Endianness, datalink: DataLink) -> Vec<u8> {
    let header = PcapHeader { ts_resolution: resolution, endianness, datalink, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).expect("a Vec takes everything");
    for second in 1..=2 {
        let data = frame();
        let at = Duration::new(second, 5_000);
        writer.write_packet(&PcapPacket::new(at, data.len() as u32, &data)).expect("a Vec takes everything");
    }
    writer.into_writer()
}

#[test]
fn pcap_of_either_byte_order_and_resolution() {
    for resolution in [TsResolution::MicroSecond, TsResolution::NanoSecond] {
        for endianness in [Endianness::Big, Endianness::Little] {
            let capture = read(pcap(resolution, endianness, DataLink::ETHERNET)).expect("a capture");
            let frames: Vec<_> = capture.map(|f| f.expect("a frame")).collect();
            assert_eq!(frames.len(), 2);
            assert_eq!((frames[1].number, frames[1].timestamp), (2, Some(Duration::new(2, 5_000))));
            assert_eq!(decode_frame(&frames[0].data), decode_frame(&frame()));
        }
    }
}

#[test]
fn a_frame_cut_by_the_snap_length_is_read() {
    let header = PcapHeader { snaplen: 60, ..PcapHeader::default() };
    let mut bytes =
        PcapWriter::with_header(Vec::new(), header).expect("a Vec takes everything").into_writer();
    let (whole, kept) = (frame().len() as u32, &frame()[..60]);
    for word in [1, 2, 60, whole] {
        bytes.extend(u32::to_be_bytes(word));
    }
    bytes.extend(kept);
    let frames: Vec<_> = read(bytes).expect("a capture").map(|f| f.expect("a frame")).collect();
    assert_eq!((frames[0].original_length, frames[0].data.as_slice()), (whole, kept));
}

fn pcapng(tsresol: Option<u8>, units: u64) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).expect("a Vec takes everything");
    let options = tsresol.map(InterfaceDescriptionOption::IfTsResol).into_iter().collect();
    let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
    writer.write_pcapng_block(interface).expect("a Vec takes everything");
    let data = frame();
    let packet = EnhancedPacketBlock {
        interface_id: 0,
        timestamp: Duration::from_nanos(units),
        original_len: data.len() as u32,
        data: data.clone().into(),
        options: Vec::new(),
    };
    writer.write_pcapng_block(packet).expect("a Vec takes everything");
    let simple = SimplePacketBlock { original_len: data.len() as u32, data: data.into() };
    writer.write_pcapng_block(simple).expect("a Vec takes everything");
    writer.into_inner()
}

#[test]
fn pcapng_with_every_kind_of_timestamp() {
    let cases = [
        (None, 1_500_000, 1_500_000_000),
        (Some(6), 1_500_000, 1_500_000_000),
        (Some(9), 7, 7),
        (Some(12), 7_999, 7),
        (Some(0x80 | 10), 512, 500_000_000),
        (Some(127), u64::MAX, 0),
    ];
    for (tsresol, units, nanos) in cases {
        let frames: Vec<_> =
            read(pcapng(tsresol, units)).expect("a capture").map(|f| f.expect("a frame")).collect();
        assert_eq!(frames[0].timestamp, Some(Duration::from_nanos(nanos)), "{tsresol:?}");
        assert_eq!((&frames[0].data, &frames[1].data), (&frame(), &frame()), "the padding is gone");
        assert_eq!((frames[1].number, frames[1].timestamp), (2, None));
    }
}

#[test]
fn bad_captures_are_clear_errors() {
    let error = |bytes: Vec<u8>| match read(bytes) {
        Err(error) => error.to_string(),
        Ok(capture) => capture.filter_map(Result::err).map(|e| e.to_string()).collect::<Vec<_>>().join("; "),
    };
    assert!(error(Vec::new()).starts_with("not a capture file"));
    assert!(error(b"#!/bin/sh\n".to_vec()).starts_with("not a capture file"));
    let other = error(pcap(TsResolution::MicroSecond, Endianness::Big, DataLink::LINUX_SLL));
    assert_eq!(other, "the capture's link type is LINUX_SLL; only Ethernet captures can be decoded");
    let whole = pcap(TsResolution::MicroSecond, Endianness::Big, DataLink::ETHERNET);
    assert_eq!(
        error(whole[..whole.len() - 1].to_vec()),
        "the capture ends in the middle, after 1 whole frames"
    );
    assert_eq!(error(whole[..10].to_vec()), "the capture ends in the middle, after 0 whole frames");
    let mut orphan = PcapNgWriter::new(Vec::new()).expect("a Vec takes everything").into_inner();
    let with_interface = pcapng(None, 0);
    orphan.extend(&with_interface[orphan.len() + 20..]);
    assert!(error(orphan).starts_with("the capture is damaged after 0 whole frames"));
    let missing = Capture::open(std::path::Path::new("no such capture")).err().expect("no file").to_string();
    assert!(missing.starts_with("cannot open no such capture: "), "{missing}");
}

proptest! {
    #[test]
    fn damaged_captures_end(at in 0usize..400, byte: u8, cut in 0usize..500) {
        for mut bytes in [
            pcap(TsResolution::MicroSecond, Endianness::Little, DataLink::ETHERNET), pcapng(Some(6), 1),
        ] {
            if let Some(b) = bytes.get_mut(at) {
                *b = byte;
            }
            bytes.truncate(cut);
            if let Ok(capture) = read(bytes) {
                prop_assert!(capture.count() < 100);
            }
        }
    }
}
