//! Every protocol over a fabric that loses, reorders and trims, in both directions.

use anyhow::Result;
use fabric_model::{ByteCount, Impairments, Probability, Span, Time};
use lab_report::{Case, Experiment, Verdict};
use model_experiment::{Options, Progress};
use tonic_model::protocols::{Irn, Ndp, NewReno, Reno, RoceDcqcn, Sack, Tcp};
use tonic_model::{Answer, Parameters, Tonic};

use crate::drops::DropPattern;
use crate::frame::MIN_FRAME;
use crate::nic::{FlowPlan, Look, TonicNic};
use crate::receiving::TonicReceiving;
use crate::scenario::{BUFFER, CLOCK, SEGMENT};
use crate::world::{Cabling, TonicNetwork};

use super::common::{experiment, tcp, time};

const HOSTS: u16 = 2;
const FLOWS: u16 = 4;
/// The number of segments of each flow.
const SEGMENTS: u32 = 2_000;
/// The bytes that remain of a trimmed frame. They include all its fields.
const CUT: ByteCount = ByteCount(MIN_FRAME as u64);
/// The queue of a switch that trims.
const SHORT: ByteCount = ByteCount(30_000);
/// The simulated time at which a stalled run ends.
const LIMIT: Span = Span::from_millis(120_000);
const STEP: Span = Span::from_millis(10);

fn percent(percent: u32) -> Probability {
    Probability::from_parts_per_billion(percent * 10_000_000).unwrap_or(Probability::ALWAYS)
}

/// Returns the impairments of the paths, with their names.
fn paths() -> [(&'static str, Impairments); 4] {
    let clean = Impairments::default();
    let late = Impairments { reorder: percent(5), reorder_hold: Span::from_micros(20), ..clean.clone() };
    [
        ("clean", clean.clone()),
        ("1 % lost", Impairments { loss: percent(1), ..clean.clone() }),
        ("1 % lost, 5 % late", Impairments { loss: percent(1), ..late }),
        ("a queue of 30 KB that trims, 1 % lost", Impairments { trim: Some(CUT), loss: percent(1), ..clean }),
    ]
}

/// The path, the seed and the longest time of a run.
#[derive(Clone, Copy)]
struct Setting<'a> {
    path: (&'a str, &'a Impairments),
    seed: u64,
    limit: Span,
}

/// Runs a protocol on a path. Returns its case, and whether all segments were delivered.
fn deliver<P: Look + Copy + 'static>(
    protocol: P,
    answer: Answer,
    setting: Setting<'_>,
) -> Result<(Case, bool)> {
    let scenario = tcp(HOSTS, FLOWS, setting.seed);
    let cabling = Cabling {
        rate: scenario.rate,
        clock_tolerance: 0,
        processing: Span::ZERO,
        delay: Span(scenario.round_trip.0 / 4),
        buffer: if setting.path.1.trim.is_some() { SHORT } else { BUFFER },
        flow_control: None,
        red: None,
        impairments: setting.path.1.clone(),
        drops: DropPattern::none(),
        seed: setting.seed,
    };
    let mut network = TonicNetwork::new(HOSTS + 1, &cabling)?;
    let parameters =
        Parameters { flows: 16, segment_bytes: SEGMENT, burst_bytes: 2 * SEGMENT, ..Parameters::default() };
    let plan = FlowPlan { start: Time::ZERO, destination: HOSTS, segments: Some(SEGMENTS) };
    for host in 0..HOSTS {
        let tonic = Tonic::<P, 2>::new(protocol, &parameters)?;
        let plans = vec![plan; FLOWS.into()];
        network.set_sender(host, Box::new(TonicNic::new(host, tonic, CLOCK, SEGMENT as usize, plans, None)));
        let receiving = TonicReceiving::new(answer, FLOWS.into(), CLOCK, CLOCK.cycles(50_000));
        network.set_receiving(HOSTS, host, Box::new(receiving));
    }
    let wanted = u64::from(HOSTS) * u64::from(FLOWS) * u64::from(SEGMENTS);
    let delivered = |network: &TonicNetwork| -> u64 {
        let flows = (0..HOSTS).flat_map(|host| (0..FLOWS).map(move |flow| (host, flow)));
        flows.map(|(host, flow)| network.delivered(host, HOSTS, flow)).sum()
    };
    while delivered(&network) < wanted && network.now() < Time::ZERO + setting.limit {
        network.run(network.now() + STEP);
    }
    let logs = || (0..HOSTS).filter_map(|host| network.sender(host)).map(|sender| sender.log());
    let arrived = delivered(&network);
    let case = Case::new(format!("{}, {}", P::NAME, setting.path.0))
        .with("segments", wanted as f64, "")
        .with("delivered", arrived as f64, "")
        .with("sent", logs().map(|log| log.transmitted).sum::<u64>() as f64, "")
        .with("trimmed", network.stats().towards.iter().map(|link| link.trimmed).sum::<u64>() as f64, "")
        .with("timeouts", logs().map(|log| log.timeouts).sum::<u64>() as f64, "")
        .with("within", network.now().0 as f64 / 1e9, "ms");
    Ok((case, arrived == wanted))
}

/// Runs the experiment: six protocols on four paths.
pub(super) fn run(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let bits = 10_000_000_000;
    let tcp_settings = Tcp::new(CLOCK);
    let roce = RoceDcqcn { window: 128, ..RoceDcqcn::new(CLOCK, bits, SEGMENT) };
    let limit = time(options, LIMIT);
    let mut experiment = experiment(
        "tonic-network-delivery",
        &tcp(HOSTS, FLOWS, options.seed),
        limit,
        "Two Tonics send four flows of 2000 segments each to a third host. The switch drops, delays and \
         trims frames in both directions. A trimmed segment counts as lost, except for NDP. A run ends when \
         all segments have arrived.",
    );
    let mut all = true;
    let paths = paths();
    for (done, (name, impairments)) in paths.iter().enumerate() {
        let setting = Setting { path: (name, impairments), seed: options.seed, limit };
        let runs = [
            deliver(Reno(tcp_settings), Answer::Cumulative, setting)?,
            deliver(NewReno(tcp_settings), Answer::Cumulative, setting)?,
            deliver(Sack(tcp_settings), Answer::Selective, setting)?,
            deliver(Ndp::new(CLOCK), Answer::Ndp, setting)?,
            deliver(roce, Answer::GoBackN, setting)?,
            deliver(Irn::new(CLOCK, bits), Answer::Irn, setting)?,
        ];
        for (case, delivered) in runs {
            all &= delivered;
            experiment.cases.push(case);
        }
        progress(done + 1, paths.len());
    }
    experiment.verdicts = vec![Verdict::claim("every protocol delivers every segment on every path", all)];
    Ok(experiment)
}
