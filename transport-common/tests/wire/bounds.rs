//! Lengths at their bounds, and one bit that must be set.

use transport_common::ids::Spi;
use transport_common::units::Picoseconds;
use transport_common::wire::Malformed;
use transport_common::wire::SliceCursor;
use transport_common::wire::base::FirstWords;
use transport_common::wire::psp::Psp;
use transport_common::wire::udp::Udp;

/// The Falcon packet has to hold the first words, and the frame has to hold the packet.
#[test]
fn first_words_fit_exactly() {
    // Version 1, CID 7; packet type 9 (BACK).
    let bytes = [0x10, 0, 0, 7, 0, 0, 0, 9 << 1, 0, 0, 0, 0];
    let decode = |frame: usize, falcon: usize| {
        FirstWords::decode_in(&mut SliceCursor::new(&bytes[..frame]), falcon).map(|first| first.dest_cid.0)
    };
    assert_eq!(decode(bytes.len(), FirstWords::LEN), Ok(7), "the words alone are long enough");
    assert_eq!(decode(FirstWords::LEN, FirstWords::LEN), Ok(7), "the frame may end with them");
    assert_eq!(decode(bytes.len(), bytes.len()), Ok(7));
    assert_eq!(decode(bytes.len(), FirstWords::LEN - 1), Err(Malformed::FalconTruncated));
    assert_eq!(decode(bytes.len() - 1, bytes.len()), Err(Malformed::FalconTruncated));
    assert_eq!(decode(FirstWords::LEN - 1, FirstWords::LEN - 1), Err(Malformed::FalconTruncated));
}

/// A UDP packet may be shorter than the payload of its IP packet, and not longer, and not longer than the frame.
#[test]
fn udp_lengths_fit_exactly() {
    let decode = |length: u16, ip_payload: u16, frame: usize| {
        let mut bytes = [0; 64];
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        Udp::decode(&mut SliceCursor::new(&bytes[..frame]), ip_payload).map(|udp| udp.length)
    };
    assert_eq!(decode(8, 8, 8), Ok(8), "a header alone");
    assert_eq!(decode(20, 20, 20), Ok(20), "the frame ends with it");
    assert_eq!(decode(20, 30, 64), Ok(20));
    assert_eq!(decode(8, 7, 64), Err(Malformed::UdpTruncated));
    assert_eq!(decode(7, 20, 64), Err(Malformed::UdpLength));
    assert_eq!(decode(0, 20, 64), Err(Malformed::UdpLength));
    assert_eq!(decode(21, 20, 64), Err(Malformed::UdpLength), "longer than the IP payload");
    assert_eq!(decode(20, 20, 19), Err(Malformed::UdpLength), "longer than the frame");
    assert_eq!(decode(40, 40, 39), Err(Malformed::UdpLength));
}

/// F-7.1-1: the lowest bit of the fourth byte of a PSP header is always 1.
#[test]
fn the_last_bit_of_the_flags_is_set() {
    let mut bytes = [0; Psp::LEN];
    Psp::plaintext(Spi(1), Picoseconds(2)).encode(&mut bytes);
    let decode = |bytes: &[u8]| Psp::decode(&mut SliceCursor::new(bytes));
    assert!(decode(&bytes).is_ok());
    bytes[3] &= !1;
    assert_eq!(decode(&bytes), Err(Malformed::PspTrailingBit));
    // Whatever the other bits are.
    for others in (0..=0xff).step_by(2) {
        bytes[3] = others;
        assert_eq!(decode(&bytes), Err(Malformed::PspTrailingBit), "{others:#x}");
    }
}
