//! The report of a replay: decisions, events, blocks, and other rates.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use fabric_model::Rate;
use falcon_nic::{Block, Parameters, Statistics};
use lab_report::{Case, Experiment, Figure, Look, Verdict};
use serde_json::json;

use super::{Course, Decisions, InCycles, Summary, TraceReader};

/// Maximum number of events at each of the other rates.
const AT_OTHER_RATES: u64 = 50_000;
/// The other rates, in sixteenths of the requested rate.
const OTHER_RATES: [u64; 9] = [1, 2, 4, 8, 16, 24, 32, 64, 128];
/// The card keeps up if it finishes the events within this multiple of the time that the lines need for them.
const KEEPS_UP: f64 = 1.05;
/// Maximum number of lines in a figure.
const DRAWN: usize = 5;

/// A request for a replay.
#[derive(Clone, Debug)]
pub struct Request {
    /// The trace.
    pub trace: PathBuf,
    /// The card: clock, rate and all else.
    pub parameters: Parameters,
    /// Maximum number of events that are replayed in cycles. The decisions of all events are compared.
    pub events: Option<u64>,
}

fn open(path: &Path) -> Result<TraceReader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    TraceReader::new(BufReader::with_capacity(1 << 20, file)).with_context(|| path.display().to_string())
}

/// Replays a trace: first every decision, then the events in the card's blocks, then some of them at other rates.
/// `progress` gets the name of the current part and the number of finished events.
///
/// # Errors
/// Returns an error for the first difference between trace and replay, for a trace that is empty or cannot be read, and
/// for a parameter that is out of range. It is no error if the card does not keep up: the verdicts say so.
pub fn report(request: &Request, mut progress: impl FnMut(&'static str, u64)) -> Result<Vec<Experiment>> {
    request.parameters.check()?;
    let mut reader = open(&request.trace)?;
    let summary = Decisions::replay(&mut reader, |done| progress("decisions", done))
        .with_context(|| request.trace.display().to_string())?;
    ensure!(summary.events > 0, "{}: {}", request.trace.display(), nothing_in(&summary));
    let events = request.events.unwrap_or(u64::MAX);
    let course = in_cycles(request, &request.parameters, events, |done| progress("cycles", done))?;
    Ok(vec![
        decisions(request, &summary),
        of_events(request, &course),
        of_blocks(request, &course),
        other_rates(request, |done| progress("other rates", done))?,
    ])
}

/// Says why there is nothing to replay.
fn nothing_in(summary: &Summary) -> String {
    let Summary { before, after, lost, .. } = *summary;
    if lost > 0 {
        return format!(
            "nothing in this trace can be replayed, because {lost} runs were lost: take another one, with less traffic"
        );
    }
    if before + after > 0 {
        return format!(
            "nothing in this trace can be replayed: its {} runs are all from its first or last moment. Take a longer one",
            before + after
        );
    }
    "the trace is empty: no Falcon packet came and no connection was served while it was recorded. Take another one with \
     traffic: `tiercel trace --out FILE -- COMMAND` starts COMMAND when recording has begun"
        .to_owned()
}

/// Returns a part of the report without results.
fn part(request: &Request, name: &'static str, title: &'static str, description: &str) -> Experiment {
    let trace = request.trace.file_name().unwrap_or(request.trace.as_os_str()).to_string_lossy();
    Experiment {
        settings: settings(&request.parameters),
        ..Experiment::in_cycles(name, title, &format!("{trace}: {description}"), 0)
    }
}

fn in_cycles(
    request: &Request,
    parameters: &Parameters,
    events: u64,
    progress: impl FnMut(u64),
) -> Result<Course> {
    let mut reader = open(&request.trace)?;
    InCycles::replay(&mut reader, parameters, events, progress)
        .with_context(|| request.trace.display().to_string())
}

fn settings(parameters: &Parameters) -> BTreeMap<&'static str, String> {
    [
        ("clock", format!("{} ps a cycle", parameters.period)),
        ("rate", parameters.rate.to_string()),
        ("cache entries", parameters.cache.entries.to_string()),
        ("receive buffer", format!("{} B", parameters.receive_buffer)),
    ]
    .into()
}

fn decisions(request: &Request, summary: &Summary) -> Experiment {
    let mut experiment = part(
        request,
        "replay-decisions",
        "Does the model decide as the real datapath did?",
        "the same functions made the decisions of every run of the trace again. The replay compared the calls to \
         the platform, the sent headers, the contexts after each step, and whole connections wherever the trace \
         has one.",
    );
    experiment.cases.push(
        Case::new("trace")
            .with("events", summary.events as f64, "")
            .with("steps of connections", summary.steps as f64, "")
            .with("connections compared", summary.connections_compared as f64, "")
            .with("from before", summary.before as f64, "")
            .with("from after", summary.after as f64, "")
            .with("lost", summary.lost as f64, "")
            .with("not made, for the losses", summary.abandoned as f64, ""),
    );
    // A difference would have ended the replay with an error, and so would an empty trace.
    let claim = format!("{} events decided as the datapath did, none otherwise", summary.events);
    experiment.verdicts.push(Verdict::claim(claim, true));
    experiment.details = json!(summary);
    experiment
}

fn of_events(request: &Request, course: &Course) -> Experiment {
    let statistics = &course.statistics;
    let mut experiment = part(
        request,
        "replay-events",
        "What do the events take in the card?",
        "the events came in the order of the trace, as fast as the lines carry their frames. Cycles are counted \
         from the arrival of the last bit, or from the start of the turn (a service of the engine), to the \
         verdict. The headroom is the smallest difference of a frame's budget and the cycles of its busiest \
         block.",
    );
    experiment.cases.extend(statistics.events.iter().map(|of| of.case(of.event.name())));
    if let Some((headroom, of, block)) = statistics.worst_headroom() {
        let name = format!("worst headroom against the line's budget: {} in {}", of.name(), block.name());
        let bound = lab_report::Bound::AtLeast(0.0);
        experiment.verdicts.push(Verdict::new(name, headroom, "cycles", bound));
    }
    experiment.figures.push(latencies(statistics));
    experiment.details = json!(statistics);
    experiment
}

fn of_blocks(request: &Request, course: &Course) -> Experiment {
    let statistics = &course.statistics;
    let mut experiment = part(
        request,
        "replay-blocks",
        "Where are the queues, the stalls and the misses?",
        "each block over the whole trace, the receive buffer, waits for connections, and the cache.",
    );
    for of in statistics.blocks.iter().filter(|of| of.served != 0) {
        let stalls: u64 = of.stalls.values().sum();
        experiment.cases.push(
            Case::new(of.block.name())
                .with("visits", of.served as f64, "")
                .with("busy", 100.0 * of.utilisation, "%")
                .with("queue, mean", of.queue_mean, "")
                .with("queue, most", of.queue_peak as f64, "")
                .with("stalls", stalls as f64, "cycles"),
        );
    }
    let room = request.parameters.receive_buffer;
    let most = statistics.receive_buffer_peak;
    let claim =
        format!("the receive buffer of {room} B suffices at {}: {most} B at most", request.parameters.rate);
    experiment.verdicts.push(Verdict::claim(claim, most <= room));
    let cache = &statistics.cache;
    experiment.details = json!({
        "cycles": statistics.cycles,
        "connections": course.connections,
        "receive_buffer_peak_bytes": most,
        "connection_wait_cycles": statistics.connection_waits,
        "cache_wait_cycles": statistics.cache_waits,
        "cache_hit_rate": cache.hit_rate(),
        "cache": cache,
    });
    experiment.cases.push(Case::new("waiting for a connection, all together").with(
        "stalls",
        statistics.connection_waits as f64,
        "cycles",
    ));
    let hits =
        cache.hit_rate().map_or_else(|| "none".to_owned(), |rate| format!("{:.2} % hits", 100.0 * rate));
    experiment.cases.push(Case::new(format!("waiting for the cache, all together ({hits})")).with(
        "stalls",
        statistics.cache_waits as f64,
        "cycles",
    ));
    experiment
}

/// Returns a figure with the distribution of the cycles of the most frequent kinds of events.
fn latencies(statistics: &Statistics) -> Figure {
    let mut figure = Figure::new(
        "cycles",
        "Cycles from arrival to verdict, the most frequent kinds of events",
        "of all events of that kind, %",
        "cycles, at most",
    )
    .log_y();
    let mut common: Vec<_> = statistics.events.iter().collect();
    common.sort_by_key(|of| std::cmp::Reverse(of.count));
    for of in common.into_iter().take(DRAWN) {
        let points = of.deciles.iter().enumerate();
        let points = points.map(|(tenth, cycles)| [10.0 * tenth as f64, f64::from(*cycles).max(1.0)]);
        figure = figure.line(Look::Main, of.event.name(), points.collect());
    }
    figure
}

/// Returns the share of the time for which steps had an average connection.
fn taken(course: &Course) -> f64 {
    let held: f64 = course.statistics.events.iter().map(|of| of.held * of.count as f64).sum();
    held / (course.statistics.cycles.max(1) as f64 * course.connections.max(1) as f64)
}

/// Replays at rising rates, and reports the utilisation of the blocks and the first one to saturate.
fn other_rates(request: &Request, mut progress: impl FnMut(u64)) -> Result<Experiment> {
    let mut experiment = part(
        request,
        "replay-rates",
        "Which block breaks first when the rate rises?",
        "the first events of the trace at rates from a sixteenth to eight times the requested rate.",
    );
    let events = request.events.unwrap_or(u64::MAX).min(AT_OTHER_RATES);
    let mut lines: BTreeMap<Block, Vec<[f64; 2]>> = BTreeMap::new();
    let (mut connection, mut rates, mut broke) = (vec![], vec![], None);
    for (place, sixteenths) in OTHER_RATES.into_iter().enumerate() {
        let bits = request.parameters.rate.bits_per_second() / 16 * sixteenths;
        let Some(rate) = Rate::from_bits_per_second(bits) else { continue };
        let parameters = Parameters { rate, ..request.parameters.clone() };
        let course = in_cycles(request, &parameters, events, |done| {
            progress(place as u64 * events + done);
        })?;
        let x = bits as f64 / 1e9;
        let statistics = &course.statistics;
        for of in &statistics.blocks {
            lines.entry(of.block).or_default().push([x, 100.0 * of.utilisation]);
        }
        let (busiest, taken) = (statistics.busiest(), taken(&course));
        connection.push([x, 100.0 * taken]);
        let stretched = statistics.cycles as f64 / course.offered.0.max(1) as f64;
        let keeps_up = stretched <= KEEPS_UP && statistics.receive_buffer_peak <= parameters.receive_buffer;
        let first = if taken > busiest.utilisation { "one connection's steps" } else { busiest.block.name() };
        if !keeps_up && broke.is_none() {
            broke = Some((x, first));
        }
        let part = 100.0 * busiest.utilisation.max(taken);
        experiment.cases.push(
            Case::new(format!("{rate}: {first} is busiest"))
                .with("busiest", part, "%")
                .with("time needed, of the lines' time", 100.0 * stretched, "%")
                .with("receive buffer, most", statistics.receive_buffer_peak as f64, "B"),
        );
        rates.push(json!({
            "rate": rate.to_string(), "busiest": first, "busy_percent": part, "keeps_up": keeps_up,
        }));
    }
    let claim = match broke {
        Some((rate, first)) => format!("when the rate rises, {first} breaks first, at {rate} Gb/s"),
        None => "nothing breaks up to eight times the rate".to_owned(),
    };
    // This is a case and not a verdict, because no result would be wrong.
    experiment.cases.push(Case::new(claim).with("breaks at", broke.map(|(rate, _)| rate), "Gb/s"));
    let mut order: Vec<_> = lines.into_iter().filter(|(block, _)| *block != Block::Line).collect();
    order.sort_by(|a, b| last(&b.1).total_cmp(&last(&a.1)));
    let mut figure = Figure::new(
        "blocks",
        "Busy blocks over the rate of the lines",
        "rate of the lines, Gb/s",
        "part of the time it is busy, %",
    )
    .log_x()
    .line(Look::Main, "one connection", connection);
    for (block, points) in order.into_iter().take(DRAWN - 1) {
        figure = figure.line(Look::Main, block.name(), points);
    }
    experiment.figures.push(figure.level("always busy", 100.0));
    experiment.details = json!(rates);
    Ok(experiment)
}

fn last(points: &[[f64; 2]]) -> f64 {
    points.last().map_or(0.0, |[_, y]| *y)
}
