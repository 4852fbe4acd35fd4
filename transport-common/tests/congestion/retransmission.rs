//! Swift with test vectors: retransmissions (10.3.2, D-67, D-68).

use transport_common::congestion::event::{Event, EventType, RetransmitReason};
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::Parameters;
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};

use crate::input::{ack, after, fcwnd, plain, run};

const NOW: u32 = 16_777_000;

/// Returns the event of the `count`-th retransmission of a packet, handled at `now`. Its timestamps are not valid.
fn retransmission(count: u8, now: u32) -> Event {
    let mut event = Event {
        event_type: EventType::RETRANSMIT,
        retransmit_count: count,
        t1: NicTime(0xdead),
        t4: NicTime(0xbeef),
        rtt_state: Ticks(200),
        fabric_window_time_marker: NicTime(now).before(Ticks(200)),
        ..ack(now, 0)
    };
    event.stamp(NicTime(now));
    event
}

/// F-10.3.2-1, D-70: the first retransmission of a series cuts by the bound if an RTT (the smoothed one) has
/// elapsed.
#[test]
fn the_first_retransmission_cuts_once_an_rtt() {
    let outcome = run(&retransmission(1, NOW), &plain());
    assert_eq!((outcome.fcwnd, outcome.fabric_window_time_marker), (fcwnd(8.0), NicTime(NOW)));
    let again = run(&after(&outcome, retransmission(1, NOW + 199)), &plain());
    assert_eq!((again.fcwnd, again.fabric_window_time_marker), (fcwnd(8.0), NicTime(NOW)));
    let later = run(&after(&again, retransmission(1, NOW + 200)), &plain());
    assert_eq!(later.fcwnd, fcwnd(4.0));
    let wrapped = after(&later, retransmission(1, (NOW + 400) % (1 << 24)));
    assert_eq!(run(&wrapped, &plain()).fcwnd, fcwnd(2.0), "F-10.3.6-5: across the wrap");
}

/// F-10.3.2-2: from the limit on, the window is the smallest one, without a guard (D-67).
#[test]
fn the_limit_takes_the_window_to_its_minimum() {
    for (count, window) in [(0, 16.0), (2, 16.0), (3, 0.01), (7, 0.01)] {
        let event = Event { fabric_window_time_marker: NicTime(NOW - 1), ..retransmission(count, NOW) };
        let outcome = run(&event, &plain());
        assert_eq!(outcome.fcwnd, fcwnd(window), "count {count}");
        let marker = if count >= 3 { NOW } else { NOW - 1 };
        assert_eq!(outcome.fabric_window_time_marker, NicTime(marker), "count {count}");
    }
}

/// D-67: with a limit of 1 the first branch applies while its guard is open.
#[test]
fn a_limit_of_one() {
    let p = Parameters { retransmit_limit: 1, ..plain() };
    assert_eq!(run(&retransmission(1, NOW), &p).fcwnd, fcwnd(8.0));
    let guarded = Event { fabric_window_time_marker: NicTime(NOW - 199), ..retransmission(1, NOW) };
    assert_eq!(run(&guarded, &p).fcwnd, fcwnd(0.01));
}

/// D-68: an early retransmission of a packet that never timed out cuts nothing.
#[test]
fn an_early_retransmission_cuts_nothing() {
    let event = Event { retransmit_reason: RetransmitReason::EARLY, ..retransmission(0, NOW) };
    let outcome = run(&event, &plain());
    assert_eq!(
        (outcome.fcwnd, outcome.fabric_window_time_marker),
        (event.fcwnd, event.fabric_window_time_marker)
    );
}

/// D-67: a retransmission that cuts nothing moves a marker that is more than an RTT old to an RTT ago, as any event does.
/// So a connection that only retransmits loses no cut when the time wraps.
#[test]
fn a_retransmission_that_cuts_nothing_keeps_the_marker_within_the_wrap() {
    let old =
        |age| Event { fabric_window_time_marker: NicTime(NOW).before(Ticks(age)), ..retransmission(2, NOW) };
    for age in [0, 199, 200, 201, 5000, (1 << 24) - 1] {
        let outcome = run(&old(age), &plain());
        let marker = NicTime(NOW).before(Ticks(age.min(200)));
        assert_eq!((outcome.fcwnd, outcome.fabric_window_time_marker), (fcwnd(16.0), marker), "age {age}");
    }
    // One such event in half a wrap. Without them, the marker would seem to be of this moment after a whole one.
    let half = 1 << 23;
    let first = run(&old(200), &plain());
    let second = run(&after(&first, retransmission(2, (NOW + half) % (1 << 24))), &plain());
    let third = run(&after(&second, retransmission(1, (NOW + 2 * half - 200) % (1 << 24))), &plain());
    assert_eq!(third.fcwnd, fcwnd(8.0), "the cut was executed");
}

/// F-10.3.2-3, F-10.3.2-4, D-67, D-69: the gap follows the new window, the timeout the smoothed RTT. The NIC
/// window, its marker and the measurements do not change.
#[test]
fn the_rest_of_a_retransmission_result() {
    let event = Event { rtt_state: Ticks(5000), rx_buffer_level: 31, ..retransmission(3, NOW) };
    let outcome = run(&event, &plain());
    assert_eq!(outcome.fcwnd, Fcwnd(10));
    // 5000 ticks at 10/1024 packets per RTT: 655.36 us * 102.4 = 131,072 units of 512 ns.
    assert_eq!(outcome.inter_packet_gap, InterPacketGap(131_072));
    assert_eq!(outcome.retransmit_timeout, Ticks(10_000));
    assert_eq!((outcome.ncwnd, outcome.ncwnd_direction), (event.ncwnd, event.ncwnd_direction));
    assert_eq!(outcome.nic_window_time_marker, event.nic_window_time_marker);
    assert_eq!((outcome.rtt_state, outcome.delay_state), (Ticks(5000), event.delay_state));
}

/// D-67: the result is clamped, for every kind of cut.
#[test]
fn a_retransmission_result_is_clamped() {
    let p = Parameters { min_fcwnd: fcwnd(10.0), fixed_window: fcwnd(10.0), ..plain() };
    assert_eq!(run(&retransmission(1, NOW), &p).fcwnd, fcwnd(10.0));
    let p = Parameters { max_fcwnd: fcwnd(4.0), fixed_window: fcwnd(4.0), ..plain() };
    assert_eq!(run(&retransmission(0, NOW), &p).fcwnd, fcwnd(4.0));
}

/// D-70: only retransmit events get the time from the caller. Others keep their T4.
#[test]
fn stamping_is_for_retransmissions() {
    let mut event = ack(1000, 100);
    event.stamp(NicTime(5));
    assert_eq!(event.now(), NicTime(1000));
    assert_eq!(retransmission(1, 77).now(), NicTime(77));
}
