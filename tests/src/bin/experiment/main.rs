//! `cargo xtask experiment`: shows congestion control and loss recovery in numbers and pictures.

mod described;
mod failure;
mod fairness;
mod fault;
mod idle;
mod incast;
mod kind;
mod live;
mod loss;
mod nic_congestion;
mod options;
mod paths;
mod plb;
mod run;
mod schedule;
mod setup;
mod simulation;
mod single_flow;
mod target;
#[cfg(test)]
mod tests;
mod world;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use lab_report::Report;

use crate::options::Options;

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

/// Runs the selected experiments. Returns false if a promise was not kept; the tables say which.
fn run(options: &Options) -> Result<bool> {
    options.check()?;
    // Opened before the work, so that a wrong path does not waste the work.
    let written = |path: &Path| format!("cannot write {}", path.display());
    fs::create_dir_all(&options.out).with_context(|| written(&options.out))?;
    let json = options.json.as_ref();
    let json = json.map(|path| fs::File::create(path).with_context(|| written(path))).transpose()?;

    let experiments = if options.live { live::run(options)? } else { simulation::run(options)? };
    let report = Report::new(experiments);
    let page = report.write(&options.out)?;
    print!("{}", lab_report::show(&report));
    println!("\n{} and the plots in its directory show each experiment over time.", page.display());
    if let Some(file) = json {
        serde_json::to_writer(file, &report).context("cannot write the JSON report")?;
    }
    Ok(report.holds())
}
