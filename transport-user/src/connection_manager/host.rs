//! What the connection manager needs of a node; the node implements it, and so do the tests.

use std::net::IpAddr;

use transport_common::ids::Cid;

use super::agreement::Agreement;
use super::message::RegionAdvertisement;
use crate::mac::Mac;

/// A node as the connection manager sees it. Every method but [`Host::next_hop`] returns without waiting for the
/// network.
pub trait Host: Send + Sync + 'static {
    /// A CID kept for one connection; dropping it gives the CID back.
    type Reservation: Send + 'static;

    /// Addresses, limits and clock of this end now.
    fn local(&self) -> LocalEnd;

    /// Keeps a CID whose table slot is free.
    ///
    /// # Errors
    /// [`HostError::TableFull`] when there is none.
    fn reserve_cid(&self) -> Result<Self::Reservation, HostError>;

    /// The CID of a reservation.
    fn reserved(reservation: &Self::Reservation) -> Cid;

    /// The MAC address that leads to a peer, if this end finds it out. The one method that may wait for the network, for
    /// a second or so; it does not hold its thread meanwhile.
    fn next_hop(&self, peer: IpAddr) -> impl Future<Output = Option<Mac>> + Send;

    /// Opens this end's half. From now on packets for the CID are accepted.
    ///
    /// # Errors
    /// [`HostError::Refused`] with a sentence that says why.
    fn open(&self, reservation: Self::Reservation, agreement: &Agreement) -> Result<(), HostError>;

    /// How a connection fares.
    fn health(&self, cid: Cid) -> Health;

    /// Closes a connection: everything outstanding on it completes with `DeadConn` (D-89). Closing a connection
    /// that is gone does nothing.
    fn close(&self, cid: Cid);

    /// The regions a peer may be told about.
    fn regions(&self) -> Vec<RegionAdvertisement>;
}

/// This end of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEnd {
    /// Address peers know.
    pub address: IpAddr,
    /// Index of its interface: the scope of link-local IPv6 addresses.
    pub interface_index: u32,
    /// MAC address.
    pub mac: Mac,
    /// IP MTU, bytes.
    pub mtu: u32,
    /// Largest user data of one transaction, bytes.
    pub max_segment: u32,
    /// The clock IVs are taken from, picoseconds (D-12).
    pub clock_ps: u64,
}

/// How a connection fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Alive.
    Open,
    /// Packet delivery gave up (F-11-6).
    Fatal,
    /// Closed, or never there.
    Closed,
}

/// Why the node did not do what the manager asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// All slots of the connection table are taken.
    #[error("the connection table is full (256 connections): close one with `tiercel conn close`")]
    TableFull,
    /// Anything else.
    #[error("{0}")]
    Refused(String),
}
