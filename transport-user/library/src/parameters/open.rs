//! The parameters with which a connection is opened.

use std::net::IpAddr;
use std::time::Duration;

use transport_common::connection::{Config, DATA_WINDOW, Initial, Parameters, Path, REQUEST_WINDOW};
use transport_common::ids::{Cid, Spi};
use transport_common::limits::{self, Limit};
use transport_common::memory::Domain;
use transport_common::queues::CELLS;
use transport_common::security::RemoteTime;
use transport_common::ulp::block::BLOCK_BYTES;
use transport_common::units::{Fcwnd, PicosecondSpan, Ticks};

use super::cid::CidReservation;
use super::device::Device;
use super::segmentation::{max_answer, max_segment};
use super::tunnel::Tunnel;
use super::ulp::Ulp;
use crate::common::address::address_bytes;
use crate::common::error::Error;
use crate::common::mac::Mac;
use crate::congestion::CongestionControl;

/// PSP version of plaintext connections (D-83).
pub const PLAINTEXT_VERSION: u8 = 15;
/// First port of the range from which path entropy is taken (D-80).
const FIRST_ENTROPY_PORT: u16 = 49152;

/// The choice of the local CID of a connection.
#[derive(Debug)]
pub enum LocalCid {
    /// Any free CID.
    Any,
    /// This CID, for a static connection.
    Given(Cid),
    /// A CID that was reserved before, during a handshake with the peer.
    Reserved(CidReservation),
}

/// The parameters on which both ends agree, and the tuning of this end.
#[derive(Debug)]
pub struct OpenConnection {
    /// CID that the peer writes into packets to us.
    pub local_cid: LocalCid,
    /// CID that we write into packets to the peer, 24 bits.
    pub peer_cid: Cid,
    /// The peer's address, of the same IP version as the node's.
    pub peer_address: IpAddr,
    /// MAC address of the next hop towards the peer.
    pub peer_mac: Mac,
    /// Whether a connection manager of the node gives the connection another next hop when the kernel's neighbour table has one.
    pub follow_next_hop: bool,
    /// 802.1Q tag control information for frames to the peer. `None` if frames have no tag.
    pub vlan_tci: Option<u16>,
    /// Whether requests are delivered and completed in the order of their RSNs (F-5-1).
    pub ordered: bool,
    /// The upper layer protocol.
    pub ulp: Ulp,
    /// The inner addresses in tunnel mode. `None` is transport mode (F-7.1.2-1).
    pub tunnel: Option<Tunnel>,
    /// Security parameters.
    pub security: ConnectionSecurity,
    /// Destination function that packets to us must have, 24 bits (D-15).
    pub local_function: u32,
    /// Destination function that we write into packets to the peer, 24 bits.
    pub peer_function: u32,
    /// First PSNs and RSN of our packets (D-18).
    pub tx: Initial,
    /// First PSNs and RSN of the peer's packets.
    pub rx: Initial,
    /// Largest user data of one transaction, bytes. `None` stands for the largest value that the node's MTU
    /// allows. If the MTUs of the two ends differ, both ends need the same value: the smaller one.
    pub max_segment: Option<u32>,
    /// Timers, windows and thresholds.
    pub tuning: Tuning,
}

impl OpenConnection {
    /// Returns a copy with this CID.
    pub(crate) fn with_cid(&self, cid: Cid) -> Self {
        Self { local_cid: LocalCid::Given(cid), ..*self }
    }

    /// Returns it with the CID of this reservation.
    #[doc(hidden)]
    pub fn in_slot(self, reservation: CidReservation) -> Self {
        Self { local_cid: LocalCid::Reserved(reservation), ..self }
    }
}

/// Security parameters of a connection (section 9.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSecurity {
    /// PSP version. Only 15 (plaintext) is implemented (D-83).
    pub psp_version: u8,
    /// SPI of packets that we send, not 0.
    pub tx_spi: Spi,
    /// SPI of packets that we receive, not 0 (F-9.2.2.3-8).
    pub rx_spi: Spi,
    /// Whether a UDP checksum is sent (D-91).
    pub checksum: bool,
    /// Newest IV that counts as received already. With `None`, the IV of the first packet is accepted (D-87).
    pub remote_time: Option<RemoteTime>,
}

/// Tuning of one end of a connection. The defaults are those of D-78, if it has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Initial fabric window, packets: [`limits::FCWND`].
    pub fcwnd: f64,
    /// Initial NIC window, packets: [`limits::NCWND`].
    pub ncwnd: u32,
    /// Initial retransmission timeout: [`limits::RTO`].
    pub rto: Duration,
    /// Request transmit window, packets: 1 to 64 (D-27).
    pub request_window: u32,
    /// Data transmit window, packets: 1 to 128 (D-27).
    pub data_window: u32,
    /// Number of timeout retransmissions of a packet before a Resync, and of the Resync before the connection
    /// fails (D-46): 0 to 65535.
    pub max_retransmit_attempts: u32,
    /// ACK coalescing time: [`limits::ACK_COALESCING`].
    pub ack_coalescing: Duration,
    /// Out-of-order distance of early retransmission, packets (D-36): 0 to 127.
    pub ooo_threshold: u32,
    /// The RACK-TLP extension: loss is found by the time since packets were sent, and the last packet is probed
    /// (F-9.1.6-9). A static connection needs it at both ends. A connection manager offers it, and both ends have it
    /// if both offer it.
    pub rack_tlp: bool,
    /// While fcwnd is at most this many packets, every packet has AR: [`limits::ACK_REQUEST_THRESHOLD`].
    pub ack_request_threshold: u32,
    /// Percentage of packets with AR while fcwnd is above the threshold (D-81): 0 to 100.
    pub ack_request_percent: u8,
    /// RNR timeout code that is sent while no receive is posted, 0 to 31 (F-7.8-9).
    pub rnr_timeout_code: u8,
    /// A transaction that is not complete after this time completes with kCmplLocalTO (F-11-19):
    /// [`limits::TRANSACTION_TIMEOUT`].
    pub transaction_timeout: Duration,
    /// Largest age of a packet, compared with the newest packet, up to 10 s (F-9.2.1-7, D-56).
    pub replay_margin: Duration,
    /// Weight of a new value in the smoothed occupancy of the receive pools, in 1/256: 1 to 256. With 256 there is
    /// no smoothing (F-10.2-2).
    pub occupancy_weight: u32,
    /// Number of requests held for the ULP at which the receive buffer counts as full: 1 to 128. The 32 levels in
    /// acknowledgements divide the range below it evenly (F-10.2-3, D-76).
    pub full_packet_pool: u32,
    /// Number of receive cells of the node in use at which the receive buffer counts as full, in the same way: 1
    /// to 2048.
    pub full_buffer_pool: u32,
    /// Congestion control, which changes the windows and the timeout from their initial values on.
    pub congestion: CongestionControl,
}

impl Tuning {
    /// The defaults (D-78).
    pub const DEFAULT: Self = Self {
        fcwnd: 32.0,
        ncwnd: 64,
        rto: Duration::from_millis(1),
        request_window: REQUEST_WINDOW,
        data_window: DATA_WINDOW,
        // The RTO has no back-off (docs/decisions/protocol.md). With an RTO of 1 ms, a peer may pause for a second before a
        // Resync, and for another second before the connection fails.
        max_retransmit_attempts: 1000,
        ack_coalescing: Duration::from_micros(8),
        ooo_threshold: 3,
        rack_tlp: false,
        ack_request_threshold: 2,
        ack_request_percent: 10,
        rnr_timeout_code: 14, // 1.28 ms, about one RTO
        transaction_timeout: Duration::from_secs(30),
        replay_margin: Duration::from_millis(100),
        occupancy_weight: 256,
        full_packet_pool: DATA_WINDOW,
        full_buffer_pool: CELLS as u32,
        congestion: CongestionControl::AUTO,
    };
}

impl Default for Tuning {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl OpenConnection {
    /// Makes the parameters of an ordered plaintext connection with SPI 1 in both directions, sequence numbers
    /// from 0 and default tuning. It keeps its next hop.
    pub fn new(peer_cid: Cid, peer_address: IpAddr, peer_mac: Mac) -> Self {
        Self {
            local_cid: LocalCid::Any,
            peer_cid,
            peer_address,
            peer_mac,
            follow_next_hop: false,
            vlan_tci: None,
            ordered: true,
            ulp: Ulp::Rdma,
            tunnel: None,
            security: ConnectionSecurity {
                psp_version: PLAINTEXT_VERSION,
                tx_spi: Spi(1),
                rx_spi: Spi(1),
                checksum: true,
                remote_time: None,
            },
            local_function: 0,
            peer_function: 0,
            tx: Initial::default(),
            rx: Initial::default(),
            max_segment: None,
            tuning: Tuning::default(),
        }
    }

    /// Converts to the parameters of the datapath.
    ///
    /// # Errors
    /// The first value out of its range.
    pub(crate) fn parameters(&self, device: &Device, local_cid: Cid) -> Result<Parameters, Error> {
        let t = &self.tuning;
        self.check(device)?;
        t.check()?;
        Ok(Parameters {
            config: Config {
                path: self.path(device, local_cid),
                tunnel: self.tunnel.map(Tunnel::of_datapath).unwrap_or_default(),
                local_cid,
                peer_cid: self.peer_cid,
                local_function: self.local_function,
                peer_function: self.peer_function,
                ordered: u8::from(self.ordered),
                checksum: u8::from(self.security.checksum),
                protocol: self.ulp.protocol(),
                rnr_timeout_code: t.rnr_timeout_code,
                ack_request_percent: t.ack_request_percent,
                ack_request_threshold: t.ack_request_threshold,
                ooo_threshold: t.ooo_threshold,
                rack_tlp: u8::from(t.rack_tlp),
                max_retransmit_attempts: t.max_retransmit_attempts,
                ack_coalescing: ticks(t.ack_coalescing),
                transaction_timeout: ticks(t.transaction_timeout),
                max_segment: self.segment(device),
                max_answer: max_answer(device.mtu, device.address.is_ipv6(), Tunnel::header_len(self.tunnel)),
                domain: Domain::of_node(device.memory),
                occupancy_weight: t.occupancy_weight,
                full_packet_pool: t.full_packet_pool as u16,
                full_buffer_pool: t.full_buffer_pool as u16,
                replay_margin: PicosecondSpan::from_nanos(t.replay_margin.as_nanos() as u64),
            },
            psp_version: self.security.psp_version,
            tx_spi: self.security.tx_spi,
            rx_spi: self.security.rx_spi,
            remote_time: self.security.remote_time,
            tx: self.tx,
            rx: self.rx,
            request_window: t.request_window,
            data_window: t.data_window,
            fcwnd: Fcwnd(fixed_point(t.fcwnd) as u32),
            ncwnd: t.ncwnd,
            rto: ticks(t.rto),
            settings: t.congestion.settings()?,
        })
    }

    fn check(&self, device: &Device) -> Result<(), Error> {
        if self.peer_address.is_ipv4() != device.address.is_ipv4() {
            return Err(Error::AddressFamily { peer: self.peer_address, own: device.address });
        }
        if self.peer_cid.0 > Cid::MAX {
            return Err(Error::BadCid(self.peer_cid.0));
        }
        let s = &self.security;
        let plaintext = u64::from(PLAINTEXT_VERSION);
        in_range(
            "psp_version",
            s.psp_version.into(),
            plaintext,
            plaintext,
            "15 (plaintext); no other is implemented",
        )?;
        in_range("tx_spi", s.tx_spi.0.into(), 1, u32::MAX.into(), "not 0")?;
        in_range("rx_spi", s.rx_spi.0.into(), 1, u32::MAX.into(), "not 0")?;
        within("local_function", self.local_function.into(), limits::FUNCTION)?;
        within("peer_function", self.peer_function.into(), limits::FUNCTION)?;
        if let Some(tunnel) = self.tunnel {
            tunnel.check()?;
        }
        let largest = self.largest_segment(device);
        let (segment, limit) = (self.max_segment.unwrap_or(largest), u64::from(largest));
        in_range(
            "max_segment",
            segment.into(),
            8,
            limit,
            "8 to what the node's MTU allows (see its status), less the inner header of a tunnel",
        )?;
        let range = "at least 512 with ulp block: a packet holds a whole block";
        if self.ulp == Ulp::Block {
            in_range("max_segment", segment.into(), 512, limit, range)
        } else {
            Ok(())
        }
    }

    /// Returns the largest user data of one transaction, bytes. With the block protocol it is whole blocks.
    fn segment(&self, device: &Device) -> u32 {
        self.whole(self.max_segment.unwrap_or_else(|| self.largest_segment(device)))
    }

    /// Returns the largest user data of one transaction that the MTU allows, bytes. A tunnel's inner header takes a part.
    fn largest_segment(&self, device: &Device) -> u32 {
        let inner = Tunnel::header_len(self.tunnel);
        match inner {
            0 => device.max_segment,
            _ => max_segment(device.mtu, device.address.is_ipv6(), inner),
        }
    }

    /// Returns the largest user data of one transaction whose packets fit an MTU, bytes. With the block protocol it is whole
    /// blocks.
    pub(crate) fn segment_at(&self, mtu: u32) -> u32 {
        let segment = max_segment(mtu, self.peer_address.is_ipv6(), Tunnel::header_len(self.tunnel));
        self.whole(segment)
    }

    fn whole(&self, segment: u32) -> u32 {
        match self.ulp {
            Ulp::Rdma => segment,
            Ulp::Block => segment - segment % BLOCK_BYTES,
        }
    }

    /// Returns the addresses, and a path entropy that distributes connections over the paths of the fabric (D-80).
    fn path(&self, device: &Device, local_cid: Cid) -> Path {
        // With Fibonacci hashing, neighbouring CIDs get distant ports.
        let entropy = (local_cid.0 ^ self.peer_cid.0.rotate_left(16)).wrapping_mul(0x9e37_79b9) >> 12;
        Path {
            source: address_bytes(device.address),
            destination: address_bytes(self.peer_address),
            source_mac: device.mac.0,
            destination_mac: self.peer_mac.0,
            source_port: FIRST_ENTROPY_PORT | (entropy as u16 & !FIRST_ENTROPY_PORT),
            ip_version: if device.address.is_ipv4() { 4 } else { 6 },
            vlan: u8::from(self.vlan_tci.is_some()),
            vlan_tci: self.vlan_tci.unwrap_or(0),
            inner_version: self.tunnel.map_or(0, Tunnel::version),
            reserved: 0,
            flow_label: entropy,
        }
    }
}

impl Tuning {
    fn check(&self) -> Result<(), Error> {
        within("fcwnd (1/1024 packet)", fixed_point(self.fcwnd), limits::FCWND)?;
        within("ncwnd", self.ncwnd.into(), limits::NCWND)?;
        within("rto (ns)", nanos(self.rto), limits::RTO)?;
        within("request_window", self.request_window.into(), limits::REQUEST_WINDOW)?;
        within("data_window", self.data_window.into(), limits::DATA_WINDOW)?;
        let attempts = self.max_retransmit_attempts;
        within("max_retransmit_attempts", attempts.into(), limits::RETRANSMIT_ATTEMPTS)?;
        within("ack_coalescing (ns)", nanos(self.ack_coalescing), limits::ACK_COALESCING)?;
        within("ooo_threshold", self.ooo_threshold.into(), limits::OOO_THRESHOLD)?;
        let threshold = self.ack_request_threshold;
        within("ack_request_threshold", threshold.into(), limits::ACK_REQUEST_THRESHOLD)?;
        within("ack_request_percent", self.ack_request_percent.into(), limits::ACK_REQUEST_PERCENT)?;
        within("rnr_timeout_code", self.rnr_timeout_code.into(), limits::RNR_TIMEOUT_CODE)?;
        let timeout = nanos(self.transaction_timeout);
        within("transaction_timeout (ns)", timeout, limits::TRANSACTION_TIMEOUT)?;
        within("occupancy_weight", self.occupancy_weight.into(), limits::OCCUPANCY_WEIGHT)?;
        within("full_packet_pool", self.full_packet_pool.into(), limits::FULL_PACKET_POOL)?;
        within("full_buffer_pool", self.full_buffer_pool.into(), limits::FULL_BUFFER_POOL)?;
        within("replay_margin (ns)", nanos(self.replay_margin), limits::REPLAY_MARGIN)
    }
}

/// Converts a fabric window to 1/1024 packet (D-79). A value that is not a number becomes a value out of every
/// range.
fn fixed_point(packets: f64) -> u64 {
    let scaled = (packets * f64::from(1 << Fcwnd::FRACTION_BITS)).round();
    if scaled.is_nan() { u64::MAX } else { scaled as u64 }
}

fn within(name: &'static str, value: u64, limit: Limit) -> Result<(), Error> {
    in_range(name, value, limit.least, limit.most, limit.text)
}

fn in_range(name: &'static str, value: u64, from: u64, to: u64, range: &'static str) -> Result<(), Error> {
    if (from..=to).contains(&value) { Ok(()) } else { Err(Error::Parameter { name, value, range }) }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn ticks(duration: Duration) -> Ticks {
    Ticks::from_nanos(nanos(duration))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::address::address_from;

    fn open() -> OpenConnection {
        OpenConnection::new(Cid(10), "10.7.0.2".parse().expect("an address"), Mac([2, 0, 0, 0, 0, 2]))
    }

    #[test]
    fn defaults_are_those_of_the_decisions() {
        let p = open().parameters(&Device::for_tests(), Cid(5)).expect("valid");
        assert_eq!(p.fcwnd, Fcwnd::from_packets(32)); // D-78
        assert_eq!(p.settings, CongestionControl::AUTO.settings().expect("legal"));
        assert_eq!((p.ncwnd, p.rto, p.config.ack_coalescing), (64, Ticks(7629), Ticks(61)));
        // A peer that pauses for 50 ms does not end a connection: tests/tests/outage.rs tests it.
        assert!(p.config.max_retransmit_attempts * p.rto.0 >= Ticks::from_nanos(500_000_000).0); // D-46
        assert_eq!((p.request_window, p.data_window), (64, 128)); // D-27
        assert_eq!(p.config.replay_margin, PicosecondSpan(100_000_000_000)); // D-56
        let config = &p.config;
        assert_eq!(
            (config.occupancy_weight, config.full_packet_pool, config.full_buffer_pool),
            (256, 128, 2048)
        );
        assert_eq!((p.psp_version, p.remote_time, p.config.checksum), (15, None, 1)); // D-83, D-87, D-91
        assert_eq!((p.config.local_cid, p.config.peer_cid), (Cid(5), Cid(10)));
        assert!(p.config.path.source_port >= 49152 && p.config.path.flow_label < 1 << 20); // D-80
    }

    /// F-7.1.2-1: the inner header takes its part of the MTU, and the datapath gets the inner addresses.
    #[test]
    fn a_tunnel_shortens_segments_and_answers() {
        let device = Device { mtu: 1500, max_segment: 1392, ..Device::for_tests() };
        let address = |text: &str| text.parse().expect("an address");
        for (local, peer, version, segment, answer) in
            [("192.168.7.1", "192.168.7.2", 4, 1376, 1396), ("fd01::1", "fd01::2", 6, 1352, 1376)]
        {
            let tunnel = Tunnel { local: address(local), peer: address(peer) };
            let o = OpenConnection { tunnel: Some(tunnel), ..open() };
            let p = o.parameters(&device, Cid(5)).expect("valid");
            assert_eq!((p.config.max_segment, p.config.max_answer), (segment, answer));
            assert_eq!((p.config.path.inner_version, p.config.tunnel), (version, tunnel.of_datapath()));
            let longer = OpenConnection { max_segment: Some(segment + 1), ..o };
            assert!(matches!(longer.parameters(&device, Cid(5)), Err(Error::Parameter { .. })));
        }
        let same = Tunnel { local: address("fd01::1"), peer: address("fd01::1") };
        let o = OpenConnection { tunnel: Some(same), ..open() };
        assert!(matches!(o.parameters(&device, Cid(5)), Err(Error::Tunnel(_))));
    }

    /// What Pull Data holds bounds the answers to READs. The segments on which both ends agreed may be shorter, because
    /// other packets have longer headers.
    #[test]
    fn answers_are_bounded_by_what_pull_data_holds() {
        for (address, peer, segment, answer) in
            [("10.7.0.1", "10.7.0.2", 1392, 1416), ("fd00::1", "fd00::2", 1368, 1396)]
        {
            let address: IpAddr = address.parse().expect("an address");
            let device = Device { mtu: 1500, max_segment: segment, address, ..Device::for_tests() };
            for agreed in [None, Some(512)] {
                let peer_address = peer.parse().expect("an address");
                let open = OpenConnection { max_segment: agreed, peer_address, ..open() };
                let config = open.parameters(&device, Cid(5)).expect("valid").config;
                assert_eq!((config.max_segment, config.max_answer), (agreed.unwrap_or(segment), answer));
            }
        }
    }

    #[test]
    fn each_value_out_of_range_is_named() {
        let names = |change: fn(&mut OpenConnection)| {
            let mut o = open();
            change(&mut o);
            match o.parameters(&Device::for_tests(), Cid(5)) {
                Err(Error::Parameter { name, .. }) => name,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(names(|o| o.security.rx_spi = Spi(0)), "rx_spi"); // F-9.2.2.3-8
        assert_eq!(names(|o| o.security.psp_version = 0), "psp_version");
        assert_eq!(names(|o| o.tuning.fcwnd = f64::NAN), "fcwnd (1/1024 packet)");
        assert_eq!(names(|o| o.tuning.fcwnd = 0.0), "fcwnd (1/1024 packet)");
        assert_eq!(names(|o| o.tuning.request_window = 65), "request_window");
        assert_eq!(names(|o| o.tuning.data_window = 0), "data_window");
        assert_eq!(names(|o| o.tuning.occupancy_weight = 257), "occupancy_weight");
        assert_eq!(names(|o| o.tuning.full_packet_pool = 129), "full_packet_pool");
        assert_eq!(names(|o| o.tuning.full_buffer_pool = 0), "full_buffer_pool");
        assert_eq!(names(|o| o.tuning.transaction_timeout = Duration::MAX), "transaction_timeout (ns)");
        assert_eq!(names(|o| o.tuning.replay_margin = Duration::from_secs(11)), "replay_margin (ns)"); // F-9.2.1-7
        assert_eq!(names(|o| o.max_segment = Some(100_000)), "max_segment");
        assert_eq!(names(|o| o.peer_function = 1 << 24), "peer_function");
        let mut o = open();
        o.tuning.congestion.parameters.min_fcwnd = 300.0;
        let refused = o.parameters(&Device::for_tests(), Cid(5));
        assert!(matches!(refused, Err(Error::CongestionParameter(e)) if e.name == "max_fcwnd"));
    }

    /// F-11-2: by default, packet delivery has given up a packet and the Resync in its place long before the
    /// transaction times out.
    #[test]
    fn transactions_outlive_their_packets() {
        let Tuning { rto, max_retransmit_attempts, transaction_timeout, .. } = Tuning::DEFAULT;
        let exhausted = 2 * (1 + max_retransmit_attempts) * rto;
        assert!(transaction_timeout >= 10 * exhausted, "{transaction_timeout:?} against {exhausted:?}");
    }

    /// F-9.2.1-7: the margin may be long for any network, but the PSNs of one connection cannot wrap within it, not even
    /// if it sends 200 million packets per second.
    #[test]
    fn the_replay_margin_is_shorter_than_the_wrap_of_psns() {
        let wrap = (1u64 << 32) * 1_000 / 200; // nanoseconds for 2^32 packets
        let longest = limits::REPLAY_MARGIN.most;
        assert!(longest * 2 < wrap, "{longest} of {wrap} ns");
        let margin = nanos(Tuning::DEFAULT.replay_margin);
        assert!((10_000_000..longest).contains(&margin), "{margin} ns");
    }

    /// The library and the core accept every value that the node file accepts.
    #[test]
    fn every_legal_value_is_legal_everywhere() {
        let duration =
            |limit: Limit, most: bool| Duration::from_nanos(if most { limit.most } else { limit.least });
        let number = |limit: Limit, most: bool| if most { limit.most as u32 } else { limit.least as u32 };
        for most in [false, true] {
            let mut o = open();
            o.tuning = Tuning {
                fcwnd: f64::from(number(limits::FCWND, most)) / 1024.0,
                ncwnd: number(limits::NCWND, most),
                rto: duration(limits::RTO, most),
                request_window: number(limits::REQUEST_WINDOW, most),
                data_window: number(limits::DATA_WINDOW, most),
                max_retransmit_attempts: number(limits::RETRANSMIT_ATTEMPTS, most),
                ack_coalescing: duration(limits::ACK_COALESCING, most),
                ooo_threshold: number(limits::OOO_THRESHOLD, most),
                rack_tlp: most,
                ack_request_threshold: number(limits::ACK_REQUEST_THRESHOLD, most),
                ack_request_percent: number(limits::ACK_REQUEST_PERCENT, most) as u8,
                rnr_timeout_code: number(limits::RNR_TIMEOUT_CODE, most) as u8,
                transaction_timeout: duration(limits::TRANSACTION_TIMEOUT, most),
                replay_margin: duration(limits::REPLAY_MARGIN, most),
                occupancy_weight: number(limits::OCCUPANCY_WEIGHT, most),
                full_packet_pool: number(limits::FULL_PACKET_POOL, most),
                full_buffer_pool: number(limits::FULL_BUFFER_POOL, most),
                congestion: CongestionControl::AUTO,
            };
            let parameters = o.parameters(&Device::for_tests(), Cid(5)).expect("the library takes it");
            assert_eq!(parameters.check(), Ok(()), "the core takes it");
        }
    }

    #[test]
    fn peer_and_node_speak_one_ip_version() {
        let mut o = open();
        o.peer_address = "fd00::2".parse().expect("an address");
        assert!(matches!(o.parameters(&Device::for_tests(), Cid(5)), Err(Error::AddressFamily { .. })));
    }

    #[test]
    fn addresses_survive_the_round_trip() {
        for text in ["10.7.0.1", "fd00::1"] {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(address_from(address_bytes(address), if address.is_ipv4() { 4 } else { 6 }), address);
        }
    }
}
