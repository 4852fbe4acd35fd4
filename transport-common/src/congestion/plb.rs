//! PLB: a change of path after enough congested rounds (10.4, D-72).
//!
//! PLB needs a delay target to decide which acknowledgements are congested. Swift has one. The other algorithms
//! here have none and never ask for a change of path because of delay. A custom algorithm that has a target calls
//! [`update`].
//!
//! On a path that carries nothing there are no acknowledgements, so PLB never leaves it. [`retransmitted`] does: a
//! packet that timed out changes the path. Section 10.4 has no such rule, but any result may ask for another path
//! (F-10.6.2.2-4), so it is a parameter that is off in the defaults of D-78.

use super::event::{Event, EventType};
use super::fixed_point::{FineTicks, Fraction};
use super::nic_time::NicTime;
use super::parameters::Parameters;
use super::window::ONE_PACKET;
use crate::units::Ticks;
use bytemuck::{Pod, Zeroable};

/// Largest packet count of a round (D-72).
const MAX_PACKETS: u32 = 1023;

/// Counters of a connection. Zero is a new connection (F-10.5.6-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct PlbState {
    /// Packets acknowledged in this round, at most 1023.
    pub packets_acknowledged: u16,
    /// Number of these that were acknowledged under congestion.
    pub packets_congestion_acknowledged: u16,
    /// Consecutive congested rounds: below plb_attempt_threshold, which is at most 15.
    pub reroute_attempted: u8,
    /// When [`retransmitted`] last changed the path: a [`NicTime`], its least significant byte first.
    pub changed_at: [u8; 3],
}

/// Returns whether an acknowledgement counts as congested (F-10.4-1). With a higher target it is never more
/// congested.
#[inline(always)]
pub const fn is_congested(
    parameters: &Parameters,
    smoothed_delay: FineTicks,
    delay_target: FineTicks,
) -> bool {
    // 40 bits of delay, 20 of multiplier.
    smoothed_delay.0 << Fraction::BITS > delay_target.0 * parameters.plb_target_delay_multiplier.0 as u64
}

/// Counts an event and returns whether to change the path (F-10.4-1 to F-10.4-5). Only ACKs count (D-72).
///
/// `delay_target` is the target for the window before this event's update. The window itself, taken from the
/// event, is also the one before the update. A round also closes when its count is full. Otherwise it could never
/// close in windows above 1023 packets.
#[inline(always)]
pub const fn update(
    state: &mut PlbState,
    event: &Event,
    parameters: &Parameters,
    smoothed_delay: FineTicks,
    delay_target: FineTicks,
) -> bool {
    if !event.event_type.is(EventType::ACK) {
        return false;
    }
    let acked = event.num_packets_acked as u32;
    let congested = is_congested(parameters, smoothed_delay, delay_target);
    let packets = saturated(state.packets_acknowledged as u32 + acked);
    let congested_packets =
        saturated(state.packets_congestion_acknowledged as u32 + if congested { acked } else { 0 });

    let (fabric, nic) = (event.fcwnd.0 as u64, event.ncwnd as u64 * ONE_PACKET);
    let window = if fabric < nic { fabric } else { nic };
    if (packets as u64 * ONE_PACKET) < window && packets < MAX_PACKETS {
        state.packets_acknowledged = packets as u16;
        state.packets_congestion_acknowledged = congested_packets as u16;
        return false;
    }
    state.packets_acknowledged = 0;
    state.packets_congestion_acknowledged = 0;
    let threshold = packets as u64 * parameters.plb_congestion_threshold.0 as u64;
    if ((congested_packets as u64) << Fraction::BITS) < threshold {
        state.reroute_attempted = 0;
        return false;
    }
    let attempts = state.reroute_attempted.saturating_add(1);
    let reroute = attempts as u32 >= parameters.plb_attempt_threshold;
    state.reroute_attempted = if reroute { 0 } else { attempts };
    reroute
}

/// Returns whether a retransmission event changes the path: a packet has timed out `plb_timeout_threshold` times, and
/// the path is older than one timeout.
///
/// `timeout` is that of the event's result. Without it, every packet of a window that is lost would change the path
/// again, also after a good one was found. A change that falls within one timeout of the wrap of time (2.199 s) after
/// the last one waits for the next event.
#[inline(always)]
pub const fn retransmitted(
    state: &mut PlbState,
    event: &Event,
    parameters: &Parameters,
    timeout: Ticks,
) -> bool {
    let threshold = parameters.plb_timeout_threshold;
    if threshold == 0 || (event.retransmit_count as u32) < threshold {
        return false;
    }
    let (now, [low, middle, high]) = (event.now(), state.changed_at);
    let changed_at = NicTime(u32::from_le_bytes([low, middle, high, 0]));
    if changed_at.0 != 0 && !now.has_elapsed(changed_at, timeout) {
        return false;
    }
    let [low, middle, high, _] = now.0.to_le_bytes();
    state.changed_at = [low, middle, high];
    true
}

#[inline(always)]
const fn saturated(packets: u32) -> u32 {
    if packets > MAX_PACKETS { MAX_PACKETS } else { packets }
}
