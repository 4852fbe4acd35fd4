//! A Falcon peer made of test code. It can send any frame, and it sees every frame that comes back.

mod frame;
mod socket;

use std::net::IpAddr;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use transport_common::connection::Initial;
use transport_common::ids::{Cid, Psn, RKey, Spi};
use transport_common::ulp::rdma::{Aeth, Bth, Opcode, Reth};
use transport_common::units::{FalconTime, Picoseconds};
use transport_common::wire::ack::{AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::nack::{Nack, NackCode};
use transport_common::wire::psp::Psp;
use transport_common::wire::pull_data::PullData;
use transport_common::wire::pull_request::PullRequest;
use transport_common::wire::push_data::PushData;
use transport_common::wire::resync::{Resync, ResyncCode};
use transport_common::wire::{FalconHeader, PacketType, ProtocolType};

pub use frame::{FalconParts, Flow, addresses_of, encoded, ip_packet, packet_of, refresh_ipv4, refresh_udp};
pub use socket::Captured;
use socket::Tap;

use crate::checks::PATIENCE;
use crate::{Host, Pair, PassProgram, veth};

/// The peer at host B of a node at host A. It acknowledges only when a test asks it to, and does nothing by
/// itself.
#[derive(Debug)]
pub struct RawPeer {
    tap: Tap,
    /// The XDP program at host B. A veth whose peer has no program drops the frames that the peer's XDP sends.
    _pass: PassProgram,
    /// Addresses and ports of its frames.
    pub flow: Flow,
    /// The node's own CID.
    pub cid: Cid,
    /// SPI of its packets.
    pub spi: Spi,
    /// The sequence numbers of the next packet that it sends.
    pub next: Initial,
    /// The node's packets that it has received, without gaps.
    pub received: Initial,
    last_iv: Picoseconds,
}

/// The contents of a Pull Data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its 802.1Q tag.
    pub vlan: Option<u16>,
    /// Syndrome of its AETH (D-84).
    pub syndrome: u8,
    /// The bytes after its headers.
    pub data: Vec<u8>,
}

impl RawPeer {
    /// Creates a peer on host B of the pair. `next` and `received` are the numbers with which the node's
    /// connection was opened.
    ///
    /// # Errors
    /// Without root.
    pub fn new(pair: &Pair, ipv6: bool, cid: Cid, next: Initial, received: Initial) -> Result<Self> {
        let address = |host: &Host| -> IpAddr { if ipv6 { host.ipv6.into() } else { host.ipv4.into() } };
        let flow = Flow {
            source_mac: pair.b.mac.0,
            destination_mac: pair.a.mac.0,
            vlan: None,
            source: address(&pair.b),
            destination: address(&pair.a),
            source_port: 50_000,
            inner: None,
        };
        let tap = pair.b.run(|| Tap::open(Host::INTERFACE))?;
        let pass = pair.b.run(|| PassProgram::attach(veth::interface_index(Host::INTERFACE)?))?;
        Ok(Self { tap, _pass: pass, flow, cid, spi: Spi(1), next, received, last_iv: Picoseconds(0) })
    }

    /// Returns the machine's clock. The node accepts it as a new IV, and it is larger than any
    /// before.
    ///
    /// # Panics
    /// Never: the monotonic clock can be read.
    pub fn iv(&mut self) -> Picoseconds {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes the timespec, which outlives the call.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
        let picoseconds = (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64) * 1000;
        self.last_iv = Picoseconds(picoseconds.max(self.last_iv.0 + 1));
        self.last_iv
    }

    /// Returns a PSP header as the node expects it (D-83, F-7.1.2-1).
    pub fn psp(&mut self) -> Psp {
        match self.flow.inner {
            None => Psp::plaintext(self.spi, self.iv()),
            Some((IpAddr::V4(_), _)) => Psp::tunnel(4, self.spi, self.iv()),
            Some((IpAddr::V6(_), _)) => Psp::tunnel(6, self.spi, self.iv()),
        }
    }

    /// Returns a complete frame with a Falcon packet.
    pub fn frame(&mut self, falcon: &[u8]) -> Vec<u8> {
        let psp = self.psp();
        self.flow.falcon(&psp, falcon)
    }

    /// Returns a base header with the next RSN; `psn` is in the packet's window.
    pub fn base(&self, packet_type: PacketType, psn: Psn) -> BaseHeader {
        BaseHeader {
            dest_cid: self.cid,
            dest_function: 0,
            protocol: ProtocolType::Rdma as u8,
            packet_type,
            ack_request: true,
            data_base_psn: self.received.data_psn,
            request_base_psn: self.received.request_psn,
            psn,
            rsn: self.next.rsn,
        }
    }

    /// Returns a Falcon packet: Push Data with a WRITE.
    pub fn write_packet(&self, psn: Psn, rkey: RKey, address: u64, data: &[u8]) -> Vec<u8> {
        let payload =
            [
                &encoded(|out| Bth::new(Opcode::WRITE_ONLY, self.cid.0, 0).encode(out)),
                &encoded::<{ Reth::LEN }>(|out| {
                    Reth { address, rkey, length: data.len() as u32 }.encode(out)
                })[..],
                data,
            ]
            .concat();
        let base = self.base(PacketType::PushData, psn);
        let header = PushData { base, request_length: payload.len() as u16 };
        [&encoded::<{ PushData::LEN }>(|out| header.encode(out))[..], &payload].concat()
    }

    /// Returns a Falcon packet: a Pull Request with a READ.
    pub fn read_packet(&self, psn: Psn, rkey: RKey, address: u64, length: u32) -> Vec<u8> {
        let reth = encoded::<{ Reth::LEN }>(|out| Reth { address, rkey, length }.encode(out));
        self.pull_packet(psn, Opcode::READ_REQUEST, &reth, length)
    }

    /// Returns a Falcon packet: a Pull Request with the header of an operation, to be answered with `length`
    /// bytes.
    pub fn pull_packet(&self, psn: Psn, opcode: Opcode, operation: &[u8], length: u32) -> Vec<u8> {
        let base = self.base(PacketType::PullRequest, psn);
        let request_length = (Bth::LEN + Aeth::LEN) as u16 + length as u16;
        [
            &encoded::<{ PullRequest::LEN }>(|out| PullRequest { base, request_length }.encode(out))[..],
            &encoded::<{ Bth::LEN }>(|out| Bth::new(opcode, self.cid.0, 0).encode(out)),
            operation,
        ]
        .concat()
    }

    /// Returns a Falcon packet: a BACK of everything received so far.
    pub fn back_packet(&self) -> AckHeader {
        AckHeader {
            dest_cid: self.cid,
            data_base_psn: self.received.data_psn,
            request_base_psn: self.received.request_psn,
            t1: FalconTime(0),
            t2: FalconTime(0),
            cc: CongestionInfo::default(),
            own_request: false,
            own_data: false,
        }
    }

    /// Returns a NACK of `psn` in the data window that only asks the node to wait.
    pub fn nack_packet(&self, psn: Psn) -> Nack {
        let back = self.back_packet();
        Nack {
            dest_cid: back.dest_cid,
            data_base_psn: back.data_base_psn,
            request_base_psn: back.request_base_psn,
            t1: back.t1,
            t2: back.t2,
            cc: back.cc,
            psn,
            code: NackCode::INSUFFICIENT_RESOURCES,
            rnr_timeout_code: 0,
            request_window: false,
            ulp_code: 0,
        }
    }

    /// Returns a complete Falcon packet of each type, with its name. None is new to the node.
    pub fn old_packets(&self) -> Vec<(&'static str, Vec<u8>)> {
        let old = self.next.data_psn.sub(1);
        let back = self.back_packet();
        let eack = Eack { header: back, data_ack: [0; 2], data_received: [0; 2], request: 0 };
        let base = self.base(PacketType::Resync, old);
        let resync = Resync {
            base,
            code: ResyncCode::RETRANSMISSION_EXHAUSTED,
            packet_type: PacketType::PushData,
            vendor: 0,
        };
        let pull_data = PullData { base: self.base(PacketType::PullData, old) };
        let nack = self.nack_packet(self.received.data_psn.sub(9));
        vec![
            ("Push Data", self.write_packet(old, RKey(1), 0, &[0; 8])),
            ("Pull Request", self.read_packet(self.next.request_psn.sub(1), RKey(1), 0, 8)),
            ("Pull Data", encoded::<{ PullData::LEN }>(|out| pull_data.encode(out)).to_vec()),
            ("Resync", encoded::<{ Resync::LEN }>(|out| resync.encode(out)).to_vec()),
            ("BACK", encoded::<{ AckHeader::LEN }>(|out| back.encode(out)).to_vec()),
            ("EACK", encoded::<{ Eack::LEN }>(|out| eack.encode(out)).to_vec()),
            ("NACK", encoded::<{ Nack::LEN }>(|out| nack.encode(out)).to_vec()),
        ]
    }

    /// Sends a frame as it is.
    ///
    /// # Errors
    /// If the interface does not accept it, because it is shorter than an Ethernet header or longer than the MTU.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        self.tap.send(frame).with_context(|| format!("a frame of {} bytes", frame.len()))
    }

    /// Discards the received frames.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn forget(&self) -> Result<()> {
        self.tap.forget()
    }

    /// Sends a WRITE and waits until the node acknowledges it.
    ///
    /// # Errors
    /// If it does not acknowledge in time.
    pub fn write(&mut self, rkey: RKey, address: u64, data: &[u8]) -> Result<()> {
        let psn = self.next.data_psn;
        let packet = self.write_packet(psn, rkey, address, data);
        let frame = self.frame(&packet);
        self.next.data_psn = psn.add(1);
        self.next.rsn = self.next.rsn.add(1);
        self.send(&frame)?;
        let acknowledged = |base: Psn| psn.is_before(base);
        self.until("an acknowledgement", |_, header, _| match header {
            FalconHeader::Ack(ack) if acknowledged(ack.header().data_base_psn) => Some(()),
            _ => None,
        })
    }

    /// Sends a READ, waits for the answer and acknowledges it.
    ///
    /// # Errors
    /// If no answer arrives in time.
    pub fn read(&mut self, rkey: RKey, address: u64, length: u32) -> Result<Answer> {
        let packet = self.read_packet(self.next.request_psn, rkey, address, length);
        self.pull(&packet)
    }

    /// Sends a Pull Request with the next PSN and RSN, waits for the answer and acknowledges it.
    ///
    /// # Errors
    /// If no answer arrives in time.
    pub fn pull(&mut self, packet: &[u8]) -> Result<Answer> {
        let rsn = self.next.rsn;
        let frame = self.frame(packet);
        self.next.request_psn = self.next.request_psn.add(1);
        self.next.rsn = rsn.add(1);
        self.send(&frame)?;
        let answer = self.until("a Pull Data", |captured, header, payload| {
            let FalconHeader::PullData(data) = header else { return None };
            let ours = data.base.rsn == rsn && payload.len() >= Bth::LEN + Aeth::LEN;
            ours.then(|| Answer {
                vlan: captured.vlan,
                syndrome: payload[Bth::LEN],
                data: payload[Bth::LEN + Aeth::LEN..].to_vec(),
            })
        })?;
        self.received.data_psn = self.received.data_psn.add(1);
        let back = encoded::<{ AckHeader::LEN }>(|out| self.back_packet().encode(out));
        let frame = self.frame(&back);
        self.send(&frame)?;
        Ok(answer)
    }

    /// Returns the first Falcon packet of the node that matches.
    fn until<T>(
        &self,
        what: &str,
        mut find: impl FnMut(&Captured, &FalconHeader, &[u8]) -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let Some(captured) = self.tap.receive()? else { continue };
            let Some(parts) = packet_of(&captured.frame) else { continue };
            // F-7.1.2-1: every packet of the node is in the tunnel, if there is one.
            let back = self.flow.inner.map(|(own, node)| (node, own));
            ensure!(parts.inner.as_ref().map(addresses_of) == back, "in another tunnel: {parts:?}");
            if let Some(found) = find(&captured, &parts.header, parts.payload) {
                return Ok(found);
            }
        }
        bail!("the node did not send {what} in time")
    }
}
