//! What the peer refuses, and how (sections 6.4, 6.6.5 and 9.1.7).

use transport_common::ids::{Psn, RKey};
use transport_common::wire::nack::NackCode;
use transport_common::wire::resync::ResyncCode;

use crate::check::Check;
use crate::draft::Draft;
use crate::received::Received;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-6.4-3", "a push that the ULP refuses draws a CIE NACK and no ACK", cie),
    Check::new("F-9.1.7-1", "a NACK carries the latest bases and T1", nack_state),
    Check::new("F-6.4-5", "a copy of a refused push draws the NACK again", nack_repeated),
    Check::new("F-6.6.5-1", "the NACK of a copy has the same codes", same_nack),
    Check::new("F-6.6.5-2", "a Resync for a refused push advances the window", resync_after_cie),
    Check::new(
        "F-6.4-4",
        "a READ that the ULP refuses is answered by Pull Data, without a NACK",
        refused_read,
    ),
    Check::new("F-9.1.7-2", "a SEND without a posted receive draws NACK code 2", rnr),
    Check::new("F-6.6.3-2", "a copy of an RNR-NACKed push draws a new RNR NACK", rnr_repeated),
];

/// Waits for a NACK of a data PSN.
fn nacked(s: &mut Session<'_>, psn: Psn) -> Outcome<Received> {
    s.expect(&format!("a NACK of PSN {}", psn.0), |received| {
        received.nack().is_some_and(|nack| nack.psn == psn)
    })
}

/// Ends a push that the peer has refused.
fn give_up(s: &mut Session<'_>, refused: &Draft) -> Outcome {
    let mut resync = refused.replaced();
    resync.resync.0 = ResyncCode::TARGET_ULP_COMPLETE_IN_ERROR;
    s.deliver(&resync).map(drop)
}

fn cie(s: &mut Session<'_>) -> Outcome {
    let refused = s.forbidden_write();
    s.send(&refused)?;
    let nack = nacked(s, refused.psn)?;
    let code = nack.nack().map(|nack| nack.code);
    judge(code == Some(NackCode::COMPLETE_IN_ERROR), "NACK code 6", nack.text())?;
    s.silence("no ACK of the refused push", |received| {
        received.bases().is_some_and(|(data, _)| refused.psn.is_before(data))
    })?;
    give_up(s, &refused)
}

fn nack_state(s: &mut Session<'_>) -> Outcome {
    s.fetch(0, 8)?;
    let refused = s.forbidden_write();
    let iv = s.send(&refused)?;
    let nack = nacked(s, refused.psn)?;
    let (found, expected) =
        ([2, 3, 4].map(|word| nack.word(word)), [refused.psn.0, s.next().request_psn.0, iv.ticks().0]);
    judge(found == expected, format!("DBPSN, RBPSN, T1 {expected:?}"), format!("{found:?}"))?;
    give_up(s, &refused)
}

fn nack_repeated(s: &mut Session<'_>) -> Outcome {
    let refused = s.forbidden_write();
    for _ in 0..2 {
        s.send(&refused)?;
        nacked(s, refused.psn)?;
    }
    give_up(s, &refused)
}

fn same_nack(s: &mut Session<'_>) -> Outcome {
    let refused = s.forbidden_write();
    s.send(&refused)?;
    let first = nacked(s, refused.psn)?;
    s.send(&refused)?;
    let second = nacked(s, refused.psn)?;
    let (expected, found) = (first.word(9), second.word(9));
    judge(
        found == expected,
        format!("{expected:#010x} in word 9, as in the first NACK"),
        format!("{found:#010x}"),
    )?;
    give_up(s, &refused)
}

fn resync_after_cie(s: &mut Session<'_>) -> Outcome {
    let refused = s.forbidden_write();
    s.send(&refused)?;
    nacked(s, refused.psn)?;
    give_up(s, &refused)
}

fn refused_read(s: &mut Session<'_>) -> Outcome {
    let (rkey, cid) = (RKey(s.subject.rkey.0 ^ 0x5a00_0000), s.subject.peer_cid.0);
    let read = s.number(Draft::read(rkey, 0, 40, cid));
    s.send(&read)?;
    let answer = s.answer(&read)?;
    let found = answer.payload().len();
    let most = usize::from(read.request_length);
    judge(
        found < most,
        format!("fewer than {most} bytes, because there is no data"),
        format!("{found} bytes"),
    )?;
    s.acknowledge()?;
    s.silence("no NACK of a pull", |received| received.nack().is_some())
}

fn rnr(s: &mut Session<'_>) -> Outcome {
    let message = s.message(b"nobody waits for this");
    s.send(&message)?;
    let nack = nacked(s, message.psn)?;
    let code = nack.nack().map(|nack| nack.code);
    judge(code == Some(NackCode::RNR), "NACK code 2", nack.text())?;
    give_up(s, &message)
}

fn rnr_repeated(s: &mut Session<'_>) -> Outcome {
    let message = s.message(b"nobody waits for this");
    for _ in 0..2 {
        s.send(&message)?;
        let nack = nacked(s, message.psn)?;
        let code = nack.nack().map(|nack| nack.code);
        judge(code == Some(NackCode::RNR), "NACK code 2", nack.text())?;
    }
    give_up(s, &message)
}
