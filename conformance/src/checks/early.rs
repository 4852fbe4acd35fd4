//! Early retransmission by EACK (sections 6.6.6 and 9.1.4).

use transport_common::units::{PicosecondSpan, Picoseconds};
use transport_common::wire::ack::Eack;

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

/// Returns which of the packets, as a bitmap, the peer sends again until then, and how many copies those are.
fn copies(s: &mut Session<'_>, answers: &[Received], until: Picoseconds) -> Outcome<(u64, usize)> {
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

/// How long the tester waits before it sends two EACKs, and how close together they then have to be: the round trip that
/// the peer measures includes the wait, and every estimate gives a new measurement the weight of an eighth or more.
const WAIT: PicosecondSpan = PicosecondSpan(2_000_000_000);
const TOGETHER: PicosecondSpan = PicosecondSpan(WAIT.0 / 8);
/// How often the tester tries to send both EACKs in one round trip. On a busy machine it may be stopped between them.
const TRIES: usize = 10;

/// Checks that an EACK that is sent twice in a round trip causes one copy. `exchange` gives the EACK to its argument, which
/// sends it twice, and returns the early copies as a bitmap and their number.
pub(super) fn one_copy(
    s: &mut Session<'_>,
    mut exchange: impl FnMut(&mut Session<'_>, &mut Pair) -> Outcome<(u64, usize)>,
) -> Outcome {
    for _ in 0..TRIES {
        let mut pair = Pair { apart: PicosecondSpan(0) };
        let (found, count) = exchange(s, &mut pair)?;
        expect_copies(found, 1)?;
        if count == 1 || pair.apart.0 <= TOGETHER.0 {
            return judge(count == 1, "one copy", format!("{count} copies"));
        }
        s.settle()?;
    }
    Err(Stop::Skip("the tester cannot send two EACKs in one round trip: the machine is too busy".to_owned()))
}

/// Two EACKs, and how far apart they were sent.
pub(super) struct Pair {
    apart: PicosecondSpan,
}

impl Pair {
    /// Sends an EACK twice.
    pub(super) fn send(&mut self, s: &mut Session<'_>, eack: &Eack) -> Outcome {
        s.find(WAIT, |_| false)?;
        let first = s.now();
        s.send_eack(eack, None)?;
        s.send_eack(eack, None)?;
        self.apart = s.now().since(first);
        Ok(())
    }
}

/// Lets the peer send six Pull Data and sends an EACK with these bitmaps. Returns the copies before the
/// timeout.
fn after_eack(
    s: &mut Session<'_>,
    acknowledged: u64,
    received: u64,
    send: impl FnOnce(&mut Session<'_>, &Eack) -> Outcome,
) -> Outcome<(u64, usize)> {
    let early = early(s)?;
    let answers = open(s, 6)?;
    // Before the EACK is sent: if the tester is stopped then, copies by timeout arrive meanwhile.
    let until = s.now().after(early);
    let eack = s.eack_of(psn(&answers[0]), acknowledged, received);
    send(s, &eack)?;
    let found = copies(s, &answers, until)?;
    s.acknowledge()?;
    Ok(found)
}

fn once(s: &mut Session<'_>, eack: &Eack) -> Outcome {
    s.send_eack(eack, None)
}

fn expect_copies(found: u64, expected: u64) -> Outcome {
    judge(
        found == expected,
        format!("early copies of {expected:#08b}"),
        format!("early copies of {found:#08b}"),
    )
}

fn only_lost(s: &mut Session<'_>) -> Outcome {
    let (found, _) = after_eack(s, 0b11_1110, 0b11_1110, once)?;
    expect_copies(found, 1)
}

fn close_hole(s: &mut Session<'_>) -> Outcome {
    let (found, _) = after_eack(s, 0b10_1110, 0b10_1110, once)?;
    expect_copies(found, 1)
}

fn once_per_round_trip(s: &mut Session<'_>) -> Outcome {
    one_copy(s, |s, pair| after_eack(s, 0b11_1110, 0b11_1110, |s, eack| pair.send(s, eack)))
}

fn received_decides(s: &mut Session<'_>) -> Outcome {
    let (found, _) = after_eack(s, 0, 0b11_1110, once)?;
    expect_copies(found, 1)
}

fn own(s: &mut Session<'_>) -> Outcome {
    let early = early(s)?;
    let answers = open(s, 3)?;
    let until = s.now().after(early);
    let mut eack = s.eack_of(psn(&answers[0]), 0, 0b10);
    eack.header.own_data = true;
    s.send_eack(&eack, None)?;
    let (found, _) = copies(s, &answers, until)?;
    s.acknowledge()?;
    expect_copies(found, 0b101)
}

fn stale(s: &mut Session<'_>) -> Outcome {
    let early = early(s)?;
    let answers = open(s, 3)?;
    let until = s.now().after(early);
    let mut eack = s.eack_of(psn(&answers[0]), 0, 0);
    eack.header.own_data = true;
    let back = s.ack_of(psn(&answers[2]));
    s.send_back(&back, None)?;
    s.send_eack(&eack, Some("its base is old"))?;
    let (found, _) = copies(s, &answers, until)?;
    s.acknowledge()?;
    if found == 0 { Ok(()) } else { Err(Stop::fail("no early copy", format!("early copies of {found:#b}"))) }
}
