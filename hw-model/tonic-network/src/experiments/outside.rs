//! NewReno in ns-3, an external reference. The program in `hw-model/tonic-network/ns3` made the data in
//! `hw-model/tonic-network/data`.

use std::slice;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};

use crate::drops::DropPattern;
use crate::scenario::{Scenario, Senders};
use crate::sender::{Loss, LossKind};

use super::common::{case, experiment, tcp, tcp_settings, time};
use super::new_reno;

/// The rows of a run with one flow, see `hw-model/tonic-network/ns3/new-reno.cc`.
const SINGLE: &str = include_str!("../../data/ns3-new-reno-single.csv");
/// The segments lost in that run.
const DROPS: &str = include_str!("../../data/ns3-drops.txt");
/// The time that the data covers.
const TIME: Span = Span::from_millis(200);
const STEPS: u64 = 20;

/// The loss episodes of ns-3 with ssthresh in segments, and its congestion window.
struct Single {
    losses: Vec<(Loss, f64)>,
    windows: Vec<(Time, f64)>,
}

fn number<T: FromStr>(field: Option<&str>) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    field.context("a field is missing")?.parse().context("not a number")
}

fn parse(text: &str) -> Result<Single> {
    let mut single = Single { losses: vec![], windows: vec![] };
    for (line, row) in (1..).zip(text.lines()) {
        let mut fields = row.split(',');
        let mut read = || -> Result<()> {
            match fields.next() {
                Some("loss") => {
                    let picoseconds = number::<u64>(fields.next())? * 1_000;
                    let kind = match fields.next() {
                        Some("fast_retransmit") => LossKind::FastRetransmit,
                        Some("timeout") => LossKind::Timeout,
                        other => bail!("a loss noticed by {other:?}"),
                    };
                    let segment = number(fields.next())?;
                    let ssthresh: f64 = number(fields.next())?;
                    let loss = Loss { picoseconds, kind, segment, ssthresh: ssthresh as u64 };
                    single.losses.push((loss, ssthresh));
                }
                Some("cwnd") => {
                    let time = Time(number::<u64>(fields.next())? * 1_000);
                    single.windows.push((time, number(fields.next())?));
                }
                other => bail!("a row that begins with {other:?}"),
            }
            Ok(())
        };
        read().with_context(|| format!("line {line}"))?;
    }
    Ok(single)
}

/// Compares Tonic with the data of ns-3. The same segments are lost as there, independently of the options.
pub(super) fn run(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let record = parse(SINGLE).context("hw-model/tonic-network/data/ns3-new-reno-single.csv")?;
    let drops = DropPattern::parse(0, DROPS).context("hw-model/tonic-network/data/ns3-drops.txt")?;
    let scenario = Scenario { drops, watched: Some(0), outstanding: 64, ..tcp(1, 1, model_experiment::SEED) };
    let time = time(options, TIME);
    let mut step = 0;
    let mut make = |senders| -> Result<_> {
        Ok(scenario.run(scenario.new_reno(senders)?, time, STEPS, |_| {
            step += 1;
            progress(step, 2 * STEPS as usize);
        }))
    };
    let [outcome, reference] = [make(Senders::Tonic)?, make(Senders::Reference)?];
    let mut experiment = experiment(
        "tonic-new-reno-ns3",
        &scenario,
        time,
        "One NewReno flow on a Tonic, one of the reference sender and one in ns-3 3.37. The receivers' cards \
         drop the same transmissions of the same segments. ns-3 differs from the RFCs in two points. In \
         congestion avoidance it grows the window per acknowledgment and not by the segments that it covers. \
         With delayed acknowledgments it grows half as fast, so the window is smaller by the square root of \
         two. If the first segment after \"recover\" is lost, ns-3 retransmits it immediately. RFC 6582 \
         (3.2, step 2) waits for the timer.",
    );
    tcp_settings(&mut experiment);
    let (ours, references) = (&outcome.logs[0].losses, &reference.logs[0].losses);
    let at = |segment: u32, kind| ours.iter().find(|loss| loss.segment == segment && loss.kind == kind);
    let pairs =
        record.losses.iter().filter_map(|(loss, ssthresh)| Some((at(loss.segment, loss.kind)?, *ssthresh)));
    let common: Vec<_> = pairs.map(|(loss, ssthresh)| [loss.ssthresh as f64, ssthresh]).collect();
    let shared = common.len() as f64 / record.losses.len().max(ours.len()) as f64;
    let mean = |index: usize| lab_report::mean(common.iter().map(|pair| pair[index]));
    let (mine, theirs) = (mean(0), mean(1));
    let last = record.losses.last().map_or(0, |(loss, _)| loss.segment);
    let case_of_ns3 = Case::new("ns-3")
        .with("mean throughput", f64::from(last) * 8e3 / (TIME.0 as f64 / 1e6), "Mb/s")
        .with("loss episodes", record.losses.len() as f64, "")
        .with("mean ssthresh of those in common", theirs, "segments");
    let case_of_tonic = case(Senders::Tonic.name(), slice::from_ref(&outcome))
        .with("loss episodes", ours.len() as f64, "")
        .with("mean ssthresh of those in common", mine, "segments");
    let rates = [&case_of_tonic, &case_of_ns3].map(|case| case.value("mean throughput"));
    let case_of_reference = case(Senders::Reference.name(), slice::from_ref(&reference)).with(
        "loss episodes",
        references.len() as f64,
        "",
    );
    experiment.cases = vec![case_of_tonic, case_of_reference, case_of_ns3];
    let apart = rates[0].zip(rates[1]).map(|(ours, theirs)| 100.0 * (ours / theirs - 1.0).abs());
    experiment.verdicts = vec![
        Verdict::new(
            "loss episodes at the same segment, noticed the same way",
            100.0 * shared,
            "%",
            Bound::AtLeast(75.0),
        ),
        Verdict::new("throughput differs by", apart, "%", Bound::AtMost(15.0)),
    ];
    let end = Time::ZERO + Span::from_millis(20);
    experiment.figures = vec![
        Figure::new("cwnd", "Congestion window, one segment in a thousand lost", "ms", "segments")
            .line(Look::Main, "Tonic", new_reno::steps(&outcome.logs[0].windows, end))
            .line(Look::Reference, "ns-3", new_reno::steps(&record.windows, end)),
    ];
    experiment.details = serde_json::json!({ "tonic_losses": ours, "reference_losses": references });
    Ok(experiment)
}
