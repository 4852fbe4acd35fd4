//! Experiments with Swift in P4: its equality with the datapath's Swift, and its hardware cost.
//!
//! [`ALL`] lists them. `tiercel model experiment p4-swift p4-cost` runs them. `docs/model/swift-p4.md` describes
//! the results.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Named, Options, Progress};
use p4_subset::{MULTIPLIER_BITS_A_STAGE, Operation};
use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::Event;
use transport_common::congestion::parameters::Prepared;
use transport_common::congestion::result::Outcome;
use transport_common::congestion::swift::swift as core_swift;

use crate::{RandomEvents, SOURCE, SwiftProgram, differential, generate};

/// All experiments of this crate.
pub const ALL: &[Named] = &[
    Named {
        name: "p4-swift",
        question: "Is Swift as a P4 program equal to the Swift that runs in the kernel?",
        run: swift,
    },
    Named { name: "p4-cost", question: "What does Swift as a P4 program cost in hardware?", run: cost },
];

/// Number of compared events.
const EVENTS: u64 = 2_000_000;
/// Number of events whose handling is timed.
const TIMED_EVENTS: u32 = 4096;
/// Number of timing rounds over these events.
const ROUNDS: u32 = 20;

fn experiment(name: &'static str, title: &'static str, seed: u64) -> Experiment {
    Experiment {
        congestion_control: Some("swift".to_owned()),
        ..Experiment::in_cycles(name, title, "", seed)
    }
}

/// Returns the nanoseconds per event in the fastest round. The other rounds are slower because of other load on
/// the machine.
fn time(events: &[Event], mut handle: impl FnMut(&Event)) -> f64 {
    let round = |_| {
        let begin = Instant::now();
        events.iter().for_each(&mut handle);
        begin.elapsed().as_nanos() as f64 / events.len() as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Runs `p4-swift`: compares Swift in P4 with Swift in `transport-common`.
///
/// # Errors
/// Returns an error if `swift.p4` is not a valid Swift program.
pub fn swift(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let mut report = experiment(
        "p4-swift",
        "Is Swift as a P4 program equal to the Swift that runs in the kernel?",
        options.seed,
    );
    report.description = "Random events of random connections with random parameters go through the P4 program \
                          and through transport-common's Swift. Every bit of the results and PLB's counters are \
                          compared."
        .to_owned();
    let all = EVENTS as usize;
    let found = differential::compare(EVENTS, options.seed, &mut |done| progress(done as usize, all))?;

    let mut random = RandomEvents::new(options.seed);
    let events: Vec<Event> =
        (0..TIMED_EVENTS).map(|number| random.event(number, &Prepared::DEFAULT, None)).collect();
    let mut program = SwiftProgram::new()?;
    let mut outcome = Outcome::default();
    let in_p4 = time(&events, |event| {
        program.update(event, &mut outcome);
        black_box(&outcome);
    });
    let mut engine = EngineState::default();
    let in_core = time(&events, |event| {
        core_swift(event, &mut engine, &Prepared::DEFAULT, &mut outcome);
        black_box(&outcome);
    });

    let count = |number: u64| number as f64;
    let [acks, nacks, retransmissions, reserved] = found.by_type.map(count);
    report.cases = vec![
        Case::new("events")
            .with("compared", count(found.events), "")
            .with("different", count(found.differences), "")
            .with("ACK", acks, "")
            .with("NACK", nacks, "")
            .with("retransmission", retransmissions, "")
            .with("reserved", reserved, ""),
        Case::new("what they did")
            .with("fcwnd rose", count(found.fcwnd_rose), "")
            .with("fcwnd fell", count(found.fcwnd_fell), "")
            .with("in proportion", count(found.fcwnd_fell_in_proportion), "")
            .with("ncwnd rose", count(found.ncwnd_rose), "")
            .with("ncwnd fell", count(found.ncwnd_fell), "")
            .with("paced", count(found.paced), "")
            .with("rerouted", count(found.rerouted), ""),
        Case::new("time of an event here").with("P4", in_p4, "ns").with("core", in_core, "ns"),
    ];
    report.verdicts = vec![
        Verdict::new("events compared", count(found.events), "", Bound::AtLeast(1e6)),
        Verdict::new("events with a difference in any bit", count(found.differences), "", Bound::AtMost(0.0)),
        Verdict::claim(
            "every part of Swift was at work in at least one of a hundred events",
            found.is_thorough(),
        ),
        Verdict::claim(
            "the program's tables are what the core's constants give",
            generate::regenerate(SOURCE) == SOURCE,
        ),
    ];
    report.details = serde_json::to_value(found)?;
    Ok(report)
}

/// Runs `p4-cost`: the hardware cost of Swift in P4.
///
/// # Errors
/// Returns an error if `swift.p4` is not a valid Swift program.
pub fn cost(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let mut report = experiment("p4-cost", "What does Swift as a P4 program cost in hardware?", options.seed);
    report.description = format!(
        "Operations, depth and memory of swift.p4. In a stage of the estimated pipeline, a value passes one \
         operation, one lookup or one register access. A multiplier takes one stage for every \
         {MULTIPLIER_BITS_A_STAGE} bits of its narrower factor."
    );
    let program = SwiftProgram::new()?;
    let found = program.program().report();
    progress(1, 1);

    let mut operations = Case::new("operations").with("all", f64::from(found.total), "");
    for (kind, name) in [
        (Operation::Add, "add"),
        (Operation::SaturatingAdd, "saturating"),
        (Operation::Multiply, "multiply"),
        (Operation::Logic, "logic"),
        (Operation::Shift, "shift"),
        (Operation::Compare, "compare"),
        (Operation::Select, "select"),
        (Operation::Lookup, "lookup"),
        (Operation::RegisterRead, "register read"),
        (Operation::RegisterWrite, "register write"),
    ] {
        let count = found.operations.get(&kind).copied().unwrap_or(0);
        operations = operations.with(name, f64::from(count), "");
    }
    report.cases.push(operations);
    let largest = found.multipliers.iter().max_by_key(|kind| kind.narrow * kind.wide);
    let largest = largest.context("Swift multiplies")?;
    let narrow: u32 = found.multipliers.iter().filter(|kind| kind.narrow <= 17).map(|kind| kind.count).sum();
    report.cases.push(
        Case::new("size")
            .with("lines of code", found.code_lines as f64, "")
            .with("depth", f64::from(found.depth), "operations")
            .with("stages", f64::from(found.stages), "")
            .with("input", f64::from(found.input_bits), "bit")
            .with("output", f64::from(found.output_bits), "bit")
            .with("multipliers by 17 bits or less", f64::from(narrow), "")
            .with("largest multiplier", f64::from(largest.narrow * largest.wide), "bit^2"),
    );
    for table in &found.tables {
        report.cases.push(
            Case::new(format!("table {}", table.name))
                .with("entries", table.entries as f64, "")
                .with("key", f64::from(table.key_bits), "bit")
                .with("match memory", table.match_bits as f64, "bit")
                .with("data", table.data_bits as f64, "bit"),
        );
    }
    report.cases.push(Case::new("memory").with("tables", found.table_bits as f64, "bit").with(
        "registers",
        found.register_bits as f64,
        "bit",
    ));
    let accesses = [Operation::RegisterRead, Operation::RegisterWrite];
    report.verdicts = vec![
        Verdict::claim(
            "every operation of the longest chain stands in the report",
            found.chain.len() == found.depth as usize,
        ),
        Verdict::claim(
            "the registers are read once and written once for an event",
            accesses.iter().all(|kind| found.operations.get(kind) == Some(&1)),
        ),
    ];
    let points = found.operations_by_stage.iter().enumerate();
    let points = points.map(|(stage, count)| [stage as f64 + 1.0, f64::from(*count)]).collect();
    let figure = Figure::new("stages", "Operations that end in each stage", "stage", "operations");
    report.figures.push(figure.line(Look::Bars, "as early as possible", points));
    report.details = serde_json::to_value(found)?;
    Ok(report)
}
