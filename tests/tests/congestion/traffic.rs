//! Two nodes on a cable, and traffic between them whose every byte is compared.

use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Result, ensure};
use tiercel::{Access, CongestionControl, MemoryRegion, Tuning};
use tiercel_tests::checks::{contents, fill, info, settle};
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::{Pair, need_root};

/// Bytes of one WRITE.
const CHUNK: usize = 200_000;

/// Nodes, and a region at each.
pub(crate) struct Traffic {
    pub(crate) nodes: TwoNodes,
    local: MemoryRegion,
    remote: MemoryRegion,
    /// Number of WRITEs that arrived intact.
    pub(crate) chunks: AtomicU64,
}

impl Traffic {
    /// Opens both ends with this congestion control.
    pub(crate) fn new(congestion: CongestionControl) -> Result<Self> {
        Self::with(Setup { tuning: Tuning { congestion, ..Tuning::DEFAULT }, ..Setup::default() })
    }

    pub(crate) fn with(setup: Setup) -> Result<Self> {
        need_root();
        let nodes = TwoNodes::up(Pair::direct()?, setup)?;
        let local = nodes.a.register(CHUNK, Access::LOCAL)?;
        let remote = nodes.b.register(CHUNK, Access::ALL)?;
        Ok(Self { nodes, local, remote, chunks: AtomicU64::new(0) })
    }

    /// WRITEs one chunk from A to B and compares it.
    pub(crate) async fn chunk(&self) -> Result<()> {
        let n = self.chunks.load(Relaxed);
        let sent = fill(&self.local, CHUNK, n);
        self.nodes.at_a.write(&self.local, 0, self.remote.key(), 0, CHUNK as u64).await?;
        ensure!(contents(&self.remote, CHUNK) == sent, "chunk {n} arrived with other bytes");
        self.chunks.store(n + 1, Relaxed);
        Ok(())
    }

    /// Writes chunk after chunk while `other` runs, and one more when it is done.
    pub(crate) async fn during<T>(&self, other: impl Future<Output = Result<T>>) -> Result<T> {
        let done = Cell::new(false);
        let other = async {
            let result = other.await;
            done.set(true);
            result
        };
        let chunks = async {
            while !done.get() {
                self.chunk().await?;
            }
            self.chunk().await
        };
        let (result, written) = tokio::join!(other, chunks);
        written.and(result)
    }

    /// Writes chunk after chunk until a condition holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<()> {
        let before = self.chunks.load(Relaxed);
        while !holds(self) {
            ensure!(
                self.chunks.load(Relaxed) < before + 50_000,
                "50000 chunks passed while waiting for: {what}"
            );
            self.chunk().await?;
        }
        Ok(())
    }

    /// Checks that nothing is in progress and windows are legal.
    pub(crate) fn at_rest(&self) {
        settle(&self.nodes.a);
        settle(&self.nodes.b);
        for connection in [&self.nodes.at_a, &self.nodes.at_b] {
            let info = info(connection);
            assert!(connection.is_alive());
            assert!((1.0 / 1024.0..2048.0).contains(&info.fcwnd), "fcwnd {}", info.fcwnd);
            assert!((1..=2047).contains(&info.ncwnd), "ncwnd {}", info.ncwnd);
            assert!(info.rto_ns > 0 && info.rto_ns <= 2_200_000_000, "rto {}", info.rto_ns);
        }
    }
}
