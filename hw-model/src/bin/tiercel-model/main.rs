//! The command line of the hardware models: `tiercel-model`, started as `tiercel model`.

mod output;
mod replay;
mod run;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use hw_model::experiments;

use output::Failure;

/// Run experiments with the hardware models: network cards, simulated in cycles.
#[derive(Debug, Parser)]
#[command(
    name = "tiercel model",
    bin_name = "tiercel model",
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  tiercel model experiment
  tiercel model experiment tonic-hardware --json
  tiercel model replay run.trace --rate 200Gbps"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run experiments. Each reports what it promises and whether the promise was kept.
    #[command(after_help = "\
Examples:
  tiercel model experiment                         list the experiments
  tiercel model experiment tonic-hardware
  tiercel model experiment --all --out target/model
  tiercel model experiment tonic-rate-limiter --json | jq .experiments[0].details

Exit codes:
  0 every promise was kept  1 a promise was not kept, or an experiment failed  2 wrong usage")]
    Experiment(run::Experiments),
    /// Replay a trace of the real datapath in the blocks of the card: compare the decisions and count the cycles.
    #[command(after_help = "\
Examples:
  tiercel trace --out run.trace --runs 1000000
  tiercel model replay run.trace --clock 1GHz --rate 200Gbps
  tiercel model replay run.trace --rate 400Gbps --out target/replay --json
  tiercel model replay run.trace --rate 400Gbps --strict

Exit codes:
  0 nothing differs; the tables say whether the card keeps up
  1 a decision differs, the trace is empty or cannot be read; with --strict also: the card does not keep up
  2 wrong usage")]
    Replay(replay::Replay),
}

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return misused(&error),
    };
    let (json, outcome) = match command {
        Command::Experiment(arguments) => (arguments.json, experiment(&arguments)),
        Command::Replay(arguments) => (arguments.json, replay::replay(&arguments)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => Failure { kind: "model", exit_code: 1, text: &format!("{error:#}") }.report(json),
    }
}

/// Reports a command line that is wrong, or prints the requested help. With `--json`, the error is JSON as well.
fn misused(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|argument| argument == "--json");
    if !error.use_stderr() {
        // Requested help is output like any other.
        let printed = output::print(&mut io::stdout().lock(), &error.render().to_string());
        return match printed {
            Ok(_) => ExitCode::SUCCESS,
            Err(lost) => Failure { kind: "model", exit_code: 1, text: &format!("{lost:#}") }.report(false),
        };
    }
    if !json {
        error.exit();
    }
    let text = error.render().to_string();
    let text = text.trim_start_matches("error: ").trim_end();
    Failure { kind: "usage", exit_code: 2, text }.report(true)
}

/// Runs the `experiment` command. Returns false if a promise was not kept; the printed tables say which.
fn experiment(arguments: &run::Experiments) -> Result<bool> {
    let names: Vec<_> = if arguments.all { experiments::all().collect() } else { arguments.names.clone() };
    let mut output = io::stdout().lock();
    if names.is_empty() {
        list(&mut output, arguments.json)?;
        return Ok(true);
    }
    run::run(&names, arguments, &mut output, &mut io::stderr())
}

fn list(output: &mut impl Write, json: bool) -> Result<()> {
    let text = if json {
        let list: Vec<_> = experiments::all()
            .map(|named| serde_json::json!({"name": named.name, "question": named.question}))
            .collect();
        format!("{}\n", serde_json::Value::from(list))
    } else {
        let width = experiments::all().map(|named| named.name.len()).max().unwrap_or(0);
        experiments::all().map(|named| format!("{:width$}  {}\n", named.name, named.question)).collect()
    };
    output::print(output, &text).map(drop)
}
