//! A flow of the kernel's TCP between two hosts.

use std::ffi::CStr;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tiercel_tests::Host;
use transport_user::connection_manager::round_trip_of;

/// Bytes of one call.
const CALL: usize = 256 << 10;

/// A TCP connection between two hosts, nothing sent yet.
pub(super) struct Tcp {
    near: TcpStream,
    far: TcpStream,
}

impl Tcp {
    /// Connects one host to another with this congestion control.
    pub(super) fn connect(from: &Host, to: &Host, congestion_control: &CStr) -> Result<Self> {
        let listener = to.run(|| TcpListener::bind((to.ipv4, 0))).context("cannot listen")?;
        let address: (Ipv4Addr, u16) = (to.ipv4, listener.local_addr()?.port());
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

/// A call that took no bytes in its time is none.
fn unless_late(result: std::io::Result<usize>) -> std::io::Result<usize> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(0),
        other => other,
    }
}
