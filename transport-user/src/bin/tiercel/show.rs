//! `down`, `status`, `stats` and `conn`: what a node is and has.

use serde_json::Value;
use transport_user::control::Request;

use crate::cli::Json;
use crate::connection_arguments::Conn;
use crate::exit::Exit;
use crate::output::{fields, fields_of, print, print_json, size, table, text};
use crate::talk::Node;
use crate::watch::watch;

pub(crate) async fn down(node: &Node) -> Result<(), Exit> {
    let answer = node.down().await?;
    print(format!("node {} is down", text(&answer["down"])));
    Ok(())
}

pub(crate) async fn status(node: &Node, json: Json) -> Result<(), Exit> {
    let mut status = node.ask(Request::Status).await?;
    if json.json {
        print_json(&status);
        return Ok(());
    }
    let events = status.as_object_mut().and_then(|status| status.remove("events")).unwrap_or_default();
    for group in ["pools", "rate_update"] {
        retain_counted(&mut status[group]);
    }
    print(fields_of(&in_order(status, &FIRST)));
    if let Some(events) = events.as_array().filter(|events| !events.is_empty()) {
        print("\nLatest events of the connection manager:");
        for event in events.iter().rev().take(10).rev() {
            print(format!("  {}  {}", clock(event["time_ms"].as_u64().unwrap_or(0)), text(&event["text"])));
        }
    }
    Ok(())
}

/// Time of day of milliseconds since 1970, UTC.
fn clock(time_ms: u64) -> String {
    let seconds = time_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60, time_ms % 1000)
}

pub(crate) async fn stats(node: &Node, all: bool, json: Json) -> Result<(), Exit> {
    let mut stats = node.ask(Request::Stats).await?;
    if json.json {
        print_json(&stats);
        return Ok(());
    }
    let delays = stats.as_object_mut().and_then(|stats| stats.remove("delays")).unwrap_or_default();
    if !all {
        retain_counted(&mut stats);
    }
    print(fields(&stats));
    print_delays(&delays);
    Ok(())
}

/// Drops what is zero, and what holds nothing else.
fn retain_counted(value: &mut Value) {
    let counts = |value: &mut Value| {
        let was_empty = is_empty(value);
        retain_counted(value);
        *value != 0 && (was_empty || !is_empty(value))
    };
    match value {
        Value::Object(group) => group.retain(|_, value| counts(value)),
        // Numbers keep their place in a list.
        Value::Array(list) if list.iter().any(Value::is_object) => list.iter_mut().for_each(retain_counted),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(group) => group.is_empty(),
        Value::Array(list) => list.iter().all(|element| element.is_object() && is_empty(element)),
        _ => false,
    }
}

/// What `status` begins with.
const FIRST: [&str; 8] = [
    "name",
    "uptime_s",
    "device",
    "attach",
    "engine",
    "connection_manager",
    "receive_timestamps",
    "receive_directory",
];

/// The fields of these names one by one, then the others.
fn in_order(mut value: Value, names: &[&str]) -> Vec<Value> {
    let mut parts = Vec::new();
    if let Some(fields) = value.as_object_mut() {
        let first = names.iter().filter_map(|name| fields.remove_entry(*name));
        parts.extend(first.map(|field| Value::Object([field].into_iter().collect())));
    }
    parts.push(value);
    parts
}

/// The histograms of the four delays as percentiles.
fn print_delays(delays: &Value) {
    let named = |name: &str| {
        let mut row = delays[name].clone();
        if row.is_object() {
            row["delay"] = name.into();
        }
        row
    };
    let rows: Vec<Value> =
        ["full", "fabric", "forward", "reverse"].map(named).into_iter().filter(Value::is_object).collect();
    let micros = |row: &Value, field: &str| format!("{:.1}", row[field].as_f64().unwrap_or(0.0) / 1000.0);
    print("\nDelays of all acknowledgements, us:");
    print(table(
        &rows,
        &[
            ("DELAY", &|row| text(&row["delay"])),
            ("COUNT", &|row| text(&row["count"])),
            ("P50", &|row| micros(row, "p50_ns")),
            ("P90", &|row| micros(row, "p90_ns")),
            ("P99", &|row| micros(row, "p99_ns")),
            ("MAX", &|row| micros(row, "max_ns")),
        ],
    ));
    if let Some(reason) = delays["one_way_refused"].as_str() {
        print(format!("no forward and reverse delay: {reason}"));
    }
}

pub(crate) async fn connections(node: &Node, command: Conn) -> Result<(), Exit> {
    match command {
        Conn::List(json) => list(node, json).await,
        Conn::Show { cid, json } => show(&node.ask(Request::Connection { cid }).await?, json),
        Conn::Connect { peer, unordered, congestion, json } => {
            let request = Request::Connect {
                address: peer.address,
                port: peer.port,
                ordered: !unordered,
                congestion: congestion.into(),
            };
            let connection = node.ask(request).await?;
            if json.json {
                print_json(&connection);
                return Ok(());
            }
            print(format!(
                "connection {} to {}: peer's CID {}, up to {} bytes a transaction, {}",
                text(&connection["local_cid"]),
                text(&connection["peer_address"]),
                text(&connection["peer_cid"]),
                text(&connection["max_segment"]),
                order(&connection),
            ));
            print_peer_regions(&connection);
            Ok(())
        }
        Conn::Cc { cid, congestion, json } => {
            let request = Request::SetCongestion { cid, congestion: congestion.into() };
            let congestion = &node.ask(request).await?["congestion"];
            match json.json {
                true => print_json(congestion),
                false => print(fields(congestion)),
            }
            Ok(())
        }
        Conn::Watch(arguments) => watch(node, arguments).await,
        Conn::Reset { cid, json } => {
            let connection = node.ask(Request::Reset { cid }).await?;
            match json.json {
                true => print_json(&connection),
                false => print(format!("connection {cid} is at its beginning")),
            }
            Ok(())
        }
        Conn::Close { cid } => {
            node.ask(Request::Close { cid }).await?;
            print(format!("connection {cid} closed"));
            Ok(())
        }
    }
}

async fn list(node: &Node, json: Json) -> Result<(), Exit> {
    let connections = node.ask(Request::Connections).await?;
    let rows = connections.as_array().map(Vec::as_slice).unwrap_or_default();
    if json.json {
        print_json(&connections);
    } else if rows.is_empty() {
        print("no connections: make one with `tiercel conn connect ADDRESS`");
    } else {
        let count = |row: &Value, name: &str| text(&row["statistics"][name]);
        print(table(
            rows,
            &[
                ("CID", &|row| text(&row["local_cid"])),
                ("PEER CID", &|row| text(&row["peer_cid"])),
                ("PEER", &|row| text(&row["peer_address"])),
                ("STATE", &|row| text(&row["state"])),
                ("ORDER", &|row| order(row).to_owned()),
                ("SETUP", &|row| if row["managed"] == true { "managed" } else { "static" }.to_owned()),
                ("CC", &|row| {
                    let congestion = &row["congestion"];
                    format!("{}/{}", text(&congestion["algorithm"]), text(&congestion["placement"]))
                }),
                ("FCWND", &|row| text(&row["fcwnd"])),
                ("RTT us", &|row| format!("{:.1}", row["rtt_ns"].as_f64().unwrap_or(0.0) / 1000.0)),
                ("SENT", &|row| count(row, "packets_sent")),
                ("RESENT", &|row| {
                    let early = row["statistics"]["retransmitted_early"].as_u64().unwrap_or(0);
                    let timeout = row["statistics"]["retransmitted_timeout"].as_u64().unwrap_or(0);
                    (early + timeout).to_string()
                }),
                ("RECEIVED", &|row| count(row, "packets_received")),
            ],
        ));
    }
    Ok(())
}

fn order(connection: &Value) -> &'static str {
    if connection["ordered"] == true { "ordered" } else { "unordered" }
}

fn show(connection: &Value, json: Json) -> Result<(), Exit> {
    if json.json {
        print_json(connection);
        return Ok(());
    }
    let mut rest = connection.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("session");
        if let Some(congestion) = fields.get_mut("congestion").and_then(Value::as_object_mut) {
            congestion.remove("parameters"); // `conn cc CID` shows them
        }
    }
    print(fields(&rest));
    print_peer_regions(connection);
    Ok(())
}

fn print_peer_regions(connection: &Value) {
    let regions = connection["session"]["peer_regions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if regions.is_empty() {
        return;
    }
    let rights = |row: &Value| {
        let bits = row["access"].as_u64().unwrap_or(0) as u32;
        let rights = transport_user::control::Right::of(bits);
        rights.into_iter().map(right_name).collect::<Vec<_>>().join(",")
    };
    print("\nRegions the peer offers:");
    print(table(
        regions,
        &[
            ("R_KEY", &|row| text(&row["rkey"])),
            ("LENGTH", &|row| size(row["length"].as_u64().unwrap_or(0))),
            ("ACCESS", &rights),
            ("NAME", &|row| text(&row["name"])),
        ],
    ));
}

/// A right as `mr register --access` takes it.
fn right_name(right: transport_user::control::Right) -> &'static str {
    use transport_user::control::Right;
    match right {
        Right::RemoteRead => "read",
        Right::RemoteWrite => "write",
        Right::RemoteAtomic => "atomic",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zeros_are_left_out_wherever_they_stand() {
        let mut value = json!({
            "pools": { "cells": 2048, "cells_in_use": 0 },
            "rate_update": { "state": "off", "queues": [{ "events": 0 }, { "events": 0 }], "verdicts": { "a": 0 } },
            "events": [], "limits": [0, 768], "cpu": null, "yes": false,
        });
        retain_counted(&mut value);
        let kept = json!({
            "pools": { "cells": 2048 }, "rate_update": { "state": "off" },
            "events": [], "limits": [0, 768], "cpu": null, "yes": false,
        });
        assert_eq!(value, kept);
    }

    #[test]
    fn the_first_fields_come_before_the_others() {
        let parts =
            in_order(json!({ "a": 1, "name": "veth0", "z": 2, "engine": 3 }), &["name", "missing", "engine"]);
        assert_eq!(parts, [json!({ "name": "veth0" }), json!({ "engine": 3 }), json!({ "a": 1, "z": 2 })]);
    }

    #[test]
    fn events_show_the_time_of_day() {
        assert_eq!(clock(0), "00:00:00.000Z");
        assert_eq!(clock(1_700_000_000_123), "22:13:20.123Z");
    }
}
