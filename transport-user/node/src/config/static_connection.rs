//! Static connections: the tables `[[connection]]`.

use std::collections::HashMap;
use std::net::IpAddr;

use tiercel::{Tuning, Tunnel, Ulp};
use transport_common::connection::Initial;
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::limits;
use transport_common::queues::CONNECTIONS;
use transport_common::security::RemoteTime;
use transport_common::units::Picoseconds;

use super::congestion::Names;
use super::reader::Reader;
use super::tuning;
use crate::parameters::static_connection::{Security, StaticConnection};

/// Reads a table `[[connection]]`, the `number`th of the file. `own` is the node's address and interface.
pub(super) fn read(
    table: &mut Reader<'_, '_>,
    (base, names): (Tuning, &Names<'_>),
    own: Option<(IpAddr, &str)>,
    owners: &mut HashMap<u32, (Cid, usize)>,
    number: usize,
) -> Option<StaticConnection> {
    let local_cid = table.integer("local_cid", 1, u64::from(Cid::MAX));
    let local_cid = table.require("local_cid", local_cid, "5");
    let peer_cid = table.integer("peer_cid", 0, u64::from(Cid::MAX));
    let peer_cid = table.require("peer_cid", peer_cid, "10");
    let peer_address = table.address("peer_address", own.map(|(_, interface)| interface));
    let peer_address = table.require("peer_address", peer_address, "\"10.7.0.2\"");
    let peer_mac = table.mac("peer_mac");
    let peer_mac = table.require("peer_mac", peer_mac, "\"02:00:00:00:00:02\"");
    let follow_next_hop = table.boolean("follow_next_hop").unwrap_or(false);
    let ordered = table.boolean("ordered");
    let ordered = table.require("ordered", ordered, "true");
    let ulp = read_ulp(table);
    let tunnel = table.table("tunnel", read_tunnel);
    let security = table.table("security", read_security);
    let security = table.require("security", security, "{ mode = \"plaintext\", tx_spi = 1, rx_spi = 2 }");
    let function = |value: Option<u64>| value.map_or(0, |value| value as u32);
    let local_function = function(table.integer("local_function", 0, limits::FUNCTION.most));
    let peer_function = function(table.integer("peer_function", 0, limits::FUNCTION.most));
    let tx = table.table("tx", read_initial);
    let tx = table.require("tx", tx, INITIAL_EXAMPLE);
    let rx = table.table("rx", read_initial);
    let rx = table.require("rx", rx, INITIAL_EXAMPLE);
    let tuning = tuning::read_both(table, base, names);

    if let Some(cid) = local_cid {
        check_slot(table, Cid(cid as u32), owners, number);
    }
    match (own.map(|(address, _)| address), peer_address) {
        (Some(own), Some(peer)) if own == peer => {
            table.complain("peer_address", "is the address of this node: write the peer's address");
        }
        (Some(own), Some(peer)) if own.is_ipv4() != peer.is_ipv4() => {
            table.complain("peer_address", format!("must have the IP version of node.address ({own})"));
        }
        _ => {}
    }
    Some(StaticConnection {
        local_cid: Cid(local_cid? as u32),
        peer_cid: Cid(peer_cid? as u32),
        peer_address: peer_address?,
        peer_mac: peer_mac?,
        follow_next_hop,
        ordered: ordered?,
        ulp,
        tunnel,
        security: security?,
        local_function,
        peer_function,
        tx: tx?,
        rx: rx?,
        tuning,
    })
}

/// Complains if another connection of the file has the same CID, or the same slot in the connection table.
fn check_slot(table: &mut Reader<'_, '_>, cid: Cid, owners: &mut HashMap<u32, (Cid, usize)>, number: usize) {
    let slots = CONNECTIONS as u32;
    let (other, owner) = *owners.entry(cid.0 % slots).or_insert((cid, number));
    if owner == number {
        return;
    }
    let text = if other == cid {
        format!("{} is used by connection[{owner}]: each connection needs its own CID", cid.0)
    } else {
        format!(
            "{} shares table slot {} with CID {} of connection[{owner}]: choose a CID with another remainder modulo {slots}",
            cid.0,
            cid.0 % slots,
            other.0
        )
    };
    table.complain("local_cid", text);
}

fn read_ulp(table: &mut Reader<'_, '_>) -> Ulp {
    let Some(name) = table.string("ulp") else { return Ulp::Rdma };
    name.parse().unwrap_or_else(|_| {
        table.complain("ulp", "must be \"rdma\" or \"block\"");
        Ulp::Rdma
    })
}

fn read_tunnel(table: &mut Reader<'_, '_>) -> Option<Tunnel> {
    let local = table.address("local", None);
    let local = table.require("local", local, "\"192.168.7.1\"");
    let peer = table.address("peer", None);
    let peer = table.require("peer", peer, "\"192.168.7.2\"");
    let tunnel = Tunnel { local: local?, peer: peer? };
    tunnel.check().map_err(|error| table.complain("peer", error.to_string())).ok()?;
    Some(tunnel)
}

const INITIAL_EXAMPLE: &str = "{ request_psn = 100, data_psn = 300, rsn = 1 }";

fn read_initial(table: &mut Reader<'_, '_>) -> Option<Initial> {
    let mut number = |name| {
        let value = table.integer(name, 0, u64::from(u32::MAX));
        table.require(name, value, "0").map(|value| value as u32)
    };
    let (request_psn, data_psn, rsn) = (number("request_psn"), number("data_psn"), number("rsn"));
    Some(Initial { request_psn: Psn(request_psn?), data_psn: Psn(data_psn?), rsn: Rsn(rsn?) })
}

fn read_security(table: &mut Reader<'_, '_>) -> Option<Security> {
    let mode = table.string("mode");
    let mode = table.require("mode", mode, "\"plaintext\"");
    match mode.as_deref() {
        Some("plaintext") | None => {}
        Some("psp") => table.complain("mode", "\"psp\" is not available yet; use \"plaintext\""),
        Some(other) => table.complain("mode", format!("\"{other}\" is unknown; allowed: \"plaintext\"")),
    }
    // SPI 0 means "not configured": every packet would be rejected (F-9.2.2.3-8).
    let mut spi = |name, example| {
        let value = table.integer(name, 1, u64::from(u32::MAX));
        table.require(name, value, example).map(|value| Spi(value as u32))
    };
    let (tx_spi, rx_spi) = (spi("tx_spi", "1"), spi("rx_spi", "2"));
    let checksum = table.boolean("checksum").unwrap_or(true);
    let remote_time = table.integer("remote_time", 0, u64::MAX).map(|iv| RemoteTime::from(Picoseconds(iv)));
    mode?;
    Some(Security { tx_spi: tx_spi?, rx_spi: rx_spi?, checksum, remote_time })
}
