//! PLB: a change of path after enough congested rounds (10.4, D-72).
//!
//! PLB needs a delay target to decide which acknowledgements are congested. Swift has one. The other algorithms
//! here have none and never ask for a change of path because of delay. A custom algorithm that has a target calls
//! [`update`].
//!
//! A round is a window of packets, and a flow that its window does not limit takes many round trips to send one. So PLB is
//! slow to leave a path that has become slow. With `plb_quick_round`, a round whose delay is far above the target closes
//! after that many packets, and counts for as many congested rounds as the delay has half targets beyond the first half.
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

/// Half of the circle of times: what is further away than this is in the past.
const HALF: Ticks = Ticks(1 << (NicTime::BITS - 1));
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
    /// When the path was last changed: a [`NicTime`], its least significant byte first. Changes by [`update`] are noted only
    /// with `plb_quick_round`. Events of acknowledgements keep it from falling out of the half of time before them.
    pub changed_at: [u8; 3],
}

impl PlbState {
    #[inline(always)]
    const fn changed_at(&self) -> NicTime {
        let [low, middle, high] = self.changed_at;
        NicTime(u32::from_le_bytes([low, middle, high, 0]))
    }

    #[inline(always)]
    const fn set_changed_at(&mut self, time: NicTime) {
        let [low, middle, high, _] = time.0.to_le_bytes();
        self.changed_at = [low, middle, high];
    }

    /// Returns whether the packet that `event` acknowledges was sent before the last change of path. Its delay is that of
    /// another path.
    #[inline(always)]
    const fn is_of_an_older_path(&mut self, event: &Event) -> bool {
        if self.changed_at().0 == 0 {
            return false;
        }
        let changed_at = event.now().drag(self.changed_at(), Ticks(HALF.0 - 1));
        self.set_changed_at(changed_at);
        event.t1.since(changed_at).0 >= HALF.0
    }
}

/// Returns the number of congested rounds that a round far above the target counts for: the half targets in its delay, less
/// one, from 1 to 15. So it is 2 from one and a half times the target, 3 from twice the target.
#[inline(always)]
const fn severity(delay: FineTicks, target: FineTicks) -> u8 {
    match (2 * delay.0).checked_div(target.0) {
        Some(0..=2) => 1,
        Some(halves @ 3..=15) => halves as u8 - 1,
        _ => 15,
    }
}

#[inline(always)]
const fn exceeds(delay: FineTicks, target: FineTicks, multiplier: Fraction) -> bool {
    // 40 bits of delay, 20 of multiplier.
    delay.0 << Fraction::BITS > target.0 * multiplier.0 as u64
}

/// Returns whether an acknowledgement counts as congested (F-10.4-1). With a higher target it is never more
/// congested.
#[inline(always)]
pub const fn is_congested(
    parameters: &Parameters,
    smoothed_delay: FineTicks,
    delay_target: FineTicks,
) -> bool {
    exceeds(smoothed_delay, delay_target, parameters.plb_target_delay_multiplier)
}

/// Counts an event and returns whether to change the path (F-10.4-1 to F-10.4-5). Only ACKs count (D-72).
///
/// `delay_target` is the target for the window before this event's update. The window itself, taken from the
/// event, is also the one before the update. A round also closes when its count is full. Otherwise it could never
/// close in windows above 1023 packets. With `plb_quick_round` it also closes early if the delay is far above the target,
/// and packets of an older path do not count.
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
    let quick = parameters.plb_quick_round != 0;
    if quick && state.is_of_an_older_path(event) {
        return false;
    }
    let acked = event.num_packets_acked as u32;
    let congested = is_congested(parameters, smoothed_delay, delay_target);
    let packets = saturated(state.packets_acknowledged as u32 + acked);
    let congested_packets =
        saturated(state.packets_congestion_acknowledged as u32 + if congested { acked } else { 0 });

    let (fabric, nic) = (event.fcwnd.0 as u64, event.ncwnd as u64 * ONE_PACKET);
    let window = if fabric < nic { fabric } else { nic };
    let far = quick && exceeds(smoothed_delay, delay_target, parameters.plb_quick_multiplier);
    let is_over = far && packets >= parameters.plb_quick_round;
    if (packets as u64 * ONE_PACKET) < window && packets < MAX_PACKETS && !is_over {
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
    let rounds = if far { severity(smoothed_delay, delay_target) } else { 1 };
    let attempts = state.reroute_attempted.saturating_add(rounds);
    let reroute = attempts as u32 >= parameters.plb_attempt_threshold;
    state.reroute_attempted = if reroute { 0 } else { attempts };
    if reroute && quick {
        state.set_changed_at(event.now());
    }
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
    let (now, changed_at) = (event.now(), state.changed_at());
    if changed_at.0 != 0 && !now.has_elapsed(changed_at, timeout) {
        return false;
    }
    state.set_changed_at(now);
    true
}

#[inline(always)]
const fn saturated(packets: u32) -> u32 {
    if packets > MAX_PACKETS { MAX_PACKETS } else { packets }
}
