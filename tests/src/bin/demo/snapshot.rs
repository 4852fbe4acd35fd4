//! The counters of the nodes and of the fabric.

use anyhow::Result;
use tiercel_node::NodeStats;
use tiercel_tests::LiveStats;
use tiercel_tests::nodes::TwoNodes;

/// All counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) a: NodeStats,
    pub(crate) b: NodeStats,
    pub(crate) fabric: Option<LiveStats>,
}

impl Snapshot {
    pub(crate) fn take(nodes: &TwoNodes) -> Result<Self> {
        let fabric = nodes.pair.fabric().map(|fabric| fabric.stats());
        Ok(Self { a: nodes.a.stats()?, b: nodes.b.stats()?, fabric })
    }
}
