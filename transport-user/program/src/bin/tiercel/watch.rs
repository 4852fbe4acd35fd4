//! `conn watch`: prints the state of a connection at intervals.

use std::time::Instant;

use serde::Serialize;
use tiercel::control::request;
use tiercel::{ConnectionInfo, ConnectionState};
use tokio::time::MissedTickBehavior;
use transport_common::connection::Statistics;

use crate::connection_arguments::Watch;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{print, print_json_line};
use crate::talk::Node;

/// Number of lines after which the title is printed again.
const TITLE_EVERY: u64 = 20;

/// The state of a connection, and what it counted since the previous sample.
#[derive(Debug, Serialize)]
struct Sample {
    time_s: f64,
    state: ConnectionState,
    algorithm: String,
    placement: &'static str,
    fcwnd: f64,
    ncwnd: u32,
    inter_packet_gap_ns: u64,
    rto_ns: u64,
    rtt_ns: u64,
    fabric_delay_ns: u64,
    source_port: u16,
    flow_label: u32,
    #[serde(flatten)]
    growth: Growth,
}

/// The increase of the counters between two samples.
#[derive(Debug, Serialize)]
struct Growth {
    goodput_bps: f64,
    received_bps: f64,
    packets_sent: u64,
    retransmitted_early: u64,
    retransmitted_timeout: u64,
    retransmitted_rnr: u64,
    tail_probes: u64,
    congestion_events: u64,
    congestion_results: u64,
    congestion_lost: u64,
    path_changes: u64,
}

pub(crate) async fn watch(node: &Node, arguments: Watch, json: bool) -> Result<(), Exit> {
    let mut ticks = tokio::time::interval(arguments.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let start = Instant::now();
    ticks.tick().await;
    let (mut before, mut then) = (ask(node, arguments.cid).await?, Instant::now());
    for line in 0..arguments.count.unwrap_or(u64::MAX) {
        tokio::select! {
            _ = ticks.tick() => {}
            () = interrupted() => return Err(Exit::interrupted("interrupted: the connection goes on")),
        }
        let (connection, now) = (ask(node, arguments.cid).await?, Instant::now());
        let seconds = (now - then).as_secs_f64();
        let sample = sample(&before, &connection, (start.elapsed().as_secs_f64(), seconds));
        if json {
            print_json_line(&sample);
        } else {
            if line.is_multiple_of(TITLE_EVERY) {
                print(TITLE);
            }
            print(row(&sample));
        }
        (before, then) = (connection, now);
    }
    Ok(())
}

async fn ask(node: &Node, cid: u32) -> Result<ConnectionInfo, Exit> {
    Ok(node.ask(request::Connection { cid }).await?.info)
}

/// Makes a sample of two states of a connection. `at` is the time since the start and `length` the time between
/// the two states, both in seconds.
fn sample(before: &ConnectionInfo, now: &ConnectionInfo, (at, length): (f64, f64)) -> Sample {
    Sample {
        time_s: at,
        state: now.state,
        algorithm: now.congestion.algorithm.clone(),
        placement: now.congestion.placement.name(),
        fcwnd: now.fcwnd,
        ncwnd: now.ncwnd,
        inter_packet_gap_ns: now.inter_packet_gap_ns,
        rto_ns: now.rto_ns,
        rtt_ns: now.delays.full.smoothed_ns,
        fabric_delay_ns: now.delays.fabric.smoothed_ns,
        source_port: now.source_port,
        flow_label: now.flow_label,
        growth: Growth::between(
            (before.bytes_completed, &before.statistics),
            (now.bytes_completed, &now.statistics),
            length,
        ),
    }
}

impl Growth {
    /// Compares the bytes completed and the statistics of two states that lie `seconds` apart.
    fn between(before: (u64, &Statistics), now: (u64, &Statistics), seconds: f64) -> Self {
        let grown = |count: fn(&Statistics) -> u64| count(now.1).saturating_sub(count(before.1));
        let bits = |bytes: u64| bytes as f64 * 8.0 / seconds;
        Self {
            goodput_bps: bits(now.0.saturating_sub(before.0)),
            received_bps: bits(grown(|s| s.bytes_received)),
            packets_sent: grown(|s| s.packets_sent),
            retransmitted_early: grown(|s| s.retransmitted_early),
            retransmitted_timeout: grown(|s| s.retransmitted_timeout),
            retransmitted_rnr: grown(|s| s.retransmitted_rnr),
            tail_probes: grown(|s| s.tail_probes),
            congestion_events: grown(|s| s.congestion_events),
            congestion_results: grown(|s| s.congestion_results),
            congestion_lost: grown(|s| s.congestion_lost),
            path_changes: grown(|s| s.path_changes),
        }
    }
}

const TITLE: &str = "  TIME s     FCWND  NCWND    RTT us  FABRIC us   OUT Gb/s    IN Gb/s     SENT  EARLY TIMEOUT    RNR  PROBE  EVENTS   LOST    ALGORITHM";

fn row(sample: &Sample) -> String {
    let growth = &sample.growth;
    format!(
        "{:>8.2} {:>9.3} {:>6} {:>9.1} {:>10.1} {:>10.3} {:>10.3} {:>8} {:>6} {:>7} {:>6} {:>6} {:>7} {:>6} {:>12.12}",
        sample.time_s,
        sample.fcwnd,
        sample.ncwnd,
        sample.rtt_ns as f64 / 1e3,
        sample.fabric_delay_ns as f64 / 1e3,
        growth.goodput_bps / 1e9,
        growth.received_bps / 1e9,
        growth.packets_sent,
        growth.retransmitted_early,
        growth.retransmitted_timeout,
        growth.retransmitted_rnr,
        growth.tail_probes,
        growth.congestion_events,
        growth.congestion_lost,
        sample.algorithm,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_between_two_looks() {
        let before = Statistics { packets_sent: 7, bytes_received: 10, ..Statistics::default() };
        let now = Statistics {
            packets_sent: 9,
            bytes_received: 135_010,
            path_changes: 1,
            tail_probes: 2,
            ..Statistics::default()
        };
        let growth = Growth::between((1000, &before), (251_000, &now), 0.5);
        assert_eq!((growth.goodput_bps, growth.received_bps), (4e6, 2.16e6));
        assert_eq!((growth.packets_sent, growth.path_changes, growth.retransmitted_early), (2, 1, 0));
        assert_eq!(growth.tail_probes, 2);
        // If the connection was closed and opened in between, no difference becomes negative.
        let again = Growth::between((251_000, &now), (0, &before), 0.5);
        assert_eq!((again.goodput_bps, again.packets_sent), (0.0, 0));
    }

    #[test]
    fn titles_stand_above_their_columns() {
        let sample = Sample {
            time_s: 1.0,
            state: ConnectionState::Open,
            algorithm: "swift".to_owned(),
            placement: "kernel",
            fcwnd: 1.5,
            ncwnd: 64,
            inter_packet_gap_ns: 0,
            rto_ns: 1_000_000,
            rtt_ns: 20_000,
            fabric_delay_ns: 10_000,
            source_port: 49152,
            flow_label: 0,
            growth: Growth::between((0, &Statistics::default()), (250_000, &Statistics::default()), 0.5),
        };
        let row = row(&sample);
        assert_eq!(TITLE.len(), row.len());
        assert!(row.contains(" 20.0 ") && row.contains(" 0.004 "), "{row}");
    }
}
