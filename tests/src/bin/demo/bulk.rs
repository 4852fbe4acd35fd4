//! The file's three transfers through the fabric: to B by WRITE, back to A by READ, to B again by SEND.
//!
//! A file of any size moves in windows. One window is loaded into registered memory, crosses the fabric in
//! several parallel operations, and is read out at the other end. Only the transfer is timed, not the work on
//! files and hashes.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use tiercel::{Access, MemoryRegion};
use tiercel_node::Node;
use tiercel_tests::nodes::TwoNodes;

use crate::file::{Copy, Source, hex};
use crate::measure::{Latencies, Progress};
use crate::report::Phase;
use crate::rest;
use crate::snapshot::Snapshot;

/// Bytes of registered memory that a transfer uses at each end.
const WINDOW: u64 = 64 << 20;
/// Bytes of one operation. The library cuts it into some 20 transactions.
pub(crate) const CHUNK: u64 = 64 << 10;
/// The number of parallel operations. They have more transactions than the send queue holds, so the queue is
/// never empty.
pub(crate) const PARALLEL: usize = 16;
/// The number of receives posted ahead of the SENDs. There are more of them than SENDs in progress, so no SEND
/// finds the queue empty.
const RECEIVES: u64 = 4 * PARALLEL as u64;

/// One window of the file.
#[derive(Clone, Copy, Debug)]
struct Window {
    offset: u64,
    length: u64,
}

/// Returns the windows of a file, in order.
fn windows(length: u64) -> impl Iterator<Item = Window> {
    pieces(length, WINDOW).map(|(offset, length)| Window { offset, length })
}

/// Returns offset and length of the pieces of `length` bytes.
fn pieces(length: u64, piece: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..length.div_ceil(piece)).map(move |n| (n * piece, piece.min(length - n * piece)))
}

/// A transfer in progress.
struct Crossing<'a> {
    nodes: &'a TwoNodes,
    source: &'a Source,
    progress: Progress,
    latencies: Latencies,
    operations: u64,
    under_way: Duration,
    before: Snapshot,
    name: &'static str,
}

/// Performs all three transfers. A phase is recorded even if its hash is wrong.
pub(crate) async fn cross(nodes: &TwoNodes, source: &Source, phases: &mut Vec<Phase>) -> Result<()> {
    let received = Copy::new()?;
    for verb in ["WRITE", "READ", "SEND"] {
        let mut crossing = Crossing::new(nodes, source, verb)?;
        let digest = match verb {
            "WRITE" => crossing.write(&received).await,
            "READ" => crossing.read(&received).await,
            _ => crossing.send().await,
        };
        let digest = digest.with_context(|| format!("{verb} through the fabric"))?;
        let phase = crossing.finish(digest).await?;
        let same = phase.sha256.as_ref() == Some(&source.sha256);
        phases.push(phase);
        ensure!(same, "{verb}: the received file differs from the sent file: the hashes differ");
    }
    Ok(())
}

impl<'a> Crossing<'a> {
    fn new(nodes: &'a TwoNodes, source: &'a Source, name: &'static str) -> Result<Self> {
        Ok(Self {
            nodes,
            source,
            progress: Progress::bytes(name, source.length),
            latencies: Latencies::new(),
            operations: 0,
            under_way: Duration::ZERO,
            before: Snapshot::take(nodes)?,
            name,
        })
    }

    /// Moves the file from A to B by WRITE, and keeps the received data in `received`. Returns their hash.
    async fn write(&mut self, received: &Copy) -> Result<Sha256> {
        let (local, remote) = (self.region(&self.nodes.a)?, self.region(&self.nodes.b)?);
        let mut digest = Sha256::new();
        for window in windows(self.source.length) {
            self.load_source(&local, window)?;
            let (a, key) = (&self.nodes.at_a, remote.key());
            self.operate(window.length, |at, length| a.write(&local, at, key, at, length)).await?;
            unload(&remote, window, |at, bytes| {
                digest.update(bytes);
                Ok(received.write(window.offset + at, bytes)?)
            })?;
        }
        Ok(digest)
    }

    /// Moves the data that B has received to A by READ. Returns the hash of the data at A.
    async fn read(&mut self, received: &Copy) -> Result<Sha256> {
        let (local, remote) = (self.region(&self.nodes.a)?, self.region(&self.nodes.b)?);
        let mut digest = Sha256::new();
        for window in windows(self.source.length) {
            load(&remote, window, |at, bytes| Ok(received.read(window.offset + at, bytes)?))?;
            let (a, key) = (&self.nodes.at_a, remote.key());
            self.operate(window.length, |at, length| a.read(&local, at, key, at, length)).await?;
            unload(&local, window, |_, bytes| {
                digest.update(bytes);
                Ok(())
            })?;
        }
        Ok(digest)
    }

    /// Moves the file from A to B by SEND. Returns the hash of the received data.
    async fn send(&mut self) -> Result<Sha256> {
        let (local, remote) = (self.region(&self.nodes.a)?, self.region(&self.nodes.b)?);
        let mut digest = Sha256::new();
        for window in windows(self.source.length) {
            self.load_source(&local, window)?;
            let (a, nodes) = (&self.nodes.at_a, self.nodes);
            let sending = self.operate(window.length, |at, length| a.send(&local, at, length, None));
            tokio::try_join!(sending, receive(nodes, &remote, window.length))?;
            unload(&remote, window, |_, bytes| {
                digest.update(bytes);
                Ok(())
            })?;
        }
        Ok(digest)
    }

    /// Registers zeroed memory for a window, so that no data of an earlier transfer can count as data of this one.
    fn region(&self, node: &Node) -> Result<MemoryRegion> {
        Ok(node.register(self.source.length.min(WINDOW) as usize, Access::ALL)?)
    }

    fn load_source(&self, region: &MemoryRegion, window: Window) -> Result<()> {
        load(region, window, |at, bytes| self.source.read(window.offset + at, bytes))
    }

    /// Runs one operation per chunk, several in parallel, and measures their time.
    async fn operate<F, E>(&mut self, length: u64, operation: impl Fn(u64, u64) -> F) -> Result<()>
    where
        F: Future<Output = Result<(), E>>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let start = Instant::now();
        let timed = pieces(length, CHUNK).map(|(at, length)| {
            let operation = operation(at, length);
            async move {
                let start = Instant::now();
                operation.await.map(|()| (start, length))
            }
        });
        let mut running = stream::iter(timed).buffered(PARALLEL);
        while let Some((start, length)) = running.try_next().await? {
            self.latencies.since(start);
            self.operations += 1;
            self.progress.add(length);
        }
        self.under_way += start.elapsed();
        Ok(())
    }

    /// Waits for the last acknowledgements and summarises the phase.
    async fn finish(self, digest: Sha256) -> Result<Phase> {
        rest::settle(self.nodes).await;
        let latency = self.latencies.summary();
        let mut phase = Phase::new(self.name, "fabric", latency, &self.before, &Snapshot::take(self.nodes)?);
        phase.measured(self.operations, self.source.length, self.under_way);
        phase.sha256 = Some(hex(digest));
        Ok(phase)
    }
}

/// Host B's part in SEND: posts receives and takes their completions, until `length` bytes have arrived.
async fn receive(nodes: &TwoNodes, region: &MemoryRegion, length: u64) -> Result<()> {
    let mut to_post = pieces(length, CHUNK);
    let mut post = || match to_post.next() {
        Some((at, length)) => nodes.at_b.post_receive(region, at, length as u32, at),
        None => Ok(()),
    };
    for _ in 0..RECEIVES {
        post()?;
    }
    for (at, length) in pieces(length, CHUNK) {
        let received = nodes.at_b.receive().await?;
        ensure!(
            (received.wr_id, u64::from(received.length)) == (at, length),
            "a SEND of {} bytes arrived in the receive at {}, instead of one of {length} bytes at {at}",
            received.length,
            received.wr_id
        );
        post()?;
    }
    Ok(())
}

/// Writes a window into registered memory, piece by piece.
fn load(
    region: &MemoryRegion,
    window: Window,
    mut from: impl FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut block = vec![0; CHUNK as usize];
    for (at, length) in pieces(window.length, CHUNK) {
        let bytes = &mut block[..length as usize];
        from(at, bytes)?;
        region.write(at, bytes)?;
    }
    Ok(())
}

/// Reads a window from registered memory, piece by piece.
fn unload(region: &MemoryRegion, window: Window, mut to: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let mut block = vec![0; CHUNK as usize];
    for (at, length) in pieces(window.length, CHUNK) {
        let bytes = &mut block[..length as usize];
        region.read(at, bytes)?;
        to(at, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        assert_eq!(pieces(1, 4).collect::<Vec<_>>(), [(0, 1)]);
        assert_eq!(pieces(8, 4).collect::<Vec<_>>(), [(0, 4), (4, 4)]);
        assert_eq!(pieces(9, 4).collect::<Vec<_>>(), [(0, 4), (4, 4), (8, 1)]);
    }
}
