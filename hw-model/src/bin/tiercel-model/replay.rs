//! The command `tiercel model replay`.

use std::io;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fabric_model::Rate;
use falcon_nic::Parameters;
use indicatif::{ProgressBar, ProgressStyle};
use lab_report::Report;
use trace_replay::Request;

use crate::output;

/// The arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The trace, as written by `tiercel trace`.
    trace: PathBuf,
    /// Clock frequency of the card.
    #[arg(long, value_name = "FREQUENCY", default_value = "1GHz", value_parser = period)]
    clock: Period,
    /// Line rate of the card, in each direction.
    #[arg(long, value_name = "RATE", default_value = "200Gbps")]
    rate: Rate,
    /// Number of connections that the card's cache holds.
    #[arg(long, value_name = "N", value_parser = quantity::whole::<u32>(0..=u32::MAX.into()))]
    cache: Option<u32>,
    /// Simulate only the first N events in cycles. The decisions of all events are compared.
    #[arg(long, value_name = "N", value_parser = quantity::whole::<u64>(1..=u64::MAX))]
    events: Option<u64>,
    /// End with exit code 1 if the card does not keep up with the trace. Without this option that is only reported.
    #[arg(long)]
    strict: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write report.html and the plots to this directory.
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// The period of a clock, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period(u64);

/// Returns the period of a frequency such as `1GHz` or `312.5MHz`.
fn period(text: &str) -> Result<Period, String> {
    let says =
        || format!("\"{text}\" is not a frequency from 1 MHz to 1 THz: write it like 1GHz or 312.5MHz");
    let (number, scale) = match (text.strip_suffix("GHz"), text.strip_suffix("MHz")) {
        (Some(number), _) => (number, 1000.0),
        (_, Some(number)) => (number, 1.0),
        _ => return Err(says()),
    };
    let megahertz = number.trim().parse::<f64>().map_err(|_| says())? * scale;
    if !(1.0..=1_000_000.0).contains(&megahertz) {
        return Err(says());
    }
    let picoseconds = 1_000_000.0 / megahertz;
    if (picoseconds - picoseconds.round()).abs() > 1e-6 * picoseconds {
        return Err(format!(
            "the period of {text} is not a whole number of picoseconds: choose another frequency"
        ));
    }
    Ok(Period(picoseconds.round() as u64))
}

/// Runs the `replay` command. Returns false if the card has to keep up and does not; the printed tables say where.
pub(crate) fn replay(arguments: &Replay) -> Result<bool> {
    output::prepare(arguments.out.as_deref())?;
    let mut parameters =
        Parameters { period: arguments.clock.0, rate: arguments.rate, ..Parameters::default() };
    if let Some(entries) = arguments.cache {
        parameters.cache.entries = entries;
    }
    let request = Request { trace: arguments.trace.clone(), parameters, events: arguments.events };
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg:<12} {human_pos} events  {per_sec}")?);
    let made = trace_replay::report(&request, |what, done| {
        if bar.message() != what {
            bar.set_message(what);
            bar.reset();
        }
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let report = Report::new(made?);
    output::tell(&report, arguments.json, arguments.out.as_deref(), &mut io::stdout().lock())?;
    Ok(report.holds() || !arguments.strict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_hexadecimal() {
        use clap::Parser;

        let words = ["tiercel model", "replay", "run.trace", "--cache", "0x40", "--events", "0x10"];
        let crate::Command::Replay(replay) = crate::Cli::parse_from(words).command else { panic!("replay") };
        assert_eq!((replay.cache, replay.events), (Some(64), Some(16)));
    }

    #[test]
    fn frequencies_have_whole_periods() {
        assert_eq!(period("1GHz"), Ok(Period(1000)));
        assert_eq!(period("312.5MHz"), Ok(Period(3200)));
        assert_eq!(period("2 GHz"), Ok(Period(500)));
        for wrong in ["1", "GHz", "0MHz", "-1GHz", "9THz", "NaNGHz", "2000GHz"] {
            assert!(period(wrong).expect_err(wrong).contains("like 1GHz"), "{wrong}");
        }
        assert!(period("3GHz").expect_err("a third of a nanosecond").contains("whole number"));
    }
}
