//! Runs checks one after the other, and reports each.

use std::io;

use serde::Serialize;
use transport_common::units::Picoseconds;

use crate::check::{Check, Role};
use crate::greeting::{greet, look_at_region};
use crate::log::{Line, Logged};
use crate::misfit::Misfit;
use crate::session::Session;
use crate::subject::{Patience, Subject};
use crate::trigger::Trigger;
use crate::verdict::{Outcome, Stop, Verdict};
use crate::wire::Wire;

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Id of the clause.
    pub clause: &'static str,
    /// What the peer has to do.
    pub title: &'static str,
    /// The role in which the check sees the peer.
    pub role: Role,
    /// The verdict, with its reason.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The packets of the check.
    pub packets: Vec<Line>,
    /// The same packets as frames, for a capture.
    #[serde(skip)]
    pub frames: Vec<Logged>,
}

/// Why the tester cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The interface or the trigger failed.
    #[error("the tester cannot go on: {0}")]
    Io(#[from] io::Error),
    /// The preparation does not fit the peer, so nothing can be judged.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

/// Runs the checks, in their order, each on the first connection that it can use. `report` gets each result
/// as soon as it is there. Without `trigger`, the checks of the peer's own requests are skipped.
///
/// # Errors
/// [`RunError`]. The results up to then were reported.
pub fn run(
    wire: &mut dyn Wire,
    mut trigger: Option<&mut dyn Trigger>,
    subjects: &[Subject],
    patience: Patience,
    checks: &[Check],
    mut report: impl FnMut(Checked),
) -> Result<(), RunError> {
    let place = |check: &Check| subjects.iter().position(|subject| check.needs.allows(subject));
    for (number, subject) in subjects.iter().enumerate() {
        let own: Vec<_> = checks.iter().filter(|check| place(check) == Some(number)).collect();
        if own.is_empty() {
            continue;
        }
        let trigger = trigger.as_mut().map(|trigger| &mut **trigger as &mut dyn Trigger);
        let mut session = Session::new(&mut *wire, trigger, subject.clone(), patience);
        // A peer that violates a clause meanwhile is what the checks are for.
        if let Some(misfit) = tolerate(greet(&mut session))?.flatten() {
            return Err(misfit.into());
        }
        let mut broken_by = None;
        for check in own {
            let checked = one(&mut session, check, &mut broken_by)?;
            if matches!(checked.verdict, Verdict::Fail { .. })
                && let Some(misfit) = look_at_region(subject, &checked.frames)
            {
                return Err(misfit.into());
            }
            report(checked);
        }
    }
    for check in checks.iter().filter(|check| place(check).is_none()) {
        report(skipped(
            check,
            format!("the file has no {:?} connection to this peer", check.needs).to_lowercase(),
        ));
    }
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    check: &Check,
    broken_by: &mut Option<&'static str>,
) -> Result<Checked, RunError> {
    if let Some(clause) = *broken_by {
        return Ok(skipped(check, format!("the connection does not work any more after {clause}")));
    }
    session.take_log();
    let start = session.now();
    let outcome = (check.run)(session);
    let verdict = match outcome {
        Ok(()) => Verdict::Pass,
        Err(Stop::Fail { expected, found }) => Verdict::Fail { expected, found },
        Err(Stop::Skip(reason)) => Verdict::Skipped { reason },
        Err(Stop::Io(error)) => return Err(error.into()),
        Err(Stop::Misfit(misfit)) => return Err((*misfit).into()),
    };
    let frames = session.take_log();
    if verdict == Verdict::Pass {
        session.passed();
        tolerate(session.settle())?;
    } else if !tolerate(session.restore())?.unwrap_or(false) {
        *broken_by = Some(check.clause);
    }
    Ok(checked(check, verdict, frames, start))
}

/// Returns what a step between checks returned. Only the interface or the preparation can make it fail.
fn tolerate<T>(outcome: Outcome<T>) -> Result<Option<T>, RunError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Io(error)) => Err(error.into()),
        Err(Stop::Misfit(misfit)) => Err((*misfit).into()),
        Err(Stop::Fail { .. } | Stop::Skip(_)) => Ok(None),
    }
}

fn checked(check: &Check, verdict: Verdict, frames: Vec<Logged>, start: Picoseconds) -> Checked {
    let packets = frames.iter().map(|logged| logged.line(start)).collect();
    Checked { clause: check.clause, title: check.title, role: check.role, verdict, packets, frames }
}

fn skipped(check: &Check, reason: String) -> Checked {
    checked(check, Verdict::Skipped { reason }, Vec::new(), Picoseconds(0))
}
