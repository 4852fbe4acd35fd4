//! NewReno: one flow that loses segments, and 200 that share a link (section 6.2.1, figure 3).

use anyhow::Result;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use crate::experiments::{Options, Progress};
use crate::network::{Probability, Span, Time};
use crate::tonic_network::drops::DropPattern;
use crate::tonic_network::scenario::{Outcome, Senders};
use crate::tonic_network::sender::{Loss, LossKind};

use super::{case, compare, experiment, tcp, tcp_settings, time};

/// One segment in a thousand.
const LOSS: Probability = match Probability::from_parts_per_billion(1_000_000) {
    Some(loss) => loss,
    None => Probability::NEVER,
};
/// More than are sent in a second.
const SEGMENTS: u32 = 2_000_000;
const STEPS: u64 = 50;
/// What the figures show of the beginning.
const SHOWN: Span = Span::from_millis(20);

/// What the receiver's card drops of one flow.
fn drops(seed: u64) -> DropPattern {
    DropPattern::random(seed, 0, SEGMENTS, LOSS)
}

/// Whether two loss episodes are the same but for the instant.
fn same(a: &Loss, b: &Loss) -> bool {
    (a.kind, a.segment, a.ssthresh) == (b.kind, b.segment, b.ssthresh)
}

/// One flow from one host to another whose card drops segments at random.
pub(super) fn single(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let drops = drops(options.seed);
    let scenario = super::Scenario { drops, watched: Some(0), outstanding: 64, ..tcp(1, 1, options.seed) };
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
        "One flow; the receiver's card drops one segment in a thousand, the same transmissions of the same segments \
         under both senders. N is such that the card's queues hold a whole window: else what is in flight is limited \
         by them, not by the congestion window.",
    );
    tcp_settings(&mut experiment);
    experiment.settings.insert("segments lost", LOSS.to_string());
    for (senders, outcome) in Senders::BOTH.into_iter().zip(&outcomes) {
        let losses = &outcome.logs[0].losses;
        let fast = losses.iter().filter(|loss| loss.kind == LossKind::FastRetransmit).count();
        let ssthresh = lab_report::mean(losses.iter().map(|loss| loss.ssthresh as f64));
        let case = case(senders, outcome).with("fast retransmits", fast as f64, "");
        experiment.cases.push(case.with("mean ssthresh", ssthresh, "segments"));
    }
    let (ours, theirs) = (&tonic.logs[0].losses, &reference.logs[0].losses);
    let equal = ours.iter().zip(theirs).take_while(|(a, b)| same(a, b)).count();
    // The run ends in the middle of something.
    let whole = equal == ours.len().min(theirs.len()) && ours.len().abs_diff(theirs.len()) <= 1;
    let rates = [tonic, reference].map(|outcome| outcome.megabits()[0]);
    experiment.verdicts = vec![
        Verdict::claim("all loss episodes are the same: how noticed, which segment, which ssthresh", whole),
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

/// Of a line that keeps its value from point to point: its points up to `end`, in milliseconds.
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
    // Around the first episode with more than one retransmission in 100 us, or the first at all.
    let first = tonic.logs[0].losses.first().map_or(0, |loss| loss.picoseconds);
    let (from, to) = (first.saturating_sub(20_000_000), first + 100_000_000);
    let sent = |outcome: &Outcome, again: bool| -> Vec<[f64; 2]> {
        let all = outcome.logs[0].transmissions.iter();
        let shown = all.filter(|(time, _, of)| *of == again && (from..to).contains(&time.0));
        shown.map(|(time, segment, _)| [time.0 as f64 / 1e6, f64::from(*segment)]).collect()
    };
    let mut sequence = Figure::new("sequence", "Segments sent around the first loss", "us", "segment")
        .line(Look::Main, "Tonic", sent(tonic, false))
        .line(Look::Reference, "reference", sent(reference, false));
    for (name, outcome) in [("Tonic, again", tonic), ("reference, again", reference)] {
        let again = sent(outcome, true);
        if !again.is_empty() {
            // A retransmission is a peak downwards from where the line was.
            let spikes = again.iter().flat_map(|[x, y]| [[*x, *y], [*x, y + 1.5], [*x, f64::NAN]]);
            sequence = sequence.line(Look::Main, name, spikes.collect());
        }
    }
    let episodes = |outcome: &Outcome| -> Vec<[f64; 2]> {
        let losses = outcome.logs[0].losses.iter().take(100);
        losses.enumerate().map(|(number, loss)| [number as f64, loss.ssthresh as f64]).collect()
    };
    let ssthresh = Figure::new("ssthresh", "Slow start threshold behind each loss", "episode", "segments")
        .line(Look::Main, "Tonic", episodes(tonic))
        .line(Look::Reference, "reference", episodes(reference));
    vec![cwnd, sequence, ssthresh]
}

/// The part of values up to each of them.
pub(super) fn distribution(values: &[f64]) -> Vec<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    sorted.iter().enumerate().map(|(rank, value)| [*value, (rank + 1) as f64 / count]).collect()
}

/// 100 flows of each of two hosts to a third.
pub(super) fn flows(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let scenario = super::Scenario { spread: Span::from_millis(10), ..tcp(2, 100, options.seed) };
    let time = time(options, Span::from_millis(5_000));
    let mut outcomes = vec![];
    let mut speeds = vec![];
    for (number, senders) in (0..).zip(Senders::BOTH) {
        let mut step = number * STEPS as usize;
        let network = scenario.new_reno(senders)?;
        let begin = std::time::Instant::now();
        outcomes.push(scenario.run(network, time, STEPS, |_| {
            step += 1;
            progress(step, 2 * STEPS as usize);
        }));
        speeds.push(begin.elapsed().as_secs_f64());
    }
    let rates: Vec<_> = outcomes.iter().map(Outcome::megabits).collect();
    let mut experiment = experiment(
        "tonic-new-reno-flows",
        &scenario,
        time,
        "Two hosts send 100 flows each to a third over one switch. Losses are those of its full buffer alone.",
    );
    tcp_settings(&mut experiment);
    let cases = Senders::BOTH.into_iter().zip(&outcomes).zip(&speeds);
    experiment.cases = cases
        .map(|((senders, outcome), speed)| case(senders, outcome).with("computed in", *speed, "s"))
        .collect();
    let distance = compare::kolmogorov_smirnov(&rates[0], &rates[1]);
    let mean = |case: &Case| case.value("mean throughput").map(|mean| (mean - 50.0).abs());
    experiment.verdicts = vec![
        Verdict::new(
            "Tonic: mean throughput is off 50 Mb/s by",
            mean(&experiment.cases[0]),
            "Mb/s",
            Bound::AtMost(0.5),
        ),
        Verdict::new(
            "reference: mean throughput is off 50 Mb/s by",
            mean(&experiment.cases[1]),
            "Mb/s",
            Bound::AtMost(0.5),
        ),
        Verdict::new("Kolmogorov-Smirnov distance of the throughputs", distance, "", Bound::AtMost(0.1)),
    ];
    let again = |outcome: &Outcome| -> Vec<f64> {
        outcome.logs.iter().flat_map(|log| &log.retransmissions).map(|count| *count as f64).collect()
    };
    experiment.figures = vec![
        Figure::new("throughput", "Throughput of 200 flows over five seconds", "Mb/s", "part of the flows")
            .line(Look::Main, "Tonic", distribution(&rates[0]))
            .line(Look::Reference, "reference", distribution(&rates[1])),
        Figure::new("retransmissions", "Retransmissions of each flow", "segments", "part of the flows")
            .line(Look::Main, "Tonic", distribution(&again(&outcomes[0])))
            .line(Look::Reference, "reference", distribution(&again(&outcomes[1]))),
    ];
    experiment.details = serde_json::json!({ "tonic_mbps": rates[0], "reference_mbps": rates[1] });
    Ok(experiment)
}
