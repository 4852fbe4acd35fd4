//! Thousands of connections whose packets the timing wheel paces.

use anyhow::{Context, Result, anyhow};
use datacentre::{DataCentre, FlowPlan, Message, PacketDeparture};
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World as Kind};
use transport_common::congestion::algorithm::AlgorithmId;
use transport_common::congestion::parameters::Parameters;
use transport_common::congestion::settings::{Placement, Settings};
use transport_common::units::Fcwnd;

use super::planning::{plan, tuning};
use super::progress::Progress;
use crate::options::Options;
use crate::schedule::{Departure, GAP_UNIT, TICK, Timing};
use crate::setup::{self, Results};
use crate::world;

/// Connections of the host that writes, and the window of each in 1/1024 of a packet. Except in the first run,
/// they have the same total rate.
pub(super) const RUNS: [(u32, u32); 3] = [(1, 512), (256, 32), (4096, 2)];
/// The length of a run in gaps.
const GAPS: u64 = 30;
/// The beginning of the axis of distributions, microseconds.
const LEAST: f64 = 0.01;

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let (mut cases, mut verdicts) = (vec![], vec![]);
    let title = "Packets that leave at most so late";
    let mut figure = Figure::new("distribution", title, "behind the schedule (us)", "packets (%)").log_x();
    for (connections, window) in RUNS {
        let what = format!("pacing: {connections} connections");
        let timing = progress.run(what, || pace(options, connections, window))?;
        let name = format!("{connections} at a window of {window}/1024");
        figure = figure.line(Look::Main, &name, timing.distribution(LEAST));
        let case = timing.case(name);
        verdicts.extend(promises(&case));
        cases.push(case);
    }
    let description = "One host writes to another over connections with a fixed fabric window below one packet. Each \
                      of its cards has 256 connections, and all packets share its link. The gap is the round trip \
                      time divided by the window. \"Late\" is the lateness of a departure relative to the schedule \
                      of its connection.";
    let results = Results { cases, verdicts, figures: vec![figure] };
    let names = setup::in_both!("pacing", "Pacing by the timing wheel");
    let mut report = results.report(options, Kind::Simulation, names, description);
    report.settings.insert("unit of the gap", format!("{GAP_UNIT} ns"));
    report.settings.insert("tick of departures", format!("{TICK} ns"));
    Ok(Experiment { congestion_control: None, ..report })
}

fn promises(case: &Case) -> [Verdict; 3] {
    [
        Verdict::of(case, "earliest", Bound::AtMost(0.0)),
        Verdict::of(case, "worst connection", Bound::AtMost(1.0)),
        Verdict::of(case, "restarts", Bound::AtMost(0.0)),
    ]
}

fn pace(options: &Options, connections: u32, window: u32) -> Result<Timing> {
    let mut plan = plan(&setup::star(options, Kind::Simulation, 2, None)?)?;
    let mut tuning = tuning(&options.tuning()?)?;
    tuning.fcwnd = Fcwnd(window);
    let parameters = Parameters { fixed_window: Fcwnd(window), min_fcwnd: Fcwnd(1), ..options.parameters() };
    tuning.settings = Settings {
        placement: Placement::Kernel as u32,
        algorithm: AlgorithmId::Fixed as u32,
        prepared: parameters.prepare().map_err(|error| anyhow!("{error}"))?,
        ..tuning.settings
    };
    // About one round trip: two cables in each direction, and the time of the frame on both.
    let rtt = Span(4 * world::CABLE.0 + 2 * setup::wire_time(options.rate(), setup::SEGMENT).0);
    let gap = Span(rtt.0 * u64::from(Fcwnd::from_packets(1).0) / u64::from(window));
    plan.flows = (0..u64::from(connections))
        .map(|n| {
            // Each connection has another phase. A departure at 0 would count as none.
            let at = Time::ZERO + world::CABLE + Span(gap.0 * n / u64::from(connections));
            FlowPlan { tuning, ..FlowPlan::new(0, 1, vec![Message { at, bytes: u64::MAX }]) }
        })
        .collect();
    plan.record_departures = true;
    let mut data_centre = DataCentre::new(plan).context("the pacing experiment")?;
    data_centre.run_until(Time::ZERO + Span(gap.0 * GAPS));
    let mut timing = Timing::default();
    for departures in &data_centre.record().departures {
        timing.add(&departures.iter().map(departure).collect::<Vec<_>>());
    }
    Ok(timing)
}

fn departure(departure: &PacketDeparture) -> Departure {
    let gap = f64::from(departure.inter_packet_gap.0) * GAP_UNIT;
    Departure { at: departure.at.0 as f64 / 1e3, gap, out: None }
}
