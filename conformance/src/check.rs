//! What a check is.

use std::fmt;

use serde::Serialize;

use crate::session::Session;
use crate::subject::Subject;
use crate::verdict::Outcome;

/// The side of a transaction on which a check sees the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The tester submits, and the peer is the target.
    Target,
    /// The peer submits, and the tester is the target.
    Initiator,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Target => "target",
            Self::Initiator => "initiator",
        })
    }
}

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
/// A check of the target that passes leaves nothing open: the peer has acknowledged every packet of the tester.
/// A check of the initiator may leave the peer's requests open: the tester acknowledges and answers them before
/// the next check. A check that ends its connection has to be the last on it.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Id of the clause in `docs/spec`.
    pub clause: &'static str,
    /// What the peer has to do, in one line.
    pub title: &'static str,
    /// The role in which it sees the peer.
    pub role: Role,
    /// The connection that it needs.
    pub needs: Needs,
    /// Drives the peer, and judges what it does.
    pub run: fn(&mut Session<'_>) -> Outcome,
}

impl Check {
    /// Makes a check of the target for any connection.
    pub const fn new(
        clause: &'static str,
        title: &'static str,
        run: fn(&mut Session<'_>) -> Outcome,
    ) -> Self {
        Self { clause, title, role: Role::Target, needs: Needs::Any, run }
    }

    /// Makes a check of the target for an ordered connection.
    pub const fn ordered(
        clause: &'static str,
        title: &'static str,
        run: fn(&mut Session<'_>) -> Outcome,
    ) -> Self {
        Self { clause, title, role: Role::Target, needs: Needs::Ordered, run }
    }

    /// Makes a check of the target for an unordered connection.
    pub const fn unordered(
        clause: &'static str,
        title: &'static str,
        run: fn(&mut Session<'_>) -> Outcome,
    ) -> Self {
        Self { clause, title, role: Role::Target, needs: Needs::Unordered, run }
    }

    /// Returns the check as one of the peer's own requests.
    #[must_use]
    pub const fn of_initiator(self) -> Self {
        Self { role: Role::Initiator, ..self }
    }
}
