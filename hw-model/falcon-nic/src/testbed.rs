//! The cards of two ends and their connections, for experiments and tests.

use host_nic::{HostConfig, HostNic, testbed};
use transport_common::congestion::settings::Settings;
use transport_common::connection::{Config, Parameters as ConnectionParameters};
use transport_common::queues::{CONNECTIONS, Domain, NodeConfig};
use transport_common::units::{Fcwnd, Ticks};

/// Bytes of memory of an end.
pub(super) const MEMORY: u64 = 32 << 20;

/// Returns the configuration of the plain card of a side, 0 or 1.
pub(super) fn host_config(side: usize) -> HostConfig {
    HostConfig::new(NodeConfig { memory: MEMORY, ..testbed::node(side) })
}

/// The connection parameters that differ between experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Fabric window in packets.
    pub(super) window: u32,
    /// ACK coalescing time in nanoseconds.
    pub(super) ack_coalescing: u64,
    /// Congestion control.
    pub(super) settings: Settings,
    /// Retransmission timeout in nanoseconds.
    pub(super) rto: u64,
    /// Percentage of packets that request an ACK.
    pub(super) ack_request_percent: u8,
}

impl Traffic {
    /// The largest windows, no Swift, and ACKs after 8 us at the latest.
    pub(super) const CONSTANT: Self = Self {
        window: 128,
        ack_coalescing: 8_000,
        settings: Settings::CONSTANT,
        rto: 1_000_000,
        ack_request_percent: 10,
    };
}

/// Returns the parameters with which `side` opens the connection of `slot`.
pub(super) fn connection(side: usize, slot: usize, traffic: Traffic) -> ConnectionParameters {
    let plain = testbed::connection(side, slot);
    ConnectionParameters {
        config: Config {
            ack_request_percent: traffic.ack_request_percent,
            ack_coalescing: Ticks::from_nanos(traffic.ack_coalescing),
            domain: Domain::of_node(MEMORY),
            ..plain.config
        },
        fcwnd: Fcwnd::from_packets(traffic.window),
        rto: Ticks::from_nanos(traffic.rto),
        settings: traffic.settings,
        ..plain
    }
}

/// Opens the connections of slots 0 to `count - 1`.
///
/// # Panics
/// Panics if there are fewer slots, or if a parameter is out of range.
pub(super) fn open(host: &mut HostNic, side: usize, count: usize, traffic: Traffic) {
    assert!(count <= CONNECTIONS, "{count} connections are too many: the maximum is {CONNECTIONS}");
    for slot in 0..count {
        let parameters = connection(side, slot, traffic);
        assert_eq!(parameters.check(), Ok(()), "connection {slot}");
        host.open(slot, &parameters);
    }
}
