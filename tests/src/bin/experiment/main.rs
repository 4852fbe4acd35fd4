//! `cargo xtask experiment`: what congestion control and loss recovery do, in numbers and pictures.

mod live;
mod options;
mod schedule;
mod simulation;
mod target;

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

/// All experiments asked for. False when a promise was not kept, which the tables then say.
fn run(options: &Options) -> Result<bool> {
    options.check()?;
    // Before the work, so that none is lost for a misspelt path.
    let written = |path: &Path| format!("cannot write {}", path.display());
    fs::create_dir_all(&options.out).with_context(|| written(&options.out))?;
    let json = options.json.as_ref();
    let json = json.map(|path| fs::File::create(path).with_context(|| written(path))).transpose()?;

    let experiments = if options.live { live::run(options)? } else { simulation::run(options)? };
    let report = Report::new(experiments);
    let page = report.write(&options.out)?;
    print!("{}", lab_report::show(&report));
    println!("\n{} and the plots beside it show the course of each.", page.display());
    if let Some(file) = json {
        serde_json::to_writer(file, &report).context("cannot write the JSON report")?;
    }
    Ok(report.holds())
}
