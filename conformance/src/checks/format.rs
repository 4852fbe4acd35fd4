//! The fields of the peer's packets (section 7). These checks read the bytes themselves and use no decoder.

use transport_common::ulp::rdma::{Aeth, Bth};
use transport_common::wire::psp::{CRYPT_OFFSET, NEXT_HEADER_FALCON};

use crate::check::Check;
use crate::received::Received;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

/// Packet types as on the wire (F-7.2-7, F-7.2-8).
const PULL_DATA: u8 = 3;
const NACK: u8 = 8;
const BACK: u8 = 9;
const EACK: u8 = 10;
/// Bytes that the tester reads at once.
const LENGTH: u32 = 40;

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9.1.1-2", "the first data PSN is the configured one", first_psn),
    Check::new("F-7.1-1", "the PSP header announces Falcon by Next Header 252", next_header),
    Check::new("F-7.1-3", "the crypt offset leaves the first Falcon word readable", crypt_offset),
    Check::new("F-6.5-2", "packets carry the SPI of the connection", spi),
    Check::new("F-7.2-2", "the version in every packet is 1", version),
    Check::new("F-7.2-3", "the four bits after the version are 0", reserved_nibble),
    Check::new("F-7.2-4", "Pull Data carries the CID that the receiver allocated", cid_of_pull_data),
    Check::new("F-7.2-5", "Pull Data carries the configured destination function", function),
    Check::new("F-7.2-6", "Pull Data of RDMA has protocol type 2", protocol),
    Check::new("F-7.2-7", "the answer to a READ has packet type 3", type_of_pull_data),
    Check::new("F-7.2-8", "an acknowledgement has packet type 9 or 10 at the same place", type_of_ack),
    Check::new("F-7.2-10", "word 2 of Pull Data is the base of the data window", data_base),
    Check::new("F-7.2-11", "word 3 of Pull Data is the base of the request window", request_base),
    Check::new("F-7.2-12", "word 4 of Pull Data is its PSN in the data window", psn_of_pull_data),
    Check::new("F-6.1.2-2", "the PSN grows by 1 with every packet of a window", psn_grows),
    Check::new("F-7.4-1", "the payload of Pull Data begins at byte 24", payload_offset),
    Check::new("F-7.4-2", "the RSN of Pull Data is that of its Pull Request", rsn_of_pull_data),
    Check::new("F-7.3-3", "Pull Data has the length that the Pull Request announced", request_length),
    Check::new("F-7.7.1-1", "a BACK has 32 bytes, and its reserved bits are 0", back_layout),
    Check::new("F-7.7.1-2", "words 2 and 3 of an ACK are the bases of both windows", bases_of_ack),
    Check::new("F-7.7.1-8", "an ACK carries the CID that its receiver allocated", cid_of_ack),
    Check::new("F-7.8-1", "a NACK has 40 bytes and packet type 8", nack_layout),
    Check::new("F-7.8-3", "word 8 of a NACK is the PSN of the refused packet", nack_psn),
    Check::new("F-7.8-4", "the reserved bits of word 9 of a NACK are 0", nack_reserved),
    Check::new("F-7.8-5", "a push that the ULP completes in error draws NACK code 6", nack_code),
    Check::new("F-7.8-6", "W is 0 in a NACK of a data packet", nack_window),
    Check::new("F-9.1.3.1-3", "AR is 0 in acknowledgements", no_ack_request),
];

/// Makes the peer send a packet of some type.
type Draw = fn(&mut Session<'_>) -> Outcome<Received>;

/// Makes the peer send an ACK. Returns the first packet of an acknowledgement's type, whether it is valid or
/// not.
fn draw_ack(s: &mut Session<'_>) -> Outcome<Received> {
    s.forget()?;
    let write = s.write(0, &[1; 8]);
    s.send(&write)?;
    s.expect("an answer to a WRITE with AR", |_| true)
}

/// Makes the peer send Pull Data. Returns the first packet that is longer than an acknowledgement could be.
fn draw_pull_data(s: &mut Session<'_>) -> Outcome<Received> {
    let read = s.read(0, 80).quiet();
    s.send(&read)?;
    s.expect("a Pull Data with 80 bytes", |received| received.falcon().len() > 80)
}

/// Makes the peer send a NACK, and closes the gap that the refused packet leaves.
fn draw_nack(s: &mut Session<'_>) -> Outcome<Received> {
    let refused = s.forbidden_write();
    s.send(&refused)?;
    let nack = s.expect("an answer to a WRITE with an unknown R_Key", |received| {
        !matches!(received.raw_type(), PULL_DATA | BACK | EACK)
    })?;
    let mut resync = refused.replaced();
    resync.resync.0 = transport_common::wire::resync::ResyncCode::TARGET_ULP_COMPLETE_IN_ERROR;
    s.deliver(&resync)?;
    Ok(nack)
}

fn first_psn(s: &mut Session<'_>) -> Outcome {
    let data = draw_pull_data(s)?;
    let (found, expected) = (data.word(4), s.subject.rx.data_psn.0);
    judge(found == expected, format!("PSN {expected} in the first Pull Data"), format!("PSN {found}"))
}

fn next_header(s: &mut Session<'_>) -> Outcome {
    for draw in [draw_ack, draw_pull_data] as [Draw; 2] {
        let received = draw(s)?;
        let found = received.datagram[0];
        judge(found == NEXT_HEADER_FALCON, "252 in byte 0 of the PSP header", found)?;
    }
    Ok(())
}

fn crypt_offset(s: &mut Session<'_>) -> Outcome {
    for draw in [draw_ack, draw_pull_data] as [Draw; 2] {
        let received = draw(s)?;
        let found = received.datagram[2] & 0x3f;
        judge(found == CRYPT_OFFSET, "crypt offset 1 without a virtualisation cookie", found)?;
    }
    Ok(())
}

fn spi(s: &mut Session<'_>) -> Outcome {
    for draw in [draw_ack, draw_pull_data] as [Draw; 2] {
        let received = draw(s)?;
        let found = u32::from_be_bytes([4, 5, 6, 7].map(|at: usize| received.datagram[at]));
        let expected = s.subject.rx_spi.0;
        judge(found == expected, format!("SPI {expected}"), found)?;
    }
    Ok(())
}

fn version(s: &mut Session<'_>) -> Outcome {
    for draw in [draw_ack, draw_pull_data, draw_nack] as [Draw; 3] {
        let received = draw(s)?;
        let found = received.byte(0) >> 4;
        judge(found == 1, "version 1", format!("version {found}"))?;
    }
    Ok(())
}

fn reserved_nibble(s: &mut Session<'_>) -> Outcome {
    for draw in [draw_ack, draw_pull_data, draw_nack] as [Draw; 3] {
        let received = draw(s)?;
        let found = received.byte(0) & 0xf;
        judge(found == 0, "0 in bits 4 to 7 of word 0", format!("{found:#x}"))?;
    }
    Ok(())
}

fn cid_of(received: &Received, s: &Session<'_>) -> Outcome {
    let (found, expected) = (received.word(0) & 0x00ff_ffff, s.subject.local_cid.0);
    judge(found == expected, format!("Destination CID {expected}"), found)
}

fn cid_of_pull_data(s: &mut Session<'_>) -> Outcome {
    let data = draw_pull_data(s)?;
    cid_of(&data, s)
}

fn cid_of_ack(s: &mut Session<'_>) -> Outcome {
    let ack = draw_ack(s)?;
    cid_of(&ack, s)
}

fn function(s: &mut Session<'_>) -> Outcome {
    let (found, expected) = (draw_pull_data(s)?.word(1) >> 8, s.subject.local_function);
    judge(found == expected, format!("destination function {expected}"), found)
}

fn protocol(s: &mut Session<'_>) -> Outcome {
    let found = draw_pull_data(s)?.byte(7) >> 5;
    judge(found == 2, "protocol type 2", found)
}

fn type_of_pull_data(s: &mut Session<'_>) -> Outcome {
    let found = draw_pull_data(s)?.raw_type();
    judge(found == PULL_DATA, "packet type 3", found)
}

fn type_of_ack(s: &mut Session<'_>) -> Outcome {
    let found = draw_ack(s)?.raw_type();
    judge(found == BACK || found == EACK, "packet type 9 or 10", found)
}

fn data_base(s: &mut Session<'_>) -> Outcome {
    s.store(0, &[1; 8])?;
    let (found, expected) = (draw_pull_data(s)?.word(2), s.next().data_psn.0);
    judge(found == expected, format!("{expected}: every data packet was acknowledged"), found)
}

fn request_base(s: &mut Session<'_>) -> Outcome {
    let (found, expected) = (draw_pull_data(s)?.word(3), s.next().request_psn.0);
    judge(found == expected, format!("{expected}: the request itself was received"), found)
}

fn psn_of_pull_data(s: &mut Session<'_>) -> Outcome {
    let expected = s.seen_data().0;
    let found = draw_pull_data(s)?.word(4);
    judge(found == expected, format!("PSN {expected}, the next one of the data window"), found)
}

fn psn_grows(s: &mut Session<'_>) -> Outcome {
    let first = draw_pull_data(s)?.word(4);
    s.acknowledge()?;
    for step in 1..4 {
        let (found, expected) = (draw_pull_data(s)?.word(4), first.wrapping_add(step));
        judge(found == expected, format!("PSN {expected} after {}", expected.wrapping_sub(1)), found)?;
        s.acknowledge()?;
    }
    Ok(())
}

fn payload_offset(s: &mut Session<'_>) -> Outcome {
    let pattern: Vec<u8> = (1..=80).collect();
    s.store(0, &pattern)?;
    let data = draw_pull_data(s)?;
    let found = data.falcon().get(24 + Bth::LEN + Aeth::LEN..).unwrap_or_default();
    judge(
        found == pattern,
        "the bytes of the region, after 24 bytes of header and the ULP header",
        format!("{found:x?}"),
    )
}

fn rsn_of_pull_data(s: &mut Session<'_>) -> Outcome {
    let expected = s.next().rsn.0;
    let found = draw_pull_data(s)?.word(5);
    judge(found == expected, format!("RSN {expected}"), found)
}

fn request_length(s: &mut Session<'_>) -> Outcome {
    let read = s.read(0, LENGTH).quiet();
    s.send(&read)?;
    let answer = s.answer(&read)?;
    let (found, expected) = (answer.payload().len(), usize::from(read.request_length));
    judge(found == expected, format!("{expected} bytes after the Falcon header"), found)
}

fn back_layout(s: &mut Session<'_>) -> Outcome {
    let ack = draw_ack(s)?;
    let (length, word) = (ack.falcon().len(), ack.word(1));
    judge(length == 32, "32 bytes", format!("{length} bytes"))?;
    judge(word == u32::from(BACK) << 1, "only the packet type, 9, in word 1", format!("{word:#010x}"))?;
    let reserved = (ack.word(6) & 0x1ff, ack.word(7) >> 24);
    judge(reserved == (0, 0), "0 in the reserved bits of words 6 and 7", format!("{reserved:x?}"))
}

fn bases_of_ack(s: &mut Session<'_>) -> Outcome {
    let read = s.read(0, LENGTH).quiet();
    s.send(&read)?;
    s.answer(&read)?;
    s.acknowledge()?;
    let write = s.write(0, &[1; 8]);
    s.send(&write)?;
    let data = s.next().data_psn.0;
    let ack = s.expect(&format!("an ACK with {data} in word 2"), |received| {
        matches!(received.raw_type(), BACK | EACK) && received.word(2) == data
    })?;
    let (found, expected) = (ack.word(3), s.next().request_psn.0);
    judge(found == expected, format!("RBPSN {expected} in word 3"), found)
}

fn nack_layout(s: &mut Session<'_>) -> Outcome {
    let nack = draw_nack(s)?;
    let (length, kind) = (nack.falcon().len(), nack.raw_type());
    judge(length == 40 && kind == NACK, "40 bytes of type 8", format!("{length} bytes of type {kind}"))
}

fn nack_psn(s: &mut Session<'_>) -> Outcome {
    let expected = s.next().data_psn.0;
    let found = draw_nack(s)?.word(8);
    judge(found == expected, format!("PSN {expected}"), found)
}

fn nack_reserved(s: &mut Session<'_>) -> Outcome {
    let found = draw_nack(s)?.word(9) & 0x00e0_7f00;
    judge(found == 0, "0 in bits 8 to 10 and 17 to 23 of word 9", format!("{found:#010x}"))
}

fn nack_code(s: &mut Session<'_>) -> Outcome {
    let found = draw_nack(s)?.byte(36);
    judge(found == 6, "NACK code 6", found)
}

fn nack_window(s: &mut Session<'_>) -> Outcome {
    let found = draw_nack(s)?.byte(38) >> 7;
    judge(found == 0, "W = 0", found)
}

fn no_ack_request(s: &mut Session<'_>) -> Outcome {
    for draw in [draw_ack, draw_nack] as [Draw; 2] {
        let received = draw(s)?;
        let found = received.byte(7) & 1;
        judge(found == 0, "0 in bit 31 of word 1", found)?;
    }
    Ok(())
}
