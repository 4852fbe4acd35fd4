//! The card's clock, and the thread that updates its relation to the monotonic clock.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tiercel::backend::Maps;
use tiercel::status::CardClock;
use transport_common::hardware_clock::Relation;

use super::tracker::{Reading, Tracker};

/// Time between two readings: a fifth of the time for which a relation is valid.
const PERIOD: Duration = Duration::from_millis(200);
/// Time until the second reading. It is shorter, so that a relation exists for the first packets.
const FIRST_PERIOD: Duration = Duration::from_millis(50);
/// Number of attempts per reading. The fastest one counts, because interruptions make the others slow.
const TRIES: usize = 16;

/// A clock that can be read, for example that of a card.
#[derive(Debug)]
pub(super) struct Clock {
    id: ClockId,
    /// Device of the clock, or another name.
    name: String,
    /// The device, which stays open while the clock is used.
    _device: Option<File>,
}

impl Clock {
    /// Opens the clock `/dev/ptpN`.
    pub(super) fn open(number: u32) -> io::Result<Self> {
        let name = format!("/dev/ptp{number}");
        let device = File::open(&name)?;
        // FD_TO_CLOCKID of linux/posix-timers.h: the clock of the device with this descriptor.
        let id = ClockId::from_raw((!device.as_raw_fd() << 3) | 3);
        Ok(Self { id, name, _device: Some(device) })
    }

    /// Reads the clock between two readings of the monotonic clock.
    pub(super) fn read(&self) -> io::Result<Reading> {
        let mut best: Option<Reading> = None;
        for _ in 0..TRIES {
            let before = nanoseconds(ClockId::CLOCK_MONOTONIC)?;
            let stamp = nanoseconds(self.id)?;
            let after = nanoseconds(ClockId::CLOCK_MONOTONIC)?;
            let half = (after - before) / 2;
            if best.is_none_or(|best| half < best.error) {
                best = Some(Reading { stamp, time: before + half, error: half + 1 });
            }
        }
        Ok(best.expect("one of several tries is the fastest"))
    }
}

fn nanoseconds(clock: ClockId) -> io::Result<u64> {
    let time = clock_gettime(clock)?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Reads a card's clock at intervals, and publishes its relation to the datapath. Dropping it stops the thread.
#[derive(Debug)]
pub(super) struct Keeper {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    stop: AtomicBool,
    /// The current relation, or why there is none.
    latest: Mutex<Result<CardClock, String>>,
}

impl Keeper {
    /// Starts the thread.
    pub(super) fn start(clock: Clock, maps: Arc<Maps>) -> io::Result<Self> {
        let latest = Mutex::new(Err("the card's clock has not been read yet".to_owned()));
        let state = Arc::new(State { stop: AtomicBool::new(false), latest });
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("tiercel-clock".into());
        let thread = thread.spawn(move || keep(&clock, &maps, &shared))?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Returns the current relation, or why there is none.
    pub(super) fn latest(&self) -> Result<CardClock, String> {
        self.state.latest.lock().expect("no panic under the lock").clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.state.stop.store(true, SeqCst);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread that reads the card's clock panicked");
        }
    }
}

fn keep(clock: &Clock, maps: &Maps, state: &State) {
    let mut tracker = Tracker::default();
    while !state.stop.load(SeqCst) {
        let (latest, pause) = match observe(clock, &mut tracker) {
            Ok((relation, shown)) => {
                maps.clock().publish(relation);
                (Ok(shown), PERIOD)
            }
            // The relation that was published before stays valid until it is too old.
            Err(reason) => (Err(reason), FIRST_PERIOD),
        };
        *state.latest.lock().expect("no panic under the lock") = latest;
        std::thread::park_timeout(pause);
    }
}

fn observe(clock: &Clock, tracker: &mut Tracker) -> Result<(Relation, CardClock), String> {
    let reading = clock.read().map_err(|error| format!("{} cannot be read: {error}", clock.name))?;
    let relation = tracker.observe(reading).map_err(|reason| reason.to_string())?;
    let shown = CardClock {
        device: clock.name.clone(),
        offset_ns: reading.time.wrapping_sub(reading.stamp) as i64,
        drift_ppb: ((i128::from(relation.drift) * 1_000_000_000) >> 32) as i64,
        error_ns: reading.error,
    };
    Ok((relation, shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::receive_timestamps::tracker::Unusable;
    use transport_common::units::Picoseconds;

    /// Returns another clock of this machine in place of a card's.
    fn stand_in(id: ClockId) -> Clock {
        Clock { id, name: "stand-in".to_owned(), _device: None }
    }

    #[test]
    fn a_clock_is_read_between_two_looks_at_ours() {
        let clock = stand_in(ClockId::CLOCK_MONOTONIC);
        let reading = clock.read().expect("it is there");
        assert!(reading.stamp.abs_diff(reading.time) <= reading.error, "{reading:?}");
    }

    #[test]
    fn the_offset_of_a_clock_is_found() {
        let clock = stand_in(ClockId::CLOCK_BOOTTIME);
        let mut tracker = Tracker::default();
        let reason = observe(&clock, &mut tracker).expect_err("its drift is not known");
        assert_eq!(reason, Unusable::First.to_string());
        std::thread::sleep(FIRST_PERIOD);
        // On a busy machine, a reading may take longer than is allowed.
        let (relation, shown) = loop {
            match observe(&clock, &mut tracker) {
                Ok(found) => break found,
                Err(reason) => assert!(reason.contains("can be read to"), "{reason}"),
            }
        };
        let asleep = shown.offset_ns;
        let boot_time = Picoseconds::from_nanos(relation.stamp.0);
        assert_eq!(relation.time.since(boot_time).signed(), asleep * 1000);
        assert!(
            asleep <= shown.error_ns as i64,
            "the boot clock is the monotonic one and the time asleep: {shown:?}"
        );
    }

    #[test]
    fn a_card_without_a_device_is_refused() {
        assert_eq!(Clock::open(4_000_000).expect_err("no such card").kind(), io::ErrorKind::NotFound);
    }
}
