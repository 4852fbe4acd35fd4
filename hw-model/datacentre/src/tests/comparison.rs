//! Tests go-back-N, and compares it with Falcon on the same losses.

use fabric_model::{FabricConfig, Rate, Span, Time};

use super::{FRAME, SEGMENT, build, micros, star, write};
use crate::HostModel;
use crate::go_back_n::{Outcome, Transfer, run};
use transport_common::units::{Fcwnd, Ticks};

const PACKETS: u64 = 2_000;
const WINDOW: u32 = 64;

fn transfer() -> Transfer {
    Transfer {
        packets: PACKETS,
        segment: SEGMENT as u32,
        window: WINDOW.into(),
        timeout: Span::from_micros(100),
        host: HostModel::default(),
        sample_every: Span::from_micros(100),
    }
}

fn go_back_n(fabric: &str) -> Outcome {
    run(transfer(), fabric.parse().expect("valid"), micros(1_000_000)).expect("the ports exist")
}

#[test]
fn without_loss_it_runs_at_line_rate() {
    let outcome = go_back_n("rate=100Gbps,delay=1us,queue=1MiB");
    let line = Rate::from_bits_per_second(100_000_000_000).expect("not zero");
    let ideal = PACKETS * line.time_of(FRAME).0;
    let time = outcome.completed.expect("complete");
    assert!((ideal..ideal + ideal / 50).contains(&time), "{time} ps, ideal {ideal} ps");
    let Outcome { sent, discarded, naks, timeouts, .. } = outcome;
    assert_eq!((sent, discarded, naks, timeouts), (PACKETS, 0, 0, 0));
    assert!(outcome.delivered.is_sorted() && outcome.delivered.len() > 3);
}

#[test]
fn one_loss_costs_a_round_trip_of_packets() {
    // The link is down while exactly one packet is offered to it.
    let down = "rate=100Gbps,delay=1us,queue=1MiB,down=100us-100.2us";
    let outcome = go_back_n(&format!("{};1:{down}", "rate=100Gbps,delay=1us"));
    assert_eq!((outcome.naks, outcome.timeouts), (1, 0));
    assert_eq!(outcome.sent, PACKETS + outcome.discarded + 1);
    // The round trip is 4 us of cables and links, and a packet takes 0.27 us.
    assert!((15..20).contains(&outcome.discarded), "{outcome:?}");
}

#[test]
fn what_no_nak_repairs_a_timeout_does() {
    // The last packets are lost, so no packet comes out of order.
    let line = Rate::from_bits_per_second(100_000_000_000).expect("not zero");
    let end = PACKETS * line.time_of(FRAME).0;
    let from = Span(end - Span::from_micros(2).0);
    let outcome =
        go_back_n(&format!("rate=100Gbps,delay=1us,queue=1MiB,down={from}-{}", from + Span::from_micros(10)));
    assert_eq!((outcome.naks, outcome.timeouts), (0, 1));
    assert!(outcome.completed.is_some_and(|time| time > end + Span::from_micros(100).0));
}

#[test]
fn what_is_not_complete_in_time_says_so() {
    let fabric = "loss=100%".parse::<FabricConfig>().expect("valid");
    let outcome = run(transfer(), fabric, micros(1_050)).expect("the ports exist");
    assert_eq!((outcome.completed, outcome.timeouts), (None, 10));
    assert_eq!(outcome.delivered, [0; 11]);
}

#[test]
fn selective_repair_beats_going_back_on_the_same_losses() {
    for seed in 0..3 {
        let fabric = format!(
            "seed={seed},rate=100Gbps,delay=1us,queue=1MiB;1:loss=1%,rate=100Gbps,delay=1us,queue=1MiB"
        );
        let theirs = go_back_n(&fabric);
        let mut plan = star(2, &fabric);
        plan.flows = vec![write(0, 1, PACKETS * SEGMENT)];
        plan.flows[0].tuning.fcwnd = Fcwnd::from_packets(WINDOW);
        plan.flows[0].tuning.rto = Ticks::from_nanos(100_000);
        let mut data_centre = build(plan);
        assert!(data_centre.run_to_completion(micros(1_000_000)));
        let ours: Time = data_centre.flow(0).completions()[0].expect("complete");
        let theirs = (theirs.completed.expect("complete"), theirs.sent);
        let sent = data_centre.host_stats()[0].sent;
        assert!(ours.0 < theirs.0 && sent < theirs.1, "{ours:?}, {sent} packets against {theirs:?}");
    }
}
