//! Checks that the way of a packet through the programs does not become longer.

use anyhow::{Result, ensure};
use tiercel_tests::path_cost::counts;

/// The recorded counts of each step: executed instructions, different ones, and returns. A return costs as much as twenty
/// instructions where the kernel guards it. If you make a step longer on purpose, raise its line and give the reason in the
/// commit. If you make it shorter, lower its line.
const RATCHET: [(&str, [u64; 3]); 7] = [
    ("WRITE: the engine sends it", [1_660, 1_660, 6]),
    ("WRITE: the target places it", [1_726, 1_720, 8]),
    ("WRITE: the target places it and acknowledges", [1_934, 1_934, 9]),
    ("ACK: the initiator completes a WRITE", [1_799, 1_588, 12]),
    ("READ: the engine sends the request", [1_472, 1_472, 6]),
    ("READ: the target answers", [2_198, 2_198, 10]),
    ("READ: the initiator takes the answer", [1_843, 1_796, 10]),
];

/// By how many percent a step may exceed its line, because another compiler release generates other code, or be below it
/// until the line has to be lowered.
const SLACK: u64 = 3;
const WHAT: [&str; 3] = ["instructions", "different instructions", "returns"];

#[test]
fn no_step_is_longer_than_it_was() -> Result<()> {
    let counts = counts()?;
    println!("{:<46} {:>12} {:>10} {:>8}", "step", "instructions", "different", "returns");
    let mut complaints = Vec::new();
    for ((step, count), (line_of, line)) in counts.iter().zip(&RATCHET) {
        ensure!(step == line_of, "{step} has no line of its own");
        let is = [count.executed, count.distinct, count.returns];
        println!("{step:<46} {:>12} {:>10} {:>8}", is[0], is[1], is[2]);
        for n in 0..3 {
            let slack = line[n] * SLACK / 100;
            if is[n] > line[n] + slack {
                complaints.push(format!("{step}: {} {}, {} were enough before", is[n], WHAT[n], line[n]));
            } else if is[n] + slack < line[n] {
                complaints.push(format!("{step}: {} {}: lower its line of {}", is[n], WHAT[n], line[n]));
            }
        }
    }
    ensure!(counts.len() == RATCHET.len() && complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}
