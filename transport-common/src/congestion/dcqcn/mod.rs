//! DCQCN's reaction point (SIGCOMM 2015, section 3.1), driven by the ECN count of acknowledgements.
//!
//! The paper's NIC limits a rate and is notified of congestion by CNPs. Here each event carries the number of
//! packets that the peer received with a CE mark. An increase since the last event counts as a CNP, at most one
//! per `cnp_interval`. The rate becomes a window: rate times smoothed RTT.
//!
//! Differences to the paper: timers are checked when an event comes, and each fires at most once per event. Loss,
//! which the paper's fabric does not have, counts as a CNP. A connection starts at the rate of its window.

use crate::congestion::event::{Event, EventType};
use crate::congestion::fixed_point::{Fraction, divide};
use crate::congestion::nic_time::NicTime;
use crate::congestion::parameters::{Parameters as EngineParameters, Prepared};
use crate::congestion::result::Outcome;
use crate::congestion::state::EngineState;
use crate::congestion::window::{clamp_fcwnd, pace, smooth, update_ncwnd};
use crate::units::{Fcwnd, Ticks};

mod parameters;
mod state;

pub use parameters::{Parameters, RATE_BITS};
pub use state::DcqcnState;

/// Shift from a window, with 10 fraction bits, to a rate.
const WINDOW_TO_RATE: u32 = RATE_BITS - Fcwnd::FRACTION_BITS;

/// Computes DCQCN's result of one event. The fabric marker is the time of the last cut. The NIC window is that of
/// Swift.
#[inline(never)]
pub fn dcqcn(event: &Event, engine: &mut EngineState, parameters: &Prepared, outcome: &mut Outcome) {
    let p = parameters.parameters();
    outcome.carry_over(event);
    smooth(event, p, outcome);
    update_rate(event, &mut engine.dcqcn, &p.dcqcn, outcome);
    set_fcwnd(&engine.dcqcn, p, outcome);
    pace(event, p, outcome);
    update_ncwnd(event, p, outcome);
}

#[inline(always)]
const fn update_rate(event: &Event, state: &mut DcqcnState, p: &Parameters, outcome: &mut Outcome) {
    let (now, marker) = (event.now(), event.fabric_window_time_marker);
    if state.current_rate == 0 {
        let rate = divide((event.fcwnd.0 as u64) << WINDOW_TO_RATE, longer(outcome.rtt_state));
        *state = DcqcnState {
            current_rate: limited(rate, p),
            target_rate: limited(rate, p),
            packets: 0,
            alpha_at: now,
            increased_at: now,
            one_minus_alpha: 0,
            ecn: event.ecn_accumulated,
            timer_steps: 0,
            byte_steps: 0,
            reserved: [0; 2],
        };
    }
    let lost = event.event_type.is(EventType::RETRANSMIT) || event.eack_drop != 0;
    let mut marked = false;
    if event.is_acknowledgement() {
        marked = event.ecn_accumulated != state.ecn;
        state.ecn = event.ecn_accumulated;
    }
    if (lost || marked) && now.has_elapsed(marker, p.cnp_interval) {
        outcome.fabric_window_time_marker = now;
        cut(state, now, p);
        return;
    }
    outcome.fabric_window_time_marker = now.drag(marker, p.cnp_interval);
    if now.has_elapsed(state.alpha_at, p.alpha_interval) {
        let alpha = (1 << 16) - state.one_minus_alpha as u32;
        state.set_alpha(decayed(alpha, p));
        state.alpha_at = now;
    }
    increase(event, state, p);
}

/// Returns (1 - g) alpha, rounded down so that alpha reaches its smallest value.
#[inline(always)]
const fn decayed(alpha: u32, p: &Parameters) -> u32 {
    ((p.gain.complement().0 as u64 * alpha as u64) >> Fraction::BITS) as u32
}

/// Applies a CNP: R_T := R_C, R_C := R_C (1 - alpha / 2), alpha := (1 - g) alpha + g.
#[inline(always)]
const fn cut(state: &mut DcqcnState, now: NicTime, p: &Parameters) {
    let alpha = (1 << 16) - state.one_minus_alpha as u32;
    let taken = (state.current_rate as u64 * alpha as u64) >> 17;
    state.target_rate = state.current_rate;
    state.current_rate = limited(state.current_rate as u64 - taken, p);
    state.set_alpha(decayed(alpha, p).saturating_add(p.gain.0));
    state.alpha_at = now;
    state.increased_at = now;
    state.packets = 0;
    state.timer_steps = 0;
    state.byte_steps = 0;
}

/// Runs timer and byte counter. Each one that fires makes a step of fast recovery, additive or hyper increase.
#[inline(always)]
const fn increase(event: &Event, state: &mut DcqcnState, p: &Parameters) {
    let now = event.now();
    if now.has_elapsed(state.increased_at, p.increase_interval) {
        state.increased_at = now;
        state.timer_steps = state.timer_steps.saturating_add(1);
        step(state, p);
    }
    state.packets = state.packets.saturating_add(event.num_packets_acked as u32);
    if state.packets >= p.increase_packets {
        state.packets -= p.increase_packets;
        state.byte_steps = state.byte_steps.saturating_add(1);
        step(state, p);
    }
}

#[inline(always)]
const fn step(state: &mut DcqcnState, p: &Parameters) {
    let (timer, bytes) = (state.timer_steps as u32, state.byte_steps as u32);
    let (fewer, more) = if timer < bytes { (timer, bytes) } else { (bytes, timer) };
    let mut target = state.target_rate as u64;
    if fewer > p.fast_recovery_steps {
        target += p.hyper_increment as u64 * (fewer - p.fast_recovery_steps) as u64;
    } else if more >= p.fast_recovery_steps {
        target += p.additive_increment as u64;
    }
    state.target_rate = limited(target, p);
    state.current_rate = limited((state.target_rate as u64 + state.current_rate as u64) >> 1, p);
}

/// Sets the fabric window to rate times smoothed RTT.
#[inline(always)]
const fn set_fcwnd(state: &DcqcnState, p: &EngineParameters, outcome: &mut Outcome) {
    let product = state.current_rate as u64 * longer(outcome.rtt_state);
    let window = (product + (1 << (WINDOW_TO_RATE - 1))) >> WINDOW_TO_RATE;
    outcome.fcwnd = clamp_fcwnd(window, p);
}

/// Returns the RTT, at least one tick.
#[inline(always)]
const fn longer(rtt: Ticks) -> u64 {
    if rtt.0 == 0 { 1 } else { rtt.0 as u64 }
}

#[inline(always)]
const fn limited(rate: u64, p: &Parameters) -> u32 {
    let rate = if rate > p.max_rate as u64 { p.max_rate } else { rate as u32 };
    if rate < p.min_rate { p.min_rate } else { rate }
}
