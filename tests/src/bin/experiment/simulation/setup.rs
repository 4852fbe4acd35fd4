//! Data centres that several experiments use.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use datacentre::{FlowPlan, HostModel, Message, Plan, Tuning};
use fabric_model::{Egress, FabricConfig, Port, Rate, Span, Time, Topology, Trunk};
use lab_report::{Experiment, World};
use tiercel::congestion::{CongestionControl, CongestionParameters};
use transport_common::connection::INITIAL_HOP_LIMIT;
use transport_common::units::Ticks;

use crate::options::Options;

/// Makes an experiment on virtual time with the settings of the options, without numbers.
pub(crate) fn experiment(
    options: &Options,
    name: &'static str,
    title: &'static str,
    description: impl Into<String>,
) -> Experiment {
    Experiment {
        congestion_control: Some(options.algorithm()),
        settings: settings(options),
        ..Experiment::new(World::Simulation, name, title, description, options.seed)
    }
}

/// Propagation delay of every cable, each way.
pub(crate) const CABLE: Span = Span::from_micros(1);
/// The capacity of every queue of a switch, and the level from which it marks.
const QUEUE: &str = "queue=16MiB,ecn=200KiB";
/// Bytes of a frame in addition to the user data of a WRITE, over IPv4.
pub(crate) const OVERHEAD: u64 = 14 + 20 + 8 + 16 + 28 + 28;

/// The bottleneck of [`bottleneck`].
pub(crate) const TRUNK: Egress = Egress::Trunk(Trunk(0));
/// In a star, the link towards the host to which all write.
pub(crate) const FIRST_HOST: Egress = Egress::Host(Port(0));

/// Returns the settings of a link from a switch.
fn link(rate: Rate) -> String {
    format!("rate={rate},delay={CABLE},{QUEUE},hops=1")
}

/// Returns a multiple of a rate.
pub(crate) fn times(rate: Rate, factor: u64) -> Result<Rate> {
    let bits = rate.bits_per_second().checked_mul(factor);
    bits.and_then(Rate::from_bits_per_second).context("the rate is too large")
}

/// Returns a fraction of a rate.
pub(crate) fn part(rate: Rate, divisor: u64) -> Result<Rate> {
    Rate::from_bits_per_second(rate.bits_per_second() / divisor).context("the rate is too small")
}

fn plan(topology: Topology, fabric: &str, line_rate: Rate) -> Result<Plan> {
    let fabric: FabricConfig = fabric.parse().context("the fabric's own keys")?;
    let host = HostModel { line_rate, cable: CABLE, ..HostModel::default() };
    Ok(Plan { host, ..Plan::new(topology, fabric) })
}

/// Makes `pairs` hosts on each side of `paths` cables of the selected rate. The hosts' own cables have
/// `host_rate`.
pub(crate) fn bottleneck(options: &Options, pairs: u16, paths: u16, host_rate: Rate) -> Result<Plan> {
    let fabric = format!("seed={},{};trunks:{}", options.seed, link(host_rate), link(options.rate()));
    plan(Topology::dumbbell(pairs, pairs, paths), &fabric, host_rate)
}

/// Makes `hosts` at one switch, with all cables of the selected rate. `towards` adds settings for the link
/// towards a port.
pub(crate) fn star(options: &Options, hosts: u16, towards: Option<(u16, String)>) -> Result<Plan> {
    let link = link(options.rate());
    let differing = towards.map(|(port, more)| format!(";{port}:{link},{more}")).unwrap_or_default();
    plan(Topology::star(hosts), &format!("seed={},{link}{differing}", options.seed), options.rate())
}

/// Makes leaf and spine switches, with all cables of the selected rate.
pub(crate) fn leaf_spine(options: &Options, leaves: u16, hosts_per_leaf: u16, spines: u16) -> Result<Plan> {
    let link = link(options.rate());
    let fabric = format!("seed={},{link};trunks:{link}", options.seed);
    plan(Topology::leaf_spine(leaves, hosts_per_leaf, spines), &fabric, options.rate())
}

/// Returns a flow that writes from `start` on without end.
pub(crate) fn endless(options: &Options, source: u16, destination: u16, start: Time) -> FlowPlan {
    let message = Message { at: start, bytes: u64::MAX };
    FlowPlan { tuning: options.tuning(), ..FlowPlan::new(source, destination, vec![message]) }
}

/// Returns the tuning that the connection manager would give a connection with these parameters over a path with this round
/// trip.
pub(crate) fn chosen(
    options: &Options,
    parameters: CongestionParameters,
    round_trip: Span,
) -> Result<Tuning> {
    let congestion = CongestionControl { parameters, ..CongestionControl::SWIFT };
    let chosen = tiercel::Tuning { congestion, ..tiercel::Tuning::DEFAULT };
    let chosen = chosen.for_round_trip(Duration::from_nanos(round_trip.0 / 1000));
    let mut tuning = Tuning {
        rto: Ticks::from_nanos(chosen.rto.as_nanos() as u64),
        ack_request_percent: chosen.ack_request_percent,
        ..options.tuning()
    };
    tuning.settings.prepared = chosen.congestion.parameters.prepare()?;
    Ok(tuning)
}

/// Returns the time that `bytes` of user data take on a link, with headers.
pub(crate) fn wire_time(options: &Options, rate: Rate, bytes: u64) -> Span {
    let packets = bytes.div_ceil(u64::from(options.tuning().segment));
    rate.time_of(bytes + packets * OVERHEAD)
}

/// Returns the user data divided by the bytes on the wire, for full packets.
pub(crate) fn efficiency(options: &Options) -> f64 {
    let segment = f64::from(options.tuning().segment);
    segment / (segment + OVERHEAD as f64)
}

/// Returns the common settings of all experiments.
pub(crate) fn settings(options: &Options) -> BTreeMap<&'static str, String> {
    let tuning = options.tuning();
    [
        ("rate", options.rate().to_string()),
        ("cable", CABLE.to_string()),
        ("queue", QUEUE.to_owned()),
        ("segment", format!("{} B", tuning.segment)),
        ("initial fcwnd", options.fcwnd.to_string()),
        ("initial ncwnd", tuning.ncwnd.to_string()),
        ("initial RTO", options.rto.to_string()),
        ("RACK-TLP", if options.rack_tlp { "on" } else { "off" }.to_owned()),
        ("hop limit", INITIAL_HOP_LIMIT.to_string()),
        ("parameters", options.changes()),
    ]
    .into()
}
