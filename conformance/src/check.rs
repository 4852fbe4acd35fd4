//! What a check is.

use crate::session::Session;
use crate::subject::Subject;
use crate::verdict::Outcome;

/// The connection that a check needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Any connection.
    Any,
    /// An ordered connection.
    Ordered,
    /// An unordered connection.
    Unordered,
}

impl Needs {
    /// Returns whether a connection suffices.
    pub const fn allows(self, subject: &Subject) -> bool {
        match self {
            Self::Any => true,
            Self::Ordered => subject.ordered,
            Self::Unordered => !subject.ordered,
        }
    }
}

/// A check of one clause.
///
/// A check that passes leaves nothing open: the peer has acknowledged every packet of the tester.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Id of the clause in `docs/spec`.
    pub clause: &'static str,
    /// What the peer has to do, in one line.
    pub title: &'static str,
    /// The connection that it needs.
    pub needs: Needs,
    /// Drives the peer, and judges what it does.
    pub run: fn(&mut Session<'_>) -> Outcome,
}

impl Check {
    /// Makes a check for any connection.
    pub const fn new(
        clause: &'static str,
        title: &'static str,
        run: fn(&mut Session<'_>) -> Outcome,
    ) -> Self {
        Self { clause, title, needs: Needs::Any, run }
    }

    /// Makes a check for an ordered connection.
    pub const fn ordered(
        clause: &'static str,
        title: &'static str,
        run: fn(&mut Session<'_>) -> Outcome,
    ) -> Self {
        Self { clause, title, needs: Needs::Ordered, run }
    }

    /// Makes a check for an unordered connection.
    pub const fn unordered(
        clause: &'static str,
        title: &'static str,
        run: fn(&mut Session<'_>) -> Outcome,
    ) -> Self {
        Self { clause, title, needs: Needs::Unordered, run }
    }
}
