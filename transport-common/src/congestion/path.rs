//! What a connection measures of its path, and the target and timeout that it computes from that.
//!
//! `docs/decisions/congestion.md` gives the reasons for these rules. The defaults of D-78 fit a data centre. On another path
//! they are wrong by orders of magnitude. A target below the path's own delay reduces the window to its minimum. A
//! timeout below that delay retransmits packets that are still on their way. With
//! [`adaptive_target`](super::parameters::Parameters::adaptive_target) and
//! [`adaptive_timeout`](super::parameters::Parameters::adaptive_timeout) a connection computes both from its
//! measurements:
//!
//! | value | rule | bounds |
//! |---|---|---|
//! | target delay | floor + max(floor / 2, 8 * variation) | `base_delay_target` to 2.199 s; the variation counts up to 50 ms |
//! | smallest window | 0.01 packets for each 25 us of the floor | `min_fcwnd` to 1/4 packet |
//! | smallest timeout | 5/4 of the longest round trip time; during the first flight also the first timeout | `min_rto` to 2.199 s |
//! | age of a packet that an EACK shows lost | RTT + 8 * variation | one RTT to 5/4 of the longest |
//!
//! The floor is the smallest delay of the path. Every smaller delay lowers it. It rises if, during a whole window
//! of about one second, no delay was as small as the target although the fabric window was at most one packet. In
//! that case the queue is not this connection's, and the path has become longer. The smallest delay of the last
//! seconds alone is not enough: it would take a standing queue for the path, and the target would rise without
//! end.
//!
//! A connection that starts while others fill the queue never saw the empty path. Therefore a connection drains
//! now and then: for a short time it has at most one packet outstanding. BBR (draft-cardwell-iccrg-bbr) finds the
//! round trip time of a path in this way, and also makes the connections that share a queue drain together, by the
//! time of the smallest delay since the last drain. While one connection drains, the others measure smaller delays
//! than before. So they begin their intervals again, all at the same time, and next time they drain together and
//! see the empty path.
//!
//! | | floor up to 1 ms | above |
//! |---|---|---|
//! | an interval ends when no delay in it was smaller for | 250 ms | 10 s |
//! | a drain lasts two of the longest round trips, and | 2 ms | 78 ms |
//!
//! An interval ends without a drain if its smallest delay was within floor + floor / 8: the queue was empty then.
//!
//! The first packets of a connection fill the queue of a slow line, and each waits longer than the one before. One ACK
//! may cover any number of them, so nothing that was measured bounds the delay of the next. Therefore the first
//! timeout, which the connection manager chooses, stays a lower bound until the first flight is over: until 32 ACKs
//! have come, or the first window has ended.
//!
//! The variation is the mean difference of two successive delays, as in RFC 3550 (6.4.1). It contains the jitter
//! of the path and of the hosts, but not the slow change of a queue. Its largest value counts. That value is
//! halved with each window of about one second. On a path that keeps frames in order, a dense flow shows little of
//! the jitter that delays it, and a sparse flow shows all of it. Without the memory of the largest value, the
//! target would fall as soon as the flow fills the path.

use bytemuck::{Pod, Zeroable};

use super::nic_time::NicTime;
use super::parameters::Parameters;
use crate::units::{FalconTime, Fcwnd, Ticks};

/// The variation is stored in sixteenths of a tick. A new difference has a weight of one sixteenth.
const WEIGHT_BITS: u32 = 4;
/// A variation counts only if it is at least this fraction, a power of two, of what the delay exceeds the floor by.
const QUEUE_BITS: u32 = 3;
/// A difference counts as at most this power of two times the variation, and a quarter of the floor: jitter exceeds
/// its mean by little and often, but the start and the end of somebody's burst are large and rare.
const STEP_BITS: u32 = 3;
/// The most that the variation may add to a target or an age.
const MOST_NOISE: Ticks = Ticks::from_nanos(50_000_000);
/// The floor at which the smallest window is that of D-78, 0.01 packets.
const REFERENCE_FLOOR: Ticks = Ticks::from_nanos(25_000);
const REFERENCE_WINDOW: u64 = 10;
/// The smallest window is at most a quarter of a packet, that is, one packet in four round trips.
const LARGEST_SMALLEST_WINDOW: u64 = Fcwnd::from_packets(1).0 as u64 / 4;

/// A delay counts as near the floor if it exceeds the floor by at most this fraction, a power of two.
const NEAR_BITS: u32 = 3;
/// A floor up to this one has the short interval between drains.
const SHORT_FLOOR: Ticks = Ticks::from_nanos(1_000_000);
/// Time between two drains. There are only two, because connections on one path must choose the same, although
/// those that never saw the empty path have a larger floor.
const SHORT_INTERVAL: Ticks = Ticks::from_nanos(250_000_000);
const LONG_INTERVAL: Ticks = Ticks::from_nanos(10_000_000_000);
/// The first flight is over after so many acknowledgements: as many as a connection sends packets before the first
/// one (D-78). An ACK acknowledges at least one.
const FIRST_FLIGHT: u16 = 32;
/// A drain lasts this fraction of the interval, a power of two, and two round trips. Connections that begin a
/// little apart thus still drain at the same time.
const DRAIN_BITS: u32 = 7;

/// The measurements of a connection's path. All zero bytes mean that nothing has been measured yet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PathMeasure {
    /// Smallest delay of the path; 0 before the first measurement.
    pub floor: Ticks,
    /// Sixteen times the mean difference of two successive fabric delays, in ticks.
    variation: u32,
    /// The largest variation. It is halved from each window to the next.
    largest_variation: u32,
    /// Longest round trip time in the current window of about one second.
    longest: Ticks,
    /// Longest round trip time in the previous window.
    longest_before: Ticks,
    /// The smallest delay since the last drain began; 0 before the first.
    recent: Ticks,
    /// When it was measured, or when the last drain ended.
    recent_at: FalconTime,
    /// When the current drain began.
    drain_began: FalconTime,
    /// 1: the connection drains.
    draining: u16,
    /// Acknowledgements until the first flight is over.
    first_flight: u16,
    /// Smallest timeout during the first flight; 0 after that.
    first_timeout: Ticks,
}

/// The delays of one acknowledgement, and the fabric delay of the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Fabric delay.
    pub fabric: Ticks,
    /// Fabric delay of the previous acknowledgement; 0 if there was none.
    pub fabric_before: Ticks,
    /// The delay that the connection has selected.
    pub selected: Ticks,
    /// Time from T1 to T4.
    pub full: Ticks,
}

/// A window of about one second that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedWindow {
    /// Smallest of the delays that the connection has selected.
    pub smallest: Ticks,
    /// The target in force, including everything that is added to it.
    pub target: Ticks,
    /// Fabric window at the end of the window.
    pub fcwnd: Fcwnd,
}

impl PathMeasure {
    /// Creates the measurements of a new connection with this timeout.
    pub fn new(first_timeout: Ticks) -> Self {
        Self { first_timeout, first_flight: FIRST_FLIGHT, ..Self::default() }
    }

    /// Returns the mean difference of two successive fabric delays, the largest of the last windows.
    pub const fn variation(&self) -> Ticks {
        Ticks(self.largest_variation >> WEIGHT_BITS)
    }

    /// Returns the longest round trip time of the last one to two windows.
    #[inline(always)]
    pub const fn longest(&self) -> Ticks {
        if self.longest.0 > self.longest_before.0 { self.longest } else { self.longest_before }
    }

    /// Returns whether the connection drains, that is, may have only one packet outstanding.
    #[inline(always)]
    pub const fn is_draining(&self) -> bool {
        self.draining != 0
    }

    /// Ends a drain without a result.
    #[inline(always)]
    pub const fn stop_draining(&mut self) {
        self.draining = 0;
    }

    /// Adds a sample. If it is the first of a new window, `ended` is the window before it; the first sample of all
    /// has none before it. `may_drain`: the connection follows the floor.
    #[inline(always)]
    pub fn record(
        &mut self,
        sample: &Sample,
        ended: Option<EndedWindow>,
        (may_drain, now): (bool, FalconTime),
    ) {
        if let Some(window) = ended
            && self.floor.0 != 0
        {
            self.longest_before = self.longest;
            self.longest = Ticks(0);
            self.largest_variation /= 2;
            self.first_timeout = Ticks(0);
            if window.smallest > window.target && window.fcwnd.0 <= Fcwnd::from_packets(1).0 {
                self.floor = window.smallest;
            }
        }
        if self.first_flight > 0 {
            self.first_flight -= 1;
            if self.first_flight == 0 {
                self.first_timeout = Ticks(0);
            }
        }
        if self.floor.0 == 0 || sample.selected < self.floor {
            self.floor = sample.selected;
        }
        if sample.full > self.longest {
            self.longest = sample.full;
        }
        if sample.fabric_before.0 != 0 {
            let (a, b) = (sample.fabric.0, sample.fabric_before.0);
            let difference = a.abs_diff(b) & NicTime::MASK;
            let most = (self.variation >> (WEIGHT_BITS - STEP_BITS)) + self.floor.0 / 4;
            let difference = if difference > most { most } else { difference };
            // At most 24 bits each, so 16 times the mean fits.
            self.variation = self.variation - (self.variation >> WEIGHT_BITS) + difference;
        }
        // A standing queue delays much more than it varies.
        let waited = sample.selected.0 - self.floor.0;
        if self.variation > self.largest_variation && self.variation >> WEIGHT_BITS >= waited >> QUEUE_BITS {
            self.largest_variation = self.variation;
        }
        self.drain(sample.selected, may_drain, now);
    }

    /// Begins or ends a drain.
    #[inline(always)]
    fn drain(&mut self, delay: Ticks, may_drain: bool, now: FalconTime) {
        let interval = if self.floor.0 > SHORT_FLOOR.0 { LONG_INTERVAL } else { SHORT_INTERVAL };
        if self.recent.0 == 0 || delay < self.recent {
            self.recent = delay;
            self.recent_at = now;
        }
        if self.draining != 0 {
            let length = 2 * self.longest().0 + (interval.0 >> DRAIN_BITS);
            if now.since(self.drain_began).0 >= length {
                self.draining = 0;
                self.recent_at = now;
            }
        } else if now.since(self.recent_at).0 > interval.0 {
            // If the queue was empty once, nobody on the path needs a drain.
            let near = self.floor.0 + (self.floor.0 >> NEAR_BITS);
            self.draining = (may_drain && self.recent.0 > near) as u16;
            self.drain_began = now;
            self.recent = delay;
            self.recent_at = now;
        }
    }

    #[inline(always)]
    const fn noise(&self) -> Ticks {
        let noise = self.largest_variation >> (WEIGHT_BITS - 3);
        if noise > MOST_NOISE.0 { MOST_NOISE } else { Ticks(noise) }
    }

    /// Returns the target delay before scaling.
    #[inline(always)]
    pub const fn delay_target(&self, least: Ticks) -> Ticks {
        let (half, noise) = (self.floor.0 / 2, self.noise().0);
        let target = self.floor.0 + if half > noise { half } else { noise };
        bounded(target, least)
    }

    /// Returns the smallest retransmission timeout.
    #[inline(always)]
    pub const fn least_timeout(&self, least: Ticks) -> Ticks {
        let longest = self.longest().0;
        let (timeout, first) = (longest + longest / 4, self.first_timeout.0);
        bounded(if timeout > first { timeout } else { first }, least)
    }

    /// Returns the smallest fabric window.
    #[inline(always)]
    pub const fn least_fcwnd(&self, least: Fcwnd) -> Fcwnd {
        // The divisor is a constant, so the division becomes a multiplication.
        let window = self.floor.0 as u64 * REFERENCE_WINDOW / REFERENCE_FLOOR.0 as u64;
        let window =
            if window > LARGEST_SMALLEST_WINDOW { LARGEST_SMALLEST_WINDOW as u32 } else { window as u32 };
        if window > least.0 { Fcwnd(window) } else { least }
    }

    /// Returns the age at which a packet counts as lost when an EACK that measured `rtt` shows later ones
    /// (F-9.1.4-2: at least one RTT). The age is the time since the packet was sent.
    #[inline(always)]
    pub const fn loss_age(&self, rtt: Ticks) -> Ticks {
        let longest = self.longest().0;
        let (most, age) = (longest + longest / 4, rtt.0.saturating_add(self.noise().0));
        let age = if age > most { most } else { age };
        if age > rtt.0 { Ticks(age) } else { rtt }
    }
}

impl Parameters {
    /// Returns the most that flow scaling and `hops` together add to the target.
    #[inline(always)]
    pub(super) const fn largest_addition(&self, hops: u8) -> Ticks {
        let topology = (hops as u32).saturating_mul(self.topology_scaling_per_hop.0);
        Ticks(self.max_flow_scaling.0.saturating_add(topology))
    }
}

#[inline(always)]
const fn bounded(ticks: u32, least: Ticks) -> Ticks {
    if ticks > NicTime::MASK {
        Ticks(NicTime::MASK)
    } else if ticks > least.0 {
        Ticks(ticks)
    } else {
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Ticks = Ticks::from_nanos(25_000);

    fn micros(n: u64) -> Ticks {
        Ticks::from_nanos(n * 1000)
    }

    /// A sample of a packet that was on its way for so many microseconds. The peer adds no delay.
    fn delay(micros_on_the_way: u64, before: Ticks) -> Sample {
        let delay = micros(micros_on_the_way);
        Sample { fabric: delay, fabric_before: before, selected: delay, full: delay }
    }

    /// Returns the measurements of a path after these delays, in microseconds, all measured at time 0.
    fn path(delays: impl IntoIterator<Item = u64>) -> PathMeasure {
        let (mut path, mut before) = (PathMeasure::default(), Ticks(0));
        for micros_on_the_way in delays {
            let sample = delay(micros_on_the_way, before);
            path.record(&sample, None, (true, FalconTime(0)));
            before = sample.fabric;
        }
        path
    }

    /// Adds a delay measured at an instant, both in microseconds.
    fn at(path: &mut PathMeasure, now: u64, micros_on_the_way: u64) {
        path.record(&delay(micros_on_the_way, Ticks(0)), None, (true, FalconTime(micros(now).0)));
    }

    fn ended(path: &mut PathMeasure, smallest: u64, target: u64, packets: u32) {
        let window = EndedWindow {
            smallest: micros(smallest),
            target: micros(target),
            fcwnd: Fcwnd::from_packets(packets),
        };
        path.record(&delay(smallest, Ticks(0)), Some(window), (true, FalconTime(0)));
    }

    #[test]
    fn a_data_centre_keeps_its_target_and_its_timeout() {
        let path = path([10, 11, 10, 12, 10]);
        assert_eq!(path.delay_target(LEAST), LEAST);
        assert_eq!(path.least_timeout(micros(1000)), micros(1000));
        assert_eq!(path.least_fcwnd(Fcwnd(10)), Fcwnd(10));
    }

    /// A connection begins with 32 packets, each of which occupies a line of 10 Mb/s for 2.8 ms. No timeout may expire
    /// before the packet is acknowledged, whether each packet has its own ACK or one ACK covers many (D-81).
    #[test]
    fn the_first_packets_over_a_slow_line_are_not_sent_again() {
        const ON_LINE: u64 = 2_800;
        for (round_trip, packets_an_ack) in [30, 1_000, 10_000].into_iter().zip([1, 4, 32]) {
            let mut path = PathMeasure::new(micros(100_000));
            let mut before = Ticks(0);
            for packet in 1..=32_u64 {
                let delay_of_ack = packet.div_ceil(packets_an_ack) * packets_an_ack * ON_LINE;
                let acknowledged = delay(round_trip + delay_of_ack, before);
                let timeout = path.least_timeout(micros(1_000));
                assert!(timeout > acknowledged.full, "packet {packet}, {timeout:?}");
                if packet % packets_an_ack == 0 {
                    path.record(&acknowledged, None, (true, FalconTime(0)));
                    before = acknowledged.fabric;
                }
            }
            ended(&mut path, round_trip, 100_000, 32);
            ended(&mut path, round_trip, 100_000, 32);
            assert!(path.least_timeout(micros(1_000)) < micros(20_000), "only in the first window");
        }
    }

    /// The clock of a connection's windows begins with its first sample.
    #[test]
    fn the_first_sample_ends_no_window() {
        let mut path = PathMeasure::new(micros(100_000));
        ended(&mut path, 12_000, 25, 32);
        assert_eq!(path.least_timeout(micros(1_000)), micros(100_000));
        ended(&mut path, 12_000, 25, 32);
        assert_eq!(path.least_timeout(micros(1_000)), micros(15_000));
    }

    /// On a fast path the first flight is soon over, and with it the long timeout.
    #[test]
    fn the_first_timeout_ends_with_the_first_flight() {
        let mut path = PathMeasure::new(micros(100_000));
        for _ in 1..FIRST_FLIGHT {
            path.record(&delay(30, Ticks(0)), None, (true, FalconTime(0)));
            assert_eq!(path.least_timeout(micros(1_000)), micros(100_000));
        }
        path.record(&delay(30, Ticks(0)), None, (true, FalconTime(0)));
        assert_eq!(path.least_timeout(micros(1_000)), micros(1_000));
    }

    #[test]
    fn a_long_path_has_half_its_delay_for_a_queue() {
        let path = path([100_000; 50]);
        let (target, floor) = (path.delay_target(LEAST).0, micros(100_000).0);
        assert_eq!(target, floor + floor / 2);
        assert_eq!(path.least_timeout(micros(1000)), Ticks(floor + floor / 4));
        assert_eq!(path.least_fcwnd(Fcwnd(10)), Fcwnd(256), "a quarter of a packet");
    }

    #[test]
    fn jitter_raises_the_target_and_the_age_but_not_without_bound() {
        // Delays of 1 ms and 2 ms alternate, so the mean difference is 1 ms.
        let jitter = path((0..400).map(|n| 1000 + n % 2 * 1000));
        let close = |ticks: Ticks, micros: u32| {
            let got = ticks.0 / micros_of(1);
            assert!(got.abs_diff(micros) < micros / 20, "{got} us, expected {micros}");
        };
        close(jitter.variation(), 1000);
        close(jitter.delay_target(LEAST), 9000);
        close(jitter.loss_age(micros(1500)), 2500); // bounded by the longest
        let wild = path((0..400).map(|n| 1000 + n % 2 * 900_000));
        close(wild.delay_target(LEAST), 51_000);
    }

    fn micros_of(n: u64) -> u32 {
        micros(n).0
    }

    /// A queue that grows steadily is not jitter, so the target stays.
    #[test]
    fn a_growing_queue_does_not_move_the_target() {
        let path = path((0..1000).map(|n| 1000 + n * 2));
        assert!(path.variation() <= micros(4));
        assert_eq!(path.delay_target(LEAST).0, micros(1000).0 + micros(1000).0 / 2);
    }

    #[test]
    fn the_floor_rises_when_a_whole_window_was_above_the_target_without_a_queue_of_ours() {
        let mut path = path([1000]);
        ended(&mut path, 5000, 1500, 8);
        assert_eq!(path.floor, micros(1000), "with 8 packets under way the queue may be ours");
        ended(&mut path, 1400, 1500, 1);
        assert_eq!(path.floor, micros(1000), "the target was reached");
        ended(&mut path, 5000, 1500, 1);
        assert_eq!(path.floor, micros(5000));
        ended(&mut path, 900, 7500, 1);
        assert_eq!(path.floor, micros(900), "it falls at once");
    }

    /// A path with a floor of 600 us, where a queue of 200 us stands since the first interval.
    fn standing_queue() -> PathMeasure {
        let mut path = path([600]);
        at(&mut path, 249_000, 800);
        assert!(!path.is_draining());
        at(&mut path, 251_000, 800);
        assert!(!path.is_draining(), "the queue was empty in the first interval");
        at(&mut path, 500_000, 900);
        assert!(!path.is_draining());
        path
    }

    /// The interval of a short path is 250 ms; a drain takes two round trips and 2 ms.
    #[test]
    fn a_connection_drains_when_it_has_seen_no_smaller_delay_for_a_while() {
        let mut path = standing_queue();
        at(&mut path, 502_000, 900);
        assert!(path.is_draining());
        at(&mut path, 503_000, 500);
        assert_eq!(path.floor, micros(500), "what it sees then lowers the floor");
        at(&mut path, 505_000, 600);
        assert!(path.is_draining(), "two round trips of 900 us and 1.95 ms have not passed");
        at(&mut path, 506_000, 600);
        assert!(!path.is_draining());
        assert_eq!(path.floor, micros(500));
        at(&mut path, 750_000, 700);
        assert!(!path.is_draining(), "the next interval begins with the end of a drain");
    }

    /// Two connections share a queue. One drains, which the other sees: so the next time they drain together.
    #[test]
    fn a_drain_of_another_connection_begins_the_interval_anew() {
        let mut path = standing_queue();
        at(&mut path, 501_000, 750);
        at(&mut path, 749_000, 800);
        assert!(!path.is_draining());
        at(&mut path, 752_000, 800);
        assert!(path.is_draining(), "250 ms after the smallest delay, although that was above the floor");
    }

    #[test]
    fn a_long_path_drains_every_ten_seconds() {
        let mut path = path([100_000]);
        at(&mut path, 10_001_000, 150_000);
        at(&mut path, 20_000_000, 150_001);
        assert!(!path.is_draining());
        at(&mut path, 20_002_000, 150_001);
        assert!(path.is_draining());
        at(&mut path, 20_379_000, 120_000);
        assert!(path.is_draining(), "two round trips of 150 ms and 78 ms");
        at(&mut path, 20_381_000, 120_000);
        assert!(!path.is_draining());
    }

    #[test]
    fn a_fixed_target_never_drains_and_a_drain_can_be_stopped() {
        let fixed = |path: &mut PathMeasure, now: u64| {
            path.record(&delay(900, Ticks(0)), None, (false, FalconTime(micros(now).0)));
            path.is_draining()
        };
        let mut path = standing_queue();
        assert!(!fixed(&mut path, 502_000) && !fixed(&mut path, 753_000));
        at(&mut path, 1_005_000, 900);
        assert!(path.is_draining());
        path.stop_draining();
        assert!(!path.is_draining());
    }

    /// 16 connections fill the queue, which stands at 1 ms and varies by 20 us.
    #[test]
    fn a_standing_queue_is_not_jitter() {
        let path = path([100].into_iter().chain((0..400).map(|n| 1000 + n % 2 * 20)));
        assert!(path.variation() < micros(15), "{:?}", path.variation());
    }

    /// Every hundredth packet meets somebody's burst.
    #[test]
    fn rare_bursts_are_not_jitter() {
        let burst = |n: u64| if n % 100 == 99 { 5000 } else { 100 + n % 2 * 20 };
        let path = path((0..1000).map(burst));
        assert!(path.variation() < micros(60), "{:?}", path.variation());
    }

    /// A dense flow on a path that keeps frames in order sees equal delays, although a sparse flow measured jitter
    /// there.
    #[test]
    fn jitter_is_remembered_for_some_windows() {
        let mut path = path((0..400).map(|n| 1000 + n % 2 * 1000).chain(core::iter::repeat_n(2000, 1000)));
        let at_once = path.variation().0;
        assert!(at_once.abs_diff(micros(1000).0) < micros(50).0);
        ended(&mut path, 2000, 5000, 64);
        assert_eq!(path.variation().0, at_once / 2);
        for _ in 0..20 {
            ended(&mut path, 2000, 5000, 64);
        }
        assert_eq!(path.variation(), Ticks(0));
    }

    #[test]
    fn the_longest_round_trip_is_forgotten_after_two_windows() {
        let mut path = path([1000, 9000, 1000]);
        assert_eq!(path.longest(), micros(9000));
        ended(&mut path, 1000, 1500, 8);
        assert_eq!(path.longest(), micros(9000));
        ended(&mut path, 1000, 1500, 8);
        assert_eq!(path.longest(), micros(1000));
    }

    /// No sequence of samples produces a value that wraps or is out of range.
    #[test]
    fn extremes_stay_in_range() {
        let mut path = PathMeasure::default();
        for n in 0..10_000_u32 {
            let delay = Ticks(if n % 2 == 0 { NicTime::MASK } else { 0 });
            let before = Ticks(NicTime::MASK - delay.0);
            let sample =
                Sample { fabric: delay, fabric_before: before, selected: Ticks(NicTime::MASK), full: delay };
            path.record(&sample, None, (true, FalconTime(n.wrapping_mul(0x9e37_79b9))));
        }
        assert_eq!(path.delay_target(LEAST), Ticks(NicTime::MASK));
        assert_eq!(path.least_timeout(LEAST), Ticks(NicTime::MASK));
        assert!(path.loss_age(Ticks(u32::MAX)) == Ticks(u32::MAX));
    }
}
