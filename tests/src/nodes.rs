//! Two nodes of the library, one on each host of a pair, with a connection between them.

use crate::Pair;
use anyhow::{Context, Result};
use std::net::IpAddr;
use transport_common::connection::Initial;
use transport_common::ids::{Cid, Psn, Rsn};
use transport_user::rate_update::RateUpdateOptions;
use transport_user::{
    CongestionControl, Connection, EngineOptions, LocalCid, Mac, Node, NodeOptions, OpenConnection, Tuning,
};

/// CID at host A.
pub const CID_A: Cid = Cid(5);
/// CID at host B.
pub const CID_B: Cid = Cid(10);

/// How the nodes and their connection are set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Engine of host A.
    pub engine_a: EngineOptions,
    /// Engine of host B.
    pub engine_b: EngineOptions,
    /// Deliver and complete in RSN order.
    pub ordered: bool,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Send a UDP checksum (D-91).
    pub checksum: bool,
    /// Tuning of both ends.
    pub tuning: Tuning,
    /// The rate update engine in user space of both nodes.
    pub rate_update: RateUpdateOptions,
}

impl Setup {
    /// The default tuning, but windows and timeout stay what they are.
    pub const CONSTANT: Tuning = Tuning { congestion: CongestionControl::CONSTANT, ..Tuning::DEFAULT };
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            engine_a: EngineOptions::default(),
            engine_b: EngineOptions::default(),
            ordered: true,
            ipv6: false,
            checksum: true,
            // The fabric of the tests has delays of milliseconds, which congestion control would take for congestion.
            tuning: Self::CONSTANT,
            rate_update: RateUpdateOptions::default(),
        }
    }
}

/// Two running nodes and both ends of their connection. Fields are dropped in order: nodes before hosts.
pub struct TwoNodes {
    /// Connection at host A.
    pub at_a: Connection,
    /// Connection at host B.
    pub at_b: Connection,
    /// Node at host A.
    pub a: Node,
    /// Node at host B.
    pub b: Node,
    /// The hosts.
    pub pair: Pair,
}

impl TwoNodes {
    /// Brings both nodes up on `pair` and opens a static connection with sequence numbers close to their wrap.
    ///
    /// # Errors
    /// Whatever the nodes say.
    pub fn up(pair: Pair, setup: Setup) -> Result<Self> {
        let address =
            |host: &crate::Host| -> IpAddr { if setup.ipv6 { host.ipv6.into() } else { host.ipv4.into() } };
        let (address_a, address_b) = (address(&pair.a), address(&pair.b));
        let node = |address, engine| NodeOptions {
            engine,
            rate_update: setup.rate_update,
            ..NodeOptions::new(crate::Host::INTERFACE, address)
        };
        let a = pair.a.run(|| Node::up(node(address_a, setup.engine_a))).context("node A")?;
        let b = pair.b.run(|| Node::up(node(address_b, setup.engine_b))).context("node B")?;
        let mac = |host: &crate::Host| Mac(host.mac.0);
        let numbers = |n: u32| Initial {
            request_psn: Psn(0xffff_fff0 + n),
            data_psn: Psn(0xffff_ffe0 + n),
            rsn: Rsn(0xffff_ffd0 + n),
        };
        let open = |local, peer, peer_address, peer_mac, tx, rx| OpenConnection {
            local_cid: LocalCid::Given(local),
            ordered: setup.ordered,
            tx,
            rx,
            tuning: setup.tuning,
            security: transport_user::ConnectionSecurity {
                checksum: setup.checksum,
                ..OpenConnection::new(peer, peer_address, peer_mac).security
            },
            ..OpenConnection::new(peer, peer_address, peer_mac)
        };
        let at_a = a
            .open(open(CID_A, CID_B, address_b, mac(&pair.b), numbers(0), numbers(1)))
            .context("open at A")?;
        let at_b = b
            .open(open(CID_B, CID_A, address_a, mac(&pair.a), numbers(1), numbers(0)))
            .context("open at B")?;
        Ok(Self { at_a, at_b, a, b, pair })
    }
}
