//! The target delay of Swift, in floating point and from the text of the specification. The engine is compared
//! with it.

use transport_common::congestion::parameters::Parameters;
use transport_common::units::{Fcwnd, Ticks};

/// Parameters of the target delay (F-10.3.4-2), microseconds and packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    base: f64,
    per_hop: f64,
    max_flow_scaling: f64,
    min_flow_scaling_window: f64,
    max_flow_scaling_window: f64,
}

impl Target {
    /// Creates the target delay for these parameters.
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let micros = |ticks: Ticks| f64::from(ticks.0) * 0.131_072;
        let packets = |window: Fcwnd| f64::from(window.0) / f64::from(1u32 << Fcwnd::FRACTION_BITS);
        Self {
            base: micros(parameters.base_delay_target),
            per_hop: micros(parameters.topology_scaling_per_hop),
            max_flow_scaling: micros(parameters.max_flow_scaling),
            min_flow_scaling_window: packets(parameters.min_flow_scaling_window),
            max_flow_scaling_window: packets(parameters.max_flow_scaling_window),
        }
    }

    /// Returns the target delay in microseconds of a flow with this window over this number of switches
    /// (F-10.3.4-1, D-62).
    pub(crate) fn delay(&self, fcwnd: f64, hops: u32) -> f64 {
        let inverse_root = |window: f64| 1.0 / window.sqrt();
        let [least, most] = [self.min_flow_scaling_window, self.max_flow_scaling_window].map(inverse_root);
        let alpha = self.max_flow_scaling / (least - most);
        let adder = alpha * (inverse_root(fcwnd) - most);
        self.base + adder.clamp(0.0, self.max_flow_scaling) + self.per_hop * f64::from(hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_grows_as_the_window_shrinks() {
        let target = Target {
            base: 25.0,
            per_hop: 1.0,
            max_flow_scaling: 100.0,
            min_flow_scaling_window: 0.1,
            max_flow_scaling_window: 256.0,
        };
        let near = |window, hops, expected: f64| (target.delay(window, hops) - expected).abs() < 1e-9;
        // F-10.3.4-1: the whole increase at the smallest window and below, and none at the largest and above.
        assert!(near(0.1, 0, 125.0) && near(0.01, 0, 125.0));
        assert!(near(256.0, 3, 28.0) && near(1000.0, 0, 25.0));
        let alpha = 100.0 / (0.1f64.sqrt().recip() - 1.0 / 16.0);
        assert!(near(1.0, 0, 25.0 + alpha - alpha / 16.0));
        // D-78, in ticks of 131.072 ns.
        let ticks = Target::new(&Parameters::DEFAULT).delay(1.0, 2);
        assert!((ticks - target.delay(1.0, 2)).abs() < 0.2, "{ticks}");
    }
}
