//! Requests that the peer gives up, and the Resyncs in their place (sections 7.6, 9.1.5, 9.1.8 and 11).

use super::requests::{PULL_REQUEST, PUSH_DATA, RESYNC, Read, Request, Write, attempts, request};
use crate::check::Check;
use crate::checks::given_up;
use crate::received::Received;
use crate::session::Session;
use crate::trigger::Operation;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "F-9.1.5-1",
        "a push is sent again as often as is configured, and then given up",
        given_attempts,
    ),
    Check::new("F-11-5", "a push at its last attempt becomes a Resync", given_up),
    Check::new("F-7.6-1", "the Resync has 32 bytes, and its reserved bits are 0", layout),
    Check::new("F-7.6-2", "the Resync has code 3", code),
    Check::new("F-7.6-4", "the Resync names packet type 5", replaced_type),
    Check::new("F-7.6-5", "the vendor defined word of the Resync is 0", vendor),
    Check::new("F-9.1.8-2", "the Resync has the PSN and RSN of the push", same_numbers),
    Check::new("F-9.1.8-1", "the Resync is sent again until it is acknowledged", reliable),
    Check::new(
        "D-24",
        "a Resync for a Pull Request names packet type 0, and has its PSN and RSN",
        pull_given_up,
    ),
];

/// Waits until a Resync takes the place of a request.
pub(super) fn resync_of(s: &mut Session<'_>, request: &Request) -> Outcome<Received> {
    given_up::exhaust(s, &request.packet).map(|(resync, _)| resync)
}

/// Returns the number of copies of a request before the Resync in its place.
pub(super) fn count_copies(s: &mut Session<'_>, request: &Received) -> Outcome<u32> {
    given_up::exhaust(s, request).map(|(_, copies)| copies)
}

/// Returns a request and the Resync in its place, and acknowledges it.
fn resync(s: &mut Session<'_>, operation: Operation) -> Outcome<(Request, Received)> {
    let request = request(s, operation)?;
    let resync = resync_of(s, &request)?;
    s.acknowledge()?;
    Ok((request, resync))
}

fn given_attempts(s: &mut Session<'_>) -> Outcome {
    let attempts = attempts(s)?;
    let push = request(s, Write)?;
    let found = count_copies(s, &push.packet)?;
    s.acknowledge()?;
    judge(found == attempts, format!("{attempts} copies before the Resync"), found)
}

fn given_up(s: &mut Session<'_>) -> Outcome {
    resync(s, Write).map(drop)
}

fn layout(s: &mut Session<'_>) -> Outcome {
    given_up::judge_layout(&resync(s, Write)?.1)
}

fn code(s: &mut Session<'_>) -> Outcome {
    given_up::judge_code(&resync(s, Write)?.1)
}

fn replaced_type(s: &mut Session<'_>) -> Outcome {
    given_up::judge_type(&resync(s, Write)?.1, PUSH_DATA)
}

fn vendor(s: &mut Session<'_>) -> Outcome {
    given_up::judge_vendor(&resync(s, Write)?.1)
}

fn same_numbers(s: &mut Session<'_>) -> Outcome {
    let (push, resync) = resync(s, Write)?;
    given_up::judge_numbers(&push.packet, &resync)
}

fn reliable(s: &mut Session<'_>) -> Outcome {
    let push = request(s, Write)?;
    resync_of(s, &push)?;
    s.expect("another copy of the Resync", |received| {
        received.raw_type() == RESYNC && push.has_copy(received)
    })?;
    s.acknowledge()
}

fn pull_given_up(s: &mut Session<'_>) -> Outcome {
    let (pull, resync) = resync(s, Read)?;
    let found = (resync.byte(25) >> 4, resync.word(4), resync.word(5));
    let expected = (PULL_REQUEST, pull.psn().0, pull.rsn().0);
    judge(found == expected, format!("type, PSN and RSN {expected:?}"), format!("{found:?}"))
}
