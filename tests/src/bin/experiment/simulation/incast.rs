//! Many hosts write to one at the same time.

use anyhow::Result;
use datacentre::{DataCentre, Record};
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, mean};

use super::measure::{self, mark, since};
use super::progress::Progress;
use super::series::{self, TIME, millis, packets};
use super::setup;
use crate::options::Options;

/// Hosts that write.
pub(super) const COUNTS: [u16; 3] = [5, 50, 500];
const BYTES: u64 = 1_000_000;
/// The largest number of flows that are drawn one by one.
const FEW: u16 = 5;

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let (mut cases, mut verdicts, mut figures) = (vec![], vec![], vec![]);
    for count in COUNTS {
        let (case, drawn) = progress.run(format!("incast: {count} hosts"), || write(options, count))?;
        verdicts.push(Verdict::of(&case, "complete", Bound::AtLeast(100.0)));
        verdicts.push(Verdict::of(&case, "time / ideal", Bound::AtMost(1.2)));
        verdicts.push(Verdict::of(&case, "steady queue drops", Bound::AtMost(0.1)));
        if count == 500 {
            verdicts.push(Verdict::of(&case, "samples with fcwnd below 1", Bound::AtLeast(50.0)));
        }
        cases.push(case);
        figures.extend(drawn);
    }
    let description = format!(
        "Hosts at one switch write {BYTES} bytes each to one host, all at the same time. \"Ideal\" is the time that \
             the bytes take over its cable of {}. The steady state begins after a quarter of this time.",
        options.rate()
    );
    Ok(Experiment { cases, verdicts, figures, ..setup::experiment(options, "incast", "Incast", description) })
}

fn write(options: &Options, count: u16) -> Result<(Case, Vec<Figure>)> {
    let mut plan = setup::star(options, count + 1, None)?;
    plan.flows = datacentre::incast(count, BYTES, options.seed);
    plan.flows.iter_mut().for_each(|flow| flow.tuning = options.tuning());
    plan.watch = vec![setup::FIRST_HOST];
    let all = setup::wire_time(options, options.rate(), BYTES).0 * u64::from(count);
    let ideal = Span(all) + Span(4 * setup::CABLE.0);
    plan.sample_every = Span((ideal.0 / 500).max(1_000_000));
    let mut data_centre = DataCentre::new(plan)?;
    let steady = Time::ZERO + Span(ideal.0 / 4);
    let begin = mark(&data_centre, setup::FIRST_HOST);
    data_centre.run_until(steady);
    let after = mark(&data_centre, setup::FIRST_HOST);
    data_centre.run_to_completion(Time::ZERO + Span(20 * ideal.0));
    let whole = since(&data_centre, setup::FIRST_HOST, &begin, options.rate());
    let later = since(&data_centre, setup::FIRST_HOST, &after, options.rate());

    let record = data_centre.record();
    let times: Vec<Time> = data_centre.flows().iter().filter_map(|flow| flow.completions()[0]).collect();
    let complete = times.len() as f64 / f64::from(count);
    let last = times.iter().max().filter(|_| times.len() == usize::from(count)).copied().map(millis);
    let ideal = millis(Time::ZERO + ideal);
    let windows = || windows_at_work(&data_centre, steady);
    let below_one = mean(windows().map(|window| if window < 1.0 { 100.0 } else { 0.0 }));
    let peak = data_centre.fabric_stats().towards[0].queue_peak as f64 / 1024.0;
    let case = Case::new(format!("{count} to 1"))
        .with("complete", complete * 100.0, "%")
        .with("last after", last, "ms")
        .with("ideal", ideal, "ms")
        .with("time / ideal", last.map(|last| last / ideal), "")
        .with("queue drops", whole.loss.map(|loss| loss * 100.0), "%")
        .with("steady queue drops", later.loss.map(|loss| loss * 100.0), "%")
        .with("retransmissions", measure::retransmissions(record), "")
        .with("queue at most", peak, "KiB")
        .with("mean fcwnd", mean(windows()), "packets")
        .with("samples with fcwnd below 1", below_one, "%");
    Ok((case, figures(record, count, times)))
}

/// Returns the fabric windows of all samples of flows during their message.
fn windows_at_work(data_centre: &DataCentre, from: Time) -> impl Iterator<Item = f64> {
    let record = data_centre.record();
    data_centre.flows().iter().enumerate().flat_map(move |(number, flow)| {
        let until = flow.completions()[0].unwrap_or(Time(u64::MAX));
        measure::samples(record, number, from, until).iter().map(|sample| packets(sample.fcwnd))
    })
}

fn figures(record: &Record, count: u16, mut times: Vec<Time>) -> Vec<Figure> {
    let titled = |what: &str| format!("{what}, {count} to 1");
    let all = |figure: Figure, points: fn(&Record, usize) -> series::Points| {
        let lines = (0..usize::from(count)).map(|flow| points(record, flow));
        match count {
            ..=FEW => figure.lines(Look::Faint, "flows", lines),
            _ => figure.spread(&format!("{count} flows"), lines),
        }
    };
    let fcwnd = Figure::new(format!("fcwnd-{count}"), titled("Fabric windows"), TIME, "fcwnd (packets)");
    let delay = Figure::new(format!("delay-{count}"), titled("Fabric delays"), TIME, "delay (us)");
    times.sort_unstable();
    let steps = times.iter().enumerate().flat_map(|(n, time)| [n, n + 1].map(|n| [millis(*time), n as f64]));
    let complete = [[0.0, 0.0]].into_iter().chain(steps).collect();
    vec![
        all(fcwnd.log_y(), series::fcwnd),
        all(delay, series::delay),
        Figure::new(format!("queue-{count}"), titled("Queue towards the receiver"), TIME, "queue (KiB)")
            .line(Look::Main, "queue", series::kibibytes(record, &record.queues[0])),
        Figure::new(format!("complete-{count}"), titled("Writes that are complete"), TIME, "writes").line(
            Look::Main,
            "complete",
            complete,
        ),
    ]
}
