//! The results, in the form in which they are printed and written as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use fabric_model::FabricConfig;
use serde::Serialize;
use tiercel::ConnectionInfo;
use tiercel_node::NodeStats;
use tiercel_tests::LiveStats;
use tiercel_tests::nodes::TwoNodes;
use transport_common::counters::Counter;

use crate::balance;
use crate::equation::Equation;
use crate::file::Source;
use crate::measure::Latency;
use crate::rest::{self, Left};
use crate::snapshot::Snapshot;

/// The whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The file moved.
    file: String,
    /// Its size.
    pub(crate) bytes: u64,
    /// Its SHA-256.
    pub(crate) sha256: String,
    /// The fabric's configuration as text, with the seed.
    pub(crate) fabric: String,
    /// The setup of the hosts.
    pub(crate) hosts: Hosts,
    /// The phases, in order.
    pub(crate) phases: Vec<Phase>,
    /// The fabric's counters.
    pub(crate) fabric_statistics: Option<LiveStats>,
    /// Every counter of the two nodes on the fabric, and their connection's windows, at the end.
    pub(crate) nodes: Vec<NodeReport>,
    /// The equations that account for each packet.
    pub(crate) balance: Vec<Equation>,
    /// What is left in pools, queues and windows.
    pub(crate) rest: Vec<Left>,
    /// The failures, in sentences.
    pub(crate) failures: Vec<String>,
}

/// The common settings of the two hosts on the fabric.
#[derive(Debug, Serialize)]
pub(crate) struct Hosts {
    /// Their addresses.
    pub(crate) addresses: [String; 2],
    /// Bytes of the interfaces' MTU.
    pub(crate) mtu: u32,
    /// Bytes of user data in a transaction.
    pub(crate) max_segment: u32,
    /// Busy or sleeping.
    pub(crate) engine: String,
    /// Fabric window, packets.
    pub(crate) fcwnd: f64,
    /// NIC window, packets.
    pub(crate) ncwnd: u32,
    /// Retransmission timeout, microseconds.
    pub(crate) rto_us: u64,
}

/// A node at the end of its work.
#[derive(Debug, Serialize)]
pub(crate) struct NodeReport {
    pub(crate) host: &'static str,
    pub(crate) stats: NodeStats,
    pub(crate) connection: ConnectionInfo,
}

impl Report {
    /// Creates the report before the first phase.
    pub(crate) fn new(source: &Source, fabric: &FabricConfig, nodes: &TwoNodes) -> Result<Self> {
        let device = nodes.a.device();
        let connection = nodes.at_a.info()?;
        Ok(Self {
            file: source.path.display().to_string(),
            bytes: source.length,
            sha256: source.sha256.clone(),
            fabric: fabric.to_string(),
            hosts: Hosts {
                addresses: [device.address, nodes.b.device().address].map(|address| address.to_string()),
                mtu: device.mtu,
                max_segment: connection.max_segment,
                engine: format!("{:?}", nodes.a.engine()?.mode).to_lowercase(),
                fcwnd: connection.fcwnd,
                ncwnd: connection.ncwnd,
                rto_us: connection.rto_ns / 1000,
            },
            phases: Vec::new(),
            fabric_statistics: None,
            nodes: Vec::new(),
            balance: Vec::new(),
            rest: Vec::new(),
            failures: Vec::new(),
        })
    }

    /// Adds the final counters after the last phase on the fabric. `at_rest` says whether all packets have
    /// arrived.
    pub(crate) fn conclude(&mut self, nodes: &TwoNodes, at_rest: bool) -> Result<()> {
        if !at_rest {
            self.failures.push(
                "the nodes on the fabric still exchange packets or wait for acknowledgements".to_owned(),
            );
        }
        let end = Snapshot::take(nodes)?;
        if let Some(fabric) = nodes.pair.fabric() {
            self.balance = balance::of(&end, fabric);
        }
        self.rest = rest::look("fabric", nodes);
        self.fabric_statistics = end.fabric;
        self.nodes = vec![
            NodeReport { host: "A", stats: end.a, connection: nodes.at_a.info()? },
            NodeReport { host: "B", stats: end.b, connection: nodes.at_b.info()? },
        ];
        Ok(())
    }

    /// Returns whether the run was a success.
    pub(crate) fn holds(&self) -> bool {
        self.failures.is_empty()
            && self.balance.iter().all(Equation::holds)
            && self.rest.iter().all(|left| left.value == 0)
    }
}

/// One step of the demonstration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Phase {
    /// The verb.
    pub(crate) name: &'static str,
    /// "fabric" or "direct".
    pub(crate) link: &'static str,
    /// The number of operations in the time `seconds`.
    pub(crate) operations: u64,
    /// User data that they moved, bytes.
    pub(crate) bytes: u64,
    /// Time that they took, several in parallel.
    pub(crate) seconds: f64,
    pub(crate) operations_per_second: f64,
    pub(crate) megabits_per_second: f64,
    /// Latency from the call to the completion; on the direct link with one operation at a time.
    pub(crate) latency: Latency,
    /// SHA-256 of the data that arrived.
    pub(crate) sha256: Option<String>,
    /// The activity of host A.
    pub(crate) a: Activity,
    /// The activity of host B.
    pub(crate) b: Activity,
}

/// The activity of a node in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Activity {
    /// Reliable packets, first copies.
    pub(crate) packets_sent: u64,
    pub(crate) retransmitted_early: u64,
    pub(crate) retransmitted_timeout: u64,
    pub(crate) retransmitted_rnr: u64,
    pub(crate) tail_probes: u64,
    pub(crate) resyncs_sent: u64,
    /// BACKs, EACKs and NACKs.
    pub(crate) acks_sent: u64,
    /// Requests that waited in receive cells.
    pub(crate) held: u64,
    /// Drops by the name of their counter, without those that are zero.
    pub(crate) drops: BTreeMap<&'static str, u64>,
}

impl Activity {
    fn between(before: &NodeStats, after: &NodeStats) -> Self {
        let (from, to) = (&before.connections, &after.connections);
        let drops = Counter::ALL.iter().filter(|counter| counter.is_drop());
        let drops = drops
            .map(|counter| counter.name())
            .map(|name| (name, after.counters[name] - before.counters[name]));
        let acks = |s: &transport_common::connection::Statistics| s.backs_sent + s.eacks_sent + s.nacks_sent;
        Self {
            packets_sent: to.packets_sent - from.packets_sent,
            retransmitted_early: to.retransmitted_early - from.retransmitted_early,
            retransmitted_timeout: to.retransmitted_timeout - from.retransmitted_timeout,
            retransmitted_rnr: to.retransmitted_rnr - from.retransmitted_rnr,
            tail_probes: to.tail_probes - from.tail_probes,
            resyncs_sent: to.resyncs_sent - from.resyncs_sent,
            acks_sent: acks(to) - acks(from),
            held: to.held - from.held,
            drops: drops.filter(|(_, n)| *n != 0).collect(),
        }
    }
}

impl Phase {
    /// Creates a phase between two snapshots; [`Self::measured`] adds its speed.
    pub(crate) fn new(
        name: &'static str,
        link: &'static str,
        latency: Latency,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Self {
        Self {
            name,
            link,
            operations: 0,
            bytes: 0,
            seconds: 0.0,
            operations_per_second: 0.0,
            megabits_per_second: 0.0,
            latency,
            sha256: None,
            a: Activity::between(&before.a, &after.a),
            b: Activity::between(&before.b, &after.b),
        }
    }

    /// Sets the number of operations, the bytes that they moved, and the time that they took.
    pub(crate) fn measured(&mut self, operations: u64, bytes: u64, time: Duration) {
        (self.operations, self.bytes, self.seconds) = (operations, bytes, time.as_secs_f64());
        self.operations_per_second = operations as f64 / self.seconds;
        self.megabits_per_second = bytes as f64 * 8.0 / 1e6 / self.seconds;
    }
}
