//! `conn watch`: a connection over time.

use std::time::Instant;

use serde::Serialize;
use tokio::time::MissedTickBehavior;
use transport_user::control::request;
use transport_user::{ConnectionInfo, ConnectionState};

use crate::connection_arguments::Watch;
use crate::exit::Exit;
use crate::output::{print, print_json_line};
use crate::talk::Node;

/// Lines between two titles.
const TITLE_EVERY: u64 = 20;

/// What lies between two looks at a connection.
#[derive(Debug, Serialize)]
struct Sample {
    time_s: f64,
    state: ConnectionState,
    algorithm: String,
    placement: String,
    fcwnd: f64,
    ncwnd: u32,
    inter_packet_gap_ns: u64,
    rto_ns: u64,
    rtt_ns: u64,
    fabric_delay_ns: u64,
    source_port: u16,
    flow_label: u32,
    goodput_bps: f64,
    received_bps: f64,
    packets_sent: u64,
    retransmitted_early: u64,
    retransmitted_timeout: u64,
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
        ticks.tick().await;
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

/// `(at, length)` of the time between, in seconds.
fn sample(before: &ConnectionInfo, now: &ConnectionInfo, (at, length): (f64, f64)) -> Sample {
    let grown = |count: fn(&ConnectionInfo) -> u64| count(now).saturating_sub(count(before));
    let bits = |bytes: u64| bytes as f64 * 8.0 / length;
    Sample {
        time_s: at,
        state: now.state,
        algorithm: now.congestion.algorithm.clone(),
        placement: now.congestion.placement.clone(),
        fcwnd: now.fcwnd,
        ncwnd: now.ncwnd,
        inter_packet_gap_ns: now.inter_packet_gap_ns,
        rto_ns: now.rto_ns,
        rtt_ns: now.delays.full.smoothed_ns,
        fabric_delay_ns: now.delays.fabric.smoothed_ns,
        source_port: now.source_port,
        flow_label: now.flow_label,
        goodput_bps: bits(grown(|c| c.bytes_completed)),
        received_bps: bits(grown(|c| c.statistics.bytes_received)),
        packets_sent: grown(|c| c.statistics.packets_sent),
        retransmitted_early: grown(|c| c.statistics.retransmitted_early),
        retransmitted_timeout: grown(|c| c.statistics.retransmitted_timeout),
        congestion_events: grown(|c| c.statistics.congestion_events),
        congestion_results: grown(|c| c.statistics.congestion_results),
        congestion_lost: grown(|c| c.statistics.congestion_lost),
        path_changes: grown(|c| c.statistics.path_changes),
    }
}

const TITLE: &str = "  TIME s     FCWND  NCWND    RTT us  FABRIC us   OUT Gb/s    IN Gb/s     SENT  EARLY TIMEOUT  EVENTS   LOST    ALGORITHM";

fn row(sample: &Sample) -> String {
    format!(
        "{:>8.2} {:>9.3} {:>6} {:>9.1} {:>10.1} {:>10.3} {:>10.3} {:>8} {:>6} {:>7} {:>7} {:>6} {:>12.12}",
        sample.time_s,
        sample.fcwnd,
        sample.ncwnd,
        sample.rtt_ns as f64 / 1e3,
        sample.fabric_delay_ns as f64 / 1e3,
        sample.goodput_bps / 1e9,
        sample.received_bps / 1e9,
        sample.packets_sent,
        sample.retransmitted_early,
        sample.retransmitted_timeout,
        sample.congestion_events,
        sample.congestion_lost,
        sample.algorithm,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_stand_above_their_columns() {
        let sample = Sample {
            time_s: 1.0,
            state: ConnectionState::Open,
            algorithm: "swift".to_owned(),
            placement: "kernel".to_owned(),
            fcwnd: 1.5,
            ncwnd: 64,
            inter_packet_gap_ns: 0,
            rto_ns: 1_000_000,
            rtt_ns: 20_000,
            fabric_delay_ns: 10_000,
            source_port: 49152,
            flow_label: 0,
            goodput_bps: 4e6,
            received_bps: 0.0,
            packets_sent: 2,
            retransmitted_early: 0,
            retransmitted_timeout: 0,
            congestion_events: 0,
            congestion_results: 0,
            congestion_lost: 0,
            path_changes: 0,
        };
        let row = row(&sample);
        assert_eq!(TITLE.len(), row.len());
        assert!(row.contains(" 20.0 ") && row.contains(" 0.004 "), "{row}");
    }
}
