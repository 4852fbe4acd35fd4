//! A packet that the peer gives up, and the Resync in its place (sections 7.6, 9.1.8 and 11).

use super::answers::{is_copy, open, psn};
use crate::check::Check;
use crate::received::Received;
use crate::session::Session;
use crate::verdict::{Outcome, Stop, judge};

/// Packet type of a Resync, and of the Pull Data that it replaces.
const RESYNC: u8 = 6;
const PULL_DATA: u8 = 3;

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-11-5", "a packet at its last attempt becomes a Resync", given_up),
    Check::new("F-7.6-1", "a Resync has 32 bytes, and its reserved bits are 0", layout),
    Check::new("F-7.6-2", "a Resync for a packet at its last attempt has code 3", code),
    Check::new("F-7.6-4", "a Resync names the type of the packet that it replaces", replaced_type),
    Check::new("F-7.6-5", "the vendor defined word of a Resync is 0", vendor),
    Check::new("F-9.1.8-2", "a Resync has the PSN and RSN of the packet that it replaces", same_numbers),
    Check::new("F-9.1.8-1", "a Resync is sent again until it is acknowledged", reliable),
];

/// Lets the peer send a Pull Data and acknowledges nothing until a Resync comes. Returns both.
fn exhaust(s: &mut Session<'_>) -> Outcome<[Received; 2]> {
    let original = open(s, 1)?.remove(0);
    let psn = psn(&original);
    let mut last = original.at;
    let patience = s.patience.answer;
    let until = s.now().after(patience);
    while s.now().0 < until.0 {
        let left = until.since(s.now());
        let Some(received) = s.find(left, |_| true)? else { break };
        if received.raw_type() == RESYNC {
            return Ok([original, received]);
        }
        if is_copy(&received, psn) {
            last = received.at;
        }
    }
    let quiet = s.now().since(last);
    s.acknowledge()?;
    // A peer that has sent nothing for half of the time has stopped without a Resync.
    if quiet.0 * 2 < patience.0 {
        let seconds = patience.as_nanos() / 1_000_000;
        return Err(Stop::Skip(format!(
            "the peer still retransmits after {seconds} ms: lower its max_retransmit_attempts or its rto, or raise \
             --patience"
        )));
    }
    Err(Stop::fail("a Resync after the last copy", "no packet any more"))
}

/// Returns the Resync, and acknowledges it.
fn resync(s: &mut Session<'_>) -> Outcome<[Received; 2]> {
    let both = exhaust(s)?;
    s.acknowledge()?;
    Ok(both)
}

fn given_up(s: &mut Session<'_>) -> Outcome {
    resync(s).map(drop)
}

fn layout(s: &mut Session<'_>) -> Outcome {
    let [_, resync] = resync(s)?;
    let (length, reserved) = (resync.falcon().len(), resync.word(6) & 0x000f_ffff);
    judge(
        (length, reserved) == (32, 0),
        "32 bytes, and 0 in bits 12 to 31 of word 6",
        format!("{length} bytes, and {reserved:#x}"),
    )
}

fn code(s: &mut Session<'_>) -> Outcome {
    let found = resync(s)?[1].byte(24);
    judge(found == 3, "code 3", found)
}

fn replaced_type(s: &mut Session<'_>) -> Outcome {
    let found = resync(s)?[1].byte(25) >> 4;
    judge(found == PULL_DATA, "type 3, Pull Data", found)
}

fn vendor(s: &mut Session<'_>) -> Outcome {
    let found = resync(s)?[1].word(7);
    judge(found == 0, "0 in word 7", format!("{found:#x}"))
}

fn same_numbers(s: &mut Session<'_>) -> Outcome {
    let [expected, found] = resync(s)?.map(|packet| (packet.word(4), packet.word(5)));
    judge(found == expected, format!("PSN and RSN {expected:?}"), format!("{found:?}"))
}

fn reliable(s: &mut Session<'_>) -> Outcome {
    let [original, _] = exhaust(s)?;
    let psn = psn(&original);
    s.expect("another copy of the Resync", |received| {
        received.raw_type() == RESYNC && is_copy(received, psn)
    })?;
    s.acknowledge()
}
