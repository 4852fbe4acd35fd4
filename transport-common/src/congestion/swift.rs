//! Swift: the fabric delay controls the fabric window, the peer's buffer level controls the NIC window (10.3).
//!
//! One function without loops. It needs one division when the fabric window grows and two when it shrinks, one
//! more when packets are paced, and one when the NIC window shrinks. The dozen multiplications for 1 / sqrt(fcwnd)
//! are skipped when they change nothing.
//!
//! The smoothed delay and the target delay are compared with 16 fraction bits. The windows are compared as they
//! are stored, so the fabric window "fell" if the stored one did (D-79).

use super::event::{Event, EventType};
use super::fixed_point::{FineTicks, Fraction, divide};
use super::parameters::{Parameters, Prepared};
use super::plb;
use super::result::Outcome;
use super::state::EngineState;
use super::window::{ONE_PACKET, clamp_fcwnd, pace, smooth, update_ncwnd};
use crate::units::Fcwnd;

/// FabricDelayTarget: returns base + flow scaling + topology scaling, saturating at 24 bits of ticks (F-10.3.4-2).
#[inline(always)]
pub const fn delay_target(event: &Event, parameters: &Prepared) -> FineTicks {
    let flow = parameters.flow_scaling().adder(event.fcwnd).0;
    FineTicks::saturating(unscaled_target(event, parameters.parameters()) + flow)
}

/// Returns base + topology scaling in fine ticks, not saturated: at most 29 bits of ticks. Flow scaling is added
/// to it.
#[inline(always)]
const fn unscaled_target(event: &Event, p: &Parameters) -> u64 {
    let topology = event.forward_hops as u64 * p.topology_scaling_per_hop.0 as u64;
    (event.base_delay_target.0 as u64 + topology) << FineTicks::BITS
}

/// Returns the value to compare the smoothed delay with: [`delay_target`], or its part without flow scaling if
/// that part alone decides. Flow scaling only raises the target, so a delay below the target without it is also
/// below the target with it. This skips the root of the window for most acknowledgements, and every comparison has
/// the same result.
#[inline(always)]
const fn delay_bound(event: &Event, parameters: &Prepared, delay: FineTicks) -> FineTicks {
    let p = parameters.parameters();
    let unscaled = FineTicks::saturating(unscaled_target(event, p));
    if delay.0 <= unscaled.0 && !plb::is_congested(p, delay, unscaled) {
        return unscaled;
    }
    delay_target(event, parameters)
}

/// Computes the result of Swift with PLB for one event.
///
/// ACK and NACK (F-10.3.1-9): smoothing, fabric window, gap, NIC window, in that order. Retransmission (F-10.3.2-1
/// to F-10.3.2-4): only the fabric window. Every result carries a gap and a timeout (D-67, D-69). An event of the
/// reserved type changes no window.
#[inline(always)]
pub fn swift(event: &Event, engine: &mut EngineState, parameters: &Prepared, outcome: &mut Outcome) {
    let p = parameters.parameters();
    if event.is_acknowledgement() {
        outcome.carry_over_fixed(event); // the code below decides the rest
        let delay = smooth(event, p, outcome);
        let bound = delay_bound(event, parameters, delay);
        acknowledged(event, p, delay, bound, outcome);
        outcome.randomize_path = plb::update(&mut engine.plb, event, p, delay, bound) as u8;
        pace(event, p, outcome);
        update_ncwnd(event, p, outcome);
        return;
    }
    outcome.carry_over(event);
    if event.event_type == EventType::RETRANSMIT {
        retransmitted(event, p, outcome);
    }
    pace(event, p, outcome);
}

/// ComputeAckFabricCongestionWindow (F-10.3.1-1 to F-10.3.1-5).
#[inline(always)]
const fn acknowledged(
    event: &Event,
    p: &Parameters,
    delay: FineTicks,
    target: FineTicks,
    outcome: &mut Outcome,
) {
    let (now, rtt, marker) = (event.now(), event.rtt(), event.fabric_window_time_marker);
    let elapsed = now.has_elapsed(marker, rtt);
    let previous = if event.fcwnd.0 > Fcwnd::MAX.0 { Fcwnd::MAX.0 } else { event.fcwnd.0 };

    let mut window = previous as u64;
    if p.max_decrease_on_eack_drop != 0 && event.eack_drop != 0 {
        // D-68
        if elapsed {
            window = p.max_fabric_multiplicative_decrease_factor.complement().of(previous);
        }
    } else if delay.0 <= target.0 {
        // F-10.3.1-1
        let increment = p.fabric_additive_increment.0 as u64 * event.num_packets_acked as u64;
        window +=
            if window < ONE_PACKET { increment } else { divide(increment << Fcwnd::FRACTION_BITS, window) };
    } else if elapsed {
        window = decreased(previous as u64, delay, target, p);
    }
    outcome.fcwnd = clamp_fcwnd(window, p);
    outcome.fabric_window_time_marker = if outcome.fcwnd.0 < event.fcwnd.0 || outcome.fcwnd.0 == p.min_fcwnd.0
    {
        now
    } else {
        now.drag(marker, rtt)
    };
}

/// Returns fcwnd * max(1 - fmdf * (delay - target) / delay, 1 - max_fmdf), rounded to nearest (F-10.3.1-3), for a
/// delay above the target.
#[inline(always)]
const fn decreased(window: u64, delay: FineTicks, target: FineTicks, p: &Parameters) -> u64 {
    let (delay, excess) = (delay.0, delay.0 - target.0);
    let weighted = window * p.fabric_multiplicative_decrease_factor.0 as u64;
    let bound = window * p.max_fabric_multiplicative_decrease_factor.0 as u64;
    // weighted * excess / delay has 37 + 40 bits before the division. So the excess is split into two digits of 24
    // and 16 bits, as in long division. The quotient has 26 fraction bits.
    let high = weighted * (excess >> FineTicks::BITS);
    let quotient = match high.checked_div(delay) {
        Some(quotient) => quotient,
        None => 0,
    };
    let remainder = high - quotient * delay;
    let low = (remainder << FineTicks::BITS) + weighted * (excess & ((1 << FineTicks::BITS) - 1));
    let rest = match low.checked_div(delay) {
        Some(rest) => rest,
        None => 0,
    };
    let wanted = (quotient << FineTicks::BITS) + rest;
    let taken = if wanted < bound { wanted } else { bound };
    ((window << Fraction::BITS) - taken + (1 << (Fraction::BITS - 1))) >> Fraction::BITS
}

/// ProcessRetransmit (F-10.3.2-1, F-10.3.2-2, D-67). Only the count decides. An early retransmission usually has
/// the count 0 and cuts nothing (D-68).
#[inline(always)]
const fn retransmitted(event: &Event, p: &Parameters, outcome: &mut Outcome) {
    let (now, rtt, marker) = (event.now(), event.rtt(), event.fabric_window_time_marker);
    let mut window = event.fcwnd.0 as u64;
    outcome.fabric_window_time_marker = now;
    if event.retransmit_count == 1 && now.has_elapsed(marker, rtt) {
        window = p.max_fabric_multiplicative_decrease_factor.complement().of(event.fcwnd.0);
    } else if event.retransmit_count as u32 >= p.retransmit_limit {
        window = p.min_fcwnd.0 as u64;
    } else {
        // A retransmission that does not change the window moves the marker as any event does. Otherwise time
        // would wrap past the marker (10.3.6).
        outcome.fabric_window_time_marker = now.drag(marker, rtt);
    }
    outcome.fcwnd = clamp_fcwnd(window, p);
}
