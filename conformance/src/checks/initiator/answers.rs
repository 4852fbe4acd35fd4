//! What the peer does with the answers to its pulls (sections 6.6, 8.4.3, 9.2 and 11).

use transport_common::ids::Spi;
use transport_common::units::{PicosecondSpan, Picoseconds};
use transport_common::wire::psp::Psp;

use super::requests::{Read, Request, acknowledged, answer, ends, open, request, true_copy};
use crate::check::Check;
use crate::draft::Draft;
use crate::received::Received;
use crate::session::{OPERATION_BYTES, Session};
use crate::trigger::Completion::Success;
use crate::verdict::{Outcome, judge};

const EACK: u8 = 10;
/// Size of the receive window for data (F-9-1).
const WINDOW: u32 = 128;

pub(super) const CHECKS: &[Check] = &[
    Check::ordered("F-9-2", "Pull Data is acknowledged before the one that the ULP waits for", on_receipt),
    Check::new("F-6.6.1-3", "two answers are acknowledged one after the other", one_by_one),
    Check::new("F-9-3", "answers in order draw only BACKs", only_backs),
    Check::new("F-6.1.2-5", "a missing Pull Data draws an EACK", hole),
    Check::new("F-9.2.2.4-6", "Pull Data behind a hole is received and acknowledged", both_bitmaps),
    Check::new("F-9.2.2.4-7", "the base passes the answers that came behind a hole", base_moves),
    Check::new("F-11-13", "a second copy of an answer draws an ACK", duplicate),
    Check::new("F-9.2.2.4-2", "Pull Data beyond the window is discarded and reported by OWN", beyond),
    Check::new(
        "F-8.4.3.2-1",
        "Pull Data with an unknown RSN is acknowledged, and disturbs nothing",
        unknown_rsn,
    ),
    Check::new("F-8.4.3.2-2", "Pull Data that is too long is acknowledged, and disturbs nothing", too_long),
    Check::new("F-7.4-2", "answers find their pulls by the RSN, in any order", swapped),
    Check::new("D-54", "an answer does not acknowledge its Pull Request", no_implicit_ack),
    Check::new("F-9.2.5-1", "a Resync in the place of an answer draws an ACK", resync),
    Check::new("F-9.2.5-2", "a Resync at the base lets the base pass what came behind it", resync_at_base),
    Check::new("F-6.5-4", "Pull Data with a wrong SPI is discarded without an answer", wrong_spi),
    Check::new("F-6.5-5", "Pull Data with an old IV is discarded without an answer", old_iv),
    Check::new("F-9.2.2-1", "Pull Data for another function is discarded without an answer", wrong_function),
];

fn is_eack(received: &Received) -> bool {
    received.raw_type() == EACK
}

/// Makes the peer submit READs, and acknowledges their Pull Requests.
fn pulls(s: &mut Session<'_>, count: usize) -> Outcome<Vec<Request>> {
    let pulls = open(s, &vec![Read; count])?;
    s.acknowledge()?;
    Ok(pulls)
}

/// Prepares the answer to a READ.
fn prepare(s: &mut Session<'_>, pull: &Request) -> Draft {
    s.pull_data(pull.rsn(), &[7; OPERATION_BYTES as usize])
}

fn on_receipt(s: &mut Session<'_>) -> Outcome {
    let pulls = pulls(s, 2)?;
    // The ULP needs the answer to the first pull first.
    let psn = answer(s, &pulls[1])?;
    acknowledged(s, psn)?;
    let psn = answer(s, &pulls[0])?;
    acknowledged(s, psn).map(drop)
}

fn one_by_one(s: &mut Session<'_>) -> Outcome {
    for pull in pulls(s, 2)? {
        let psn = answer(s, &pull)?;
        let found = acknowledged(s, psn)?.bases().map(|(data, _)| data);
        judge(found == Some(psn.add(1)), format!("DBPSN {}", psn.add(1).0), format!("{found:?}"))?;
    }
    Ok(())
}

fn only_backs(s: &mut Session<'_>) -> Outcome {
    for pull in pulls(s, 3)? {
        answer(s, &pull)?;
    }
    s.silence("no EACK, because nothing is missing", is_eack)
}

/// Answers two pulls, and holds back the first answer. Returns it, and the EACK that the peer sends.
fn behind_hole(s: &mut Session<'_>) -> Outcome<([Draft; 2], Received)> {
    let pulls = pulls(s, 2)?;
    let answers = [prepare(s, &pulls[0]), prepare(s, &pulls[1])];
    s.send(&answers[1])?;
    let eack = s.expect("an EACK for an answer behind a hole", is_eack)?;
    Ok((answers, eack))
}

fn hole(s: &mut Session<'_>) -> Outcome {
    let (answers, eack) = behind_hole(s)?;
    let (found, base) = ((eack.word(2), eack.word(15)), answers[0].psn.0);
    judge(found == (base, 2), format!("DBPSN and received {:?}", (base, 2)), format!("{found:?}"))?;
    s.deliver(&answers[0]).map(drop)
}

fn both_bitmaps(s: &mut Session<'_>) -> Outcome {
    let (answers, eack) = behind_hole(s)?;
    let found = [eack.word(11), eack.word(15)];
    judge(found == [2, 2], "bit 1 of both data bitmaps", format!("{found:?}"))?;
    s.deliver(&answers[0]).map(drop)
}

fn base_moves(s: &mut Session<'_>) -> Outcome {
    let (answers, _) = behind_hole(s)?;
    s.send(&answers[0])?;
    acknowledged(s, answers[1].psn).map(drop)
}

fn duplicate(s: &mut Session<'_>) -> Outcome {
    let pull = pulls(s, 1)?.remove(0);
    let draft = prepare(s, &pull);
    s.deliver(&draft)?;
    s.settle()?;
    s.deliver(&draft.quiet()).map(drop)
}

fn beyond(s: &mut Session<'_>) -> Outcome {
    let pull = pulls(s, 1)?.remove(0);
    let draft = prepare(s, &pull);
    let far = Draft { psn: draft.psn.add(WINDOW), ..draft.clone() };
    s.send(&far)?;
    s.expect("an EACK with OWN of the data window, and nothing received", |received| {
        is_eack(received) && received.word(7) & 2 == 2 && (8..16).all(|word| received.word(word) == 0)
    })?;
    s.deliver(&draft).map(drop)
}

fn unknown_rsn(s: &mut Session<'_>) -> Outcome {
    let pull = pulls(s, 1)?.remove(0);
    let stray = s.pull_data(pull.rsn().add(1000), &[1; OPERATION_BYTES as usize]);
    s.deliver(&stray)?;
    let psn = answer(s, &pull)?;
    acknowledged(s, psn).map(drop)
}

fn too_long(s: &mut Session<'_>) -> Outcome {
    let pulls = pulls(s, 2)?;
    let long = s.pull_data(pulls[0].rsn(), &[1; OPERATION_BYTES as usize + 8]);
    s.deliver(&long)?;
    s.silence("no NACK and no Resync", |received| received.nack().is_some() || received.resync().is_some())?;
    let psn = answer(s, &pulls[1])?;
    acknowledged(s, psn).map(drop)
}

fn swapped(s: &mut Session<'_>) -> Outcome {
    let pulls = pulls(s, 3)?;
    for number in [2, 0, 1] {
        let psn = answer(s, &pulls[number])?;
        acknowledged(s, psn)?;
    }
    // Every pull has its answer, so the window for requests has room again, and a new pull comes.
    let pull = request(s, Read)?;
    let expected = pulls[2].rsn().add(1);
    judge(pull.rsn() == expected, format!("RSN {} in the next Pull Request", expected.0), pull.rsn().0)?;
    if s.sees_completions() {
        for pull in &pulls {
            ends(s, pull.ticket, Success)?;
        }
    }
    Ok(())
}

fn no_implicit_ack(s: &mut Session<'_>) -> Outcome {
    let pull = request(s, Read)?;
    let draft = prepare(s, &pull);
    s.deliver(&draft)?;
    true_copy(s, &pull)?;
    s.acknowledge()
}

fn resync(s: &mut Session<'_>) -> Outcome {
    let pull = pulls(s, 1)?.remove(0);
    let replaced = prepare(s, &pull).replaced().quiet();
    s.deliver(&replaced).map(drop)
}

fn resync_at_base(s: &mut Session<'_>) -> Outcome {
    let (answers, _) = behind_hole(s)?;
    s.send(&answers[0].replaced())?;
    acknowledged(s, answers[1].psn).map(drop)
}

/// Sends an answer in a way that is not acceptable, expects silence, and sends it as it has to be.
fn unacceptable(s: &mut Session<'_>, send: impl FnOnce(&mut Session<'_>, &Draft) -> Outcome) -> Outcome {
    let pull = pulls(s, 1)?.remove(0);
    let draft = prepare(s, &pull);
    s.forget()?;
    send(s, &draft)?;
    s.silence("no acknowledgement", |received| received.ack().is_some() || received.nack().is_some())?;
    s.deliver(&draft).map(drop)
}

fn wrong_spi(s: &mut Session<'_>) -> Outcome {
    unacceptable(s, |s, draft| {
        let psp = s.psp();
        let psp = Psp { spi: Spi(psp.spi.0 ^ 0x0055_0000), ..psp };
        s.send_psp(&psp, &draft.bytes(s.base()), Some("a wrong SPI")).map(drop)
    })
}

fn old_iv(s: &mut Session<'_>) -> Outcome {
    // More than any replay margin.
    const AGE: PicosecondSpan = PicosecondSpan::from_nanos(600_000_000_000);
    unacceptable(s, |s, draft| {
        let psp = s.psp();
        let psp = Psp { iv: Picoseconds(psp.iv.0.wrapping_sub(AGE.0)), ..psp };
        s.send_psp(&psp, &draft.bytes(s.base()), Some("an IV that is ten minutes old")).map(drop)
    })
}

fn wrong_function(s: &mut Session<'_>) -> Outcome {
    unacceptable(s, |s, draft| {
        let base = s.base();
        let other =
            transport_common::wire::base::BaseHeader { dest_function: base.dest_function ^ 1, ..base };
        s.send_falcon(&draft.bytes(other), Some("a wrong destination function")).map(drop)
    })
}
