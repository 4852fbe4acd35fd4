//! Two nodes, writes from one to the other, and what is seen of them in the course of time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::{LiveStats, Pair};
use transport_user::{Access, MemoryRegion, Tuning};

use crate::options::Options;

/// Bytes of one WRITE: the library cuts it into some 20 transactions.
pub(super) const CHUNK: u64 = 64 << 10;
/// WRITEs under way at once: more than a fabric window of them.
const PARALLEL: usize = 8;
/// How often the connection is looked at.
const EVERY: Duration = Duration::from_millis(5);
/// What the links of the fabric do beside their rate.
const LINK: &str = "delay=100us,queue=4MiB";
/// Several times the target delay: the machine pauses a thread for milliseconds now and then.
const RTO: Duration = Duration::from_millis(20);

/// The connection at some time.
pub(super) struct Sample {
    /// Since the beginning.
    pub(super) at: Duration,
    /// Packets.
    pub(super) fcwnd: f64,
    /// Fabric delay, smoothed over some eight acknowledgements, microseconds.
    pub(super) delay: f64,
    /// Bytes of frames that the fabric brought to the receiver.
    pub(super) delivered: u64,
    /// Frames that found the queue towards the receiver full.
    pub(super) dropped: u64,
}

/// Two hosts, the fabric between them, and a connection.
pub(super) struct Live {
    nodes: TwoNodes,
    local: MemoryRegion,
    remote: MemoryRegion,
}

impl Live {
    /// Brings all up; `more` is added to what the link towards the receiver does.
    pub(super) fn up(options: &Options, more: &str) -> Result<Self> {
        let rate = options.rate();
        let fabric = format!("seed={},rate={rate},{LINK};1:rate={rate},{LINK}{more}", options.seed);
        let pair = Pair::through(fabric.parse().context("the fabric's own keys")?)
            .context("cannot set up two hosts and the fabric between them")?;
        let tuning = Tuning {
            fcwnd: options.fcwnd,
            ncwnd: options.ncwnd,
            rto: RTO,
            congestion: options.control()?,
            ..Tuning::DEFAULT
        };
        let nodes = TwoNodes::up(pair, Setup { ordered: false, tuning, ..Setup::default() })?;
        let local = nodes.a.register(CHUNK as usize, Access::LOCAL)?;
        let remote = nodes.b.register(CHUNK as usize, Access::ALL)?;
        Ok(Self { nodes, local, remote })
    }

    fn fabric(&self) -> Result<LiveStats> {
        Ok(self.nodes.pair.fabric().context("there is no fabric")?.stats())
    }

    /// Copies sent because of an EACK, and because of the retransmission timer.
    pub(super) fn retransmissions(&self) -> Result<[u64; 2]> {
        let statistics = self.nodes.at_a.info()?.statistics;
        Ok([statistics.retransmitted_early, statistics.retransmitted_timeout])
    }

    /// Frames that the kernel lost beside the model: with any, nothing else counts.
    pub(super) fn lost_by_the_kernel(&self) -> Result<u64> {
        let stats = self.fabric()?;
        Ok(stats.overrun + stats.undeliverable)
    }

    /// Writes for as long as `more` says so. Several WRITEs are under way at once.
    async fn write_while(&self, more: impl Fn() -> bool) -> Result<()> {
        let writer = async || -> Result<()> {
            while more() {
                self.nodes.at_a.write(&self.local, 0, self.remote.key(), 0, CHUNK).await?;
            }
            Ok(())
        };
        try_join_all((0..PARALLEL).map(|_| writer())).await?;
        Ok(())
    }

    /// Writes `chunks` times [`CHUNK`] bytes: the time it took.
    pub(super) fn transfer(&self, chunks: u64) -> Result<Duration> {
        let left = Cell::new(chunks);
        let more = || {
            let some = left.get() > 0;
            left.set(left.get().saturating_sub(1));
            some
        };
        let begin = Instant::now();
        block_on(self.write_while(more))?;
        Ok(begin.elapsed())
    }

    /// Writes for `duration`, and looks at the connection meanwhile.
    pub(super) fn observe(&self, duration: Duration) -> Result<Vec<Sample>> {
        let begin = Instant::now();
        let mut samples = vec![];
        let look = async {
            let mut ticks = tokio::time::interval(EVERY);
            while begin.elapsed() < duration {
                ticks.tick().await;
                samples.push(self.sample(begin)?);
            }
            Ok(())
        };
        block_on(async {
            tokio::try_join!(look, self.write_while(|| begin.elapsed() < duration))?;
            Ok(())
        })?;
        Ok(samples)
    }

    fn sample(&self, begin: Instant) -> Result<Sample> {
        let info = self.nodes.at_a.info()?;
        let link = &self.fabric()?.fabric.towards[1];
        Ok(Sample {
            at: begin.elapsed(),
            fcwnd: info.fcwnd,
            delay: info.delays.fabric.smoothed_ns as f64 / 1e3,
            delivered: link.delivered_bytes,
            dropped: link.queue_dropped,
        })
    }
}

fn block_on(work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// What every experiment on real packets sets.
pub(super) fn settings(options: &Options) -> BTreeMap<&'static str, String> {
    [
        ("rate", options.rate().to_string()),
        ("links", LINK.to_owned()),
        ("segment", "3264 B".to_owned()),
        ("initial fcwnd", options.fcwnd.to_string()),
        ("initial ncwnd", options.ncwnd.to_string()),
        ("initial RTO", format!("{RTO:?}")),
        ("parameters", options.changes()),
    ]
    .into()
}
