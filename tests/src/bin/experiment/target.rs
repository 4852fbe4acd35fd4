//! The delay that Swift steers for, in floating point and from the text: what the engine is measured by.

/// Parameters of the target delay (F-10.3.4-2), microseconds and packets; the defaults are D-78's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) base: f64,
    pub(crate) per_hop: f64,
    pub(crate) max_flow_scaling: f64,
    pub(crate) min_flow_scaling_window: f64,
    pub(crate) max_flow_scaling_window: f64,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            base: 25.0,
            per_hop: 1.0,
            max_flow_scaling: 100.0,
            min_flow_scaling_window: 0.1,
            max_flow_scaling_window: 256.0,
        }
    }
}

impl Target {
    /// The target delay in microseconds of a flow with this window over so many switches (F-10.3.4-1, D-62).
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
        let target = Target::default();
        let near = |window, hops, expected: f64| (target.delay(window, hops) - expected).abs() < 1e-9;
        // F-10.3.4-1: the whole adder at the smallest window and below, none at the largest and beyond.
        assert!(near(0.1, 0, 125.0) && near(0.01, 0, 125.0));
        assert!(near(256.0, 3, 28.0) && near(1000.0, 0, 25.0));
        let alpha = 100.0 / (0.1f64.sqrt().recip() - 1.0 / 16.0);
        assert!(near(1.0, 0, 25.0 + alpha - alpha / 16.0));
    }
}
