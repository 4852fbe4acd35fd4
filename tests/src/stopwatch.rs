//! Times that do not depend on how busy the machine is.
//!
//! The bounds that the documentation states hold where a thread runs when it is ready. A machine with other work, or a virtual
//! one that its host stops, lets threads wait. A [`Stopwatch`] measures by how much a thread is late that only sleeps, and a
//! test leaves this time out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Length of one sleep: the default retransmission timeout. Packet delivery gives a peer up after 2000 timeouts, one after the
/// other. Whatever makes each of them late by a part of a millisecond makes this thread late as often.
const SLEEP: Duration = Duration::from_millis(1);
/// How many times a stated bound may pass. The other part is for what happens one after the other in a node and costs CPU time
/// even on a quiet machine, most of all on a slow one. What takes three times its bound fails.
const TOLERANCE: u32 = 2;

/// Measures a time, and how much of it the machine took away.
#[derive(Debug)]
pub struct Stopwatch {
    begin: Instant,
    late_before: Duration,
    sleeps: Arc<Sleeps>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Sleeps {
    stop: AtomicBool,
    /// When the last sleep ended, and by how much all of them were too long.
    so_far: Mutex<(Instant, Duration)>,
}

impl Sleeps {
    /// Returns by how much the sleeps were too long, with the one that has not ended.
    fn late(&self) -> Duration {
        let (woken, late) = *self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        late + woken.elapsed().saturating_sub(SLEEP)
    }

    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(SLEEP);
            let late = self.late();
            *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), late);
        }
    }
}

impl Stopwatch {
    /// Starts to measure.
    ///
    /// # Panics
    /// If the system has no thread left.
    pub fn start() -> Self {
        let so_far = Mutex::new((Instant::now(), Duration::ZERO));
        let sleeps = Arc::new(Sleeps { stop: AtomicBool::new(false), so_far });
        let sleeping = Arc::clone(&sleeps);
        let thread = std::thread::Builder::new().name("stopwatch".to_owned()).spawn(move || sleeping.run());
        let thread = Some(thread.expect("a thread"));
        Self { begin: Instant::now(), late_before: sleeps.late(), sleeps, thread }
    }

    /// Measures from now on.
    pub fn restart(&mut self) {
        (self.begin, self.late_before) = (Instant::now(), self.sleeps.late());
    }

    /// Returns the time since the start.
    pub fn taken(&self) -> Taken {
        // In this order a part of the time is never longer than the time.
        let paused = self.sleeps.late().saturating_sub(self.late_before);
        Taken { elapsed: self.begin.elapsed(), paused }
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.sleeps.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only sleeps, so it cannot have failed.
            let _ = thread.join();
        }
    }
}

/// A time that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// All of it.
    pub elapsed: Duration,
    /// The part that the machine took away.
    pub paused: Duration,
}

impl Taken {
    /// Checks a bound that the documentation states: twice as long is permitted, without the time that the machine took away.
    ///
    /// # Panics
    /// If it took longer.
    pub fn check(self, what: &str, bound: Duration) {
        let Self { elapsed, paused } = self;
        println!("{what}: {elapsed:?}, of which the machine took {paused:?}; {bound:?} is stated");
        assert!(
            elapsed.saturating_sub(paused) <= TOLERANCE * bound,
            "{what} took {elapsed:?}, and a thread that only sleeps was late by {paused:?} of that: {bound:?} is stated, and \
             {TOLERANCE} times as long is permitted"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(1);

    #[test]
    fn what_the_machine_takes_away_does_not_count() {
        let millis = Duration::from_millis;
        for (elapsed, paused) in
            [(millis(1), millis(0)), (millis(2000), millis(0)), (millis(9000), millis(7000))]
        {
            Taken { elapsed, paused }.check("it", BOUND);
        }
    }

    #[test]
    #[should_panic(expected = "1s is stated")]
    fn three_times_the_bound_fails() {
        Taken { elapsed: 3 * BOUND, paused: BOUND / 3 }.check("it", BOUND);
    }

    /// The thread is late by a part of the time only, also while a sleep has not ended, and a restart forgets it.
    #[test]
    fn a_pause_is_a_part_of_the_time() {
        let mut stopwatch = Stopwatch::start();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(20));
            let Taken { elapsed, paused } = stopwatch.taken();
            assert!(elapsed >= Duration::from_millis(20) && paused <= elapsed, "{paused:?} of {elapsed:?}");
            stopwatch.restart();
        }
    }
}
