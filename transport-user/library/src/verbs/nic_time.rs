//! NIC time: the delays of a connection, and the histograms of a node (10.1).

use serde::{Deserialize, Serialize};
use transport_common::congestion::histogram::{BUCKETS, DELAYS, DelayHistogram, lowest_of};
use transport_common::connection::DelayRecord;
use transport_common::units::Ticks;

/// Why there is no forward and no reverse delay (F-10.1-4).
const NOT_SYNCHRONISED: &str = "one-way delays compare the clocks of both ends: set synchronised_clocks = true if both show the same time";

/// One of the four delays of a connection, nanoseconds. All values are 0 before the first acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayInfo {
    /// Delay of the last acknowledgement.
    pub last_ns: u64,
    /// Smoothed delay. A new delay has a weight of 1/8.
    pub smoothed_ns: u64,
    /// Smallest delay of the last one to two seconds.
    pub minimum_ns: u64,
}

impl From<&DelayRecord> for DelayInfo {
    fn from(record: &DelayRecord) -> Self {
        Self {
            last_ns: record.last.as_nanos(),
            smoothed_ns: record.smoothed.as_nanos(),
            minimum_ns: record.windowed_minimum().as_nanos(),
        }
    }
}

/// The four delays of a connection (F-10.1-3, F-10.1-4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelaysInfo {
    /// T4 - T1: the round trip.
    pub full: DelayInfo,
    /// (T4 - T1) - (T3 - T2): without the time for which the peer held the acknowledgement.
    pub fabric: DelayInfo,
    /// T2 - T1. `None` unless the clocks are declared synchronised.
    pub forward: Option<DelayInfo>,
    /// T4 - T3. `None` unless the clocks are declared synchronised.
    pub reverse: Option<DelayInfo>,
    /// Why there are no one-way delays.
    pub one_way_refused: Option<String>,
}

impl DelaysInfo {
    pub(crate) fn new(records: &[DelayRecord; DELAYS], synchronised: bool) -> Self {
        let [full, fabric, forward, reverse] = records.each_ref().map(DelayInfo::from);
        Self {
            full,
            fabric,
            forward: synchronised.then_some(forward),
            reverse: synchronised.then_some(reverse),
            one_way_refused: (!synchronised).then(|| NOT_SYNCHRONISED.to_owned()),
        }
    }
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Smallest delay of the bucket, nanoseconds.
    pub from_ns: u64,
    /// Number of acknowledgements.
    pub count: u64,
}

/// One of the four delays over all acknowledgements of a node. A percentile is the upper end of its bucket. It is
/// too large by at most an eighth, or one tick of 131 ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayStats {
    /// Number of acknowledgements.
    pub count: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile, nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// Largest delay, nanoseconds.
    pub max_ns: u64,
    /// The buckets that are not empty.
    pub buckets: Vec<Bucket>,
}

impl DelayStats {
    fn new(counts: &[u64; BUCKETS]) -> Self {
        let count: u64 = counts.iter().sum();
        let percentile = |percent: u64| {
            let rank = (count * percent).div_ceil(100);
            let mut seen = 0;
            let bucket = counts.iter().position(|in_bucket| {
                seen += in_bucket;
                *in_bucket != 0 && seen >= rank
            });
            bucket.map_or(0, |bucket| Ticks(lowest_of(bucket + 1).0 - 1).as_nanos())
        };
        let filled = counts.iter().enumerate().filter(|(_, count)| **count != 0);
        let bucket = |(n, count): (usize, &u64)| Bucket { from_ns: lowest_of(n).as_nanos(), count: *count };
        Self {
            count,
            p50_ns: percentile(50),
            p90_ns: percentile(90),
            p99_ns: percentile(99),
            max_ns: percentile(100),
            buckets: filled.map(bucket).collect(),
        }
    }
}

/// The four delays over all acknowledgements of a node, including those of closed connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayHistograms {
    /// T4 - T1.
    pub full: DelayStats,
    /// (T4 - T1) - (T3 - T2).
    pub fabric: DelayStats,
    /// T2 - T1. `None` unless the clocks of every connection are declared synchronised.
    pub forward: Option<DelayStats>,
    /// T4 - T3. `None` unless the clocks of every connection are declared synchronised.
    pub reverse: Option<DelayStats>,
    /// Why there are no one-way delays.
    pub one_way_refused: Option<String>,
}

impl DelayHistograms {
    /// Makes the histograms from the counts of all CPUs.
    pub fn new<'a>(cpus: impl Iterator<Item = &'a DelayHistogram>, synchronised: bool) -> Self {
        let mut sums = Box::new([[0u64; BUCKETS]; DELAYS]);
        for cpu in cpus {
            for (sum, count) in sums.as_flattened_mut().iter_mut().zip(cpu.as_flattened()) {
                *sum += count;
            }
        }
        let [full, fabric, forward, reverse] = sums.each_ref().map(DelayStats::new);
        Self {
            full,
            fabric,
            forward: synchronised.then_some(forward),
            reverse: synchronised.then_some(reverse),
            one_way_refused: (!synchronised).then(|| NOT_SYNCHRONISED.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use transport_common::congestion::histogram::bucket_of;

    #[test]
    fn one_way_delays_need_synchronised_clocks() {
        // F-10.1-4
        let record = DelayRecord { last: Ticks(1000), ..DelayRecord::default() };
        let refused = DelaysInfo::new(&[record; 4], false);
        assert_eq!((refused.forward, refused.reverse), (None, None));
        assert!(refused.one_way_refused.is_some_and(|reason| reason.contains("synchronised_clocks")));
        let shown = DelaysInfo::new(&[record; 4], true);
        assert_eq!((shown.forward.map(|delay| delay.last_ns), shown.one_way_refused), (Some(131_072), None));
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let empty = DelayHistograms::new([].into_iter(), true);
        assert_eq!((empty.full.count, empty.full.p50_ns, empty.full.max_ns), (0, 0, 0));
        assert_eq!(empty.reverse.map(|reverse| reverse.buckets), Some(vec![]));
    }

    proptest! {
        /// Compared with sorted samples: a percentile is never below the exact one, and above it by at most an
        /// eighth and a tick.
        #[test]
        fn percentiles_are_those_of_the_samples(
            mut samples in prop::collection::vec(0u32..0x00ff_ffff, 1..300), percent in 1u64..=100,
        ) {
            let mut counts = [0; BUCKETS];
            for sample in &samples {
                counts[bucket_of(Ticks(*sample))] += 1;
            }
            let stats = DelayStats::new(&counts);
            samples.sort_unstable();
            let shown = match percent {
                1..=50 => (50, stats.p50_ns),
                51..=90 => (90, stats.p90_ns),
                91..=99 => (99, stats.p99_ns),
                _ => (100, stats.max_ns),
            };
            let rank = (samples.len() as u64 * shown.0).div_ceil(100) as usize;
            let exact = Ticks(samples[rank - 1]).as_nanos();
            prop_assert!(shown.1 >= exact && shown.1 <= exact + exact / 8 + 131, "{} for {exact}", shown.1);
            prop_assert_eq!(stats.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), samples.len() as u64);
        }
    }
}
