//! The cards of two ends, and what differs between their connections.

use host_nic::{HostConfig, HostNic, testbed};
use transport_common::congestion::settings::Settings;
use transport_common::connection::{Config, Parameters as ConnectionParameters};
use transport_common::queues::CONNECTIONS;
use transport_common::units::{Fcwnd, Ticks};

/// Bytes of memory an end has.
pub(super) const MEMORY: usize = 32 << 20;

/// The plain card of a side, 0 or 1.
pub(super) fn host_config(side: usize) -> HostConfig {
    HostConfig { memory: MEMORY, ..HostConfig::new(testbed::node(side)) }
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
    let plain = testbed::connection(side, slot);
    ConnectionParameters {
        config: Config {
            ack_request_percent: traffic.ack_request_percent,
            ack_coalescing: Ticks::from_nanos(traffic.ack_coalescing),
            ..plain.config
        },
        fcwnd: Fcwnd::from_packets(traffic.window),
        rto: Ticks::from_nanos(traffic.rto),
        settings: traffic.settings,
        ..plain
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
