//! Every protocol on clean and impaired paths.

use clocked::Cycle;
use fabric_model::Probability;
use serde::{Deserialize, Serialize};

use crate::protocols::{Falcon, Irn, Ndp, NewReno, Reno, RoceDcqcn, Sack, Swift, SwiftWindow, Tcp};
use crate::{Answer, FlowId, Frequency, Parameters, Path, Protocol, Receiver, Segment, Testbed, Tonic};

use super::claim::{Claim, Progress};

/// A run of a protocol on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRow {
    /// The name of the protocol.
    pub protocol: String,
    /// The name of the path.
    pub path: String,
    /// The number of segments to deliver, of all flows.
    pub segments: u64,
    /// The number of segments that arrived.
    pub delivered: u64,
    /// The number of segments that left Tonic.
    pub transmitted: u64,
    /// The number of segments that arrived again.
    pub duplicates: u64,
    /// The cycles until all segments had arrived.
    pub cycles: u64,
}

/// The runs of eight protocols on four paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The runs.
    pub rows: Vec<DeliveryRow>,
}

const CLOCK: Frequency = Frequency { hertz: 100_000_000 };
const FLOWS: u16 = 4;
const SEGMENTS: u32 = 5_000;
/// Eight protocols on four paths.
const RUNS: usize = 32;
/// The delay in each direction: a round trip of 10 us.
const DELAY: u64 = 500;

const fn percent(percent: u32) -> Probability {
    match Probability::from_parts_per_billion(percent * 10_000_000) {
        Some(probability) => probability,
        None => Probability::ALWAYS,
    }
}

/// Returns the paths with their names. Only NDP knows trimming. For other protocols, [`deliver`] replaces the loss
/// of a path that trims by its probability of trimming.
fn paths(seed: u64) -> [(&'static str, Path); 4] {
    let path = Path { delay: DELAY, return_delay: DELAY, link_cycles: 12, seed, ..Path::default() };
    [
        ("clean", path),
        ("1 % loss", Path { loss: percent(1), control_loss: percent(1), ..path }),
        ("5 % late by up to 10 us", Path { late: percent(5), late_cycles: 1_000, ..path }),
        ("10 % trimmed, 1 % loss", Path { trim: percent(10), loss: percent(1), ..path }),
    ]
}

fn deliver<P: Protocol>(protocol: P, answer: Answer, name: &str, path: Path) -> DeliveryRow {
    let path = match answer {
        Answer::Ndp => path,
        _ if path.trim == Probability::NEVER => path,
        _ => Path { loss: path.trim, trim: Probability::NEVER, ..path },
    };
    let parameters = Parameters { flows: 64, ..Parameters::default() };
    let tonic = Tonic::<_, 2>::new(protocol, &parameters).expect("hardware that exists");
    let receiver = Receiver::new(answer, FLOWS.into(), Segment(0), CLOCK.cycles(50_000));
    let mut testbed = Testbed::new(tonic, receiver, path);
    for flow in 0..FLOWS {
        testbed.tonic_mut().open(Cycle::ZERO, FlowId(flow), Segment(0), Some(SEGMENTS)).expect("a new flow");
    }
    let segments = u64::from(FLOWS) * u64::from(SEGMENTS);
    // An hour of simulated time. A stalled run ends there.
    testbed.run(Cycle(360_000_000_000), |testbed| testbed.receiver().delivered() == segments);
    DeliveryRow {
        protocol: P::NAME.to_owned(),
        path: name.to_owned(),
        segments,
        delivered: testbed.receiver().delivered(),
        transmitted: testbed.transmitted(),
        duplicates: testbed.receiver().duplicates(),
        cycles: testbed.clock().now().0,
    }
}

pub(super) fn run(seed: u64, progress: Progress<'_>) -> (Vec<Claim>, Delivery) {
    // Timeouts for a data center: 1 ms instead of the 200 ms for a wide area network.
    let tcp = Tcp { initial_rto: 100_000, min_rto: 100_000, ..Tcp::new(CLOCK) };
    let rate = 100_000_000_000;
    let swift = SwiftWindow::new(CLOCK, rate, 1_500);
    let mut rows = Vec::new();
    for (name, path) in paths(seed) {
        progress(rows.len(), RUNS);
        rows.push(deliver(Reno(tcp), Answer::Cumulative, name, path));
        rows.push(deliver(NewReno(tcp), Answer::Cumulative, name, path));
        rows.push(deliver(Sack(tcp), Answer::Selective, name, path));
        rows.push(deliver(Ndp::new(CLOCK), Answer::Ndp, name, path));
        rows.push(deliver(RoceDcqcn::new(CLOCK, rate, 1_500), Answer::GoBackN, name, path));
        rows.push(deliver(Irn::new(CLOCK, rate), Answer::Irn, name, path));
        rows.push(deliver(Swift(swift), Answer::Selective, name, path));
        rows.push(deliver(Falcon::new(swift), Answer::Falcon, name, path));
    }
    progress(RUNS, RUNS);
    let claims = vec![
        Claim::new(
            "every protocol delivers every segment on every path",
            rows.iter().all(|row| row.delivered == row.segments),
        ),
        Claim::new(
            "on the clean path no segment is sent twice",
            rows.iter().filter(|row| row.path == "clean").all(|row| row.transmitted == row.segments),
        ),
    ];
    (claims, Delivery { rows })
}
