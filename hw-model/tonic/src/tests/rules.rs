//! Scheduling and the rule about N.

use clocked::Cycle;

use crate::{Answer, FlowId, Parameters, Path, Rules, Segment};

use super::{fixed_window, testbed};

/// Returns the number of segments that each flow transmits in a number of cycles.
fn transmitted(parameters: &Parameters, flows: u16, window: u16, cycles: u64) -> Vec<u64> {
    let all = (flows, Segment(0), None);
    let mut testbed = testbed(fixed_window(window), parameters, Answer::Cumulative, Path::default(), all);
    let mut count = vec![0; flows.into()];
    while let Some((_, output)) = testbed.step(Cycle(cycles)) {
        if let Some(address) = output.transmit {
            count[address.flow.index()] += 1;
        }
    }
    count
}

/// From generation to decrement it is 17 cycles. A stopped flow is then selected, looked up and processed again.
/// So the flow sends 16 segments every 20 cycles.
#[test]
fn one_flow_sends_n_segments_a_loop() {
    let parameters = Parameters::default();
    assert_eq!(parameters.outstanding, 16);
    assert_eq!(transmitted(&parameters, 1, 128, 12 + 20 * 500), [16 * 500]);
    // With more addresses than the loop has cycles, the flow never stops.
    let parameters = Parameters { outstanding: 18, ..Parameters::default() };
    assert_eq!(transmitted(&parameters, 1, 128, 12 + 10_000), [10_000]);
}

#[test]
fn with_n_32_one_flow_sends_a_segment_a_cycle_under_either_rule() {
    for rules in [Rules::Paper, Rules::Published] {
        let parameters = Parameters { outstanding: 32, rules, ..Parameters::default() };
        let path = Path::default();
        let mut testbed =
            testbed(fixed_window(128), &parameters, Answer::Cumulative, path, (1, Segment(0), None));
        let mut sent = 0;
        while let Some((now, output)) = testbed.step(Cycle(10_012)) {
            assert_eq!(output.transmit.is_some(), now >= Cycle(12), "in cycle {now}");
            sent += u64::from(output.transmit.is_some());
        }
        assert_eq!(sent, 10_000);
    }
}

/// Flows are served in round-robin order: the numbers of segments that they send differ by at most two.
#[test]
fn flows_share_the_cycles() {
    let parameters = Parameters { flows: 2048, ..Parameters::default() };
    for flows in [2, 3, 4, 7, 100, 1024, 2048] {
        let count = transmitted(&parameters, flows, 128, 12 + 40_000);
        let (least, most) = (count.iter().min().copied(), count.iter().max().copied());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 2), "{flows} flows: {count:?}");
        assert_eq!(count.iter().sum::<u64>(), 40_000, "{flows} flows");
    }
}

/// A flow never exceeds its window. It reaches N outstanding addresses under the paper's rule, and N-5 under the
/// hardware's rule, but not more.
#[test]
fn outstanding_addresses_never_exceed_n() {
    for (rules, limit) in [(Rules::Paper, 16), (Rules::Published, 11)] {
        let parameters = Parameters { flows: 16, rules, ..Parameters::default() };
        let path = Path { link_cycles: 5, ..Path::default() };
        let mut testbed =
            testbed(fixed_window(64), &parameters, Answer::Cumulative, path, (3, Segment(0), None));
        let mut reached = 0;
        while testbed.step(Cycle(5_000)).is_some() {
            for flow in 0..3 {
                let status = testbed.clock().block().status(FlowId(flow)).expect("it is open");
                reached = reached.max(status.outstanding);
                assert!(status.next_new.after(status.window_start) <= 64);
            }
        }
        assert_eq!(reached, limit);
    }
}
