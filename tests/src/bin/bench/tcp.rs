//! The kernel's TCP on the same cable: what a program would use otherwise. It has both CPUs as Tiercel has: the client
//! that of the application, the server that of the engine. Both ends poll their sockets, because Tiercel's do.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tiercel_tests::Pair;

use crate::figures::{Baseline, MESSAGE, Measure, SMALL};
use crate::machine::{ENGINE_CPU, as_application, pin};
use crate::run::{PATIENCE, Ran};
use crate::series::Latencies;

/// All figures of TCP.
pub(crate) const TCP: [Baseline; 3] = [
    Baseline {
        name: "tcp_message_64_rate",
        title: "64 B messages, one call each",
        measure: Measure::Rate,
        instead_of: "write_64_rate",
    },
    Baseline {
        name: "tcp_message_1mib_throughput",
        title: "1 MiB messages",
        measure: Measure::Throughput,
        instead_of: "write_1mib_throughput",
    },
    Baseline {
        name: "tcp_request_64_latency",
        title: "64 B request, 64 B answer",
        measure: Measure::Latency,
        instead_of: "read_64_latency",
    },
];

/// Measures one figure on a new connection from A to B.
pub(crate) fn measure(
    pair: &Pair,
    figure: &Baseline,
    duration: Duration,
    latencies: &mut Latencies,
) -> Result<Ran> {
    let listener = pair.b.run(|| TcpListener::bind((pair.b.ipv4, 0))).context("cannot listen")?;
    let address = (pair.b.ipv4, listener.local_addr()?.port());
    // A socket stays in the namespace in which it was made.
    let client = pair.a.run(|| TcpStream::connect(address)).context("cannot connect")?;
    let (server, _) = listener.accept()?;
    for socket in [&client, &server] {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            pin(ENGINE_CPU)?;
            match figure.measure {
                Measure::Latency => answer(server, &over),
                Measure::Rate | Measure::Throughput => drain(server, &over),
            }
        });
        let ran = as_application(|| match figure.measure {
            Measure::Latency => ask(client, duration, latencies),
            Measure::Rate => send(client, SMALL, duration),
            Measure::Throughput => send(client, MESSAGE, duration),
        });
        over.store(true, Relaxed);
        let received = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let ran = ran.with_context(|| format!("TCP: {}", figure.title))?;
        let sent = ran.operations * u64::from(ran.bytes);
        ensure!(received == sent, "TCP: {received} of {sent} bytes arrived");
        Ok(ran)
    })
}

/// Sends one message after the other, each by a call of its own.
fn send(mut socket: TcpStream, bytes: u32, duration: Duration) -> Result<Ran> {
    let message = vec![0x5a; bytes as usize];
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < duration {
        write_all(&mut socket, &message)?;
        sent += 1;
    }
    // What waits in the socket's buffer is not timed: it is little beside the rest.
    Ok(Ran { timed: sent, operations: sent, bytes, elapsed: start.elapsed(), median: None })
}

/// Sends a request and waits for its answer, again and again.
fn ask(mut socket: TcpStream, duration: Duration, latencies: &mut Latencies) -> Result<Ran> {
    let (request, mut answer) = ([0x5a; SMALL as usize], [0; SMALL as usize]);
    let ran = Ran::one_at_a_time(duration, latencies, || {
        write_all(&mut socket, &request)?;
        read_exact(&mut socket, &mut answer, None)?;
        Ok(())
    })?;
    Ok(Ran { bytes: SMALL, ..ran })
}

/// Answers each request until the client is gone. Returns the bytes of all requests.
fn answer(mut socket: TcpStream, over: &AtomicBool) -> Result<u64> {
    let mut request = [0; SMALL as usize];
    let mut received = 0;
    while read_exact(&mut socket, &mut request, Some(over))? {
        received += u64::from(SMALL);
        write_all(&mut socket, &request)?;
    }
    Ok(received)
}

/// Takes what arrives until the client is gone. Returns the number of bytes.
fn drain(mut socket: TcpStream, over: &AtomicBool) -> Result<u64> {
    let mut buffer = vec![0; MESSAGE as usize];
    let mut received = 0;
    loop {
        match read(&mut socket, &mut buffer, Some(over))? {
            0 => return Ok(received),
            bytes => received += bytes as u64,
        }
    }
}

fn write_all(socket: &mut TcpStream, mut bytes: &[u8]) -> Result<()> {
    let begin = Instant::now();
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                ensure!(begin.elapsed() < PATIENCE, "the peer takes nothing more");
                std::hint::spin_loop();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads until the buffer is full. Returns false if the other end is gone before the first byte.
fn read_exact(socket: &mut TcpStream, buffer: &mut [u8], over: Option<&AtomicBool>) -> Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(socket, &mut buffer[filled..], over)? {
            0 => {
                ensure!(filled == 0, "the other end went in the middle of a message");
                return Ok(false);
            }
            bytes => filled += bytes,
        }
    }
    Ok(true)
}

/// Reads what there is, and waits for it. Returns 0 if the other end is gone.
fn read(socket: &mut TcpStream, buffer: &mut [u8], over: Option<&AtomicBool>) -> Result<usize> {
    let mut begin = None;
    loop {
        match socket.read(buffer) {
            Ok(bytes) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // A server waits for as long as its client works.
                if over.is_none_or(|over| over.load(Relaxed)) {
                    let begin = *begin.get_or_insert_with(Instant::now);
                    ensure!(begin.elapsed() < PATIENCE, "nothing arrives");
                }
                std::hint::spin_loop();
            }
            Err(error) => return Err(error.into()),
        }
    }
}
