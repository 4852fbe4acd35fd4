//! The engine thread. It makes the kernel pass live frames to the engine program, which fills and sends them or
//! drops them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::pthread::pthread_self;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use tiercel::backend::{Datapath, Poller};
pub use tiercel::status::{EngineMode, EngineState, EngineStatus};
use transport_common::shard::SLEEPERS_SLACK;
use transport_common::units::Picoseconds;

use crate::node::error::NodeError;
use crate::node::interrupt::Interrupt;
use crate::node::xdp::object::WakeRing;

/// Frames of one run of a busy engine: enough for hours of sending, and below the kernel's 32-bit limit.
const BUSY_FRAMES: u32 = 1 << 30;
/// Interval at which the load of a busy engine is read. A run cannot change its batch, so it is ended when another
/// batch is needed. Entering the next run takes about 15 us.
const ADAPT_EVERY: Duration = Duration::from_millis(4);
/// The load is high if at least one of this many frames had work.
const MUCH_WORK: u64 = 4;
/// Frames of the first burst after waking. The burst doubles while there is work, so that long transfers rarely
/// pay the cost of entering a run (about 15 us).
const FIRST_BURST: u32 = 32;
const LARGEST_BURST: u32 = 16_384;
/// Frames of the first burst after the engine woke at a deadline: one of them looks at the timing wheel. Often the deadline
/// has moved since the engine went to sleep, and there is nothing else to do.
const DEADLINE_BURST: u32 = 8;
const _: () = assert!(bpf_call::LONGEST_LIVE_FRAME == transport_common::datapath::MAX_FRAME_BYTES);
/// Runs of at least so many frames take frames of the largest size.
const LONG_RUN: u32 = 1024;
/// Length of the frames of other runs: the headers and some 100 bytes of data.
const SMALL_PACKET: u32 = 256;
/// The limit of the first sleep without a deadline: the smallest retransmission timeout in use.
const REST: Duration = Duration::from_millis(1);
/// How long after a deadline a sleeping engine plans to be up. Less than the slack by which the wire program judges whether
/// it has to wake the engine: a deadline that is filed already, rounded up to a tick, must not.
const LATE: Duration = Duration::from_nanos(SLEEPERS_SLACK.as_nanos() * 3 / 4);
/// Work is rare if less than one of this many frames had work.
const RARE_WORK: u64 = 8;
/// Interval at which a stopping engine is interrupted again, in case a signal came just before it entered its run.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(1);

/// Options of the engine thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Busy or sleeping.
    pub mode: EngineMode,
    /// The CPU to which the thread is bound, if any.
    pub cpu: Option<usize>,
    /// Frames that the kernel passes to the engine at a time, 1 to 256. More frames give higher throughput, fewer
    /// give lower latency. With `None` the batch is adapted to the load: [`Self::IDLE_BATCH`] or
    /// [`Self::LOADED_BATCH`].
    pub batch: Option<u32>,
    /// Time for which a sleeping engine looks for work before it sleeps again, up to 1 s. Default 100 us.
    pub spin: Duration,
    /// The real-time signal that ends a run of the engine early. While a node is up, the library uses it for the
    /// whole process and sends it to engine threads only. Then it gives the signal back. `None` selects the
    /// highest signal without a handler. A signal that the application handles or ignores is refused.
    pub signal: Option<i32>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            mode: EngineMode::Sleeping,
            cpu: None,
            batch: None,
            spin: Duration::from_micros(100),
            signal: None,
        }
    }
}

impl EngineOptions {
    /// Adapted batch at low load: a frame that is sent waits for few other frames of its batch.
    pub const IDLE_BATCH: u32 = 2;
    /// Adapted batch at high load: the CPU alternates less often between the code of the sender and of the
    /// receiver.
    pub const LOADED_BATCH: u32 = 32;

    /// Checks the ranges of the options.
    ///
    /// # Errors
    /// The first option out of its range.
    pub(crate) fn check(&self) -> Result<(), NodeError> {
        if let Some(batch) = self.batch
            && !(1..=bpf_call::MAX_BATCH).contains(&batch)
        {
            let range = "1 to 256 frames";
            return Err(NodeError::EngineOption { option: "batch", value: batch.into(), range });
        }
        if self.spin > Duration::from_secs(1) {
            let value = u64::try_from(self.spin.as_micros()).unwrap_or(u64::MAX);
            return Err(NodeError::EngineOption { option: "spin (us)", value, range: "0 to 1 s" });
        }
        Interrupt::check(self.signal)
    }

    /// Checks that the engine can be bound to its CPU.
    ///
    /// # Errors
    /// The engine cannot run on that CPU.
    pub(crate) fn check_cpu(&self) -> Result<(), NodeError> {
        // A separate thread tries it, so that the calling thread is not bound.
        std::thread::scope(|scope| scope.spawn(|| pin(self.cpu)).join()).expect("it does not panic")
    }
}

#[derive(Debug, Default)]
struct Progress {
    stop: AtomicBool,
    /// See [`EngineState`], without the reason.
    state: AtomicU8,
    /// Batch of the current run.
    batch: AtomicU32,
    /// Batch of the next run.
    next_batch: AtomicU32,
    failure: Mutex<Option<String>>,
}

const RUNNING: u8 = 0;
const SLEEPING: u8 = 1;

/// The running engine. Dropping it stops the thread.
#[derive(Debug)]
pub(crate) struct Engine {
    options: EngineOptions,
    datapath: Arc<Datapath>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
    interrupt: Arc<Interrupt>,
}

impl Engine {
    /// Starts the thread. `program` is the wire program, which passes the engine's frames to the engine program.
    /// `wake` is the ring by which the wire program wakes the engine. If the engine fails, it wakes the `poller`.
    pub(crate) fn start(
        options: EngineOptions,
        program: OwnedFd,
        wake: WakeRing,
        datapath: Arc<Datapath>,
        poller: Arc<Poller>,
    ) -> Result<Self, NodeError> {
        let interrupt = Arc::new(Interrupt::take(options.signal)?);
        let progress = Arc::new(Progress::default());
        progress.next_batch.store(options.batch.unwrap_or(EngineOptions::IDLE_BATCH), SeqCst);
        let worker = Worker {
            options,
            program,
            wake,
            datapath: Arc::clone(&datapath),
            poller,
            progress: Arc::clone(&progress),
            interrupt: Arc::clone(&interrupt),
        };
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("tiercel-engine".into()).spawn(move || {
            let masked = worker.interrupt.mask_others();
            let masked = masked.map_err(|error| NodeError::system("set the engine's signal mask", error));
            let pinned = masked.and_then(|()| pin(worker.options.cpu));
            let go = pinned.is_ok();
            // This cannot fail: the starting thread waits for the message.
            let _ = ready.send(pinned);
            if go {
                worker.run();
            }
        });
        let thread = thread.map_err(|e| NodeError::system("start the engine thread", e))?;
        let pinned = is_ready.recv().expect("the thread sends before it ends");
        let engine = Self { options, datapath, progress, thread: Some(thread), interrupt };
        pinned.map(|()| engine)
    }

    /// Returns the status of the engine.
    pub(crate) fn status(&self) -> EngineStatus {
        let node = self.datapath.maps.node();
        let failure = self.progress.failure.lock().expect("no panic under the lock").clone();
        let state = match (failure, self.progress.stop.load(SeqCst), self.progress.state.load(SeqCst)) {
            (Some(reason), ..) => EngineState::Failed(reason),
            (None, true, _) => EngineState::Stopped,
            (None, false, SLEEPING) => EngineState::Sleeping,
            (None, false, _) => EngineState::Running,
        };
        EngineStatus {
            mode: self.options.mode,
            cpu: self.options.cpu,
            batch: self.progress.batch.load(SeqCst),
            state,
            frames: node.frames.load(SeqCst),
            idle_frames: node.idle_frames.load(SeqCst),
            wakeups: node.wakeups.load(SeqCst),
        }
    }

    /// Stops the thread and waits until it has ended.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.progress.stop.store(true, SeqCst);
        self.datapath.doorbell.wake();
        while !thread.is_finished() {
            // A signal between the thread's read of `stop` and the start of its run has no effect, so it is
            // repeated.
            self.interrupt.send(thread.as_pthread_t());
            std::thread::sleep(INTERRUPT_AGAIN);
        }
        if thread.join().is_err() {
            tracing::error!("the engine thread panicked");
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Worker {
    options: EngineOptions,
    program: OwnedFd,
    wake: WakeRing,
    datapath: Arc<Datapath>,
    poller: Arc<Poller>,
    progress: Arc<Progress>,
    interrupt: Arc<Interrupt>,
}

impl Worker {
    fn run(mut self) {
        let outcome = match self.options.mode {
            EngineMode::Busy => self.busy(),
            EngineMode::Sleeping => self.sleeping(),
        };
        if let Err(error) = outcome {
            tracing::error!(%error, "the engine has stopped");
            let reason = format!("{error}; bring the node down and up again");
            *self.progress.failure.lock().expect("no panic under the lock") = Some(reason);
            // Nothing completes any more, so all waiting tasks are woken.
            self.datapath.set_down();
            self.poller.kick();
        }
    }

    fn stopped(&self) -> bool {
        self.progress.stop.load(SeqCst)
    }

    fn busy(&self) -> io::Result<()> {
        if self.options.batch.is_some() {
            return self.busy_runs();
        }
        let engine = pthread_self();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut load = (self.frames(), self.useful_frames());
                while !over.load(SeqCst) {
                    std::thread::park_timeout(ADAPT_EVERY);
                    let now = (self.frames(), self.useful_frames());
                    self.adapt(now.1.wrapping_sub(load.1), now.0.wrapping_sub(load.0));
                    load = now;
                    if self.progress.batch.load(SeqCst) != self.progress.next_batch.load(SeqCst) {
                        // A signal just before the run is entered has no effect. The next round sends it again.
                        self.interrupt.send(engine);
                    }
                }
            });
            let outcome = self.busy_runs();
            over.store(true, SeqCst);
            outcome
        })
    }

    fn busy_runs(&self) -> io::Result<()> {
        while !self.stopped() {
            self.hand_out(BUSY_FRAMES)?;
        }
        Ok(())
    }

    fn frames(&self) -> u64 {
        self.datapath.maps.node().frames.load(SeqCst)
    }

    fn useful_frames(&self) -> u64 {
        self.datapath.maps.node().useful_frames.load(SeqCst)
    }

    /// Sets the batch of the next run by the load of the last run.
    fn adapt(&self, useful: u64, frames: u64) {
        if self.options.batch.is_none() {
            self.progress.next_batch.store(adapted_batch(useful, frames), SeqCst);
        }
    }

    /// Runs bursts until no work was found for the spin time, and then sleeps. The first sleep after work is a
    /// short nap: more deadlines of acknowledgements are likely, and packets that arrive during the nap need not
    /// wake the engine for them. The first sleep without a deadline after one with a deadline has a limit too: while
    /// packets go on, the next one brings a retransmission deadline, and need not wake the engine to file it.
    ///
    /// A burst with rare work, as in an engine that only sends acknowledgements, does not restart the bursts.
    /// Otherwise the engine would take CPU time from the senders, which then would send less and leave even more
    /// acknowledgements to it.
    fn sleeping(&mut self) -> io::Result<()> {
        let mut burst = FIRST_BURST;
        let mut last_useful = Instant::now();
        let mut was_useful = false;
        let mut had_deadline = false;
        let mut before = self.useful_frames();
        while !self.stopped() {
            self.hand_out(burst)?;
            let now = self.useful_frames();
            let useful = now.wrapping_sub(before);
            before = now;
            self.adapt(useful, burst.into());
            if useful > 0 {
                last_useful = Instant::now();
                was_useful = true;
            }
            if useful * RARE_WORK >= u64::from(burst) {
                burst = (burst * 2).min(LARGEST_BURST);
                continue;
            }
            burst = FIRST_BURST;
            if last_useful.elapsed() >= self.options.spin {
                let deadline = Picoseconds(self.datapath.maps.node().next_deadline.load(SeqCst));
                let nap = match (was_useful, had_deadline && deadline.0 == 0) {
                    (true, _) => Some(slack()),
                    (false, true) => Some(REST),
                    (false, false) => None,
                };
                let rung = self.sleep(deadline, nap)?;
                was_useful = false;
                had_deadline = deadline.0 != 0;
                if rung {
                    last_useful = Instant::now();
                } else {
                    burst = DEADLINE_BURST;
                }
            }
        }
        Ok(())
    }

    /// Performs one live run. An interrupted run counts as done.
    fn hand_out(&self, frames: u32) -> io::Result<()> {
        let batch = self.progress.next_batch.load(SeqCst);
        self.progress.batch.store(batch, SeqCst);
        match bpf_call::run_live(self.program.as_fd(), frames, batch, frame_length(frames)) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => Ok(()),
            outcome => outcome,
        }
    }

    /// Waits for a doorbell, a wake-up by the wire program, the next deadline of the timing wheel, or the end of a
    /// nap. Returns false if only time has passed.
    fn sleep(&mut self, deadline: Picoseconds, nap: Option<Duration>) -> io::Result<bool> {
        let node = self.datapath.maps.node();
        self.datapath.doorbell.reset();
        let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
        let wake = planned_wake(now, deadline, nap);
        self.progress.state.store(SLEEPING, SeqCst);
        let idle = node.begin_sleep(Picoseconds(wake.map_or(0, |wake| clock_of(now + wake).0.max(1))));
        let outcome = if self.stopped() || !idle { Ok(true) } else { self.wait(wake) };
        self.progress.state.store(RUNNING, SeqCst);
        node.end_sleep();
        while self.wake.next().is_some() {}
        outcome
    }

    /// Waits for a wake-up, at most for `limit`. Returns whether there was one.
    fn wait(&self, limit: Option<Duration>) -> io::Result<bool> {
        let timeout = limit.map(TimeSpec::from_duration);
        let mut sources = [
            PollFd::new(self.datapath.doorbell.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut sources, timeout, None) {
            Ok(rung) => Ok(rung > 0),
            Err(nix::Error::EINTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the length of the frames of a run. To make a frame longer for a packet takes time, because the kernel clears what
/// is added: 60 ns for a small packet. To make it shorter takes none. But when a run begins, the kernel fills each of its pages
/// up to this length, so the frames of a short run are for small packets.
const fn frame_length(frames: u32) -> u32 {
    if frames >= LONG_RUN { bpf_call::LONGEST_LIVE_FRAME } else { SMALL_PACKET }
}

/// Returns the batch for the load of the last run: `useful` of its `frames` frames had work.
fn adapted_batch(useful: u64, frames: u64) -> u32 {
    if useful > 0 && useful * MUCH_WORK >= frames {
        EngineOptions::LOADED_BATCH
    } else {
        EngineOptions::IDLE_BATCH
    }
}

/// Returns the transport's clock, which wraps, at a time of the monotonic clock.
fn clock_of(time: Duration) -> Picoseconds {
    Picoseconds::from_nanos(time.as_nanos() as u64)
}

/// Returns how long an engine that goes to sleep at `now` sleeps at most: until a little after the next deadline of the
/// timing wheel, until the end of its nap, or without a limit. A deadline of 0 is none.
///
/// The wheel tells the start of a slot, which may be before the deadline itself. An engine that is up at that time only moves
/// the deadline to another slot, sleeps again, and has taken a CPU away from somebody twice.
fn planned_wake(now: Duration, next_deadline: Picoseconds, nap: Option<Duration>) -> Option<Duration> {
    if nap.is_some() {
        return nap;
    }
    if next_deadline.0 == 0 {
        return None;
    }
    let left = next_deadline.since(clock_of(now)).signed().max(0) as u64;
    Some(Duration::from_nanos(left.div_ceil(1000)) + LATE)
}

/// How late a sleeping engine may be.
const fn slack() -> Duration {
    Duration::from_nanos(SLEEPERS_SLACK.as_nanos())
}

/// Binds the calling thread to a CPU.
fn pin(cpu: Option<usize>) -> Result<(), NodeError> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    let bound = set.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    bound.map_err(|e| NodeError::Cpu { cpu, source: e.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_follows_the_load() {
        assert_eq!(adapted_batch(0, 0), EngineOptions::IDLE_BATCH);
        assert_eq!(adapted_batch(24, 100), EngineOptions::IDLE_BATCH);
        assert_eq!(adapted_batch(25, 100), EngineOptions::LOADED_BATCH);
    }

    #[test]
    fn options_out_of_range_are_named() {
        let batch = EngineOptions { batch: Some(257), ..EngineOptions::default() };
        assert!(matches!(batch.check(), Err(NodeError::EngineOption { option: "batch", value: 257, .. })));
        let spin = EngineOptions { spin: Duration::from_secs(2), ..EngineOptions::default() };
        assert!(matches!(spin.check(), Err(NodeError::EngineOption { option: "spin (us)", .. })));
        assert!(EngineOptions::default().check().is_ok());
    }

    #[test]
    fn a_sleeper_is_up_in_time_and_naps_after_work() {
        let now = Duration::from_millis(5);
        let slack = slack();
        let (soon, later) = (Picoseconds::from_nanos(5_008_000), Picoseconds::from_nanos(9_000_000));
        assert_eq!(planned_wake(now, Picoseconds(0), None), None);
        assert_eq!(planned_wake(now, Picoseconds(0), Some(slack)), Some(slack));
        assert_eq!(planned_wake(now, soon, None), Some(Duration::from_micros(8) + LATE));
        assert_eq!(planned_wake(now, later, None), Some(Duration::from_millis(4) + LATE));
        assert_eq!(planned_wake(now, later, Some(slack)), Some(slack));
    }

    /// After 213.5 days of uptime the clock of 64 bits of picoseconds begins again.
    #[test]
    fn a_sleeper_is_up_in_time_when_the_clock_wraps() {
        let now = Duration::from_nanos(u64::MAX / 1000 - 1_000_000);
        let deadline = clock_of(now + Duration::from_millis(3));
        assert!(deadline.0 < clock_of(now).0, "the deadline is behind the wrap");
        assert_eq!(planned_wake(now, deadline, None), Some(Duration::from_millis(3) + LATE));
        let after = now + Duration::from_millis(5);
        let past = planned_wake(after, deadline, None);
        assert_eq!(past, Some(LATE));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        let absent = EngineOptions { cpu: Some(1000), ..EngineOptions::default() };
        assert!(matches!(absent.check_cpu(), Err(NodeError::Cpu { cpu: 1000, .. })));
        assert!(EngineOptions::default().check_cpu().is_ok());
    }
}
