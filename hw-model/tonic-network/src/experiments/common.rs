//! Common parts of the experiments.

use fabric_model::{Rate, Span};
use lab_report::{Case, Experiment};
use model_experiment::Options;
use reference_senders::Dcqcn;

use crate::drops::DropPattern;
use crate::scenario::{ACK_DELAY, BUFFER, Outcome, SEGMENT, Scenario, TCP_WINDOW};
use crate::sender::SenderLog;

/// The names of the experiments, and the question of each.
pub(super) const LIST: [(&str, &str); 6] = [
    ("tonic-new-reno", "Does Tonic's NewReno detect and repair losses like a sender written from the RFCs?"),
    (
        "tonic-new-reno-flows",
        "Do 200 NewReno flows on Tonics share a link like senders written from the RFCs?",
    ),
    ("tonic-new-reno-ns3", "Does NewReno on Tonic behave like NewReno in ns-3?"),
    ("tonic-dcqcn", "Do two DCQCN flows on Tonics get the rates of the paper's reaction point?"),
    ("tonic-dcqcn-flows", "How evenly do 200 DCQCN flows on Tonics share a link?"),
    ("tonic-network-delivery", "Does every protocol deliver every segment over an impaired fabric?"),
];

/// Returns the time to simulate: the time that the question needs, or less if the options say so.
pub(super) fn time(options: &Options, needed: Span) -> Span {
    options.limit_us.map_or(needed, |limit| needed.min(Span::from_micros(limit)))
}

/// Returns the settings of section 6.2.1: 10 Gb/s and 10 us.
pub(super) fn tcp(hosts: u16, flows: u16, seed: u64) -> Scenario {
    Scenario {
        hosts,
        flows,
        rate: Rate::from_bits_per_second(10_000_000_000).expect("not zero"),
        clock_tolerance: 0,
        processing: Span::ZERO,
        round_trip: Span::from_micros(10),
        spread: Span::ZERO,
        drops: DropPattern::none(),
        red: None,
        flow_control: None,
        dcqcn: Dcqcn::new(10e9),
        outstanding: 16,
        watched: None,
        seed,
    }
}

/// Returns an experiment of the list, without results yet.
pub(super) fn experiment(name: &str, scenario: &Scenario, time: Span, description: &str) -> Experiment {
    let listed = LIST.iter().find(|(listed, _)| *listed == name);
    let (name, title) = *listed.expect("it is in the list");
    let settings = [
        ("simulated", format!("{time}")),
        ("link", scenario.rate.to_string()),
        ("round-trip time", scenario.round_trip.to_string()),
        ("switch buffer", BUFFER.to_string()),
        ("segment", format!("{SEGMENT}B")),
        ("hosts that send", scenario.hosts.to_string()),
        ("flows a host", scenario.flows.to_string()),
        ("flows start within", scenario.spread.to_string()),
        ("outstanding addresses a flow (N)", scenario.outstanding.to_string()),
    ];
    Experiment { settings: settings.into(), ..Experiment::in_cycles(name, title, description, scenario.seed) }
}

/// Adds the settings of TCP.
pub(super) fn tcp_settings(experiment: &mut Experiment) {
    experiment.settings.insert("window at most", format!("{TCP_WINDOW} segments"));
    experiment.settings.insert("acknowledgments", format!("every second segment, or after {ACK_DELAY}"));
}

/// Returns the numbers of the flows of all runs together. Throughputs are in Mb/s.
pub(super) fn case(name: impl Into<String>, outcomes: &[Outcome]) -> Case {
    let rates: Vec<_> = outcomes.iter().flat_map(Outcome::megabits).collect();
    let mean = lab_report::mean(rates.iter().copied());
    let deviation = mean.map(|mean| {
        let squares = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        (squares / rates.len() as f64).sqrt()
    });
    let logs = || outcomes.iter().flat_map(|outcome| &outcome.logs);
    let sum = |count: fn(&SenderLog) -> u64| logs().map(count).sum::<u64>() as f64;
    let all = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>() as f64;
    let peak = outcomes.iter().map(|outcome| outcome.queue_peak).max();
    Case::new(name)
        .with("mean throughput", mean, "Mb/s")
        .with("standard deviation", deviation, "Mb/s")
        .with("least", rates.iter().copied().reduce(f64::min), "Mb/s")
        .with("most", rates.iter().copied().reduce(f64::max), "Mb/s")
        .with("segments sent", sum(|log| log.transmitted), "")
        .with("retransmissions", sum(|log| log.retransmissions.iter().sum()), "")
        .with("timeouts", sum(|log| log.timeouts), "")
        .with("dropped by the switch", all(|outcome| outcome.dropped), "")
        .with("queue peak", peak.map(|peak| peak as f64 / 1e3), "KB")
        .with("cycles computed", all(|outcome| outcome.cycles) / 1e6, "million")
}

/// Returns the distribution function of values: for each value, the fraction of values up to it.
pub(super) fn distribution(values: &[f64]) -> Vec<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    sorted.iter().enumerate().map(|(rank, value)| [*value, (rank + 1) as f64 / count]).collect()
}

/// Returns a count per flow from the hosts' logs, for every flow of the runs.
pub(super) fn by_flow(outcomes: &[Outcome], counts: fn(&SenderLog) -> &[u64]) -> Vec<f64> {
    let logs = outcomes.iter().flat_map(|outcome| &outcome.logs);
    logs.flat_map(counts).map(|count| *count as f64).collect()
}
