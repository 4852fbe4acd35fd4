//! The thread that moves frames through the model.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fabric_model::{Corruption, Egress, Fabric, FabricStats, FlowHash, Impairments, Port, Time};
use serde::Serialize;

use super::pass_program::PassProgram;
use super::socket::{PacketSocket, Pool, Sent};
use crate::Namespace;

/// The largest number of frames that wait for a host that does not take them.
const BACKLOG_LIMIT: usize = 1 << 16;
/// The time to wait when a ring is full. Its host empties it in about this time.
const FULL_RING_PAUSE: Duration = Duration::from_micros(20);

/// Counters of a live fabric: those of the model, and those of the kernel. For a run that must be
/// explained frame by frame, all but `fabric` and `retries` must be zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveStats {
    /// The counters of the model.
    pub fabric: FabricStats,
    /// Frames from hosts that the kernel dropped before the switch took them.
    pub overrun: u64,
    /// Frames to hosts that were dropped because the host took none for too long or was gone.
    pub undeliverable: u64,
    /// The number of times that a host's ring was full and the remaining frames were sent later.
    pub retries: u64,
}

#[derive(Debug)]
struct Shared {
    fabric: Mutex<Fabric>,
    began: Instant,
    stop: AtomicBool,
    /// When it is readable, the thread must check `stop` and the fabric again.
    wake: OwnedFd,
    overrun: AtomicU64,
    undeliverable: AtomicU64,
    retries: AtomicU64,
}

impl Shared {
    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed().into()
    }

    fn fabric(&self) -> MutexGuard<'_, Fabric> {
        self.fabric.lock().expect("the fabric's thread does not panic with the lock held")
    }

    fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the kernel reads eight bytes. The write can only fail when the counter is full, and then it
        // is set.
        unsafe { libc::write(self.wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// A running fabric, from [`Pair`](super::Pair) or [`Network`](super::Network). Time zero of its configuration is
/// the time of its creation. Dropping it stops it, and frames in flight are lost.
#[derive(Debug)]
pub struct LiveFabric {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Kept because it affects the cables.
    _pass_programs: Vec<PassProgram>,
    _namespace: Namespace,
}

impl LiveFabric {
    /// Puts a fabric between interfaces of a namespace, port 0 first.
    pub(super) fn start(
        fabric: Fabric,
        namespace: Namespace,
        interfaces: &[u32],
        frame_size: usize,
    ) -> io::Result<Self> {
        // SAFETY: takes no pointer.
        let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if wake < 0 {
            return Err(io::Error::last_os_error());
        }
        let shared = Arc::new(Shared {
            fabric: Mutex::new(fabric),
            began: Instant::now(),
            stop: AtomicBool::new(false),
            // SAFETY: the descriptor is new and nobody else's.
            wake: unsafe { OwnedFd::from_raw_fd(wake) },
            overrun: AtomicU64::new(0),
            undeliverable: AtomicU64::new(0),
            retries: AtomicU64::new(0),
        });
        let (pass_programs, ports) = namespace.run(|| {
            let programs: io::Result<Vec<_>> = interfaces.iter().map(|i| PassProgram::attach(*i)).collect();
            let ports: io::Result<Vec<_>> = interfaces.iter().map(|i| PortIo::open(*i)).collect();
            io::Result::Ok((programs?, ports?))
        })?;
        let pool = Pool::new(frame_size);
        let mut switch = Switch { shared: shared.clone(), ports, pool, arrived: Vec::new() };
        let thread = thread::Builder::new().name("fabric".to_owned()).spawn(move || {
            if let Err(error) = switch.run() {
                panic!("the live fabric: {error}");
            }
        })?;
        Ok(Self { shared, thread: Some(thread), _pass_programs: pass_programs, _namespace: namespace })
    }

    /// Returns the current counters.
    pub fn stats(&self) -> LiveStats {
        LiveStats {
            fabric: self.shared.fabric().stats(),
            overrun: self.shared.overrun.load(Ordering::Relaxed),
            undeliverable: self.shared.undeliverable.load(Ordering::Relaxed),
            retries: self.shared.retries.load(Ordering::Relaxed),
        }
    }

    /// Returns the links that a flow's packets take between two hosts; see [`Fabric::route`].
    ///
    /// # Panics
    /// If there is no such port.
    pub fn route(&self, from: Port, to: Port, flow: FlowHash) -> Vec<Egress> {
        self.shared.fabric().route(from, to, flow)
    }

    /// Returns the bytes that wait for `egress` now; see [`Fabric::queued_bytes`].
    ///
    /// # Panics
    /// If there is no such link.
    pub fn queued_bytes(&self, egress: Egress) -> u64 {
        let fabric = self.shared.fabric();
        fabric.queued_bytes(egress, self.shared.now())
    }

    /// Returns the frames corrupted towards `port` so far; see [`Fabric::corruptions`].
    ///
    /// # Panics
    /// If there is no such port.
    pub fn corruptions(&self, port: Port) -> Vec<Corruption> {
        self.shared.fabric().corruptions(port).to_vec()
    }

    /// Changes the impairments of a link; see [`Fabric::set_impairments`].
    ///
    /// # Panics
    /// If there is no such link.
    pub fn set(&self, link: impl Into<Egress>, impairments: Impairments) {
        self.shared.fabric().set_impairments(link, impairments);
    }

    /// Unplugs or plugs in a host or a cable between switches. The host notices only that no frames arrive; see
    /// [`Fabric::set_link`].
    ///
    /// # Panics
    /// If there is no such link.
    pub fn set_link(&self, link: impl Into<Egress>, up: bool) {
        self.shared.fabric().set_link(link, up);
    }
}

impl Drop for LiveFabric {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.wake();
        let ended = self.thread.take().map(JoinHandle::join);
        if let Some(Err(panic)) = ended
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// One port in the thread.
#[derive(Debug)]
struct PortIo {
    socket: PacketSocket,
    /// Frames that have crossed the fabric and wait for space on the cable.
    backlog: VecDeque<Vec<u8>>,
}

impl PortIo {
    fn open(interface: u32) -> io::Result<Self> {
        Ok(Self { socket: PacketSocket::open(interface)?, backlog: VecDeque::new() })
    }
}

/// The state of the thread.
struct Switch {
    shared: Arc<Shared>,
    ports: Vec<PortIo>,
    pool: Pool,
    /// Frames just received from one port. It is empty between two rounds, and kept to reuse its memory.
    arrived: Vec<Vec<u8>>,
}

impl Switch {
    fn run(&mut self) -> io::Result<()> {
        // By default timers may be 50 us late, which is as long as many delays.
        // SAFETY: takes no pointer; affects the calling thread alone.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        while !self.shared.stop.load(Ordering::Relaxed) {
            let taken = self.take_in()?;
            let due = self.cross();
            let full = self.put_out()?;
            if taken == 0 {
                let pause = full.then_some(FULL_RING_PAUSE);
                let until_due = due.map(|due| due.since(self.shared.now()).into());
                self.wait(pause.into_iter().chain(until_due).min())?;
            }
        }
        Ok(())
    }

    /// Takes up to a batch from every port into the fabric. Returns the number of frames.
    fn take_in(&mut self) -> io::Result<usize> {
        let mut taken = 0;
        for (index, port) in self.ports.iter().enumerate() {
            let count = port.socket.receive(&mut self.pool, &mut self.arrived)?;
            if count == 0 {
                continue;
            }
            taken += count;
            let drops = port.socket.take_drops()?;
            self.shared.overrun.fetch_add(drops, Ordering::Relaxed);
            let mut fabric = self.shared.fabric();
            let now = self.shared.now();
            for frame in self.arrived.drain(..) {
                fabric.offer(now, Port(index as u16), frame);
            }
        }
        Ok(taken)
    }

    /// Moves frames that have crossed the fabric to the ports. Returns the time at which the next frame will
    /// have crossed it.
    fn cross(&mut self) -> Option<Time> {
        let mut fabric = self.shared.fabric();
        let now = self.shared.now();
        while let Some(delivery) = fabric.poll(now) {
            let backlog = &mut self.ports[usize::from(delivery.port.0)].backlog;
            if backlog.len() < BACKLOG_LIMIT {
                backlog.push_back(delivery.frame);
            } else {
                self.shared.undeliverable.fetch_add(1, Ordering::Relaxed);
            }
        }
        fabric.next_event()
    }

    /// Puts frames on the cables. Returns true if some did not fit.
    fn put_out(&mut self) -> io::Result<bool> {
        let mut full = false;
        for port in &mut self.ports {
            let waiting = port.backlog.len();
            match port.socket.send(&mut self.pool, &mut port.backlog)? {
                Sent::All => {}
                Sent::Full => {
                    full = true;
                    self.shared.retries.fetch_add(1, Ordering::Relaxed);
                }
                Sent::Gone => {
                    self.shared.undeliverable.fetch_add(waiting as u64, Ordering::Relaxed);
                }
            }
        }
        Ok(full)
    }

    /// Sleeps until a frame arrives, another thread wakes this one, or the time is over.
    fn wait(&self, at_most: Option<Duration>) -> io::Result<()> {
        let sources = self.ports.iter().map(|port| port.socket.as_fd()).chain([self.shared.wake.as_fd()]);
        let mut polled: Vec<_> = sources
            .map(|source| libc::pollfd { fd: source.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
        let at_most = at_most.map(|at_most| libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: at_most.subsec_nanos().into(),
        });
        let timeout = at_most.as_ref().map_or(std::ptr::null(), |at_most| &raw const *at_most);
        let count = polled.len() as libc::nfds_t;
        // SAFETY: the array holds `count` entries, the timeout is null or valid; both outlive the call.
        let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), count, timeout, std::ptr::null()) };
        match ready {
            0.. => Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                error => Err(error),
            },
        }
    }
}
