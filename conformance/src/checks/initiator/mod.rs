//! The peer as initiator: it submits operations of its own, and the tester is their target.

mod acknowledgement;
mod answers;
mod death;
mod early;
mod exhaustion;
mod format;
mod numbering;
mod refusal;
mod requests;
mod retransmission;
mod rnr;
mod timeout;
mod transactions;
mod windows;

use crate::check::Check;

/// Returns the checks, in the order in which they run.
pub(super) fn catalogue() -> Vec<Check> {
    let checks = [
        numbering::CHECKS,
        format::CHECKS,
        transactions::CHECKS,
        answers::CHECKS,
        windows::CHECKS,
        acknowledgement::CHECKS,
        retransmission::CHECKS,
        refusal::CHECKS,
        rnr::CHECKS,
        early::CHECKS,
        exhaustion::CHECKS,
        timeout::CHECKS,
        // Nothing may follow on the same connection.
        death::CHECKS,
    ];
    checks.concat().into_iter().map(Check::of_initiator).collect()
}
