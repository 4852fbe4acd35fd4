//! Many hosts in pairs, over leaf and spine switches.

use anyhow::Result;
use datacentre::permutation;
use fabric_model::{Egress, Port, Span, Time, Trunk};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, mean, quantile};

use crate::options::Options;
use crate::run::{TIME, micros};
use crate::setup::{self, Results};
use crate::world::{self, End, Flow, World};

const LEAVES: u16 = 16;
const HOSTS_PER_LEAF: u16 = 16;
const SPINES: u16 = 16;
const BYTES: u64 = 4_000_000;

pub(super) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let hosts = LEAVES * HOSTS_PER_LEAF;
    let mut described = setup::leaf_spine(options, kind, LEAVES, HOSTS_PER_LEAF, SPINES)?;
    for flow in permutation(hosts, BYTES, options.seed) {
        let (ends, tuning) = ([flow.source, flow.destination], options.tuning()?);
        let own = Flow::new(ends, flow.messages[0], tuning);
        described.flows.push(Flow { entropy: flow.entropy, ..own });
    }
    described.sample_every = Span::from_micros(10);
    described.watch =
        (0..LEAVES * SPINES).map(Trunk).map(Egress::Trunk).chain([Egress::Host(Port(0))]).collect();
    let ideal = setup::wire_time(options.rate(), BYTES) + Span(8 * world::CABLE.0);
    described.end = End::Complete(Time::ZERO + Span(50 * ideal.0));
    let run = world.run("permutation: 256 hosts", described)?;
    let record = &run.record;
    let times = run.completion_times().into_iter();
    let times: Vec<f64> = times.map(|time| micros(time.since(Time::ZERO))).collect();
    let ideal = micros(ideal);
    let slowdowns: Vec<f64> = times.iter().map(|time| time / ideal).collect();
    let stats = &run.end().fabric;
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
        .with("retransmissions", run.retransmissions(), "");
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
            .spread(&all, flows().map(|flow| run.fcwnd_line(flow))),
        Figure::new("delay", "Fabric delays", TIME, "delay (us)")
            .spread(&all, flows().map(|flow| run.delay_line(flow))),
        Figure::new("queue", "The greatest queue of a leaf towards a spine", TIME, "queue (KiB)").line(
            Look::Main,
            "queue",
            run.kibibytes(&greatest),
        ),
    ];
    let description = format!(
        "Each of {hosts} hosts writes {BYTES} bytes to another, and receives from one. {SPINES} spine switches \
             connect {LEAVES} leaf switches with {HOSTS_PER_LEAF} hosts each. All cables carry {}, so all flows fit if \
             no two flows of a leaf share a spine. The slowdown of a flow is its time to completion divided by the \
             time that the bytes alone need.",
        options.rate()
    );
    let results = Results { cases: vec![case], verdicts, figures };
    Ok(results.report(
        options,
        kind,
        setup::in_both!("permutation", "A permutation of 256 hosts"),
        description,
    ))
}
