//! Nodes on hosts, work between them, and samples of it over time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fabric_model::{Egress, LinkStats, Port, Rate, Topology};
use futures_util::future::try_join_all;
use tiercel::{Access, CongestionControl, Connection, ConnectionInfo, MemoryRegion, Tuning};
use tiercel_node::Node;
use tiercel_tests::nodes::{self, Setup, flow_hash};
use tiercel_tests::veth::DEFAULT_MTU;
use tiercel_tests::{Host, LiveFabric, Network};
use tokio::time::MissedTickBehavior;
use transport_common::ids::{Cid, RKey};

use crate::options::Options;

/// User data of a full packet: the largest size that the hosts' MTU allows over IPv4.
pub(super) const SEGMENT: u64 = 3264;
/// Bytes of one WRITE: 20 full transactions.
pub(super) const CHUNK: u64 = 20 * SEGMENT;
/// Bytes of a frame in addition to the user data of a WRITE, over IPv4.
pub(super) const OVERHEAD: u64 = 14 + 20 + 8 + 16 + 28 + 28;
/// Number of parallel WRITEs of a flow: more than a fabric window.
pub(super) const PARALLEL: usize = 8;
/// The usual interval between two samples.
pub(super) const EVERY: Duration = Duration::from_millis(5);
/// The lateness up to which a writer at a steady rate catches up.
const CATCH_UP: Duration = Duration::from_millis(4);
/// Settings of the fabric's links in addition to their rate.
pub(super) const LINK: &str = "delay=100us,queue=4MiB";
/// Number of CIDs that are tried to find one that leads to a given path.
const DRAWS: usize = 64;
/// A pause of the machine up to this time ends no connection.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(120);

/// A sample of a flow.
pub(super) struct FlowSample {
    /// Packets.
    pub(super) fcwnd: f64,
    /// Packets.
    pub(super) ncwnd: f64,
    /// Fabric delay, smoothed over some eight acknowledgements, microseconds.
    pub(super) delay: f64,
    /// Last round trip time, microseconds; none before the first.
    pub(super) rtt: Option<f64>,
    /// Packets acknowledged since the flow began.
    pub(super) acknowledged: u32,
    /// The first link on the path of its packets.
    pub(super) path: Egress,
}

/// A sample of everything.
pub(super) struct Sample {
    /// Time since the beginning.
    pub(super) at: Duration,
    /// The flows, by number.
    pub(super) flows: Vec<FlowSample>,
    /// The observed links.
    pub(super) links: Vec<LinkSample>,
}

/// A sample of a link.
pub(super) struct LinkSample {
    /// Its counters.
    pub(super) stats: LinkStats,
    /// Bytes that wait there.
    pub(super) queue: u64,
}

/// A connection whose near end writes to its far end.
pub(super) struct Flow {
    ports: [Port; 2],
    pub(super) near: Connection,
    pub(super) far: Connection,
    first_psn: u32,
}

/// Hosts, the fabric between them, and connections. Fields are dropped in order: nodes before hosts.
pub(super) struct Live {
    pub(super) flows: Vec<Flow>,
    /// One region per node. All its flows write from this region, or to it.
    pub(super) regions: Vec<MemoryRegion>,
    pub(super) nodes: Vec<Node>,
    network: Network,
    /// The links that are recorded.
    watched: Vec<Egress>,
    setup: Setup,
    next_cid: u32,
}

impl Live {
    /// Makes a node at each port of `topology`, without connections.
    pub(super) fn up(
        options: &Options,
        congestion: CongestionControl,
        topology: Topology,
        fabric: &str,
        watched: Vec<Egress>,
    ) -> Result<Self> {
        let fabric = fabric.parse().context("the fabric's own keys")?;
        let network = Network::with_mtu(topology, fabric, DEFAULT_MTU)
            .context("cannot set up the hosts and the fabric between them")?;
        let tuning = Tuning {
            fcwnd: options.fcwnd,
            ncwnd: options.ncwnd,
            rto: rto(&congestion),
            transaction_timeout: TRANSACTION_TIMEOUT,
            rack_tlp: options.rack_tlp,
            congestion,
            ..Tuning::DEFAULT
        };
        let setup = Setup { ordered: false, tuning, ..Setup::default() };
        let up = network.hosts.iter().map(|host| nodes::node(host, setup.engine_a, setup));
        let nodes = up.collect::<Result<Vec<_>>>()?;
        let register = |node: &Node| Ok(node.register(CHUNK as usize, Access::ALL)?);
        let regions = nodes.iter().map(register).collect::<Result<Vec<_>>>()?;
        Ok(Self { flows: vec![], regions, nodes, network, watched, setup, next_cid: 100 })
    }

    /// Makes hosts at one switch. The link towards one of them is observed.
    pub(super) fn star(options: &Options, hosts: u16, fabric: &str, watched: Port) -> Result<Self> {
        Self::up(options, options.control()?, Topology::star(hosts), fabric, vec![Egress::Host(watched)])
    }

    /// Makes two hosts at one switch. The link towards the second has the selected rate and is observed. `more`
    /// is added to its settings. `flows` flows lead there.
    pub(super) fn bottleneck(options: &Options, more: &str, flows: usize) -> Result<Self> {
        let rate = options.rate();
        let fabric = format!("seed={},rate={rate},{LINK};1:rate={rate},{LINK}{more}", options.seed);
        let mut live = Self::star(options, 2, &fabric, Port(1))?;
        for _ in 0..flows {
            live.add_flow(0, 1)?;
        }
        Ok(live)
    }

    /// Opens a connection from one host to another.
    pub(super) fn add_flow(&mut self, from: u16, to: u16) -> Result<()> {
        let flow = self.open([Port(from), Port(to)], self.setup)?;
        self.flows.push(flow);
        Ok(())
    }

    /// As [`add_flow`](Self::add_flow), with requests delivered in the order of their RSNs.
    pub(super) fn add_ordered_flow(&mut self, from: u16, to: u16) -> Result<()> {
        let flow = self.open([Port(from), Port(to)], Setup { ordered: true, ..self.setup })?;
        self.flows.push(flow);
        Ok(())
    }

    /// Closes all connections. New connections have this congestion control.
    pub(super) fn start_anew(&mut self, congestion: CongestionControl) {
        for flow in self.flows.drain(..) {
            flow.near.close();
            flow.far.close();
        }
        self.setup.tuning.congestion = congestion;
    }

    /// Opens connections until the packets of one take `wanted` first. The CID determines the source port.
    pub(super) fn add_flow_over(&mut self, wanted: Egress, from: u16, to: u16) -> Result<()> {
        for _ in 0..DRAWS {
            let flow = self.open([Port(from), Port(to)], self.setup)?;
            if self.path(&flow, &flow.near.info()?)? == wanted {
                self.flows.push(flow);
                return Ok(());
            }
            flow.near.close();
            flow.far.close();
        }
        bail!("none of {DRAWS} CIDs led to {wanted:?}")
    }

    fn open(&mut self, ports: [Port; 2], setup: Setup) -> Result<Flow> {
        let cids = [Cid(self.next_cid), Cid(self.next_cid + 1)];
        self.next_cid += 2;
        let [a, b] = ports.map(|port| &self.nodes[usize::from(port.0)]);
        let [near, far] = nodes::connect([(a, cids[0]), (b, cids[1])], setup)?;
        let first_psn = near.info()?.data_tx.base_psn;
        Ok(Flow { ports, near, far, first_psn })
    }

    /// Returns the first link on the present path of a flow's packets.
    fn path(&self, flow: &Flow, info: &ConnectionInfo) -> Result<Egress> {
        let [from, to] = flow.ports;
        let hash = flow_hash(&self.nodes[usize::from(from.0)], info)?;
        Ok(self.fabric().route(from, to, hash)[0])
    }

    pub(super) fn hosts(&self) -> [&Host; 2] {
        let [first, second, ..] = &self.network.hosts[..] else { panic!("an experiment has two hosts") };
        [first, second]
    }

    /// New connections have this tuning, and RACK-TLP as the options say.
    pub(super) fn tune(&mut self, tuning: Tuning) {
        let rack_tlp = self.setup.tuning.rack_tlp;
        self.setup.tuning = Tuning { transaction_timeout: TRANSACTION_TIMEOUT, rack_tlp, ..tuning };
    }

    pub(super) fn fabric(&self) -> &LiveFabric {
        &self.network.fabric
    }

    /// Returns the number of copies that all flows sent, for every reason.
    pub(super) fn retransmissions(&self) -> Result<u64> {
        self.flows.iter().map(|flow| Ok(flow.near.info()?.statistics.retransmissions())).sum()
    }

    /// Returns the number of frames that the kernel lost in addition to the model. If there are any, the run is
    /// invalid.
    pub(super) fn lost_by_the_kernel(&self) -> f64 {
        let stats = self.fabric().stats();
        (stats.overrun + stats.undeliverable) as f64
    }

    /// Writes while `more` returns true, with several parallel WRITEs.
    pub(super) async fn write_while(&self, flow: usize, more: impl Fn() -> bool) -> Result<()> {
        self.write_chunks(flow, || more().then_some(CHUNK)).await
    }

    /// Writes a number of bytes with several parallel WRITEs. Returns the time until the last one is complete.
    pub(super) async fn write(&self, flow: usize, bytes: u64) -> Result<Duration> {
        let (begin, left) = (Instant::now(), Cell::new(bytes));
        let next = || {
            let chunk = left.get().min(CHUNK);
            left.set(left.get() - chunk);
            (chunk > 0).then_some(chunk)
        };
        self.write_chunks(flow, next).await?;
        Ok(begin.elapsed())
    }

    async fn write_chunks(&self, flow: usize, next: impl Fn() -> Option<u64>) -> Result<()> {
        let Flow { ports, near, .. } = &self.flows[flow];
        write_chunks(near, &self.regions[usize::from(ports[0].0)], self.regions[0].key(), next).await
    }

    /// Writes `bytes` every `period` until `end`, if fewer than [`PARALLEL`] WRITEs are in progress.
    pub(super) async fn write_at_rate(
        &self,
        flow: usize,
        bytes: u64,
        period: Duration,
        end: Instant,
    ) -> Result<()> {
        let next = Cell::new(Instant::now());
        let writer = async || -> Result<()> {
            loop {
                let due = next.get().max(Instant::now() - CATCH_UP);
                if due >= end {
                    return Ok(());
                }
                next.set(due + period);
                tokio::time::sleep_until(due.into()).await;
                self.write_once(flow, bytes).await?;
            }
        };
        try_join_all((0..PARALLEL).map(|_| writer())).await?;
        Ok(())
    }

    /// One WRITE of up to [`CHUNK`] bytes.
    async fn write_once(&self, flow: usize, bytes: u64) -> Result<()> {
        let Flow { ports, near, .. } = &self.flows[flow];
        // All nodes have registered their first region in the same way.
        let (local, key) = (&self.regions[usize::from(ports[0].0)], self.regions[0].key());
        Ok(near.write(local, 0, key, 0, bytes).await?)
    }

    /// Takes a sample at each interval while `work` runs.
    pub(super) fn observe<T>(
        &self,
        begin: Instant,
        every: Duration,
        work: impl Future<Output = Result<T>>,
    ) -> Result<(Vec<Sample>, T)> {
        let (mut samples, done) = (vec![], Cell::new(false));
        let look = async {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            while !done.get() {
                ticks.tick().await;
                samples.push(self.sample(begin)?);
            }
            Ok(())
        };
        let work = async {
            let result = work.await;
            done.set(true);
            result
        };
        let ((), value) = block_on(async { tokio::try_join!(look, work) })?;
        Ok((samples, value))
    }

    fn sample(&self, begin: Instant) -> Result<Sample> {
        let flow = |flow: &Flow| -> Result<FlowSample> {
            let info = flow.near.info()?;
            Ok(FlowSample {
                fcwnd: info.fcwnd,
                ncwnd: info.ncwnd.into(),
                delay: info.delays.fabric.smoothed_ns as f64 / 1e3,
                rtt: (info.rtt_ns > 0).then_some(info.rtt_ns as f64 / 1e3),
                acknowledged: info.data_tx.base_psn.wrapping_sub(flow.first_psn),
                path: self.path(flow, &info)?,
            })
        };
        let flows = self.flows.iter().map(flow).collect::<Result<_>>()?;
        let stats = self.fabric().stats().fabric;
        let link = |egress: &Egress| LinkSample {
            stats: match egress {
                Egress::Host(port) => stats.towards[usize::from(port.0)].clone(),
                Egress::Trunk(trunk) => stats.trunks[usize::from(trunk.0)].clone(),
            },
            queue: self.fabric().queued_bytes(*egress),
        };
        let links = self.watched.iter().map(link).collect();
        Ok(Sample { at: begin.elapsed(), flows, links })
    }
}

/// Writes as many bytes as `next` returns from the beginning of a region to that of another, repeatedly until
/// it returns none, with several parallel WRITEs.
pub(super) async fn write_chunks(
    connection: &Connection,
    local: &MemoryRegion,
    key: RKey,
    next: impl Fn() -> Option<u64>,
) -> Result<()> {
    let writer = async || -> Result<()> {
        while let Some(bytes) = next() {
            connection.write(local, 0, key, 0, bytes).await?;
        }
        Ok(())
    };
    try_join_all((0..PARALLEL).map(|_| writer())).await?;
    Ok(())
}

/// Runs work to its end on a runtime of its own.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Returns the time that `bytes` of user data take on a link, with headers.
pub(super) fn wire_time(rate: Rate, bytes: u64) -> Duration {
    let frames = bytes + bytes.div_ceil(SEGMENT) * OVERHEAD;
    Duration::from_secs_f64(frames as f64 * 8.0 / rate.bits_per_second() as f64)
}

/// Returns the user data divided by the bytes on the wire, for full packets.
pub(super) fn efficiency() -> f64 {
    SEGMENT as f64 / (SEGMENT + OVERHEAD) as f64
}

/// Twice the least timeout, because the machine sometimes pauses a thread for milliseconds.
fn rto(congestion: &CongestionControl) -> Duration {
    congestion.parameters.min_rto * 2
}

/// Returns the common settings of all experiments on real packets.
pub(super) fn settings(options: &Options) -> Result<BTreeMap<&'static str, String>> {
    let settings = [
        ("rate", options.rate().to_string()),
        ("links", LINK.to_owned()),
        ("segment", format!("{SEGMENT} B")),
        ("initial fcwnd", options.fcwnd.to_string()),
        ("initial ncwnd", options.ncwnd.to_string()),
        ("initial RTO", format!("{:?}", rto(&options.control()?))),
        ("RACK-TLP", if options.rack_tlp { "on" } else { "off" }.to_owned()),
        ("parameters", options.changes()),
    ];
    Ok(settings.into())
}
