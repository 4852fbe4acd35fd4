//! Each protocol under loss, reordering and trimming: every segment arrives, and no flow stalls.

use clocked::Cycle;
use fabric_model::Probability;
use proptest::prelude::*;
use transport_common::congestion;
use transport_common::units::{Fcwnd, Ticks};

use crate::protocols::{Falcon, Irn, Ndp, NewReno, Reno, RoceDcqcn, Sack, Swift, SwiftWindow, Tcp};
use crate::{Answer, FlowId, Latencies, Parameters, Path, Protocol, Rules, Segment};

use super::{CLOCK, testbed};

const FLOWS: u16 = 3;
const SEGMENTS: u32 = 300;

/// Timeouts that have the same proportion to this path as real timeouts to a real network.
fn tcp() -> Tcp {
    Tcp { initial_rto: 20_000, min_rto: 5_000, max_rto: 200_000, ..Tcp::new(CLOCK) }
}

/// A timeout of at least 50 us, and a window of at least a tenth of a segment.
fn swift_window() -> SwiftWindow {
    let parameters = congestion::parameters::Parameters {
        min_fcwnd: Fcwnd(102),
        min_rto: Ticks::from_nanos(50_000),
        ..congestion::parameters::Parameters::DEFAULT
    };
    let parameters = parameters.prepare().expect("in range");
    SwiftWindow { parameters, initial_rto: 20_000, ..SwiftWindow::new(CLOCK, 40_000_000_000, 1_000) }
}

fn path() -> impl Strategy<Value = Path> {
    let percent = |most: u32| {
        (0..=most).prop_map(|percent| {
            Probability::from_parts_per_billion(percent * 10_000_000).expect("less than certain")
        })
    };
    let random = (any::<u64>(), percent(10), percent(10), percent(5));
    (random, 5..300u64, 5..300u64, 1..4u64, 1..400u64).prop_map(
        |((seed, loss, late, control_loss), delay, return_delay, link_cycles, late_cycles)| Path {
            delay,
            return_delay,
            link_cycles,
            loss,
            late,
            late_cycles,
            control_loss,
            trim: Probability::NEVER,
            seed,
        },
    )
}

/// Runs until all segments have arrived and are acknowledged. Checks the invariants in every cycle.
fn delivers<P: Protocol>(protocol: P, answer: Answer, path: Path, first: u32) {
    let parameters = Parameters { flows: 16, segment_bytes: 1_000, ..Parameters::default() };
    delivers_on(&parameters, protocol, answer, path, first);
}

/// The same for any hardware parameters.
fn delivers_on<P: Protocol>(parameters: &Parameters, protocol: P, answer: Answer, path: Path, first: u32) {
    let all = (FLOWS, Segment(first), Some(SEGMENTS));
    let mut testbed = testbed(protocol, parameters, answer, path, all);
    let end = Segment(first).plus(SEGMENTS);
    let status =
        |testbed: &super::Testbed<P>, flow| testbed.clock().block().status(FlowId(flow)).expect("open");
    let mut steps = 0;
    while (0..FLOWS).any(|flow| status(&testbed, flow).window_start != end) {
        let (now, output) = testbed.step(Cycle(2_000_000_000)).unwrap_or_else(|| {
            panic!("{} stalls: {:?}", P::NAME, [0, 1, 2].map(|flow| status(&testbed, flow)))
        });
        steps += 1;
        assert!(steps < 20_000_000, "{} is still busy in cycle {now}", P::NAME);
        if let Some(address) = output.generate {
            let status = status(&testbed, address.flow.0);
            assert!(status.outstanding <= parameters.outstanding);
            assert!(status.next_new.after(status.window_start) <= 128);
            // A generated segment was not acknowledged cumulatively before the fixed stage of this cycle.
            assert!(end.after(address.segment) <= SEGMENTS);
        }
        let next = testbed.receiver();
        if let Some(record) = output.incoming {
            let arrived = next.next(record.packet.flow).after(Segment(first));
            assert!(record.window_start_before.after(Segment(first)) <= arrived, "ahead of the receiver");
        }
    }
    for flow in 0..FLOWS {
        assert_eq!(testbed.receiver().next(FlowId(flow)), end);
    }
    assert_eq!(testbed.receiver().delivered(), u64::from(FLOWS) * u64::from(SEGMENTS));
    // Everything in flight arrives, and then the timers are off.
    testbed.run(testbed.clock().now() + 100_000_000, |_| false);
    for flow in 0..FLOWS {
        let status = status(&testbed, flow);
        assert_eq!((status.outstanding, status.marked, status.acked, status.timer), (0, 0, 0, None));
        testbed.tonic_mut().close(FlowId(flow)).expect("at rest");
    }
}

/// The rules are those of the paper. Under those of the published hardware a flow can stall, see
/// [`Rules::Published`].
fn hardware() -> impl Strategy<Value = Parameters> {
    let latency = || 1..20usize;
    let latencies = (latency(), latency(), latency(), latency());
    (4..40u16, 1..=64u8, 1..4u32, 3..20usize, latencies).prop_map(
        |(flows, outstanding, bursts, output_queue, (incoming, to_credit, from_credit, divider))| {
            Parameters {
                flows,
                outstanding,
                rules: Rules::Paper,
                segment_bytes: 1_000,
                burst_bytes: 1_000 * bursts,
                quanta: vec![1, 16, 1_024],
                output_queue,
                latencies: Latencies { incoming, to_credit, from_credit, divider },
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No rule of scheduling depends on the latencies, the output queue or N.
    #[test]
    fn any_hardware(parameters in hardware(), path in path(), first: u32) {
        delivers_on(&parameters, NewReno(tcp()), Answer::Cumulative, path, first);
        delivers_on(&parameters, Ndp { rto: 5_000, ..Ndp::new(CLOCK) }, Answer::Ndp, path, first);
        let irn = Irn { rto_low: 4_000, rto_high: 9_000, ..Irn::new(CLOCK, 40_000_000_000) };
        delivers_on(&parameters, irn, Answer::Irn, path, first);
        delivers_on(&parameters, Falcon::new(swift_window()), Answer::Falcon, path, first);
    }

    #[test]
    fn reno(path in path(), first: u32) {
        delivers(Reno(tcp()), Answer::Cumulative, path, first);
    }

    #[test]
    fn new_reno(path in path(), first: u32) {
        delivers(NewReno(tcp()), Answer::Cumulative, path, first);
    }

    #[test]
    fn sack(path in path(), first: u32) {
        delivers(Sack(tcp()), Answer::Selective, path, first);
    }

    #[test]
    fn ndp(path in path(), trim in 0..400_000_000u32, first: u32) {
        let trim = Probability::from_parts_per_billion(trim).expect("less than certain");
        delivers(Ndp { rto: 5_000, ..Ndp::new(CLOCK) }, Answer::Ndp, Path { trim, ..path }, first);
    }

    #[test]
    fn roce(path in path(), first: u32) {
        let protocol = RoceDcqcn { rto: 5_000, ..RoceDcqcn::new(CLOCK, 40_000_000_000, 1_000) };
        delivers(protocol, Answer::GoBackN, path, first);
    }

    #[test]
    fn irn(path in path(), first: u32) {
        let protocol = Irn { rto_low: 2_000, rto_high: 5_000, ..Irn::new(CLOCK, 40_000_000_000) };
        delivers(protocol, Answer::Irn, path, first);
    }

    #[test]
    fn swift(path in path(), first: u32) {
        delivers(Swift(swift_window()), Answer::Selective, path, first);
    }

    #[test]
    fn falcon(path in path(), first: u32) {
        delivers(Falcon::new(swift_window()), Answer::Falcon, path, first);
    }
}
