//! Clocks, histograms and progress bars.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// CPUs this program may use.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Latencies of one kind of operation.
#[derive(Debug)]
pub(crate) struct Latencies {
    nanoseconds: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        // Three significant digits.
        Self { nanoseconds: Histogram::new(3).expect("three digits are possible") }
    }

    /// Records an operation that began at `start` and ended now.
    pub(crate) fn since(&mut self, start: Instant) {
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.note(nanoseconds);
    }

    fn note(&mut self, nanoseconds: u64) {
        self.nanoseconds.record(nanoseconds).expect("the histogram grows as needed");
    }

    pub(crate) fn summary(&self) -> Latency {
        let microseconds = |quantile| self.nanoseconds.value_at_quantile(quantile) as f64 / 1000.0;
        Latency {
            samples: self.nanoseconds.len(),
            p50_us: microseconds(0.5),
            p99_us: microseconds(0.99),
            p999_us: microseconds(0.999),
        }
    }
}

/// Quantiles of a latency, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Latency {
    /// Operations measured.
    pub(crate) samples: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

/// A progress bar. It appears only on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For work counted in bytes.
    pub(crate) fn bytes(name: &'static str, total: u64) -> Self {
        Self::new(
            name,
            total,
            "{msg:<9} {wide_bar} {bytes:>10}/{total_bytes:<10} {bytes_per_sec:>14} {eta:>4}",
        )
    }

    /// For work counted in operations.
    pub(crate) fn operations(name: &'static str, total: u64) -> Self {
        Self::new(name, total, "{msg:<9} {wide_bar} {human_pos:>10}/{human_len:<10} {eta:>4}")
    }

    fn new(name: &'static str, total: u64, template: &str) -> Self {
        // indicatif draws on the standard error stream, and only if that is a terminal.
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        let bar = ProgressBar::new(total).with_style(style).with_message(name);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    pub(crate) fn add(&self, n: u64) {
        self.bar.inc(n);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_microseconds() {
        let mut latencies = Latencies::new();
        for n in 1..=1000u64 {
            latencies.note(n * 1000);
        }
        let Latency { samples, p50_us, p99_us, p999_us } = latencies.summary();
        assert_eq!(samples, 1000);
        // To three digits.
        for (found, exact) in [(p50_us, 500.0), (p99_us, 990.0), (p999_us, 999.0)] {
            assert!((found - exact).abs() <= exact / 500.0, "{found} instead of {exact}");
        }
    }
}
