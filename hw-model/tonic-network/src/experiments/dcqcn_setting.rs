//! The settings of the DCQCN experiments, and the comparison of their rates.

use fabric_model::{Rate, Span, Time};
use lab_report::Experiment;
use reference_senders::{Dcqcn, Red};

use crate::scenario::Scenario;

use super::common::tcp;
use super::compare::{binned_mean, root_mean_square};

pub(super) const LINE: u64 = 40_000_000_000;
/// The time over which a rate is averaged.
const BIN: Span = Span::from_millis(1);
/// The time that figures show.
const SHOWN: Span = Span::from_millis(200);
/// The longest delay of answers in runs that must differ only by chance.
pub(super) const NUDGE: Span = Span::from_nanos(1);

pub(super) const SHARE: &str = "% of 20 Gb/s";

/// Returns a rate as means over one millisecond, in Gb/s.
pub(super) fn trace(rates: &[(Time, f64)], end: Time) -> Vec<f64> {
    binned_mean(rates, LINE as f64, BIN, end).into_iter().map(|rate| rate / 1e9).collect()
}

/// Returns the root mean square distance of two such rates, in percent of a flow's share.
pub(super) fn distance(a: &[f64], b: &[f64]) -> Option<f64> {
    root_mean_square(a, b).map(|rms| 100.0 * rms / 20.0)
}

/// Returns the part of such a rate that figures show, over milliseconds.
pub(super) fn line(trace: &[f64]) -> Vec<[f64; 2]> {
    let shown = trace.iter().take((SHOWN.0 / BIN.0) as usize).enumerate();
    shown.map(|(bin, rate)| [bin as f64 * BIN.0 as f64 / 1e9, *rate]).collect()
}

pub(super) fn scenario(flows: u16, seed: u64) -> Scenario {
    Scenario {
        rate: Rate::from_bits_per_second(LINE).expect("not zero"),
        round_trip: Span::from_micros(4),
        red: Some(Red::DCQCN),
        dcqcn: Dcqcn::new(LINE as f64),
        watched: Some(0),
        ..tcp(2, flows, seed)
    }
}

pub(super) fn settings(experiment: &mut Experiment) {
    let Red { min, max, probability } = Red::DCQCN;
    experiment.congestion_control = Some("DCQCN".to_owned());
    experiment.settings.insert("marking", format!("{min}B to {max}B, {}%", probability * 100.0));
    experiment.settings.insert("notifications", "one a flow in 50us".to_owned());
    experiment.settings.insert("timers K, T", "55us".to_owned());
    experiment.settings.insert("B, F, g", "10MB, 5, 1/256".to_owned());
    experiment.settings.insert("R_AI, R_HAI", "40Mbps, 400Mbps".to_owned());
}
