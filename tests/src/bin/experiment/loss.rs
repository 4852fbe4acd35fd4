//! Random loss, on virtual time compared with go-back-N on the same losses.

use anyhow::Result;
use datacentre::Message;
use datacentre::go_back_n::{self, Outcome, Transfer};
use fabric_model::{Egress, Port, Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World as Kind};

use crate::kind::{Units, pick};
use crate::options::Options;
use crate::run::{Points, TIME};
use crate::setup::{self, Results, SEGMENT, in_both};
use crate::world::{End, Flow, World};

/// The loss rate with a promise, percent. It is plotted over time.
const PROMISED: f64 = 1.0;

/// Returns when a transfer has failed: long after it should be complete.
fn limit(kind: Kind) -> Time {
    Time::ZERO + pick(kind, Span::from_millis(2_000), Span::from_millis(60_000))
}

/// Returns the loss rates in percent. The others are compared with the first.
pub(crate) fn rates(kind: Kind) -> &'static [f64] {
    pick(kind, &[0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0], &[0.0, 0.1, 0.3, 1.0, 3.0])
}

/// Returns the number of packets. With so many, a loss at the very end, which only the retransmission timer repairs, has
/// little effect.
fn packets(kind: Kind) -> u64 {
    pick(kind, 100_000, 12_800)
}

/// The results at one loss rate.
struct Pair {
    percent: f64,
    /// User data over time, in the unit of goodput.
    falcon: Option<f64>,
    retransmitted: f64,
    delivered: Points,
    go_back_n: Option<(Option<f64>, Outcome)>,
}

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let units = Units::of(kind);
    let rates = rates(kind);
    let pairs = rates.iter().map(|percent| transfer(options, world, *percent));
    let (pairs, machine): (Vec<Pair>, Vec<_>) = pairs.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let part = |of: Option<f64>, whole: Option<f64>| Some(of? / whole? * 100.0);
    let falcon = |pair: &Pair| part(pair.falcon, pairs[0].falcon);
    let theirs = |pair: &Pair| pair.go_back_n.as_ref()?.0;
    let other = |pair: &Pair| part(theirs(pair), theirs(&pairs[0]));
    let case = |(pair, machine): (&Pair, Case)| {
        let mut case = Case::new(format!("{} % loss", pair.percent))
            .with("Falcon", pair.falcon, units.rate)
            .with("of lossless", falcon(pair), "%")
            .with("retransmitted", pair.retransmitted, "packets");
        if let Some((goodput, outcome)) = &pair.go_back_n {
            let again = outcome.sent.saturating_sub(packets(kind));
            case = case
                .with("go-back-N", *goodput, units.rate)
                .with("go-back-N of lossless", other(pair), "%")
                .with("go-back-N retransmitted", again as f64, "packets")
                .with("go-back-N timeouts", outcome.timeouts as f64, "");
        }
        case.values.extend(machine.values);
        case
    };
    let cases: Vec<Case> = pairs.iter().zip(machine).map(case).collect();
    let promised = rates.iter().position(|percent| *percent == PROMISED);
    let verdicts = promised.map(|n| Verdict::of(&cases[n], "of lossless", Bound::AtLeast(90.0)));
    let line = |of: &dyn Fn(&Pair) -> Option<f64>| -> Points {
        pairs[1..].iter().filter_map(|pair| Some([pair.percent, of(pair)?])).collect()
    };
    let compared = |figure: Figure, ours: Points, theirs: Points| {
        let figure = figure.line(Look::Main, "Falcon", ours);
        if theirs.is_empty() { figure } else { figure.line(Look::Main, "go-back-N", theirs) }
    };
    let goodput =
        Figure::new("goodput", "Goodput under random loss", "loss (%)", "goodput (% of lossless)").log_x();
    let goodput = compared(goodput, line(&falcon), line(&other)).level("promised at 1 %", 90.0);
    let mut figures = vec![goodput];
    if let Some(pair) = promised.map(|n| &pairs[n]) {
        let delivered = pair.go_back_n.iter().flat_map(|(_, outcome)| (0..).zip(&outcome.delivered));
        let theirs = delivered
            .map(|(n, bytes)| [n as f64 * sample(kind).0 as f64 / 1e9, *bytes as f64 / 1e6])
            .collect();
        let title = format!("Data delivered at {PROMISED} % loss");
        let figure = Figure::new("delivered", title, TIME, "delivered (MB)");
        figures.push(compared(figure, pair.delivered.clone(), theirs));
    }
    let compared = format!(
        " For comparison, go-back-N (NAK and timeout, a constant window of {} packets) runs with the same \
             losses: the n-th packet is lost for both or for neither.",
        window(options)
    );
    let description = format!(
        "{} packets go from one host to another at the same switch, which loses some of the data packets at \
             random.{}",
        packets(kind),
        pick(kind, compared.as_str(), "")
    );
    let results = Results { cases, verdicts: verdicts.into_iter().collect(), figures };
    Ok(results.report(options, kind, in_both!("loss", "Random loss"), description))
}

/// Window of the go-back-N sender: Falcon's initial window.
fn window(options: &Options) -> u64 {
    (options.fcwnd as u64).max(1)
}

fn sample(kind: Kind) -> Span {
    pick(kind, Span::from_micros(50), Span::from_millis(5))
}

/// Returns the results at a loss rate, and what the machine did.
fn transfer(options: &Options, world: &mut dyn World, percent: f64) -> Result<(Pair, Case)> {
    let kind = world.kind();
    let units = Units::of(kind);
    let mut described = setup::star(options, kind, 2, Some((1, format!("loss={percent}%"))))?;
    let bytes = packets(kind) * SEGMENT;
    let message = Message { at: Time::ZERO, bytes };
    described.flows = vec![Flow::new([0, 1], message, options.tuning()?)];
    described.watch = vec![Egress::Host(Port(1))];
    described.sample_every = sample(kind);
    described.end = End::Complete(limit(kind));
    let goodput = |picoseconds: u64| units.rate(bytes as f64 * 8_000.0 / picoseconds as f64);
    let theirs = || {
        let transfer = Transfer {
            packets: packets(kind),
            segment: SEGMENT as u32,
            window: window(options),
            timeout: options.rto,
            host: described.card(),
            sample_every: described.sample_every,
        };
        let outcome = go_back_n::run(transfer, described.fabric.clone(), limit(kind))?;
        Ok::<_, anyhow::Error>((outcome.completed.map(goodput), outcome))
    };
    let go_back_n = if kind == Kind::Simulation { Some(theirs()?) } else { None };
    let run = world.run(&format!("loss: {percent} %"), described)?;
    let pair = Pair {
        percent,
        falcon: run.completions[0][0].map(|time| goodput(time.0)),
        retransmitted: run.retransmissions(),
        delivered: run.received_line(0),
        go_back_n,
    };
    Ok((pair, run.with_machine(Case::new(""))))
}
