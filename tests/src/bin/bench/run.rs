//! The result of one measurement, and the loop for measurements with one operation at a time.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::figures::Measure;
use crate::series::{self, Latencies};

/// The time after which an operation counts as lost. Normally operations take microseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    /// Number of operations that completed within `elapsed`.
    pub(crate) timed: u64,
    /// Total number of operations that completed. Those in progress at the end are awaited, but not timed.
    pub(crate) operations: u64,
    /// User data of an operation.
    pub(crate) bytes: u32,
    pub(crate) elapsed: Duration,
    /// Median latency, nanoseconds, if latencies were taken.
    pub(crate) median: Option<u64>,
}

impl Ran {
    /// Runs one operation after the other for a given time.
    pub(crate) fn one_at_a_time(
        duration: Duration,
        latencies: &mut Latencies,
        mut operation: impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        let mut own = series::latencies();
        let begin = Instant::now();
        let mut start = begin;
        while start - begin < duration {
            operation()?;
            let end = Instant::now();
            series::record(&mut own, end - start)?;
            // Time between two measured operations does not count.
            start = Instant::now();
        }
        latencies.add(&own)?;
        let operations = own.len();
        let median = Some(own.value_at_quantile(0.5));
        Ok(Self { timed: operations, operations, bytes: 0, elapsed: start - begin, median })
    }

    /// Returns the figure, in the unit of the measure.
    pub(crate) fn value(&self, measure: Measure) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        match measure {
            Measure::Rate => self.timed as f64 / seconds / 1e6,
            Measure::Throughput => self.timed as f64 * f64::from(self.bytes) * 8.0 / seconds / 1e9,
            Measure::Latency => self.median.unwrap_or_default() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_unit_of_the_measure() {
        let (elapsed, median) = (Duration::from_millis(500), Some(2500));
        let ran = Ran { timed: 1000, operations: 1100, bytes: 1 << 20, elapsed, median };
        assert_eq!(ran.value(Measure::Rate), 0.002);
        assert!((ran.value(Measure::Throughput) - 16.777).abs() < 0.001);
        assert_eq!(ran.value(Measure::Latency), 2.5);
    }

    #[test]
    fn each_operation_is_recorded_once() {
        let (mut latencies, mut done) = (series::latencies(), 0);
        let count = || {
            done += 1;
            Ok(())
        };
        let ran =
            Ran::one_at_a_time(Duration::from_millis(5), &mut latencies, count).expect("no operation fails");
        assert!(done > 0 && ran.operations == done && latencies.len() == done);
    }
}
