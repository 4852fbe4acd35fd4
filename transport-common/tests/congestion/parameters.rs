//! Parameters: defaults, ranges, the constants of flow scaling (10.5, D-62, D-78).

use transport_common::congestion::fixed_point::Fraction;
use transport_common::congestion::nic_time::DelaySetting;
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::units::{Fcwnd, Ticks};

use crate::input::fcwnd;

/// D-78, with D-79's rounding.
#[test]
fn defaults() {
    let p = Parameters::default();
    assert_eq!((p.min_fcwnd, p.max_fcwnd), (Fcwnd(10), Fcwnd::from_packets(256)));
    assert_eq!((p.min_ncwnd, p.max_ncwnd), (1, 256));
    assert_eq!((p.base_delay_target, p.topology_scaling_per_hop), (Ticks(191), Ticks(8)));
    assert_eq!((p.min_rto, p.max_flow_scaling), (Ticks(7629), Ticks(763)));
    assert_eq!((p.retransmit_limit, p.plb_attempt_threshold, p.target_rx_buffer_level), (3, 5, 15));
    assert_eq!(p.fabric_multiplicative_decrease_factor, Fraction::ratio(4, 5));
    assert_eq!(
        (p.min_flow_scaling_window, p.max_flow_scaling_window),
        (Fcwnd(102), Fcwnd::from_packets(256))
    );
    assert_eq!((p.max_decrease_on_eack_drop, p.delay_select), (0, DelaySetting(1)), "D-68, D-78");
    assert_eq!(p.check(), Ok(()));
    assert_eq!(Prepared::default(), p.prepare().unwrap());
}

/// F-10.5.1-1 to F-10.5.4-1: each parameter has a range. A value outside is refused with the parameter's name.
#[test]
fn each_range_is_checked() {
    type Break = (&'static str, fn(&mut Parameters));
    let breaks: [Break; 39] = [
        ("min_fcwnd", |p| p.min_fcwnd = Fcwnd(0)),
        ("max_fcwnd", |p| p.max_fcwnd = Fcwnd(Fcwnd::MAX.0 + 1)),
        ("max_fcwnd", |p| p.max_fcwnd = Fcwnd(9)),
        ("fabric_additive_increment", |p| p.fabric_additive_increment = Fcwnd(0)),
        ("fabric_multiplicative_decrease_factor", |p| {
            p.fabric_multiplicative_decrease_factor = Fraction(65_537)
        }),
        ("max_fabric_multiplicative_decrease_factor", |p| {
            p.max_fabric_multiplicative_decrease_factor = Fraction(65_537)
        }),
        ("base_delay_target", |p| p.base_delay_target = Ticks(1 << 24)),
        ("delay_select", |p| p.delay_select = DelaySetting(4)),
        ("synchronised_clocks", |p| p.synchronised_clocks = 2),
        ("fixed_window", |p| p.fixed_window = Fcwnd(9)),
        ("min_ncwnd", |p| p.min_ncwnd = 0),
        ("max_ncwnd", |p| p.max_ncwnd = 2048),
        ("max_ncwnd", |p| (p.min_ncwnd, p.max_ncwnd) = (9, 8)),
        ("nic_additive_increment", |p| p.nic_additive_increment = 0),
        ("nic_multiplicative_decrease_factor", |p| p.nic_multiplicative_decrease_factor = Fraction(65_537)),
        ("max_nic_multiplicative_decrease_factor", |p| {
            p.max_nic_multiplicative_decrease_factor = Fraction(65_537)
        }),
        ("target_rx_buffer_level", |p| p.target_rx_buffer_level = 32),
        ("plb_target_delay_multiplier", |p| p.plb_target_delay_multiplier = Fraction((16 << 16) + 1)),
        ("plb_congestion_threshold", |p| p.plb_congestion_threshold = Fraction(65_537)),
        ("plb_attempt_threshold", |p| p.plb_attempt_threshold = 0),
        ("plb_attempt_threshold", |p| p.plb_attempt_threshold = 16),
        ("rtt_smoothing_alpha", |p| p.rtt_smoothing_alpha = Fraction(65_537)),
        ("delay_smoothing_alpha", |p| p.delay_smoothing_alpha = Fraction(65_537)),
        ("topology_scaling_per_hop", |p| p.topology_scaling_per_hop = Ticks(1 << 24)),
        ("retransmit_timeout_scalar", |p| p.retransmit_timeout_scalar = Fraction(65_535)),
        ("retransmit_limit", |p| p.retransmit_limit = 0),
        ("retransmit_limit", |p| p.retransmit_limit = 8),
        ("min_rto", |p| p.min_rto = Ticks(0)),
        ("min_flow_scaling_window", |p| p.min_flow_scaling_window = Fcwnd(0)),
        ("max_flow_scaling_window", |p| p.max_flow_scaling_window = Fcwnd(203)),
        ("max_flow_scaling", |p| p.max_flow_scaling = Ticks(1 << 24)),
        ("max_decrease_on_eack_drop", |p| p.max_decrease_on_eack_drop = 2),
        ("dcqcn.min_rate", |p| p.dcqcn.min_rate = 0),
        ("dcqcn.max_rate", |p| p.dcqcn.max_rate = 1),
        ("dcqcn.gain", |p| p.dcqcn.gain = Fraction(65_537)),
        ("dcqcn.cnp_interval", |p| p.dcqcn.cnp_interval = Ticks(1 << 24)),
        ("dcqcn.increase_packets", |p| p.dcqcn.increase_packets = 0),
        ("dcqcn.fast_recovery_steps", |p| p.dcqcn.fast_recovery_steps = 0),
        ("dcqcn.hyper_increment", |p| p.dcqcn.hyper_increment = (1 << 24) + 1),
    ];
    for (name, spoil) in breaks {
        let mut p = Parameters::default();
        spoil(&mut p);
        let error = p.check().expect_err(name);
        assert_eq!(error.name, name);
        assert_eq!(p.prepare(), Err(error));
        assert!(error.to_string().starts_with(&format!("{name} must be ")), "{error}");
    }
}

/// F-10.1-4: one-way delays are refused with a reason unless the clocks are declared synchronised.
#[test]
fn one_way_delays_need_synchronised_clocks() {
    for delay_select in (0..4).map(DelaySetting) {
        let p = Parameters { delay_select, ..Parameters::DEFAULT };
        assert_eq!(p.check().is_ok(), delay_select.0 < 2);
        let p = Parameters { synchronised_clocks: 1, ..p };
        assert_eq!(p.check(), Ok(()));
    }
    let error = Parameters { delay_select: DelaySetting(2), ..Parameters::DEFAULT }.check().unwrap_err();
    assert!(error.to_string().contains("synchronised_clocks"), "{error}");
}

/// F-10.3.4-1: the adder is max_flow_scaling at min_flow_scaling_window and 0 at max_flow_scaling_window. It is
/// clamped beyond both, and decreases in between.
#[test]
fn flow_scaling_at_its_ends() {
    let flow_scaling = *Prepared::default().flow_scaling();
    assert_eq!(flow_scaling.adder(Fcwnd(102)).round(), Ticks(763));
    assert_eq!(flow_scaling.adder(Fcwnd(1)).round(), Ticks(763));
    assert_eq!(flow_scaling.adder(Fcwnd::from_packets(256)).round(), Ticks(0));
    assert_eq!(flow_scaling.adder(Fcwnd::MAX).round(), Ticks(0));
    let adders: Vec<_> = (102..=256 * 1024).map(|raw| flow_scaling.adder(Fcwnd(raw)).0).collect();
    assert!(adders.windows(2).all(|pair| pair[0] >= pair[1]));
    // alpha = 763 / (1/sqrt(0.1) - 1/16), beta = -alpha/16, with the window of 102/1024 (D-62).
    assert_eq!(flow_scaling.adder(fcwnd(1.0)).round(), Ticks(230));
    assert_eq!(flow_scaling.adder(fcwnd(16.0)).round(), Ticks(46));
}
