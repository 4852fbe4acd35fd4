//! Duplicates and order (sections 6.6, 9.2.2.4 and 11).

use crate::check::Check;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9.2.2.4-1", "a WRITE below the window is not delivered again", old_duplicate),
    Check::ordered("F-9.2.2.4-3", "an atomic that arrives twice is executed once", atomic_twice),
    Check::new("F-11-13", "a duplicate that was acknowledged draws an ACK", duplicate_acknowledged),
    Check::ordered("F-11-14", "a duplicate that is held draws an EACK", duplicate_held),
    Check::new("F-6.1-2", "a Pull Request that arrives twice has one answer", one_answer),
    Check::ordered("F-6.6.1-1", "swapped READs are answered in RSN order", swapped_reads),
    Check::ordered("F-6.6.2-1", "swapped WRITEs are delivered in RSN order", swapped_writes),
    Check::ordered("F-7.2-13", "a READ that overtakes a WRITE returns the written data", read_after_write),
    Check::ordered("F-6.6.6-3", "the pushes behind a repaired hole are delivered in order", repaired_hole),
    Check::ordered("F-9.2.2.4-7", "the base passes what is acknowledged, and the bitmaps shift", base_moves),
];

fn old_duplicate(s: &mut Session<'_>) -> Outcome {
    let first = s.write(0, &[1; 8]);
    s.deliver(&first)?;
    s.store(0, &[2; 8])?;
    s.send(&first)?;
    s.silence("no NACK for a duplicate", |received| received.nack().is_some())?;
    let found = s.fetch(0, 8)?;
    judge(found == [2; 8], "the data of the second WRITE", format!("{found:x?}"))
}

fn atomic_twice(s: &mut Session<'_>) -> Outcome {
    s.store(0, &[0; 16])?;
    let write = s.write(8, &[1; 8]);
    let add = s.fetch_add(0, 1);
    // The atomic has to wait for the WRITE before it, so the second copy is a duplicate inside the window or
    // below it.
    s.send(&add)?;
    s.send(&add)?;
    s.deliver(&write)?;
    s.answer(&add)?;
    s.send(&add)?;
    s.acknowledge()?;
    s.silence("no second answer", |received| {
        received.pull_data().is_some_and(|data| data.base.rsn == add.rsn)
    })?;
    let found = s.fetch(0, 8)?;
    judge(found.iter().map(|byte| u32::from(*byte)).sum::<u32>() == 1, "a sum of 1", format!("{found:x?}"))
}

fn duplicate_acknowledged(s: &mut Session<'_>) -> Outcome {
    let write = s.write(0, &[1; 8]);
    s.deliver(&write)?;
    s.settle()?;
    s.forget()?;
    let copy = write.quiet();
    s.deliver(&copy).map(drop)
}

fn duplicate_held(s: &mut Session<'_>) -> Outcome {
    let writes = [s.write(0, &[1; 8]), s.write(0, &[2; 8]).quiet()];
    s.send(&writes[1])?;
    s.expect("an EACK for a push behind a hole", |received| received.eack().is_some())?;
    s.settle()?;
    s.forget()?;
    s.send(&writes[1])?;
    s.expect("an EACK for its duplicate", |received| {
        received.eack().is_some_and(|eack| eack.data_received[0] == 2)
    })?;
    s.send(&writes[0])?;
    s.acknowledged(&writes[1]).map(drop)
}

fn one_answer(s: &mut Session<'_>) -> Outcome {
    let read = s.read(0, 8);
    s.send(&read)?;
    let answer = s.answer(&read)?;
    let psn = answer.data_psn();
    s.acknowledge()?;
    s.send(&read)?;
    s.silence("no second Pull Data", |received| received.data_psn().is_some() && received.data_psn() != psn)
}

fn swapped_reads(s: &mut Session<'_>) -> Outcome {
    let reads = [s.read(0, 8), s.read(8, 8)];
    s.send(&reads[1])?;
    s.send(&reads[0])?;
    let answers = s.answers(&reads)?;
    let (first, second) = (answers[0].word(4), answers[1].word(4));
    judge(
        second == first.wrapping_add(1),
        "the answer to the first RSN has the lower PSN",
        format!("PSN {first} for the first RSN, PSN {second} for the second"),
    )
}

fn swapped_writes(s: &mut Session<'_>) -> Outcome {
    let writes = [s.write(0, &[1; 8]), s.write(0, &[2; 8])];
    s.send(&writes[1])?;
    s.silence("no DBPSN beyond the missing push", |received| {
        received.bases().is_some_and(|(data, _)| data != writes[0].psn)
    })?;
    s.send(&writes[0])?;
    s.acknowledged(&writes[1])?;
    let found = s.fetch(0, 8)?;
    judge(found == [2; 8], "the data of the second RSN", format!("{found:x?}"))
}

fn read_after_write(s: &mut Session<'_>) -> Outcome {
    s.store(0, &[1; 8])?;
    let write = s.write(0, &[2; 8]);
    let read = s.read(0, 8);
    s.send(&read)?;
    s.find(s.patience.silence, |_| false)?;
    s.send(&write)?;
    s.acknowledged(&write)?;
    let answer = s.answer(&read)?;
    let found = answer.payload();
    judge(found.ends_with(&[2; 8]), "the data of the WRITE with the lower RSN", format!("{found:x?}"))
}

fn repaired_hole(s: &mut Session<'_>) -> Outcome {
    let writes: Vec<_> = (1..=4).map(|n| s.write(0, &[n; 8]).quiet()).collect();
    for write in writes[1..].iter().chain(&writes[..1]) {
        s.send(write)?;
    }
    s.acknowledged(&writes[3])?;
    let found = s.fetch(0, 8)?;
    judge(found == [4; 8], "the data of the last RSN", format!("{found:x?}"))
}

fn base_moves(s: &mut Session<'_>) -> Outcome {
    let writes: Vec<_> = (1..=4).map(|n| s.write(0, &[n; 8]).quiet()).collect();
    s.send(&writes[1].replaced())?;
    s.send(&writes[3])?;
    s.send(&writes[0])?;
    let base = writes[2].psn;
    let eack = s.expect(&format!("an EACK with DBPSN {}", base.0), |received| {
        received.eack().is_some_and(|eack| eack.header.data_base_psn == base)
    })?;
    let found = eack.eack().map_or((0, 0), |eack| (eack.data_ack[0], eack.data_received[0]));
    judge(found == (0, 2), "bit 1 received and nothing acknowledged", format!("{found:x?}"))?;
    s.send(&writes[2])?;
    s.acknowledged(&writes[3]).map(drop)
}
