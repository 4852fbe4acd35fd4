//! What the peer does when the tester is not ready (sections 6.6.3, 7.8, 8.4.3.4 and 11, D-40 and D-41).

use transport_common::units::PicosecondSpan;
use transport_common::wire::nack::RNR_TIMEOUT_NANOS;

use super::requests::{
    RESYNC, Request, Write, attempts, copy, ends, not_ready, open, request, timeout, true_copy,
};
use crate::check::Check;
use crate::session::Session;
use crate::trigger::Completion::Success;
use crate::verdict::{Outcome, Stop, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-6.6.3-1", "a push whose NACK is lost is sent again with its PSN and RSN", lost_nack),
    Check::new("F-6.6.3-3", "a push with NACK code 2 waits for the RNR timeout from the NACK on", waits),
    Check::new("F-9.2.4-4", "a push with NACK code 2 waits no longer than the RNR timeout", no_longer),
    Check::new("F-11-8", "a short RNR timeout counts as the retransmission timeout", short),
    Check::new("D-40", "the RNR timeout holds for one copy only", one_copy),
    Check::new("F-8.4.3.4-1", "NACK code 2 delays no other push", only_refused),
    Check::new("D-41", "NACK code 2 begins the count of the attempts again", count_again),
    Check::new("F-7.8-9", "RNR timeout code 0 stands for 655.36 ms", longest),
    Check::new("F-7.8-12", "RNR timeout codes from 24 to 31 stand for their times", table),
];

/// Timers of the peer may be one tick and 0.1 % short.
fn with_slack(time: PicosecondSpan) -> u64 {
    time.as_nanos() / 1000 - time.as_nanos() / 1_000_000 - 1
}

const fn rnr(code: u8) -> PicosecondSpan {
    PicosecondSpan::from_nanos(RNR_TIMEOUT_NANOS[code as usize])
}

/// Returns the RNR timeout codes for more than half as much again as the peer's timeout, shortest first.
fn codes(s: &mut Session<'_>) -> Outcome<Vec<u8>> {
    let timeout = timeout(s)?;
    let codes: Vec<_> = (1..=31).filter(|code| rnr(*code).0 > timeout.0 * 3 / 2).collect();
    if codes.is_empty() {
        return Err(Stop::Skip("the peer's timeout is longer than every RNR timeout".to_owned()));
    }
    Ok(codes)
}

/// Returns the time in microseconds from a NACK with this code to the copy of the push.
fn delay(s: &mut Session<'_>, push: &Request, code: u8) -> Outcome<u64> {
    // A copy that has come already does not count.
    s.forget()?;
    let from = s.now();
    not_ready(s, push, code)?;
    let again = true_copy(s, push)?;
    Ok(again.at.since(from).as_nanos() / 1000)
}

fn lost_nack(s: &mut Session<'_>) -> Outcome {
    let push = request(s, Write)?;
    let again = true_copy(s, &push)?;
    not_ready(s, &push, 1)?;
    let third = true_copy(s, &push)?;
    let expected = [push.psn().0, push.rsn().0];
    for packet in [&again, &third] {
        let found = [packet.word(4), packet.word(5)];
        judge(found == expected, format!("PSN and RSN {expected:?}"), format!("{found:?}"))?;
    }
    s.acknowledge()?;
    if s.sees_completions() { ends(s, push.ticket, Success) } else { Ok(()) }
}

fn waits(s: &mut Session<'_>) -> Outcome {
    let code = codes(s)?[0];
    let push = request(s, Write)?;
    let (found, least) = (delay(s, &push, code)?, with_slack(rnr(code)));
    judge(found >= least, format!("a copy after {least} us or more"), format!("after {found} us"))
}

fn no_longer(s: &mut Session<'_>) -> Outcome {
    let code = codes(s)?[0];
    let push = request(s, Write)?;
    let (found, most) = (delay(s, &push, code)?, rnr(code).as_nanos() / 1000 * 3 / 2);
    judge(found <= most, format!("a copy after {most} us at the latest"), format!("after {found} us"))
}

fn short(s: &mut Session<'_>) -> Outcome {
    // 0.01 ms
    const CODE: u8 = 1;
    let timeout = timeout(s)?;
    let push = request(s, Write)?;
    // The timer begins again with the NACK: a copy by the old timer would come in half of the time.
    s.find(PicosecondSpan(timeout.0 / 2), |_| false)?;
    let found = delay(s, &push, CODE)?;
    let least = timeout.as_nanos() / 1000 * 3 / 4;
    judge(found >= least, format!("a copy after {least} us or more"), format!("after {found} us"))
}

fn one_copy(s: &mut Session<'_>) -> Outcome {
    let code = codes(s)?[0];
    let timeout = timeout(s)?;
    let push = request(s, Write)?;
    not_ready(s, &push, code)?;
    let [first, second] = [true_copy(s, &push)?, true_copy(s, &push)?];
    let (found, most) = (second.at.since(first.at).as_nanos() / 1000, timeout.as_nanos() / 1000 * 3 / 2);
    judge(found <= most, format!("the next copy {most} us later at the latest"), format!("{found} us later"))
}

fn only_refused(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let code = codes(s)?.last().copied().unwrap_or_default();
    let pushes = open(s, &[Write; 2])?;
    not_ready(s, &pushes[1], code)?;
    let again = true_copy(s, &pushes[0])?;
    let (found, most) =
        (again.at.since(pushes[0].packet.at).as_nanos() / 1000, timeout.as_nanos() / 1000 * 3 / 2);
    judge(found <= most, format!("a copy of the first push in {most} us"), format!("after {found} us"))
}

fn count_again(s: &mut Session<'_>) -> Outcome {
    let attempts = attempts(s)?;
    let push = request(s, Write)?;
    for _ in 0..attempts {
        true_copy(s, &push)?;
    }
    not_ready(s, &push, 1)?;
    for number in 1..=attempts {
        let again = copy(s, &push)?;
        let expected = format!("copy {number} of {attempts} after the NACK");
        judge(again.raw_type() != RESYNC, expected, again.text())?;
    }
    s.acknowledge()
}

/// Checks the delay that a code stands for.
fn stands_for(s: &mut Session<'_>, code: u8) -> Outcome {
    let push = request(s, Write)?;
    let found = delay(s, &push, code)?;
    s.settle()?;
    let (least, most) = (with_slack(rnr(code)), rnr(code).as_nanos() / 1000 * 3 / 2);
    judge(
        (least..=most).contains(&found),
        format!("code {code}: a copy after {least} to {most} us"),
        format!("after {found} us"),
    )
}

fn longest(s: &mut Session<'_>) -> Outcome {
    if timeout(s)?.0 > rnr(0).0 {
        return Err(Stop::Skip("the peer's timeout is longer than 655.36 ms".to_owned()));
    }
    stands_for(s, 0)
}

fn table(s: &mut Session<'_>) -> Outcome {
    let codes: Vec<_> = codes(s)?.into_iter().filter(|code| *code >= 24).collect();
    // The first and the last are enough: the others take long.
    let ends = [codes.first(), codes.last()].into_iter().flatten();
    ends.copied()
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .try_for_each(|code| stands_for(s, code))
}
