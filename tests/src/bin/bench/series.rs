//! The values of a figure over the rounds.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

/// Latencies in nanoseconds.
pub(crate) type Latencies = Histogram<u64>;

/// Returns an empty histogram with three significant digits. It grows as needed.
pub(crate) fn latencies() -> Latencies {
    Histogram::new(3).expect("three digits are possible")
}

/// Records one latency.
pub(crate) fn record(latencies: &mut Latencies, latency: Duration) -> Result<()> {
    // Not `saturating_record`, which is limited to the current range of the histogram.
    Ok(latencies.record(u64::try_from(latency.as_nanos())?)?)
}

/// One figure, with one value per round.
#[derive(Debug)]
pub(crate) struct Series {
    /// Values in the unit of the figure.
    pub(crate) values: Vec<f64>,
    /// All latencies of all rounds; empty for rates.
    pub(crate) latencies: Latencies,
}

impl Series {
    pub(crate) fn new() -> Self {
        Self { values: vec![], latencies: latencies() }
    }

    /// Returns the median of the rounds' ratios of the figure to `other`. If the machine is slow for a while,
    /// both are slow, so the ratio does not change.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        median(self.values.iter().zip(&other.values).map(|(mine, theirs)| mine / theirs).collect())
    }

    pub(crate) fn median(&self) -> f64 {
        median(self.values.clone())
    }

    pub(crate) fn least(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn greatest(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Returns the median, or the mean of the middle two of an even number. Needs at least one value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Series {
        Series { values: values.to_vec(), ..Series::new() }
    }

    #[test]
    fn latencies_of_any_length_are_recorded() {
        let mut latencies = latencies();
        for latency in [Duration::from_nanos(800), Duration::from_micros(30), Duration::from_secs(1)] {
            record(&mut latencies, latency).expect("the histogram grows as needed");
        }
        let median = latencies.value_at_quantile(0.5);
        assert!((29_900..30_100).contains(&median) && latencies.max() > 990_000_000, "{median}");
    }

    #[test]
    fn the_median_is_untouched_by_one_bad_round() {
        assert_eq!(series(&[3.0, 100.0, 2.0]).median(), 3.0);
        assert_eq!(series(&[1.0, 2.0, 4.0, 3.0]).median(), 2.5);
    }

    #[test]
    fn a_machine_that_drifts_leaves_the_ratio_alone() {
        assert_eq!(series(&[1.0, 2.0, 4.0]).ratio_to(&series(&[2.0, 4.0, 8.0])), 0.5);
    }
}
