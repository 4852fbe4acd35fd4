//! Two ends and the connections between them, for tests and for experiments with one card.

use transport_common::congestion::settings::Settings;
use transport_common::connection::{Config, Initial, Parameters, Path};
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::queues::{DEFAULT_MEMORY, Domain, NodeConfig};
use transport_common::units::{Fcwnd, PicosecondSpan, Ticks};

use super::node_config;

/// Maximum user data of a transaction in bytes. With all headers it still fits a frame of the engine.
pub const LONGEST_SEGMENT: u32 = 3072;

/// Returns the MAC address of a side, 0 or 1.
pub const fn mac(side: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, side as u8 + 1]
}

const fn ipv4(side: usize) -> [u8; 4] {
    [10, 7, 0, side as u8 + 1]
}

/// Returns the node configuration of a side, 0 or 1.
pub fn node(side: usize) -> NodeConfig {
    node_config(mac(side), ipv4(side), [0; 16])
}

/// Returns the parameters with which `side` opens the connection of `slot`: the largest windows, no congestion
/// control, and ACKs after 8 us at the latest.
pub fn connection(side: usize, slot: usize) -> Parameters {
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
    Parameters {
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
            ooo_threshold: 3,
            max_retransmit_attempts: 1000,
            ack_coalescing: Ticks::from_nanos(8_000),
            transaction_timeout: Ticks::from_nanos(2_000_000_000),
            max_segment: LONGEST_SEGMENT,
            domain: Domain::of_node(DEFAULT_MEMORY),
            replay_margin: PicosecondSpan::from_nanos(100_000_000),
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
        fcwnd: Fcwnd::from_packets(128),
        ncwnd: 128,
        rto: Ticks::from_nanos(1_000_000),
        settings: Settings::CONSTANT,
    }
}
