//! Distances between two runs.

use fabric_model::{Span, Time};

/// Returns the largest distance between the distribution functions of two samples. Returns 1 if one of them is
/// empty.
#[must_use]
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let (a, b) = (sorted(a), sorted(b));
    let below = |values: &[f64], value: f64| {
        values.partition_point(|other| *other <= value) as f64 / values.len() as f64
    };
    a.iter().chain(&b).map(|value| (below(&a, *value) - below(&b, *value)).abs()).fold(0.0, f64::max)
}

/// Returns the mean of a step function in each of the bins that fit between zero and `end`. The function keeps its
/// value from each point to the next. Before the first point its value is `first`.
#[must_use]
pub fn binned_mean(points: &[(Time, f64)], first: f64, bin: Span, end: Time) -> Vec<f64> {
    let mut bins = vec![];
    let mut value = first;
    let mut points = points.iter().peekable();
    for number in 0..end.0 / bin.0 {
        let (mut at, stop) = (number * bin.0, (number + 1) * bin.0);
        let mut area = 0.0;
        while let Some((time, next)) = points.next_if(|(time, _)| time.0 < stop) {
            area += value * time.0.saturating_sub(at) as f64;
            at = at.max(time.0);
            value = *next;
        }
        bins.push((area + value * (stop - at) as f64) / bin.0 as f64);
    }
    bins
}

/// Returns the root mean square of the differences, over the length of the shorter slice. Returns `None` if a
/// slice is empty.
#[must_use]
pub fn root_mean_square(a: &[f64], b: &[f64]) -> Option<f64> {
    lab_report::mean(a.iter().zip(b).map(|(a, b)| (a - b).powi(2))).map(f64::sqrt)
}
