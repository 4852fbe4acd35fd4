//! The options of the rate update engine in user space.

use std::time::Duration;

use transport_common::congestion::admission::Admission;
use transport_common::congestion::parameters::OutOfRange;
use transport_common::congestion::queues::EVENT_QUEUE_CAPACITY;
use transport_common::units::Ticks;

/// Longest spin and longest pause. With a longer pause, every event would be dropped before its result arrives.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Options of the rate update engine in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateUpdateOptions {
    /// Occupancies T1, T2, T3 of an event queue from which admission is stricter, entries: ascending, up to 768.
    /// With 768, the default, all events are admitted until the queue is full (F-10.6.1-2, D-73).
    pub thresholds: [u32; 3],
    /// P1: the condition holds if more time than this passed since the connection's last event (F-10.6.1-3). Up to
    /// 2 s, default 134 us.
    pub elapsed: Duration,
    /// P2: the condition holds if more packets than this were acknowledged since then (F-10.6.1-3).
    pub packets: u32,
    /// Time for which the thread polls for more events without a pause, up to 10 ms. Default 20 us.
    pub spin: Duration,
    /// Pause between two polls after that, up to 10 ms. Default 50 us.
    pub pause: Duration,
}

impl Default for RateUpdateOptions {
    fn default() -> Self {
        Self {
            thresholds: [EVENT_QUEUE_CAPACITY; 3],
            elapsed: Duration::from_micros(134), // D-78
            packets: Admission::PACKETS,
            spin: Duration::from_micros(20),
            pause: Duration::from_micros(50),
        }
    }
}

impl RateUpdateOptions {
    /// Returns the admission policy that the datapath applies.
    ///
    /// # Errors
    /// The first option out of its range.
    pub fn admission(&self) -> Result<Admission, OutOfRange> {
        let wrong = |name, range| Err(OutOfRange { name, range });
        let [t1, t2, t3] = self.thresholds;
        if !(t1 <= t2 && t2 <= t3 && t3 <= EVENT_QUEUE_CAPACITY) {
            return wrong("thresholds", "three ascending occupancies, 0 to 768 entries");
        }
        if self.elapsed > Duration::from_secs(2) {
            return wrong("elapsed", "0 to 2 s");
        }
        if self.spin > LONGEST_PAUSE || self.pause > LONGEST_PAUSE {
            return wrong("spin and pause", "0 to 10 ms");
        }
        Ok(Admission {
            thresholds: self.thresholds,
            elapsed: Ticks::from_nanos(self.elapsed.as_nanos() as u64),
            packets: self.packets,
            ..Admission::new(EVENT_QUEUE_CAPACITY)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_defaults_are_those_of_the_core() {
        let admission = RateUpdateOptions::default().admission().expect("legal");
        assert_eq!(admission, Admission::new(EVENT_QUEUE_CAPACITY)); // D-73, D-78
    }

    #[test]
    fn thresholds_ascend_up_to_the_capacity() {
        let refused = |change: fn(&mut RateUpdateOptions)| {
            let mut options = RateUpdateOptions::default();
            change(&mut options);
            options.admission().expect_err("out of range").name
        };
        assert_eq!(refused(|o| o.thresholds = [3, 2, 4]), "thresholds");
        assert_eq!(refused(|o| o.thresholds = [1, 2, 769]), "thresholds");
        assert_eq!(refused(|o| o.elapsed = Duration::from_secs(3)), "elapsed");
        assert_eq!(refused(|o| o.pause = Duration::from_millis(16)), "spin and pause");
    }
}
