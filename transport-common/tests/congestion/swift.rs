//! Swift with test vectors: acknowledgements (10.3.1, 10.3.3, 10.3.4).

use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::{Direction, Event, EventType};
use transport_common::congestion::fixed_point::Fraction;
use transport_common::congestion::nic_time::{DelayCode, NicTime};
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::swift::delay_target;
use transport_common::congestion::window::inter_packet_gap;
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};
use transport_common::wire::nack::NackCode;

use crate::input::{ack, after, fcwnd, plain, run, run_with};

const NOW: u32 = 1_000_000;

/// F-10.3.1-1: fcwnd 10, 5 acked, increment 1: 10.5. fcwnd 0.5, 1 acked: 1.5. At exactly the target it grows
/// (D-64).
#[test]
fn below_the_target_the_fabric_window_grows() {
    let grown = |window: f64, acked, rtt| {
        let event = Event { fcwnd: fcwnd(window), num_packets_acked: acked, ..ack(NOW, rtt) };
        run(&event, &plain()).fcwnd
    };
    assert_eq!(grown(10.0, 5, 100), fcwnd(10.5));
    assert_eq!(grown(0.5, 1, 100), fcwnd(1.5));
    assert_eq!(grown(10.0, 5, 191), fcwnd(10.5));
    assert_eq!(grown(1.0, 1, 100), fcwnd(2.0));
    assert_eq!(grown(10.0, 0, 100), fcwnd(10.0));
}

/// F-10.3.1-3: delay twice the target, factor 0.8, bound 0.5: times 0.6. Ten times the target: times 0.5. Within
/// an RTT of the marker nothing changes.
#[test]
fn above_the_target_the_fabric_window_falls() {
    let event = |rtt| Event { fcwnd: fcwnd(10.0), ..ack(NOW, rtt) };
    assert_eq!(run(&event(382), &plain()).fcwnd, fcwnd(6.0));
    assert_eq!(run(&event(1910), &plain()).fcwnd, fcwnd(5.0));
    let guarded = Event { fabric_window_time_marker: NicTime(NOW - 381), ..event(382) };
    assert_eq!(run(&guarded, &plain()).fcwnd, fcwnd(10.0));
    let elapsed = Event { fabric_window_time_marker: NicTime(NOW - 382), ..event(382) };
    assert_eq!(run(&elapsed, &plain()).fcwnd, fcwnd(6.0), "F-10.3.4-4: exactly an RTT has elapsed");
}

/// F-10.3.1-4: the window stays within its limits, also if it starts outside.
#[test]
fn the_fabric_window_is_clamped() {
    let p = Parameters { min_fcwnd: fcwnd(2.0), max_fcwnd: fcwnd(20.0), fixed_window: fcwnd(2.0), ..plain() };
    let window = |window: f64, rtt| {
        run(&Event { fcwnd: fcwnd(window), num_packets_acked: 50, ..ack(NOW, rtt) }, &p).fcwnd
    };
    assert_eq!(window(19.0, 100), fcwnd(20.0));
    assert_eq!(window(20.0, 100), fcwnd(20.0));
    assert_eq!(window(100.0, 100), fcwnd(20.0));
    assert_eq!(window(2.5, 1910), fcwnd(2.0));
    assert_eq!(window(0.1, 1910), fcwnd(2.0));
}

/// F-10.3.1-5, F-10.3.6-2: the marker is now after a decrease and at the smallest window. Otherwise it is one RTT
/// back if it is older.
#[test]
fn the_fabric_marker_moves() {
    let marker = |event: Event| run(&event, &plain()).fabric_window_time_marker.0;
    assert_eq!(marker(ack(NOW, 382)), NOW, "decreased");
    assert_eq!(marker(ack(NOW, 100)), NOW - 100, "increased, marker older than an RTT");
    let young = |age, rtt| Event { fabric_window_time_marker: NicTime(NOW - age), ..ack(NOW, rtt) };
    assert_eq!(marker(young(99, 100)), NOW - 99, "increased, marker younger");
    assert_eq!(marker(young(100, 100)), NOW - 100, "F-10.3.4-5: exactly an RTT, unchanged");
    assert_eq!(marker(young(381, 382)), NOW - 381, "may not decrease yet");
    let least = Event { fcwnd: Fcwnd(10), ..young(381, 382) };
    assert_eq!(marker(least), NOW, "F-10.3.6-4: unchanged at the smallest window");
    let most = Event { fcwnd: fcwnd(256.0), ..young(300, 100) };
    assert_eq!(marker(most), NOW - 100, "D-71: at the largest window as for an increase");
}

/// F-10.3.1-6: three ACKs in one RTT raise the NIC window once. After a decrease it may increase at once.
#[test]
fn below_the_target_level_the_nic_window_grows_once_an_rtt() {
    let p = plain();
    let low = |now| Event { rx_buffer_level: 3, ..ack(now, 100) };
    let mut outcome = run(&low(NOW), &p);
    assert_eq!((outcome.ncwnd, outcome.ncwnd_direction), (65, Direction::INCREASE));
    assert_eq!(outcome.nic_window_time_marker.0, NOW);
    for now in [NOW + 30, NOW + 60, NOW + 99] {
        outcome = run(&after(&outcome, low(now)), &p);
        assert_eq!(outcome.ncwnd, 65);
        assert_eq!(outcome.nic_window_time_marker.0, NOW);
    }
    outcome = run(&after(&outcome, low(NOW + 100)), &p);
    assert_eq!(outcome.ncwnd, 66);

    let turned =
        Event { ncwnd_direction: Direction::DECREASE, nic_window_time_marker: NicTime(NOW - 1), ..low(NOW) };
    assert_eq!(run(&turned, &p).ncwnd, 65);
}

/// F-10.3.1-7: level 20 over target 15: times 0.75; level 31 over 10, bound 0.5: times 0.5 (D-60, D-65).
#[test]
fn above_the_target_level_the_nic_window_falls() {
    let at = |level, target| {
        let p = Parameters { target_rx_buffer_level: target, ..plain() };
        run(&Event { rx_buffer_level: level, ..ack(NOW, 100) }, &p)
    };
    assert_eq!(at(20, 15).ncwnd, 48);
    assert_eq!(at(31, 10).ncwnd, 32);
    assert_eq!((at(20, 15).ncwnd_direction, at(20, 15).nic_window_time_marker.0), (Direction::DECREASE, NOW));
    assert_eq!(at(1, 0).ncwnd, 32, "level 1 over 0 gives 0, the bound gives half");

    let equal = at(15, 15);
    assert_eq!(
        (equal.ncwnd, equal.ncwnd_direction),
        (64, Direction::INCREASE),
        "D-65: at the target nothing changes"
    );
    assert_eq!(equal.nic_window_time_marker.0, NOW - 100, "F-10.3.6-3: unchanged window, the marker follows");
    assert_eq!(at(0, 0).ncwnd, 64);

    let factor = Parameters { nic_multiplicative_decrease_factor: Fraction::ratio(1, 2), ..plain() };
    let event = Event { rx_buffer_level: 20, ..ack(NOW, 100) };
    assert_eq!(run(&event, &factor).ncwnd, 56, "D-65: the factor weighs the excess");
    let guarded = Event { nic_window_time_marker: NicTime(NOW - 99), ..event };
    assert_eq!(run(&guarded, &plain()).ncwnd, 64, "within an RTT");
}

/// F-10.3.1-8, F-10.3.6-4, D-71: the limits of the NIC window, and its direction and marker there.
#[test]
fn the_nic_window_at_its_limits() {
    let p = Parameters { min_ncwnd: 4, max_ncwnd: 100, ..plain() };
    let young = NicTime(NOW - 50);
    let at = |ncwnd, level, direction| {
        let event = Event {
            ncwnd,
            rx_buffer_level: level,
            ncwnd_direction: direction,
            nic_window_time_marker: young,
            ..ack(NOW, 100)
        };
        let outcome = run(&event, &p);
        (outcome.ncwnd, outcome.ncwnd_direction, outcome.nic_window_time_marker.0)
    };
    let (up, down) = (Direction::INCREASE, Direction::DECREASE);
    assert_eq!(at(100, 3, down), (100, up, NOW), "an increase that the limit cut");
    assert_eq!(at(100, 20, down), (100, up, NOW), "unchanged at the largest window counts as an increase");
    assert_eq!(at(4, 20, up), (4, down, NOW), "unchanged at the smallest window counts as a decrease");
    assert_eq!(at(200, 15, up), (100, down, NOW), "a lower limit lowers the window");
    assert_eq!(at(2, 15, down), (4, down, NOW), "a higher limit raises it to the smallest window");
    assert_eq!(at(50, 20, up), (50, up, NOW - 50), "between the limits and within an RTT: no change");
}

/// F-10.3.3-1: NACK of an exhausted receiver: 16 to 8. Another one within the RTT: unchanged (D-66).
#[test]
fn resource_exhaustion_halves_the_nic_window() {
    let nack = |now| Event { event_type: EventType::NACK, nack_code: NackCode(1), ..ack(now, 100) };
    let first = run(&Event { ncwnd: 16, ..nack(NOW) }, &plain());
    assert_eq!((first.ncwnd, first.ncwnd_direction), (8, Direction::DECREASE));
    assert_eq!(first.nic_window_time_marker.0, NOW);
    let second = run(&after(&first, nack(NOW + 99)), &plain());
    assert_eq!((second.ncwnd, second.nic_window_time_marker.0), (8, NOW));
    let third = run(&after(&second, nack(NOW + 100)), &plain());
    assert_eq!(third.ncwnd, 4);

    let rising = Event { ncwnd: 16, nic_window_time_marker: NicTime(NOW - 1), ..nack(NOW) };
    assert_eq!(run(&rising, &plain()).ncwnd, 8, "at once after an increase");
    let low = Event { ncwnd: 16, rx_buffer_level: 0, ..nack(NOW) };
    assert_eq!(run(&low, &plain()).ncwnd, 8, "at any level");
    let most = Event {
        ncwnd: 256,
        ncwnd_direction: Direction::DECREASE,
        nic_window_time_marker: NicTime(NOW - 1),
        ..nack(NOW)
    };
    let most = run(&most, &plain());
    assert_eq!(
        (most.ncwnd, most.ncwnd_direction, most.nic_window_time_marker.0),
        (256, Direction::DECREASE, NOW)
    );
    let least = run(&Event { ncwnd: 1, ..nack(NOW) }, &plain());
    assert_eq!(least.ncwnd, 1, "D-65: never below the smallest");
}

/// F-10.3.3-1, D-66: for the fabric window, that NACK and all other NACKs work like an ACK.
#[test]
fn nacks_steer_the_fabric_window_as_acks_do() {
    for nack_code in [1, 2, 4] {
        for rtt in [100, 382] {
            let acked = run(&ack(NOW, rtt), &plain());
            let nacked = run(
                &Event { event_type: EventType::NACK, nack_code: NackCode(nack_code), ..ack(NOW, rtt) },
                &plain(),
            );
            assert_eq!(nacked.fcwnd, acked.fcwnd);
            assert_eq!(nacked.fabric_window_time_marker, acked.fabric_window_time_marker);
            assert_eq!((nacked.rtt_state, nacked.delay_state), (acked.rtt_state, acked.delay_state));
            assert_eq!(nacked.ncwnd == acked.ncwnd, nack_code != 1);
        }
    }
}

/// F-10.3.4-2: base, flow scaling and hops add up. The base of the event is used (D-77).
#[test]
fn the_target_delay_adds_up() {
    let target = |window: f64, hops, base| {
        let event = Event {
            fcwnd: fcwnd(window),
            forward_hops: hops,
            base_delay_target: Ticks(base),
            ..ack(NOW, 100)
        };
        delay_target(&event, &Prepared::default()).round().0
    };
    assert_eq!(target(256.0, 0, 191), 191);
    assert_eq!(target(256.0, 5, 191), 191 + 40);
    assert_eq!(target(0.01, 0, 191), 191 + 763);
    assert_eq!(target(16.0, 3, 300), 300 + 46 + 24);
    assert_eq!(target(1.0, 15, 0), 230 + 120);
    assert_eq!(target(0.01, 15, (1 << 24) - 1), (1 << 24) - 1, "saturates at 24 bits");
}

/// F-10.3.4-6, D-63: 0 from one packet on. Below, rtt / fcwnd in units of 512 ns: at 0.5 one packet per 2 RTTs.
#[test]
fn the_gap_paces_below_one_packet() {
    assert_eq!(inter_packet_gap(fcwnd(1.0), Ticks(10_000)).0, 0);
    // 1000 ticks = 131.072 us; two of them are 512 units of 512 ns.
    assert_eq!(inter_packet_gap(fcwnd(0.5), Ticks(1000)).0, 512);
    assert_eq!(inter_packet_gap(fcwnd(0.25), Ticks(1000)).0, 1024);
    assert_eq!(inter_packet_gap(Fcwnd(1023), Ticks(1000)).0, 256, "256.25 to nearest");
    assert_eq!(inter_packet_gap(Fcwnd(1), Ticks((1 << 24) - 1)).0, (1 << 20) - 1, "saturates at 20 bits");
    assert_eq!(inter_packet_gap(Fcwnd(0), Ticks(1)).0, 0, "no window, no division");
    let event = Event { fcwnd: fcwnd(0.25), num_packets_acked: 0, rtt_state: Ticks(5), ..ack(NOW, 1000) };
    let p = Parameters { base_delay_target: Ticks(0), ..plain() };
    let outcome = run(&Event { base_delay_target: Ticks(2000), ..event }, &p);
    assert_eq!(outcome.inter_packet_gap.0, 1024, "D-63: from the current RTT");
}

/// F-10.6.2.1-7: with packets of 1500 bytes, pacing reaches 800 kb/s and 8 Gb/s.
#[test]
fn pacing_reaches_the_rates_asked_for() {
    let rate = |window: Fcwnd, rtt: Ticks| {
        let gap = inter_packet_gap(window, rtt);
        1500.0 * 8.0 / (f64::from(gap.0) * 512e-9)
    };
    assert!(rate(fcwnd(0.01), Ticks::from_nanos(150_000)) <= 800e3);
    assert!(rate(Fcwnd(1023), Ticks::from_nanos(1_400)) >= 7.8e9);
}

/// F-10.3.2-3, D-69: every result has a timeout: twice the smoothed RTT, at least the minimum, at most 24 bits.
#[test]
fn every_result_has_a_timeout() {
    let p = Parameters { rtt_smoothing_alpha: Fraction::ZERO, ..plain() };
    assert_eq!(run(&ack(NOW, 100), &p).retransmit_timeout, Ticks(7629));
    assert_eq!(run(&ack(NOW, 5000), &p).retransmit_timeout, Ticks(10_000));
    assert_eq!(run(&ack(NOW, 16_000_000), &p).retransmit_timeout, Ticks((1 << 24) - 1));
    let smoothed = run(&Event { rtt_state: Ticks(8000), ..ack(NOW, 4000) }, &plain());
    assert_eq!((smoothed.rtt_state, smoothed.retransmit_timeout), (Ticks(7000), Ticks(14_000)));
}

/// F-10.3.1-9: the smoothed delay, not the sample, is compared. Both states return through the result.
#[test]
fn the_smoothed_delay_decides() {
    let p = Parameters { delay_smoothing_alpha: Fraction::ratio(3, 4), ..plain() };
    let event = Event { delay_state: Ticks(100), ..ack(NOW, 300) };
    let outcome = run(&event, &p);
    assert_eq!((outcome.delay_state, outcome.rtt_state), (Ticks(150), Ticks(218)));
    assert!(outcome.fcwnd > event.fcwnd, "150 is below the target, 300 above");
    let outcome = run(&Event { delay_state: Ticks(400), ..ack(NOW, 100) }, &p);
    assert_eq!(outcome.delay_state, Ticks(325));
    assert!(outcome.fcwnd < event.fcwnd);
}

/// F-10.6.2.1-11: the selected delay decides.
#[test]
fn delay_select_decides() {
    // Full 400, fabric 300, forward 150, reverse 150.
    let event = Event { t2: NicTime(NOW - 250), t3: NicTime(NOW - 150), ..ack(NOW, 400) };
    for (code, delay) in [(0, 400), (1, 300), (2, 150), (3, 150)] {
        let delay_select = DelayCode(code);
        let outcome = run(&Event { delay_select, ..event }, &plain());
        assert_eq!((outcome.delay_state, outcome.delay_select), (Ticks(delay), delay_select));
        assert_eq!(outcome.fcwnd > event.fcwnd, delay <= 191);
    }
}

/// D-68: the loss shown by an EACK cuts only if this is enabled, and then at most once per RTT.
#[test]
fn loss_in_an_eack_cuts_if_asked_to() {
    let event = Event { eack: 1, eack_drop: 1, ..ack(NOW, 100) };
    assert!(run(&event, &plain()).fcwnd > event.fcwnd);
    let p = Parameters { max_decrease_on_eack_drop: 1, ..plain() };
    let cut = run(&event, &p);
    assert_eq!((cut.fcwnd, cut.fabric_window_time_marker.0), (fcwnd(8.0), NOW));
    let guarded = run(&after(&cut, Event { eack: 1, eack_drop: 1, ..ack(NOW + 99, 100) }), &p);
    assert_eq!((guarded.fcwnd, guarded.fabric_window_time_marker.0), (fcwnd(8.0), NOW));
}

/// F-10.6.2.1-5, F-10.6.2.2-2, F-10.6.2.2-5, D-05, D-07, D-74: fields that Swift does not decide are passed on.
/// OWN in the metadata belongs to the datapath, and the top bit of the metadata stays 0.
#[test]
fn the_rest_passes_through() {
    let event = Event {
        connection_id: 0xab_cdef,
        cc_metadata: 0xff_ffff,
        event_queue_select: 3,
        cc_opaque: 2,
        base_delay_target: Ticks(777),
        ..ack(NOW, 100)
    };
    for event_type in [EventType::ACK, EventType::NACK, EventType::RETRANSMIT] {
        let outcome = run(&Event { event_type, ..event }, &plain());
        assert_eq!(outcome.connection_id, 0xab_cdef);
        assert_eq!(outcome.cc_metadata, 0x7f_fffc);
        assert_eq!(
            (outcome.event_queue_select, outcome.cc_opaque, outcome.delay_select),
            (3, 2, DelayCode(1))
        );
        assert_eq!((outcome.base_delay_target, outcome.randomize_path), (Ticks(777), 0));
    }
}

/// An event of the reserved type is no measurement and changes nothing.
#[test]
fn the_reserved_event_type_changes_nothing() {
    let event = Event {
        event_type: EventType(3),
        retransmit_count: 7,
        inter_packet_gap: InterPacketGap(5),
        ..ack(NOW, 5000)
    };
    let mut engine = EngineState::default();
    let outcome = run_with(&event, &mut engine, &Prepared::default());
    assert_eq!((outcome.fcwnd, outcome.ncwnd), (event.fcwnd, event.ncwnd));
    assert_eq!((outcome.rtt_state, outcome.delay_state), (event.rtt_state, event.delay_state));
    assert_eq!(outcome.fabric_window_time_marker, event.fabric_window_time_marker);
    assert_eq!(engine, EngineState::default());
}
