//! A fixed fabric window: a reference for comparing algorithms, and a way to control a fabric by hand.

use super::event::Event;
use super::parameters::Prepared;
use super::result::Outcome;
use super::window::{clamp_fcwnd, pace, smooth};

/// Sets the fabric window to `fixed_window` and leaves the NIC window unchanged. Smoothing, gap and timeout work
/// as for any algorithm.
#[inline(never)]
pub fn fixed(event: &Event, parameters: &Prepared, outcome: &mut Outcome) {
    let p = parameters.parameters();
    outcome.carry_over(event);
    smooth(event, p, outcome);
    outcome.fcwnd = clamp_fcwnd(p.fixed_window.0 as u64, p);
    pace(event, p, outcome);
}
