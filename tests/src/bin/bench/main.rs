//! `cargo xtask bench`: measures Tiercel and the raw limit of the same machine in one run.

mod ack;
mod cost;
mod figures;
mod machine;
mod options;
mod raw;
mod report;
mod run;
mod series;
mod storm;
mod table;
mod tcp;
mod tiercel;
mod ucx;

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tiercel_node::EngineOptions;
use tiercel_tests::{Pair, veth};

use crate::ack::AckHandling;
use crate::figures::{Baseline, FIGURES, Figure, Measure, RAW};
use crate::machine::{APPLICATION_CPU, ENGINE_CPU, Machine};
use crate::options::Options;
use crate::raw::Raw;
use crate::report::{BothCosts, Measured, Report, Setting};
use crate::run::Ran;
use crate::series::{Latencies, latencies};
use crate::storm::{Storm, StormFigure};
use crate::tcp::TCP;
use crate::tiercel::Tiercel;
use crate::ucx::{UCX, Ucx};

/// Version of the JSON report.
const VERSION: u32 = 1;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    // SAFETY: a system call without arguments.
    let root = unsafe { libc::geteuid() } == 0;
    ensure!(
        root,
        "this needs root, because it makes network namespaces and loads XDP programs; run it with sudo"
    );
    machine::check_cpus()?;
    let mut machine = Machine::look()?;
    let warning = machine.was_busy().then(|| {
        format!(
            "warning: other processes use {:.0} % of the CPUs (load average {:.1}), so the figures will be low and \
             will vary; stop them and repeat",
            machine.busy_before * 100.0,
            machine.load_average_before
        )
    });
    if let Some(warning) = &warning {
        eprintln!("{warning}");
    }
    let bench = Bench::new(options);
    let ([raw, checksum, no_checksum, tcp, ucx], acknowledgement, storms) = bench.rounds(options.rounds())?;
    machine.look_again()?;
    let report = Report {
        version: VERSION,
        machine,
        setting: Setting {
            rounds: options.rounds(),
            milliseconds: u64::try_from(options.duration().as_millis())?,
            batch: options.batch,
            mtu: veth::DEFAULT_MTU,
            application_cpu: APPLICATION_CPU,
            engine_cpu: ENGINE_CPU,
        },
        raw: raw.raw(),
        tcp: tcp.beside(&TCP, &checksum),
        ucx: ucx.beside(&UCX, &checksum),
        ucx_version: bench.ucx.map(|ucx| ucx.version),
        checksum: checksum.compared_with(&raw),
        no_checksum: no_checksum.compared_with(&raw),
        acknowledgement,
        storms,
    };
    print!("{}", table::show(&report));
    if let Some(warning) = warning {
        println!("\n{warning}");
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The common state of all measurements.
struct Bench<'a> {
    options: &'a Options,
    duration: Duration,
    /// UCX, if it is to be measured and installed.
    ucx: Option<Ucx>,
    progress: ProgressBar,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options) -> Self {
        let raw = (0..RAW.len()).filter(|n| wants_raw(options, *n)).map(|n| RAW[n].measure);
        let figures = FIGURES.iter().filter(|figure| options.wants(figure)).map(|figure| figure.measure);
        let each_round: Vec<Measure> = raw.chain(figures.clone()).chain(figures).collect();
        let counted = each_round.iter().filter(|measure| has_cost(**measure)).count();
        let tcp = TCP.iter().filter(|figure| options.wants_beside(options::TCP, figure)).count();
        let mut beside_ucx = UCX.iter().filter(|figure| options.wants_beside(options::UCX, figure)).count();
        let ucx = if beside_ucx > 0 { Ucx::find() } else { None };
        if beside_ucx > 0 && ucx.is_none() {
            eprintln!("note: UCX is not measured, because it is not installed: apt-get install ucx-utils");
            beside_ucx = 0;
        }
        let steps = options.rounds() as usize * (each_round.len() + tcp + beside_ucx)
            + counted
            + options.wants_acknowledgement() as usize;
        let steps = steps + if options.wants_storm() { Storm::steps() } else { 0 };
        // indicatif draws on the standard error stream, and only if that is a terminal.
        let style = ProgressStyle::with_template("{msg:<36} {wide_bar} {pos:>4}/{len:<4} {eta:>4}");
        let style = style.expect("the template is well-formed");
        let progress = ProgressBar::new(steps as u64).with_style(style);
        Self { options, duration: options.duration(), ucx, progress }
    }

    /// Runs all rounds, with raw limit and Tiercel in turn on one cable. Then measures the cost of the
    /// programs. Returns the raw limit, Tiercel with and without checksum, TCP, and UCX.
    fn rounds(&self, rounds: u32) -> Result<([Measured; 5], Option<AckHandling>, Vec<StormFigure>)> {
        let mut raw = Measured::new(RAW.len());
        let mut tcp = Measured::new(TCP.len());
        let mut ucx = Measured::new(UCX.len());
        let mut tiercel = [true, false].map(|checksum| (checksum, Measured::new(FIGURES.len())));
        let mut pair = Pair::direct().context("cannot set up two hosts and the cable between them")?;
        for round in 0..rounds {
            // The count of the costs slows the programs down, so it comes after all timed measurements.
            let last = round + 1 == rounds;
            self.raw(&pair, &mut raw, last)?;
            self.tcp(&pair, &mut tcp)?;
            self.ucx(&pair, &mut ucx)?;
            for (checksum, measured) in &mut tiercel {
                pair = self.tiercel(pair, *checksum, measured, last)?;
            }
        }
        let acknowledgement = match self.options.wants_acknowledgement() {
            true => Some(self.step("congestion control", "ACK", || ack::measure(&pair))?),
            false => None,
        };
        let storms = if self.options.wants_storm() { self.storms(pair, rounds)? } else { vec![] };
        self.progress.finish_and_clear();
        let [(_, checksum), (_, no_checksum)] = tiercel;
        Ok(([raw, checksum, no_checksum, tcp, ucx], acknowledgement, storms))
    }

    /// Measures what a storm on one connection costs another.
    fn storms(&self, pair: Pair, rounds: u32) -> Result<Vec<StormFigure>> {
        let tiercel = Tiercel::up(pair, self.options, false)?;
        let figures = Storm::new(&tiercel)?.measure(rounds, self.duration, |name| {
            self.progress.set_message(format!("storm: {name}"));
            self.progress.inc(1);
        })?;
        tiercel.down();
        Ok(figures)
    }

    /// Runs one round of the raw limit. Its engine does not adapt the batch, so it gets the batch that
    /// Tiercel's engine would choose.
    fn raw(&self, pair: &Pair, measured: &mut Measured, costs: bool) -> Result<()> {
        for (latency, batch) in [(false, EngineOptions::LOADED_BATCH), (true, EngineOptions::IDLE_BATCH)] {
            let raw = Raw::up(pair, self.options.batch.unwrap_or(batch))?;
            for (n, figure) in RAW.iter().enumerate() {
                if (figure.measure == Measure::Latency) != latency || !wants_raw(self.options, n) {
                    continue;
                }
                let series = &mut measured.series[n];
                let ran = self.step("raw limit", figure.title, || {
                    raw.measure(figure, self.duration, &mut series.latencies)
                })?;
                series.values.push(ran.value(figure.measure));
                if costs && has_cost(figure.measure) {
                    let measure = |unused: &mut _| raw.measure(figure, self.duration, unused);
                    measured.costs[n] = Some(self.cost(raw.programs, figure.title, measure)?);
                }
            }
        }
        Ok(())
    }

    /// Runs one round of TCP.
    fn tcp(&self, pair: &Pair, measured: &mut Measured) -> Result<()> {
        let wanted = |figure: &Baseline| self.options.wants_beside(options::TCP, figure);
        for (figure, series) in TCP.iter().zip(&mut measured.series).filter(|(figure, _)| wanted(figure)) {
            let ran = self.step("TCP", figure.title, || {
                tcp::measure(pair, figure, self.duration, &mut series.latencies)
            })?;
            series.values.push(ran.value(figure.measure));
        }
        Ok(())
    }

    /// Runs one round of UCX, if there is one.
    fn ucx(&self, pair: &Pair, measured: &mut Measured) -> Result<()> {
        let Some(ucx) = &self.ucx else { return Ok(()) };
        let wanted = |figure: &Baseline| self.options.wants_beside(options::UCX, figure);
        for (figure, series) in UCX.iter().zip(&mut measured.series).filter(|(figure, _)| wanted(figure)) {
            let value = self.step("UCX", figure.title, || ucx.measure(pair, figure, self.duration))?;
            series.values.push(value);
        }
        Ok(())
    }

    /// Runs one round of Tiercel.
    fn tiercel(&self, pair: Pair, checksum: bool, measured: &mut Measured, costs: bool) -> Result<Pair> {
        let tiercel = Tiercel::up(pair, self.options, checksum)?;
        let subject = if checksum { "checksum" } else { "no checksum" };
        let wanted = |figure: &Figure| self.options.wants(figure);
        for (figure, series) in FIGURES.iter().zip(&mut measured.series).filter(|(f, _)| wanted(f)) {
            let ran = self.step(subject, figure.title, || {
                tiercel.measure(figure, self.duration, &mut series.latencies)
            })?;
            series.values.push(ran.value(figure.measure));
        }
        let programs = tiercel.programs()?;
        let counted = |figure: &Figure| costs && wanted(figure) && has_cost(figure.measure);
        for (n, figure) in FIGURES.iter().enumerate().filter(|(_, figure)| counted(figure)) {
            measured.costs[n] = Some(
                self.cost(programs, figure.title, |unused| tiercel.measure(figure, self.duration, unused))?,
            );
        }
        Ok(tiercel.down())
    }

    fn cost(
        &self,
        programs: [u32; 2],
        title: &str,
        measure: impl FnOnce(&mut Latencies) -> Result<Ran>,
    ) -> Result<BothCosts> {
        let count = || Ok(measure(&mut latencies())?.operations);
        let [sender, peer] = self.step("cost", title, || cost::of(programs, count))?;
        Ok(BothCosts { sender, peer })
    }

    fn step<T>(&self, subject: &str, title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.progress.set_message(format!("{subject}: {title}"));
        let outcome = work()?;
        self.progress.inc(1);
        Ok(outcome)
    }
}

/// Returns whether a raw limit belongs to a figure that is to be measured.
fn wants_raw(options: &Options, n: usize) -> bool {
    FIGURES.iter().any(|figure| options.wants(figure) && figure.limit() == n)
}

/// Returns whether the cost of the programs is meaningful. It is not for single operations, because then the
/// engine idles.
fn has_cost(measure: Measure) -> bool {
    measure != Measure::Latency
}
