//! Computes the agreement from the two offers. The computation has no other input, so that both ends get the same
//! result.

use std::net::IpAddr;
use std::time::Duration;

use rand::Rng;
use tiercel::backend::is_host;
use tiercel::backend::max_segment;
use tiercel::{Tuning, Tunnel, Ulp};
use transport_common::connection::{DATA_WINDOW, Initial, REQUEST_WINDOW};
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::security::RemoteTime;
use transport_common::ulp::block::BLOCK_BYTES;
use transport_common::units::Picoseconds;

use super::capabilities::Capabilities;
use super::message::{Offer, RegionAdvertisement, SecurityOffer};
use super::node_state::LocalEnd;
use super::options::{DEFAULT_PATIENCE, PATIENCE};
use super::path_reports::LEAST_MTU;
use crate::parameters::static_connection::{Security, StaticConnection};

/// Largest destination function: 24 bits (D-15).
const LARGEST_FUNCTION: u32 = 0x00ff_ffff;

/// What the connecting end decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Whether requests are delivered and completed in RSN order.
    pub ordered: bool,
    /// Whether to have the RACK-TLP extension on (F-9.1.6-9). `None`: as the node's tuning says. Both ends have to have it.
    pub rack_tlp: Option<bool>,
    /// The upper layer protocol.
    pub ulp: Ulp,
    /// The inner addresses in tunnel mode, as this end sees them. `None` is transport mode (F-7.1.2-1).
    pub tunnel: Option<Tunnel>,
    /// Time after which a peer of which nothing arrives counts as dead, in [`PATIENCE`], for both ends. `None`: as
    /// [`Timing::patience`](super::Timing::patience) of this end says.
    pub patience: Option<Duration>,
    /// Whether this end sets the connection up again when it is lost, under another CID. See
    /// [`Notice::Replaced`](super::Notice::Replaced).
    pub reconnect: bool,
}

impl Default for Terms {
    /// An ordered connection for RDMA in transport mode, which is not set up again.
    fn default() -> Self {
        Self { ordered: true, rack_tlp: None, ulp: Ulp::Rdma, tunnel: None, patience: None, reconnect: false }
    }
}

impl Terms {
    /// Returns the terms of the peer's offer, as this end sees them.
    pub(super) fn of(offer: &Offer) -> Self {
        let Offer { ordered, ulp, .. } = *offer;
        let tunnel = offer.tunnel.map(Tunnel::reversed);
        let patience = Some(offer.patience());
        Self { ordered, rack_tlp: None, ulp, tunnel, patience, reconnect: false }
    }

    /// Returns whether the peer kept to these terms in its offer. It need not repeat what is this end's affair.
    pub(super) fn are_kept_by(&self, offer: &Offer) -> bool {
        let Self { rack_tlp, patience, reconnect, .. } = *self;
        Self { rack_tlp, patience, reconnect, ..Self::of(offer) } == *self
    }
}

/// The agreement of both ends on a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The connection that this end opens. Its transmit windows do not exceed the peer's receive windows.
    pub connection: StaticConnection,
    /// The smaller IP MTU of both ends, or that of the path if it is smaller still, bytes.
    pub mtu: u32,
    /// Largest IP packet that crosses the path in both directions, bytes, if it was found.
    pub path_mtu: Option<u32>,
    /// Largest user data of one transaction, bytes.
    pub max_segment: u32,
}

/// Makes the offer of this end. Sequence numbers and SPI are random, so that packets of an earlier connection do
/// not match (D-18).
pub(super) fn make_offer(
    local: &LocalEnd,
    cid: Cid,
    terms: Terms,
    regions: Vec<RegionAdvertisement>,
) -> Offer {
    let mut random = rand::rng();
    Offer {
        cid: cid.0,
        request_psn: random.random(),
        data_psn: random.random(),
        rsn: random.random(),
        mtu: local.mtu,
        max_segment: match Tunnel::header_len(terms.tunnel) {
            0 => local.max_segment,
            inner => max_segment(local.mtu, local.address.is_ipv6(), inner).min(local.max_segment),
        },
        ordered: terms.ordered,
        ulp: terms.ulp,
        tunnel: terms.tunnel,
        patience_ms: terms.patience.unwrap_or(DEFAULT_PATIENCE).as_millis() as u64,
        request_window: REQUEST_WINDOW,
        data_window: DATA_WINDOW,
        security: SecurityOffer::Plaintext { spi: random.random_range(1..=u32::MAX) },
        mac: local.mac,
        function: 0,
        time: local.clock_ps,
        regions,
    }
}

impl Offer {
    /// Returns the patience that it names.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    /// Lowers the MTU to that of the path, and the segment with it.
    pub(super) fn limit(&mut self, path_mtu: Option<u32>, ipv6: bool) {
        let Some(path_mtu) = path_mtu.filter(|path_mtu| *path_mtu < self.mtu) else { return };
        self.mtu = path_mtu;
        let inner = Tunnel::header_len(self.tunnel);
        self.max_segment = self.max_segment.min(max_segment(path_mtu, ipv6, inner));
    }
}

/// Returns the agreement for the end that made the offer `own`. `common` is what both ends are able to do.
///
/// # Errors
/// A text that says what is wrong with the peer's offer.
pub(super) fn agree(
    own: &Offer,
    peer: &Offer,
    common: &Capabilities,
    peer_address: IpAddr,
    mut tuning: Tuning,
) -> Result<Agreement, String> {
    check(peer)?;
    let SecurityOffer::Plaintext { spi: tx_spi } = peer.security;
    let SecurityOffer::Plaintext { spi: rx_spi } = own.security;
    // With a transmit window larger than its receive window, the peer would drop packets out of its window (D-27).
    tuning.request_window = tuning.request_window.min(peer.request_window);
    tuning.data_window = tuning.data_window.min(peer.data_window);
    tuning.rack_tlp = common.rack_tlp.is_some();
    let connection = StaticConnection {
        local_cid: Cid(own.cid),
        peer_cid: Cid(peer.cid),
        peer_address,
        peer_mac: peer.mac,
        follow_next_hop: true,
        ordered: own.ordered,
        ulp: own.ulp,
        tunnel: own.tunnel,
        security: Security {
            tx_spi: Spi(tx_spi),
            rx_spi: Spi(rx_spi),
            checksum: true,
            // Both offers are of the same handshake, so our time is within its duration of the peer's.
            remote_time: Some(RemoteTime {
                iv: Picoseconds(peer.time),
                read_at: Some(Picoseconds(own.time)),
            }),
        },
        local_function: own.function,
        peer_function: peer.function,
        tx: initial(own),
        rx: initial(peer),
        tuning,
    };
    Ok(Agreement {
        connection,
        mtu: own.mtu.min(peer.mtu),
        path_mtu: None,
        max_segment: own.max_segment.min(peer.max_segment),
    })
}

fn initial(offer: &Offer) -> Initial {
    Initial { request_psn: Psn(offer.request_psn), data_psn: Psn(offer.data_psn), rsn: Rsn(offer.rsn) }
}

/// Checks the limits of every field. The caller checks that both offers have the same terms.
pub(super) fn check(offer: &Offer) -> Result<(), String> {
    let SecurityOffer::Plaintext { spi } = offer.security;
    let limits = [
        (offer.cid <= Cid::MAX, "cid has more than 24 bits"),
        (offer.mtu >= LEAST_MTU, "mtu is below 1280"),
        (offer.max_segment >= 8 && offer.max_segment < offer.mtu, "max_segment does not fit mtu"),
        ((1..=REQUEST_WINDOW).contains(&offer.request_window), "request_window is not 1 to 64"),
        ((1..=DATA_WINDOW).contains(&offer.data_window), "data_window is not 1 to 128"),
        (
            offer.ulp.is_rdma() || offer.max_segment >= BLOCK_BYTES,
            "max_segment holds no block of 512 bytes: raise the MTU",
        ),
        (PATIENCE.contains(&offer.patience()), "patience_ms is not 100 to 3600000"),
        (spi != 0, "spi is 0"),
        (is_host(offer.mac), "mac is not the address of one host"),
        (offer.function <= LARGEST_FUNCTION, "function has more than 24 bits"),
    ];
    match limits.iter().find(|(holds, _)| !holds) {
        Some((_, text)) => Err((*text).to_owned()),
        None => offer.tunnel.map_or(Ok(()), |tunnel| tunnel.check().map_err(|error| error.to_string())),
    }
}
