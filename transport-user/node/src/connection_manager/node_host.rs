//! The implementation of [`Host`] for a [`Node`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tiercel::{Access, CidReservation, ConnectionInfo, ConnectionState, Error, LocalCid, Mac, MemoryRegion};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};
use transport_common::connection::Statistics;
use transport_common::ids::{Cid, RKey};
use transport_common::security::SecurityDrops;
use transport_common::ulp::block::BLOCK_BYTES;
use transport_common::units::Picoseconds;

use super::agreement::Agreement;
use super::host::{Health, Host, HostError};
use super::message::RegionAdvertisement;
use super::node_state::{LocalEnd, PathState, Refusals};
use super::path_reports::Proof;
use crate::Node;
use crate::common::mutex::lock;

/// The host by which a [`super::ConnectionManager`] opens connections of a node. Clones refer to the same host.
#[derive(Clone, Debug)]
pub struct NodeHost {
    node: Node,
    names: Arc<Mutex<HashMap<u32, String>>>,
    /// What the node's security checks had refused at the last check.
    refused: Arc<AtomicU64>,
}

impl NodeHost {
    /// Makes the host of this node.
    pub fn new(node: Node) -> Self {
        Self { node, names: Arc::default(), refused: Arc::default() }
    }

    /// Returns the node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Gives a region a name that peers see, or removes it.
    pub fn name_region(&self, key: RKey, name: Option<String>) {
        match name {
            Some(name) => lock(&self.names).insert(key.0, name),
            None => lock(&self.names).remove(&key.0),
        };
    }

    /// Returns the name of a region, if it has one.
    pub fn region_name(&self, key: RKey) -> Option<String> {
        lock(&self.names).get(&key.0).cloned()
    }
}

impl Host for NodeHost {
    type Reservation = CidReservation;
    type Region = MemoryRegion;

    fn local(&self) -> LocalEnd {
        let device = self.node.device();
        LocalEnd {
            address: device.address,
            interface_index: device.index,
            mac: device.mac,
            mtu: device.mtu,
            max_segment: device.max_segment,
            clock_ps: clock().0,
        }
    }

    fn reserve_cid(&self) -> Result<CidReservation, HostError> {
        self.node.reserve_cid().map_err(|error| match error {
            Error::NoFreeCid(_) => HostError::TableFull,
            error => refused(error),
        })
    }

    fn reserved(reservation: &CidReservation) -> Cid {
        reservation.cid()
    }

    async fn next_hop(&self, peer: IpAddr) -> Option<Mac> {
        self.node.next_hop(peer).await.inspect_err(|error| debug!("{error}")).ok()
    }

    fn next_hops_changed(&self) -> bool {
        self.node.next_hops_changed()
    }

    fn known_next_hop(&self, peer: IpAddr, ask: bool) -> Option<Mac> {
        self.node.known_next_hop(peer, ask).inspect_err(|error| debug!("{error}")).ok()?
    }

    fn set_next_hop(&self, cid: Cid, generation: u32, mac: Mac) -> bool {
        let changed = self.node.connection(cid).map(|connection| connection.set_next_hop(generation, mac));
        changed.is_some_and(|changed| changed.inspect_err(|error| warn!("{error}")).unwrap_or(false))
    }

    fn open(&self, reservation: CidReservation, agreement: &Agreement) -> Result<(), HostError> {
        let connection = &agreement.connection;
        let open = connection.to_open(LocalCid::Reserved(reservation), Some(agreement.max_segment));
        self.node.open(open).map(drop).map_err(refused)
    }

    fn proof_region(&self, length: u32) -> Option<(MemoryRegion, RKey)> {
        let access = Access { remote_write: true, ..Access::LOCAL };
        let region = self.node.register_temporary(length as usize, access);
        let region = region.inspect_err(|error| debug!("{error}")).ok()?;
        let key = region.key();
        Some((region, key))
    }

    async fn prove(&self, cid: Cid, region: RKey, limit: Duration) -> Proof {
        let Some(connection) = self.node.connection(cid) else { return Proof::default() };
        let full = connection.max_segment();
        let Ok(zeros) = self.node.allocate(full as usize) else { return Proof::default() };
        let end = Instant::now() + limit;
        // An operation that is left alone goes on, until the connection is closed.
        let write = async |length: u32| {
            let write = connection.write(&zeros, 0, region, 0, length.into());
            matches!(timeout_at(end, write).await, Ok(Ok(())))
        };
        let (short, full) = tokio::join!(write(BLOCK_BYTES.min(full)), write(full));
        let heard = connection.info().is_ok_and(|info| heard(&info) > 0);
        Proof { short, full, heard }
    }

    fn health(&self, cid: Cid) -> Health {
        match self.node.connection(cid).map(|connection| connection.state()) {
            Some(ConnectionState::Open) => Health::Open,
            Some(ConnectionState::Fatal) => Health::Fatal,
            Some(ConnectionState::Closed | ConnectionState::Closing) | None => Health::Closed,
        }
    }

    fn packets_received(&self, cid: Cid) -> u64 {
        let info = self.node.connection(cid).and_then(|connection| connection.info().ok());
        info.map_or(0, |info| heard(&info))
    }

    fn outstanding(&self, cid: Cid) -> usize {
        self.node.connection(cid).map_or(0, |connection| connection.outstanding())
    }

    fn narrow(&self, cid: Cid, mtu: u32) -> bool {
        self.node.connection(cid).is_none_or(|connection| connection.narrow(mtu))
    }

    fn close(&self, cid: Cid) {
        if let Some(connection) = self.node.connection(cid) {
            connection.close();
        }
    }

    fn refusals(&self) -> Vec<Refusals> {
        // Checking every connection takes long, and most of the time there is nothing to see.
        let refused =
            SecurityDrops::CAUSES.into_iter().filter_map(|cause| self.node.counter(cause).ok()).sum();
        if self.refused.swap(refused, Relaxed) == refused {
            return Vec::new();
        }
        let of = |info: ConnectionInfo| Refusals {
            cid: info.local_cid,
            generation: info.generation,
            peer: info.peer_address,
            drops: info.statistics.refused,
        };
        self.node.connections().into_iter().map(of).collect()
    }

    fn news(&self) -> Vec<String> {
        self.node.take_news()
    }

    fn paths(&self) -> Vec<PathState> {
        let state = |info: ConnectionInfo| PathState {
            cid: info.local_cid,
            generation: info.generation,
            peer: info.peer_address,
            next_hop: info.peer_mac,
            follows: self.node.connection(info.local_cid).is_some_and(|own| own.follows_next_hop()),
            failed: info.state == ConnectionState::Fatal,
            outstanding: info.request_tx.unacknowledged + info.data_tx.unacknowledged,
            oldest: [info.request_tx.base_psn, info.data_tx.base_psn],
            timeouts: info.statistics.retransmitted_timeout,
            heard: heard(&info),
            nacks: info.statistics.nacks_received,
        };
        self.node.connections().into_iter().map(state).collect()
    }

    fn regions(&self) -> Vec<RegionAdvertisement> {
        let offered = |region: &tiercel::RegionInfo| region.access != Access::LOCAL;
        let advertise = |region: tiercel::RegionInfo| RegionAdvertisement {
            name: self.region_name(region.key),
            rkey: region.key.0,
            length: region.length,
            access: region.access.flags().bits(),
        };
        self.node.regions().into_iter().filter(offered).map(advertise).collect()
    }
}

/// Returns the number of packets that arrived, with acknowledgements.
fn heard(info: &ConnectionInfo) -> u64 {
    let Statistics { packets_received, acks_received, nacks_received, .. } = *info.statistics;
    packets_received + acks_received + nacks_received
}

/// Reads the clock from which IVs are taken: the kernel's monotonic clock (D-12).
fn clock() -> Picoseconds {
    // Every Linux has the monotonic clock. If reading fails, 0 is safe: a Remote Time of 0 rejects no packet as
    // old.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    Picoseconds::from_nanos(now.as_nanos() as u64)
}

fn refused(error: Error) -> HostError {
    HostError::Refused { kind: error.kind(), text: error.to_string() }
}
