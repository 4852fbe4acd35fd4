//! `conn watch`: a connection over time.

use std::time::Instant;

use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;
use transport_user::control::Request;

use crate::connection_arguments::Watch;
use crate::exit::Exit;
use crate::output::print;
use crate::talk::Node;

/// Lines between two titles.
const TITLE_EVERY: u64 = 20;

pub(crate) async fn watch(node: &Node, arguments: Watch) -> Result<(), Exit> {
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
        if arguments.json {
            print(sample.to_string());
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

async fn ask(node: &Node, cid: u32) -> Result<Value, Exit> {
    node.ask(Request::Connection { cid }).await
}

/// What lies between two looks at a connection; `(at, length)` of the time between, in seconds.
fn sample(before: &Value, now: &Value, (at, length): (f64, f64)) -> Value {
    let grown = |count: &dyn Fn(&Value) -> u64| count(now).saturating_sub(count(before));
    let statistic = |name: &'static str| grown(&|c: &Value| c["statistics"][name].as_u64().unwrap_or(0));
    let bits = |bytes: u64| bytes as f64 * 8.0 / length;
    json!({
        "time_s": at,
        "state": now["state"],
        "algorithm": now["congestion"]["algorithm"],
        "placement": now["congestion"]["placement"],
        "fcwnd": now["fcwnd"],
        "ncwnd": now["ncwnd"],
        "inter_packet_gap_ns": now["inter_packet_gap_ns"],
        "rto_ns": now["rto_ns"],
        "rtt_ns": now["delays"]["full"]["smoothed_ns"],
        "fabric_delay_ns": now["delays"]["fabric"]["smoothed_ns"],
        "source_port": now["source_port"],
        "flow_label": now["flow_label"],
        "goodput_bps": bits(grown(&|c: &Value| c["bytes_completed"].as_u64().unwrap_or(0))),
        "received_bps": bits(statistic("bytes_received")),
        "packets_sent": statistic("packets_sent"),
        "retransmitted_early": statistic("retransmitted_early"),
        "retransmitted_timeout": statistic("retransmitted_timeout"),
        "congestion_events": statistic("congestion_events"),
        "congestion_results": statistic("congestion_results"),
        "congestion_lost": statistic("congestion_lost"),
        "path_changes": statistic("path_changes"),
    })
}

const TITLE: &str = "  TIME s     FCWND  NCWND    RTT us  FABRIC us   OUT Gb/s    IN Gb/s     SENT  EARLY TIMEOUT  EVENTS   LOST    ALGORITHM";

fn row(sample: &Value) -> String {
    let number = |name: &str| sample[name].as_f64().unwrap_or(0.0);
    let count = |name: &str| sample[name].as_u64().unwrap_or(0);
    format!(
        "{:>8.2} {:>9.3} {:>6} {:>9.1} {:>10.1} {:>10.3} {:>10.3} {:>8} {:>6} {:>7} {:>7} {:>6} {:>12.12}",
        number("time_s"),
        number("fcwnd"),
        count("ncwnd"),
        number("rtt_ns") / 1e3,
        number("fabric_delay_ns") / 1e3,
        number("goodput_bps") / 1e9,
        number("received_bps") / 1e9,
        count("packets_sent"),
        count("retransmitted_early"),
        count("retransmitted_timeout"),
        count("congestion_events"),
        count("congestion_lost"),
        sample["algorithm"].as_str().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: u64, sent: u64) -> Value {
        json!({
            "fcwnd": 1.5, "ncwnd": 64, "bytes_completed": bytes,
            "delays": { "full": { "smoothed_ns": 20_000 }, "fabric": { "smoothed_ns": 10_000 } },
            "statistics": { "packets_sent": sent, "bytes_received": 0 },
        })
    }

    #[test]
    fn counts_are_those_between_two_looks() {
        let sample = sample(&at(1000, 7), &at(251_000, 9), (3.0, 0.5));
        assert_eq!(sample["goodput_bps"], 4_000_000.0);
        assert_eq!((&sample["packets_sent"], &sample["rtt_ns"]), (&json!(2), &json!(20_000)));
        assert_eq!(TITLE.len(), row(&sample).len(), "columns stand below their titles");
    }
}
