//! The commands `down`, `status`, `stats` and `conn`.

use tiercel::control::answer::{ListedConnection, NodeStatus, ShownConnection};
use tiercel::control::request::{self, Right};
use tiercel::status::{RegionAdvertisement, SessionInfo};
use tiercel::{ConnectionInfo, DelayHistograms, DelayStats, LARGEST_MTU, Transactions, Tunnel};

use crate::connection_arguments::Conn;
use crate::exit::Exit;
use crate::output::{Fields, or_dash, print, print_json, size, table};
use crate::talk::Node;
use crate::values::ResetStep;
use crate::watch::watch;

/// Number of events of the connection manager that `status` shows.
const LATEST_EVENTS: usize = 10;

pub(crate) async fn down(node: &Node, json: bool) -> Result<(), Exit> {
    let answer = node.down().await?;
    match json {
        true => print_json(&answer),
        false => print(format!("node {} is down", answer.down)),
    }
    Ok(())
}

pub(crate) async fn status(node: &Node, json: bool) -> Result<(), Exit> {
    let status = node.ask(request::Status {}).await?;
    match json {
        true => print_json(&status),
        false => print_status(&status),
    }
    Ok(())
}

fn print_status(status: &NodeStatus) {
    let mut fields = Fields::default()
        .add("name", &status.name)
        .add("uptime_s", &status.uptime_s)
        .add("device", &status.device)
        .add("attach", &status.attach)
        .add("transmit", &status.transmit)
        .add("engine", &status.engine)
        .add("connection_manager", &status.connection_manager)
        .add("receive_timestamps", &status.receive_timestamps)
        .add("receive_directory", &status.receive_directory)
        .add("receive_limits", &status.receive_limits);
    if let Some(trace) = &status.trace {
        fields = fields.add("trace", trace);
    }
    let fields = fields
        .add("algorithms", &status.algorithms)
        .add("profiles", &status.profiles)
        .add("pid", &status.pid)
        .add("version", &status.version)
        .add("control_version", &status.control_version)
        .add_counted("pools", &status.pools)
        .add_counted("rate_update", &status.rate_update);
    print(fields.show());
    if !status.events.is_empty() {
        print("\nLatest events of the connection manager:");
        let first = status.events.len().saturating_sub(LATEST_EVENTS);
        for event in &status.events[first..] {
            print(format!("  {}  {}", clock(event.time_ms), event.text));
        }
    }
}

/// Returns the time of day, UTC, of a time in milliseconds since 1970.
fn clock(time_ms: u64) -> String {
    let seconds = time_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60, time_ms % 1000)
}

pub(crate) async fn stats(node: &Node, all: bool, json: bool) -> Result<(), Exit> {
    let stats = node.ask(request::Stats {}).await?;
    if json {
        print_json(&stats);
        return Ok(());
    }
    let delays = ["delays"]; // a table shows them
    let fields = if all { Fields::of(&stats, &delays) } else { Fields::of_counted(&stats, &delays) };
    print(fields.show());
    print_delays(&stats.node.delays);
    Ok(())
}

/// Prints the histograms of the four delays as percentiles.
fn print_delays(delays: &DelayHistograms) {
    let named = [
        ("full", Some(&delays.full)),
        ("fabric", Some(&delays.fabric)),
        ("forward", delays.forward.as_ref()),
        ("reverse", delays.reverse.as_ref()),
    ];
    let rows: Vec<(&str, &DelayStats)> =
        named.into_iter().filter_map(|(name, delay)| Some((name, delay?))).collect();
    let micros = |nanos: u64| format!("{:.1}", nanos as f64 / 1000.0);
    print("\nDelays of all acknowledgements, us:");
    print(table(
        &rows,
        &[
            ("DELAY", &|(name, _)| (*name).to_owned()),
            ("COUNT", &|(_, delay)| delay.count.to_string()),
            ("P50", &|(_, delay)| micros(delay.p50_ns)),
            ("P90", &|(_, delay)| micros(delay.p90_ns)),
            ("P99", &|(_, delay)| micros(delay.p99_ns)),
            ("MAX", &|(_, delay)| micros(delay.max_ns)),
        ],
    ));
    if let Some(reason) = &delays.one_way_refused {
        print(format!("no forward and reverse delay: {reason}"));
    }
}

pub(crate) async fn connections(node: &Node, command: Conn, json: bool) -> Result<(), Exit> {
    match command {
        Conn::List => list(&node.ask(request::Connections {}).await?, json),
        Conn::Show { cid } => show(&node.ask(request::Connection { cid }).await?, json),
        Conn::Connect {
            peer,
            unordered,
            rack_tlp,
            patience,
            reconnect,
            ulp,
            inner_local,
            inner_peer,
            congestion,
        } => {
            let call = request::Connect {
                address: peer.address.address,
                scope: peer.address.scope,
                port: peer.port,
                ordered: !unordered,
                rack_tlp,
                ulp: ulp.into(),
                tunnel: inner_local.zip(inner_peer).map(|(local, peer)| Tunnel { local, peer }),
                patience_ms: patience.map(|patience| patience.as_millis() as u64),
                reconnect,
                congestion: congestion.into(),
            };
            connected(&node.ask(call).await?, json);
        }
        Conn::Cc { cid, congestion } => {
            let call = request::SetCongestion { cid, congestion: congestion.into() };
            let congestion = node.ask(call).await?.info.congestion;
            match json {
                true => print_json(&congestion),
                false => print(Fields::of(&congestion, &[]).show()),
            }
        }
        Conn::Watch(arguments) => watch(node, arguments, json).await?,
        Conn::Reset { cid } => {
            let connection = node.ask(request::Reset { cid }).await?;
            match json {
                true => print_json(&connection),
                false => print(format!("connection {cid} is reset")),
            }
        }
        Conn::Xlr { cid, step } => {
            let dropped = step == ResetStep::Begin;
            let connection = node.ask(request::DropRequests { cid, dropped }).await?;
            match json {
                true => print_json(&connection),
                false => print(format!(
                    "connection {cid} {} new requests",
                    if connection.info.drops_requests { "drops" } else { "takes" }
                )),
            }
        }
        Conn::Close { cid } => {
            let closed = node.ask(request::Close { cid }).await?;
            match json {
                true => print_json(&closed),
                false => print(format!("connection {} closed", closed.closed)),
            }
        }
    }
    Ok(())
}

fn connected(connection: &ShownConnection, json: bool) {
    if json {
        return print_json(connection);
    }
    let info = &connection.info;
    print(format!(
        "connection {} to {}: peer's CID {}, up to {} bytes per transaction, {}",
        info.local_cid.0,
        info.peer_address,
        info.peer_cid.0,
        info.max_segment,
        order(info),
    ));
    if let Some(session) = &connection.session {
        print(path_mtu(session));
    }
    print_peer_regions(connection);
}

/// Says which MTU the connection uses, and why.
fn path_mtu(session: &SessionInfo) -> String {
    match session.path_mtu {
        Some(LARGEST_MTU) => {
            format!("MTU {LARGEST_MTU}: the largest that a node serves; it crosses the path")
        }
        Some(mtu) => format!("MTU {mtu}: the largest packet that crosses the path"),
        None => format!("MTU {}: that of the path was not found", session.mtu),
    }
}

fn list(connections: &[ListedConnection], json: bool) {
    if json {
        return print_json(&connections);
    }
    if connections.is_empty() {
        return print("no connections: open one with `tiercel conn connect ADDRESS`");
    }
    print(table(
        connections,
        &[
            ("CID", &|row| row.info.local_cid.0.to_string()),
            ("PEER CID", &|row| row.info.peer_cid.0.to_string()),
            ("PEER", &|row| row.info.peer_address.to_string()),
            ("STATE", &|row| row.info.state.to_string()),
            ("ORDER", &|row| order(&row.info).to_owned()),
            ("SETUP", &|row| if row.managed { "managed" } else { "static" }.to_owned()),
            ("CC", &|row| format!("{}/{}", row.info.congestion.algorithm, row.info.congestion.placement)),
            ("FCWND", &|row| row.info.fcwnd.to_string()),
            ("RTT us", &|row| format!("{:.1}", row.info.rtt_ns as f64 / 1000.0)),
            ("SENT", &|row| row.info.statistics.packets_sent.to_string()),
            ("RESENT", &|row| row.info.statistics.retransmissions().to_string()),
            ("RECEIVED", &|row| row.info.statistics.packets_received.to_string()),
        ],
    ));
}

fn order(connection: &ConnectionInfo) -> &'static str {
    if connection.ordered { "ordered" } else { "unordered" }
}

fn show(connection: &ShownConnection, json: bool) {
    if json {
        return print_json(connection);
    }
    // The session has the MTU. `conn cc CID` shows the parameters. Tables show the transactions and the regions of the
    // session.
    print(Fields::of(connection, &["session", "congestion.parameters", "transactions"]).show());
    if let Some(session) = &connection.session {
        print(path_mtu(session));
    }
    print_transactions(&connection.transactions);
    print_peer_regions(connection);
}

fn print_transactions(transactions: &Transactions) {
    let number = |code: Option<u8>| or_dash(code.as_ref());
    if !transactions.initiator.is_empty() {
        print("\nTransactions of this end:");
        print(table(
            &transactions.initiator,
            &[
                ("RSN", &|row| row.rsn.to_string()),
                ("KIND", &|row| row.kind.to_string()),
                ("STATE", &|row| row.state.to_string()),
                ("CODE", &|row| number(row.code)),
                ("ULP CODE", &|row| number(row.ulp_code)),
            ],
        ));
    }
    if !transactions.target.is_empty() {
        print("\nTransactions of the peer:");
        print(table(
            &transactions.target,
            &[
                ("RSN", &|row| row.rsn.to_string()),
                ("PSN", &|row| or_dash(row.psn.as_ref())),
                ("KIND", &|row| row.kind.to_string()),
                ("STATE", &|row| row.state.to_string()),
                ("WAITS FOR", &|row| or_dash(row.waits_for.as_ref())),
                ("ULP CODE", &|row| number(row.ulp_code)),
                ("RNR CODE", &|row| number(row.rnr_timeout_code)),
            ],
        ));
    }
}

fn print_peer_regions(connection: &ShownConnection) {
    let regions = connection.session.as_ref().map_or(&[][..], |session| &session.peer_regions);
    if regions.is_empty() {
        return;
    }
    let rights = |row: &RegionAdvertisement| {
        Right::of(row.access).into_iter().map(<&str>::from).collect::<Vec<_>>().join(",")
    };
    print("\nRegions the peer offers:");
    print(table(
        regions,
        &[
            ("R_KEY", &|row| row.rkey.to_string()),
            ("LENGTH", &|row| size(row.length)),
            ("ACCESS", &rights),
            ("NAME", &|row| or_dash(row.name.as_ref())),
        ],
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_show_the_time_of_day() {
        assert_eq!(clock(0), "00:00:00.000Z");
        assert_eq!(clock(1_700_000_000_123), "22:13:20.123Z");
    }
}
