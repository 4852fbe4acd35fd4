//! Two ends and the connections between them: the setting of tests and experiments.

use transport_common::congestion::settings::Settings;
use transport_common::connection::{Config, Initial, Parameters as ConnectionParameters, Path};
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::queues::{CONNECTIONS, NodeConfig};
use transport_common::units::{Fcwnd, Ticks};

use crate::host_nic::{HostConfig, HostNic, node_config};

/// Longest user data of a transaction: with all headers it still fits a frame of the engine.
pub(super) const LONGEST_SEGMENT: u32 = 3072;
/// Bytes of memory an end has.
pub(super) const MEMORY: usize = 32 << 20;

const fn mac(side: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, side as u8 + 1]
}

const fn ipv4(side: usize) -> [u8; 4] {
    [10, 7, 0, side as u8 + 1]
}

fn node(side: usize) -> NodeConfig {
    node_config(mac(side), ipv4(side), [0; 16])
}

/// The plain card of a side, 0 or 1.
pub(super) fn host_config(side: usize) -> HostConfig {
    HostConfig { memory: MEMORY, ..HostConfig::new(node(side)) }
}

/// MAC address of a side.
#[cfg(test)]
pub(super) const fn address(side: usize) -> [u8; 6] {
    mac(side)
}

/// What differs between connections of experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Packets of the fabric window.
    pub(super) window: u32,
    /// Nanoseconds for which an ACK may be held back.
    pub(super) ack_coalescing: u64,
    /// Congestion control.
    pub(super) settings: Settings,
    /// Nanoseconds of the retransmission timeout.
    pub(super) rto: u64,
    /// Percent of packets that ask for an ACK.
    pub(super) ack_request_percent: u8,
}

impl Traffic {
    /// Windows as large as they may be, Swift off, ACKs after 8 us at the latest.
    pub(super) const CONSTANT: Self = Self {
        window: 128,
        ack_coalescing: 8_000,
        settings: Settings::CONSTANT,
        rto: 1_000_000,
        ack_request_percent: 10,
    };
}

/// The connection of `slot` as `side` opens it.
pub(super) fn connection(side: usize, slot: usize, traffic: Traffic) -> ConnectionParameters {
    let peer = 1 - side;
    let start = |side: usize| Initial {
        request_psn: Psn(100 + slot as u32),
        data_psn: Psn(0u32.wrapping_sub(side as u32 + 3)),
        rsn: Rsn(7 * slot as u32),
    };
    let whole = |v4: [u8; 4]| {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&v4);
        address
    };
    ConnectionParameters {
        config: Config {
            path: Path {
                source: whole(ipv4(side)),
                destination: whole(ipv4(peer)),
                source_mac: mac(side),
                destination_mac: mac(peer),
                source_port: 50_000 + slot as u16,
                ip_version: 4,
                ..Path::default()
            },
            local_cid: Cid(slot as u32),
            peer_cid: Cid(slot as u32),
            ordered: 1,
            checksum: 1,
            ack_request_threshold: 2,
            ack_request_percent: traffic.ack_request_percent,
            ooo_threshold: 3,
            max_retransmit_attempts: 1000,
            ack_coalescing: Ticks::from_nanos(traffic.ack_coalescing),
            transaction_timeout: Ticks::from_nanos(2_000_000_000),
            max_segment: LONGEST_SEGMENT,
            replay_margin: 100_000_000_000,
            ..Config::default()
        },
        psp_version: 15,
        tx_spi: Spi(1),
        rx_spi: Spi(1),
        remote_time: None,
        tx: start(side),
        rx: start(peer),
        request_window: 64,
        data_window: 128,
        fcwnd: Fcwnd::from_packets(traffic.window),
        ncwnd: 128,
        rto: Ticks::from_nanos(traffic.rto),
        settings: traffic.settings,
    }
}

/// Opens the first `count` connections.
///
/// # Panics
/// If there are not so many slots, or parameters out of range.
pub(super) fn open(host: &mut HostNic, side: usize, count: usize, traffic: Traffic) {
    assert!(count <= CONNECTIONS, "{count} connections, there are {CONNECTIONS}");
    for slot in 0..count {
        let parameters = connection(side, slot, traffic);
        assert_eq!(parameters.check(), Ok(()), "connection {slot}");
        host.open(slot, &parameters);
    }
}
