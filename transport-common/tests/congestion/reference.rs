//! Swift and PLB in floats, written from the pseudo-code of 10.3 and 10.4 and from the decisions, independent of
//! the core.
//!
//! Values are real numbers until they are stored: times as whole ticks, fcwnd in 2^-10, ncwnd as a whole number
//! (D-65, D-79). The smoothed RTT is stored before the timeout is computed from it.

use transport_common::congestion::event::{Direction, Event, EventType};
use transport_common::congestion::fixed_point::Fraction;
use transport_common::congestion::parameters::Parameters;
use transport_common::units::Fcwnd;
use transport_common::wire::nack::NackCode;

const CIRCLE: i64 = 1 << 24;

/// Result of the reference for an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Before rounding, after clamping.
    pub(crate) fcwnd: f64,
    /// Before rounding; 0 for events without a delay.
    pub(crate) delay_target: f64,
    /// In units of 512 ns, before rounding, at most 20 bits.
    pub(crate) gap: f64,
    pub(crate) ncwnd: f64,
    pub(crate) direction: Direction,
    pub(crate) fabric_marker: i64,
    pub(crate) nic_marker: i64,
    /// Before rounding.
    pub(crate) smoothed_delay: f64,
    pub(crate) smoothed_rtt: i64,
    pub(crate) timeout: i64,
    pub(crate) reroute: bool,
    /// A value so close to a rounding boundary that floats cannot decide: the target delay, a window.
    pub(crate) at_issue: AtIssue,
}

/// Values for which floats cannot decide.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtIssue {
    pub(crate) target: bool,
    pub(crate) fcwnd: bool,
    pub(crate) ncwnd: bool,
}

/// PLB's counters (10.5.6).
#[derive(Clone, Debug, Default)]
pub(crate) struct Plb {
    pub(crate) packets: f64,
    pub(crate) congested: f64,
    pub(crate) attempts: u32,
}

fn real(fraction: Fraction) -> f64 {
    f64::from(fraction.0) / 65_536.0
}

fn packets(window: Fcwnd) -> f64 {
    f64::from(window.0) / 1024.0
}

/// Times modulo 2^24.
fn circle(time: i64) -> i64 {
    time.rem_euclid(CIRCLE)
}

/// Returns whether the value is within `margin` of the middle between two integers, but not exactly there: exact
/// halves are exact in floats as well.
fn near_half(value: f64, margin: f64) -> bool {
    let distance = ((value - value.floor()) - 0.5).abs();
    distance > 0.0 && distance < margin
}

pub(crate) struct Swift<'a> {
    pub(crate) p: &'a Parameters,
    pub(crate) e: &'a Event,
}

impl Swift<'_> {
    fn now(&self) -> i64 {
        self.e.t4.0.into()
    }

    /// D-70.
    fn rtt(&self) -> i64 {
        if self.measures() { circle(self.now() - i64::from(self.e.t1.0)) } else { self.e.rtt_state.0.into() }
    }

    fn measures(&self) -> bool {
        self.e.event_type == EventType::ACK || self.e.event_type == EventType::NACK
    }

    /// F-10.1-3, F-10.1-4. A delay below zero counts as zero.
    fn delay(&self) -> i64 {
        let [t1, t2, t3, t4] = [self.e.t1, self.e.t2, self.e.t3, self.e.t4].map(|t| i64::from(t.0));
        let signed = |difference: i64| {
            let difference = circle(difference);
            if difference >= CIRCLE / 2 { 0 } else { difference }
        };
        match self.e.delay_select.0 {
            0 => circle(t4 - t1),
            1 => signed((t4 - t1) - (t3 - t2)),
            2 => signed(t2 - t1),
            _ => signed(t4 - t3),
        }
    }

    fn has_rtt_elapsed(&self, marker: u32) -> bool {
        circle(self.now() - i64::from(marker)) >= self.rtt()
    }

    fn update_time_marker(&self, marker: u32) -> i64 {
        let delta = circle(self.now() - i64::from(marker));
        if delta > self.rtt() { circle(self.now() - self.rtt()) } else { marker.into() }
    }

    /// FabricDelayTarget with alpha and beta of D-62.
    fn fabric_delay_target(&self) -> f64 {
        let max = f64::from(self.p.max_flow_scaling.0);
        let low = packets(self.p.min_flow_scaling_window);
        let high = packets(self.p.max_flow_scaling_window);
        let alpha = max / (1.0 / low.sqrt() - 1.0 / high.sqrt());
        let beta = -alpha / high.sqrt();
        let flow = (alpha / packets(self.e.fcwnd).sqrt() + beta).clamp(0.0, max);
        let topology = f64::from(self.p.topology_scaling_per_hop.0) * f64::from(self.e.forward_hops);
        f64::from(self.e.base_delay_target.0) + flow + topology
    }

    fn smoothed(alpha: Fraction, history: u32, sample: i64) -> f64 {
        let alpha = real(alpha);
        f64::from(history) * alpha + sample as f64 * (1.0 - alpha)
    }

    /// Processes the whole event. `plb` is the connection's state.
    pub(crate) fn process(&self, plb: &mut Plb) -> Verdict {
        let mut v = Verdict {
            fcwnd: packets(self.e.fcwnd),
            ncwnd: self.e.ncwnd.into(),
            direction: self.e.ncwnd_direction,
            fabric_marker: self.e.fabric_window_time_marker.0.into(),
            nic_marker: self.e.nic_window_time_marker.0.into(),
            smoothed_delay: self.e.delay_state.0.into(),
            smoothed_rtt: self.e.rtt_state.0.into(),
            ..Verdict::default()
        };
        match self.e.event_type {
            EventType::ACK | EventType::NACK => {
                v.smoothed_rtt =
                    Self::smoothed(self.p.rtt_smoothing_alpha, self.e.rtt_state.0, self.rtt()).round() as i64;
                v.smoothed_delay =
                    Self::smoothed(self.p.delay_smoothing_alpha, self.e.delay_state.0, self.delay());
                self.fabric_window(&mut v);
                if self.e.event_type == EventType::NACK
                    && self.e.nack_code == NackCode::INSUFFICIENT_RESOURCES
                {
                    self.resource_exhaustion(&mut v);
                } else {
                    self.nic_window(&mut v);
                }
                if self.e.event_type == EventType::ACK {
                    v.reroute = self.compute_plb(plb, &v);
                }
            }
            EventType::RETRANSMIT => self.retransmit(&mut v),
            _ => {}
        }
        // ComputeInterPacketGap (D-63), for the stored window.
        let stored = (v.fcwnd * 1024.0).round() / 1024.0;
        if stored < 1.0 {
            v.gap = (self.rtt() as f64 * 131.072 / 512.0 / stored).min(1_048_575.0);
        }
        let timeout = real(self.p.retransmit_timeout_scalar) * v.smoothed_rtt as f64;
        v.timeout = timeout.round().max(self.p.min_rto.0.into()).min((CIRCLE - 1) as f64) as i64;
        v
    }

    fn fabric_window(&self, v: &mut Verdict) {
        let prev = v.fcwnd;
        let marker = self.e.fabric_window_time_marker.0;
        let target = self.fabric_delay_target();
        v.delay_target = target;
        let delay = v.smoothed_delay;
        // Largest error of the core's target: half a unit of its 2^-16, and a relative error of 2^-29.5 in the
        // root. The difference of two roots (at least 1 - 1/sqrt(2) of the larger one) makes it 3.42 times as
        // large.
        let target_error = 2f64.powi(-17) + f64::from(self.p.max_flow_scaling.0) * 3.42 * 2f64.powf(-29.5);
        v.at_issue.target = delay != target && (delay - target).abs() <= 2.0 * target_error;

        // In units of 2^-10, for the error of floats themselves.
        let mut margin = 1e-6;
        let max_fmdf = real(self.p.max_fabric_multiplicative_decrease_factor);
        if self.p.max_decrease_on_eack_drop == 1 && self.e.eack_drop == 1 {
            if self.has_rtt_elapsed(marker) {
                v.fcwnd *= 1.0 - max_fmdf;
            }
        } else if delay <= target {
            let increment = packets(self.p.fabric_additive_increment) * f64::from(self.e.num_packets_acked);
            v.fcwnd += if v.fcwnd >= 1.0 { increment / v.fcwnd } else { increment };
        } else if self.has_rtt_elapsed(marker) {
            let fmdf = real(self.p.fabric_multiplicative_decrease_factor);
            let factor = 1.0 - fmdf * (delay - target) / delay;
            if factor > 1.0 - max_fmdf {
                // The core drops what is below 2^-16 units of the decrease, and its target may be inexact.
                margin += 2f64.powi(-16) + prev * 1024.0 * fmdf * target_error / delay;
            }
            v.fcwnd *= factor.max(1.0 - max_fmdf);
        }
        v.at_issue.fcwnd = near_half(v.fcwnd * 1024.0, margin);
        v.fcwnd = v.fcwnd.clamp(packets(self.p.min_fcwnd), packets(self.p.max_fcwnd));
        let stored = (v.fcwnd * 1024.0).round() / 1024.0;
        v.fabric_marker = if stored < prev || stored == packets(self.p.min_fcwnd) {
            self.now()
        } else {
            self.update_time_marker(marker)
        };
    }

    fn nic_window(&self, v: &mut Verdict) {
        let prev = v.ncwnd;
        let marker = self.e.nic_window_time_marker.0;
        let (level, target) = (f64::from(self.e.rx_buffer_level), f64::from(self.p.target_rx_buffer_level));
        // D-60: the decrease belongs to the outer condition. D-65: equal levels change nothing.
        if level < target {
            if v.direction == Direction::DECREASE || self.has_rtt_elapsed(marker) {
                v.ncwnd += f64::from(self.p.nic_additive_increment);
            }
        } else if level > target && self.has_rtt_elapsed(marker) {
            let nmdf = real(self.p.nic_multiplicative_decrease_factor);
            let bound = 1.0 - real(self.p.max_nic_multiplicative_decrease_factor);
            v.ncwnd *= (1.0 - nmdf * (level - target) / level).max(bound);
        }
        self.store_ncwnd(v);
        // D-71.
        if v.ncwnd < prev || v.ncwnd == f64::from(self.p.min_ncwnd) {
            (v.nic_marker, v.direction) = (self.now(), Direction::DECREASE);
        } else if v.ncwnd > prev || v.ncwnd == f64::from(self.p.max_ncwnd) {
            (v.nic_marker, v.direction) = (self.now(), Direction::INCREASE);
        } else {
            v.nic_marker = self.update_time_marker(marker);
        }
    }

    fn resource_exhaustion(&self, v: &mut Verdict) {
        let prev = v.ncwnd;
        let marker = self.e.nic_window_time_marker.0;
        let cut = v.direction == Direction::INCREASE || self.has_rtt_elapsed(marker);
        if cut {
            v.ncwnd *= 1.0 - real(self.p.max_nic_multiplicative_decrease_factor);
        }
        self.store_ncwnd(v);
        v.direction = Direction::DECREASE;
        let at_limit = v.ncwnd == f64::from(self.p.min_ncwnd) || v.ncwnd == f64::from(self.p.max_ncwnd);
        v.nic_marker =
            if cut || v.ncwnd != prev || at_limit { self.now() } else { self.update_time_marker(marker) };
    }

    /// D-65: rounded to nearest, then clamped.
    fn store_ncwnd(&self, v: &mut Verdict) {
        v.at_issue.ncwnd = near_half(v.ncwnd, 1e-9);
        v.ncwnd = v.ncwnd.round().clamp(self.p.min_ncwnd.into(), self.p.max_ncwnd.into());
    }

    fn retransmit(&self, v: &mut Verdict) {
        let count = u32::from(self.e.retransmit_count);
        if count == 1 && self.has_rtt_elapsed(self.e.fabric_window_time_marker.0) {
            v.fcwnd *= 1.0 - real(self.p.max_fabric_multiplicative_decrease_factor);
            v.fabric_marker = self.now();
        } else if count >= self.p.retransmit_limit {
            v.fcwnd = packets(self.p.min_fcwnd);
            v.fabric_marker = self.now();
        } else {
            v.fabric_marker = self.update_time_marker(self.e.fabric_window_time_marker.0);
        }
        v.at_issue.fcwnd = near_half(v.fcwnd * 1024.0, 1e-6);
        v.fcwnd = v.fcwnd.clamp(packets(self.p.min_fcwnd), packets(self.p.max_fcwnd));
    }

    /// ComputePlb with windows and target from before the update (D-72).
    fn compute_plb(&self, plb: &mut Plb, v: &Verdict) -> bool {
        let old_window = packets(self.e.fcwnd).min(self.e.ncwnd.into());
        let acked = f64::from(self.e.num_packets_acked);
        let new_packets = (plb.packets + acked).min(1023.0);
        let mut new_congested = plb.congested;
        let limit = v.delay_target.min(CIRCLE as f64) * real(self.p.plb_target_delay_multiplier);
        if v.smoothed_delay > limit {
            new_congested = (new_congested + acked).min(1023.0);
        }
        if new_packets < old_window && new_packets < 1023.0 {
            (plb.packets, plb.congested) = (new_packets, new_congested);
            return false;
        }
        (plb.packets, plb.congested) = (0.0, 0.0);
        if new_congested / new_packets < real(self.p.plb_congestion_threshold) {
            plb.attempts = 0;
            return false;
        }
        plb.attempts += 1;
        if plb.attempts >= self.p.plb_attempt_threshold {
            plb.attempts = 0;
            return true;
        }
        false
    }
}
