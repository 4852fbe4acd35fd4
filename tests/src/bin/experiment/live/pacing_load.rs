//! The loads of the experiment with pacing, and what is measured under each.

use std::time::Duration;

use lab_report::Case;

use super::nodes::{CHUNK, PARALLEL};
use crate::schedule::{Departure, GAP_UNIT, Timing};
use crate::setup::{OVERHEAD, SEGMENT};

/// The largest number of connections of a node: its slots.
pub(super) const CONNECTIONS: u32 = 256;
/// The slowest rate that pacing must support, bits per second (F-10.6.2.1-7).
const SLOWEST: f64 = 800e3;
/// Gaps of a single connection, in units of 512 ns; the gap of the slowest rate is added.
const GAPS: [u32; 8] = [1, 16, 32, 64, 128, 256, 1024, 8192];
/// Gaps that differ by one unit each.
pub(super) const STEPS: [u32; 4] = [257, 258, 259, 260];
/// Numbers of parallel connections, and the gaps at which a CPU has time for all their packets.
const SEVERAL: [(usize, &[u32]); 2] = [(16, &[1024, 8192]), (CONNECTIONS as usize, &[16_384])];
/// The length of a case in gaps,
const GAPS_A_CASE: u32 = 300;
/// and its shortest and longest time.
const SHORTEST: Duration = Duration::from_secs(4);
const LONGEST: Duration = Duration::from_secs(10);
/// The outstanding work of a writer must last longer than the pauses of its thread.
const AHEAD: Duration = Duration::from_millis(50);

/// Gap and number of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Units of 512 ns.
    pub(super) gap: u32,
    pub(super) connections: usize,
}

impl Load {
    pub(super) fn all() -> Vec<Self> {
        let alone = |gap| Self { gap, connections: 1 };
        let single = GAPS.into_iter().chain(STEPS).chain([slowest()]).map(alone);
        let several = SEVERAL.into_iter().flat_map(|(connections, gaps)| {
            let gaps = gaps.iter().copied().chain([slowest()]);
            gaps.map(move |gap| Self { gap, connections })
        });
        single.chain(several).collect()
    }

    /// Returns the gap in nanoseconds.
    pub(super) fn wanted(self) -> f64 {
        f64::from(self.gap) * GAP_UNIT
    }

    pub(super) fn wanted_time(self) -> Duration {
        Duration::from_nanos(self.wanted() as u64)
    }

    pub(super) fn duration(self) -> Duration {
        (self.wanted_time() * GAPS_A_CASE).clamp(SHORTEST, LONGEST)
    }

    /// Returns the bytes of a WRITE. Several of them keep a connection busy for some time.
    pub(super) fn chunk(self) -> u64 {
        let packets = AHEAD.as_nanos() / self.wanted_time().as_nanos().max(1) / PARALLEL as u128;
        (packets as u64 * SEGMENT).clamp(SEGMENT, CHUNK)
    }

    /// Returns the gap as text for a legend.
    pub(super) fn rounded(self) -> String {
        match self.wanted() / 1e3 {
            gap if gap < 1e3 => format!("{gap:.0} us"),
            gap => format!("{:.1} ms", gap / 1e3),
        }
    }

    pub(super) fn name(self) -> String {
        let gap = self.wanted() / 1e3;
        match self.connections {
            1 => format!("{gap} us"),
            several => format!("{gap} us, {several} connections"),
        }
    }
}

/// Returns the gap of full packets at the slowest rate.
fn slowest() -> u32 {
    ((SEGMENT + OVERHEAD) as f64 * 8e9 / SLOWEST / GAP_UNIT).round() as u32
}

/// The measurements under a load.
pub(super) struct Measured {
    pub(super) load: Load,
    /// The packets of each connection.
    pub(super) departures: Vec<Vec<Departure>>,
    /// Packets that the sender counted but the socket did not see, or the reverse.
    pub(super) unseen: f64,
    /// Packets that had to wait for their departure, percent.
    pub(super) waited: f64,
    /// Round trip time of the last acknowledgement, microseconds.
    pub(super) rtt: f64,
}

impl Measured {
    pub(super) fn timing(&self) -> Timing {
        let mut timing = Timing::default();
        self.departures.iter().for_each(|departures| timing.add(departures));
        timing
    }

    pub(super) fn case(&self, timing: &Timing) -> Case {
        timing.case(self.load.name()).with("had to wait", self.waited, "%").with("RTT", self.rtt, "us").with(
            "not seen",
            self.unseen,
            "packets",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_reach_from_the_resolution_to_800_kbps() {
        let loads = Load::all();
        assert!(loads.iter().any(|load| load.gap == 1) && loads.iter().all(|load| load.gap < 1 << 20));
        let slowest = Load { gap: slowest(), connections: 256 };
        assert!((slowest.wanted() - 33.78e6).abs() < GAP_UNIT, "{}", slowest.wanted());
        assert_eq!((slowest.chunk(), slowest.duration()), (SEGMENT, LONGEST));
        let fast = Load { gap: 64, connections: 1 };
        assert_eq!((fast.chunk(), fast.duration()), (CHUNK, SHORTEST));
        assert_eq!(
            (fast.name(), slowest.name()),
            ("32.768 us".to_owned(), "33780.224 us, 256 connections".to_owned())
        );
    }
}
