//! Hosts, links and flows that several experiments describe, and the report of each.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fabric_model::{Egress, Port, Rate, Span, Time, Topology, Trunk};
use lab_report::{Bound, Case, Experiment, Figure, Verdict, World as Kind};
use tiercel::Tuning;
use tiercel::congestion::CongestionControl;
use transport_common::connection::INITIAL_HOP_LIMIT;

use crate::kind::pick;
use crate::options::Options;
use crate::run::LOST_BY_THE_KERNEL;
use crate::world::{CABLE, Description, End, Sender};

/// User data of a full packet: the largest size that the live hosts' MTU allows over IPv4, bytes.
pub(crate) const SEGMENT: u64 = 3264;
/// Bytes of a frame in addition to the user data of a WRITE, over IPv4.
pub(crate) const OVERHEAD: u64 = 14 + 20 + 8 + 16 + 28 + 28;
/// The capacity of every simulated queue, and the level from which it marks.
const QUEUE: &str = "queue=16MiB,ecn=200KiB";
/// Settings of live links in addition to their rate.
const LIVE_LINK: &str = "delay=100us,queue=4MiB";

/// In a star, the link towards the host to which all write.
pub(crate) const FIRST_HOST: Egress = Egress::Host(Port(0));

/// Returns the name and the title of an experiment in both worlds.
macro_rules! in_both {
    ($name:literal, $title:literal) => {
        [($name, $title), (concat!($name, "-live"), concat!($title, ", on real packets"))]
    };
}
pub(crate) use in_both;

/// The numbers, promises and figures of an experiment.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) cases: Vec<Case>,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) figures: Vec<Figure>,
}

impl Results {
    /// Makes the report of an experiment, with its names in both worlds. On real packets each case promises that the kernel
    /// lost nothing.
    pub(crate) fn report(
        self,
        options: &Options,
        kind: Kind,
        [simulated, live]: [(&'static str, &'static str); 2],
        description: impl Into<String>,
    ) -> Experiment {
        let Self { cases, mut verdicts, figures } = self;
        let (name, title) = pick(kind, simulated, live);
        let on_real_packets = cases.iter().filter(|case| case.value(LOST_BY_THE_KERNEL).is_some());
        verdicts
            .extend(on_real_packets.map(|case| Verdict::of(case, LOST_BY_THE_KERNEL, Bound::AtMost(0.0))));
        Experiment {
            congestion_control: Some(options.algorithm()),
            settings: settings(options, kind),
            cases,
            verdicts,
            figures,
            ..Experiment::new(kind, name, title, description, options.seed)
        }
    }
}

/// Returns the settings of a link from a switch.
fn link(kind: Kind, rate: Rate) -> String {
    let simulated = format!("rate={rate},delay={CABLE},{QUEUE},hops=1");
    // The model between live hosts does not decrement the hop limit.
    pick(kind, simulated, format!("rate={rate},{LIVE_LINK}"))
}

/// Returns the number of switches that a path over a trunk shows by its hop limit.
pub(crate) fn hops(kind: Kind) -> u32 {
    pick(kind, 2, 0)
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

/// Describes hosts without flows, whose run ends at its start. `fabric` has the links out of switches.
pub(crate) fn hosts(topology: Topology, fabric: &str, host_rate: Rate) -> Result<Description> {
    Ok(Description {
        topology,
        fabric: fabric.parse().context("the fabric's own keys")?,
        host_rate,
        demand: None,
        slow_ulp: None,
        sender: Sender::Falcon,
        flows: vec![],
        draws: 1,
        sample_every: Span::ZERO,
        watch: vec![],
        observe: false,
        marks: vec![],
        changes: vec![],
        end: End::At(Time::ZERO),
    })
}

/// Describes hosts for `flows` flows over `paths` cables of this rate. The hosts' own cables have `host_rate`.
pub(crate) fn bottleneck(
    options: &Options,
    kind: Kind,
    flows: u16,
    (paths, rate): (u16, Rate),
    host_rate: Rate,
) -> Result<Description> {
    let fabric = format!("seed={},{};trunks:{}", options.seed, link(kind, host_rate), link(kind, rate));
    let pairs = pairs(kind, flows);
    let watch = (0..paths).map(|path| Egress::Trunk(Trunk(path))).collect();
    Ok(Description { watch, ..hosts(Topology::dumbbell(pairs, pairs, paths), &fabric, host_rate)? })
}

/// Returns the number of hosts on each side of a bottleneck. Each live host needs CPU time of its own, so all live flows go
/// between two.
pub(crate) fn pairs(kind: Kind, flows: u16) -> u16 {
    pick(kind, flows, 1)
}

/// Returns the hosts of a flow among these flows over a bottleneck.
pub(crate) fn ends(kind: Kind, flows: u16, flow: u16) -> [u16; 2] {
    pick(kind, [flow, flows + flow], [0, 1])
}

/// Describes `hosts` at one switch, with all cables of the selected rate. `towards` adds settings for the link towards a
/// port.
pub(crate) fn star(
    options: &Options,
    kind: Kind,
    hosts: u16,
    towards: Option<(u16, String)>,
) -> Result<Description> {
    let link = link(kind, options.rate());
    let differing = towards.map(|(port, more)| format!(";{port}:{link},{more}")).unwrap_or_default();
    let fabric = format!("seed={},{link}{differing}", options.seed);
    self::hosts(Topology::star(hosts), &fabric, options.rate())
}

/// Describes leaf and spine switches, with all cables of the selected rate.
pub(crate) fn leaf_spine(
    options: &Options,
    kind: Kind,
    leaves: u16,
    hosts_per_leaf: u16,
    spines: u16,
) -> Result<Description> {
    let link = link(kind, options.rate());
    let fabric = format!("seed={},{link};trunks:{link}", options.seed);
    hosts(Topology::leaf_spine(leaves, hosts_per_leaf, spines), &fabric, options.rate())
}

/// Returns the tuning that the connection manager would give a connection with this congestion control over a path with
/// this round trip time.
pub(crate) fn chosen(options: &Options, congestion: CongestionControl, round_trip: Span) -> Result<Tuning> {
    let tuning = Tuning { rto: Tuning::DEFAULT.rto, congestion, ..options.tuning()? };
    Ok(tuning.for_round_trip(round_trip.into()))
}

/// Returns the time that `bytes` of user data take on a link, with headers.
pub(crate) fn wire_time(rate: Rate, bytes: u64) -> Span {
    rate.time_of(bytes + bytes.div_ceil(SEGMENT) * OVERHEAD)
}

/// Returns the user data divided by the bytes on the wire, for full packets.
pub(crate) fn efficiency() -> f64 {
    SEGMENT as f64 / (SEGMENT as f64 + OVERHEAD as f64)
}

/// Returns the user data that a link of this rate carries, bits per second.
pub(crate) fn user_rate(rate: Rate) -> f64 {
    efficiency() * rate.bits_per_second() as f64
}

/// Returns the user data that a link of this rate carries, Gb/s.
pub(crate) fn full_rate(rate: Rate) -> f64 {
    user_rate(rate) / 1e9
}

/// Returns the common settings of all experiments of a world.
pub(crate) fn settings(options: &Options, kind: Kind) -> BTreeMap<&'static str, String> {
    let links = [("cable", CABLE.to_string()), ("queue", QUEUE.to_owned())];
    let links = pick(kind, links.to_vec(), vec![("links", LIVE_LINK.to_owned())]);
    let hop_limit = ("hop limit", INITIAL_HOP_LIMIT.to_string());
    let common = [
        ("rate", options.rate().to_string()),
        ("segment", format!("{SEGMENT} B")),
        ("initial fcwnd", options.fcwnd.to_string()),
        ("initial ncwnd", options.ncwnd.to_string()),
        ("initial RTO", options.initial_rto().to_string()),
        ("RACK-TLP", if options.rack_tlp { "on" } else { "off" }.to_owned()),
        ("parameters", options.changes()),
    ];
    let simulated = pick(kind, Some(hop_limit), None);
    common.into_iter().chain(links).chain(simulated).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn flows_have_hosts_of_their_own_on_virtual_time_only() {
        let options = Options::parse_from(["experiment"]);
        for (kind, hosts, last) in [(Kind::Simulation, 6, [2, 5]), (Kind::Live, 2, [0, 1])] {
            let rate = options.rate();
            let described = bottleneck(&options, kind, 3, (2, rate), rate).expect("valid");
            assert_eq!((described.topology.hosts(), ends(kind, 3, 2)), (hosts, last));
            assert_eq!(described.watch.len(), 2);
        }
    }

    #[test]
    fn a_frame_that_the_kernel_lost_breaks_a_promise() {
        let options = Options::parse_from(["experiment"]);
        let report = |lost: Option<f64>| {
            let case = lost
                .into_iter()
                .fold(Case::new("c"), |case, lost| case.with(LOST_BY_THE_KERNEL, lost, "frames"));
            let results = Results { cases: vec![case], ..Results::default() };
            results.report(&options, Kind::Live, in_both!("a", "A"), "")
        };
        assert_eq!(report(None).verdicts.len(), 0);
        let [kept, broken] = [0.0, 1.0].map(|lost| report(Some(lost)).verdicts.remove(0).holds);
        assert!(kept && !broken);
        assert_eq!((report(None).name, report(None).title), ("a-live", "A, on real packets"));
    }
}
