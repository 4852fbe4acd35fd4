//! A fixed fabric window: the reference to compare algorithms with, and a way to drive a fabric by hand.

use super::event::Event;
use super::parameters::Prepared;
use super::result::Outcome;
use super::window::{clamp_fcwnd, pace, smooth};

/// The fabric window is `fixed_window`, the NIC window stays as it is; smoothing, gap and timeout as for any
/// algorithm.
#[inline(never)]
pub fn fixed(event: &Event, parameters: &Prepared, outcome: &mut Outcome) {
    let p = parameters.parameters();
    outcome.carry_over(event);
    smooth(event, p, outcome);
    outcome.fcwnd = clamp_fcwnd(p.fixed_window.0 as u64, p);
    pace(event, p, outcome);
}
