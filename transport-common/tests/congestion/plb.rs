//! PLB with test vectors, alone and within Swift (10.4, D-72).

use transport_common::congestion::algorithm::{Algorithm, AlgorithmId, EngineState};
use transport_common::congestion::event::{Event, EventType};
use transport_common::congestion::fixed_point::{FineTicks, Fraction};
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::plb::{PlbState, retransmitted, update};
use transport_common::units::{Fcwnd, Ticks};

use crate::input::{ack, dirty, fcwnd, plain, run_with};

const TARGET: FineTicks = ticks(100);

const fn ticks(ticks: u32) -> FineTicks {
    FineTicks::from_ticks(Ticks(ticks))
}

/// Processes one event. A delay of 200 is congested, 50 is not.
fn feed(state: &mut PlbState, acked: u16, congested: bool) -> bool {
    let event = Event { fcwnd: fcwnd(10.0), ncwnd: 64, num_packets_acked: acked, ..ack(0, 1) };
    update(state, &event, &Parameters::DEFAULT, ticks(if congested { 200 } else { 50 }), TARGET)
}

/// F-10.4-1: congested means above target * multiplier, not at it: 200 * 1.5 is exactly 300.
#[test]
fn congested_means_above_the_multiple() {
    let p = Parameters { plb_target_delay_multiplier: Fraction::ratio(3, 2), ..Parameters::DEFAULT };
    for (delay, counted) in [(299, 0), (300, 0), (301, 4)] {
        let mut state = PlbState::default();
        let event = Event { num_packets_acked: 4, ..ack(0, 1) };
        assert!(!update(&mut state, &event, &p, ticks(delay), ticks(200)));
        assert_eq!(state.packets_congestion_acknowledged, counted, "delay {delay}");
    }
}

/// F-10.4-2, F-10.4-4: a round closes after as many packets as the window. Until then the counters add up.
#[test]
fn a_round_is_a_window() {
    let mut state = PlbState::default();
    feed(&mut state, 4, true);
    feed(&mut state, 5, false);
    assert_eq!((state.packets_acknowledged, state.packets_congestion_acknowledged), (9, 4));
    feed(&mut state, 1, true);
    assert_eq!((state.packets_acknowledged, state.packets_congestion_acknowledged), (0, 0));
    assert_eq!(state.reroute_attempted, 1, "5 of 10 is not below the threshold");
}

/// F-10.4-2: the smaller window counts.
#[test]
fn the_nic_window_can_close_a_round() {
    let mut state = PlbState::default();
    let event = Event { fcwnd: fcwnd(100.0), ncwnd: 3, num_packets_acked: 3, ..ack(0, 1) };
    update(&mut state, &event, &Parameters::DEFAULT, ticks(200), TARGET);
    assert_eq!(state.reroute_attempted, 1);
}

/// D-72: the window is a real number. Below one packet every ACK closes a round; a window of 1.5 needs two
/// packets.
#[test]
fn fractional_windows() {
    let mut state = PlbState::default();
    let small = Event { fcwnd: fcwnd(0.25), ..ack(0, 1) };
    update(&mut state, &small, &Parameters::DEFAULT, ticks(200), TARGET);
    assert_eq!(state.reroute_attempted, 1);
    let event = Event { fcwnd: fcwnd(1.5), ..ack(0, 1) };
    update(&mut state, &event, &Parameters::DEFAULT, ticks(200), TARGET);
    assert_eq!((state.packets_acknowledged, state.reroute_attempted), (1, 1));
    update(&mut state, &event, &Parameters::DEFAULT, ticks(200), TARGET);
    assert_eq!((state.packets_acknowledged, state.reroute_attempted), (0, 2));
}

/// F-10.4-3: with a threshold of 5, the fifth consecutive congested round changes the path, and the count starts
/// again.
#[test]
fn the_fifth_congested_round_reroutes() {
    let mut state = PlbState::default();
    for repetition in 0..3 {
        for round in 1..=5 {
            assert_eq!(feed(&mut state, 10, true), round == 5, "repetition {repetition}, round {round}");
        }
        assert_eq!(state, PlbState::default());
    }
}

/// F-10.4-3: a round that is not congested resets the count.
#[test]
fn a_calm_round_resets_the_attempts() {
    let mut state = PlbState::default();
    for round in 1..=20 {
        let congested = round % 5 != 0;
        assert!(!feed(&mut state, 10, congested), "round {round}");
    }
    feed(&mut state, 6, false);
    feed(&mut state, 4, true);
    assert_eq!(state.reroute_attempted, 0, "4 of 10 is less than the threshold");
}

/// D-72: NACKs and retransmissions do not count.
#[test]
fn only_acks_count() {
    for event_type in [EventType::NACK, EventType::RETRANSMIT] {
        let mut state = PlbState { packets_acknowledged: 3, ..PlbState::default() };
        let event = Event { event_type, num_packets_acked: 500, ..ack(0, 1) };
        assert!(!update(&mut state, &event, &Parameters::DEFAULT, ticks(200), TARGET));
        assert_eq!(state, PlbState { packets_acknowledged: 3, ..PlbState::default() });
    }
}

/// D-72: packet counts saturate at 1023. Larger windows still close their rounds.
#[test]
fn a_full_count_closes_the_round() {
    let mut state = PlbState::default();
    let event = Event { fcwnd: Fcwnd::MAX, ncwnd: 2047, num_packets_acked: 700, ..ack(0, 1) };
    update(&mut state, &event, &Parameters::DEFAULT, ticks(200), TARGET);
    assert_eq!(state.packets_acknowledged, 700);
    update(&mut state, &event, &Parameters::DEFAULT, ticks(200), TARGET);
    assert_eq!((state.packets_acknowledged, state.reroute_attempted), (0, 1));
}

/// F-10.4-2, F-10.4-5, D-72: within Swift, with target and window from before the update, the fifth congested
/// window sets randomize_path once.
#[test]
fn swift_asks_for_another_path() {
    let parameters = Parameters { plb_attempt_threshold: 5, ..plain() }.prepare().unwrap();
    let mut engine = EngineState::default();
    let mut asked = Vec::new();
    for n in 0..30 {
        // The window of each event is 4, whatever the last result was. So two ACKs of 2 packets make a round.
        let event = Event { fcwnd: fcwnd(4.0), num_packets_acked: 2, ..ack(n * 1000, 382) };
        if run_with(&event, &mut engine, &parameters).randomize_path == 1 {
            asked.push(n);
        }
    }
    assert_eq!(asked, [9, 19, 29]);
}

/// F-10.4-1, with Swift's own target: for a small window, flow scaling raises the target, and the window is then
/// not congested.
#[test]
fn the_target_of_the_old_window_counts() {
    let parameters = Prepared::default();
    let congested = |window: f64| {
        let mut engine = EngineState::default();
        let event = Event { fcwnd: fcwnd(window), ncwnd: 2047, num_packets_acked: 1, ..ack(5000, 300) };
        run_with(&event, &mut engine, &parameters);
        engine.plb.packets_congestion_acknowledged + u16::from(engine.plb.reroute_attempted)
    };
    assert_eq!(congested(200.0), 1, "target 193");
    assert_eq!(congested(1.0), 0, "target 421");
}

/// A retransmission event of a packet that timed out `count` times, at `now` ticks.
fn timeout(now: u32, count: u8) -> Event {
    let mut event = Event { event_type: EventType::RETRANSMIT, retransmit_count: count, ..ack(now, 100) };
    event.stamp(NicTime(now));
    event
}

/// F-10.6.2.2-4: any result may ask for another path. With `plb_timeout_threshold` each built-in algorithm does so
/// when a packet has timed out that often, but not again before the new path had one timeout to prove itself.
#[test]
fn a_timeout_changes_the_path_once() {
    for threshold in 1..=7 {
        let parameters = Parameters { plb_timeout_threshold: threshold, ..plain() }.prepare().unwrap();
        for algorithm in AlgorithmId::ALL {
            let mut engine = EngineState::default();
            let mut asks = |event: &Event| {
                let mut outcome = dirty();
                algorithm.update(event, &mut engine, &parameters, &mut outcome);
                (outcome.randomize_path == 1, outcome.retransmit_timeout.0)
            };
            for count in 0..threshold as u8 {
                assert!(!asks(&timeout(1000, count)).0, "{algorithm:?}: {count} timeouts of {threshold}");
            }
            let (asked, rto) = asks(&timeout(1000, threshold as u8));
            assert!(asked, "{algorithm:?}: {threshold} timeouts");
            assert!(!asks(&timeout(1000, 7)).0, "{algorithm:?}: the other packets of the window");
            assert!(!asks(&timeout(1000 + rto - 1, 7)).0, "{algorithm:?}: just before its timeout");
            assert!(asks(&timeout(1000 + rto, 7)).0, "{algorithm:?}: the new path carries nothing either");
        }
    }
}

/// D-78: as the specification has it, retransmissions never change the path.
#[test]
fn the_defaults_keep_the_path_of_a_timeout() {
    let parameters = Prepared::default();
    for algorithm in AlgorithmId::ALL {
        let mut outcome = dirty();
        algorithm.update(&timeout(1000, 7), &mut EngineState::default(), &parameters, &mut outcome);
        assert_eq!(outcome.randomize_path, 0, "{algorithm:?}");
    }
}

/// The time of the last change survives in 24 bits, also across the wrap of time.
#[test]
fn a_change_of_path_across_the_wrap_of_time() {
    let parameters = Parameters { plb_timeout_threshold: 1, ..Parameters::DEFAULT };
    let (mut state, rto) = (PlbState::default(), Ticks(1000));
    assert!(retransmitted(&mut state, &timeout(NicTime::MASK - 500, 1), &parameters, rto));
    assert!(!retransmitted(&mut state, &timeout(498, 1), &parameters, rto));
    assert!(retransmitted(&mut state, &timeout(499, 1), &parameters, rto));
}

/// A rule of ours (`plb_quick_round`): a round far above the target closes after so many packets, and counts for the half
/// targets in its delay less one. A round that is not closes with its window, as in F-10.4-2.
#[test]
fn a_round_far_above_the_target_closes_early() {
    let p = Parameters { plb_quick_round: 8, plb_attempt_threshold: 15, ..Parameters::DEFAULT };
    let acks = |delay: u32, packets: u16, state: &mut PlbState| {
        let event = Event { fcwnd: fcwnd(100.0), ncwnd: 128, num_packets_acked: packets, ..ack(0, 1) };
        update(state, &event, &p, ticks(delay), TARGET)
    };
    for (delay, rounds) in [(151, 2), (199, 2), (200, 3), (250, 4), (299, 4), (300, 5), (700, 13)] {
        let mut state = PlbState::default();
        assert!(!acks(delay, 7, &mut state));
        assert_eq!((state.packets_acknowledged, state.reroute_attempted), (7, 0));
        assert!(!acks(delay, 1, &mut state));
        assert_eq!((state.packets_acknowledged, state.reroute_attempted), (0, rounds), "delay {delay}");
    }
    for delay in [90, 110, 150] {
        let mut state = PlbState::default();
        acks(delay, 99, &mut state);
        assert_eq!((state.packets_acknowledged, state.reroute_attempted), (99, 0), "delay {delay}");
        acks(delay, 1, &mut state);
        assert_eq!((state.packets_acknowledged, state.reroute_attempted), (0, (delay > 100) as u8));
    }
    // A change of path at once, also without a target, and never an overflow.
    for target in [TARGET, ticks(0)] {
        let mut state = PlbState { reroute_attempted: 14, ..PlbState::default() };
        let event = Event { fcwnd: fcwnd(100.0), ncwnd: 128, num_packets_acked: 8, ..ack(0, 1) };
        assert!(update(&mut state, &event, &p, ticks(0xff_ffff), target));
        assert_eq!(state.reroute_attempted, 0);
    }
    // One ACK far above the target does not close the round of packets that were not congested.
    let mut state = PlbState::default();
    acks(50, 20, &mut state);
    acks(400, 1, &mut state);
    assert_eq!(state.reroute_attempted, 0, "1 of 21 packets is below the threshold");
}

/// The delays of packets that were sent before a change of path are those of another path: they do not count against the
/// new one, also across the wrap of time, and however long ago the change was.
#[test]
fn packets_of_an_older_path_do_not_count() {
    let p = Parameters { plb_quick_round: 8, plb_attempt_threshold: 5, ..Parameters::DEFAULT };
    for start in [1000, NicTime::MASK - 100, NicTime::MASK] {
        let at = |time: u32| NicTime((start + time) & NicTime::MASK);
        let acked = |sent: u32, now: u32, packets: u16| {
            let mut event =
                Event { fcwnd: fcwnd(100.0), ncwnd: 128, num_packets_acked: packets, ..ack(0, 1) };
            (event.t1, event.t4) = (at(sent), at(now));
            event
        };
        let mut state = PlbState::default();
        let mut feed = |event: &Event| update(&mut state, event, &p, ticks(300), TARGET);
        assert!(feed(&acked(100, 400, 8)), "five rounds at once");
        for sent in [101, 250, 399] {
            assert!(!feed(&acked(sent, sent + 300, 8)), "sent at {sent}, before the change");
        }
        assert!(feed(&acked(400, 700, 8)), "sent over the new path");
        // Many times around the circle of time.
        let mut now = 700;
        for _ in 0..100 {
            now += 1 << 21;
            assert!(!feed(&acked(now - 300, now, 1)));
            assert!(!feed(&acked(now - 300, now, 1)));
            assert!(!feed(&acked(now - 300, now, 1)));
            assert!(!feed(&acked(now - 300, now, 1)));
            assert!(feed(&acked(now - 300, now, 4)), "at {now}");
        }
    }
}

/// D-78: without it, nothing but F-10.4-1 to F-10.4-4 counts.
#[test]
fn the_defaults_have_no_quick_rounds() {
    assert_eq!(Parameters::DEFAULT.plb_quick_round, 0);
    let mut state = PlbState { changed_at: [1, 2, 3], ..PlbState::default() };
    let event = Event { fcwnd: fcwnd(100.0), ncwnd: 128, num_packets_acked: 50, ..ack(0, 1) };
    update(&mut state, &event, &Parameters::DEFAULT, ticks(1000), TARGET);
    assert_eq!((state.packets_acknowledged, state.changed_at), (50, [1, 2, 3]));
}
