//! The counters of connections in a form that serde can write: the statistics of the datapath, whose crate does
//! not use serde, and counters of its parts.

use core::ops::Deref;

use serde::{Deserialize, Serialize};
use transport_common::connection::{Snapshot, Statistics};
use transport_common::security::SecurityDrops;

/// The counters of one connection, or their sums over several connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatistics {
    /// Transactions that completed to the application, with success or in error.
    pub completions: u64,
    /// Packets that the security check refused, for whatever cause.
    pub security_drops: u64,
    /// Counters of the datapath.
    #[serde(flatten, with = "StatisticsFields")]
    pub datapath: Statistics,
}

impl ConnectionStatistics {
    pub(crate) fn of(entry: &Snapshot) -> Self {
        let datapath = entry.tables.statistics;
        let security_drops = datapath.refused.counts().iter().sum();
        Self { completions: entry.connection.initiator.completed, security_drops, datapath }
    }

    /// Adds the counters of another connection.
    pub(crate) fn add(&mut self, other: &Self) {
        self.completions += other.completions;
        self.security_drops += other.security_drops;
        add(&mut self.datapath, &other.datapath);
    }
}

impl Deref for ConnectionStatistics {
    type Target = Statistics;

    fn deref(&self) -> &Statistics {
        &self.datapath
    }
}

/// The fields of [`Statistics`]. The compiler reports an error if one is missing here.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Statistics")]
struct StatisticsFields {
    packets_sent: u64,
    retransmitted_early: u64,
    retransmitted_timeout: u64,
    #[serde(default)]
    retransmitted_rnr: u64,
    #[serde(default)]
    tail_probes: u64,
    resyncs_sent: u64,
    backs_sent: u64,
    eacks_sent: u64,
    nacks_sent: u64,
    packets_received: u64,
    duplicates: u64,
    out_of_window: u64,
    held: u64,
    acks_received: u64,
    nacks_received: u64,
    bytes_received: u64,
    #[serde(default, with = "SecurityDropsFields")]
    refused: SecurityDrops,
    congestion_events: u64,
    congestion_results: u64,
    congestion_repairs: u64,
    congestion_lost: u64,
    path_changes: u64,
    paced: u64,
}

/// The fields of [`SecurityDrops`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "SecurityDrops")]
struct SecurityDropsFields {
    source: u64,
    tunnel: u64,
    spi: u64,
    replay: u64,
    iv_ahead: u64,
    version: u64,
}

/// Adds `b` to `a`, counter by counter.
fn add(a: &mut Statistics, b: &Statistics) {
    let Statistics {
        packets_sent,
        retransmitted_early,
        retransmitted_timeout,
        retransmitted_rnr,
        tail_probes,
        resyncs_sent,
        backs_sent,
        eacks_sent,
        nacks_sent,
        packets_received,
        duplicates,
        out_of_window,
        held,
        acks_received,
        nacks_received,
        bytes_received,
        refused: SecurityDrops { source, tunnel, spi, replay, iv_ahead, version },
        congestion_events,
        congestion_results,
        congestion_repairs,
        congestion_lost,
        path_changes,
        paced,
    } = b;
    a.packets_sent += packets_sent;
    a.retransmitted_early += retransmitted_early;
    a.retransmitted_timeout += retransmitted_timeout;
    a.retransmitted_rnr += retransmitted_rnr;
    a.tail_probes += tail_probes;
    a.resyncs_sent += resyncs_sent;
    a.backs_sent += backs_sent;
    a.eacks_sent += eacks_sent;
    a.nacks_sent += nacks_sent;
    a.packets_received += packets_received;
    a.duplicates += duplicates;
    a.out_of_window += out_of_window;
    a.held += held;
    a.acks_received += acks_received;
    a.nacks_received += nacks_received;
    a.bytes_received += bytes_received;
    a.refused.source += source;
    a.refused.tunnel += tunnel;
    a.refused.spi += spi;
    a.refused.replay += replay;
    a.refused.iv_ahead += iv_ahead;
    a.refused.version += version;
    a.congestion_events += congestion_events;
    a.congestion_results += congestion_results;
    a.congestion_repairs += congestion_repairs;
    a.congestion_lost += congestion_lost;
    a.path_changes += path_changes;
    a.paced += paced;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_per_counter() {
        let refused = SecurityDrops { source: 1, tunnel: 2, spi: 3, replay: 4, iv_ahead: 5, version: 6 };
        let datapath = Statistics { packets_sent: 2, refused, ..Statistics::default() };
        let one = ConnectionStatistics { completions: 1, security_drops: 21, datapath };
        let mut sum = one;
        sum.add(&one);
        let refused = SecurityDrops { source: 2, tunnel: 4, spi: 6, replay: 8, iv_ahead: 10, version: 12 };
        let twice = Statistics { packets_sent: 4, refused, ..Statistics::default() };
        assert_eq!(sum, ConnectionStatistics { completions: 2, security_drops: 42, datapath: twice });
    }

    #[test]
    fn one_object_in_json() {
        let one = ConnectionStatistics { completions: 7, ..ConnectionStatistics::default() };
        let json = serde_json::to_value(one).expect("plain numbers");
        assert_eq!((&json["completions"], &json["packets_sent"]), (&7.into(), &0.into()));
        assert_eq!(serde_json::from_value::<ConnectionStatistics>(json).expect("as it was"), one);
    }
}
