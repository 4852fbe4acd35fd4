//! Early retransmission by EACK (sections 6.6.6 and 9.1.4).

use transport_common::units::PicosecondSpan;

use super::answers::{early, is_copy, open, psn};
use crate::check::Check;
use crate::received::Received;
use crate::session::Session;
use crate::verdict::{Outcome, Stop, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "F-6.6.6-2",
        "an EACK makes the peer resend only the lost packet, before its timeout",
        only_lost,
    ),
    Check::new("F-9.1.4-1", "a hole close below the highest received packet is not resent early", close_hole),
    Check::new("F-9.1.4-2", "two EACKs in a round trip cause one early copy", once_per_round_trip),
    Check::new("F-9.1.4-3", "the received bitmap decides about early copies", received_decides),
    Check::new("F-9.1.4-4", "OWN makes the peer resend what was not received", own),
    Check::new("F-9.2.3-1", "an EACK with an old base causes no early copy", stale),
];

/// Returns which of the packets, as a bitmap, the peer sends again in this time, and how many copies those
/// are.
fn copies(s: &mut Session<'_>, answers: &[Received], within: PicosecondSpan) -> Outcome<(u64, usize)> {
    let until = s.now().after(within);
    let (mut sent, mut count) = (0, 0);
    loop {
        let found =
            s.find_by(until, |received| answers.iter().any(|answer| is_copy(received, psn(answer))))?;
        let Some(received) = found else { return Ok((sent, count)) };
        let place = answers.iter().position(|answer| is_copy(&received, psn(answer)));
        sent |= place.map_or(0, |place| 1 << place);
        count += 1;
    }
}

/// Lets the peer send six Pull Data and sends an EACK with these bitmaps. Returns the copies before the
/// timeout.
fn after_eack(s: &mut Session<'_>, acknowledged: u64, received: u64, times: usize) -> Outcome<(u64, usize)> {
    let early = early(s)?;
    let answers = open(s, 6)?;
    let eack = s.eack_of(psn(&answers[0]), acknowledged, received);
    for _ in 0..times {
        s.send_eack(&eack, None)?;
    }
    let found = copies(s, &answers, early)?;
    s.acknowledge()?;
    Ok(found)
}

fn expect_copies(found: u64, expected: u64) -> Outcome {
    judge(
        found == expected,
        format!("early copies of {expected:#08b}"),
        format!("early copies of {found:#08b}"),
    )
}

fn only_lost(s: &mut Session<'_>) -> Outcome {
    let (found, _) = after_eack(s, 0b11_1110, 0b11_1110, 1)?;
    expect_copies(found, 1)
}

fn close_hole(s: &mut Session<'_>) -> Outcome {
    let (found, _) = after_eack(s, 0b10_1110, 0b10_1110, 1)?;
    expect_copies(found, 1)
}

fn once_per_round_trip(s: &mut Session<'_>) -> Outcome {
    let (found, count) = after_eack(s, 0b11_1110, 0b11_1110, 2)?;
    expect_copies(found, 1)?;
    judge(count == 1, "one copy", format!("{count} copies"))
}

fn received_decides(s: &mut Session<'_>) -> Outcome {
    let (found, _) = after_eack(s, 0, 0b11_1110, 1)?;
    expect_copies(found, 1)
}

fn own(s: &mut Session<'_>) -> Outcome {
    let early = early(s)?;
    let answers = open(s, 3)?;
    let mut eack = s.eack_of(psn(&answers[0]), 0, 0b10);
    eack.header.own_data = true;
    s.send_eack(&eack, None)?;
    let (found, _) = copies(s, &answers, early)?;
    s.acknowledge()?;
    expect_copies(found, 0b101)
}

fn stale(s: &mut Session<'_>) -> Outcome {
    let early = early(s)?;
    let answers = open(s, 3)?;
    let mut eack = s.eack_of(psn(&answers[0]), 0, 0);
    eack.header.own_data = true;
    let back = s.ack_of(psn(&answers[2]));
    s.send_back(&back, None)?;
    s.send_eack(&eack, Some("its base is old"))?;
    let (found, _) = copies(s, &answers, early)?;
    s.acknowledge()?;
    if found == 0 { Ok(()) } else { Err(Stop::fail("no early copy", format!("early copies of {found:#b}"))) }
}
