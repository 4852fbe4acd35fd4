//! NewReno: one flow that loses segments (section 6.2.1, figure 3 a and b).

use std::slice;

use anyhow::Result;
use fabric_model::{Probability, Span, Time};
use lab_report::{Bound, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};

use crate::drops::DropPattern;
use crate::scenario::{Outcome, Scenario, Senders};
use crate::sender::{Loss, LossKind};

use super::common::{case, experiment, tcp, tcp_settings, time};

/// The loss probability: one segment in a thousand.
const LOSS: Probability = match Probability::from_parts_per_billion(1_000_000) {
    Some(loss) => loss,
    None => Probability::NEVER,
};
/// The number of segments in the drop pattern. More than are sent in a second.
const SEGMENTS: u32 = 2_000_000;
const STEPS: u64 = 50;
/// The time from the beginning that the figures show.
const SHOWN: Span = Span::from_millis(20);

/// Returns the segments of the flow that the receiver's card drops.
fn drops(seed: u64) -> DropPattern {
    DropPattern::random(seed, 0, SEGMENTS, LOSS)
}

/// Returns true if two loss episodes are the same except for their time.
fn same(a: &Loss, b: &Loss) -> bool {
    (a.kind, a.segment, a.ssthresh) == (b.kind, b.segment, b.ssthresh)
}

/// Runs the experiment: one flow from one host to another, whose card drops segments at random.
pub(super) fn single(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let drops = drops(options.seed);
    let scenario = Scenario { drops, watched: Some(0), outstanding: 64, ..tcp(1, 1, options.seed) };
    let time = time(options, Span::from_millis(1_000));
    let mut outcomes = vec![];
    for (number, senders) in (0..).zip(Senders::BOTH) {
        let mut step = number * STEPS as usize;
        outcomes.push(scenario.run(scenario.new_reno(senders)?, time, STEPS, |_| {
            step += 1;
            progress(step, 2 * STEPS as usize);
        }));
    }
    let [tonic, reference] = [&outcomes[0], &outcomes[1]];
    let mut experiment = experiment(
        "tonic-new-reno",
        &scenario,
        time,
        "One flow. The receiver's card drops one segment in a thousand, the same transmissions of the same \
         segments for both senders. N is large enough for the card's queues to hold a whole window. With a \
         smaller N, these queues and not the congestion window would limit the segments in flight.",
    );
    tcp_settings(&mut experiment);
    experiment.settings.insert("segments lost", LOSS.to_string());
    for (senders, outcome) in Senders::BOTH.into_iter().zip(&outcomes) {
        let losses = &outcome.logs[0].losses;
        let fast = losses.iter().filter(|loss| loss.kind == LossKind::FastRetransmit).count();
        let ssthresh = lab_report::mean(losses.iter().map(|loss| loss.ssthresh as f64));
        let case = case(senders.name(), slice::from_ref(outcome)).with("fast retransmits", fast as f64, "");
        experiment.cases.push(case.with("mean ssthresh", ssthresh, "segments"));
    }
    let (ours, theirs) = (&tonic.logs[0].losses, &reference.logs[0].losses);
    let equal = ours.iter().zip(theirs).take_while(|(a, b)| same(a, b)).count();
    // One of the runs may end within a loss episode, so one may have one episode more.
    let whole = equal == ours.len().min(theirs.len()) && ours.len().abs_diff(theirs.len()) <= 1;
    let rates = [tonic, reference].map(|outcome| outcome.megabits()[0]);
    experiment.verdicts = vec![
        Verdict::claim("all loss episodes are the same: cause of detection, segment and ssthresh", whole),
        Verdict::new("loss episodes compared", equal as f64, "", Bound::AtLeast(100.0)),
        Verdict::new(
            "throughput differs by",
            100.0 * (rates[0] / rates[1] - 1.0).abs(),
            "%",
            Bound::AtMost(1.0),
        ),
    ];
    experiment.figures = figures(tonic, reference);
    experiment.details = serde_json::json!({
        "tonic_losses": ours,
        "reference_losses": theirs,
        "first_difference": ours.iter().zip(theirs).find(|(a, b)| !same(a, b)),
    });
    Ok(experiment)
}

/// Returns the corners of a step function up to `end`, over milliseconds.
pub(super) fn steps(points: &[(Time, f64)], end: Time) -> Vec<[f64; 2]> {
    let milliseconds = |time: Time| time.0 as f64 / 1e9;
    let shown = points.iter().take_while(|(time, _)| *time <= end);
    let corners = shown.scan(None, |last: &mut Option<f64>, (time, value)| {
        let before = last.replace(*value).unwrap_or(*value);
        Some([[milliseconds(*time), before], [milliseconds(*time), *value]])
    });
    corners.flatten().collect()
}

fn figures(tonic: &Outcome, reference: &Outcome) -> Vec<Figure> {
    let end = Time::ZERO + SHOWN;
    let cwnd = Figure::new("cwnd", "Congestion window, one segment in a thousand lost", "ms", "segments")
        .line(Look::Main, "Tonic", steps(&tonic.logs[0].windows, end))
        .line(Look::Reference, "reference", steps(&reference.logs[0].windows, end));
    // The time around the first loss episode: from 20 us before it to 100 us after it.
    let first = tonic.logs[0].losses.first().map_or(0, |loss| loss.picoseconds);
    let (from, to) = (first.saturating_sub(20_000_000), first + 100_000_000);
    let sent = |outcome: &Outcome, again: bool| -> Vec<[f64; 2]> {
        let all = outcome.logs[0].transmissions.iter();
        let shown = all.filter(|(time, _, of)| *of == again && (from..to).contains(&time.0));
        shown.map(|(time, segment, _)| [time.0 as f64 / 1e6, f64::from(*segment)]).collect()
    };
    let mut sequence = Figure::new("sequence", "Segments sent around the first loss", "us", "segment")
        .y_near_values()
        .line(Look::Main, "Tonic", sent(tonic, false))
        .line(Look::Reference, "reference", sent(reference, false));
    for (name, outcome) in [("Tonic, again", tonic), ("reference, again", reference)] {
        let again = sent(outcome, true);
        sequence = sequence.line(Look::Dots, name, again);
    }
    let episodes = |outcome: &Outcome| -> Vec<[f64; 2]> {
        let losses = outcome.logs[0].losses.iter().take(100);
        losses.enumerate().map(|(number, loss)| [number as f64, loss.ssthresh as f64]).collect()
    };
    let ssthresh = Figure::new("ssthresh", "Slow start threshold after each loss", "episode", "segments")
        .line(Look::Main, "Tonic", episodes(tonic))
        .line(Look::Reference, "reference", episodes(reference));
    vec![cwnd, sequence, ssthresh]
}
