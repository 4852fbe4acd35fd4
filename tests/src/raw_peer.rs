//! A Falcon peer of a node that a test drives by hand. It can send any frame, and it sees every frame that comes back.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use falcon_conformance::{Flow, PacketSocket, Patience, Session, Settings, Start, Subject, Wire};
use transport_common::connection::Initial;
use transport_common::ids::{RKey, Spi};
use transport_common::units::Picoseconds;

use crate::checks::PATIENCE;
use crate::nodes::{CID_A, CID_B};
use crate::{Host, Pair, PassProgram};

/// The interface of host B.
struct Tap {
    socket: PacketSocket,
    /// A veth whose peer has no XDP program drops the frames that the peer's XDP sends.
    _pass: PassProgram,
}

impl Wire for Tap {
    fn now(&mut self) -> Picoseconds {
        self.socket.now()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.socket.send(frame)
    }

    fn receive(&mut self, deadline: Picoseconds) -> io::Result<Option<(Picoseconds, Vec<u8>)>> {
        self.socket.receive(deadline)
    }
}

/// Returns a peer on host B of the pair, for a connection of a node on host A from [`CID_A`] to [`CID_B`]. `next` and
/// `received` are the numbers with which the node's connection was opened: those of the peer's packets and of the node's.
/// The region is the node's first one (D-84).
///
/// # Errors
/// Without root.
pub fn raw_peer(pair: &Pair, ipv6: bool, next: Initial, received: Initial) -> Result<Session<'static>> {
    let address = |host: &Host| -> IpAddr { if ipv6 { host.ipv6.into() } else { host.ipv4.into() } };
    let (source, destination) = (address(&pair.b), address(&pair.a));
    let tap = pair.b.run(|| -> Result<Tap> {
        let socket = PacketSocket::open(Host::INTERFACE, source).context("a packet socket needs root")?;
        let pass = PassProgram::attach(socket.index())?;
        Ok(Tap { socket, _pass: pass })
    })?;
    let start = |Initial { request_psn, data_psn, rsn }: Initial| Start { request_psn, data_psn, rsn };
    let subject = Subject {
        flow: Flow {
            source_mac: pair.b.mac.0,
            destination_mac: pair.a.mac.0,
            vlan: None,
            source,
            destination,
            source_port: 50_000,
            inner: None,
        },
        local_cid: CID_B,
        peer_cid: CID_A,
        local_function: 0,
        peer_function: 0,
        ordered: true,
        tx_spi: Spi(1),
        rx_spi: Spi(1),
        tx: start(next),
        rx: start(received),
        rkey: RKey(1),
        settings: Settings::default(),
    };
    Ok(Session::new(tap, None, subject, Patience::new(PATIENCE, PATIENCE, Duration::from_millis(50))))
}
