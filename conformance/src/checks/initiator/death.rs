//! The end of a connection: the peer gives up the Resync in the place of a request (section 11). Each of these checks
//! needs a connection for itself and runs as its last, because no other check can use it afterwards.

use transport_common::ids::Cid;
use transport_common::units::PicosecondSpan;

use super::exhaustion::resync_of;
use super::requests::{RESYNC, Read, Request, Write, attempts, burst, ends, need_completions, request};
use crate::check::Check;
use crate::received::Received;
use crate::session::Session;
use crate::trigger::Completion::Error;
use crate::verdict::Outcome;

pub(super) const CHECKS: &[Check] = &[
    Check::ordered(
        "F-11-6",
        "a connection is silent after the last copy of a Resync, and the push ends with an error",
        silent,
    ),
    Check::unordered("F-11-27", "all operations of a dead connection end with an error", in_error),
];

/// Acknowledges neither a push nor the Resync in its place, until the peer has sent the Resync as often as it may
/// (D-46). Fails if the peer sends anything after that.
fn death(s: &mut Session<'_>, push: &Request, attempts: u32) -> Outcome {
    let mut last = resync_of(s, push)?;
    for number in 1..=attempts {
        last = s.expect(&format!("copy {number} of {attempts} of the Resync"), |received| {
            received.raw_type() == RESYNC && push.has_copy(received)
        })?;
    }
    // The peer has sent 1 + attempts packets and as many Resyncs. One more would come after one more timeout.
    let timeouts = u64::from(attempts) * 2 + 1;
    let timeout = last.at.since(push.packet.at).0 / timeouts;
    let long = PicosecondSpan((timeout * 2).max(s.patience.silence.0));
    let cid = s.subject.local_cid;
    s.silence_for(long, "no packet after the last copy of the Resync", |received| {
        received.at.0 >= last.at.0 && is_of(cid, received)
    })
}

/// Returns whether a packet is of this connection, and not of another one of the peer.
fn is_of(cid: Cid, received: &Received) -> bool {
    received.header().is_some_and(|header| header.dest_cid() == cid)
}

/// Listens for a while. Fails if a packet of the connection arrives.
fn is_silent(s: &mut Session<'_>) -> Outcome {
    let cid = s.subject.local_cid;
    s.silence("no packet of the dead connection", |received| is_of(cid, received))
}

fn silent(s: &mut Session<'_>) -> Outcome {
    let attempts = attempts(s)?;
    let push = request(s, Write)?;
    death(s, &push, attempts)?;
    if s.sees_completions() {
        ends(s, push.ticket, Error)?;
    }
    // The acknowledgement comes too late. A connection that is not alive takes no request either (F-11-18).
    s.acknowledge()?;
    let write = s.write(0, &[1; 8]);
    s.send(&write)?;
    is_silent(s)
}

fn in_error(s: &mut Session<'_>) -> Outcome {
    need_completions(s)?;
    let attempts = attempts(s)?;
    let pull = request(s, Read)?;
    s.acknowledge()?;
    let push = request(s, Write)?;
    death(s, &push, attempts)?;
    ends(s, push.ticket, Error)?;
    ends(s, pull.ticket, Error)?;
    // Too late as well.
    s.acknowledge()?;
    is_silent(s)?;
    let late = burst(s, &[Write])?.tickets[0];
    ends(s, late, Error)?;
    is_silent(s)
}
