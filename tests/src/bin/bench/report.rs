//! The report as it is written in JSON. Names do not change; new ones may be added.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ack::AckHandling;
use crate::cost::Cost;
use crate::figures::{Baseline, FIGURES, Measure, RAW};
use crate::machine::Machine;
use crate::series::Series;
use crate::storm::StormFigure;

/// The whole report.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Raised when a name is removed or its meaning changes.
    pub(crate) version: u32,
    pub(crate) machine: Machine,
    pub(crate) setting: Setting,
    /// The raw limit, by the name of the figure.
    pub(crate) raw: BTreeMap<&'static str, Value>,
    /// The kernel's TCP on the same cable, by the name of the figure.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tcp: BTreeMap<&'static str, Beside>,
    /// UCX over TCP on the same cable, by the name of the figure; empty if it is not installed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ucx: BTreeMap<&'static str, Beside>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ucx_version: Option<String>,
    /// Tiercel with UDP checksums (D-91).
    pub(crate) checksum: BTreeMap<&'static str, Compared>,
    /// Tiercel without checksums.
    pub(crate) no_checksum: BTreeMap<&'static str, Compared>,
    /// The time that congestion control adds to an ACK; none if only single figures are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) acknowledgement: Option<AckHandling>,
    /// What one connection keeps of its rate under a storm on another; empty if only single figures are measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) storms: Vec<StormFigure>,
}

/// The settings of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) rounds: u32,
    /// Length of each measurement.
    pub(crate) milliseconds: u64,
    /// Number of frames that an engine gets at a time; none if adapted to the load.
    pub(crate) batch: Option<u32>,
    pub(crate) mtu: u32,
    pub(crate) application_cpu: usize,
    pub(crate) engine_cpu: usize,
}

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct Value {
    #[serde(skip)]
    pub(crate) title: &'static str,
    #[serde(skip)]
    pub(crate) measure: Measure,
    pub(crate) unit: &'static str,
    /// Median over the rounds; for a latency, the median of the rounds' p50.
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Quantiles of a latency over all operations of all rounds, microseconds; none if only medians were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quantiles: Option<Quantiles>,
    /// Cost at the sender and at the peer, measured separately; none for latencies, because then the engine idles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<BothCosts>,
}

/// Quantiles of a latency.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) samples: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

/// Cost of an operation at both ends.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct BothCosts {
    pub(crate) sender: Cost,
    pub(crate) peer: Cost,
}

/// One figure of Tiercel with its limit and its target.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    #[serde(flatten)]
    pub(crate) value: Value,
    /// Name of the raw figure with which it is compared.
    pub(crate) raw: &'static str,
    /// Figure divided by raw figure, median over the rounds' ratios.
    pub(crate) ratio_to_raw: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meets_target: Option<bool>,
    /// Target of the p99 over all operations of all rounds, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_target: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meets_p99_target: Option<bool>,
}

/// One figure of a baseline with the one of Tiercel that does the same for an application.
#[derive(Debug, Serialize)]
pub(crate) struct Beside {
    #[serde(flatten)]
    pub(crate) value: Value,
    /// Name of the figure of Tiercel, with checksums.
    pub(crate) instead_of: &'static str,
    /// How many times better Tiercel is: more of a rate, less of a latency; median over the rounds' ratios.
    pub(crate) tiercel_is_better: f64,
}

/// The measurements of one subject, in the order of its figures.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) series: Vec<Series>,
    pub(crate) costs: Vec<Option<BothCosts>>,
}

impl Measured {
    pub(crate) fn new(figures: usize) -> Self {
        Self { series: (0..figures).map(|_| Series::new()).collect(), costs: vec![None; figures] }
    }

    fn value(&self, n: usize, title: &'static str, measure: Measure) -> Value {
        let series = &self.series[n];
        let microseconds = |quantile| series.latencies.value_at_quantile(quantile) as f64 / 1e3;
        let quantiles = || Quantiles {
            samples: series.latencies.len(),
            p50_us: microseconds(0.5),
            p99_us: microseconds(0.99),
            p999_us: microseconds(0.999),
        };
        Value {
            title,
            measure,
            unit: measure.unit(),
            median: series.median(),
            min: series.least(),
            max: series.greatest(),
            quantiles: (!series.latencies.is_empty()).then(quantiles),
            cost: self.costs[n],
        }
    }

    /// Returns the measured figures of the raw limit.
    pub(crate) fn raw(&self) -> BTreeMap<&'static str, Value> {
        let measured = RAW.iter().enumerate().filter(|(n, _)| self.has(*n));
        measured.map(|(n, raw)| (raw.name, self.value(n, raw.title, raw.measure))).collect()
    }

    /// Returns the measured figures of a baseline, compared with Tiercel's of the same rounds.
    pub(crate) fn beside(&self, baseline: &[Baseline], tiercel: &Self) -> BTreeMap<&'static str, Beside> {
        let compare = |(n, figure): (usize, &Baseline)| {
            let beside = FIGURES.iter().position(|other| other.name == figure.instead_of);
            let (own, other) = (&self.series[n], &tiercel.series[beside.expect("a figure of Tiercel")]);
            let tiercel_is_better = match figure.measure {
                Measure::Latency => own.ratio_to(other),
                Measure::Rate | Measure::Throughput => other.ratio_to(own),
            };
            let value = self.value(n, figure.title, figure.measure);
            (figure.name, Beside { value, instead_of: figure.instead_of, tiercel_is_better })
        };
        baseline.iter().enumerate().filter(|(n, _)| self.has(*n)).map(compare).collect()
    }

    fn has(&self, n: usize) -> bool {
        !self.series[n].values.is_empty()
    }

    /// Returns the figures of Tiercel, compared with the raw limit of the same rounds.
    pub(crate) fn compared_with(&self, limits: &Self) -> BTreeMap<&'static str, Compared> {
        let compare = |(n, figure): (usize, &crate::figures::Figure)| {
            let value = self.value(n, figure.title, figure.measure);
            let p99 = value.quantiles.map(|quantiles| quantiles.p99_us);
            let meets_p99_target =
                figure.p99_target.zip(p99).map(|(target, p99)| figure.measure.meets(p99, target));
            let meets_target = figure.target.map(|target| figure.measure.meets(value.median, target));
            let compared = Compared {
                value,
                raw: RAW[figure.limit()].name,
                ratio_to_raw: self.series[n].ratio_to(&limits.series[figure.limit()]),
                target: figure.target,
                meets_target,
                p99_target: figure.p99_target,
                meets_p99_target,
            };
            (figure.name, compared)
        };
        FIGURES.iter().enumerate().filter(|(n, _)| self.has(*n)).map(compare).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::TCP;
    use crate::ucx::UCX;

    fn measured(figures: usize, values: &[f64]) -> Measured {
        let mut measured = Measured::new(figures);
        for series in &mut measured.series {
            series.values = values.to_vec();
            series.latencies.record(2_000).expect("in range");
        }
        measured
    }

    #[test]
    fn figures_stand_beside_their_limit_and_target() {
        let limits = measured(RAW.len(), &[2.0, 4.0]);
        let compared = measured(FIGURES.len(), &[1.0, 2.0]).compared_with(&limits);
        let write = &compared["write_64_rate"];
        assert_eq!((write.raw, write.ratio_to_raw, write.meets_target), ("bounce_64_rate", 0.5, Some(true)));
        assert_eq!(compared["write_1mib_throughput"].meets_target, Some(false));
        assert_eq!(compared["send_64_rate"].meets_target, None);
        let json = serde_json::to_value(&compared["read_64_latency"]).expect("plain data");
        assert_eq!(json["unit"], "us");
        assert_eq!(json["quantiles"]["samples"], 1);
        assert_eq!(json["meets_target"], true);
    }

    #[test]
    fn a_baseline_stands_beside_what_replaces_it() {
        let tiercel = measured(FIGURES.len(), &[2.0, 4.0]);
        let tcp = measured(TCP.len(), &[1.0, 2.0]).beside(&TCP, &tiercel);
        assert_eq!(tcp["tcp_message_64_rate"].tiercel_is_better, 2.0, "twice the rate");
        assert_eq!(tcp["tcp_request_64_latency"].tiercel_is_better, 0.5, "twice the time");
        let json = serde_json::to_value(&tcp["tcp_message_1mib_throughput"]).expect("plain data");
        assert_eq!(json["instead_of"], "write_1mib_throughput");
        let nothing = Measured::new(TCP.len()).beside(&TCP, &Measured::new(FIGURES.len()));
        assert!(nothing.is_empty());
        // Only the medians of UCX are known.
        let mut ucx = Measured::new(UCX.len());
        ucx.series.iter_mut().for_each(|series| series.values = vec![4.0, 8.0]);
        let request = &ucx.beside(&UCX, &tiercel)["ucx_request_64_latency"];
        assert_eq!((request.tiercel_is_better, request.value.median), (2.0, 6.0));
        assert!(request.value.quantiles.is_none());
    }

    #[test]
    fn one_slow_operation_in_fifty_misses_the_target_of_the_p99() {
        let limits = measured(RAW.len(), &[2.0]);
        let mut figures = measured(FIGURES.len(), &[2.0]);
        for series in &mut figures.series {
            series.latencies.record_n(2_000, 49).expect("in range");
        }
        let meets = |figures: &Measured| figures.compared_with(&limits)["fetch_add_latency"].meets_p99_target;
        assert_eq!(meets(&figures), Some(true));
        for series in &mut figures.series {
            series.latencies.record(50_000).expect("in range");
        }
        assert_eq!(meets(&figures), Some(false));
        assert_eq!(figures.compared_with(&limits)["write_64_rate"].meets_p99_target, None);
    }
}
