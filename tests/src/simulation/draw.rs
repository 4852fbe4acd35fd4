//! Random numbers of some kinds, and random settings of congestion control.

use rand::Rng;
use rand::rngs::StdRng;
use transport_common::congestion::algorithm::AlgorithmId;
use transport_common::congestion::parameters::Parameters;
use transport_common::congestion::queues::EVENT_QUEUES;
use transport_common::congestion::settings::{Placement, Settings};
use transport_common::units::{Fcwnd, Ticks};

/// Draws a number that is uniform in the logarithm.
pub(crate) fn scale(rng: &mut StdRng, low: u64, high: u64) -> u64 {
    let exponent = rng.random_range((low as f64).ln()..=(high as f64).ln());
    (exponent.exp().round() as u64).clamp(low, high)
}

pub(super) fn micros(micros: u64) -> Ticks {
    Ticks::from_nanos(micros * 1000)
}

/// Draws placement, algorithm and limits.
pub(super) fn settings(rng: &mut StdRng) -> Settings {
    let least = scale(rng, 10, 4 << 10) as u32;
    let most = least + scale(rng, 1, 256 << 10) as u32;
    let parameters = Parameters {
        min_fcwnd: Fcwnd(least),
        max_fcwnd: Fcwnd(most),
        fixed_window: Fcwnd(rng.random_range(least..=most)),
        base_delay_target: micros(scale(rng, 5, 500)),
        min_rto: micros(scale(rng, 300, 2000)),
        max_decrease_on_eack_drop: rng.random_range(0..2),
        ..Parameters::DEFAULT
    };
    Settings {
        placement: [Placement::Constant, Placement::Kernel, Placement::User][rng.random_range(0..3)] as u32,
        algorithm: rng.random_range(0..AlgorithmId::ALL.len() as u32),
        event_queue: rng.random_range(0..EVENT_QUEUES as u32),
        reserved: 0,
        prepared: parameters.prepare().expect("drawn within the ranges"),
    }
}
