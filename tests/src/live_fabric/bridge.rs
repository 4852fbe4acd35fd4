//! Two hosts at the kernel's own bridge, and a recorder of the frames that arrive there.
//!
//! The live fabric's thread takes as much time per frame as many gaps between paced packets. Here no thread delays
//! a frame: the frames of one host's XDP program cross the bridge in the kernel's soft interrupt, and the
//! kernel records the time. The recorder reads this time later.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;

use super::hosts::{ETHERNET, Host, plug_in};
use super::pass_program::PassProgram;
use super::socket::{BATCH, PacketSocket, Pool};
use crate::Namespace;
use crate::veth::DEFAULT_MTU;

/// Pause between two reads of the received frames. The kernel's buffer holds thousands of frames, and each read
/// takes CPU time from the hosts that are measured.
const PAUSE: Duration = Duration::from_millis(5);

/// Two hosts at a bridge.
#[derive(Debug)]
pub struct Bridge {
    /// `10.7.0.1`.
    pub a: Host,
    /// `10.7.0.2`.
    pub b: Host,
    /// The switch's ends of both cables.
    ports: [u32; 2],
    /// Kept because they affect the cables; see their type.
    _pass_programs: [PassProgram; 2],
    switch: Namespace,
}

impl Bridge {
    /// Makes two hosts and the bridge between them.
    ///
    /// # Errors
    /// Without root, `ip` or `tc` (iproute2).
    pub fn new() -> anyhow::Result<Self> {
        let (a, b) = (Host::new(0)?, Host::new(1)?);
        let switch = Namespace::new()?;
        let ports = [plug_in(&switch, &a, 0, DEFAULT_MTU)?, plug_in(&switch, &b, 1, DEFAULT_MTU)?];
        a.configure([&a, &b].into_iter())?;
        b.configure([&a, &b].into_iter())?;
        let [to_a, to_b] = ports.map(|port| switch.run(|| PassProgram::attach(port)));
        let bridge = "link add bridge type bridge mcast_snooping 0\n";
        let joined = "link set port0 master bridge\nlink set port1 master bridge\nlink set bridge up\n";
        switch.ip(&format!("{bridge}{joined}")).context("cannot make a bridge")?;
        Ok(Self { a, b, ports, _pass_programs: [to_a?, to_b?], switch })
    }

    /// Records every frame that host A sends from now on. `read` gets a frame and the time of its arrival, in
    /// nanoseconds of the monotonic clock, and returns what is kept of it.
    ///
    /// # Errors
    /// If the kernel gives no packet socket.
    pub fn capture<T: Send + 'static>(
        &self,
        read: impl FnMut(u64, &[u8]) -> Option<T> + Send + 'static,
    ) -> io::Result<Capture<T>> {
        let socket = self.switch.run(|| PacketSocket::open(self.ports[0]))?;
        socket.stamp()?;
        Capture::start(socket, read)
    }
}

#[derive(Debug)]
struct Seen<T> {
    kept: Mutex<Vec<T>>,
    /// Frames for which the kernel's buffer had no space.
    missed: AtomicU64,
    /// How often all received frames were read.
    rounds: AtomicU64,
    stop: AtomicBool,
}

/// A recorder of the frames that arrive on a cable. Dropping it ends the recording.
#[derive(Debug)]
pub struct Capture<T> {
    seen: Arc<Seen<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Capture<T> {
    fn start(
        socket: PacketSocket,
        mut read: impl FnMut(u64, &[u8]) -> Option<T> + Send + 'static,
    ) -> io::Result<Self> {
        let seen = Arc::new(Seen {
            kept: Mutex::default(),
            missed: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let shared = seen.clone();
        let mut look = move || -> io::Result<()> {
            let mut pool = Pool::new(DEFAULT_MTU as usize + ETHERNET);
            let mut batch = vec![];
            while !shared.stop.load(Ordering::Relaxed) {
                // Read again for each batch, because the wall clock may be set.
                let ahead = wall_clock_ahead();
                let came = socket.receive_stamped(&mut pool, |at, frame| {
                    batch.extend(read(at.wrapping_sub(ahead), frame));
                })?;
                shared.kept.lock().unwrap_or_else(PoisonError::into_inner).append(&mut batch);
                shared.missed.fetch_add(socket.take_drops()?, Ordering::Relaxed);
                if came < BATCH {
                    shared.rounds.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(PAUSE);
                }
            }
            Ok(())
        };
        let thread = thread::Builder::new().name("capture".to_owned()).spawn(move || {
            if let Err(error) = look() {
                panic!("the capture: {error}");
            }
        })?;
        Ok(Self { seen, thread: Some(thread) })
    }

    /// Returns what was kept since the last call, after all frames that have arrived by now are read.
    pub fn take(&self) -> Vec<T> {
        // The round in progress may have begun before the last frame arrived. A thread that ended makes no more
        // rounds.
        let enough = self.seen.rounds.load(Ordering::SeqCst) + 2;
        let alive = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while self.seen.rounds.load(Ordering::SeqCst) < enough && alive() {
            thread::sleep(PAUSE);
        }
        std::mem::take(&mut self.seen.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of frames that could not be read, because there were too many.
    pub fn missed(&self) -> u64 {
        self.seen.missed.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Capture<T> {
    fn drop(&mut self) {
        self.seen.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the capture failed");
        }
    }
}

/// Returns the nanoseconds by which the wall clock is ahead of the monotonic one, from the fastest of a few tries.
fn wall_clock_ahead() -> u64 {
    let tried = (0..4).map(|_| {
        let [before, wall, after] =
            [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].map(nanoseconds);
        (after - before, wall.wrapping_sub(before.midpoint(after)))
    });
    tried.min().map_or(0, |(_, ahead)| ahead)
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the timespec, which outlives the call.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut now) }, 0, "a clock that every Linux has");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
