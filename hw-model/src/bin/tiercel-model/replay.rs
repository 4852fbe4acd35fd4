//! `tiercel model replay`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fabric_model::Rate;
use falcon_nic::Parameters;
use indicatif::{ProgressBar, ProgressStyle};
use lab_report::Report;
use trace_replay::Request;

use crate::output;

/// `replay`.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The trace, as `tiercel trace` took it.
    trace: PathBuf,
    /// Clock of the card.
    #[arg(long, value_name = "FREQUENCY", default_value = "1GHz", value_parser = period)]
    clock: Period,
    /// Rate of its lines, in and out.
    #[arg(long, value_name = "RATE", default_value = "200Gbps")]
    rate: Rate,
    /// Connections that the card's cache holds.
    #[arg(long, value_name = "N")]
    cache: Option<u32>,
    /// Only the first events in cycles; the decisions of all are compared.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also write report.html and the pictures there.
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// A clock's, picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period(u64);

/// The period of a frequency such as `1GHz` or `312.5MHz`.
fn period(text: &str) -> Result<Period, String> {
    let says = || format!("\"{text}\" is no frequency of 1 MHz to 1 THz: write it like 1GHz or 312.5MHz");
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
        return Err(format!("a cycle of {text} is no whole number of picoseconds: take one near it that is"));
    }
    Ok(Period(picoseconds.round() as u64))
}

/// False when something that was promised does not hold, which the tables then say.
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
    output::tell(&Report::new(made?), arguments.json, arguments.out.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

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
