//! Parameters of DCQCN.

use crate::congestion::fixed_point::Fraction;
use crate::congestion::nic_time::NicTime;
use crate::congestion::range::{OutOfRange, first_of, fraction, ranged};
use crate::units::Ticks;
use bytemuck::{Pod, Zeroable};

/// Fraction bits of a rate in packets per tick.
pub const RATE_BITS: u32 = 24;
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

    pub(in crate::congestion) const fn check(&self) -> Result<(), OutOfRange> {
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
