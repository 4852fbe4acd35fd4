//! The state of the algorithms that a connection keeps beside the values that the queues carry.

use super::dcqcn::DcqcnState;
use super::plb::PlbState;
use crate::units::Fcwnd;
use bytemuck::{Pod, Zeroable};

/// State of a connection that the queues do not carry. All zero bytes are a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct EngineState {
    /// Counters of PLB.
    pub plb: PlbState,
    /// State of [`dcqcn`](super::dcqcn).
    pub dcqcn: DcqcnState,
    /// State of [`newreno`](super::newreno).
    pub newreno: NewRenoState,
    /// Space for a custom algorithm.
    pub custom: [u32; 5],
    /// 1 + the [`AlgorithmId`](super::algorithm::AlgorithmId) that owns this state; 0 for a new connection.
    owner: u32,
}

const _: () = assert!(size_of::<EngineState>() == 64 && align_of::<EngineState>() == 4);

impl EngineState {
    /// Gives the state to the algorithm `owner`, a number from 1. If another one owns it, the state is cleared.
    #[inline(always)]
    pub(super) fn pass_to(&mut self, owner: u32) {
        if self.owner != owner {
            crate::verifier::zero(self);
            self.owner = owner;
        }
    }
}

/// State of [`newreno`](super::newreno). Zero is a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct NewRenoState {
    /// Slow start threshold, a window in the format 11.10; 0 (no threshold) before the first loss.
    pub threshold: Fcwnd,
}
