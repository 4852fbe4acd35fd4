//! DCQCN's reaction point: the rate of a flow at its sender (section 3.1 and figure 7 of the paper).

use fabric_model::{Span, Time};

/// Parameters of the reaction point. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dcqcn {
    /// The rate at which a flow starts.
    pub line_rate: f64,
    /// The lowest rate.
    pub min_rate: f64,
    /// g, the gain of alpha.
    pub gain: f64,
    /// K: alpha decays if no notification comes for this time.
    pub alpha_timer: Span,
    /// T: the time between increases.
    pub increase_timer: Span,
    /// B: the bytes between increases.
    pub increase_bytes: u64,
    /// F: fast recovery ends when the time counter or the byte counter reaches this value.
    pub fast_recovery: u32,
    /// R_AI, the step of an additive increase.
    pub additive_increase: f64,
    /// R_HAI, the step of a hyper increase.
    pub hyper_increase: f64,
}

impl Dcqcn {
    /// Returns the parameters of the paper for a link of `line_rate`.
    #[must_use]
    pub const fn new(line_rate: f64) -> Self {
        Self {
            line_rate,
            min_rate: 10e6,
            gain: 1.0 / 256.0,
            alpha_timer: Span::from_micros(55),
            increase_timer: Span::from_micros(55),
            increase_bytes: 10_000_000,
            fast_recovery: 5,
            additive_increase: 40e6,
            hyper_increase: 400e6,
        }
    }

    /// Returns the defaults of the simulator published with Zhu et al., "ECN or delay", CoNEXT 2016 (ns3-rdma).
    /// The simulator starts with an alpha of 0.5. Here alpha starts as 1, as in the paper.
    #[must_use]
    pub const fn simulator(line_rate: f64) -> Self {
        Self {
            min_rate: 100e6,
            increase_timer: Span::from_micros(60),
            increase_bytes: 300_000_000,
            hyper_increase: 200e6,
            ..Self::new(line_rate)
        }
    }
}

/// The state that a flow keeps from its first notification on.
#[derive(Clone, Copy, Debug)]
struct Limit {
    target: f64,
    alpha_due: Time,
    increase_due: Time,
    bytes: u64,
    time_stage: u32,
    byte_stage: u32,
}

/// The rate of one flow at its sender.
#[derive(Clone, Copy, Debug)]
pub struct ReactionPoint {
    parameters: Dcqcn,
    rate: f64,
    alpha: f64,
    limit: Option<Limit>,
    notifications: u64,
}

impl ReactionPoint {
    /// Creates a flow that sends at line rate. It has no limit until the first notification.
    #[must_use]
    pub const fn new(parameters: Dcqcn) -> Self {
        Self { parameters, rate: parameters.line_rate, alpha: 1.0, limit: None, notifications: 0 }
    }

    /// Returns R_C, in bits per second.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns R_T, in bits per second.
    pub fn target(&self) -> f64 {
        self.limit.map_or(self.rate, |limit| limit.target)
    }

    /// Returns the congestion estimate, from 0 to 1.
    pub const fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Returns the number of notifications received.
    pub const fn notifications(&self) -> u64 {
        self.notifications
    }

    /// Returns when the caller must call [`Self::on_timer`].
    pub fn timer(&self) -> Option<Time> {
        self.limit.map(|limit| limit.alpha_due.min(limit.increase_due))
    }

    /// Handles a notification: applies equation 1, resets the counters of the increases and restarts the timers.
    pub fn on_notification(&mut self, now: Time) {
        self.notifications += 1;
        self.limit = Some(Limit {
            target: self.rate,
            alpha_due: now + self.parameters.alpha_timer,
            increase_due: now + self.parameters.increase_timer,
            bytes: 0,
            time_stage: 0,
            byte_stage: 0,
        });
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(self.parameters.min_rate);
        self.alpha = (1.0 - self.parameters.gain) * self.alpha + self.parameters.gain;
    }

    /// Counts bytes that were sent, and increases the rate if the byte counter says so.
    pub fn on_sent(&mut self, bytes: u64) {
        let parameters = self.parameters;
        let Some(limit) = &mut self.limit else { return };
        limit.bytes += bytes;
        if limit.bytes >= parameters.increase_bytes {
            limit.bytes -= parameters.increase_bytes;
            limit.byte_stage += 1;
            self.increase();
        }
    }

    /// Does what is due at `now`: the decay of alpha (equation 2), and the increases by time.
    pub fn on_timer(&mut self, now: Time) {
        let parameters = self.parameters;
        while let Some(limit) = self.limit.as_mut().filter(|limit| limit.alpha_due <= now) {
            limit.alpha_due = limit.alpha_due + parameters.alpha_timer;
            self.alpha *= 1.0 - parameters.gain;
        }
        while let Some(limit) = self.limit.as_mut().filter(|limit| limit.increase_due <= now) {
            limit.increase_due = limit.increase_due + parameters.increase_timer;
            limit.time_stage += 1;
            self.increase();
        }
    }

    /// Increases the rate (equations 3 and 4). It is fast recovery until one of the counters has reached F, hyper
    /// increase after both counters have passed F, and additive increase otherwise. Each time, R_C moves half of
    /// the way to R_T.
    fn increase(&mut self) {
        let parameters = self.parameters;
        let Some(limit) = &mut self.limit else { return };
        let (low, high) = (limit.time_stage.min(limit.byte_stage), limit.time_stage.max(limit.byte_stage));
        let step = if high < parameters.fast_recovery {
            0.0
        } else if low > parameters.fast_recovery {
            f64::from(low - parameters.fast_recovery) * parameters.hyper_increase
        } else {
            parameters.additive_increase
        };
        limit.target = (limit.target + step).min(parameters.line_rate);
        self.rate = f64::midpoint(limit.target, self.rate);
    }
}
