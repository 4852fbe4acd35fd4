//! Nodes on hosts that carry the flows of a run, and samples of them over time.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use datacentre::{FlowSample, Message, Record, SlowUlp};
use fabric_model::{Egress, Port, Rate, Span, Time};
use futures_util::future::try_join_all;
use lab_report::World as Kind;
use tiercel::{Access, Connection, ConnectionInfo, ConnectionState, MemoryRegion};
use tiercel_node::Node;
use tiercel_tests::nodes::{self, Setup, flow_hash};
use tiercel_tests::veth::DEFAULT_MTU;
use tiercel_tests::{LiveFabric, Network};
use tokio::time::MissedTickBehavior;
use transport_common::ids::{Cid, RKey};
use transport_common::units::{Fcwnd, Ticks};

use super::receiver::Receiver;
use crate::run::{Mark, Observation, Run, link};
use crate::setup::{SEGMENT, user_rate, wire_time};
use crate::world::{Change, Description, End};

/// Bytes of one WRITE: 20 full transactions.
pub(super) const CHUNK: u64 = 20 * SEGMENT;
/// Bytes of one WRITE at a steady rate. They are few, so that one WRITE makes no queue by itself.
const PIECE: u64 = 2 * SEGMENT;
/// Number of parallel WRITEs of a flow: more than a fabric window.
pub(super) const PARALLEL: usize = 8;
/// Number of parallel SENDs to a slow ULP: more than any window.
const PARALLEL_SENDS: usize = 200;
/// The lateness up to which a writer at a steady rate catches up.
const CATCH_UP: Duration = Duration::from_millis(4);

/// Makes the hosts that are described, and the fabric between them.
pub(super) fn network(described: &Description) -> Result<Network> {
    Network::with_mtu(described.topology.clone(), described.fabric.clone(), DEFAULT_MTU)
        .context("cannot set up the hosts and the fabric between them")
}

/// Returns the counters of the fabric.
pub(super) fn mark(fabric: &LiveFabric, at: Time) -> Mark {
    Mark { at, fabric: fabric.stats().fabric, ..Mark::default() }
}

/// Lets something happen to a link.
pub(super) fn change(fabric: &LiveFabric, change: &Change) {
    fabric.set_link(change.link, change.impairments.is_some());
    if let Some(impairments) = &change.impairments {
        fabric.set(change.link, impairments.clone());
    }
}

/// Returns the number of frames that the kernel lost in addition to the model.
pub(super) fn lost_by_the_kernel(fabric: &LiveFabric) -> u64 {
    let stats = fabric.stats();
    stats.overrun + stats.undeliverable
}

/// Runs work to its end on a runtime of its own.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
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

/// Runs what is described over connections of the datapath.
pub(super) fn run(described: &Description, next_cid: &mut u32) -> Result<Run> {
    let lab = Lab::up(described, next_cid)?;
    // The first packets meet cold caches and sleeping threads, so they do not show congestion.
    block_on(try_join_all(lab.flows.iter().map(|flow| lab.write(flow, 1))))?;
    let course = Course::new(&lab, described)?;
    block_on(course.run())?;
    Ok(course.into_run())
}

/// A connection whose near end writes to its far end.
struct Flow {
    ports: [Port; 2],
    near: Connection,
    far: Connection,
}

/// Hosts, the fabric between them, nodes and connections. Fields are dropped in order: nodes before hosts.
struct Lab {
    flows: Vec<Flow>,
    /// One region per node. All its flows write from this region, or to it.
    regions: Vec<MemoryRegion>,
    nodes: Vec<Node>,
    network: Network,
}

impl Lab {
    fn up(described: &Description, next_cid: &mut u32) -> Result<Self> {
        let network = network(described)?;
        let setup = Setup { ordered: described.slow_ulp.is_some(), ..Setup::default() };
        let up = network.hosts.iter().map(|host| nodes::node(host, setup.engine_a, setup));
        let nodes = up.collect::<Result<Vec<_>>>()?;
        let register = |node: &Node| Ok(node.register(CHUNK as usize, Access::ALL)?);
        let regions = nodes.iter().map(register).collect::<Result<Vec<_>>>()?;
        let mut lab = Self { flows: vec![], regions, nodes, network };
        for flow in &described.flows {
            let ports = [Port(flow.source), Port(flow.destination)];
            let setup = Setup { tuning: flow.tuning, ..setup };
            let opened =
                lab.open(ports, setup, flow.begins_on.map(Egress::Trunk), described.draws, next_cid)?;
            lab.flows.push(opened);
        }
        Ok(lab)
    }

    /// Opens connections until the packets of one take the requested link first. The CID determines the source port.
    fn open(
        &self,
        ports: [Port; 2],
        setup: Setup,
        first: Option<Egress>,
        draws: usize,
        next_cid: &mut u32,
    ) -> Result<Flow> {
        for _ in 0..draws {
            let cids = [Cid(*next_cid), Cid(*next_cid + 1)];
            *next_cid += 2;
            let [a, b] = ports.map(|port| &self.nodes[usize::from(port.0)]);
            let [near, far] = nodes::connect([(a, cids[0]), (b, cids[1])], setup)?;
            let flow = Flow { ports, near, far };
            let path = self.path(&flow, &flow.near.info()?)?;
            if first.is_none_or(|first| first == path) {
                return Ok(flow);
            }
            flow.near.close();
            flow.far.close();
        }
        bail!("none of {draws} CIDs led to {first:?}")
    }

    /// Returns the first link on the present path of a flow's packets.
    fn path(&self, flow: &Flow, info: &ConnectionInfo) -> Result<Egress> {
        let [from, to] = flow.ports;
        let hash = flow_hash(&self.nodes[usize::from(from.0)], info)?;
        Ok(self.network.fabric.route(from, to, hash)[0])
    }

    fn source(&self, flow: &Flow) -> &MemoryRegion {
        &self.regions[usize::from(flow.ports[0].0)]
    }

    /// Returns the key of the region to which a flow writes. All nodes have registered their first region in the same way.
    fn key(&self) -> RKey {
        self.regions[0].key()
    }

    /// Writes a number of bytes with several parallel WRITEs.
    async fn write(&self, flow: &Flow, bytes: u64) -> Result<()> {
        let left = Cell::new(bytes);
        let next = || {
            let chunk = left.get().min(CHUNK);
            left.set(left.get() - chunk);
            (chunk > 0).then_some(chunk)
        };
        write_chunks(&flow.near, self.source(flow), self.key(), next).await
    }

    /// Writes until `end`.
    async fn write_until(&self, flow: &Flow, end: Instant) -> Result<()> {
        let next = || (Instant::now() < end).then_some(CHUNK);
        write_chunks(&flow.near, self.source(flow), self.key(), next).await
    }

    /// Begins WRITEs at this rate of the wire until `end`, if fewer than [`PARALLEL`] WRITEs are in progress.
    async fn write_at_rate(&self, flow: &Flow, rate: Rate, end: Instant) -> Result<()> {
        let period = Duration::from(wire_time(rate, PIECE));
        let next = Cell::new(Instant::now());
        let writer = async || -> Result<()> {
            loop {
                let due = next.get().max(Instant::now() - CATCH_UP);
                if due >= end {
                    return Ok(());
                }
                next.set(due + period);
                tokio::time::sleep_until(due.into()).await;
                flow.near.write(self.source(flow), 0, self.key(), 0, PIECE).await?;
            }
        };
        try_join_all((0..PARALLEL).map(|_| writer())).await?;
        Ok(())
    }

    /// Sends until `end`.
    async fn send_until(&self, flow: &Flow, end: Instant) -> Result<()> {
        let sender = async || -> Result<()> {
            while Instant::now() < end {
                flow.near.send(self.source(flow), 0, SEGMENT, None).await?;
            }
            Ok(())
        };
        try_join_all((0..PARALLEL_SENDS).map(|_| sender())).await?;
        Ok(())
    }
}

/// A run: what is recorded while it lasts.
struct Course<'a> {
    lab: &'a Lab,
    described: &'a Description,
    receiver: Option<Receiver<'a>>,
    began: Instant,
    /// What the connections had counted before.
    before: Vec<ConnectionInfo>,
    record: RefCell<Record>,
    marks: RefCell<Vec<Mark>>,
    observations: RefCell<Vec<Observation>>,
    completions: RefCell<Vec<Vec<Option<Time>>>>,
    /// Whether all flows are done.
    done: Cell<bool>,
}

impl<'a> Course<'a> {
    fn new(lab: &'a Lab, described: &'a Description) -> Result<Self> {
        let before = lab.flows.iter().map(|flow| Ok(flow.near.info()?)).collect::<Result<Vec<_>>>()?;
        let receiver = described.slow_ulp.map(|slow| receiver(lab, slow)).transpose()?;
        let record = Record {
            flows: vec![vec![]; lab.flows.len()],
            queues: vec![vec![]; described.watch.len()],
            buffers: receiver.iter().map(|_| vec![]).collect(),
            ..Record::default()
        };
        let course = Self {
            lab,
            described,
            receiver,
            began: Instant::now(),
            before,
            record: RefCell::new(record),
            marks: RefCell::default(),
            observations: RefCell::default(),
            completions: RefCell::new(vec![vec![]; lab.flows.len()]),
            done: Cell::new(false),
        };
        course.mark()?;
        Ok(course)
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.began.elapsed())
    }

    fn instant(&self, time: Time) -> Instant {
        self.began + Duration::from(time.since(Time::ZERO))
    }

    async fn wait_until(&self, time: Time) {
        tokio::time::sleep_until(self.instant(time).into()).await;
    }

    /// Returns the time at which the run ends; none if it ends when all messages are complete.
    fn end(&self) -> Option<Time> {
        match self.described.end {
            End::At(end) => Some(end),
            End::Complete(_) => None,
        }
    }

    async fn run(&self) -> Result<()> {
        let flows = async {
            try_join_all((0..self.lab.flows.len()).map(|number| self.messages(number))).await?;
            self.done.set(true);
            Ok::<(), anyhow::Error>(())
        };
        let receiver = async {
            match &self.receiver {
                Some(receiver) => receiver.serve(&self.done).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(flows, receiver, self.take_samples(), self.take_marks(), self.make_changes())?;
        if self.end().is_none() {
            self.mark()?;
        }
        Ok(())
    }

    /// Writes the messages of a flow, one after the other.
    async fn messages(&self, number: usize) -> Result<()> {
        let (described, flow) = (&self.described.flows[number], &self.lab.flows[number]);
        let (End::At(end) | End::Complete(end)) = self.described.end;
        let end = self.instant(end);
        for &Message { at, bytes } in &described.messages {
            self.wait_until(at).await;
            let is_endless = bytes == u64::MAX;
            match (is_endless, self.described.demand) {
                (true, _) if self.receiver.is_some() => self.lab.send_until(flow, end).await?,
                (true, Some(rate)) => self.lab.write_at_rate(flow, rate, end).await?,
                (true, None) => self.lab.write_until(flow, end).await?,
                (false, _) => self.lab.write(flow, bytes).await?,
            }
            let complete = (!is_endless).then(|| self.now());
            self.completions.borrow_mut()[number].push(complete);
        }
        Ok(())
    }

    async fn take_samples(&self) -> Result<()> {
        let mut ticks = tokio::time::interval(self.described.sample_every.into());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            if self.done.get() || self.end().is_some_and(|end| self.now() > end) {
                return Ok(());
            }
            self.sample()?;
        }
    }

    async fn take_marks(&self) -> Result<()> {
        for mark in self.described.marks.iter().copied().chain(self.end()) {
            self.wait_until(mark).await;
            self.mark()?;
        }
        Ok(())
    }

    async fn make_changes(&self) -> Result<()> {
        let fabric = &self.lab.network.fabric;
        for happens in &self.described.changes {
            self.wait_until(happens.at).await;
            change(fabric, happens);
        }
        if let Some(end) = self.end().filter(|_| !self.described.changes.is_empty()) {
            // What a flow on a dead path still waits for ends then.
            self.wait_until(end).await;
            for Change { link, .. } in &self.described.changes {
                let config = &self.described.fabric;
                let whole = match link {
                    Egress::Host(port) => config.impairments(port.0),
                    Egress::Trunk(trunk) => config.trunk_impairments(trunk.0),
                };
                change(fabric, &Change { at: end, link: *link, impairments: Some(whole.clone()) });
            }
        }
        Ok(())
    }

    fn mark(&self) -> Result<()> {
        let mut mark = mark(&self.lab.network.fabric, self.now());
        if let Some(receiver) = &self.receiver {
            mark.overflowed = receiver.refused()?;
            mark.buffer_peak = receiver.peak_bytes();
        }
        self.marks.borrow_mut().push(mark);
        Ok(())
    }

    fn sample(&self) -> Result<()> {
        let mut record = self.record.borrow_mut();
        let (record, fabric) = (&mut *record, &self.lab.network.fabric);
        let mut first_links = vec![];
        for ((flow, before), samples) in self.lab.flows.iter().zip(&self.before).zip(&mut record.flows) {
            let info = flow.near.info()?;
            let taken = self.receiver.as_ref().map(Receiver::taken_bytes);
            samples.push(sample(&info, before, taken));
            if self.described.observe {
                first_links.push(self.lab.path(flow, &info)?);
            }
        }
        for (egress, samples) in self.described.watch.iter().zip(&mut record.queues) {
            samples.push(fabric.queued_bytes(*egress));
        }
        if let Some(receiver) = &self.receiver {
            record.buffers[0].push(receiver.held_bytes());
        }
        let at = self.now();
        record.times.push(at);
        if self.described.observe {
            let stats = fabric.stats().fabric;
            let delivered = |egress: &Egress| link(&stats, *egress).delivered_bytes;
            let delivered = self.described.watch.iter().map(delivered).collect();
            self.observations.borrow_mut().push(Observation { at, first_links, delivered });
        }
        Ok(())
    }

    fn into_run(self) -> Run {
        Run {
            kind: Kind::Live,
            record: self.record.into_inner(),
            marks: self.marks.into_inner(),
            observations: self.observations.into_inner(),
            completions: self.completions.into_inner(),
            watch: self.described.watch.clone(),
            lost_by_the_kernel: lost_by_the_kernel(&self.lab.network.fabric),
        }
    }
}

/// Returns the receiver of the flow to a slow ULP.
fn receiver(lab: &Lab, (port, SlowUlp { rate, .. }): (u16, SlowUlp)) -> Result<Receiver<'_>> {
    let flow = lab.flows.iter().find(|flow| flow.ports[1] == Port(port));
    let flow = flow.context("no flow leads to the slow ULP")?;
    ensure!(lab.flows.len() == 1, "a slow ULP has one flow");
    let number = usize::from(port);
    Ok(Receiver::new(&flow.far, &lab.nodes[number], &lab.regions[number], user_rate(rate)))
}

/// Returns a sample of a connection, with what it counted since `before`. `taken` are the bytes that a slow ULP took.
fn sample(info: &ConnectionInfo, before: &ConnectionInfo, taken: Option<u64>) -> FlowSample {
    let (now, old) = (&info.statistics, &before.statistics);
    let acknowledged = info.data_tx.base_psn.wrapping_sub(before.data_tx.base_psn);
    FlowSample {
        fcwnd: Fcwnd((info.fcwnd * f64::from(1u32 << Fcwnd::FRACTION_BITS)).round() as u32),
        ncwnd: info.ncwnd,
        rtt: Ticks::from_nanos(info.rtt_ns),
        mean_delay: Some(Span::from_nanos(info.delays.fabric.smoothed_ns)),
        greatest_delay: None,
        received: taken.unwrap_or(u64::from(acknowledged) * SEGMENT),
        retransmissions: now.retransmissions() - old.retransmissions(),
        retransmitted_early: now.retransmitted_early - old.retransmitted_early,
        retransmitted_timeout: now.retransmitted_timeout - old.retransmitted_timeout,
        tail_probes: now.tail_probes - old.tail_probes,
        entropy: info.source_port.into(),
        alive: info.state == ConnectionState::Open,
    }
}
