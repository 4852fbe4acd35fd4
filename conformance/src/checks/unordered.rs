//! What only an unordered connection shows.

use crate::check::Check;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::unordered("F-6.1.2-1", "a hole in the data window does not hold back pulls", windows_independent),
    Check::unordered(
        "F-9.2.2.4-5",
        "a push behind a hole is acknowledged when the ULP has it",
        push_behind_hole,
    ),
    Check::unordered("F-9.2.2.4-6", "a Pull Request behind a hole is acknowledged at once", pull_behind_hole),
    Check::unordered(
        "F-9.1.6-4",
        "with a hole, an ACK follows a packet that piggybacks",
        ack_after_piggyback,
    ),
];

fn windows_independent(s: &mut Session<'_>) -> Outcome {
    let writes = [s.write(0, &[1; 8]), s.write(0, &[2; 8]).quiet()];
    s.send(&writes[1])?;
    s.fetch(0, 8)?;
    s.send(&writes[0])?;
    s.acknowledged(&writes[1]).map(drop)
}

fn push_behind_hole(s: &mut Session<'_>) -> Outcome {
    let writes = [s.write(0, &[1; 8]), s.write(8, &[2; 8])];
    s.send(&writes[1])?;
    let eack = s.expect("an EACK for a push behind a hole", |received| received.eack().is_some())?;
    let found = eack.eack().map(|eack| eack.data_ack[0]);
    judge(found == Some(2), "bit 1 acknowledged, because the ULP has the data", eack.text())?;
    let data = s.fetch(8, 8)?;
    judge(data == [2; 8], "the data in the region", format!("{data:x?}"))?;
    s.send(&writes[0])?;
    s.acknowledged(&writes[1]).map(drop)
}

fn pull_behind_hole(s: &mut Session<'_>) -> Outcome {
    let reads = [s.read(0, 8), s.read(8, 8)];
    s.send(&reads[1])?;
    s.expect("an EACK with bit 1 of the request bitmap", |received| {
        received.eack().is_some_and(|eack| eack.request == 2)
    })?;
    s.answer(&reads[1])?;
    s.acknowledge()?;
    s.send(&reads[0])?;
    s.answer(&reads[0])?;
    s.acknowledged(&reads[1]).map(drop)
}

fn ack_after_piggyback(s: &mut Session<'_>) -> Outcome {
    let writes = [s.write(0, &[1; 8]), s.write(8, &[2; 8]).quiet()];
    s.send(&writes[1])?;
    s.expect("an EACK for a push behind a hole", |received| received.eack().is_some())?;
    s.settle()?;
    s.forget()?;
    let read = s.read(0, 8).quiet();
    s.send(&read)?;
    s.answer(&read)?;
    s.expect("an EACK, because bases alone do not show the hole", |received| received.eack().is_some())?;
    s.send(&writes[0])?;
    s.acknowledged(&writes[1]).map(drop)
}
