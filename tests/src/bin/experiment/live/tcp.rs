//! A flow of the kernel's TCP between two hosts.

use std::ffi::CStr;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tiercel_node::connection_manager::round_trip_of;
use tiercel_tests::Host;

/// Bytes of user data that all flows had delivered, at times since the start.
pub(super) type Course = Vec<(Duration, u64)>;

/// Bytes of one call.
const CALL: usize = 256 << 10;

/// A TCP connection between two hosts, nothing sent yet.
pub(super) struct Tcp {
    near: TcpStream,
    far: TcpStream,
}

impl Tcp {
    /// Connects one host to another over IPv4 with this congestion control.
    pub(super) fn connect(from: &Host, to: &Host, congestion_control: &CStr) -> Result<Self> {
        Self::connect_to(from, to, to.ipv4.into(), congestion_control)
    }

    fn connect_to(from: &Host, to: &Host, address: IpAddr, congestion_control: &CStr) -> Result<Self> {
        let listener = to.run(|| TcpListener::bind((address, 0))).context("cannot listen")?;
        let address = (address, listener.local_addr()?.port());
        // A socket stays in the namespace in which it was made.
        let near = from.run(|| TcpStream::connect(address)).context("cannot connect")?;
        let (far, _) = listener.accept()?;
        let name = congestion_control.to_bytes();
        // SAFETY: the kernel reads `name`, which outlives the call.
        let done = unsafe {
            libc::setsockopt(
                near.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                name.as_ptr().cast(),
                name.len() as libc::socklen_t,
            )
        };
        if done != 0 {
            let error = std::io::Error::last_os_error();
            return Err(error).with_context(|| format!("the kernel has no TCP {congestion_control:?}"));
        }
        Ok(Self { near, far })
    }

    /// Returns the round trip time of the handshake.
    pub(super) fn round_trip(&self) -> Result<Duration> {
        round_trip_of(&self.near).context("the handshake measures the round trip time")
    }

    /// Sends without end for `duration`. Returns what arrived in the second half, bits per second.
    pub(super) fn goodput(self, duration: Duration) -> Result<f64> {
        let Self { mut near, mut far } = self;
        let begin = Instant::now();
        far.set_read_timeout(Some(Duration::from_millis(50)))?;
        near.set_write_timeout(Some(Duration::from_millis(50)))?;
        thread::scope(|scope| {
            let sender = scope.spawn(move || -> Result<()> {
                let data = vec![0x5a; CALL];
                while begin.elapsed() < duration {
                    unless_late(near.write(&data))?;
                }
                // What still waits to be sent does not matter, and must not delay the next flow.
                Ok(near.shutdown(Shutdown::Both)?)
            });
            let (mut buffer, mut half, mut all) = (vec![0; CALL], None, 0);
            while begin.elapsed() < duration {
                all += unless_late(far.read(&mut buffer))? as u64;
                if half.is_none() && begin.elapsed() >= duration / 2 {
                    half = Some((begin.elapsed(), all));
                }
            }
            let end = begin.elapsed();
            sender.join().expect("sending does not panic")?;
            let (from, before) = half.context("no data in the second half")?;
            Ok((all - before) as f64 * 8.0 / (end - from).as_secs_f64())
        })
    }
}

/// Bytes of one write at a steady rate.
const PIECE: usize = 13_056;
/// How long a call waits before it looks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(5);

/// A TCP connection with CUBIC over IPv6 that sends at a steady rate. After a timeout the kernel takes another flow
/// label, so the connection can leave its path.
pub(super) struct PacedTcp(Tcp);

impl PacedTcp {
    /// Connects one host to another.
    pub(super) fn connect(from: &Host, to: &Host) -> Result<Self> {
        let tcp = Tcp::connect_to(from, to, to.ipv6.into(), c"cubic")?;
        tcp.near.set_nodelay(true)?;
        Ok(Self(tcp))
    }

    /// Sends so many bytes, and waits until they have arrived.
    pub(super) fn probe(&mut self, bytes: u64) -> Result<()> {
        let Tcp { near, far } = &mut self.0;
        let (mut sent, mut received, mut buffer) = (0, 0, [0; 16 << 10]);
        while received < bytes {
            // A window of a new connection holds this much.
            while sent < bytes && sent - received < buffer.len() as u64 {
                sent += near.write(&buffer[..buffer.len().min((bytes - sent) as usize)])? as u64;
            }
            received += far.read(&mut buffer)? as u64;
        }
        Ok(())
    }

    /// Sends on all connections, each at `rate` bits per second, and calls `fails` after the first of the times. Runs
    /// until the second time, and samples the bytes that have arrived at intervals of the third.
    pub(super) fn run(
        flows: Vec<Self>,
        rate: u64,
        (before, end, every): (Duration, Duration, Duration),
        fails: impl Fn() -> Result<()>,
    ) -> Result<Course> {
        let (received, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let begin = Instant::now();
        thread::scope(|scope| {
            let (received, over) = (&received, &over);
            let mut threads = vec![];
            for Self(Tcp { mut near, mut far }) in flows {
                threads.push(scope.spawn(move || send_at_rate(&mut near, rate, begin, over)));
                threads.push(scope.spawn(move || receive(&mut far, received, over)));
            }
            let sample = || -> Result<Course> {
                let (mut course, mut failed) = (vec![], false);
                while begin.elapsed() < end {
                    if !failed && begin.elapsed() >= before {
                        fails()?;
                        failed = true;
                    }
                    course.push((begin.elapsed(), received.load(Ordering::Relaxed)));
                    thread::sleep(every);
                }
                Ok(course)
            };
            let course = sample();
            over.store(true, Ordering::Relaxed);
            for thread in threads {
                thread.join().expect("a flow does not panic")?;
            }
            course
        })
    }
}

/// Sends at a steady rate. What the connection cannot take is not made up for later than a few pieces.
fn send_at_rate(near: &mut TcpStream, rate: u64, begin: Instant, over: &AtomicBool) -> Result<()> {
    const CATCH_UP: u64 = 16;
    let (data, mut sent) = ([0x5a; PIECE], 0u64);
    near.set_write_timeout(Some(PATIENCE))?;
    while !over.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * rate as f64 / 8.0) as u64;
        sent = sent.max(due.saturating_sub(CATCH_UP * PIECE as u64));
        if sent < due {
            sent += unless_late(near.write(&data))? as u64;
        } else {
            thread::sleep(Duration::from_secs_f64(PIECE as f64 * 8.0 / rate as f64));
        }
    }
    // What still waits must not delay the next flows.
    Ok(near.shutdown(Shutdown::Both)?)
}

fn receive(far: &mut TcpStream, received: &AtomicU64, over: &AtomicBool) -> Result<()> {
    let mut buffer = vec![0; CALL];
    far.set_read_timeout(Some(PATIENCE))?;
    while !over.load(Ordering::Relaxed) {
        received.fetch_add(unless_late(far.read(&mut buffer))? as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// A call that took no bytes in its time is none.
fn unless_late(result: std::io::Result<usize>) -> std::io::Result<usize> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(0),
        other => other,
    }
}
