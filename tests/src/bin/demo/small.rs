//! 64-byte operations on the direct link: the latency of one, and the rate per second.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tiercel::{Access, Connection, MemoryRegion, PostError};
use tiercel_tests::nodes::TwoNodes;
use transport_common::queues::{Completion, RECEIVE_QUEUE_DEPTH, Verb, WorkFlags, WorkRequest};

use crate::measure::{Latencies, Latency, Progress};
use crate::report::Phase;
use crate::snapshot::Snapshot;

/// Bytes of an operation, except fetch-add, which has 8.
const BYTES: u32 = 64;
/// The number of operations in a measurement of the rate, per operation in a measurement of the latency.
const RATE_FACTOR: u64 = 5;
/// When the rate is measured, every request with this number asks for a completion.
const SIGNAL_EVERY: u64 = 16;
/// After this time without a completion, the measurement fails.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of receives that are kept posted for SENDs.
const RECEIVES: u64 = RECEIVE_QUEUE_DEPTH as u64;

/// Measures WRITE, READ, SEND and fetch-add.
pub(crate) fn operations(nodes: &TwoNodes, samples: u64, phases: &mut Vec<Phase>) -> Result<()> {
    let local = nodes.a.register(4096, Access::ALL)?;
    let remote = nodes.b.register(4096, Access::ALL)?;
    let verbs = [
        ("WRITE", Verb::WRITE, BYTES),
        ("READ", Verb::READ, BYTES),
        ("SEND", Verb::SEND_ONLY, BYTES),
        ("fetch-add", Verb::FETCH_ADD, 8),
    ];
    for (name, opcode, length) in verbs {
        let work = WorkRequest {
            opcode,
            flags: WorkFlags::SIGNALED,
            length,
            local_offset: local.local_offset(0, length.into())?,
            rkey: remote.key().0,
            swap_or_add: 1,
            ..WorkRequest::default()
        };
        let before = Snapshot::take(nodes)?;
        let latency = latency(nodes, &work, &remote, name, samples).context(name)?;
        let operations = (samples * RATE_FACTOR).next_multiple_of(SIGNAL_EVERY);
        let time = rate(nodes, &work, &remote, operations).context(name)?;
        let mut phase = Phase::new(name, "direct", latency, &before, &Snapshot::take(nodes)?);
        phase.measured(operations, operations * u64::from(length), time);
        phases.push(phase);
    }
    Ok(())
}

/// Measures the latency with one operation at a time.
fn latency(
    nodes: &TwoNodes,
    work: &WorkRequest,
    remote: &MemoryRegion,
    name: &'static str,
    samples: u64,
) -> Result<Latency> {
    /// Operations between two updates of the progress bar.
    const STRIDE: u64 = 1000;
    let progress = Progress::operations(name, samples);
    let mut latencies = Latencies::new();
    let mut receiver = Receiver::of(nodes, work, remote, samples);
    for n in 1..=samples {
        receiver.turn()?;
        let start = Instant::now();
        nodes.at_a.post(*work)?;
        while completions(&nodes.at_a)? == 0 {
            ensure!(start.elapsed() < PATIENCE, "an operation did not complete within {PATIENCE:?}");
        }
        latencies.since(start);
        if n % STRIDE == 0 {
            progress.add(STRIDE);
        }
    }
    receiver.finish()?;
    Ok(latencies.summary())
}

/// Returns the time of `operations` operations, a multiple of [`SIGNAL_EVERY`], with the send queue kept full.
fn rate(nodes: &TwoNodes, work: &WorkRequest, remote: &MemoryRegion, operations: u64) -> Result<Duration> {
    let mut list = [WorkRequest { flags: WorkFlags::empty(), ..*work }; SIGNAL_EVERY as usize];
    list[SIGNAL_EVERY as usize - 1] = *work;
    let mut receiver = Receiver::of(nodes, work, remote, operations);
    let (mut posted, mut completed) = (0, 0);
    let start = Instant::now();
    let mut progress = start;
    while completed < operations {
        receiver.turn()?;
        // Posts at most up to the end of a batch, and no SEND without a receive.
        let room = (SIGNAL_EVERY - posted % SIGNAL_EVERY).min(operations - posted).min(receiver.room(posted));
        let from = (posted % SIGNAL_EVERY) as usize;
        match nodes.at_a.post_list(&list[from..from + room as usize]) {
            Ok(n) => posted += n as u64,
            Err(PostError::QueueFull) => {}
            Err(error) => return Err(error.into()),
        }
        let n = completions(&nodes.at_a)?;
        completed += n * SIGNAL_EVERY;
        if n != 0 {
            progress = Instant::now();
        }
        ensure!(progress.elapsed() < PATIENCE, "no operation completed within {PATIENCE:?}");
    }
    let time = start.elapsed();
    receiver.finish()?;
    Ok(time)
}

/// Host B's part in SEND: posts a receive for each SEND and takes the completions. For other verbs it does
/// nothing.
struct Receiver<'a> {
    connection: &'a Connection,
    region: &'a MemoryRegion,
    /// The total number of receives to post.
    expected: Option<u64>,
    posted: u64,
    received: u64,
}

impl<'a> Receiver<'a> {
    fn of(nodes: &'a TwoNodes, work: &WorkRequest, region: &'a MemoryRegion, operations: u64) -> Self {
        let expected = (work.opcode == Verb::SEND_ONLY).then_some(operations);
        Self { connection: &nodes.at_b, region, expected, posted: 0, received: 0 }
    }

    /// Returns how many operations may be posted after the first `sent`.
    fn room(&self, sent: u64) -> u64 {
        self.expected.map_or(u64::MAX, |_| self.posted - sent)
    }

    fn turn(&mut self) -> Result<()> {
        let Some(expected) = self.expected else { return Ok(()) };
        self.received += completions(self.connection)?;
        while self.posted < expected && self.posted - self.received < RECEIVES {
            self.connection.post_receive(self.region, 0, BYTES, self.posted)?;
            self.posted += 1;
        }
        Ok(())
    }

    /// Waits until every receive posted has completed.
    fn finish(mut self) -> Result<()> {
        let start = Instant::now();
        while self.received < self.posted {
            self.turn()?;
            ensure!(start.elapsed() < PATIENCE, "a receive did not complete within {PATIENCE:?}");
        }
        Ok(())
    }
}

/// Takes completions and returns their number.
fn completions(connection: &Connection) -> Result<u64> {
    let mut completions = [Completion::default(); 32];
    let n = connection.poll(&mut completions);
    for completion in &completions[..n] {
        ensure!(
            (completion.status, completion.ulp_code) == (0, 0),
            "an operation failed with status {} and ULP code {}",
            completion.status,
            completion.ulp_code
        );
    }
    Ok(n as u64)
}
