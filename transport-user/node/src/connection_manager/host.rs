//! The interface of the connection manager to a node. The node implements it, and the tests have their own
//! implementation.

use std::net::IpAddr;
use std::time::Duration;

use tiercel::{ErrorKind, Mac};
use transport_common::ids::{Cid, RKey};

use super::agreement::Agreement;
use super::message::RegionAdvertisement;
use super::node_state::{LocalEnd, PathState, Refusals};
use super::path_reports::Proof;

/// A node as the connection manager uses it. Every method except [`Host::next_hop`] and [`Host::prove`] returns without
/// waiting for the network.
pub trait Host: Send + Sync + 'static {
    /// A CID that is reserved for one connection. Dropping it frees the CID.
    type Reservation: Send + 'static;
    /// A region into which a peer may WRITE. Dropping it deregisters it.
    type Region: Send + 'static;

    /// Returns the current addresses, limits and clock of this end.
    fn local(&self) -> LocalEnd;

    /// Reserves a CID whose table slot is free.
    ///
    /// # Errors
    /// [`HostError::TableFull`] if no slot is free.
    fn reserve_cid(&self) -> Result<Self::Reservation, HostError>;

    /// Returns the CID of a reservation.
    fn reserved(reservation: &Self::Reservation) -> Cid;

    /// Returns the MAC address of the next hop to a peer, if it can be resolved. It may wait for the network, for about a
    /// second. It does not block its thread.
    fn next_hop(&self, peer: IpAddr) -> impl Future<Output = Option<Mac>> + Send;

    /// Returns whether the next hops of connections may have changed since the last call. The first call returns true.
    fn next_hops_changed(&self) -> bool;

    /// Returns the MAC address of the next hop to a peer, if the kernel knows it. With `ask`, the address is resolved again for
    /// a later call, whether the kernel knows one or not.
    fn known_next_hop(&self, peer: IpAddr, ask: bool) -> Option<Mac>;

    /// Sends the packets of a connection to this next hop from now on, those that are sent again included. Nothing else of it
    /// changes. Returns false if the connection with this generation has ended.
    fn set_next_hop(&self, cid: Cid, generation: u32, mac: Mac) -> bool;

    /// Opens this end's half. From now on, packets for the CID are accepted.
    ///
    /// # Errors
    /// [`HostError::Refused`], which says why.
    fn open(&self, reservation: Self::Reservation, agreement: &Agreement) -> Result<(), HostError>;

    /// Registers a region of at least `length` bytes for the proof of a data path, if there is room for one.
    fn proof_region(&self, length: u32) -> Option<(Self::Region, RKey)>;

    /// WRITEs a short packet and one of full size into a peer's region over a connection. Returns when both are acknowledged,
    /// or at the limit. It does not block its thread.
    fn prove(&self, cid: Cid, region: RKey, limit: Duration) -> impl Future<Output = Proof> + Send;

    /// Returns the health of a connection.
    fn health(&self, cid: Cid) -> Health;

    /// Returns how many packets of the peer the datapath has taken, acknowledgements included. It may take long to read.
    fn packets_received(&self, cid: Cid) -> u64;

    /// Returns how many operations and receives of a connection have not completed.
    fn outstanding(&self, cid: Cid) -> usize;

    /// Cuts the operations of a connection so that new packets fit a smaller MTU. Returns whether the packets of all
    /// outstanding operations fit it, too. True if there is no such connection.
    fn narrow(&self, cid: Cid, mtu: u32) -> bool;

    /// Closes a connection. All outstanding operations complete with `DeadConn` (D-89). Does nothing if there is
    /// no such connection.
    fn close(&self, cid: Cid);

    /// Returns what the security checks of connections have refused. It may be empty if that has not changed since the
    /// last call.
    fn refusals(&self) -> Vec<Refusals>;

    /// Returns what has changed of this end since the last call, as sentences for people.
    fn news(&self) -> Vec<String>;

    /// Returns the state of the data path of every connection, static ones included.
    fn paths(&self) -> Vec<PathState>;

    /// Returns the regions that peers may know.
    fn regions(&self) -> Vec<RegionAdvertisement>;
}

/// The health of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The connection is alive.
    Open,
    /// Packet delivery has failed (F-11-6).
    Fatal,
    /// The connection is closed, or does not exist.
    Closed,
}

/// Why a request of the manager to the node failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// All slots of the connection table are in use.
    #[error("the connection table is full (256 connections): close one with `tiercel conn close`")]
    TableFull,
    /// Any other reason.
    #[error("{text}")]
    Refused {
        /// The kind of the node's error.
        kind: ErrorKind,
        /// Its text.
        text: String,
    },
}

impl HostError {
    /// Returns its kind, for programs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TableFull => ErrorKind::Exhausted,
            Self::Refused { kind, .. } => *kind,
        }
    }

    /// Returns the reason for the peer that asked. What the user of this end can do about it is not for the peer's user, and
    /// nor are numbers and paths of this end.
    pub(super) fn for_peer(&self) -> &'static str {
        match self {
            Self::TableFull => "its connection table is full: close a connection to it, or try again later",
            Self::Refused { .. } => "it could not open its end of the connection: its log says why",
        }
    }
}
