//! What the peer does when the tester refuses a request (sections 7.8, 8.4.3.5, 9.2.4 and 11).

use transport_common::wire::nack::{Nack, NackCode};
use transport_common::wire::resync::ResyncCode;

use super::requests::{
    PULL_REQUEST, PUSH_DATA, RESYNC, Read, Request, Write, attempts, copy, early, no_copies, open, request,
    timeout, true_copy,
};
use crate::check::Check;
use crate::received::Received;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9.2.4-1", "a NACK with an old base is discarded", stale),
    Check::new("F-9.2.4-2", "the bases of a NACK acknowledge", bases_count),
    Check::new("F-9.2.4-3", "a push with NACK code 1 is sent again by timeout", resources),
    Check::new("F-9.2.4-5", "a push with NACK code 4 becomes a Resync with code 5", xlr),
    Check::new("F-9.2.4-6", "a push with NACK code 6 becomes a Resync with code 1", complete_in_error),
    Check::new("F-9.2.4-7", "a push with NACK code 7 becomes a Resync with code 6", non_recoverable),
    Check::new("F-9.2.4-8", "a push with NACK code 8 becomes a Resync with code 7", invalid_cid),
    Check::new("F-8.4.3.5-1", "the Resync of a refused push has its type, PSN and RSN", same_numbers),
    Check::new("F-6.6.5-2", "only the refused push becomes a Resync", only_refused),
    Check::new("F-7.8-6", "W of a NACK says that it refuses a Pull Request", pull_refused),
    Check::new("F-11-7", "the Resync of a refused push has all attempts before it", full_attempts),
    Check::new("D-38", "a NACK with code 5, which is reserved, changes nothing", reserved_code),
    Check::new("F-7.8-3", "a NACK refuses the push with its PSN, and none if that was never sent", unsent),
];

/// Refuses a request.
fn refuse(s: &mut Session<'_>, request: &Request, code: NackCode) -> Outcome {
    let request_window = request.packet.raw_type() == PULL_REQUEST;
    let nack = Nack { request_window, ..s.nack_of(request.psn(), code) };
    s.send_nack(&nack, None)
}

/// Returns a push, and the Resync in its place after a NACK with this code.
fn refused(s: &mut Session<'_>, code: NackCode) -> Outcome<(Request, Received)> {
    // The Resync follows the NACK, and does not wait for the timer.
    let early = early(s)?;
    let push = request(s, Write)?;
    refuse(s, &push, code)?;
    let what = format!("a Resync with PSN {}", push.psn().0);
    let resync = s.expect_within(early, &what, |received| received.raw_type() == RESYNC)?;
    Ok((push, resync))
}

fn becomes(s: &mut Session<'_>, nack: NackCode, resync: ResyncCode) -> Outcome {
    let (_, found) = refused(s, nack)?;
    judge(found.byte(24) == resync.0, format!("Resync code {}", resync.0), found.byte(24))
}

fn xlr(s: &mut Session<'_>) -> Outcome {
    becomes(s, NackCode::XLR_DROP, ResyncCode::REMOTE_XLR)
}

fn complete_in_error(s: &mut Session<'_>) -> Outcome {
    becomes(s, NackCode::COMPLETE_IN_ERROR, ResyncCode::TARGET_ULP_COMPLETE_IN_ERROR)
}

fn non_recoverable(s: &mut Session<'_>) -> Outcome {
    becomes(s, NackCode::NON_RECOVERABLE, ResyncCode::TARGET_ULP_NON_RECOVERABLE)
}

fn invalid_cid(s: &mut Session<'_>) -> Outcome {
    becomes(s, NackCode::INVALID_CID, ResyncCode::TARGET_ULP_INVALID_CID)
}

fn same_numbers(s: &mut Session<'_>) -> Outcome {
    let (push, resync) = refused(s, NackCode::COMPLETE_IN_ERROR)?;
    let found = (resync.byte(25) >> 4, resync.word(4), resync.word(5));
    let expected = (PUSH_DATA, push.psn().0, push.rsn().0);
    judge(found == expected, format!("type, PSN and RSN {expected:?}"), format!("{found:?}"))
}

fn only_refused(s: &mut Session<'_>) -> Outcome {
    let pushes = open(s, &[Write; 3])?;
    refuse(s, &pushes[1], NackCode::COMPLETE_IN_ERROR)?;
    let found = copy(s, &pushes[1])?;
    judge(found.raw_type() == RESYNC, "a Resync for the second push", found.text())?;
    true_copy(s, &pushes[0])?;
    true_copy(s, &pushes[2]).map(drop)
}

fn pull_refused(s: &mut Session<'_>) -> Outcome {
    let [push, pull] = [request(s, Write)?, request(s, Read)?];
    refuse(s, &pull, NackCode::XLR_DROP)?;
    let found = copy(s, &pull)?;
    let numbers = (found.raw_type(), found.byte(25) >> 4, found.word(5));
    let expected = (RESYNC, PULL_REQUEST, pull.rsn().0);
    judge(numbers == expected, format!("type, replaced type and RSN {expected:?}"), format!("{numbers:?}"))?;
    true_copy(s, &push).map(drop)
}

fn full_attempts(s: &mut Session<'_>) -> Outcome {
    let attempts = attempts(s)?;
    let push = request(s, Write)?;
    for _ in 0..attempts {
        true_copy(s, &push)?;
    }
    refuse(s, &push, NackCode::COMPLETE_IN_ERROR)?;
    // After the last of these the connection would end.
    for number in 0..=attempts {
        let again = copy(s, &push)?;
        judge(again.byte(24) == 1, format!("Resync {number} of {} with code 1", attempts + 1), again.text())?;
    }
    s.acknowledge()
}

fn stale(s: &mut Session<'_>) -> Outcome {
    let early = early(s)?;
    let pushes = open(s, &[Write; 2])?;
    let mut nack = s.nack_of(pushes[1].psn(), NackCode::XLR_DROP);
    let back = s.ack_of(pushes[1].psn());
    s.send_back(&back, None)?;
    nack.data_base_psn = pushes[0].psn();
    s.send_nack(&nack, Some("its base is old"))?;
    s.silence_for(early, "no Resync", |received| received.resync().is_some())
}

fn bases_count(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let pushes = open(s, &[Write; 2])?;
    let mut nack = s.nack_of(pushes[1].psn(), NackCode::INSUFFICIENT_RESOURCES);
    nack.data_base_psn = pushes[1].psn();
    s.send_nack(&nack, None)?;
    copy(s, &pushes[1])?;
    no_copies(s, timeout, &[&pushes[0]])
}

fn resources(s: &mut Session<'_>) -> Outcome {
    let early = early(s)?;
    let push = request(s, Write)?;
    refuse(s, &push, NackCode::INSUFFICIENT_RESOURCES)?;
    let until = push.packet.at.after(early);
    s.silence_by(until, "no copy before the timeout", |received| push.has_copy(received))?;
    true_copy(s, &push).map(drop)
}

fn reserved_code(s: &mut Session<'_>) -> Outcome {
    let push = request(s, Write)?;
    refuse(s, &push, NackCode(5))?;
    true_copy(s, &push)?;
    s.acknowledge()
}

fn unsent(s: &mut Session<'_>) -> Outcome {
    let early = early(s)?;
    let push = request(s, Write)?;
    let nack = s.nack_of(push.psn().add(3), NackCode::COMPLETE_IN_ERROR);
    s.send_nack(&nack, Some("refuses a packet that was never sent"))?;
    s.silence_for(early, "no Resync", |received| received.resync().is_some())?;
    true_copy(s, &push).map(drop)
}
