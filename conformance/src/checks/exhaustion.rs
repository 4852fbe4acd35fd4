//! A packet that the peer gives up, and the Resync in its place (sections 7.6, 9.1.8 and 11).

use super::answers::open;
use super::given_up::{self, RESYNC};
use crate::check::Check;
use crate::received::Received;
use crate::session::Session;
use crate::verdict::Outcome;

/// Packet type of the Pull Data that the Resync replaces.
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

/// Lets the peer send a Pull Data, and returns it and the Resync in its place. Acknowledges the Resync, or what came
/// instead.
fn resync(s: &mut Session<'_>) -> Outcome<[Received; 2]> {
    let original = open(s, 1)?.remove(0);
    let resync = given_up::exhaust(s, &original);
    s.acknowledge()?;
    Ok([original, resync?.0])
}

fn given_up(s: &mut Session<'_>) -> Outcome {
    resync(s).map(drop)
}

fn layout(s: &mut Session<'_>) -> Outcome {
    given_up::judge_layout(&resync(s)?[1])
}

fn code(s: &mut Session<'_>) -> Outcome {
    given_up::judge_code(&resync(s)?[1])
}

fn replaced_type(s: &mut Session<'_>) -> Outcome {
    given_up::judge_type(&resync(s)?[1], PULL_DATA)
}

fn vendor(s: &mut Session<'_>) -> Outcome {
    given_up::judge_vendor(&resync(s)?[1])
}

fn same_numbers(s: &mut Session<'_>) -> Outcome {
    let [original, resync] = resync(s)?;
    given_up::judge_numbers(&original, &resync)
}

fn reliable(s: &mut Session<'_>) -> Outcome {
    let original = open(s, 1)?.remove(0);
    given_up::exhaust(s, &original)?;
    s.expect("another copy of the Resync", |received| {
        received.raw_type() == RESYNC && received.same_place(&original)
    })?;
    s.acknowledge()
}
