//! Runs experiments, one after the other.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use hw_model::experiments;
use indicatif::{ProgressBar, ProgressStyle};
use lab_report::Report;
use model_experiment::{Named, Options, SEED};

use crate::output::{prepare, print, tell};

/// How long all experiments take.
const ALL_TAKE: &str = "which take about 12 minutes on two cores";

/// The arguments of `experiment`.
#[derive(Debug, Args)]
pub(crate) struct Experiments {
    /// Experiments to run. Without a name, the experiments are listed.
    #[arg(value_name = "NAME", value_parser = named)]
    pub(crate) names: Vec<&'static Named>,
    /// Run all experiments. This takes about 12 minutes on two cores.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write report.html and the plots to this directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) out: Option<PathBuf>,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = SEED, value_parser = quantity::parse_integer)]
    pub(crate) seed: u64,
    /// End each run at this simulated time, in microseconds. Use it to see only the beginning of a long run.
    #[arg(long, value_name = "MICROSECONDS", value_parser = quantity::whole::<u64>(1..=u64::MAX))]
    pub(crate) limit: Option<u64>,
}

fn named(name: &str) -> Result<&'static Named, String> {
    experiments::find(name).ok_or_else(|| {
        let known: Vec<_> = experiments::all().map(|named| named.name).collect();
        format!("there is no such experiment: choose from {}", known.join(", "))
    })
}

/// Runs these experiments. Writes each result to `output` when it is ready, or with `--json` all of them at the end,
/// and tells the course on `messages`. Returns false if a promise was not kept.
pub(crate) fn run(
    names: &[&Named],
    arguments: &Experiments,
    output: &mut impl Write,
    messages: &mut impl Write,
) -> Result<bool> {
    let directory = arguments.out.as_deref();
    prepare(directory)?;
    if arguments.all {
        let what = if arguments.json {
            "the JSON of all is printed at the end"
        } else {
            "each result is printed when it is ready"
        };
        writeln!(messages, "{} experiments, {ALL_TAKE}; {what}", names.len())?;
    }
    let options = Options { seed: arguments.seed, limit_us: arguments.limit };
    let (mut report, of) = (Report::new(vec![]), names.len());
    for (number, named) in names.iter().enumerate() {
        let since = Instant::now();
        let made = Report::new(vec![make(named, &options)?]);
        let read = arguments.json || print(output, &lab_report::show(&made))?;
        let kept = if made.holds() { "every promise was kept" } else { "a promise was not kept" };
        let seconds = since.elapsed().as_secs_f64();
        writeln!(messages, "{} ({} of {of}): {kept}, {seconds:.0} s", named.name, number + 1)?;
        report.experiments.extend(made.experiments);
        if let Some(directory) = directory {
            // Write after each experiment, so that its results remain if a later experiment fails.
            report.write(directory)?;
        } else if !read {
            break; // nobody would see the other results
        }
    }
    if arguments.json {
        tell(&report, true, None, output)?;
    } else if let Some(directory) = directory {
        let page = directory.join("report.html");
        print(output, &format!("\n{} shows the tables and plots.\n", page.display()))?;
    }
    Ok(report.holds())
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;

    use clap::Parser;
    use lab_report::Experiment;
    use model_experiment::Progress;

    use super::*;
    use crate::{Cli, Command};

    thread_local! {
        /// What was written so far: the output, and the messages.
        static WRITTEN: RefCell<[String; 2]> = RefCell::default();
    }

    struct To(usize);

    impl Write for To {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            WRITTEN.with_borrow_mut(|written| written[self.0] += &String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written() -> [String; 2] {
        WRITTEN.with_borrow(Clone::clone)
    }

    fn made(name: &'static str, options: &Options) -> Result<Experiment> {
        Ok(Experiment::in_cycles(name, "What does it take?", "No work.", options.seed))
    }

    /// Runs only if the duration of all was announced.
    fn first(options: &Options, _: Progress<'_>) -> Result<Experiment> {
        let [output, messages] = written();
        assert_eq!(output, "");
        assert!(messages.starts_with("3 experiments, which take about 12 minutes"), "{messages}");
        made("first", options)
    }

    /// Runs only if the result of the first is written, as far as it is asked for.
    fn second(options: &Options, _: Progress<'_>) -> Result<Experiment> {
        let [output, messages] = written();
        assert!(messages.lines().any(|line| line.starts_with("first (1 of 3): every promise was kept")));
        match messages.contains("at the end") {
            true => assert_eq!(output, ""),
            false => assert!(output.contains("first") && !output.contains("second"), "{output}"),
        }
        made("second", options)
    }

    fn third(_: &Options, _: Progress<'_>) -> Result<Experiment> {
        assert_eq!(written()[0].contains("second"), !written()[1].contains("at the end"));
        bail!("no luck")
    }

    const NAMED: [Named; 3] = [
        Named { name: "first", question: "", run: first },
        Named { name: "second", question: "", run: second },
        Named { name: "third", question: "", run: third },
    ];

    fn arguments(more: &[&str]) -> Experiments {
        let all = ["tiercel model", "experiment", "--all"];
        match Cli::try_parse_from(all.iter().chain(more)).expect("a valid command").command {
            Command::Experiment(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn results_are_written_as_they_come_and_the_duration_of_all_before() {
        let directory = std::env::temp_dir().join(format!("tiercel-model-run-{}", std::process::id()));
        let out = directory.to_str().expect("plain text");
        let names: Vec<_> = NAMED.iter().collect();
        let error = run(&names, &arguments(&["--out", out]), &mut To(0), &mut To(1)).expect_err("the third");
        assert_eq!(format!("{error:#}"), "experiment third: no luck");
        let page = std::fs::read_to_string(directory.join("report.html")).expect("what was made remains");
        assert!(page.contains("first") && page.contains("second") && !page.contains("third"));
        std::fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn json_is_one_value_at_the_end() {
        let names = [&NAMED[0], &NAMED[1], &NAMED[1]];
        assert!(run(&names, &arguments(&["--json"]), &mut To(0), &mut To(1)).expect("they run"));
        let report: serde_json::Value = serde_json::from_str(&written()[0]).expect("one JSON value");
        assert_eq!(report["experiments"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn numbers_may_be_hexadecimal() {
        let Experiments { seed, limit, .. } = arguments(&["--seed", "0xdeadbeef", "--limit", "0x10"]);
        assert_eq!((seed, limit), (0xdead_beef, Some(16)));
        for wrong in [["--seed", "-1"], ["--limit", "0"], ["--limit", "0x"]] {
            let all = ["tiercel model", "experiment", "--all"];
            assert!(Cli::try_parse_from(all.into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }
}
