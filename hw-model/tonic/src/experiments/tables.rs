//! The conversion of the results to tables and figures of the common report.

use anyhow::Result;
use lab_report::{Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Named, Options, Progress};

use super::{Conflicts, Delivery, NAMES, RateLimiter, RateRow, Results, Saturation, Speed, run};
use crate::published::Comparison;
use crate::report::{Cost, ProtocolReport};

/// All experiments of this crate.
pub const ALL: &[Named] = &[
    named::<0>("Does the model behave like the published hardware in every cycle?"),
    named::<1>("How many segments per second, with how many flows and outstanding addresses?"),
    named::<2>("How precise is a rate limiter with integers?"),
    named::<3>("What happens when several events of one flow occur in one cycle?"),
    named::<4>("What does a protocol cost, and does it fit?"),
    named::<5>("Does every protocol deliver every segment?"),
    named::<6>("How fast is the model itself?"),
];

/// Returns the experiment at index `PLACE` of [`NAMES`].
const fn named<const PLACE: usize>(question: &'static str) -> Named {
    Named { name: NAMES[PLACE], question, run: |options, progress| common(PLACE, options, progress) }
}

/// Runs the experiment at index `place` and converts its report to the common form.
fn common(place: usize, options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let named = ALL[place];
    let report = run(named.name, options.seed, progress)?;
    let description = description(&report.results);
    Ok(Experiment {
        cases: cases(&report.results),
        verdicts: report.claims.into_iter().map(|claim| Verdict::claim(claim.claim, claim.holds)).collect(),
        figures: figures(&report.results),
        details: serde_json::to_value(report.results)?,
        ..Experiment::in_cycles(named.name, named.question, description, options.seed)
    })
}

/// Describes the experiment in one or two sentences.
const fn description(results: &Results) -> &'static str {
    match results {
        Results::Hardware(_) => {
            "The model in its published mode, compared with data measured on the published hardware: a \
             single segment, three loads, two traces with the cycle of each event."
        }
        Results::Saturation(_) => "Flows that always have something to send, at 100 MHz.",
        Results::RateLimiter(_) => {
            "One flow at each rate. Rates are integers with several quanta, and at 20 Gb/s also with a single quantum."
        }
        Results::Conflicts(_) => "Several events of one flow occur in the same cycle.",
        Results::Protocols(_) => {
            "User logic runs on numbers that count the operations on them. A call of the datapath's own code \
             is one operation and one level."
        }
        Results::Delivery(_) => "Each protocol sends whole flows over clean and impaired paths.",
        Results::Speed(_) => "A thousand flows are active in every cycle.",
    }
}

/// Returns a case per run.
fn cases(results: &Results) -> Vec<Case> {
    match results {
        Results::Hardware(comparison) => hardware(comparison),
        Results::Saturation(saturation) => saturated(saturation),
        Results::RateLimiter(limiter) => limited(limiter),
        Results::Conflicts(conflicts) => conflicting(conflicts),
        Results::Protocols(reports) => reports.iter().map(protocol).collect(),
        Results::Delivery(delivery) => delivered(delivery),
        Results::Speed(speed) => speeds(speed),
    }
}

/// Returns the figures.
fn figures(results: &Results) -> Vec<Figure> {
    match results {
        Results::RateLimiter(limiter) => vec![precision(limiter)],
        _ => vec![],
    }
}

fn hardware(comparison: &Comparison) -> Vec<Case> {
    let latencies = comparison.latency.cycles.iter().map(|(name, (model, data))| {
        Case::new(name.clone()).with("model", *model as f64, "cycles").with(
            "hardware",
            *data as f64,
            "cycles",
        )
    });
    let rates = comparison.rates.iter().flat_map(|run| {
        let flows = run.segments.len();
        run.segments.iter().map(move |(flow, (model, data))| {
            Case::new(format!("flow {flow} of {flows}")).with("model", *model as f64, "segments").with(
                "hardware",
                *data as f64,
                "segments",
            )
        })
    });
    latencies.chain(rates).collect()
}

fn saturated(saturation: &Saturation) -> Vec<Case> {
    let rows = saturation.rows.iter().map(|row| {
        Case::new(format!("{:?}, N = {}, {} flows", row.rules, row.outstanding, row.flows))
            .with("cycles", row.cycles as f64, "")
            .with("segments", row.segments as f64, "")
            .with("fewest of a flow", row.fewest as f64, "")
            .with("most", row.most as f64, "")
            .with("rate", row.segments as f64 * saturation.hertz as f64 / row.cycles as f64 / 1e6, "M/s")
    });
    let limited = saturation.rate_limited.iter().map(|row| {
        Case::new(format!("DCQCN at {} Gb/s, {} B", row.bits_per_second as f64 / 1e9, row.segment_bytes))
            .with("cycles", row.cycles as f64, "")
            .with("segments", row.segments as f64, "")
            .with("rate", row.segments_per_second / 1e6, "M/s")
    });
    rows.chain(limited).collect()
}

/// Returns the relative error of a rate.
fn error(row: &RateRow) -> f64 {
    (row.achieved_bits_per_second / row.bits_per_second as f64 - 1.0).abs()
}

fn limited(limiter: &RateLimiter) -> Vec<Case> {
    let case = |name: String, row: &RateRow| {
        Case::new(name)
            .with("achieved", row.achieved_bits_per_second / 1e6, "Mb/s")
            .with("off", error(row) * 100.0, "%")
            .with("shortest gap", row.shortest_gap as f64, "cycles")
            .with("longest gap", row.longest_gap as f64, "cycles")
            .with("most early", row.early_bytes, "B")
            .with("most late", row.late_bytes, "B")
            .with("allowed", row.bound_bytes, "B")
    };
    let megabits = |row: &RateRow| format!("{} Mb/s", row.bits_per_second as f64 / 1e6);
    let rows = limiter.rates.iter().map(|row| case(megabits(row), row));
    let single = &limiter.single_precision;
    rows.chain([case(format!("{}, one precision", megabits(single)), single)]).collect()
}

fn conflicting(conflicts: &Conflicts) -> Vec<Case> {
    let races = conflicts.races.iter().map(|race| {
        Case::new(format!("ACK {} cycles before the timeout", race.cycles_before)).with(
            "the timer fires",
            f64::from(u8::from(race.fires)),
            "",
        )
    });
    let both = Case::new("generated and transmitted in one cycle")
        .with("cycles", conflicts.generated_and_transmitted as f64, "")
        .with("count stayed", conflicts.count_stayed as f64, "");
    races.chain([both]).collect()
}

fn protocol(report: &ProtocolReport) -> Case {
    let cost = |case: Case, operations, depth, cost: &Cost| {
        case.with(operations, f64::from(cost.total), "").with(depth, f64::from(cost.depth), "")
    };
    let case = Case::new(report.name.clone())
        .with("lines", report.lines as f64, "")
        .with("of code", report.code_lines as f64, "")
        .with("shared code", report.shared_code_lines as f64, "lines")
        .with("state", report.state_bytes as f64, "B")
        .with("room", report.state_limit as f64, "B");
    let case = cost(case, "Incoming: operations", "Incoming: depth", &report.incoming);
    cost(case, "Periodic: operations", "Periodic: depth", &report.periodic)
}

fn delivered(delivery: &Delivery) -> Vec<Case> {
    let case = |row: &super::DeliveryRow| {
        Case::new(format!("{}, {}", row.protocol, row.path))
            .with("segments", row.segments as f64, "")
            .with("delivered", row.delivered as f64, "")
            .with("transmitted", row.transmitted as f64, "")
            .with("duplicates", row.duplicates as f64, "")
            .with("cycles", row.cycles as f64, "")
    };
    delivery.rows.iter().map(case).collect()
}

fn speeds(speed: &Speed) -> Vec<Case> {
    let rows = speed.rows.iter().map(|row| {
        Case::new(row.protocol.clone())
            .with("flows", f64::from(row.flows), "")
            .with("cycles", row.cycles as f64, "")
            .with("segments", row.segments as f64, "")
            .with("speed", row.cycles_per_second / 1e6, "M cycles/s")
    });
    let empty = Case::new("empty loop over the same state").with(
        "speed",
        speed.empty_loop_cycles_per_second / 1e6,
        "M cycles/s",
    );
    rows.chain([empty]).collect()
}

fn precision(limiter: &RateLimiter) -> Figure {
    let points = |of: fn(&RateRow) -> f64| {
        limiter.rates.iter().map(|row| [row.bits_per_second as f64 / 1e6, of(row)]).collect()
    };
    Figure::new("bytes", "Bytes ahead of or behind the rate", "rate (Mb/s)", "bytes")
        .log_x()
        .line(Look::Main, "most early", points(|row| row.early_bytes))
        .line(Look::Main, "most late", points(|row| row.late_bytes))
        .line(Look::Reference, "allowed: a segment and a quantum", points(|row| row.bound_bytes))
}
