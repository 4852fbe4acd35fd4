//! Many hosts in pairs, over leaf and spine switches.

use anyhow::Result;
use datacentre::{DataCentre, permutation};
use fabric_model::{Egress, Port, Span, Time, Trunk};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, mean, quantile};

use super::progress::Progress;
use super::series::{self, TIME, micros};
use super::{measure, setup};
use crate::options::Options;

const LEAVES: u16 = 16;
const HOSTS_PER_LEAF: u16 = 16;
const SPINES: u16 = 16;
const BYTES: u64 = 4_000_000;

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let hosts = LEAVES * HOSTS_PER_LEAF;
    let mut plan = setup::leaf_spine(options, LEAVES, HOSTS_PER_LEAF, SPINES)?;
    plan.flows = permutation(hosts, BYTES, options.seed);
    plan.flows.iter_mut().for_each(|flow| flow.tuning = options.tuning());
    plan.sample_every = Span::from_micros(10);
    plan.watch = (0..LEAVES * SPINES).map(Trunk).map(Egress::Trunk).chain([Egress::Host(Port(0))]).collect();
    let mut data_centre = DataCentre::new(plan)?;
    let ideal = setup::wire_time(options, options.rate(), BYTES) + Span(8 * setup::CABLE.0);
    let limit = Time::ZERO + Span(50 * ideal.0);
    progress.run("permutation: 256 hosts", || data_centre.run_to_completion(limit));
    let record = data_centre.record();
    let completions = data_centre.flows().iter().filter_map(|flow| flow.completions()[0]);
    let mut times: Vec<f64> = completions.map(|time| micros(time.since(Time::ZERO))).collect();
    times.sort_by(f64::total_cmp);
    let ideal = micros(ideal);
    let slowdowns: Vec<f64> = times.iter().map(|time| time / ideal).collect();
    let stats = data_centre.fabric_stats();
    let links = || stats.towards.iter().chain(&stats.trunks);
    let (dropped, offered) = links().fold((0, 0), |(d, o), link| (d + link.queue_dropped, o + link.offered));
    let peak = links().map(|link| link.queue_peak).max().unwrap_or_default();
    let case = Case::new(format!("{hosts} hosts"))
        .with("complete", times.len() as f64 / f64::from(hosts) * 100.0, "%")
        .with("ideal", ideal, "us")
        .with("mean slowdown", mean(slowdowns.iter().copied()), "")
        .with("median slowdown", quantile(&slowdowns, 0.5), "")
        .with("99 % slowdown", quantile(&slowdowns, 0.99), "")
        .with("greatest slowdown", quantile(&slowdowns, 1.0), "")
        .with("queue drops", dropped as f64 / offered as f64 * 100.0, "%")
        .with("greatest queue", peak as f64 / 1024.0, "KiB")
        .with("retransmissions", measure::retransmissions(record), "");
    let verdicts = vec![Verdict::of(&case, "complete", Bound::AtLeast(100.0))];
    let flows = || 0..usize::from(hosts);
    let distribution = slowdowns.iter().enumerate();
    let distribution =
        distribution.map(|(n, slowdown)| [*slowdown, (n + 1) as f64 / f64::from(hosts) * 100.0]);
    let greatest = |n: usize| record.queues.iter().map(|queue| queue[n]).max().unwrap_or_default();
    let greatest: Vec<u64> = (0..record.times.len()).map(greatest).collect();
    let all = format!("{hosts} flows");
    let figures = vec![
        Figure::new("slowdown", "Time to completion by the ideal", "slowdown", "flows (%)").line(
            Look::Main,
            "complete",
            distribution.collect(),
        ),
        Figure::new("fcwnd", "Fabric windows", TIME, "fcwnd (packets)")
            .spread(&all, flows().map(|flow| series::fcwnd(record, flow))),
        Figure::new("delay", "Fabric delays", TIME, "delay (us)")
            .spread(&all, flows().map(|flow| series::delay(record, flow))),
        Figure::new("queue", "The greatest queue of a leaf towards a spine", TIME, "queue (KiB)").line(
            Look::Main,
            "queue",
            series::kibibytes(record, &greatest),
        ),
    ];
    let description = format!(
        "Each of {hosts} hosts writes {BYTES} bytes to another, and receives from one. {SPINES} spine switches \
             connect {LEAVES} leaf switches with {HOSTS_PER_LEAF} hosts each. All cables carry {}, so all flows fit if \
             no two flows of a leaf share a spine. The slowdown of a flow is its time to completion divided by the \
             time that the bytes alone need.",
        options.rate()
    );
    Ok(Experiment {
        cases: vec![case],
        verdicts,
        figures,
        ..setup::experiment(options, "permutation", "A permutation of 256 hosts", description)
    })
}
