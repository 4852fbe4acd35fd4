//! Checks that packets paced by the timing wheel leave when they are due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use falcon_conformance::Parts;
use futures_util::future::try_join_all;
use lab_report::{Case, Experiment, Verdict, World};
use tiercel::congestion::{Algorithm, EngineState, Event, Outcome, Placement, Prepared};
use tiercel::{Access, CongestionControl, Connection, MemoryRegion, Tuning};
use tiercel_node::rate_update::RateUpdateOptions;
use tiercel_node::{EngineMode, EngineOptions, Node};
use tiercel_tests::nodes::{self, Setup};
use tiercel_tests::{Bridge, Capture};
use transport_common::ids::Cid;
use transport_common::units::{Fcwnd, InterPacketGap};
use transport_common::wire::PacketType;

use super::nodes::{CHUNK, block_on, write_chunks};
use super::pacing_load::{CONNECTIONS, Load, Measured};
use super::pacing_report as report;
use crate::options::Options;
use crate::schedule::{Departure, GAP_UNIT, TICK, Timing};
use crate::setup::SEGMENT;

/// The time over which the beginnings of the connections are spread, so that each has another phase.
const BEGINNINGS: Duration = Duration::from_millis(256);
/// The longest wait for the new gap.
const PATIENCE: Duration = Duration::from_secs(10);

/// An algorithm with a fabric window of half a packet and a gap that the experiment sets.
struct FixedGap(Arc<AtomicU32>);

impl Algorithm for FixedGap {
    fn name(&self) -> &'static str {
        "fixed-gap"
    }

    fn update(&self, event: &Event, _: &mut EngineState, _: &Prepared, outcome: &mut Outcome) {
        outcome.carry_over(event);
        outcome.fcwnd = Fcwnd(Fcwnd::from_packets(1).0 / 2);
        outcome.inter_packet_gap = InterPacketGap(self.0.load(Ordering::SeqCst));
    }
}

/// A packet with data, at the far end of the sender's cable.
struct Seen {
    /// Time of arrival, nanoseconds.
    out: u64,
    /// When the datapath released it, by its IV, picoseconds.
    left: u64,
    connection: Cid,
}

/// The data that are kept of a frame.
fn look(out: u64, frame: &[u8]) -> Option<Seen> {
    let Parts { psp, header, .. } = Parts::of(frame)?;
    let header = header?;
    let data = header.packet_type() == PacketType::PushData;
    data.then(|| Seen { out, left: psp.iv.0, connection: header.dest_cid() })
}

/// Two nodes with a bridge between them. Fields are dropped in order: nodes before hosts.
struct Lab {
    connections: Vec<Connection>,
    local: MemoryRegion,
    remote: MemoryRegion,
    _nodes: [Node; 2],
    capture: Capture<Seen>,
    _bridge: Bridge,
    gap: Arc<AtomicU32>,
}

impl Lab {
    fn up() -> Result<Self> {
        let bridge = Bridge::new().context("cannot set up the hosts and the bridge between them")?;
        let tuning = Tuning {
            fcwnd: 0.5,
            // Nothing is lost here, and a pause of a thread must not cause a copy.
            rto: Duration::from_secs(1),
            congestion: CongestionControl::CONSTANT,
            ..Tuning::DEFAULT
        };
        // The gap does not change. An algorithm that rarely runs takes no CPU time from the senders.
        let rate_update = RateUpdateOptions {
            spin: Duration::ZERO,
            pause: Duration::from_millis(10),
            ..RateUpdateOptions::default()
        };
        let setup = Setup { ordered: false, tuning, rate_update, ..Setup::default() };
        let busy = EngineOptions { mode: EngineMode::Busy, ..EngineOptions::default() };
        // The receiver's wire program answers without its engine.
        let nodes = [
            nodes::node(&bridge.a, busy, setup).context("node A")?,
            nodes::node(&bridge.b, EngineOptions::default(), setup).context("node B")?,
        ];
        let gap = Arc::new(AtomicU32::new(0));
        let algorithm = nodes[0].register_algorithm(FixedGap(gap.clone()))?;
        let control =
            CongestionControl { algorithm, placement: Placement::User, ..CongestionControl::CONSTANT };
        let connect = |cid| {
            let [near, _far] = nodes::connect([(&nodes[0], Cid(cid)), (&nodes[1], Cid(cid))], setup)?;
            Ok(near)
        };
        let connections = (CONNECTIONS..2 * CONNECTIONS).map(connect).collect::<Result<Vec<_>>>()?;
        block_on(async {
            for connection in &connections {
                connection.set_congestion(control).await?;
            }
            Ok(())
        })?;
        let local = nodes[0].register(CHUNK as usize, Access::LOCAL)?;
        let remote = nodes[1].register(CHUNK as usize, Access::ALL)?;
        let capture = bridge.capture(look)?;
        Ok(Self { connections, local, remote, _nodes: nodes, capture, _bridge: bridge, gap })
    }

    /// Writes one packet at a time until the gap is in effect.
    async fn prime(&self, connection: &Connection, load: Load) -> Result<()> {
        let begin = Instant::now();
        while connection.info()?.inter_packet_gap_ns != load.wanted() as u64 {
            connection.write(&self.local, 0, self.remote.key(), 0, SEGMENT).await?;
            ensure!(
                begin.elapsed() < PATIENCE,
                "the gap of {} us did not come into effect in time",
                load.wanted() / 1e3
            );
        }
        Ok(())
    }

    async fn write(&self, number: usize, load: Load, begin: Instant) -> Result<()> {
        let start = begin + BEGINNINGS * number as u32 / load.connections as u32;
        tokio::time::sleep_until(start.into()).await;
        let next = || (begin.elapsed() < load.duration()).then(|| load.chunk());
        write_chunks(&self.connections[number], &self.local, self.remote.key(), next).await
    }

    /// Returns the number of packets sent, with copies, and how many of them had to wait.
    fn counted(&self, load: Load) -> Result<[u64; 2]> {
        let mut sums = [0; 2];
        for connection in &self.connections[..load.connections] {
            let statistics = connection.info()?.statistics;
            sums[0] += statistics.packets_sent + statistics.retransmissions();
            sums[1] += statistics.paced;
        }
        Ok(sums)
    }

    fn measure(&self, load: Load) -> Result<Measured> {
        let used = &self.connections[..load.connections];
        self.gap.store(load.gap, Ordering::SeqCst);
        block_on(async {
            try_join_all(used.iter().map(|connection| self.prime(connection, load))).await?;
            // A packet of a connection that was idle for more than a gap leaves at once. So the schedule is
            // known from the first packet on.
            tokio::time::sleep(2 * load.wanted_time()).await;
            Ok(())
        })?;
        self.capture.take();
        let (before, missed) = (self.counted(load)?, self.capture.missed());
        block_on(async {
            let begin = Instant::now();
            try_join_all((0..load.connections).map(|number| self.write(number, load, begin))).await?;
            Ok(())
        })?;
        let after = self.counted(load)?;
        let mut by_connection: BTreeMap<Cid, Vec<Departure>> = BTreeMap::new();
        let seen = self.capture.take();
        // Relative to the first packet: nanoseconds since the machine's start would leave no bits for a fraction.
        let first = seen.first().map_or(0, |seen| seen.left);
        for Seen { out, left, connection } in &seen {
            let at = left.wrapping_sub(first) as i64 as f64 / 1e3;
            let out = (out * 1000).wrapping_sub(first) as i64 as f64 / 1e3;
            let departure = Departure { at, gap: load.wanted(), out: Some(out) };
            by_connection.entry(*connection).or_default().push(departure);
        }
        let [sent, waited] = [0, 1].map(|n| after[n] - before[n]);
        Ok(Measured {
            load,
            unseen: (sent.abs_diff(seen.len() as u64) + self.capture.missed() - missed) as f64,
            waited: waited as f64 * 100.0 / sent as f64,
            rtt: self.connections[0].info()?.rtt_ns as f64 / 1e3,
            departures: by_connection.into_values().collect(),
        })
    }
}

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let lab = Lab::up()?;
    let measured = Load::all().into_iter().map(|load| lab.measure(load)).collect::<Result<Vec<_>>>()?;
    drop(lab);
    let timed = |measured: Measured| {
        let timing = measured.timing();
        (measured, timing)
    };
    let all: Vec<(Measured, Timing)> = measured.into_iter().map(timed).collect();
    let cases: Vec<Case> = all.iter().map(|(measured, timing)| measured.case(timing)).collect();
    let verdicts: Vec<Verdict> = report::verdicts(&all, &cases);
    let settings = [
        ("segment", format!("{SEGMENT} B")),
        ("fcwnd", "0.5".to_owned()),
        ("engine of the sender", "busy".to_owned()),
        ("unit of the gap", format!("{GAP_UNIT} ns")),
        ("tick of departures", format!("{TICK} ns")),
    ];
    Ok(Experiment {
        name: "pacing-live",
        title: "Pacing by the timing wheel, on real packets",
        description: format!(
            "Connections between two hosts in network namespaces write full packets of {SEGMENT} bytes at a fixed \
             gap, through the kernel's bridge. Each packet carries the time at which the datapath released it (its \
             IV). A packet socket at the far end of the sender's cable records when it arrives there. The schedule \
             begins with a connection's first packet. \"Late\" is the lateness of the departure, and \"out\" the \
             lateness at the end of the cable."
        ),
        world: World::Live,
        seed: options.seed,
        congestion_control: None,
        details: serde_json::Value::Null,
        settings: settings.into(),
        cases,
        verdicts,
        figures: report::figures(&all),
    })
}
