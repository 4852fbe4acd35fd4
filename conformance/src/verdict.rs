//! The result of a check.

use std::io;

use serde::Serialize;

use crate::misfit::Misfit;

/// Why a check ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The peer violates the clause.
    #[error("expected: {expected}; found: {found}")]
    Fail {
        /// What the clause requires.
        expected: String,
        /// What the peer did.
        found: String,
    },
    /// The check shows nothing here. The text says why.
    #[error("{0}")]
    Skip(String),
    /// The interface or the trigger failed.
    #[error(transparent)]
    Io(io::Error),
    /// The preparation does not fit the peer, so nothing can be judged.
    #[error(transparent)]
    Misfit(Box<Misfit>),
}

/// The result of a step of a check.
pub type Outcome<T = ()> = Result<T, Stop>;

impl Stop {
    /// Makes a failure.
    pub fn fail(expected: impl ToString, found: impl ToString) -> Self {
        Self::Fail { expected: expected.to_string(), found: found.to_string() }
    }
}

/// Fails with what was expected and what was found, unless `holds`.
///
/// # Errors
/// [`Stop::Fail`].
pub fn judge(holds: bool, expected: impl ToString, found: impl ToString) -> Outcome {
    if holds { Ok(()) } else { Err(Stop::fail(expected, found)) }
}

/// The verdict on a clause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The peer obeys the clause as far as the check can see.
    Pass,
    /// The peer violates the clause.
    Fail {
        /// What the clause requires.
        expected: String,
        /// What the peer did.
        found: String,
    },
    /// The check did not run, or could show nothing.
    Skipped {
        /// Why.
        reason: String,
    },
}
