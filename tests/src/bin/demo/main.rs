//! `cargo xtask run`: moves a file through a lossy fabric and accounts for every packet.

mod balance;
mod bulk;
mod equation;
mod file;
mod measure;
mod options;
mod report;
mod rest;
mod small;
mod snapshot;
mod table;

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tiercel_node::{EngineMode, EngineOptions};
use tiercel_tests::Pair;
use tiercel_tests::nodes::{Setup, TwoNodes};

use crate::options::Options;
use crate::report::Report;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the whole demonstration. Returns false if a check failed; the table says which.
fn run(options: &Options) -> Result<bool> {
    // SAFETY: a system call without arguments.
    let root = unsafe { libc::geteuid() } == 0;
    ensure!(
        root,
        "this needs root, because it makes network namespaces and loads XDP programs; run it with sudo"
    );
    options.check()?;
    // Opened before the work, so that a wrong path does not waste the work.
    let json = options
        .json
        .as_ref()
        .map(|path| File::create(path).with_context(|| format!("cannot write {}", path.display())));
    let json = json.transpose()?;
    let source = file::Source::open(options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;

    let fabric = options.fabric();
    let pair =
        Pair::through(fabric.clone()).context("cannot set up two hosts and the fabric between them")?;
    let setup = Setup { ipv6: options.ipv6, tuning: options.tuning(), ..Setup::default() };
    let nodes = TwoNodes::up(pair, setup)?;
    let mut report = Report::new(&source, &fabric, &nodes)?;
    let crossing = runtime.block_on(bulk::cross(&nodes, &source, &mut report.phases));
    // Also after a failure, because then the counters are most useful.
    let stood_still = runtime.block_on(rest::settle(&nodes));
    report.conclude(&nodes, stood_still)?;
    if let Err(error) = crossing {
        report.failures.push(format!("{error:#}"));
    }
    report.rest.extend(rest::close(nodes));

    let setup =
        Setup { engine_a: direct_engine(), ipv6: options.ipv6, tuning: options.tuning(), ..Setup::default() };
    let nodes =
        TwoNodes::up(Pair::direct().context("cannot set up two hosts and the cable between them")?, setup)?;
    if let Err(error) = small::operations(&nodes, options.operations, &mut report.phases) {
        report.failures.push(format!("direct link: {error:#}"));
    }
    report.rest.extend(rest::look("direct", &nodes));
    report.rest.extend(rest::close(nodes));

    writeln!(std::io::stdout(), "{}", table::show(&report)).context("cannot print the report")?;
    if let Some(mut file) = json {
        serde_json::to_writer_pretty(&mut file, &report).context("cannot write the JSON report")?;
        writeln!(file).context("cannot write the JSON report")?;
    }
    Ok(report.holds())
}

/// Returns the engine for the direct link. There latency matters, so the engine is busy if it can have a CPU of
/// its own.
fn direct_engine() -> EngineOptions {
    match measure::cpus() {
        0 | 1 => EngineOptions::default(),
        cpus => EngineOptions { mode: EngineMode::Busy, cpu: Some(cpus - 1), ..EngineOptions::default() },
    }
}
