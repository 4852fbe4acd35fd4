//! The formats of Push Data and Pull Requests (sections 7.1 to 7.5). The checks read the bytes, so that a wrong
//! packet shows what is wrong with it.

use transport_common::units::Picoseconds;

use super::requests::{PULL_REQUEST, PUSH_DATA, Read, Write, copy, raw, request};
use crate::check::Check;
use crate::received::Received;
use crate::session::{OPERATION_BYTES, Session};
use crate::trigger::Operation;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-7.1-1", "Next Header of the PSP header is 252", next_header),
    Check::new(
        "F-7.1-3",
        "the crypt offset leaves the first 4 bytes of the Falcon header in clear",
        crypt_offset,
    ),
    Check::new("F-6.5-2", "the SPI is that of the connection", spi),
    Check::new("D-12", "the IV grows from packet to packet", iv),
    Check::new("F-7.2-2", "the version is 1", version),
    Check::new("F-7.2-3", "the bits after the version are 0", reserved),
    Check::new("F-7.2-4", "bits 8 to 31 of word 0 are the tester's CID", cid),
    Check::new("F-7.2-5", "the destination function is the tester's", function),
    Check::new("F-7.2-6", "the protocol type is 2, RDMA", protocol),
    Check::new("F-7.2-7", "a WRITE is packet type 5, and a READ packet type 0", types),
    Check::new("F-7.2-10", "word 2 is the base of the peer's receive window for data", data_base),
    Check::new("F-7.2-11", "word 3 is the base of the peer's receive window for requests", request_base),
    Check::new("F-7.3-2", "a Pull Request has a header of 32 bytes, and its word 7 is 0", pull_layout),
    Check::new("F-7.3-3", "Request Length of a Pull Request is the length of the answer", pull_length),
    Check::new("F-7.3-4", "bits 0 to 15 of word 6 of a Pull Request are 0", pull_reserved),
    Check::new("F-7.5-1", "the payload of Push Data begins at byte 28", push_layout),
    Check::new("F-7.5-2", "Request Length of Push Data is the length of its payload", push_length),
    Check::new("F-7.1-2", "the header of the ULP follows the Falcon header", ulp_header),
    Check::new("D-84", "WRITE and READ have the headers of InfiniBand, with the length of the data", rdma),
];

/// Bytes of the RDMA headers: base, extended, and that of an answer.
const BTH: usize = 12;
const RETH: usize = 16;
const ANSWER: usize = BTH + 4;

/// Makes the peer submit a WRITE and then a READ, and judges the packet of each, well formed or not.
fn each(s: &mut Session<'_>, judge: impl Fn(Operation, &Received) -> Outcome) -> Outcome {
    for operation in [Write, Read] {
        let packet = raw(s, operation)?;
        judge(operation, &packet)?;
        // Otherwise a copy of the WRITE could be taken for the READ.
        s.settle()?;
    }
    Ok(())
}

/// Compares what both packets have in a field.
fn field(s: &mut Session<'_>, what: &str, expected: u32, of: impl Fn(&Received) -> u32) -> Outcome {
    each(s, |_, packet| {
        let found = of(packet);
        judge(found == expected, format!("{what} {expected:#x}"), format!("{found:#x} in {}", packet.text()))
    })
}

/// Returns the length of the Falcon header of an operation's packet.
const fn header(operation: Operation) -> usize {
    match operation {
        Write => 28,
        Read => 32,
    }
}

fn next_header(s: &mut Session<'_>) -> Outcome {
    field(s, "Next Header", 252, |packet| packet.datagram.first().copied().unwrap_or_default().into())
}

fn crypt_offset(s: &mut Session<'_>) -> Outcome {
    field(s, "a crypt offset", 1, |packet| {
        u32::from(packet.datagram.get(2).copied().unwrap_or_default() & 0x3f)
    })
}

fn spi(s: &mut Session<'_>) -> Outcome {
    let expected = s.subject.rx_spi.0;
    field(s, "SPI", expected, |packet| packet.psp().map_or(0, |psp| psp.spi.0))
}

fn iv(s: &mut Session<'_>) -> Outcome {
    let push = request(s, Write)?;
    let again = copy(s, &push)?;
    let next = request(s, Write)?;
    let iv = |packet: &Received| packet.psp().map_or(Picoseconds(0), |psp| psp.iv).0;
    let found = [&push.packet, &again, &next.packet].map(iv);
    judge(found.is_sorted_by(|a, b| a < b), "an IV that grows", format!("{found:?}"))
}

fn version(s: &mut Session<'_>) -> Outcome {
    field(s, "version", 1, |packet| packet.word(0) >> 28)
}

fn reserved(s: &mut Session<'_>) -> Outcome {
    field(s, "reserved bits", 0, |packet| packet.word(0) >> 24 & 0xf)
}

fn cid(s: &mut Session<'_>) -> Outcome {
    let expected = s.subject.local_cid.0;
    field(s, "CID", expected, |packet| packet.word(0) & 0x00ff_ffff)
}

fn function(s: &mut Session<'_>) -> Outcome {
    let expected = s.subject.local_function;
    field(s, "function", expected, |packet| packet.word(1) >> 8)
}

fn protocol(s: &mut Session<'_>) -> Outcome {
    field(s, "protocol type", 2, |packet| packet.word(1) >> 5 & 7)
}

fn types(s: &mut Session<'_>) -> Outcome {
    each(s, |operation, packet| {
        let expected = if operation == Write { PUSH_DATA } else { PULL_REQUEST };
        let found = packet.raw_type();
        judge(found == expected, format!("type {expected} for a {operation}"), found)
    })
}

fn data_base(s: &mut Session<'_>) -> Outcome {
    s.store(0, &[1; 8])?;
    let expected = s.next().data_psn.0;
    field(s, "DBPSN", expected, |packet| packet.word(2))
}

fn request_base(s: &mut Session<'_>) -> Outcome {
    s.fetch(0, 8)?;
    let expected = s.next().request_psn.0;
    field(s, "RBPSN", expected, |packet| packet.word(3))
}

fn pull_layout(s: &mut Session<'_>) -> Outcome {
    let packet = raw(s, Read)?;
    let found = (packet.falcon().len(), packet.word(7));
    let expected = (32 + BTH + RETH, 0);
    judge(found == expected, format!("length and word 7 {expected:?}"), format!("{found:?}"))
}

fn pull_length(s: &mut Session<'_>) -> Outcome {
    let found = raw(s, Read)?.word(6) & 0xffff;
    let expected = ANSWER as u32 + OPERATION_BYTES;
    judge(found == expected, format!("Request Length {expected}"), found)
}

fn pull_reserved(s: &mut Session<'_>) -> Outcome {
    let found = raw(s, Read)?.word(6) >> 16;
    judge(found == 0, "0", format!("{found:#x}"))
}

fn push_layout(s: &mut Session<'_>) -> Outcome {
    let packet = raw(s, Write)?;
    let found = (packet.word(6) >> 16, packet.falcon().len());
    let expected = (0, 28 + BTH + RETH + OPERATION_BYTES as usize);
    judge(found == expected, format!("reserved bits and length {expected:?}"), format!("{found:?}"))
}

fn push_length(s: &mut Session<'_>) -> Outcome {
    let packet = raw(s, Write)?;
    let (found, expected) = (packet.word(6) & 0xffff, packet.falcon().len().saturating_sub(28));
    judge(found as usize == expected, format!("Request Length {expected}"), found)
}

fn ulp_header(s: &mut Session<'_>) -> Outcome {
    // The P_Key, which is the same in all packets, shows where the header of the ULP is.
    const P_KEY: usize = 2;
    each(s, |operation, packet| {
        let at = header(operation) + P_KEY;
        let found = [packet.byte(at), packet.byte(at + 1)];
        judge(found == [0xff; 2], format!("P_Key 0xffff at byte {at}"), format!("{found:x?}"))
    })
}

fn rdma(s: &mut Session<'_>) -> Outcome {
    each(s, |operation, packet| {
        let header = header(operation);
        let found = (packet.byte(header), packet.word((header + BTH + RETH) / 4 - 1));
        let expected = (if operation == Write { 0x0a } else { 0x0c }, OPERATION_BYTES);
        judge(found == expected, format!("opcode and length {expected:?}"), format!("{found:?}"))
    })
}
