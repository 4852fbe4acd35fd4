//! DCQCN's reaction point (SIGCOMM 2015, section 3.1), driven by the ECN count of acknowledgements.
//!
//! The paper's NIC limits a rate and is notified of congestion by CNPs. Here each event carries the number of
//! packets that the peer received with a CE mark. An increase since the last event counts as a CNP, at most one
//! per `cnp_interval`. The rate becomes a window: rate times smoothed RTT.
//!
//! Differences to the paper: timers are checked when an event comes, and each fires at most once per event. Loss,
//! which the paper's fabric does not have, counts as a CNP. A connection starts at the rate of its window.

use super::algorithm::EngineState;
use super::event::{Event, EventType};
use super::fixed_point::{Fraction, divide};
use super::nic_time::NicTime;
use super::parameters::{OutOfRange, first_of, fraction, ranged};
use super::parameters::{Parameters as EngineParameters, Prepared};
use super::result::Outcome;
use super::window::{clamp_fcwnd, pace, smooth, update_ncwnd};
use crate::units::{Fcwnd, Ticks};
use bytemuck::{Pod, Zeroable};

/// Fraction bits of a rate in packets per tick.
pub const RATE_BITS: u32 = 24;
/// Shift from a window, with 10 fraction bits, to a rate.
const WINDOW_TO_RATE: u32 = RATE_BITS - Fcwnd::FRACTION_BITS;

/// Parameters of DCQCN. Rates are packets per tick of 131.072 ns in units of 2^-24 (0.4547 packets per second).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Parameters {
    /// Highest rate, the line rate: at least `min_rate`.
    pub max_rate: u32,
    /// Lowest rate, from 1.
    pub min_rate: u32,
    /// Weight of a new observation in the estimate alpha, 0 to 1 (the paper's g).
    pub gain: Fraction,
    /// Least time between two CNPs, 24 bits (the paper's N).
    pub cnp_interval: Ticks,
    /// Time without a CNP after which alpha decays, 24 bits (the paper's K).
    pub alpha_interval: Ticks,
    /// Time between two steps of the increase timer, 24 bits (the paper's T).
    pub increase_interval: Ticks,
    /// Packets between two steps of the byte counter, from 1 (the paper's B).
    pub increase_packets: u32,
    /// Steps of fast recovery, 1 to 255 (the paper's F).
    pub fast_recovery_steps: u32,
    /// Additive increase of the target rate, up to `max_rate` (the paper's R_AI).
    pub additive_increment: u32,
    /// Hyper increase of the target rate, up to `max_rate` (the paper's R_HAI).
    pub hyper_increment: u32,
}

impl Parameters {
    /// The paper's values for packets of 4096 bytes: g 1/256, N 50 us, K and T 55 us, B 10 MB, F 5, R_AI 40 Mb/s;
    /// R_HAI, which it does not give, 400 Mb/s; rates of 800 kb/s to 250 Gb/s.
    pub const DEFAULT: Self = Self {
        max_rate: 1 << RATE_BITS,
        min_rate: 54,
        gain: Fraction::ratio(1, 256),
        cnp_interval: Ticks::from_nanos(50_000),
        alpha_interval: Ticks::from_nanos(55_000),
        increase_interval: Ticks::from_nanos(55_000),
        increase_packets: 2441,
        fast_recovery_steps: 5,
        additive_increment: 2684,
        hyper_increment: 26_844,
    };

    pub(super) const fn check(&self) -> Result<(), OutOfRange> {
        const DURATION: &str = "0 to 16777215 ticks (2.199 s)";
        first_of(&[
            ranged("dcqcn.min_rate", self.min_rate, 1, u32::MAX, "at least 1"),
            ranged("dcqcn.max_rate", self.max_rate, self.min_rate, u32::MAX, "at least dcqcn.min_rate"),
            fraction("dcqcn.gain", self.gain),
            ranged("dcqcn.cnp_interval", self.cnp_interval.0, 0, NicTime::MASK, DURATION),
            ranged("dcqcn.alpha_interval", self.alpha_interval.0, 0, NicTime::MASK, DURATION),
            ranged("dcqcn.increase_interval", self.increase_interval.0, 0, NicTime::MASK, DURATION),
            ranged("dcqcn.increase_packets", self.increase_packets, 1, u32::MAX, "at least 1"),
            ranged("dcqcn.fast_recovery_steps", self.fast_recovery_steps, 1, 255, "1 to 255"),
            ranged(
                "dcqcn.additive_increment",
                self.additive_increment,
                0,
                self.max_rate,
                "0 to dcqcn.max_rate",
            ),
            ranged("dcqcn.hyper_increment", self.hyper_increment, 0, self.max_rate, "0 to dcqcn.max_rate"),
        ])
    }
}

/// State of a connection. Zero is a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct DcqcnState {
    /// Current rate (R_C); 0 for a new connection.
    pub current_rate: u32,
    /// Target rate (R_T).
    pub target_rate: u32,
    /// Packets acknowledged since the last step of the byte counter.
    pub packets: u32,
    /// Last decay of alpha.
    alpha_at: NicTime,
    /// Last step of the increase timer.
    increased_at: NicTime,
    /// Estimate of congestion (alpha), stored as 1 - alpha in units of 2^-16: a new connection has alpha = 1.
    one_minus_alpha: u16,
    /// ECN count of the last event, modulo 2^14.
    ecn: u16,
    /// Steps of the increase timer since the last cut, at most 255.
    timer_steps: u8,
    /// Steps of the byte counter since the last cut, at most 255.
    byte_steps: u8,
    /// Always 0.
    reserved: [u8; 2],
}

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
    let lost = event.event_type == EventType::RETRANSMIT || event.eack_drop != 0;
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

impl DcqcnState {
    /// Sets alpha in units of 2^-16, from 1 to 65536.
    #[inline(always)]
    const fn set_alpha(&mut self, alpha: u32) {
        let alpha = if alpha == 0 { 1 } else { alpha };
        self.one_minus_alpha = (1u32 << 16).saturating_sub(alpha) as u16;
    }
}
