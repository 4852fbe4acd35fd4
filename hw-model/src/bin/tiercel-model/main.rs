//! The command line of the hardware models: `tiercel-model`, started as `tiercel model`.

mod output;
mod replay;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use hw_model::experiments;
use indicatif::{ProgressBar, ProgressStyle};
use lab_report::Report;
use model_experiment::{Named, Options, SEED};

use output::{prepare, tell};

/// How long all experiments take.
const ALL_TAKE: &str = "which take about 12 minutes on two cores";

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
    Experiment(Experiments),
    /// Replay a trace of the real datapath in the blocks of the card: compare the decisions and count the cycles.
    #[command(after_help = "\
Examples:
  tiercel trace --out run.trace --runs 1000000
  tiercel model replay run.trace --clock 1GHz --rate 200Gbps
  tiercel model replay run.trace --rate 400Gbps --out target/replay --json

Exit codes:
  0 nothing differs and the card keeps up
  1 a decision differs, the card does not keep up, or the trace cannot be read
  2 wrong usage")]
    Replay(replay::Replay),
}

#[derive(Debug, Args)]
struct Experiments {
    /// Experiments to run. Without a name, the experiments are listed.
    #[arg(value_name = "NAME", value_parser = named)]
    names: Vec<&'static Named>,
    /// Run all experiments. This takes about 12 minutes on two cores.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also write report.html and the plots to this directory.
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// End each run at this simulated time, in microseconds. Use it to see only the beginning of a long run.
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

fn named(name: &str) -> Result<&'static Named, String> {
    experiments::find(name).ok_or_else(|| {
        let known: Vec<_> = experiments::all().map(|named| named.name).collect();
        format!("there is no such experiment: choose from {}", known.join(", "))
    })
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Experiment(arguments) => experiment(&arguments),
        Command::Replay(arguments) => replay::replay(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of the output closed the pipe. That is not an error.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(is_closed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Runs the `experiment` command. Returns false if a promise was not kept; the printed tables say which.
fn experiment(arguments: &Experiments) -> Result<bool> {
    let names = if arguments.all { experiments::all().collect() } else { arguments.names.clone() };
    if names.is_empty() {
        list(&mut io::stdout().lock(), arguments.json)?;
        return Ok(true);
    }
    let directory = arguments.out.as_deref();
    prepare(directory)?;
    if arguments.all {
        let what = if arguments.json {
            "the JSON of all is printed at the end"
        } else {
            "each result is printed when it is ready"
        };
        eprintln!("{} experiments, {ALL_TAKE}; {what}", names.len());
    }
    let options = Options { seed: arguments.seed, limit_us: arguments.limit };
    let (mut report, of) = (Report::new(vec![]), names.len());
    for (number, named) in names.into_iter().enumerate() {
        let since = Instant::now();
        let made = Report::new(vec![make(named, &options)?]);
        if !arguments.json {
            let mut output = io::stdout().lock();
            write!(output, "{}", lab_report::show(&made))?;
            output.flush()?;
        }
        let kept = if made.holds() { "every promise was kept" } else { "a promise was not kept" };
        eprintln!("{} ({} of {of}): {kept}, {:.0} s", named.name, number + 1, since.elapsed().as_secs_f64());
        report.experiments.extend(made.experiments);
        if let Some(directory) = directory {
            // Write after each experiment, so that its results remain if a later experiment fails.
            report.write(directory)?;
        }
    }
    if arguments.json {
        return tell(&report, true, None);
    }
    if let Some(directory) = directory {
        writeln!(io::stdout(), "\n{} shows the tables and plots.", directory.join("report.html").display())?;
    }
    Ok(report.holds())
}

fn list(output: &mut impl Write, json: bool) -> Result<()> {
    if json {
        let list: Vec<_> = experiments::all()
            .map(|named| serde_json::json!({"name": named.name, "question": named.question}))
            .collect();
        serde_json::to_writer(&mut *output, &list).map_err(io::Error::from)?;
        writeln!(output)?;
        return Ok(());
    }
    let width = experiments::all().map(|named| named.name.len()).max().unwrap_or(0);
    for named in experiments::all() {
        writeln!(output, "{:width$}  {}", named.name, named.question)?;
    }
    Ok(())
}

fn make(named: &Named, options: &Options) -> Result<lab_report::Experiment> {
    let style = ProgressStyle::with_template("{msg:<28} {wide_bar} {pos:>4}/{len:<4} {eta:>4}")?;
    // The bar is drawn on the standard error stream. It is not drawn if that is not a terminal.
    let bar = ProgressBar::new(1).with_style(style).with_message(named.name);
    let made = (named.run)(options, &mut |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let made = made.with_context(|| format!("experiment {}", named.name))?;
    if made.name != named.name {
        bail!("experiment {} reports under another name: {}", named.name, made.name);
    }
    Ok(made)
}
