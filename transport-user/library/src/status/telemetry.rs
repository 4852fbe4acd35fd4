//! The counters of a node and the use of its pools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::datapath::{AttachMode, EngineStatus, Transmit};
use super::rate_update::RateUpdateStatus;
use crate::verbs::nic_time::DelayHistograms;
use crate::verbs::statistics::ConnectionStatistics;

/// A snapshot of a node. Counters start when the node comes up. The values are not read at the same instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStats {
    /// Attach mode of the wire program.
    pub attach: AttachMode,
    /// How frames of the engine leave.
    pub transmit: Transmit,
    /// The engine thread.
    pub engine: EngineStatus,
    /// The rate update engine in user space.
    pub rate_update: RateUpdateStatus,
    /// Delays of all acknowledgements.
    pub delays: DelayHistograms,
    /// All counters of the datapath by name (see `transport_common::counters`).
    pub counters: BTreeMap<String, u64>,
    /// Use of the pools.
    pub pools: Pools,
    /// Sums over all connections since the node came up, including those that have ended.
    pub connections: ConnectionStatistics,
}

/// The use of the pools of a node. When all work is done, nothing is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// Receive cells in use.
    pub cells_in_use: u64,
    /// Total number of receive cells.
    pub cells: u64,
    /// Number of connections.
    pub connections: usize,
    /// Largest number of connections.
    pub connection_slots: usize,
    /// Number of registered regions.
    pub regions: usize,
    /// Largest number of registered regions.
    pub region_slots: usize,
    /// Bytes of registered memory in use.
    pub memory_used: u64,
    /// Total bytes of registered memory.
    pub memory: u64,
    /// Send queue entries in use, over all connections.
    pub send_entries: u64,
    /// Receives posted, over all connections.
    pub receive_entries: u64,
    /// Completions that the application has not collected, over all connections.
    pub completions: u64,
}
