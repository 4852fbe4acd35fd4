//! The shared parts of algorithms: smoothing, the NIC window, the pacing gap, the timeout. A custom algorithm
//! consists of these and of a rule for the fabric window.

use super::event::{Direction, Event};
use super::fixed_point::{FineTicks, Fraction, divide};
use super::nic_time::NicTime;
use super::parameters::Parameters;
use super::result::Outcome;
use crate::units::{Fcwnd, InterPacketGap, Ticks};

/// One packet in the format of a fabric window.
pub const ONE_PACKET: u64 = 1 << Fcwnd::FRACTION_BITS;

/// Returns `value`, limited to the range of the parameters, as a fabric window. It is at least 2^-10 packets in
/// any case.
#[inline(always)]
pub const fn clamp_fcwnd(value: u64, parameters: &Parameters) -> Fcwnd {
    let (least, most) = (parameters.min_fcwnd.0, parameters.max_fcwnd.0);
    let value = if value > most as u64 { most } else { value as u32 };
    let value = if value < least { least } else { value };
    Fcwnd(if value == 0 { 1 } else { value })
}

/// Writes the smoothed RTT and delay of an ACK or NACK into the result. Other events are no measurements
/// (F-10.3.1-9, F-10.3.4-3). Returns the smoothed delay before it was rounded for storing.
#[inline(always)]
pub const fn smooth(event: &Event, parameters: &Parameters, outcome: &mut Outcome) -> FineTicks {
    if !event.is_acknowledgement() {
        return FineTicks::from_ticks(event.delay_state);
    }
    let delay = parameters.delay_smoothing_alpha.smooth(event.delay_state, event.delay());
    outcome.rtt_state = parameters.rtt_smoothing_alpha.smooth(event.rtt_state, event.rtt()).round();
    outcome.delay_state = delay.round();
    delay
}

/// Completes a result whose fabric window and smoothed RTT are set: writes the gap and the timeout (F-10.3.4-6,
/// F-10.3.2-3).
#[inline(always)]
pub const fn pace(event: &Event, parameters: &Parameters, outcome: &mut Outcome) {
    outcome.inter_packet_gap = inter_packet_gap(outcome.fcwnd, event.rtt());
    outcome.retransmit_timeout = retransmit_timeout(outcome.rtt_state, parameters);
}

/// Returns the gap between packets: none for a window of at least one packet, otherwise rtt /
/// fcwnd, rounded to nearest and saturating at 20 bits (F-10.3.4-6, D-63).
#[inline(always)]
pub const fn inter_packet_gap(fcwnd: Fcwnd, rtt: Ticks) -> InterPacketGap {
    // A unit of 512 ns is 125 / 32 ticks, the window has 10 fraction bits: rtt * 2^15 / (125 * fcwnd).
    if fcwnd.0 as u64 >= ONE_PACKET {
        return InterPacketGap::NONE;
    }
    let gap = divide((rtt.0 as u64) << (5 + Fcwnd::FRACTION_BITS), 125 * fcwnd.0 as u64);
    if gap > InterPacketGap::MAX.0 as u64 { InterPacketGap::MAX } else { InterPacketGap(gap as u32) }
}

/// Returns max(scalar * smoothed_rtt, min_rto), saturating at 24 bits (F-10.3.2-3, D-69).
#[inline(always)]
pub const fn retransmit_timeout(smoothed_rtt: Ticks, parameters: &Parameters) -> Ticks {
    let timeout = parameters.retransmit_timeout_scalar.of(smoothed_rtt.0);
    let least = parameters.min_rto.0 as u64;
    let timeout = if timeout < least { least } else { timeout };
    Ticks(if timeout > NicTime::MASK as u64 { NicTime::MASK } else { timeout as u32 })
}

/// Updates the NIC window for an ACK or NACK: writes window, direction and marker into the result (F-10.3.1-6 to
/// F-10.3.1-8, F-10.3.3-1, F-10.3.6-3, F-10.3.6-4, D-60, D-65, D-66, D-71). Other events do not change it
/// (F-10.3.2-4).
///
/// "Fell" and "rose" refer to the window as stored, in whole packets. A step too small to change it is no change.
#[inline(always)]
pub const fn update_ncwnd(event: &Event, parameters: &Parameters, outcome: &mut Outcome) {
    if !event.is_acknowledgement() {
        return;
    }
    let (now, rtt, marker) = (event.now(), event.rtt(), event.nic_window_time_marker);
    let elapsed = now.has_elapsed(marker, rtt);
    let (level, target) = (event.rx_buffer_level as u32, parameters.target_rx_buffer_level);
    let previous = event.ncwnd as u32;
    let exhausted = event.is_resource_exhaustion();

    let mut cut = false;
    let mut window = previous as u64;
    if exhausted {
        // F-10.3.3-1
        if event.ncwnd_direction.is(Direction::INCREASE) || elapsed {
            window = parameters.max_nic_multiplicative_decrease_factor.complement().of(previous);
            cut = true;
        }
    } else if level < target {
        // F-10.3.1-6
        if event.ncwnd_direction.is(Direction::DECREASE) || elapsed {
            window = previous as u64 + parameters.nic_additive_increment as u64;
        }
    } else if level > target && elapsed {
        // F-10.3.1-7: both sides of the maximum are multiplied by level, which is positive here.
        let factor = parameters.nic_multiplicative_decrease_factor.0;
        let measured = (level * Fraction::ONE.0).saturating_sub(factor.saturating_mul(level - target));
        let bound = parameters.max_nic_multiplicative_decrease_factor.complement().0 * level;
        let scaled = if measured > bound { measured } else { bound };
        window = divide(previous as u64 * scaled as u64, (level * Fraction::ONE.0) as u64);
    }
    let (least, most) = (parameters.min_ncwnd, parameters.max_ncwnd);
    let window = if window > most as u64 { most } else { window as u32 };
    let window = if window < least { least } else { window };

    outcome.ncwnd = window as u16;
    (outcome.nic_window_time_marker, outcome.ncwnd_direction) = if cut || window < previous || window == least
    {
        (now, Direction::DECREASE)
    } else if window > previous || window == most {
        // D-66: after the NACK of an exhausted receiver the direction is decrease, even at the largest window.
        (now, if exhausted { Direction::DECREASE } else { Direction::INCREASE })
    } else {
        (now.drag(marker, rtt), event.ncwnd_direction)
    };
}
