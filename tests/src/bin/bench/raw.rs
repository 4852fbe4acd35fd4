//! The raw limit: the programs of `transport-ebpf/src/raw` at both ends of the cable, and an application that
//! uses them.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use aya::maps::{DevMap, Map};
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode};
use aya::sys::SyscallError;
use aya::{Ebpf, EbpfLoader};
use tiercel_tests::{Host, Pair, veth};

use crate::figures::{Measure, RawFigure, RawVerb};
use crate::machine::{ENGINE_CPU, as_application, pin};
use crate::run::{PATIENCE, Ran};
use crate::series::Latencies;

#[path = "../../../../transport-ebpf/src/raw/layout.rs"]
mod layout;

use layout::{
    ACKNOWLEDGED_TOGETHER, BUFFER_BYTES, BUFFERS, FRAME_BYTES, LIVE_FRAME_BYTES, PAYLOAD_BYTES, Page, kind,
};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tiercel-raw"));
const PROGRAM: &str = "raw_wire";

/// The largest number of operations in flight: as many as the protocol's windows, and less than the 256 frames
/// of a veth.
const WINDOW: u64 = 128;
/// Number of frames that the engine gets in one call, some 30 ms. It can be stopped between two calls.
const FRAMES: u32 = 1 << 18;

const _: () = assert!(WINDOW.is_multiple_of(ACKNOWLEDGED_TOGETHER));

/// Both ends, with a busy engine at host A.
#[derive(Debug)]
pub(crate) struct Raw {
    a: Shared,
    b: Shared,
    /// Programs of both ends, for their run times.
    pub(crate) programs: [u32; 2],
    // The fields are dropped in this order: A's programs and maps with its engine.
    _engine: Engine,
    _b: Ebpf,
}

impl Raw {
    /// Attaches the programs and starts the engine.
    pub(crate) fn up(pair: &Pair, batch: u32) -> Result<Self> {
        let (object_a, a, id_a) = pair.a.run(attach).context("the raw program at host A")?;
        let (object_b, b, id_b) = pair.b.run(attach).context("the raw program at host B")?;
        a.fill(SENDER);
        b.fill(PEER);
        let engine = pair.a.run(|| Engine::start(object_a, batch))?;
        Ok(Self { a, b, programs: [id_a, id_b], _engine: engine, _b: object_b })
    }

    /// Measures one figure.
    pub(crate) fn measure(
        &self,
        figure: &RawFigure,
        duration: Duration,
        latencies: &mut Latencies,
    ) -> Result<Ran> {
        let (wire, bytes) = match figure.verb {
            RawVerb::Bounce => (kind::BOUNCE, FRAME_BYTES),
            RawVerb::Place => (kind::PLACE, PAYLOAD_BYTES),
            RawVerb::Fetch => (kind::FETCH, PAYLOAD_BYTES),
        };
        let page = self.a.page();
        page.kind.0.store(wire, Release);
        let ran = as_application(|| match figure.measure {
            Measure::Latency => self.one_at_a_time(duration, latencies),
            Measure::Rate | Measure::Throughput => self.many(duration, bytes),
        });
        let ran = ran.with_context(|| format!("raw limit: {}", figure.title))?;
        self.check(figure.verb, ran.operations)?;
        Ok(ran)
    }

    /// Keeps the window full.
    fn many(&self, duration: Duration, bytes: u32) -> Result<Ran> {
        let page = self.a.page();
        let first = page.completed.0.load(Acquire);
        let start = Instant::now();
        let (completed, elapsed) = loop {
            let completed = page.completed.0.load(Acquire);
            // Only whole groups are posted, because a peer acknowledges nothing else.
            let whole = completed - (completed - first) % ACKNOWLEDGED_TOGETHER;
            page.producer.0.store(whole + WINDOW, Release);
            let elapsed = start.elapsed();
            if elapsed >= duration {
                break (completed, elapsed);
            }
        };
        self.drain()?;
        Ok(Ran {
            timed: completed - first,
            operations: page.completed.0.load(Acquire) - first,
            bytes,
            elapsed,
            median: None,
        })
    }

    fn one_at_a_time(&self, duration: Duration, latencies: &mut Latencies) -> Result<Ran> {
        let page = self.a.page();
        let begin = Instant::now();
        Ran::one_at_a_time(duration, latencies, || {
            let next = page.producer.0.load(Relaxed) + 1;
            page.producer.0.store(next, Release);
            let mut turns = 0u32;
            while page.completed.0.load(Acquire) != next {
                turns += 1;
                // Reading the clock takes longer than reading the counter.
                ensure!(turns & 0xffff != 0 || begin.elapsed() < duration + PATIENCE, "a frame was lost");
            }
            Ok(())
        })
    }

    /// Waits until everything that was posted is complete.
    fn drain(&self) -> Result<()> {
        let page = self.a.page();
        let start = Instant::now();
        loop {
            let missing = page.producer.0.load(Relaxed) - page.completed.0.load(Acquire);
            if missing == 0 {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "{missing} frames were lost");
            std::hint::spin_loop();
        }
    }

    /// Checks that the payloads were copied, and not only counted. Then makes both ends different again.
    fn check(&self, verb: RawVerb, operations: u64) -> Result<()> {
        let (from, to, before) = match verb {
            RawVerb::Bounce => return Ok(()),
            RawVerb::Place => (SENDER, &self.b, PEER),
            RawVerb::Fetch => (PEER, &self.a, SENDER),
        };
        let touched = usize::try_from(operations)?.min(BUFFERS);
        let copied = (0..BUFFERS).filter(|n| to.holds(*n, from)).count();
        ensure!(copied >= touched, "{touched} payloads were sent, but {copied} arrived");
        to.fill(before);
        Ok(())
    }
}

/// The bytes of which the sender's and the peer's payloads consist.
const SENDER: u8 = 0x5a;
const PEER: u8 = 0xc3;

/// Loads the programs and attaches them to the host's interface. Must be called inside the host's namespace.
fn attach() -> Result<(Ebpf, Shared, u32)> {
    let index = veth::interface_index(Host::INTERFACE)?;
    let mut object = EbpfLoader::new().load(OBJECT)?;
    let mut port: DevMap<_> = object.map_mut("PORT").context("no map PORT")?.try_into()?;
    port.set(0, index, None, 0)?;
    let program = program(&mut object)?;
    program.load()?;
    program.attach_to_if_index(index, XdpMode::Driver)?;
    let id = program.info()?.id();
    let shared = Shared {
        page: Mapping::new(&object, "PAGE", size_of::<Page>())?,
        buffers: Mapping::new(&object, "BUFFER", BUFFERS * BUFFER_BYTES)?,
    };
    Ok((object, shared, id))
}

fn program(object: &mut Ebpf) -> Result<&mut Xdp> {
    Ok(object.program_mut(PROGRAM).context("no raw program in the object")?.try_into()?)
}

/// The maps of one end.
#[derive(Debug)]
struct Shared {
    page: Mapping,
    buffers: Mapping,
}

impl Shared {
    fn page(&self) -> &Page {
        // SAFETY: the map's value is a Page, which has only atomics. Mappings begin on a page, so it is aligned.
        unsafe { self.page.address.cast().as_ref() }
    }

    /// Fills all payloads with one byte. Must be called only while nothing is in flight.
    fn fill(&self, byte: u8) {
        // SAFETY: this is the whole mapping, which nobody else accesses now.
        unsafe { self.buffers.address.as_ptr().write_bytes(byte, BUFFERS * BUFFER_BYTES) };
    }

    /// Returns whether payload `n` consists of one byte. Must be called only while nothing is in flight.
    fn holds(&self, n: usize, byte: u8) -> bool {
        assert!(n < BUFFERS);
        // SAFETY: within the mapping by the assertion; nobody writes there now.
        let payload = unsafe {
            let start = self.buffers.address.as_ptr().add(n * BUFFER_BYTES);
            std::slice::from_raw_parts(start, PAYLOAD_BYTES as usize)
        };
        payload.iter().all(|found| *found == byte)
    }
}

/// An array map in this process's memory.
struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the value. Its users take care of what is shared with the programs.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Mapping {
    fn new(object: &Ebpf, name: &str, bytes: usize) -> Result<Self> {
        let Some(Map::Array(map)) = object.map(name) else { bail!("no array {name} in the object") };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = map.fd().as_fd().as_raw_fd();
        // SAFETY: the call makes a new mapping at an address that the kernel chooses.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        ensure!(address != libc::MAP_FAILED, "cannot map {name}: {}", io::Error::last_os_error());
        Ok(Self { address: NonNull::new(address.cast()).context("mapped at 0")?, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this memory, and nothing borrows from it any more. After a failure it only stays
        // mapped.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// The engine thread. It stops when dropped.
#[derive(Debug)]
struct Engine {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Engine {
    /// Must be called inside the sender's host, because the frames belong to the thread's namespace.
    fn start(mut object: Ebpf, batch: u32) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            pin(ENGINE_CPU)?;
            while !stopped.load(Relaxed) {
                hand_out(program(&mut object)?, FRAMES, batch)?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("raw-engine".to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let outcome = self.thread.take().map(JoinHandle::join);
        // The code that waited for the engine has failed already. This prints the reason.
        match outcome {
            Some(Ok(Err(error))) => eprintln!("the raw engine failed: {error:#}"),
            Some(Err(_)) => eprintln!("the raw engine panicked"),
            None | Some(Ok(Ok(()))) => {}
        }
    }
}

/// Passes live frames to the program, as frames of the loopback device.
fn hand_out(program: &Xdp, frames: u32, batch: u32) -> Result<()> {
    const LOOPBACK: u32 = 1;
    // `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    let context = [0, LIVE_FRAME_BYTES, 0, LOOPBACK, 0, 0].map(u32::to_ne_bytes);
    let outcome = program.test_run(TestRunOptions {
        data_in: Some(&[0; LIVE_FRAME_BYTES as usize]),
        ctx_in: Some(context.as_flattened()),
        repeat: frames,
        attrs: TestRunAttrs::new().xdp_live_frames(batch),
        ..TestRunOptions::new()
    });
    match outcome {
        Err(ProgramError::SyscallError(SyscallError { io_error, .. }))
            if io_error.kind() == io::ErrorKind::Interrupted =>
        {
            Ok(())
        }
        outcome => outcome.map(drop).context("cannot pass frames to the raw engine"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::RAW;
    use crate::series::latencies;

    /// Checks that the verifier accepts the programs, and that each kind of operation completes and writes the
    /// right bytes.
    #[test]
    #[ignore = "needs root: cargo xtask test"]
    fn the_raw_limit_can_be_measured() -> Result<()> {
        let pair = Pair::direct()?;
        for figure in &RAW {
            let raw = Raw::up(&pair, 4)?;
            let ran = raw.measure(figure, Duration::from_millis(10), &mut latencies())?;
            assert!(ran.operations > 0, "{}", figure.name);
        }
        Ok(())
    }
}
