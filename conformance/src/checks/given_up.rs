//! A packet that the peer gives up, and what the Resync in its place has to look like (sections 7.6, 9.1.8 and 11).

use crate::received::Received;
use crate::session::Session;
use crate::verdict::{Outcome, Stop, judge};

/// Packet type of a Resync.
pub(super) const RESYNC: u8 = 6;

/// Waits until a Resync takes the place of a packet, and acknowledges nothing. Returns it, and the number of copies
/// before it.
pub(super) fn exhaust(s: &mut Session<'_>, original: &Received) -> Outcome<(Received, u32)> {
    let patience = s.patience.answer;
    let (mut copies, mut last) = (0, original.at);
    let until = s.now().after(patience);
    while s.now().0 < until.0 {
        let left = until.since(s.now());
        let Some(received) = s.find(left, |_| true)? else { break };
        if received.raw_type() == RESYNC {
            return Ok((received, copies));
        }
        if received.same_place(original) {
            (copies, last) = (copies + 1, received.at);
        }
    }
    // A peer that has sent nothing for half of the time has stopped without a Resync.
    if s.now().since(last).0 * 2 < patience.0 {
        let time = patience.as_nanos() / 1_000_000;
        return Err(Stop::Skip(format!(
            "the peer still retransmits after {time} ms: lower its max_retransmit_attempts or its rto, or raise \
             --patience"
        )));
    }
    Err(Stop::fail("a Resync after the last copy", "no packet any more"))
}

/// Judges the length and the reserved bits of a Resync (F-7.6-1).
pub(super) fn judge_layout(resync: &Received) -> Outcome {
    let (length, reserved) = (resync.falcon().len(), resync.word(6) & 0x000f_ffff);
    judge(
        (length, reserved) == (32, 0),
        "32 bytes, and 0 in bits 12 to 31 of word 6",
        format!("{length} bytes, and {reserved:#x}"),
    )
}

/// Judges the code of a Resync (F-7.6-2).
pub(super) fn judge_code(resync: &Received) -> Outcome {
    let found = resync.byte(24);
    judge(found == 3, "code 3", found)
}

/// Judges the packet type that a Resync names (F-7.6-4).
pub(super) fn judge_type(resync: &Received, expected: u8) -> Outcome {
    let found = resync.byte(25) >> 4;
    judge(found == expected, format!("type {expected}"), found)
}

/// Judges the vendor defined word of a Resync (F-7.6-5).
pub(super) fn judge_vendor(resync: &Received) -> Outcome {
    let found = resync.word(7);
    judge(found == 0, "0 in word 7", format!("{found:#x}"))
}

/// Judges PSN and RSN of a Resync (F-9.1.8-2).
pub(super) fn judge_numbers(original: &Received, resync: &Received) -> Outcome {
    let [expected, found] = [original, resync].map(|packet| (packet.word(4), packet.word(5)));
    judge(found == expected, format!("PSN and RSN {expected:?}"), format!("{found:?}"))
}
