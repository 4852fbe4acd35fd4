//! The cycles of each kind of event.

use anyhow::Result;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};
use serde_json::json;

use crate::testbed::Traffic;
use crate::{Block, Event, Parameters};

use super::load::{Kind, Load, measure};
use super::{BUSY, LONG, SHORT, cycles, event_case, experiment, swift};

/// Connections that share the line.
const CONNECTIONS: usize = 64;

/// Runs `nic-pipeline`: the cycles of every kind of event.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn pipeline(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let parameters = Parameters::default();
    let mut report = experiment(
        ("nic-pipeline", "What does an event take in the card?"),
        "A card at 1 GHz and 200 Gb/s with 64 connections to a peer that takes no time. Cycles are counted from \
         the arrival of the frame's last bit, or from the start of the turn, to the verdict. A turn is one \
         service of the engine. The budget of a frame is the number of cycles that the line gives it. The \
         headroom is the smallest difference of a frame's budget and the cycles for which its busiest block took \
         nothing else. Below 0, the block cannot carry a line full of such frames. It can still carry a few of \
         them. The verdicts check that no block is busy all the time and that no frame is dropped.",
        options,
        &parameters,
    );
    let all = Traffic { ack_request_percent: 100, ..swift() };
    let loads = [
        ("64 B WRITE in", Kind::WriteIn, SHORT, Traffic::CONSTANT),
        ("1 KiB WRITE in", Kind::WriteIn, LONG, Traffic::CONSTANT),
        ("64 B WRITE out", Kind::WriteOut, SHORT, Traffic::CONSTANT),
        ("1 KiB WRITE out", Kind::WriteOut, LONG, Traffic::CONSTANT),
        ("1 KiB READ by the peer", Kind::ReadIn, LONG, Traffic::CONSTANT),
        ("1 KiB READ by the card", Kind::ReadOut, LONG, Traffic::CONSTANT),
        ("64 B WRITE out, an ACK each, Swift", Kind::WriteOut, SHORT, all),
    ];
    let lengths = [16, 64, 128, 256, 512, 1024, 2048, 3072];
    let steps = loads.len() + lengths.len();
    let mut details = vec![];
    let (mut events, mut evaluated, mut seconds) = (0, 0, 0.0);
    let (mut dropped, mut busiest) = (0, None);
    for (place, (name, kind, length, traffic)) in loads.into_iter().enumerate() {
        progress(place, steps);
        let load =
            Load { kind, length, connections: CONNECTIONS, traffic, cycles: cycles(options, &parameters) };
        let outcome = measure(&parameters, load)?;
        let statistics = outcome.statistics;
        for of in &statistics.events {
            report.cases.push(event_case(format!("{name}: {}", of.event.name()), of));
        }
        events += statistics.finished();
        evaluated += statistics.cycles;
        seconds += outcome.seconds;
        // The peer's READs request eight times what the outgoing line carries. The waiting requests fill the
        // receive buffer.
        if kind != Kind::ReadIn {
            dropped += statistics.overruns;
        }
        let busy = statistics.busiest();
        if busiest.as_ref().is_none_or(|(part, _)| busy.utilisation > *part) {
            busiest = Some((busy.utilisation, format!("{} in {name}", busy.block.name())));
        }
        if let Some((headroom, event, block)) = statistics.worst_headroom() {
            let case = Case::new(format!("{name}: worst headroom, {} in {}", event.name(), block.name()));
            let overruns = statistics.overruns as f64;
            report.cases.push(case.with("headroom", headroom, "cycles").with("frames dropped", overruns, ""));
        }
        details.push(json!({ "load": name, "statistics": statistics }));
    }
    report.verdicts = vec![Verdict::new(
        "frames dropped, all loads but READs by the peer",
        dropped as f64,
        "",
        Bound::AtMost(0.0),
    )];
    if let Some((part, name)) = busiest {
        let name = format!("busiest block of all loads: {name}");
        report.verdicts.push(Verdict::new(name, 100.0 * part, "%", Bound::AtMost(100.0 * BUSY)));
    }
    let mut latency = Figure::new(
        "latency",
        "From arrival to verdict, by user data",
        "user data of a WRITE, bytes",
        "cycles at 1 GHz, mean",
    );
    let mut budget = Figure::new(
        "headroom",
        "Cycles of a WRITE's busiest block beside the line's budget at 200 Gb/s",
        "user data of a WRITE, bytes",
        "cycles at 1 GHz",
    );
    let (mut came, mut left, mut line, mut block, mut taken) = (vec![], vec![], vec![], vec![], vec![]);
    for (place, length) in lengths.into_iter().enumerate() {
        progress(loads.len() + place, steps);
        let traffic = Traffic::CONSTANT;
        let cycles = cycles(options, &parameters).min(30_000);
        let load = |kind| Load { kind, length, connections: CONNECTIONS, traffic, cycles };
        let x = f64::from(length);
        let received = measure(&parameters, load(Kind::WriteIn))?.statistics;
        if let Some(of) = received.event(Event::WriteReceived) {
            came.push([x, of.mean]);
            taken.push([x, of.held]);
            line.extend(of.budget.map(|cycles| [x, cycles]));
            block.push([
                x,
                of.busy
                    .iter()
                    .filter(|(block, _)| **block != Block::Line)
                    .map(|(_, cycles)| *cycles)
                    .fold(0.0, f64::max),
            ]);
        }
        let sent = measure(&parameters, load(Kind::WriteOut))?.statistics;
        left.extend(sent.event(Event::RequestSent).map(|of| [x, of.mean]));
    }
    progress(steps, steps);
    latency = latency.line(Look::Main, "WRITE received", came).line(Look::Main, "WRITE sent", left);
    budget = budget.line(Look::Main, "line's budget", line).line(Look::Main, "busiest block", block).line(
        Look::Main,
        "connection taken",
        taken,
    );
    report.figures = vec![latency, budget];
    report.details = json!({
        "loads": details,
        "speed": { "cycles_per_second": evaluated as f64 / seconds, "events_per_second": events as f64 / seconds },
    });
    Ok(report)
}
