//! The first block to saturate when the rate rises.

use anyhow::{Context, Result};
use lab_report::{Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};

use crate::testbed::Traffic;
use crate::{Block, Parameters};

use super::load::{Kind, Load, Outcome, measure};
use super::{BUSY, LONG, SHORT, cycles, experiment, gigabits, per_microsecond};

/// Connections that share the line.
const CONNECTIONS: usize = 64;
/// The rate in Gb/s at which the first block to saturate is predicted.
const FORETOLD_AT: u64 = 100;
/// Maximum number of lines in a figure.
const SHOWN: usize = 4;
/// Two lines that differ by less than this many percent are drawn as one.
const ALIKE: f64 = 2.0;
/// Blocks whose utilisation differs by less than this share count as equally busy.
const TIE: f64 = 0.02;
const RATES: [u64; 9] = [25, 50, 100, 150, 200, 300, 400, 600, 800];

/// Returns the rate in Gb/s that the line carried in the direction of the data.
fn carried(kind: Kind, rate: u64, outcome: &Outcome) -> f64 {
    let out = outcome.statistics.block(Block::Line).utilisation;
    let part = if matches!(kind, Kind::WriteIn | Kind::ReadOut) { outcome.line_in } else { out };
    part * rate as f64
}

/// Runs `nic-rate`: the utilisation of the blocks over the rate.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn rate(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let base = Parameters::default();
    let mut report = experiment(
        ("nic-rate", "Which block of the card breaks first when the rate rises?"),
        "The line is kept full at rising rates. The block with the highest utilisation at 100 Gb/s is predicted \
         (foretold) to break first, at the rate at which it would be busy all the time. The card breaks when \
         frames are dropped because the receive buffer is full, or when the line is not kept busy. With long \
         frames the width of the bus is the limit at any rate, so the prediction must hold. With short frames the \
         prediction is checked only if a block is always busy when the card breaks. Otherwise the card breaks \
         because it has more frames in flight than contexts, which no utilisation shows.",
        options,
        &base,
    );
    let loads = [
        ("64 B WRITE in", Kind::WriteIn, SHORT),
        ("1 KiB WRITE in", Kind::WriteIn, LONG),
        ("64 B WRITE out", Kind::WriteOut, SHORT),
        ("1 KiB WRITE out", Kind::WriteOut, LONG),
    ];
    let steps = loads.len() * RATES.len();
    let x = "rate of the line, Gb/s";
    let mut operations =
        Figure::new("operations", "Operations over the rate", x, "million operations a second");
    for (place, (name, kind, length)) in loads.into_iter().enumerate() {
        let mut lines = vec![vec![]; Block::COUNT];
        let (mut done, mut foretold, mut broke) = (vec![], None, None);
        for (of, rate) in RATES.into_iter().enumerate() {
            progress(place * RATES.len() + of, steps);
            let parameters = Parameters { rate: gigabits(rate).context("a rate")?, ..base.clone() };
            let cycles = cycles(options, &parameters);
            let load = Load { kind, length, connections: CONNECTIONS, traffic: Traffic::CONSTANT, cycles };
            let outcome = measure(&parameters, load)?;
            let statistics = &outcome.statistics;
            for block in Block::ALL {
                lines[block as usize].push([rate as f64, 100.0 * statistics.block(block).utilisation]);
            }
            let busiest = statistics.busiest();
            if rate == FORETOLD_AT {
                let alike = |block: &Block| {
                    let of = statistics.block(*block).utilisation;
                    *block != Block::Line && of > busiest.utilisation * (1.0 - TIE)
                };
                let blocks: Vec<Block> = Block::ALL.into_iter().filter(alike).collect();
                foretold = Some((blocks, carried(kind, rate, &outcome) / busiest.utilisation));
            }
            let full = carried(kind, rate, &outcome) / rate as f64;
            let breaks = statistics.overruns > 0 || full < 0.95;
            if breaks && broke.is_none() {
                broke = Some((rate, (busiest.utilisation >= BUSY).then_some(busiest.block)));
            }
            let millions = per_microsecond(outcome.completed, cycles, &parameters);
            done.push([rate as f64, millions]);
            report.cases.push(
                Case::new(format!("{name}, {rate} Gb/s, busiest: {}", busiest.block.name()))
                    .with("operations", millions, "M/s")
                    .with("line full", 100.0 * full, "%")
                    .with("busiest block", 100.0 * busiest.utilisation, "%")
                    .with("receive buffer, most", statistics.receive_buffer_peak as f64, "B")
                    .with("frames dropped", statistics.overruns as f64, "")
                    .with("waits for a context", statistics.receive_waits_for_context as f64, "cycles")
                    .with("waits for the parser", statistics.receive_waits_for_parser as f64, "cycles")
                    .with("turns wait for a context", statistics.turn_waits_for_context as f64, "cycles")
                    .with("waits for connections", statistics.connection_waits as f64, "cycles")
                    .with("worst headroom", statistics.worst_headroom().map(|of| of.0), "cycles"),
            );
        }
        operations = operations.line(Look::Main, name, done);
        let title = format!("Busy blocks over the rate, {name}");
        let mut figure = Figure::new(format!("blocks-{place}"), title, x, "part of the time it is busy, %");
        let most = |block: &Block| lines[*block as usize].iter().map(|point| point[1]).fold(0.0, f64::max);
        let mut order: Vec<Block> = Block::ALL.into_iter().filter(|block| *block != Block::Line).collect();
        order.sort_by(|a, b| most(b).total_cmp(&most(a)));
        let mut shown: Vec<Block> = vec![];
        for block in order {
            let alike = |other: &Block| {
                let pairs = lines[*other as usize].iter().zip(&lines[block as usize]);
                pairs.into_iter().all(|(a, b)| (a[1] - b[1]).abs() < ALIKE)
            };
            if shown.len() < SHOWN && !shown.iter().any(alike) {
                shown.push(block);
                figure = figure.line(Look::Main, block.name(), lines[block as usize].clone());
            }
        }
        report.figures.push(figure.level("always busy", 100.0));
        let Some((first, at)) = foretold else { continue };
        let names: Vec<&str> = first.iter().map(|block| block.name()).collect();
        let names = names.join(", ");
        let at_break = match broke {
            Some((_, Some(block))) => block.name(),
            Some((_, None)) => "no block",
            None => "nothing broke",
        };
        let name = format!("{name}: {names} foretold, always busy where it breaks: {at_break}");
        let case = Case::new(name.clone()).with("foretold rate", at, "Gb/s").with(
            "breaks at",
            broke.map(|(rate, _)| rate as f64),
            "Gb/s",
        );
        report.cases.push(case);
        let always_busy = broke.and_then(|(_, block)| block);
        if length == LONG || always_busy.is_some() {
            let kept = always_busy.is_some_and(|block| first.contains(&block));
            report.verdicts.push(Verdict::claim(name, kept));
        }
    }
    progress(steps, steps);
    report.figures.push(operations);
    Ok(report)
}
