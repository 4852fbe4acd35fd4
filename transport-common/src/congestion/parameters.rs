//! Parameters of the rate update engine (10.5), with the names of the specification, their ranges and defaults.

use bytemuck::{Pod, Zeroable};

use super::dcqcn::Parameters as DcqcnParameters;
use super::entry::MAX_NCWND;
use super::fixed_point::Fraction;
use super::flow_scaling::FlowScaling;
use super::nic_time::{DelaySelect, DelaySetting, NicTime};
use super::range::{first_of, fraction, ranged};

pub use super::range::OutOfRange;
use crate::units::{Fcwnd, Ticks};

/// The parameters that a user sets. [`Self::prepare`] checks them and returns the input of algorithms. Durations
/// are ticks of 131.072 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Parameters {
    /// Largest fabric window: at least `min_fcwnd`.
    pub max_fcwnd: Fcwnd,
    /// Smallest fabric window: from 2^-10 packets (D-79).
    pub min_fcwnd: Fcwnd,
    /// Growth of the fabric window in packets per RTT, from 2^-10 packets.
    pub fabric_additive_increment: Fcwnd,
    /// Weight of the excess of delay in the decrease of the fabric window, 0 to 1.
    pub fabric_multiplicative_decrease_factor: Fraction,
    /// Largest part of the fabric window that one decrease takes, 0 to 1.
    pub max_fabric_multiplicative_decrease_factor: Fraction,
    /// Target delay before scaling, 24 bits. A connection starts with it; then the value in the event applies
    /// (D-77).
    pub base_delay_target: Ticks,
    /// Delay that a connection uses. A connection starts with it (D-77).
    pub delay_select: DelaySetting,
    /// 1 if the clocks of both ends show the same time, otherwise 0. One-way delays need it (F-10.1-4).
    pub synchronised_clocks: u32,

    /// Largest NIC window in packets: `min_ncwnd` to 2047.
    pub max_ncwnd: u32,
    /// Smallest NIC window in packets, from 1 (D-65).
    pub min_ncwnd: u32,
    /// Growth of the NIC window in packets per RTT, 1 to 2047.
    pub nic_additive_increment: u32,
    /// Weight of the excess of level in the decrease of the NIC window, 0 to 1 (D-65).
    pub nic_multiplicative_decrease_factor: Fraction,
    /// Largest part of the NIC window that one decrease takes, 0 to 1.
    pub max_nic_multiplicative_decrease_factor: Fraction,
    /// Target level of the peer's receive buffers, 0 to 31.
    pub target_rx_buffer_level: u32,

    /// An acknowledgement is congested above this multiple of the target delay, up to 16 (F-10.4-1).
    pub plb_target_delay_multiplier: Fraction,
    /// A round is congested if at least this part of its packets is, 0 to 1 (F-10.4-3).
    pub plb_congestion_threshold: Fraction,
    /// Consecutive congested rounds before a change of path, 1 to 15 (F-10.4-3, D-72).
    pub plb_attempt_threshold: u32,
    /// Timeouts of a packet from which on the path changes, 1 to 7, see [`super::plb::retransmitted`]. The path of
    /// acknowledgements changes when more copies than this were received in a row. 0: neither does.
    pub plb_timeout_threshold: u32,
    /// Packets after which a round closes whose delay is far above the target, 1 to 1023, see [`super::plb`]. 0: rounds
    /// close as in section 10.4 only.
    pub plb_quick_round: u32,
    /// A delay is far above the target above this multiple of it, 1 to 16.
    pub plb_quick_multiplier: Fraction,

    /// Weight of the history in the smoothed RTT, 0 to 1 (D-61).
    pub rtt_smoothing_alpha: Fraction,
    /// Weight of the history in the smoothed delay, 0 to 1; 0 means no smoothing (D-61).
    pub delay_smoothing_alpha: Fraction,
    /// Addition to the target delay per hop of the forward path, 24 bits.
    pub topology_scaling_per_hop: Ticks,
    /// Retransmission timeout as a multiple of the smoothed RTT, 1 to 256 (F-10.3.2-3).
    pub retransmit_timeout_scalar: Fraction,
    /// Number of retransmissions of a packet at which the fabric window goes to its minimum, 1 to 7 (F-10.3.2-2).
    pub retransmit_limit: u32,
    /// Smallest retransmission timeout, 1 to 2^24 - 1 ticks.
    pub min_rto: Ticks,
    /// Window up to which flow scaling adds the full `max_flow_scaling`, from 2^-10 packets.
    pub min_flow_scaling_window: Fcwnd,
    /// Window from which flow scaling adds nothing: at least twice `min_flow_scaling_window`.
    pub max_flow_scaling_window: Fcwnd,
    /// Largest addition to the target delay by flow scaling, 24 bits.
    pub max_flow_scaling: Ticks,
    /// 1: an EACK that shows loss cuts the fabric window by the largest decrease, at most once per RTT. 0: it does
    /// not (D-68).
    pub max_decrease_on_eack_drop: u32,

    /// 1: the target delay and the smallest window follow the path, see [`super::path`]; `base_delay_target` and
    /// `min_fcwnd` are what they are at least.
    pub adaptive_target: u32,
    /// 1: the smallest retransmission timeout follows the path, see [`super::path`]; `min_rto` is what it is at least.
    pub adaptive_timeout: u32,

    /// Window of [`super::fixed`].
    pub fixed_window: Fcwnd,
    /// Always 0.
    pub reserved: u32,
    /// Parameters of [`super::dcqcn`].
    pub dcqcn: DcqcnParameters,
}

impl Parameters {
    /// The defaults (D-78).
    pub const DEFAULT: Self = Self {
        max_fcwnd: Fcwnd::from_packets(256),
        min_fcwnd: Fcwnd(10), // 0.01 to nearest
        fabric_additive_increment: Fcwnd::from_packets(1),
        fabric_multiplicative_decrease_factor: Fraction::ratio(8, 10),
        max_fabric_multiplicative_decrease_factor: Fraction::ratio(1, 2),
        base_delay_target: Ticks::from_nanos(25_000),
        delay_select: DelaySelect::Fabric.setting(),
        synchronised_clocks: 0,
        max_ncwnd: 256,
        min_ncwnd: 1,
        nic_additive_increment: 1,
        nic_multiplicative_decrease_factor: Fraction::ONE,
        max_nic_multiplicative_decrease_factor: Fraction::ratio(1, 2),
        target_rx_buffer_level: 15,
        plb_target_delay_multiplier: Fraction::ratio(101, 100),
        plb_congestion_threshold: Fraction::ratio(1, 2),
        plb_attempt_threshold: 5,
        plb_timeout_threshold: 0,
        plb_quick_round: 0,
        plb_quick_multiplier: Fraction::ratio(3, 2),
        rtt_smoothing_alpha: Fraction::ratio(3, 4),
        delay_smoothing_alpha: Fraction::ZERO,
        topology_scaling_per_hop: Ticks::from_nanos(1_000),
        retransmit_timeout_scalar: Fraction::ratio(2, 1),
        retransmit_limit: 3,
        min_rto: Ticks::from_nanos(1_000_000),
        min_flow_scaling_window: Fcwnd(102), // 0.1 to nearest
        max_flow_scaling_window: Fcwnd::from_packets(256),
        max_flow_scaling: Ticks::from_nanos(100_000),
        max_decrease_on_eack_drop: 0,
        adaptive_target: 0,
        adaptive_timeout: 0,
        fixed_window: Fcwnd::from_packets(32),
        reserved: 0,
        dcqcn: DcqcnParameters::DEFAULT,
    };

    /// Checks every value, and precomputes what is too slow to compute for every event.
    ///
    /// # Errors
    /// The first value out of its range.
    pub const fn prepare(&self) -> Result<Prepared, OutOfRange> {
        match self.check() {
            Ok(()) => Ok(Prepared {
                parameters: *self,
                flow_scaling: FlowScaling::new(
                    self.min_flow_scaling_window,
                    self.max_flow_scaling_window,
                    self.max_flow_scaling,
                ),
            }),
            Err(error) => Err(error),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value out of its range.
    pub const fn check(&self) -> Result<(), OutOfRange> {
        first_of(&[self.fabric_ranges(), self.nic_ranges(), self.common_ranges(), self.dcqcn.check()])
    }

    const fn fabric_ranges(&self) -> Result<(), OutOfRange> {
        const DURATION: &str = "0 to 16777215 ticks (2.199 s)";
        let (least, most) = (self.min_fcwnd.0, self.max_fcwnd.0);
        let one_way = DelaySelect::from_code(self.delay_select.code()).needs_synchronised_clocks();
        first_of(&[
            ranged("min_fcwnd", least, 1, Fcwnd::MAX.0, "1/1024 to 2047.999 packets"),
            ranged("max_fcwnd", most, least, Fcwnd::MAX.0, "min_fcwnd to 2047.999 packets"),
            ranged(
                "fabric_additive_increment",
                self.fabric_additive_increment.0,
                1,
                Fcwnd::MAX.0,
                "1/1024 to 2047.999 packets",
            ),
            fraction("fabric_multiplicative_decrease_factor", self.fabric_multiplicative_decrease_factor),
            fraction(
                "max_fabric_multiplicative_decrease_factor",
                self.max_fabric_multiplicative_decrease_factor,
            ),
            ranged("base_delay_target", self.base_delay_target.0, 0, NicTime::MASK, DURATION),
            ranged("delay_select", self.delay_select.0, 0, 3, "full, fabric, forward or reverse"),
            ranged("synchronised_clocks", self.synchronised_clocks, 0, 1, "true or false"),
            ranged(
                "delay_select",
                (one_way && self.synchronised_clocks == 0) as u32,
                0,
                0,
                "full or fabric unless synchronised_clocks is true: one-way delays compare the clocks of both ends",
            ),
            ranged("fixed_window", self.fixed_window.0, least, most, "min_fcwnd to max_fcwnd"),
        ])
    }

    const fn nic_ranges(&self) -> Result<(), OutOfRange> {
        first_of(&[
            ranged("min_ncwnd", self.min_ncwnd, 1, MAX_NCWND, "1 to 2047 packets"),
            ranged("max_ncwnd", self.max_ncwnd, self.min_ncwnd, MAX_NCWND, "min_ncwnd to 2047 packets"),
            ranged("nic_additive_increment", self.nic_additive_increment, 1, MAX_NCWND, "1 to 2047 packets"),
            fraction("nic_multiplicative_decrease_factor", self.nic_multiplicative_decrease_factor),
            fraction("max_nic_multiplicative_decrease_factor", self.max_nic_multiplicative_decrease_factor),
            ranged("target_rx_buffer_level", self.target_rx_buffer_level, 0, 31, "level 0 to 31"),
        ])
    }

    const fn common_ranges(&self) -> Result<(), OutOfRange> {
        const DURATION: &str = "0 to 16777215 ticks (2.199 s)";
        const MULTIPLE: u32 = 256 << Fraction::BITS;
        let least = self.min_flow_scaling_window.0;
        let twice = least.saturating_mul(2);
        first_of(&[
            ranged(
                "plb_target_delay_multiplier",
                self.plb_target_delay_multiplier.0,
                0,
                16 << Fraction::BITS,
                "0 to 16",
            ),
            fraction("plb_congestion_threshold", self.plb_congestion_threshold),
            ranged("plb_attempt_threshold", self.plb_attempt_threshold, 1, 15, "1 to 15 rounds"),
            ranged(
                "plb_timeout_threshold",
                self.plb_timeout_threshold,
                0,
                7,
                "1 to 7 timeouts, or 0 for never",
            ),
            ranged("plb_quick_round", self.plb_quick_round, 0, 1023, "1 to 1023 packets, or 0 for never"),
            ranged(
                "plb_quick_multiplier",
                self.plb_quick_multiplier.0,
                Fraction::ONE.0,
                16 << Fraction::BITS,
                "1 to 16",
            ),
            fraction("rtt_smoothing_alpha", self.rtt_smoothing_alpha),
            fraction("delay_smoothing_alpha", self.delay_smoothing_alpha),
            ranged("topology_scaling_per_hop", self.topology_scaling_per_hop.0, 0, NicTime::MASK, DURATION),
            ranged(
                "retransmit_timeout_scalar",
                self.retransmit_timeout_scalar.0,
                Fraction::ONE.0,
                MULTIPLE,
                "1 to 256",
            ),
            ranged("retransmit_limit", self.retransmit_limit, 1, 7, "1 to 7 retransmissions"),
            ranged("min_rto", self.min_rto.0, 1, NicTime::MASK, "1 to 16777215 ticks (2.199 s)"),
            ranged("min_flow_scaling_window", least, 1, Fcwnd::MAX.0 / 2, "1/1024 to 1023.999 packets"),
            ranged(
                "max_flow_scaling_window",
                self.max_flow_scaling_window.0,
                twice,
                Fcwnd::MAX.0,
                "twice min_flow_scaling_window to 2047.999 packets",
            ),
            ranged("max_flow_scaling", self.max_flow_scaling.0, 0, NicTime::MASK, DURATION),
            ranged("max_decrease_on_eack_drop", self.max_decrease_on_eack_drop, 0, 1, "true or false"),
            ranged("adaptive_target", self.adaptive_target, 0, 1, "true or false"),
            ranged("adaptive_timeout", self.adaptive_timeout, 0, 1, "true or false"),
        ])
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Checked parameters and the constants derived from them, made by [`Parameters::prepare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Prepared {
    parameters: Parameters,
    flow_scaling: FlowScaling,
}

impl Prepared {
    /// The defaults (D-78).
    pub const DEFAULT: Self = match Parameters::DEFAULT.prepare() {
        Ok(prepared) => prepared,
        Err(_) => panic!("a default is out of its range"),
    };

    /// Returns the parameters that were set.
    #[inline(always)]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the constants of flow scaling.
    #[inline(always)]
    pub const fn flow_scaling(&self) -> &FlowScaling {
        &self.flow_scaling
    }
}

impl Default for Prepared {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const _: () =
    assert!(size_of::<Parameters>().is_multiple_of(8), "no padding before the constants of flow scaling");
