//! Compares the departures of paced packets with the schedule of their connection.

use lab_report::{Case, quantile};
use transport_common::units::InterPacketGap;

/// Nanoseconds in the unit of an inter-packet gap, a tick of the timing wheel (F-10.6.2.1-7).
pub(crate) const GAP_UNIT: f64 = InterPacketGap::UNIT.as_nanos() as f64;
/// Nanoseconds in a tick of Falcon's clock. Departures are held until such a tick.
pub(crate) const TICK: f64 = 131.072;

/// A packet that is late by less than this, nanoseconds, counts as one that waited.
const DOUBTFUL: f64 = 10_000.0;
/// The number of following packets that show when a packet was booked.
const FOLLOWING: usize = 32;

/// A packet that left. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    /// When the datapath released it: the time in the packet.
    pub(crate) at: f64,
    /// The gap after the previous packet, as in effect at its departure.
    pub(crate) gap: f64,
    /// When it left the cable, if this was recorded.
    pub(crate) out: Option<f64>,
}

/// Packets that follow one another.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    gaps: u32,
    /// The sum of the gaps wanted, nanoseconds.
    wanted: f64,
    /// The sum of the actual gaps, nanoseconds.
    taken: f64,
}

impl Stretch {
    fn add(&mut self, gap: f64, taken: f64) {
        self.gaps += 1;
        self.wanted += gap;
        self.taken += taken;
    }

    fn join(&mut self, other: Self) {
        self.gaps += other.gaps;
        self.wanted += other.wanted;
        self.taken += other.taken;
    }

    /// Returns the actual time divided by the wanted time, minus 1, percent.
    fn error(self) -> Option<f64> {
        (self.wanted > 0.0).then(|| (self.taken / self.wanted - 1.0) * 100.0)
    }

    /// Nanoseconds.
    fn mean(self) -> Option<f64> {
        (self.gaps > 0).then(|| self.taken / f64::from(self.gaps))
    }
}

/// Comparison of the departures of one or several connections with their schedules. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    /// By how much each packet was late; below 0 for one that was early.
    pub(crate) late: Vec<f64>,
    /// Distance of each packet from the previous one, minus the gap.
    pub(crate) off: Vec<f64>,
    /// By how much each packet left the cable late.
    out: Vec<f64>,
    /// By how much the earliest packet was certainly early.
    early: f64,
    /// Number of packets at which the schedule starts again.
    resumed: u64,
    /// From the first packets to the last.
    whole: Stretch,
    /// The same, without the time before packets at which the schedule starts again.
    in_time: Stretch,
    /// Deviation of the mean gap of each connection, percent.
    rates: Vec<f64>,
}

impl Timing {
    /// Adds the departures of a connection, in their order. The first one did not wait: the schedule begins
    /// with it.
    ///
    /// A packet that waited is booked for its due time although it left later, so that the next one is due a
    /// gap after that (D-63). A packet that is late by a gap or more, and one that did not wait because the
    /// datapath handled it late (its acknowledgement, or the engine's service, was late), is booked for its
    /// departure. The packets do not show which waited. So the lateness is derived from the following packets:
    /// see [`resumes`]. Whether a packet was early uses only what is certain: no packet is booked more than a
    /// gap before it left.
    pub(crate) fn add(&mut self, departures: &[Departure]) {
        let Some(first) = departures.first() else { return };
        let (mut booked, mut certain) = (first.at, first.at);
        let mut whole = Stretch::default();
        for (n, pair) in departures.windows(2).enumerate() {
            let Departure { at, gap, out } = pair[1];
            let due = booked + gap;
            let late = at - due;
            self.late.push(late);
            self.off.push(at - pair[0].at - gap);
            self.out.extend(out.map(|out| out - due));
            self.early = self.early.max(certain + gap - at);
            certain = (certain + gap).max(at - gap).min(at);
            whole.add(gap, at - pair[0].at);
            booked = if let Some(resumed) = resumes(&departures[n + 1..], late) {
                self.resumed += 1;
                resumed.max(due)
            } else {
                self.in_time.add(gap, at - pair[0].at);
                due.min(at)
            };
        }
        self.whole.join(whole);
        self.rates.extend(whole.error());
    }

    /// Returns the number of packets after the first of each connection.
    pub(crate) fn packets(&self) -> usize {
        self.late.len()
    }

    /// Returns the mean gap, nanoseconds.
    pub(crate) fn mean_gap(&self) -> Option<f64> {
        self.whole.mean()
    }

    /// Returns the mean gap without those before packets at which the schedule starts again, nanoseconds.
    pub(crate) fn mean_gap_in_time(&self) -> Option<f64> {
        self.in_time.mean()
    }

    /// Returns the mean gap divided by the wanted gap, minus 1, percent.
    pub(crate) fn rate_error(&self) -> Option<f64> {
        self.whole.error()
    }

    /// Returns by how much the earliest packet was certainly early; 0 if none was.
    pub(crate) fn earliest(&self) -> Option<f64> {
        (!self.late.is_empty()).then_some(self.early)
    }

    /// Returns a quantile of the lateness at the departure, microseconds.
    pub(crate) fn late(&self, part: f64) -> Option<f64> {
        quantile(&self.late, part).map(|nanoseconds| nanoseconds / 1e3)
    }

    /// Returns the share of the packets at which the schedule starts again, percent.
    pub(crate) fn resumed(&self) -> Option<f64> {
        let all = self.packets();
        (all > 0).then(|| self.resumed as f64 * 100.0 / all as f64)
    }

    /// Returns the row of the table.
    pub(crate) fn case(&self, name: String) -> Case {
        let micros = |values: &[f64], part| quantile(values, part).map(|nanoseconds| nanoseconds / 1e3);
        let packets = self.packets() as f64;
        let worst = self.rates.iter().map(|rate| rate.abs()).reduce(f64::max);
        let mut case = Case::new(name)
            .with("packets", packets, "")
            .with("wanted gap", (packets > 0.0).then(|| self.whole.wanted / packets / 1e3), "us")
            .with("mean gap", self.mean_gap().map(|gap| gap / 1e3), "us")
            .with("off the wanted rate", self.rate_error().map(f64::abs), "%")
            .with("worst connection", worst, "%")
            .with("earliest", self.earliest(), "ns")
            .with("late p1", self.late(0.01), "us")
            .with("late p50", self.late(0.5), "us")
            .with("late p99", self.late(0.99), "us")
            .with("latest", self.late(1.0), "us")
            .with("gap off p1", micros(&self.off, 0.01), "us")
            .with("gap off p50", micros(&self.off, 0.5), "us")
            .with("gap off p99", micros(&self.off, 0.99), "us")
            .with("restarts", self.resumed(), "%")
            .with("mean in time", self.mean_gap_in_time().map(|gap| gap / 1e3), "us");
        if !self.out.is_empty() {
            case = case.with("out p50", micros(&self.out, 0.5), "us").with(
                "out p99",
                micros(&self.out, 0.99),
                "us",
            );
        }
        case
    }

    /// Returns the distribution of the lateness, as microseconds and percent, for a logarithmic axis. Packets
    /// in time are at its beginning.
    pub(crate) fn distribution(&self, least: f64) -> Vec<[f64; 2]> {
        let mut late = self.late.clone();
        late.sort_by(f64::total_cmp);
        let all = late.len() as f64;
        (1u32..).zip(late).map(|(n, late)| [(late / 1e3).max(least), f64::from(n) * 100.0 / all]).collect()
    }
}

/// Returns the start of a new schedule if it starts again at the first of these departures, which had this
/// lateness. The start is the time for which that packet must have been booked, according to the packets that
/// follow.
///
/// The schedule starts again if the packet was late by a gap. It also does if the packet was late by more than
/// an engine takes to service it and none of the next packets caught up, because a packet that is booked for
/// its due time does not pass its lateness on.
fn resumes(departures: &[Departure], late: f64) -> Option<f64> {
    let Departure { at, gap, .. } = *departures.first()?;
    if late < DOUBTFUL.min(gap) {
        return None;
    }
    let (mut since, mut booked) = (0.0, at);
    for next in departures.iter().skip(1).take(FOLLOWING) {
        since += next.gap;
        booked = booked.min(next.at - since);
    }
    (late >= gap || booked >= at).then_some(booked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(gap: f64, times: &[f64]) -> Vec<Departure> {
        times.iter().map(|at| Departure { at: *at, gap, out: Some(at + 7.0) }).collect()
    }

    fn timing(gap: f64, times: &[f64]) -> Timing {
        let mut timing = Timing::default();
        timing.add(&departures(gap, times));
        timing
    }

    #[test]
    fn being_late_does_not_add_up() {
        let timing = timing(100.0, &[1000.0, 1110.0, 1205.0, 1300.0, 1499.0]);
        assert_eq!(timing.late, [10.0, 5.0, 0.0, 99.0]);
        assert_eq!(timing.off, [10.0, -5.0, -5.0, 99.0]);
        assert_eq!(timing.out, [17.0, 12.0, 7.0, 106.0]);
        assert_eq!((timing.earliest(), timing.resumed()), (Some(0.0), Some(0.0)));
        assert_eq!(timing.mean_gap(), Some(499.0 / 4.0));
        assert!(timing.rate_error().is_some_and(|error| (error - 24.75).abs() < 1e-9));
    }

    #[test]
    fn one_that_is_early_is_told() {
        let timing = timing(100.0, &[0.0, 110.0, 197.0, 297.0]);
        // The second was booked for 100, so the third is due at 200, and the fourth a gap after the third.
        assert_eq!(timing.late, [10.0, -3.0, 0.0]);
        assert_eq!(timing.earliest(), Some(3.0));
        // However late a packet is, the next one leaves at most one gap earlier than a gap after it.
        assert_eq!(super::tests::timing(100.0, &[0.0, 1000.0, 1000.0]).earliest(), Some(0.0));
        assert_eq!(super::tests::timing(100.0, &[0.0, 1000.0, 1000.0, 1099.0]).earliest(), Some(1.0));
    }

    #[test]
    fn a_gap_late_the_schedule_counts_anew() {
        let timing = timing(100.0, &[0.0, 200.0, 300.0, 400.0]);
        assert_eq!(timing.late, [100.0, 0.0, 0.0]);
        assert_eq!((timing.earliest(), timing.resumed()), (Some(0.0), Some(100.0 / 3.0)));
        // The lateness of one packet is not caught up: 4 gaps for 3.
        assert!(timing.rate_error().is_some_and(|error| (error - 100.0 / 3.0).abs() < 1e-9));
    }

    #[test]
    fn what_followed_tells_who_had_not_waited() {
        let gap = 100_000.0;
        // The packet is late by 40 us, and the next one is in time, so it had waited.
        let waited = timing(gap, &[0.0, 140_000.0, 200_010.0, 300_020.0]);
        assert_eq!(waited.late, [40_000.0, 10.0, 20.0]);
        assert_eq!(waited.resumed(), Some(0.0));
        // All following packets keep their distance from it, so it had not waited.
        let asked_late = timing(gap, &[0.0, 140_000.0, 240_010.0, 340_020.0]);
        assert_eq!(asked_late.late, [40_000.0, 10.0, 20.0]);
        assert_eq!(asked_late.earliest(), Some(0.0));
        // The packet is late by more than a gap, but the following packets show that it was due shortly before
        // it left.
        let slipped = timing(gap, &[0.0, 250_000.0, 349_000.0, 449_005.0]);
        assert_eq!(slipped.late, [150_000.0, 0.0, 5.0]);
        assert_eq!(slipped.mean_gap_in_time(), Some(199_005.0 / 2.0));
        assert_eq!(waited.mean_gap_in_time(), waited.mean_gap());
    }

    #[test]
    fn the_gap_in_force_counts_and_connections_are_apart() {
        let mut two = departures(100.0, &[0.0, 100.0, 300.0]);
        two[2].gap = 200.0;
        let mut timing = Timing::default();
        timing.add(&two);
        timing.add(&departures(50.0, &[10_000.0, 10_060.0]));
        timing.add(&departures(50.0, &[20_000.0]));
        timing.add(&[]);
        assert_eq!(timing.late, [0.0, 0.0, 10.0]);
        assert_eq!((timing.packets(), timing.mean_gap()), (3, Some(120.0)));
        assert_eq!(timing.rates.len(), 2);
        let case = timing.case("both".to_owned());
        assert!(case.value("worst connection").is_some_and(|worst| (worst - 20.0).abs() < 1e-9));
        assert_eq!(case.value("latest"), Some(0.01));
        assert_eq!(timing.distribution(0.001), [[0.001, 100.0 / 3.0], [0.001, 200.0 / 3.0], [0.01, 100.0]]);
        assert_eq!(Timing::default().case(String::new()).value("mean gap"), None);
    }
}
