//! The report as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::bulk;
use crate::measure::Latency;
use crate::report::{Activity, Phase, Report};
use crate::rest::Left;

/// Returns the whole report as text.
pub(crate) fn show(report: &Report) -> String {
    let mut text = String::new();
    let mut section = |title: &str, body: &str| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{title}\n{}\n", indent(body));
    };
    section("Setting", &setting(report));
    section("Speed and latency", &speed(&report.phases));
    section("Packets", &packets(&report.phases));
    section("Drops by cause, by the host that dropped", &drops(&report.phases));
    section("What the fabric did", &fabric(report));
    section("Windows and pools on the fabric, at the end", &windows(report));
    section("Balance: sender, fabric and receiver count independently", &balance(report));
    section("What is left in windows, queues and pools", &rest(&report.rest));
    section("Verdict", &verdict(report));
    text
}

fn indent(body: &str) -> String {
    body.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Returns a table. The first `left` columns are words, and the others are numbers.
fn table<const N: usize>(
    header: [&str; N],
    left: usize,
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn setting(report: &Report) -> String {
    let hosts = &report.hosts;
    let [a, b] = &hosts.addresses;
    let bytes = report.bytes;
    let size = indicatif::BinaryBytes(bytes);
    format!(
        "file     {size} ({bytes} bytes), SHA-256 {}\nhosts    A {a}, B {b}, MTU {}, {} bytes per transaction, {} engines\n\
         windows  fcwnd {}, ncwnd {}, RTO {} us\nfabric   {}",
        report.sha256,
        hosts.mtu,
        hosts.max_segment,
        hosts.engine,
        hosts.fcwnd,
        hosts.ncwnd,
        hosts.rto_us,
        report.fabric
    )
}

fn speed(phases: &[Phase]) -> String {
    let header =
        ["", "link", "MB", "seconds", "Mb/s", "operations/s", "p50 us", "p99 us", "p99.9 us", "SHA-256"];
    let row = |phase: &Phase| {
        let Latency { p50_us, p99_us, p999_us, .. } = phase.latency;
        [
            phase.name.to_owned(),
            phase.link.to_owned(),
            format!("{:.1}", phase.bytes as f64 / 1e6),
            format!("{:.2}", phase.seconds),
            format!("{:.0}", phase.megabits_per_second),
            format!("{:.0}", phase.operations_per_second),
            format!("{p50_us:.1}"),
            format!("{p99_us:.1}"),
            format!("{p999_us:.1}"),
            phase.sha256.as_deref().map_or_else(String::new, |hash| format!("{}…", &hash[..12])),
        ]
    };
    let note = format!(
        "fabric: operations of up to {} KiB, {} in parallel; the time for files and hashes is not included\n\
         direct: operations of 64 bytes (fetch-add 8); latency with one at a time, rate with a full send queue",
        bulk::CHUNK >> 10,
        bulk::PARALLEL
    );
    format!("{}\n{note}", table(header, 2, phases.iter().map(row)))
}

fn packets(phases: &[Phase]) -> String {
    let header = [
        "",
        "link",
        "host",
        "new",
        "resent early",
        "resent by timeout",
        "resent as not ready",
        "tail probes",
        "Resyncs",
        "ACKs, NACKs",
        "held",
    ];
    let row = |phase: &Phase, host: &str, activity: &Activity| {
        [
            phase.name.to_owned(),
            phase.link.to_owned(),
            host.to_owned(),
            activity.packets_sent.to_string(),
            activity.retransmitted_early.to_string(),
            activity.retransmitted_timeout.to_string(),
            activity.retransmitted_rnr.to_string(),
            activity.tail_probes.to_string(),
            activity.resyncs_sent.to_string(),
            activity.acks_sent.to_string(),
            activity.held.to_string(),
        ]
    };
    let rows = phases.iter().flat_map(|phase| [row(phase, "A", &phase.a), row(phase, "B", &phase.b)]);
    table(header, 3, rows)
}

fn drops(phases: &[Phase]) -> String {
    let mut rows = Vec::new();
    for phase in phases {
        for (host, activity) in
            [("A", &phase.a), ("B", &phase.b)].into_iter().filter(|(_, a)| !a.drops.is_empty())
        {
            let drops: Vec<_> = activity.drops.iter().map(|(name, n)| format!("{n} {name}")).collect();
            rows.push([phase.name.to_owned(), phase.link.to_owned(), host.to_owned(), drops.join(", ")]);
        }
    }
    if rows.is_empty() {
        return "none".to_owned();
    }
    table(["", "link", "host", "packets by counter"], 4, rows)
}

fn fabric(report: &Report) -> String {
    let Some(live) = &report.fabric_statistics else { return String::new() };
    let names = ["A", "B"];
    let header =
        ["towards", "offered", "lost", "duplicated", "corrupted", "held back", "reordered", "delivered"];
    let rows = names.into_iter().zip(&live.fabric.towards).map(|(name, link)| {
        let dropped = link.dropped();
        let numbers = [
            link.offered,
            dropped,
            link.duplicated,
            link.corrupted,
            link.held_back,
            link.reordered,
            link.delivered,
        ];
        let [offered, dropped, duplicated, corrupted, held_back, reordered, delivered] =
            numbers.map(|number| number.to_string());
        [name.to_owned(), offered, dropped, duplicated, corrupted, held_back, reordered, delivered]
    });
    table(header, 1, rows)
}

fn windows(report: &Report) -> String {
    let header =
        ["host", "window", "packets", "base PSN", "next PSN", "unacknowledged", "received beyond base"];
    let mut rows = Vec::new();
    let mut pools = Vec::new();
    for node in &report.nodes {
        let c = &node.connection;
        for (name, sent, received) in
            [("request", &c.request_tx, &c.request_rx), ("data", &c.data_tx, &c.data_rx)]
        {
            let numbers = [sent.size, sent.base_psn, sent.next_psn, sent.unacknowledged, received.received];
            let [size, base, next, unacknowledged, received] = numbers.map(|number| number.to_string());
            rows.push([node.host.to_owned(), name.to_owned(), size, base, next, unacknowledged, received]);
        }
        let p = &node.stats.pools;
        pools.push([
            node.host.to_owned(),
            format!("{} of {}", p.cells_in_use, p.cells),
            p.send_entries.to_string(),
            p.receive_entries.to_string(),
            p.completions.to_string(),
            format!("{} of {}", p.regions, p.region_slots),
            format!("{} of {}", p.memory_used, p.memory),
        ]);
    }
    let header_of_pools = [
        "host",
        "receive cells",
        "send queue",
        "posted receives",
        "completions",
        "regions",
        "bytes registered",
    ];
    format!("{}\n\n{}", table(header, 2, rows), table(header_of_pools, 1, pools))
}

fn balance(report: &Report) -> String {
    let line = |equation: &crate::equation::Equation| {
        let mark = if equation.holds() { "ok " } else { "BAD" };
        let off = match equation.difference() {
            0 => String::new(),
            difference => format!("\n    off by {difference}"),
        };
        format!("{mark} {}\n    {equation}{off}", equation.what)
    };
    report.balance.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn rest(rest: &[Left]) -> String {
    let left: Vec<_> = rest.iter().filter(|left| left.value != 0).collect();
    if left.is_empty() {
        return format!("nothing: all {} counts are 0", rest.len());
    }
    let row = |left: &&Left| {
        [left.link.to_owned(), left.host.to_owned(), left.what.to_owned(), left.value.to_string()]
    };
    table(["link", "host", "what", "left"], 3, left.iter().map(row))
}

fn verdict(report: &Report) -> String {
    let mut lines = report.failures.clone();
    let bad = report.balance.iter().filter(|equation| !equation.holds()).count();
    if bad != 0 {
        lines.push(format!("the balance does not hold: {bad} of its equations are wrong"));
    }
    let left = report.rest.iter().filter(|left| left.value != 0).count();
    if left != 0 {
        lines.push(format!("{left} pools, queues or windows are not empty"));
    }
    if lines.is_empty() {
        return "the file arrived intact three times, every packet is accounted for, nothing is left"
            .to_owned();
    }
    lines.into_iter().map(|line| format!("FAILED: {line}")).collect::<Vec<_>>().join("\n")
}
