//! What a connection is opened with.

use std::net::IpAddr;
use std::time::Duration;

use transport_common::connection::{Config, DATA_WINDOW, Initial, Parameters, Path, REQUEST_WINDOW};
use transport_common::ids::{Cid, Spi};
use transport_common::queues::CELLS;
use transport_common::units::{Fcwnd, Ticks};

use crate::cid::CidReservation;
use crate::congestion::CongestionControl;
use crate::error::Error;
use crate::info::Device;
use crate::mac::Mac;

/// PSP version of plaintext connections (D-83).
pub const PLAINTEXT_VERSION: u8 = 15;
/// First port of the range that path entropy is drawn from (D-80).
const FIRST_ENTROPY_PORT: u16 = 49152;
/// Largest duration that compares correctly modulo 2^32 ticks.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(281);
/// Largest number in the 24-bit field of a destination function.
const MAX_FUNCTION: u32 = 0x00ff_ffff;

/// Which CID the connection gets at this end.
#[derive(Debug)]
pub enum LocalCid {
    /// Any free one.
    Any,
    /// This one, as agreed with a peer that sets up by other means.
    Given(Cid),
    /// One reserved before, while the peer was being asked.
    Reserved(CidReservation),
}

/// Both ends' agreement on a connection, and the tuning of this end.
#[derive(Debug)]
pub struct OpenConnection {
    /// CID the peer writes into packets to us.
    pub local_cid: LocalCid,
    /// CID we write into packets to the peer; 24 bits.
    pub peer_cid: Cid,
    /// The peer's address, of the same IP version as the node's.
    pub peer_address: IpAddr,
    /// MAC address of the next hop towards the peer.
    pub peer_mac: Mac,
    /// 802.1Q tag control information for frames to the peer, if they are to carry a tag.
    pub vlan_tci: Option<u16>,
    /// Whether requests are delivered and completed in the order of their RSNs (F-5-1).
    pub ordered: bool,
    /// SPIs and protection.
    pub security: ConnectionSecurity,
    /// Destination function expected in packets to us, 24 bits (D-15).
    pub local_function: u32,
    /// Destination function written into packets to the peer, 24 bits.
    pub peer_function: u32,
    /// First PSNs and RSN we send with (D-18).
    pub tx: Initial,
    /// First PSNs and RSN the peer sends with.
    pub rx: Initial,
    /// Largest user data of one transaction, bytes; none for what the node's MTU allows. Both ends need the same
    /// bound only where their MTUs differ: then it is the smaller.
    pub max_segment: Option<u32>,
    /// Timers, windows, thresholds.
    pub tuning: Tuning,
}

impl OpenConnection {
    /// The same once more, with this CID.
    pub(crate) fn with_cid(&self, cid: Cid) -> Self {
        Self { local_cid: LocalCid::Given(cid), ..*self }
    }
}

/// Security parameters of a connection (section 9.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSecurity {
    /// PSP version; only 15, plaintext, is built (D-83).
    pub psp_version: u8,
    /// SPI of packets we send, not 0.
    pub tx_spi: Spi,
    /// SPI of packets we receive, not 0 (F-9.2.2.3-8).
    pub rx_spi: Spi,
    /// Whether a UDP checksum is sent (D-91).
    pub checksum: bool,
    /// Newest IV assumed to be received already; none takes the first packet's (D-87).
    pub remote_time: Option<u64>,
}

/// Tuning of one end of a connection; the defaults are D-78's where it has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Initial fabric window, packets: 1/1024 to 2047.
    pub fcwnd: f64,
    /// Initial NIC window, packets: 1 to 1024.
    pub ncwnd: u32,
    /// Initial retransmission timeout, 1 us to 2 s.
    pub rto: Duration,
    /// Request transmit window, packets: 1 to 64 (D-27).
    pub request_window: u32,
    /// Data transmit window, packets: 1 to 128 (D-27).
    pub data_window: u32,
    /// Timeout retransmissions before a Resync, and of the Resync before the end (D-46): 0 to 65535.
    pub max_retransmit_attempts: u32,
    /// ACK coalescing time, up to 1 s.
    pub ack_coalescing: Duration,
    /// Out-of-order distance of early retransmission, packets (D-36): 0 to 127.
    pub ooo_threshold: u32,
    /// AR on every packet while fcwnd is at or below this many packets.
    pub ack_request_threshold: u32,
    /// Percent of packets with AR above the threshold (D-81): 0 to 100.
    pub ack_request_percent: u8,
    /// RNR timeout code sent while no receive is posted, 0 to 31 (F-7.8-9).
    pub rnr_timeout_code: u8,
    /// A transaction not complete after this time completes kCmplLocalTO (F-11-19): up to 281 s.
    pub transaction_timeout: Duration,
    /// How much older than the newest a packet may be, up to 10 s (F-9.2.1-7, D-56).
    pub replay_margin: Duration,
    /// Weight of a new value in the smoothed occupancy of the receive pools, in 1/256: 1 to 256, which does not smooth
    /// (F-10.2-2).
    pub occupancy_weight: u32,
    /// Requests held for the ULP at which the receive buffer counts as full: 1 to 128. The thresholds of the 32 levels
    /// that acknowledgements report divide what lies below evenly (F-10.2-3, D-76).
    pub full_packet_pool: u32,
    /// Receive cells of the node in use at which the receive buffer counts as full, likewise: 1 to 2048.
    pub full_buffer_pool: u32,
    /// Who decides over windows and timeout, from these on.
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
        // The RTO has no back-off (docs/decisions.md): at 1 ms a peer may pause for a second before a Resync, and for
        // another before the connection ends.
        max_retransmit_attempts: 1000,
        ack_coalescing: Duration::from_micros(8),
        ooo_threshold: 3,
        ack_request_threshold: 2,
        ack_request_percent: 10,
        rnr_timeout_code: 14, // 1.28 ms, about one RTO
        transaction_timeout: Duration::from_secs(30),
        replay_margin: Duration::from_millis(100),
        occupancy_weight: 256,
        full_packet_pool: DATA_WINDOW,
        full_buffer_pool: CELLS as u32,
        congestion: CongestionControl::SWIFT,
    };
}

impl Default for Tuning {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl OpenConnection {
    /// An ordered plaintext connection with SPI 1 each way, sequence numbers from 0 and default tuning.
    pub fn new(peer_cid: Cid, peer_address: IpAddr, peer_mac: Mac) -> Self {
        Self {
            local_cid: LocalCid::Any,
            peer_cid,
            peer_address,
            peer_mac,
            vlan_tci: None,
            ordered: true,
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

    /// The datapath's parameters.
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
                local_cid,
                peer_cid: self.peer_cid,
                local_function: self.local_function,
                peer_function: self.peer_function,
                ordered: u8::from(self.ordered),
                checksum: u8::from(self.security.checksum),
                rnr_timeout_code: t.rnr_timeout_code,
                ack_request_percent: t.ack_request_percent,
                ack_request_threshold: t.ack_request_threshold,
                ooo_threshold: t.ooo_threshold,
                max_retransmit_attempts: t.max_retransmit_attempts,
                ack_coalescing: ticks(t.ack_coalescing),
                transaction_timeout: ticks(t.transaction_timeout),
                max_segment: self.max_segment.unwrap_or(device.max_segment),
                occupancy_weight: t.occupancy_weight,
                full_packet_pool: t.full_packet_pool as u16,
                full_buffer_pool: t.full_buffer_pool as u16,
                replay_margin: t.replay_margin.as_nanos() as u64 * 1000,
            },
            psp_version: self.security.psp_version,
            tx_spi: self.security.tx_spi,
            rx_spi: self.security.rx_spi,
            remote_time: self.security.remote_time,
            tx: self.tx,
            rx: self.rx,
            request_window: t.request_window,
            data_window: t.data_window,
            fcwnd: Fcwnd((t.fcwnd * f64::from(1 << Fcwnd::FRACTION_BITS)).round() as u32), // D-79
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
            "15 (plaintext); no other is built",
        )?;
        in_range("tx_spi", s.tx_spi.0.into(), 1, u32::MAX.into(), "not 0")?;
        in_range("rx_spi", s.rx_spi.0.into(), 1, u32::MAX.into(), "not 0")?;
        let function = u64::from(MAX_FUNCTION);
        in_range("local_function", self.local_function.into(), 0, function, "24 bits")?;
        in_range("peer_function", self.peer_function.into(), 0, function, "24 bits")?;
        let segment = self.max_segment.unwrap_or(device.max_segment);
        let limit = u64::from(device.max_segment);
        in_range("max_segment", segment.into(), 8, limit, "8 to what the node's MTU allows (see its status)")
    }

    /// Addresses, and a path entropy that spreads connections over the fabric's paths (D-80).
    fn path(&self, device: &Device, local_cid: Cid) -> Path {
        // Fibonacci hashing: neighbouring CIDs get distant ports.
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
            reserved: 0,
            flow_label: entropy,
        }
    }
}

impl Tuning {
    fn check(&self) -> Result<(), Error> {
        let fcwnd_ok = self.fcwnd >= 1.0 / 1024.0 && self.fcwnd <= 2047.0;
        in_range(
            "fcwnd",
            self.fcwnd as u64,
            if fcwnd_ok { 0 } else { u64::MAX },
            u64::MAX,
            "1/1024 to 2047 packets",
        )?;
        in_range("ncwnd", self.ncwnd.into(), 1, 1024, "1 to 1024 packets")?;
        in_range("rto (ns)", nanos(self.rto), 1_000, 2_000_000_000, "1 us to 2 s")?;
        in_range("request_window", self.request_window.into(), 1, REQUEST_WINDOW.into(), "1 to 64 packets")?;
        in_range("data_window", self.data_window.into(), 1, DATA_WINDOW.into(), "1 to 128 packets")?;
        let attempts = self.max_retransmit_attempts;
        in_range("max_retransmit_attempts", attempts.into(), 0, u16::MAX.into(), "0 to 65535")?;
        in_range("ack_coalescing (ns)", nanos(self.ack_coalescing), 0, 1_000_000_000, "0 to 1 s")?;
        in_range("ooo_threshold", self.ooo_threshold.into(), 0, 127, "0 to 127 packets")?;
        in_range("ack_request_percent", self.ack_request_percent.into(), 0, 100, "0 to 100")?;
        in_range("rnr_timeout_code", self.rnr_timeout_code.into(), 0, 31, "0 to 31")?;
        let longest = nanos(LONGEST_TIMEOUT);
        in_range(
            "transaction_timeout (ns)",
            nanos(self.transaction_timeout),
            1_000,
            longest,
            "1 us to 281 s",
        )?;
        in_range("occupancy_weight", self.occupancy_weight.into(), 1, 256, "1 to 256")?;
        let (requests, cells) = (u64::from(DATA_WINDOW), CELLS as u64);
        in_range("full_packet_pool", self.full_packet_pool.into(), 1, requests, "1 to 128 requests")?;
        in_range("full_buffer_pool", self.full_buffer_pool.into(), 1, cells, "1 to 2048 cells")?;
        in_range("replay_margin (ns)", nanos(self.replay_margin), 0, 10_000_000_000, "0 to 10 s")
    }
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

/// An address in 16 bytes, IPv4 in the first 4.
pub(crate) fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            bytes
        }
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The inverse of [`address_bytes`].
pub(crate) fn address_from(bytes: [u8; 16], ip_version: u8) -> IpAddr {
    let [a, b, c, d, ..] = bytes;
    if ip_version == 4 { IpAddr::from([a, b, c, d]) } else { IpAddr::from(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::tests::device;
    use transport_common::congestion::settings::Settings;

    fn open() -> OpenConnection {
        OpenConnection::new(Cid(10), "10.7.0.2".parse().expect("an address"), Mac([2, 0, 0, 0, 0, 2]))
    }

    #[test]
    fn defaults_are_those_of_the_decisions() {
        let p = open().parameters(&device(), Cid(5)).expect("valid");
        assert_eq!(p.fcwnd, Fcwnd::from_packets(32)); // D-78
        assert_eq!(p.settings, Settings::SWIFT);
        assert_eq!((p.ncwnd, p.rto, p.config.ack_coalescing), (64, Ticks(7629), Ticks(61)));
        // A peer that pauses for 50 ms costs no connection: tests/tests/outage.rs plays it.
        assert!(p.config.max_retransmit_attempts * p.rto.0 >= Ticks::from_nanos(500_000_000).0); // D-46
        assert_eq!((p.request_window, p.data_window), (64, 128)); // D-27
        assert_eq!(p.config.replay_margin, 100_000_000_000); // D-56, in picoseconds
        let config = &p.config;
        assert_eq!(
            (config.occupancy_weight, config.full_packet_pool, config.full_buffer_pool),
            (256, 128, 2048)
        );
        assert_eq!((p.psp_version, p.remote_time, p.config.checksum), (15, None, 1)); // D-83, D-87, D-91
        assert_eq!((p.config.local_cid, p.config.peer_cid), (Cid(5), Cid(10)));
        assert!(p.config.path.source_port >= 49152 && p.config.path.flow_label < 1 << 20); // D-80
    }

    #[test]
    fn each_value_out_of_range_is_named() {
        let names = |change: fn(&mut OpenConnection)| {
            let mut o = open();
            change(&mut o);
            match o.parameters(&device(), Cid(5)) {
                Err(Error::Parameter { name, .. }) => name,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(names(|o| o.security.rx_spi = Spi(0)), "rx_spi"); // F-9.2.2.3-8
        assert_eq!(names(|o| o.security.psp_version = 0), "psp_version");
        assert_eq!(names(|o| o.tuning.fcwnd = f64::NAN), "fcwnd");
        assert_eq!(names(|o| o.tuning.fcwnd = 0.0), "fcwnd");
        assert_eq!(names(|o| o.tuning.request_window = 65), "request_window");
        assert_eq!(names(|o| o.tuning.data_window = 0), "data_window");
        assert_eq!(names(|o| o.tuning.occupancy_weight = 257), "occupancy_weight");
        assert_eq!(names(|o| o.tuning.full_packet_pool = 129), "full_packet_pool");
        assert_eq!(names(|o| o.tuning.full_buffer_pool = 0), "full_buffer_pool");
        assert_eq!(names(|o| o.tuning.transaction_timeout = Duration::MAX), "transaction_timeout (ns)");
        assert_eq!(names(|o| o.max_segment = Some(100_000)), "max_segment");
        assert_eq!(names(|o| o.peer_function = 1 << 24), "peer_function");
        let mut o = open();
        o.tuning.congestion.parameters.min_fcwnd = 300.0;
        let refused = o.parameters(&device(), Cid(5));
        assert!(matches!(refused, Err(Error::CongestionParameter(e)) if e.name == "max_fcwnd"));
    }

    #[test]
    fn peer_and_node_speak_one_ip_version() {
        let mut o = open();
        o.peer_address = "fd00::2".parse().expect("an address");
        assert!(matches!(o.parameters(&device(), Cid(5)), Err(Error::AddressFamily { .. })));
    }

    #[test]
    fn addresses_survive_the_round_trip() {
        for text in ["10.7.0.1", "fd00::1"] {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(address_from(address_bytes(address), if address.is_ipv4() { 4 } else { 6 }), address);
        }
    }
}
