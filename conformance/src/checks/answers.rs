//! Pull Data that the tester leaves unacknowledged. It shows how the peer transmits and retransmits.

use transport_common::ids::{Psn, Rsn};
use transport_common::units::PicosecondSpan;

use crate::received::Received;
use crate::session::Session;
use crate::verdict::{Outcome, Stop};

/// A shorter timeout cannot be told from early retransmission on a busy machine.
const SHORTEST_TIMEOUT: PicosecondSpan = PicosecondSpan::from_nanos(20_000_000);

/// How often the tester tries to get several unacknowledged packets of the peer at once.
const TRIES: usize = 20;

/// Makes the peer send this many Pull Data, and acknowledges none of them. Returns them in the order of their
/// PSNs.
///
/// A peer may make its window smaller for a while, down to one packet. Then the tester acknowledges and tries
/// again.
pub(super) fn open(s: &mut Session<'_>, count: usize) -> Outcome<Vec<Received>> {
    for _ in 0..TRIES {
        s.forget()?;
        let mut answers = Vec::new();
        for _ in 0..count {
            let read = s.read(0, 8).quiet();
            s.send(&read)?;
            let answer = if answers.is_empty() { Some(s.answer(&read)?) } else { next(s, read.rsn)? };
            let Some(answer) = answer else { break };
            answers.push(answer);
        }
        if answers.len() == count {
            return Ok(answers);
        }
        s.settle()?;
    }
    Err(Stop::Skip(format!("the peer does not send {count} packets without an acknowledgement")))
}

/// Waits for the Pull Data with this RSN, if the peer's window allows it.
fn next(s: &mut Session<'_>, rsn: Rsn) -> Outcome<Option<Received>> {
    let patience = s.patience.silence;
    s.find(patience, |received| received.pull_data().is_some_and(|data| data.base.rsn == rsn))
}

/// Returns the PSN of a Pull Data.
pub(super) fn psn(answer: &Received) -> Psn {
    answer.data_psn().unwrap_or_default()
}

/// Waits for another copy of a Pull Data.
pub(super) fn copy(s: &mut Session<'_>, psn: Psn) -> Outcome<Received> {
    s.expect(&format!("a copy of the Pull Data with PSN {}", psn.0), |received| {
        received.pull_data().is_some() && is_copy(received, psn)
    })
}

/// Returns whether a packet has this data PSN.
pub(super) fn is_copy(received: &Received, psn: Psn) -> bool {
    received.data_psn() == Some(psn)
}

/// Returns the time between the first two copies of a Pull Data: the peer's retransmission timeout.
pub(super) fn timeout(s: &mut Session<'_>) -> Outcome<PicosecondSpan> {
    let answers = open(s, 1)?;
    let again = copy(s, psn(&answers[0]))?;
    s.acknowledge()?;
    Ok(again.at.since(answers[0].at))
}

/// Returns half of the peer's retransmission timeout: a copy in this time is no retransmission by timeout.
pub(super) fn early(s: &mut Session<'_>) -> Outcome<PicosecondSpan> {
    let timeout = timeout(s)?;
    if timeout.0 < SHORTEST_TIMEOUT.0 {
        return Err(Stop::Skip(format!(
            "the peer's retransmission timeout, {} us, is too short to tell an early retransmission from: \
             set it to 20 ms or more",
            timeout.as_nanos() / 1000
        )));
    }
    s.settle()?;
    Ok(PicosecondSpan(timeout.0 / 2))
}

/// Listens for twice the peer's timeout. Fails if a copy of a PSN in `acknowledged` arrives.
pub(super) fn no_copies(s: &mut Session<'_>, timeout: PicosecondSpan, acknowledged: &[Psn]) -> Outcome {
    let long = PicosecondSpan((timeout.0 * 2).max(s.patience.silence.0));
    s.silence_for(long, "no copy of an acknowledged packet", |received| {
        acknowledged.iter().any(|psn| is_copy(received, *psn))
    })
}
