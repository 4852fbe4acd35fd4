//! A loss-based window similar to NewReno (RFC 5681, RFC 6582), with Falcon's signs of loss.

use super::event::{Event, EventType};
use super::fixed_point::divide;
use super::parameters::{Parameters, Prepared};
use super::result::Outcome;
use super::state::EngineState;
use super::window::{ONE_PACKET, clamp_fcwnd, pace, smooth, update_ncwnd};
use crate::units::Fcwnd;

pub use super::state::NewRenoState;

/// Smallest slow start threshold: two packets (RFC 5681, equation 4).
const MIN_THRESHOLD: u32 = 2 * ONE_PACKET as u32;

/// Updates the fabric window: it doubles per RTT below the slow start threshold and grows by one packet per RTT
/// above it.
///
/// A loss is an EACK that shows it or a retransmission, early or by timeout. It halves the window and sets the
/// threshold to the same value, at most once per RTT: the fabric marker is the guard, as for Swift. When a packet
/// was retransmitted `retransmit_limit` times, the window goes to one packet, and slow start begins again (RFC
/// 5681, 3.1). The NIC window is that of Swift.
#[inline(never)]
pub fn newreno(event: &Event, engine: &mut EngineState, parameters: &Prepared, outcome: &mut Outcome) {
    let p = parameters.parameters();
    outcome.carry_over(event);
    smooth(event, p, outcome);
    update_fcwnd(event, &mut engine.newreno, p, outcome);
    pace(event, p, outcome);
    update_ncwnd(event, p, outcome);
}

#[inline(always)]
const fn update_fcwnd(event: &Event, state: &mut NewRenoState, p: &Parameters, outcome: &mut Outcome) {
    let (now, rtt, marker) = (event.now(), event.rtt(), event.fabric_window_time_marker);
    let retransmitted = event.event_type.is(EventType::RETRANSMIT);
    let previous = event.fcwnd.0 as u64;
    let half = if event.fcwnd.0 / 2 > MIN_THRESHOLD { event.fcwnd.0 / 2 } else { MIN_THRESHOLD };
    let fresh_loss = (retransmitted || event.eack_drop != 0) && now.has_elapsed(marker, rtt);

    let mut window = previous;
    if retransmitted && event.retransmit_count as u32 >= p.retransmit_limit {
        if fresh_loss {
            state.threshold = Fcwnd(half);
        }
        window = if previous < ONE_PACKET { previous } else { ONE_PACKET };
    } else if fresh_loss {
        state.threshold = Fcwnd(half);
        // The threshold has a lower limit. The window must not rise to it.
        window = if previous < half as u64 { previous } else { half as u64 };
    } else if event.event_type.is(EventType::ACK) && event.eack_drop == 0 {
        window += growth(event, state);
    }
    outcome.fcwnd = clamp_fcwnd(window, p);
    outcome.fabric_window_time_marker =
        if fresh_loss || outcome.fcwnd.0 < event.fcwnd.0 { now } else { now.drag(marker, rtt) };
}

/// Returns the growth for acknowledged packets: one packet each in slow start, one packet per window in congestion
/// avoidance.
#[inline(always)]
const fn growth(event: &Event, state: &NewRenoState) -> u64 {
    let acked = event.num_packets_acked as u64 * ONE_PACKET;
    if state.threshold.0 == 0 {
        acked
    } else if event.fcwnd.0 < state.threshold.0 {
        // Not beyond the threshold: congestion avoidance starts there.
        let room = (state.threshold.0 - event.fcwnd.0) as u64;
        if acked < room { acked } else { room }
    } else {
        divide(acked << Fcwnd::FRACTION_BITS, event.fcwnd.0 as u64)
    }
}
