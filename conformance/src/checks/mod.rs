//! The catalogue: one check for each clause and role.

mod acceptance;
mod acknowledgement;
mod answers;
mod early;
mod exhaustion;
mod format;
mod given_up;
mod initiator;
mod order;
mod refusal;
mod resync;
mod retransmission;
mod unordered;

use crate::check::Check;

/// Returns all checks, in the order in which they run.
pub fn catalogue() -> Vec<Check> {
    let target = [
        format::CHECKS,
        acknowledgement::CHECKS,
        acceptance::CHECKS,
        order::CHECKS,
        refusal::CHECKS,
        resync::CHECKS,
        retransmission::CHECKS,
        early::CHECKS,
        exhaustion::CHECKS,
        unordered::CHECKS,
    ];
    [target.concat(), initiator::catalogue()].concat()
}
