//! What a node has counted and how full it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::EngineStatus;
use crate::loader::AttachMode;
use crate::nic_time::DelayHistograms;
use crate::rate_update::RateUpdateStatus;
use crate::statistics::ConnectionStatistics;
use crate::transmit::Transmit;

/// A snapshot of a node. Counts grow from the moment the node came up; the values are not all of one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStats {
    /// How the wire program is attached.
    pub attach: AttachMode,
    /// How frames of the engine leave.
    pub transmit: Transmit,
    /// The engine thread.
    pub engine: EngineStatus,
    /// The rate update engine in user space.
    pub rate_update: RateUpdateStatus,
    /// Delays of all acknowledgements.
    pub delays: DelayHistograms,
    /// Every counter of the datapath by its name (see `transport_common::counters`).
    pub counters: BTreeMap<String, u64>,
    /// How full the pools are.
    pub pools: Pools,
    /// Sums over all connections since the node came up, those that have ended included.
    pub connections: ConnectionStatistics,
}

/// How full the pools of a node are; after the work is done all are empty again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// Receive cells in use.
    pub cells_in_use: u64,
    /// Receive cells there are.
    pub cells: u64,
    /// Connections that exist.
    pub connections: usize,
    /// Connections there can be.
    pub connection_slots: usize,
    /// Regions registered.
    pub regions: usize,
    /// Regions there can be.
    pub region_slots: usize,
    /// Bytes of registered memory in use.
    pub memory_used: u64,
    /// Bytes of registered memory there are.
    pub memory: u64,
    /// Send queue entries in use, over all connections.
    pub send_entries: u64,
    /// Receives posted, over all connections.
    pub receive_entries: u64,
    /// Completions not collected by the application, over all connections.
    pub completions: u64,
}
