//! When the peer acknowledges, and what its acknowledgements contain (sections 7.7 and 9.1.6).

use transport_common::units::{PicosecondSpan, Ticks};
use transport_common::wire::PacketType;

use crate::check::Check;
use crate::draft::Draft;
use crate::received::Received;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

const EACK: u8 = 10;
/// First words of the bitmaps of an EACK: acknowledged and received data, requests. Bit 0 is in the last word
/// of each.
const DATA_ACK: usize = 8;
const DATA_RECEIVED: usize = 12;
const REQUEST: usize = 16;
/// Sizes of the receive windows (F-9-1).
const DATA_WINDOW: u32 = 128;
const REQUEST_WINDOW: u32 = 64;

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-7.7.1-3", "T1 of an ACK is the IV of the packet, in ticks of 131.072 ns", t1),
    Check::new("F-7.7.1-4", "T2 of an ACK counts the peer's clock in ticks of 131.072 ns", t2),
    Check::new("F-9.1.6-6", "an ACK carries T1 of the latest packet", latest_t1),
    Check::new("F-9.1.6-1", "a push without AR is acknowledged by the coalescing timer", coalesced),
    Check::new("F-9.1.6-5", "the ACK of the coalescing timer covers the whole burst", burst),
    Check::new("F-9.1.6-2", "a Pull Request with AR draws an ACK packet", ack_request),
    Check::new("F-9-3", "requests in order draw only BACKs", only_backs),
    Check::ordered("F-9-2", "a Pull Request is acknowledged before it can be answered", pull_on_receipt),
    Check::ordered("F-6.6.1-2", "an ACK covers two swapped Pull Requests", swapped_pulls),
    Check::ordered("F-6.1.2-3", "a held push is received and not acknowledged", held_push),
    Check::ordered("F-6.1.1.1-2", "no packet acknowledges a push that the ULP does not have", not_before_ulp),
    Check::ordered("F-6.1.2-5", "a missing Pull Request draws an EACK", request_hole),
    Check::ordered("F-6.6.6-1", "three pushes behind a lost one give the bitmap 0b1110", lost_first),
    Check::ordered("F-7.7.2-1", "an EACK has 72 bytes and packet type 10", eack_layout),
    Check::ordered("F-7.7.2-2", "words 8 to 11 of an EACK are the acknowledged data packets", ack_bitmap),
    Check::ordered("F-7.7.2-3", "words 12 to 15 of an EACK are the received data packets", received_bitmap),
    Check::ordered("F-7.7.2-4", "words 16 and 17 of an EACK are the received requests", request_bitmap),
    Check::ordered("F-7.7.2-5", "the bitmaps of an EACK show the state when it is sent", snapshots),
    Check::ordered("F-9.1.6-7", "a hole in the data window draws an EACK and no BACK", eack_for_hole),
    Check::new("F-7.7.1-6", "OWN is bit 30 of word 7 for data and bit 31 for requests", own_bits),
    Check::new("F-9.2.2.4-2", "a packet beyond the window is discarded and reported by OWN", beyond),
    Check::ordered("F-9-1", "the last packets of both windows, 128 and 64, are accepted", window_sizes),
];

/// Returns whether a packet is an EACK, whether it is valid or not.
fn is_eack(received: &Received) -> bool {
    received.raw_type() == EACK
}

/// Returns four words of a packet as one bitmap.
fn bitmap(received: &Received, first: usize) -> u128 {
    (first..first + 4).fold(0, |bits, word| bits << 32 | u128::from(received.word(word)))
}

/// Numbers this many WRITEs to the same place, each with its own number as data.
fn writes(s: &mut Session<'_>, count: usize) -> Vec<Draft> {
    (1..=count).map(|n| s.write(0, &[n as u8; 8]).quiet()).collect()
}

/// Sends the packets that were left out, and waits until all are acknowledged.
fn close(s: &mut Session<'_>, left_out: &[Draft], last: &Draft) -> Outcome {
    for draft in left_out {
        s.send(draft)?;
    }
    s.acknowledged(last).map(drop)
}

fn t1(s: &mut Session<'_>) -> Outcome {
    let write = s.write(0, &[1; 8]);
    let iv = s.send(&write)?;
    let (found, expected) = (s.acknowledged(&write)?.word(4), iv.ticks().0);
    judge(found == expected, format!("T1 {expected}, which is the IV {} >> 17", iv.0), found)
}

fn t2(s: &mut Session<'_>) -> Outcome {
    const APART: PicosecondSpan = PicosecondSpan::from_nanos(30_000_000);
    let mut times = Vec::new();
    for _ in 0..2 {
        let write = s.write(0, &[1; 8]);
        let before = s.now();
        s.send(&write)?;
        let ack = s.acknowledged(&write)?;
        times.push((before, ack.word(5), ack.at));
        s.find(APART, |_| false)?;
    }
    // The peer received each packet between the moment when it was sent and the moment when its ACK arrived.
    let elapsed = Ticks(times[1].1.wrapping_sub(times[0].1)).as_picos().0;
    let (least, most) = (times[1].0.since(times[0].2).0, times[1].2.since(times[0].0).0);
    // A tick at both ends, and a clock that is 0.1 % wrong.
    let slack = most / 1000 + (2 << Ticks::PICOS_SHIFT);
    judge(
        (least.saturating_sub(slack)..=most + slack).contains(&elapsed),
        format!("{} to {} us between two T2", least / 1_000_000, most / 1_000_000),
        format!("{} us", elapsed / 1_000_000),
    )
}

fn latest_t1(s: &mut Session<'_>) -> Outcome {
    // T1 has to differ, so the packets are more than a tick apart.
    const APART: PicosecondSpan = PicosecondSpan::from_nanos(1_000);
    let first = s.write(0, &[1; 8]).quiet();
    s.send(&first)?;
    s.find(APART, |_| false)?;
    let second = s.write(0, &[2; 8]);
    let iv = s.send(&second)?;
    let (found, expected) = (s.acknowledged(&second)?.word(4), iv.ticks().0);
    judge(found == expected, format!("T1 {expected} of the second packet"), found)
}

fn coalesced(s: &mut Session<'_>) -> Outcome {
    let write = s.write(0, &[1; 8]).quiet();
    s.deliver(&write).map(drop)
}

fn burst(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 8);
    close(s, &writes, &writes[7])
}

fn ack_request(s: &mut Session<'_>) -> Outcome {
    let read = s.read(0, 8);
    s.deliver(&read).map(drop)
}

fn only_backs(s: &mut Session<'_>) -> Outcome {
    for _ in 0..4 {
        s.fetch(0, 8)?;
        s.store(0, &[1; 8])?;
    }
    s.silence("no EACK, because nothing is missing", is_eack)
}

fn pull_on_receipt(s: &mut Session<'_>) -> Outcome {
    let write = s.write(0, &[7; 8]);
    let read = s.read(0, 8);
    s.deliver(&read)?;
    s.silence("no answer before the WRITE that precedes it", |received| received.pull_data().is_some())?;
    s.deliver(&write)?;
    s.answer(&read).map(drop)
}

fn swapped_pulls(s: &mut Session<'_>) -> Outcome {
    let reads = [s.read(0, 8), s.read(8, 8)];
    s.send(&reads[1])?;
    s.send(&reads[0])?;
    s.acknowledged(&reads[1])?;
    s.answers(&reads).map(drop)
}

fn held_push(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 2);
    s.send(&writes[1])?;
    let eack = s.expect("an EACK for the push behind a hole", is_eack)?;
    let (acknowledged, received) = (bitmap(&eack, DATA_ACK), bitmap(&eack, DATA_RECEIVED));
    judge(
        (acknowledged, received) == (0, 2),
        "bit 1 received and not acknowledged",
        format!("received {received:#x}, acknowledged {acknowledged:#x}"),
    )?;
    close(s, &writes[..1], &writes[1])
}

fn not_before_ulp(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 2);
    s.send(&writes[1].clone())?;
    let base = writes[0].psn;
    s.silence("no packet that acknowledges the held push", |received| {
        let advanced = received.bases().is_some_and(|(data, _)| data != base);
        advanced || is_eack(received) && bitmap(received, DATA_ACK) != 0
    })?;
    close(s, &writes[..1], &writes[1])
}

fn request_hole(s: &mut Session<'_>) -> Outcome {
    let reads = [s.read(0, 8), s.read(8, 8).quiet()];
    s.send(&reads[1])?;
    s.expect("an EACK with bit 1 of the request bitmap", |received| {
        is_eack(received) && received.word(REQUEST + 1) == 2
    })?;
    s.deliver(&reads[0])?;
    s.answers(&reads).map(drop)
}

fn lost_first(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 4);
    for write in &writes[1..] {
        s.send(write)?;
    }
    let base = writes[0].psn.0;
    let eack = s.expect("an EACK with 0x0000000e in word 15", |received| {
        is_eack(received) && received.word(DATA_RECEIVED + 3) == 0xe
    })?;
    let found = (eack.word(2), bitmap(&eack, DATA_ACK));
    judge(found == (base, 0), format!("DBPSN {base} and nothing acknowledged"), format!("{found:?}"))?;
    close(s, &writes[..1], &writes[3])
}

fn eack_layout(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 2);
    s.forget()?;
    s.send(&writes[1])?;
    let eack = s.expect("an acknowledgement of a push behind a hole", |_| true)?;
    let (length, kind) = (eack.falcon().len(), eack.raw_type());
    judge((length, kind) == (72, EACK), "72 bytes of type 10", format!("{length} bytes of type {kind}"))?;
    close(s, &writes[..1], &writes[1])
}

fn ack_bitmap(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 41);
    s.send(&writes[40].replaced())?;
    let eack = s.expect("an EACK for a Resync behind a hole", is_eack)?;
    let found = bitmap(&eack, DATA_ACK);
    judge(found == 1 << 40, "bit 40, which is bit 8 of word 10", format!("{found:#x}"))?;
    close(s, &writes[..40], &writes[40])
}

fn received_bitmap(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 41);
    s.send(&writes[40])?;
    let eack = s.expect("an EACK for a push behind a hole", is_eack)?;
    let found = bitmap(&eack, DATA_RECEIVED);
    judge(found == 1 << 40, "bit 40, which is bit 8 of word 14", format!("{found:#x}"))?;
    close(s, &writes[..40], &writes[40])
}

fn request_bitmap(s: &mut Session<'_>) -> Outcome {
    let reads: Vec<_> = (0..34).map(|_| s.read(0, 8).quiet()).collect();
    s.send(&reads[33])?;
    let eack = s.expect("an EACK for a Pull Request behind a hole", is_eack)?;
    let found = u64::from(eack.word(REQUEST)) << 32 | u64::from(eack.word(REQUEST + 1));
    judge(found == 1 << 33, "bit 33, which is bit 1 of word 16", format!("{found:#x}"))?;
    answered(s, &reads[..33], &reads[33])
}

/// Sends Pull Requests that were left out, and acknowledges the answers until the last one has come.
fn answered(s: &mut Session<'_>, left_out: &[Draft], last: &Draft) -> Outcome {
    for read in left_out {
        s.send(read)?;
        s.answer(read)?;
        s.acknowledge()?;
    }
    s.answers(std::slice::from_ref(last)).map(drop)
}

fn snapshots(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 4);
    for (number, expected) in [(1, 0x2), (3, 0xa), (2, 0xe)] {
        s.forget()?;
        s.send(&writes[number])?;
        let eack = s.expect("an EACK for a push behind a hole", is_eack)?;
        let found = bitmap(&eack, DATA_RECEIVED);
        judge(found == expected, format!("received packets {expected:#x}"), format!("{found:#x}"))?;
    }
    close(s, &writes[..1], &writes[3])
}

fn eack_for_hole(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, 2);
    s.forget()?;
    s.send(&writes[1])?;
    let found = s.expect("an acknowledgement of a push behind a hole", |_| true)?;
    judge(is_eack(&found), "an EACK", found.text())?;
    close(s, &writes[..1], &writes[1])
}

/// Returns a WRITE and a READ just beyond their windows. They have no effect, so they are not numbered.
fn beyond_both(s: &Session<'_>, address: u64) -> [Draft; 2] {
    let (rkey, cid, next) = (s.subject.rkey, s.subject.peer_cid.0, s.next());
    [Draft::write(rkey, address, &[0xee; 8], cid), Draft::read(rkey, address, 8, cid)].map(|draft| {
        let psn = match draft.kind {
            PacketType::PullRequest => next.request_psn.add(REQUEST_WINDOW),
            _ => next.data_psn.add(DATA_WINDOW),
        };
        Draft { psn, rsn: next.rsn.add(DATA_WINDOW), ..draft.quiet() }
    })
}

fn own_bits(s: &mut Session<'_>) -> Outcome {
    let [write, read] = beyond_both(s, 0);
    for (draft, expected, name) in [(write, 2, "30"), (read, 1, "31")] {
        s.forget()?;
        s.send(&draft)?;
        let eack = s.expect("an EACK for a packet beyond the window", is_eack)?;
        let found = eack.word(7) & 3;
        judge(
            found == expected,
            format!("only bit {name} of word 7"),
            format!("{found:#04b} in its last two bits"),
        )?;
    }
    Ok(())
}

fn beyond(s: &mut Session<'_>) -> Outcome {
    s.store(0, &[5; 8])?;
    for draft in beyond_both(s, 0) {
        s.send(&draft)?;
        s.expect("an EACK with OWN", |received| {
            received.eack().is_some_and(|eack| eack.header.own_data || eack.header.own_request)
        })?;
    }
    let found = s.fetch(0, 8)?;
    judge(found == [5; 8], "a region without the data of the discarded WRITE", format!("{found:x?}"))
}

fn window_sizes(s: &mut Session<'_>) -> Outcome {
    let writes = writes(s, DATA_WINDOW as usize);
    s.send(&writes[DATA_WINDOW as usize - 1])?;
    let eack = s.expect("an EACK for the last packet of the data window", is_eack)?;
    let found = (bitmap(&eack, DATA_RECEIVED), eack.word(7) & 3);
    judge(found == (1 << 127, 0), "bit 127 received, and no OWN", format!("{found:x?}"))?;
    close(s, &writes[..DATA_WINDOW as usize - 1], &writes[DATA_WINDOW as usize - 1])?;

    s.forget()?;
    let reads: Vec<_> = (0..REQUEST_WINDOW).map(|_| s.read(0, 8).quiet()).collect();
    let last = &reads[REQUEST_WINDOW as usize - 1];
    s.send(last)?;
    let eack = s.expect("an EACK for the last packet of the request window", is_eack)?;
    let found = (eack.word(REQUEST), eack.word(7) & 3);
    judge(found == (1 << 31, 0), "bit 63 received, and no OWN", format!("{found:x?}"))?;
    answered(s, &reads[..REQUEST_WINDOW as usize - 1], last)
}
