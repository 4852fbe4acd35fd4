//! NewReno with test vectors.

use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::{Event, EventType, RetransmitReason};
use transport_common::congestion::newreno::newreno;
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::result::Outcome;
use transport_common::units::{Fcwnd, Ticks};

use crate::input::{ack, after, dirty, fcwnd};

fn run(event: &Event, engine: &mut EngineState) -> Outcome {
    let mut outcome = dirty();
    newreno(event, engine, &Prepared::default(), &mut outcome);
    outcome
}

/// Slow start: each acknowledged packet adds one packet, up to the largest window.
#[test]
fn slow_start_doubles_a_window() {
    let mut engine = EngineState::default();
    let mut outcome = run(&Event { fcwnd: fcwnd(4.0), num_packets_acked: 4, ..ack(0, 100) }, &mut engine);
    for window in [16.0, 32.0, 64.0, 128.0, 256.0, 256.0] {
        let acked = outcome.fcwnd.packets() as u16;
        outcome = run(&after(&outcome, Event { num_packets_acked: acked, ..ack(0, 100) }), &mut engine);
        assert_eq!(outcome.fcwnd, fcwnd(window));
    }
}

/// A loss halves the window at most once per RTT. From then on it grows by one packet per window.
#[test]
fn loss_halves_and_then_grows_linearly() {
    let lossy = |now| Event { fcwnd: fcwnd(40.0), eack: 1, eack_drop: 1, ..ack(now, 100) };
    let mut engine = EngineState::default();
    let cut = run(&lossy(100_000), &mut engine);
    assert_eq!((cut.fcwnd, cut.fabric_window_time_marker), (fcwnd(20.0), NicTime(100_000)));
    let again = run(&after(&cut, lossy(100_099)), &mut engine);
    assert_eq!(again.fcwnd, fcwnd(20.0), "within the RTT");
    let early = Event {
        event_type: EventType::RETRANSMIT,
        retransmit_reason: RetransmitReason::EARLY,
        rtt_state: Ticks(100),
        ..ack(100_099, 0)
    };
    let early = run(&Event { rtt_state: Ticks(100), ..after(&again, early) }, &mut engine);
    assert_eq!(early.fcwnd, fcwnd(20.0), "a retransmission of the same loss");
    let grown = run(&after(&early, Event { num_packets_acked: 20, ..ack(100_150, 100) }), &mut engine);
    assert_eq!(grown.fcwnd, fcwnd(21.0));
    let second = run(&after(&grown, lossy(100_200)), &mut engine);
    assert_eq!(second.fcwnd, fcwnd(10.5));
}

/// NewReno ignores delay and ECN.
#[test]
fn delay_is_ignored() {
    let mut engine = EngineState::default();
    let outcome = run(&Event { ecn_accumulated: 500, ..ack(0, 1 << 20) }, &mut engine);
    assert_eq!(outcome.fcwnd, fcwnd(17.0));
    assert_eq!(outcome.randomize_path, 0);
}

/// Repeated timeouts of a packet: the window is one packet, and slow start ends at half of the window before the
/// loss.
#[test]
fn repeated_timeouts_start_over() {
    let mut engine = EngineState::default();
    let timeout =
        |count, now| Event { event_type: EventType::RETRANSMIT, retransmit_count: count, ..ack(now, 0) };
    let first = run(&timeout(1, 100_000), &mut engine);
    assert_eq!(first.fcwnd, fcwnd(8.0));
    let limit = run(&after(&first, timeout(3, 100_100)), &mut engine);
    assert_eq!((limit.fcwnd, limit.fabric_window_time_marker), (fcwnd(1.0), NicTime(100_100)));
    let grown = run(&after(&limit, Event { num_packets_acked: 5, ..ack(101_000, 100) }), &mut engine);
    assert_eq!(grown.fcwnd, fcwnd(6.0));
    let reached = run(&after(&grown, Event { num_packets_acked: 5, ..ack(102_000, 100) }), &mut engine);
    assert_eq!(reached.fcwnd, fcwnd(8.0));
    let beyond = run(&after(&reached, Event { num_packets_acked: 8, ..ack(103_000, 100) }), &mut engine);
    assert_eq!(beyond.fcwnd, fcwnd(9.0));
}

/// A loss never raises a window, however small the window is.
#[test]
fn loss_does_not_raise_a_small_window() {
    for window in [Fcwnd(10), fcwnd(0.5), fcwnd(1.0), fcwnd(3.0)] {
        for count in [1, 3] {
            let mut engine = EngineState::default();
            let event = Event {
                event_type: EventType::RETRANSMIT,
                retransmit_count: count,
                fcwnd: window,
                ..ack(100_000, 0)
            };
            assert!(run(&event, &mut engine).fcwnd <= window);
        }
    }
}

/// The NIC window is that of Swift.
#[test]
fn the_nic_window_follows_the_level() {
    let mut engine = EngineState::default();
    let outcome = run(&Event { rx_buffer_level: 20, ..ack(100_000, 100) }, &mut engine);
    assert_eq!(outcome.ncwnd, 48);
    assert!(outcome.is_legal(&Parameters::DEFAULT));
}
