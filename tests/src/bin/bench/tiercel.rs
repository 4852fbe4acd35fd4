//! Tiercel on the same cable. The application posts work requests and polls for completions as fast as possible.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tiercel::{Access, MemoryRegion, PostError, Tuning};
use tiercel_node::{EngineMode, EngineOptions};
use tiercel_tests::Pair;
use tiercel_tests::nodes::{Setup, TwoNodes};
use transport_common::queues::{Completion, RECEIVE_QUEUE_DEPTH, Verb, WorkFlags, WorkRequest};

use crate::cost;
use crate::figures::{Figure, MESSAGE, Measure, Operation, SMALL};
use crate::machine::{ENGINE_CPU, as_application};
use crate::options::Options;
use crate::run::{PATIENCE, Ran};
use crate::series::Latencies;

/// Of small operations, every one with this number asks for a completion.
const SIGNALED_EVERY: usize = 16;
/// The number of completions taken at a time.
const TAKEN: usize = 64;
/// Bytes of an atomic.
const WORD: u32 = 8;
/// Offset, in both regions, of the fetch-adds' operand. It is after the message.
const COUNTER: u64 = MESSAGE as u64;
/// The bytes of which the messages of both ends consist.
const LOCAL: u8 = 0x5a;
const REMOTE: u8 = 0xc3;

/// Buffer for completions. It is made once, because clearing it takes longer than reading an empty queue.
type Completions = [Completion; TAKEN];

/// Two nodes with a connection between them and one region each. The engine of A is busy.
pub(crate) struct Tiercel {
    nodes: TwoNodes,
    local: MemoryRegion,
    remote: MemoryRegion,
    /// The number of fetch-adds of 1 so far.
    added: AtomicU64,
}

impl Tiercel {
    pub(crate) fn up(pair: Pair, options: &Options, checksum: bool) -> Result<Self> {
        let engine_a = EngineOptions {
            mode: EngineMode::Busy,
            cpu: Some(ENGINE_CPU),
            batch: options.batch,
            ..EngineOptions::default()
        };
        // There is no third CPU. While the peer's engine looks for work, it occupies one of the two.
        let engine_b =
            EngineOptions { mode: EngineMode::Sleeping, spin: Duration::ZERO, ..EngineOptions::default() };
        // No congestion control runs here. The constant windows have the largest possible size.
        let tuning = Tuning { fcwnd: 128.0, ncwnd: 128, ..Setup::CONSTANT };
        let transmit = options.transmit();
        let setup = Setup { engine_a, engine_b, checksum, transmit, tuning, ..Setup::default() };
        let nodes = TwoNodes::up(pair, setup)?;
        let bytes = (MESSAGE + WORD) as usize;
        let (local, remote) = (nodes.a.register(bytes, Access::ALL)?, nodes.b.register(bytes, Access::ALL)?);
        let tiercel = Self { nodes, local, remote, added: AtomicU64::new(0) };
        for _ in 0..RECEIVE_QUEUE_DEPTH {
            tiercel.post_receive()?;
        }
        Ok(tiercel)
    }

    /// Takes the nodes down and returns the hosts.
    pub(crate) fn down(self) -> Pair {
        let TwoNodes { a, b, pair, .. } = self.nodes;
        a.down();
        b.down();
        pair
    }

    /// Returns the nodes and their connection.
    pub(crate) fn nodes(&self) -> &TwoNodes {
        &self.nodes
    }

    /// Returns the wire programs of A and B.
    pub(crate) fn programs(&self) -> Result<[u32; 2]> {
        Ok([cost::attached(&self.nodes.pair.a)?, cost::attached(&self.nodes.pair.b)?])
    }

    /// Measures one figure.
    pub(crate) fn measure(
        &self,
        figure: &Figure,
        duration: Duration,
        latencies: &mut Latencies,
    ) -> Result<Ran> {
        self.fill(&self.local, LOCAL)?;
        self.fill(&self.remote, REMOTE)?;
        let operation = figure.operation;
        let ran = as_application(|| match figure.measure {
            Measure::Rate => self.many(&self.small(operation)?, SIGNALED_EVERY, duration),
            Measure::Throughput => self.many(&self.message(operation)?, 1, duration),
            Measure::Latency => self.one_at_a_time(operation, duration, latencies),
        });
        let ran = ran.with_context(|| format!("{}, {}", figure.title, figure.measure.unit()))?;
        self.check(figure, ran.operations)?;
        Ok(ran)
    }

    /// Returns small operations, of which the last asks for a completion.
    fn small(&self, operation: Operation) -> Result<Vec<WorkRequest>> {
        let mut list = vec![self.work(operation, 0, small_bytes(operation))?; SIGNALED_EVERY];
        list[SIGNALED_EVERY - 1].flags = WorkFlags::SIGNALED;
        Ok(list)
    }

    /// Returns the transactions of one large operation. Only the last asks for a completion, because the
    /// connection is ordered.
    fn message(&self, operation: Operation) -> Result<Vec<WorkRequest>> {
        let segment = self.nodes.at_a.max_segment();
        let count = MESSAGE.div_ceil(segment);
        let cut = |n: u32| {
            let at = n * segment;
            let work = self.work(operation, at, segment.min(MESSAGE - at))?;
            let opcode = match (operation, n) {
                (Operation::Send, 0) => Verb::SEND_FIRST,
                (Operation::Send, n) if n + 1 == count => Verb::SEND_LAST,
                (Operation::Send, _) => Verb::SEND_MIDDLE,
                _ => work.opcode,
            };
            let flags = if n + 1 == count { WorkFlags::SIGNALED } else { WorkFlags::empty() };
            Ok(WorkRequest { opcode, flags, segment: n, ..work })
        };
        (0..count).map(cut).collect()
    }

    /// Returns one transaction, at an offset that is the same at both ends.
    fn work(&self, operation: Operation, at: u32, length: u32) -> Result<WorkRequest> {
        let (opcode, offset) = match operation {
            Operation::Write => (Verb::WRITE, at.into()),
            Operation::Read => (Verb::READ, at.into()),
            Operation::Send => (Verb::SEND_ONLY, at.into()),
            Operation::FetchAdd => (Verb::FETCH_ADD, COUNTER),
        };
        Ok(WorkRequest {
            opcode,
            length,
            local_offset: self.local.local_offset(offset, length.into())?,
            remote_address: offset,
            rkey: self.remote.key().0,
            swap_or_add: 1,
            ..WorkRequest::default()
        })
    }

    /// Keeps the send queue full with a list whose last request completes. `operations` is the number of
    /// operations in the list.
    fn many(&self, list: &[WorkRequest], operations: usize, duration: Duration) -> Result<Ran> {
        let mut completions = [Completion::default(); TAKEN];
        let (mut next, mut lists, mut completed) = (0, 0u64, 0u64);
        let start = Instant::now();
        let (timed, elapsed) = loop {
            next += self.post(&list[next..])?;
            if next == list.len() {
                (next, lists) = (0, lists + 1);
            }
            completed += self.collect(&mut completions)?;
            let elapsed = start.elapsed();
            if elapsed >= duration {
                break (completed, elapsed);
            }
        };
        // Continues to the end of the current list, and until everything is complete.
        let begun = lists + u64::from(next != 0);
        while completed < begun {
            if next != 0 && next != list.len() {
                next += self.post(&list[next..])?;
            }
            completed += self.collect(&mut completions)?;
            let missing = begun - completed;
            ensure!(start.elapsed() < duration + PATIENCE, "{missing} lists of operations did not complete");
        }
        let operations = operations as u64;
        Ok(Ran {
            timed: timed * operations,
            operations: completed * operations,
            bytes: MESSAGE,
            elapsed,
            median: None,
        })
    }

    fn one_at_a_time(
        &self,
        operation: Operation,
        duration: Duration,
        latencies: &mut Latencies,
    ) -> Result<Ran> {
        let work =
            WorkRequest { flags: WorkFlags::SIGNALED, ..self.work(operation, 0, small_bytes(operation))? };
        let mut completions = [Completion::default(); TAKEN];
        let begin = Instant::now();
        Ran::one_at_a_time(duration, latencies, || {
            self.nodes.at_a.post(work)?;
            let mut turns = 0u32;
            while self.take(&mut completions)? == 0 {
                turns += 1;
                // Reading the clock takes longer than reading the queue.
                ensure!(
                    turns & 0xfff != 0 || begin.elapsed() < duration + PATIENCE,
                    "an operation did not complete in time"
                );
            }
            // A new receive is posted between two SENDs.
            if operation == Operation::Send { self.replace_receives(&mut completions) } else { Ok(()) }
        })
    }

    /// Posts as many requests as fit into the queue.
    fn post(&self, list: &[WorkRequest]) -> Result<usize> {
        match self.nodes.at_a.post_list(list) {
            Err(PostError::QueueFull) => Ok(0),
            outcome => Ok(outcome?),
        }
    }

    /// Returns the number of completions at A since the last call. Posts new receives at B for those used.
    fn collect(&self, completions: &mut Completions) -> Result<u64> {
        self.replace_receives(completions)?;
        self.take(completions)
    }

    fn take(&self, completions: &mut Completions) -> Result<u64> {
        let taken = self.nodes.at_a.poll(completions);
        succeeded(&completions[..taken])?;
        Ok(taken as u64)
    }

    /// Acts as B's application, in the same thread.
    fn replace_receives(&self, completions: &mut Completions) -> Result<()> {
        let taken = self.nodes.at_b.poll(completions);
        succeeded(&completions[..taken])?;
        (0..taken).try_for_each(|_| self.post_receive())
    }

    /// Posts a receive. All receives use one buffer, because no message is read twice.
    fn post_receive(&self) -> Result<()> {
        Ok(self.nodes.at_b.post_receive(&self.remote, 0, MESSAGE, 0)?)
    }

    fn fill(&self, region: &MemoryRegion, byte: u8) -> Result<()> {
        Ok(region.write(0, &vec![byte; MESSAGE as usize])?)
    }

    /// Checks that the operations had the right effect, and did not only complete.
    fn check(&self, figure: &Figure, operations: u64) -> Result<()> {
        let (operation, name) = (figure.operation, figure.name);
        if operation == Operation::FetchAdd {
            let expected = self.added.fetch_add(operations, Relaxed) + operations;
            let mut counter = [0; WORD as usize];
            self.remote.read(COUNTER, &mut counter)?;
            let counter = u64::from_ne_bytes(counter);
            ensure!(counter == expected, "{name}: the counter is {counter} after {expected} fetch-adds of 1");
            return Ok(());
        }
        let (region, byte) =
            if operation == Operation::Read { (&self.local, REMOTE) } else { (&self.remote, LOCAL) };
        let bytes = if figure.measure == Measure::Throughput { MESSAGE } else { SMALL };
        let mut arrived = vec![0; bytes as usize];
        region.read(0, &mut arrived)?;
        let wrong = arrived.iter().filter(|found| **found != byte).count();
        ensure!(operations == 0 || wrong == 0, "{name}: {wrong} of {bytes} bytes are wrong");
        Ok(())
    }
}

fn small_bytes(operation: Operation) -> u32 {
    if operation == Operation::FetchAdd { WORD } else { SMALL }
}

fn succeeded(completions: &[Completion]) -> Result<()> {
    match completions.iter().find(|completion| completion.status != 0 || completion.ulp_code != 0) {
        None => Ok(()),
        Some(failed) => {
            bail!("{}", tiercel::describe(failed.status, failed.ulp_code))
        }
    }
}
