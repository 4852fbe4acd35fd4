//! The report as text.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::ack::AckHandling;
use crate::cost::Cost;
use crate::figures::{Baseline, FIGURES, Measure, RAW};
use crate::report::{Beside, Compared, Report, Value};
use crate::storm::StormFigure;
use crate::tcp::TCP;
use crate::ucx::UCX;

/// Returns the whole report as text.
pub(crate) fn show(report: &Report) -> String {
    let [with, without] = ["Tiercel with UDP checksums", "Tiercel without checksums"];
    let mut sections = vec![
        ("Setting".to_owned(), setting(report)),
        ("Raw limit: the same engine and cable without a protocol".to_owned(), raw(report)),
        (format!("{with} (D-91, the default)"), tiercel(report, true)),
        (without.to_owned(), tiercel(report, false)),
        (
            "TCP on the same cable, what a program would use otherwise".to_owned(),
            beside(report, &TCP, &report.tcp),
        ),
        (
            format!("UCX {} over TCP on the same cable", report.ucx_version.as_deref().unwrap_or_default()),
            beside(report, &UCX, &report.ucx),
        ),
        (
            "Time in the XDP programs, measured separately, because the count makes each run longer"
                .to_owned(),
            costs(report),
        ),
    ];
    if let Some(ack) = &report.acknowledgement {
        sections.push(("Handling of an ACK, by the kernel's count".to_owned(), acknowledgement(ack)));
    }
    sections
        .push(("A storm on one connection, and what another keeps of its rate".to_owned(), storms(report)));
    sections.push(("Targets".to_owned(), targets(report)));
    let indent = |body: &str| body.lines().map(|line| format!("  {line}\n")).collect::<String>();
    let told = sections.iter().filter(|(_, body)| !body.is_empty());
    told.map(|(title, body)| format!("\n{title}\n{}", indent(body))).collect()
}

/// Returns a table, or nothing if it has no rows. The first `left` columns are words, and the others are numbers.
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
    if table.row_count() == 0 {
        return String::new();
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn setting(report: &Report) -> String {
    let (machine, setting) = (&report.machine, &report.setting);
    format!(
        "machine  {}, {} CPUs, Linux {}\n\
         load     {:.1} before, {:.1} after; {:.0} % of the CPUs in use before\n\
         rounds   {} of {} ms per figure, raw limit and Tiercel in turn; medians over the rounds\n\
         engine   busy on CPU {}, {}; application on CPU {}; the peer's engine sleeps; MTU {}",
        machine.processor,
        machine.cpus,
        machine.kernel,
        machine.load_average_before,
        machine.load_average_after,
        machine.busy_before * 100.0,
        setting.rounds,
        setting.milliseconds,
        setting.engine_cpu,
        setting.batch.map_or("batch adapted to the load".to_owned(), |batch| format!("batch {batch}")),
        setting.application_cpu,
        setting.mtu,
    )
}

/// Returns median, unit, range and quantiles.
fn numbers(value: &Value) -> [String; 5] {
    let quantile = |of: fn(&crate::report::Quantiles) -> f64| {
        value.quantiles.as_ref().map_or_else(String::new, |quantiles| format!("{:.2}", of(quantiles)))
    };
    [
        format!("{:.2}", value.median),
        value.unit.to_owned(),
        format!("{:.2}-{:.2}", value.min, value.max),
        quantile(|q| q.p99_us),
        quantile(|q| q.p999_us),
    ]
}

fn raw(report: &Report) -> String {
    let row = |name| {
        let value = report.raw.get(name)?;
        let [median, unit, range, p99, p999] = numbers(value);
        Some([value.title.to_owned(), median, unit, range, p99, p999])
    };
    let header = ["", "median", "", "range", "p99 us", "p99.9 us"];
    table(header, 1, RAW.iter().filter_map(|raw| row(raw.name)))
}

fn tiercel(report: &Report, checksum: bool) -> String {
    let figures = if checksum { &report.checksum } else { &report.no_checksum };
    let row = |name| {
        let compared: &Compared = figures.get(name)?;
        let [median, unit, range, p99, p999] = numbers(&compared.value);
        let limit = format!("{:.2}", report.raw[compared.raw].median);
        let ratio = match compared.value.measure {
            Measure::Latency => format!("{:.1} x", compared.ratio_to_raw),
            _ => format!("{:.0} %", compared.ratio_to_raw * 100.0),
        };
        Some([compared.value.title.to_owned(), median, unit, range, p99, p999, limit, ratio])
    };
    let header = ["", "median", "", "range", "p99 us", "p99.9 us", "raw", "of raw"];
    table(header, 1, FIGURES.iter().filter_map(|figure| row(figure.name)))
}

fn beside(report: &Report, baseline: &[Baseline], measured: &BTreeMap<&str, Beside>) -> String {
    let row = |name| {
        let beside = measured.get(name)?;
        let [median, unit, range, p99, p999] = numbers(&beside.value);
        let other = &report.checksum.get(beside.instead_of)?.value;
        let tiercel = format!("{}: {:.2} {}", other.title, other.median, other.unit);
        let better = format!("{:.1} x", beside.tiercel_is_better);
        Some([beside.value.title.to_owned(), median, unit, range, p99, p999, tiercel, better])
    };
    let header =
        ["", "median", "", "range", "p99 us", "p99.9 us", "Tiercel with checksums", "Tiercel is better"];
    table(header, 1, baseline.iter().filter_map(|figure| row(figure.name)))
}

fn costs(report: &Report) -> String {
    let raw = RAW.iter().filter_map(|figure| Some(("raw", report.raw.get(figure.name)?)));
    let with = FIGURES.iter().filter_map(|f| Some(("checksum", &report.checksum.get(f.name)?.value)));
    let without =
        FIGURES.iter().filter_map(|f| Some(("no checksum", &report.no_checksum.get(f.name)?.value)));
    let cells = |cost: Cost| {
        [
            format!("{:.0}", cost.nanoseconds_per_operation),
            format!("{:.2}", cost.runs_per_operation),
            format!("{:.0}", cost.nanoseconds_per_run),
        ]
    };
    let row = |(subject, value): (&str, &Value)| {
        let cost = value.cost?;
        let ([a, b, c], [d, e, f]) = (cells(cost.sender), cells(cost.peer));
        Some([subject.to_owned(), value.title.to_owned(), a, b, c, d, e, f])
    };
    let header = ["", "", "sender ns/op", "runs/op", "ns/run", "peer ns/op", "runs/op", "ns/run"];
    table(header, 2, raw.chain(with).chain(without).filter_map(row))
}

fn acknowledgement(ack: &AckHandling) -> String {
    let verdict = if ack.meets_target { "meets" } else { "misses" };
    format!(
        "constant windows {:.0} ns, Swift {:.0} ns, {:.2} x; Swift adds {:.0} ns ({verdict} at most {:.0})",
        ack.constant_ns, ack.swift_ns, ack.ratio, ack.added_ns, ack.target_ns
    )
}

fn storms(report: &Report) -> String {
    let row = |storm: &StormFigure| {
        let verdict = if storm.meets_target { "meets" } else { "misses" };
        [
            storm.name.to_owned(),
            storm.pace.to_owned(),
            format!("{:.0}", storm.frames_per_second / 1e3),
            format!("{:.2}", storm.others_without),
            format!("{:.2}", storm.others),
            format!("{:.2}", storm.kept),
            format!("{verdict} at least {}", storm.target),
        ]
    };
    let header = ["", "pace", "k frames/s", "M/s, storm on nobody", "M/s", "kept", "target"];
    table(header, 2, report.storms.iter().map(row))
}

fn targets(report: &Report) -> String {
    let word = |meets: Option<bool>| if meets == Some(true) { "meets" } else { "misses" };
    let figures = || {
        let both = |name| Some((report.checksum.get(name)?, report.no_checksum.get(name)?));
        FIGURES.iter().filter_map(move |figure| Some((figure, both(figure.name)?)))
    };
    let medians = figures().filter_map(|(figure, (with, without))| {
        let target = figure.target?;
        let sign = if figure.measure == Measure::Latency { "at most" } else { "at least" };
        let verdict = |of: &Compared| format!("{} ({:.2})", word(of.meets_target), of.value.median);
        let target = format!("{sign} {target} {}", figure.measure.unit());
        Some([figure.title.to_owned(), target, verdict(with), verdict(without)])
    });
    let tails = figures().filter_map(|(figure, (with, without))| {
        let target = figure.p99_target?;
        let verdict = |of: &Compared| {
            Some(format!("{} ({:.2})", word(of.meets_p99_target), of.value.quantiles?.p99_us))
        };
        let title = format!("{}, p99", figure.title);
        Some([title, format!("at most {target} us"), verdict(with)?, verdict(without)?])
    });
    table(["", "target", "checksum", "no checksum"], 4, medians.chain(tails))
}
