//! The last packets of a burst are lost. RACK-TLP probes for them, and without it the retransmission timeout finds them.

use anyhow::{Context, Result};
use datacentre::{DataCentre, FlowSample, HostModel, Message, Plan};
use fabric_model::{Span, Time, Topology, Trunk};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World as Kind, mean, quantile};
use tiercel::congestion::{CongestionControl, CongestionParameters};

use super::planning::flow;
use super::progress::Progress;
use crate::options::Options;
use crate::setup::{self, Results, SEGMENT};
use crate::world::{self, Flow};

/// Round trips of the empty path, microseconds.
const ROUND_TRIPS: [u64; 6] = [20, 50, 100, 200, 400, 1000];
/// Up to this round trip, microseconds, a burst with RACK-TLP is promised to take half the time.
const HALVED: u64 = 100;
/// Packets lost at the end of a burst.
const LOST: [u64; 3] = [1, 2, 5];
/// Packets of a burst.
const BURST: u64 = 10;
const SEEDS: u64 = 20;
/// Bursts without loss before the measured one. After 32 acknowledgements the first timeout of profile auto, 100 ms, no
/// longer counts.
const EARLIER: u64 = 40;
/// Round trips from one burst to the next, in addition to the time on the wire.
const APART: u64 = 5;
/// The jitter of the path is this part of its round trip.
const JITTER_PART: u64 = 20;
/// Samples in a round trip.
const SAMPLES: u64 = 20;
/// A burst that is not complete after this time never is.
const LIMIT: Span = Span::from_millis(1000);
/// Time between two looks at the cable while a burst passes. No frame is shorter.
const LOOK: Span = Span::from_nanos(10);
/// The round trip, and the lost packets, that are drawn over time.
const DRAWN: (u64, u64) = (50, 2);
/// The cable from left to right. All data go over it, and no acknowledgements.
const CABLE: Trunk = Trunk(0);

/// A burst whose end is lost.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// Round trip of the empty path.
    round_trip: Span,
    /// Packets lost, at most [`BURST`].
    lost: u64,
}

/// What came of one burst.
struct Trial {
    /// Round trips from its start until the last packet was acknowledged.
    complete: f64,
    /// The retransmission timeout when the burst began, in round trips.
    timeout: f64,
    /// Copies of each kind.
    probes: u64,
    early: u64,
    timeouts: u64,
    /// Packets at the receiver, by round trips since the start of the burst.
    course: Vec<[f64; 2]>,
}

/// The trials of all seeds, with RACK-TLP and without.
struct Both {
    loss: Loss,
    with: Vec<Trial>,
    without: Vec<Trial>,
}

/// The trials to run.
pub(super) fn runs() -> u64 {
    (ROUND_TRIPS.len() * LOST.len()) as u64
}

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let losses = ROUND_TRIPS
        .into_iter()
        .flat_map(|micros| LOST.map(|lost| Loss { round_trip: Span::from_micros(micros), lost }));
    let all = losses.map(|loss| progress.run(format!("tail: {}", name(loss)), || both(options, loss)));
    let all: Vec<Both> = all.collect::<Result<_>>()?;
    let cases: Vec<Case> = all.iter().map(sum_up).collect();
    let verdicts = all.iter().zip(&cases).flat_map(|(both, case)| promises(both, case)).collect();
    let description = format!(
        "One host writes {BURST} packets to another over an empty path, and the last 1, 2 or 5 are lost. Nothing follows \
             them. The burst is complete when its last packet is acknowledged; the time counts from its start, in round trips \
             of the empty path. {EARLIER} bursts without loss go before. RACK-TLP sends the last packet again after two \
             smoothed round trips, if that is below the retransmission timeout; the acknowledgement of this probe shows \
             what else is missing. Without it, the timeout finds the loss: profile auto has 5/4 of the longest round trip, \
             and at least 1 ms. {SEEDS} seeds; the path's jitter is 1/{JITTER_PART} of its round trip."
    );
    let results = Results { cases, verdicts, figures: vec![course(&all)?, recovery(&all)] };
    let names = setup::in_both!("tail", "The end of a burst is lost");
    Ok(results.report(options, Kind::Simulation, names, description))
}

/// Returns a name for people.
fn name(loss: Loss) -> String {
    format!("{} round trip, {} lost", loss.round_trip, loss.lost)
}

/// Runs all seeds.
fn both(options: &Options, loss: Loss) -> Result<Both> {
    let trials = |rack_tlp| -> Result<Vec<Trial>> {
        (0..SEEDS).map(|n| trial(options, options.seed + n, loss, rack_tlp)).collect()
    };
    Ok(Both { loss, with: trials(true)?, without: trials(false)? })
}

fn times(trials: &[Trial]) -> Vec<f64> {
    trials.iter().map(|trial| trial.complete).collect()
}

const SLOWEST_WITH: &str = "with: slowest seed";
const FASTEST_WITHOUT: &str = "without: fastest seed";
const PART: &str = "slowest with of fastest without";

fn sum_up(both: &Both) -> Case {
    let Both { loss, with, without } = both;
    let each =
        |trials: &[Trial], count: fn(&Trial) -> u64| mean(trials.iter().map(|trial| count(trial) as f64));
    let (slowest, fastest) = (quantile(&times(with), 1.0), quantile(&times(without), 0.0));
    Case::new(name(*loss))
        .with("with RACK-TLP: median", quantile(&times(with), 0.5), "RTTs")
        .with(SLOWEST_WITH, slowest, "RTTs")
        .with("without: median", quantile(&times(without), 0.5), "RTTs")
        .with(FASTEST_WITHOUT, fastest, "RTTs")
        .with(PART, slowest.zip(fastest).map(|(with, without)| with / without * 100.0), "%")
        .with("RTO", mean(without.iter().map(|trial| trial.timeout)), "RTTs")
        .with("with: probes", each(with, |trial| trial.probes), "packets")
        .with("with: early", each(with, |trial| trial.early), "packets")
        .with("with: by timeout", each(with, |trial| trial.timeouts), "packets")
        .with("without: by timeout", each(without, |trial| trial.timeouts), "packets")
}

/// Without RACK-TLP no burst is complete before the timeout. With it, each takes half the time on a short path, and no longer on
/// any other.
fn promises(both: &Both, case: &Case) -> [Verdict; 2] {
    let timeout = both.without.iter().map(|trial| trial.timeout).fold(0.0, f64::max);
    let halved = both.loss.round_trip <= Span::from_micros(HALVED);
    let part = Bound::AtMost(if halved { 50.0 } else { 105.0 });
    [Verdict::of(case, FASTEST_WITHOUT, Bound::AtLeast(timeout)), Verdict::of(case, PART, part)]
}

/// Draws the packets that arrived, over time, for one seed.
fn course(all: &[Both]) -> Result<Figure> {
    let (micros, lost) = DRAWN;
    let drawn = |both: &&Both| both.loss.round_trip == Span::from_micros(micros) && both.loss.lost == lost;
    let both = all.iter().find(drawn).context("the drawn case is one of all")?;
    let title = format!("A burst of {BURST} packets, the last {lost} lost, round trip {micros} us");
    Ok(Figure::new("course", title, "round trips since the start of the burst", "packets at the receiver")
        .line(Look::Main, "with RACK-TLP", both.with[0].course.clone())
        .line(Look::Main, "without", both.without[0].course.clone()))
}

/// Draws the median time by the round trip of the path.
fn recovery(all: &[Both]) -> Figure {
    let line = |lost: u64, trials: fn(&Both) -> &Vec<Trial>| {
        let of = all.iter().filter(|both| both.loss.lost == lost);
        let points = of.filter_map(|both| {
            Some([both.loss.round_trip.0 as f64 / 1e6, quantile(&times(trials(both)), 0.5)?])
        });
        points.collect()
    };
    let mut figure = Figure::new(
        "recovery",
        "Time until a burst is complete",
        "round trip of the empty path (us)",
        "round trips",
    )
    .log_x()
    .log_y();
    for lost in LOST {
        figure =
            figure.line(Look::Main, format!("with RACK-TLP, {lost} lost"), line(lost, |both| &both.with));
    }
    // The timeout finds all at once, so the lines for other numbers are the same.
    figure = figure.line(Look::Reference, "without, 5 lost", line(5, |both| &both.without));
    figure
}

fn trial(options: &Options, seed: u64, loss: Loss, rack_tlp: bool) -> Result<Trial> {
    let round_trip = loss.round_trip;
    let mut data_centre = DataCentre::new(plan(options, seed, round_trip, rack_tlp)?)?;
    let start = Time::ZERO + Span(apart(options, round_trip).0 * EARLIER);
    data_centre.run_until(start);
    let (nic, slot) = data_centre.sender(0);
    let timeout = nic.entry(slot).connection.flow.congestion.rto;
    lose_the_end(&mut data_centre, loss.lost, start + apart(options, round_trip));
    data_centre.run_to_completion(start + LIMIT);
    let end = data_centre.flow(0).completions().last().copied().flatten();
    // One more round trip, so that the drawn line ends with all packets.
    data_centre.run_until(data_centre.now() + round_trip);
    let in_round_trips = |span: Span| span.0 as f64 / round_trip.0 as f64;
    let record = data_centre.record();
    let last = *record.flows[0].last().context("a run has samples")?;
    let packets = |sample: &FlowSample| (sample.received / SEGMENT) as f64;
    let since = record.times.iter().zip(&record.flows[0]).filter(|(time, _)| **time >= start);
    Ok(Trial {
        complete: end.map_or(f64::INFINITY, |end| in_round_trips(end.since(start))),
        timeout: in_round_trips(Span(timeout.as_nanos() * 1000)),
        probes: last.tail_probes,
        early: last.retransmitted_early,
        timeouts: last.retransmitted_timeout,
        course: since
            .map(|(time, sample)| {
                [in_round_trips(time.since(start)), packets(sample) - (EARLIER * BURST) as f64]
            })
            .collect(),
    })
}

/// Unplugs the cable for the last packets of the burst that begins now, as far as they are sent by `limit`.
fn lose_the_end(data_centre: &mut DataCentre, lost: u64, limit: Time) {
    let offered = |data_centre: &DataCentre| data_centre.fabric_stats().trunks[usize::from(CABLE.0)].offered;
    let before = offered(data_centre);
    for (packets, up) in [(BURST - lost, false), (BURST, true)] {
        while offered(data_centre) < before + packets && data_centre.now() < limit {
            data_centre.run_until(data_centre.now() + LOOK);
        }
        data_centre.set_link(CABLE, up);
    }
}

/// Returns the time from one burst to the next. The earlier one is complete by then, on a slow line too.
fn apart(options: &Options, round_trip: Span) -> Span {
    let bytes = BURST * SEGMENT;
    Span(round_trip.0 * APART + 2 * setup::wire_time(options.rate(), bytes).0)
}

/// Two hosts, and one cable between their switches in each direction.
fn plan(options: &Options, seed: u64, round_trip: Span, rack_tlp: bool) -> Result<Plan> {
    let rate = options.rate();
    // Each way crosses the cables of both hosts.
    let each_way = Span((round_trip.0 / 2).saturating_sub(2 * world::CABLE.0));
    let jitter = Span(round_trip.0 / JITTER_PART / 2);
    let common = format!("rate={rate},queue=16MiB,hops=1");
    let fabric = format!(
        "seed={seed},{common},delay={};trunks:{common},delay={each_way},jitter={jitter}",
        world::CABLE
    );
    let mut plan = Plan::new(Topology::dumbbell(1, 1, 1), fabric.parse().context("the fabric's own keys")?);
    plan.host = HostModel { line_rate: rate, cable: world::CABLE, ..HostModel::default() };
    let congestion = CongestionControl { parameters: CongestionParameters::AUTO, ..options.control()? };
    let mut tuning = setup::chosen(options, congestion, round_trip)?;
    tuning.rack_tlp = rack_tlp;
    let bytes = BURST * SEGMENT;
    let burst = |n| Message { at: Time::ZERO + Span(apart(options, round_trip).0 * n), bytes };
    let messages = (0..=EARLIER).map(burst).collect();
    plan.flows = vec![flow(&Flow { messages, ..Flow::endless([0, 1], Time::ZERO, tuning) })?];
    plan.sample_every = Span(round_trip.0 / SAMPLES);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn trial(micros: u64, lost: u64, rack_tlp: bool) -> Trial {
        let loss = Loss { round_trip: Span::from_micros(micros), lost };
        super::trial(&Options::parse_from(["experiment"]), 7, loss, rack_tlp).expect("can be set up")
    }

    /// One probe and, for what else is missing, RACK repair the end of a burst well before the timeout. Without them, the
    /// timeout does.
    #[test]
    fn a_probe_comes_well_before_the_timeout() {
        for lost in LOST {
            let (with, without) = (trial(50, lost, true), trial(50, lost, false));
            assert!((with.timeout - 20.0).abs() < 0.1, "1 ms");
            assert!(with.complete < 7.0 && without.complete > without.timeout, "{}", with.complete);
            assert_eq!((with.probes, with.early, with.timeouts), (1, lost - 1, 0));
            assert_eq!((without.probes, without.early, without.timeouts), (0, 0, lost));
            let packets = |trial: &Trial| trial.course.last().map(|point| point[1]);
            assert_eq!([packets(&with), packets(&without)], [Some(BURST as f64); 2]);
        }
    }

    #[test]
    fn a_probe_after_the_timeout_changes_nothing() {
        let (with, without) = (trial(1000, 1, true), trial(1000, 1, false));
        assert!((with.complete - without.complete).abs() < 0.1, "{} {}", with.complete, without.complete);
    }

    #[test]
    fn one_seed_gives_one_course() {
        assert_eq!(trial(100, 2, true).course, trial(100, 2, true).course);
    }

    /// A burst takes longer than a round trip here. The experiment must not fail, because others may run with it.
    #[test]
    fn a_slow_line_and_a_small_window_have_a_result() {
        for arguments in [&["--rate", "1Gbps"][..], &["--cc", "constant", "--fcwnd", "1"]] {
            let options = Options::parse_from(["experiment"].iter().chain(arguments));
            let loss = Loss { round_trip: Span::from_micros(20), lost: 1 };
            let trial = super::trial(&options, 1, loss, true).expect("can be set up");
            assert!(trial.complete.is_finite(), "{arguments:?}");
        }
    }
}
