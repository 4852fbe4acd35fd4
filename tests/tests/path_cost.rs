//! Checks that the way of a packet through the programs does not become longer.

use anyhow::{Result, ensure};
use tiercel_tests::path_cost::counts;
use tiercel_tests::ratchet::{Column, Line, complaints};

/// The recorded counts of each step: executed instructions, different ones, and returns. A return costs as much as twenty
/// instructions where the kernel guards it. If you make a step longer on purpose, raise its line and give the reason in the
/// commit. If you make it shorter, lower its line.
const RATCHET: [Line<3>; 8] = [
    ("WRITE: the engine sends it", [1_682, 1_682, 6]),
    ("WRITE: the target places it", [1_856, 1_848, 8]),
    ("WRITE: the target places it and acknowledges", [2_048, 2_048, 9]),
    ("ACK: the initiator completes a WRITE", [1_863, 1_640, 12]),
    ("READ: the engine sends the request", [1_492, 1_492, 6]),
    ("READ: the target answers", [2_260, 2_260, 11]),
    ("READ: the initiator takes the answer", [1_971, 1_925, 10]),
    ("WRITE: the target drops a copy", [1_195, 1_194, 8]),
];

/// See [`Column::slack`].
const SLACK: u64 = 3;
const COLUMNS: [Column; 3] = [
    Column { unit: "instructions", slack: SLACK, both_ways: true },
    Column { unit: "different instructions", slack: SLACK, both_ways: true },
    Column { unit: "returns", slack: SLACK, both_ways: true },
];

#[test]
fn no_step_is_longer_than_it_was() -> Result<()> {
    let counts = counts()?;
    println!("{:<46} {:>12} {:>10} {:>8}", "step", "instructions", "different", "returns");
    let counts: Vec<_> =
        counts.iter().map(|(step, count)| (*step, [count.executed, count.distinct, count.returns])).collect();
    for (step, [executed, distinct, returns]) in &counts {
        println!("{step:<46} {executed:>12} {distinct:>10} {returns:>8}");
    }
    let complaints = complaints(&COLUMNS, &RATCHET, &counts);
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}
