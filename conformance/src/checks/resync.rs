//! Resyncs that the peer receives (sections 9.2.5 and 11).

use crate::check::Check;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9.2.5-1", "a Resync of a Pull Request sets its bit in the request window", request_window),
    Check::new("F-9.2.5-2", "a Resync at the base moves the base", at_base),
    Check::ordered("F-11-15", "a Resync of a held push acknowledges its PSN", held),
    Check::ordered("F-11-3", "a Resync lets the pushes behind a lost one pass", progress),
];

fn request_window(s: &mut Session<'_>) -> Outcome {
    let reads = [s.read(0, 8), s.read(8, 8)];
    s.send(&reads[1].replaced())?;
    s.expect("an EACK with bit 1 of the request bitmap", |received| {
        received.eack().is_some_and(|eack| eack.request == 2)
    })?;
    s.send(&reads[0])?;
    s.acknowledged(&reads[1])?;
    s.answer(&reads[0]).map(drop)
}

fn at_base(s: &mut Session<'_>) -> Outcome {
    let write = s.write(0, &[1; 8]);
    s.deliver(&write.replaced()).map(drop)
}

fn held(s: &mut Session<'_>) -> Outcome {
    let writes = [s.write(0, &[1; 8]), s.write(0, &[2; 8])];
    s.send(&writes[1])?;
    s.expect("an EACK for a push behind a hole", |received| received.eack().is_some())?;
    s.forget()?;
    s.send(&writes[1].replaced())?;
    let eack = s.expect("an EACK for its Resync", |received| received.eack().is_some())?;
    let found = eack.eack().map(|eack| eack.data_ack[0]);
    judge(found == Some(2), "bit 1 acknowledged", eack.text())?;
    s.send(&writes[0])?;
    s.acknowledged(&writes[1]).map(drop)
}

fn progress(s: &mut Session<'_>) -> Outcome {
    let writes = [s.write(0, &[1; 8]), s.write(0, &[2; 8])];
    s.send(&writes[1])?;
    s.deliver(&writes[0].replaced())?;
    s.acknowledged(&writes[1])?;
    let found = s.fetch(0, 8)?;
    judge(found == [2; 8], "the data of the WRITE behind the Resync", format!("{found:x?}"))
}
