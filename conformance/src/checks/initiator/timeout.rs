//! The timeout of transactions (section 11). It belongs to the transaction, whatever packet delivery does meanwhile.

use transport_common::units::PicosecondSpan;
use transport_common::wire::resync::ResyncCode;

use super::requests::{
    Read, Request, Write, acknowledged, answer, ends, need_completions, not_ready, request,
};
use crate::check::Check;
use crate::session::Session;
use crate::trigger::Completion::{self, Error, Success};
use crate::verdict::{Outcome, Stop, judge};

pub(super) const CHECKS: &[Check] = &[Check::new(
    "F-11-19",
    "a pull and a push that are not served end with an error at the transaction timeout",
    unserved,
)];

/// How often the tester looks for the end of an operation while it refuses the copies.
const LOOK: PicosecondSpan = PicosecondSpan::from_nanos(1_000_000);

fn unserved(s: &mut Session<'_>) -> Outcome {
    let Some(timeout) = s.subject.settings.transaction_timeout else {
        return Err(Stop::Skip("give --transaction-timeout of the peer".to_owned()));
    };
    need_completions(s)?;
    let timeout = PicosecondSpan::from_nanos(timeout.as_nanos() as u64);
    pull(s, timeout)?;
    push(s, timeout)
}

/// Acknowledges a Pull Request and sends no Pull Data until the timeout. What comes later belongs to no transaction.
fn pull(s: &mut Session<'_>, timeout: PicosecondSpan) -> Outcome {
    let pull = request(s, Read)?;
    s.acknowledge()?;
    let most = latest(s, timeout);
    let end = s.completion(pull.ticket, most)?;
    judge_end(s, &pull, end, timeout)?;

    let late = answer(s, &pull)?;
    acknowledged(s, late)?;
    let next = request(s, Read)?;
    s.acknowledge()?;
    answer(s, &next)?;
    ends(s, next.ticket, Success)
}

/// Is not ready for any copy of a push until the timeout. Each NACK begins the count of the attempts again (D-41), so
/// packet delivery does not give the push up.
fn push(s: &mut Session<'_>, timeout: PicosecondSpan) -> Outcome {
    let push = request(s, Write)?;
    let end = refused_until_end(s, &push, timeout)?;
    judge_end(s, &push, end, timeout)?;
    s.acknowledge()
}

fn refused_until_end(
    s: &mut Session<'_>,
    push: &Request,
    timeout: PicosecondSpan,
) -> Outcome<Option<Completion>> {
    const SHORT: u8 = 1;
    let until = s.now().after(latest(s, timeout));
    not_ready(s, push, SHORT)?;
    while s.now().0 < until.0 {
        let end = s.completed(push.ticket)?;
        if end.is_some() {
            return Ok(end);
        }
        let Some(copy) = s.find(LOOK, |received| push.has_copy(received))? else { continue };
        match copy.resync() {
            None => not_ready(s, push, SHORT)?,
            Some(resync) if resync.code == ResyncCode::RETRANSMISSION_EXHAUSTED => {
                return Err(Stop::Skip(
                    "the peer gives up a push although NACK code 2 refuses it".to_owned(),
                ));
            }
            // The transaction is over. Its operation ends at the same time.
            Some(_) => {}
        }
    }
    Ok(None)
}

/// Returns how long the end of an operation may take: the peer's application may be slow to see it.
fn latest(s: &Session<'_>, timeout: PicosecondSpan) -> PicosecondSpan {
    timeout.plus(s.patience.answer)
}

/// Judges an operation that has just ended, or has not. Timers may be short by a tick, and the first packet is late on
/// a busy machine, so a quarter of the timeout may be missing.
fn judge_end(
    s: &mut Session<'_>,
    request: &Request,
    end: Option<Completion>,
    timeout: PicosecondSpan,
) -> Outcome {
    let millis = |time: PicosecondSpan| time.as_nanos() / 1_000_000;
    let (least, most) = (PicosecondSpan(timeout.0 / 4 * 3), latest(s, timeout));
    let after = s.now().since(request.packet.at);
    let expected = format!("an error {} to {} ms after the first packet", millis(least), millis(most));
    let found = match end {
        Some(Success) => format!("success after {} ms", millis(after)),
        Some(Error) => format!("an error after {} ms", millis(after)),
        None => format!("no end in {} ms", millis(after)),
    };
    judge(end == Some(Error) && after >= least, expected, found)
}
