//! Random loss, compared with go-back-N on the same losses.

use anyhow::Result;
use datacentre::go_back_n::{self, Outcome, Transfer};
use datacentre::{DataCentre, FlowPlan, Message};
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use super::progress::Progress;
use super::series::{self, Points, TIME};
use super::{measure, setup};
use crate::options::Options;

/// Loss rates in percent. The others are compared with the first.
pub(super) const RATES: [f64; 9] = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0];
/// The loss rate with a promise. It is plotted over time.
const PROMISED: f64 = 1.0;
/// Number of packets. With so many, a loss at the very end, which only the retransmission timer repairs, has
/// little effect.
const PACKETS: u64 = 100_000;
const SAMPLE: Span = Span::from_micros(50);
const LIMIT: Time = Time(2_000_000_000_000);

/// The results of both senders at one loss rate.
struct Pair {
    percent: f64,
    /// Gb/s of user data.
    falcon: Option<f64>,
    retransmitted: f64,
    delivered: Points,
    go_back_n: Option<f64>,
    outcome: Outcome,
}

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let pairs = RATES
        .iter()
        .map(|percent| progress.run(format!("loss: {percent} %"), || transfer(options, *percent)));
    let pairs: Vec<Pair> = pairs.collect::<Result<_>>()?;
    let part = |of: Option<f64>, whole: Option<f64>| Some(of? / whole? * 100.0);
    let falcon = |pair: &Pair| part(pair.falcon, pairs[0].falcon);
    let other = |pair: &Pair| part(pair.go_back_n, pairs[0].go_back_n);
    let case = |pair: &Pair| {
        Case::new(format!("{} % loss", pair.percent))
            .with("Falcon", pair.falcon, "Gb/s")
            .with("of lossless", falcon(pair), "%")
            .with("retransmitted", pair.retransmitted, "packets")
            .with("go-back-N", pair.go_back_n, "Gb/s")
            .with("go-back-N of lossless", other(pair), "%")
            .with("go-back-N retransmitted", pair.outcome.sent.saturating_sub(PACKETS) as f64, "packets")
            .with("go-back-N timeouts", pair.outcome.timeouts as f64, "")
    };
    let cases: Vec<Case> = pairs.iter().map(case).collect();
    let promised = RATES.iter().position(|percent| *percent == PROMISED);
    let verdicts = promised.map(|n| Verdict::of(&cases[n], "of lossless", Bound::AtLeast(90.0)));
    let line = |of: &dyn Fn(&Pair) -> Option<f64>| -> Points {
        pairs[1..].iter().filter_map(|pair| Some([pair.percent, of(pair)?])).collect()
    };
    let mut figures = vec![
        Figure::new("goodput", "Goodput under random loss", "loss (%)", "goodput (% of lossless)")
            .log_x()
            .line(Look::Main, "Falcon", line(&falcon))
            .line(Look::Main, "go-back-N", line(&other))
            .level("promised at 1 %", 90.0),
    ];
    if let Some(pair) = promised.map(|n| &pairs[n]) {
        let samples = (0..).zip(&pair.outcome.delivered);
        let theirs = samples.map(|(n, bytes)| [n as f64 * SAMPLE.0 as f64 / 1e9, *bytes as f64 / 1e6]);
        let title = format!("Data delivered at {PROMISED} % loss");
        figures.push(
            Figure::new("delivered", title, TIME, "delivered (MB)")
                .line(Look::Main, "Falcon", pair.delivered.clone())
                .line(Look::Main, "go-back-N", theirs.collect()),
        );
    }
    let description = format!(
        "{PACKETS} packets go from one host to another at the same switch, which loses some of the data packets at \
             random. For comparison, go-back-N (NAK and timeout, a constant window of {} packets) runs with the same \
             losses: the n-th packet is lost for both or for neither.",
        window(options)
    );
    Ok(Experiment {
        cases,
        verdicts: verdicts.into_iter().collect(),
        figures,
        ..setup::experiment(options, "loss", "Random loss", description)
    })
}

/// Window of the go-back-N sender: Falcon's initial window.
fn window(options: &Options) -> u64 {
    options.tuning().fcwnd.packets().into()
}

fn transfer(options: &Options, percent: f64) -> Result<Pair> {
    let tuning = options.tuning();
    let mut plan = setup::star(options, 2, Some((1, format!("loss={percent}%"))))?;
    let bytes = PACKETS * u64::from(tuning.segment);
    let message = Message { at: Time::ZERO, bytes };
    plan.flows = vec![FlowPlan { tuning, ..FlowPlan::new(0, 1, vec![message]) }];
    plan.sample_every = SAMPLE;
    let theirs = Transfer {
        packets: PACKETS,
        segment: tuning.segment,
        window: window(options),
        timeout: options.rto,
        host: plan.host,
        sample_every: SAMPLE,
    };
    let outcome = go_back_n::run(theirs, plan.fabric.clone(), LIMIT)?;
    let mut data_centre = DataCentre::new(plan)?;
    data_centre.run_to_completion(LIMIT);
    let record = data_centre.record();
    let goodput = |picoseconds: u64| bytes as f64 * 8_000.0 / picoseconds as f64;
    let samples = record.times.iter().zip(&record.flows[0]);
    Ok(Pair {
        percent,
        falcon: data_centre.flow(0).completions()[0].map(|time| goodput(time.0)),
        retransmitted: measure::retransmissions(record),
        delivered: samples.map(|(time, s)| [series::millis(*time), s.received as f64 / 1e6]).collect(),
        go_back_n: outcome.completed.map(goodput),
        outcome,
    })
}
