//! Window guarding over time (10.3.6).

use proptest::prelude::*;
use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::{Direction, Event, EventType};
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::Prepared;
use transport_common::congestion::swift::delay_target;
use transport_common::units::Ticks;
use transport_common::wire::nack::NackCode;

use crate::input::{ack, after, fcwnd, plain, run};

const WRAP: u64 = 1 << 24;

/// F-10.3.6-2, D-71: the specification's figure. Its time wraps at 100; here it wraps at 2^24. So the last event
/// comes 2^24 - 100 later than in the figure, at the same place of the wrap.
#[test]
fn the_vector_of_the_figure() {
    let p = plain();
    let up = |now: u32| Event { base_delay_target: Ticks(100), ..ack(now, 30) };
    let down = |now: u32| Event { base_delay_target: Ticks(10), ..ack(now, 30) };
    let first = run(&Event { fabric_window_time_marker: NicTime((1 << 24) - 50), ..down(5) }, &p);
    assert!(first.fcwnd < fcwnd(16.0));
    assert_eq!(first.fabric_window_time_marker, NicTime(5));
    let run_after = |last, event: Event| {
        // The result carries the target of its event. This event has its own.
        run(&Event { base_delay_target: event.base_delay_target, ..after(last, event) }, &p)
    };
    let second = run_after(&first, up(40));
    assert_eq!(second.fabric_window_time_marker, NicTime(10));
    let third = run_after(&second, up(70));
    assert_eq!(third.fabric_window_time_marker, NicTime(40));
    let fourth = run_after(&third, down(10));
    assert!(fourth.fcwnd < third.fcwnd, "the decrease was executed");
    assert_eq!(fourth.fabric_window_time_marker, NicTime(10));
    // Without the events in between, the marker of 5 hides the decrease: the case that the figure calls strawman.
    assert_eq!(run_after(&first, down(10)).fcwnd, first.fcwnd);
}

/// One step of a history: time since the last event, and what it reports.
#[derive(Clone, Copy, Debug)]
struct Step {
    gap: u32,
    delay: u32,
    level: u8,
    acked: u16,
    kind: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![0..20u32, 0..300u32, 0..1_000_000u32, Just((1 << 24) - 1)];
    (gap, 1..2000u32, 0..32u8, 0..64u16, 0..10u8).prop_map(|(gap, delay, level, acked, kind)| Step {
        gap,
        delay,
        level,
        acked,
        kind,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-10.3.6-1, F-10.3.6-3, F-10.3.6-5, with events closer together than the wrap and a constant RTT: fcwnd
    /// decreases at most once per RTT, except by the retransmission limit (D-67). ncwnd changes at most once per
    /// RTT in the same direction. A congested event an RTT after the last decrease is never ignored. Windows stay
    /// legal.
    #[test]
    fn at_most_one_decrease_an_rtt(
        start in 0..WRAP,
        rtt in 1..500u32,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let parameters = Prepared::default();
        let p = parameters.parameters();
        let mut engine = EngineState::default();
        let mut now = start;
        let mut event = Event { rtt_state: Ticks(rtt), ..ack((start % WRAP) as u32, rtt) };
        // Time of the last decrease of fcwnd, and of the last increase and decrease of ncwnd.
        let (mut fell, mut nic_rose, mut nic_fell) = (None, None, None);
        // Every event moves a marker that is more than an RTT old, also a retransmission that cuts nothing (D-67). So
        // any two events have to be closer together than the wrap minus the RTT by which a marker lags.
        let within = |last: Option<u64>, now: u64| last.is_some_and(|last: u64| now - last < u64::from(rtt));
        for s in steps {
            now += u64::from(s.gap);
            let time = NicTime((now % WRAP) as u32);
            // The peer's holding time distinguishes the fabric delay from the RTT, modulo 2^24.
            event.t1 = time.before(Ticks(rtt));
            event.t4 = time;
            event.t2 = NicTime(0);
            event.t3 = NicTime(rtt.wrapping_sub(s.delay) & NicTime::MASK);
            event.rx_buffer_level = s.level;
            event.num_packets_acked = s.acked;
            event.event_type = match s.kind { 0 => EventType::RETRANSMIT, 1 | 2 => EventType::NACK, _ => EventType::ACK };
            event.nack_code = NackCode(s.kind);
            event.retransmit_count = (s.acked % 5) as u8;
            let measured = event.event_type != EventType::RETRANSMIT;
            let (fcwnd, ncwnd, direction) = (event.fcwnd, event.ncwnd, event.ncwnd_direction);
            let outcome = crate::input::run_with(&event, &mut engine, &parameters);

            prop_assert!(outcome.is_legal(p));
            prop_assert!(outcome.fcwnd >= p.min_fcwnd && outcome.fcwnd <= p.max_fcwnd);
            prop_assert!((p.min_ncwnd..=p.max_ncwnd).contains(&u32::from(outcome.ncwnd)));
            if outcome.fcwnd < fcwnd {
                let at_limit = !measured && u32::from(event.retransmit_count) >= p.retransmit_limit;
                prop_assert!(at_limit || !within(fell, now), "two decreases of fcwnd within an RTT");
                fell = Some(now);
            }
            if outcome.ncwnd > ncwnd {
                prop_assert!(!(direction == Direction::INCREASE && within(nic_rose, now)));
                nic_rose = Some(now);
            }
            if outcome.ncwnd < ncwnd {
                prop_assert!(!(direction == Direction::DECREASE && within(nic_fell, now)));
                nic_fell = Some(now);
            }
            let target = f64::from(delay_target(&event, &parameters).round().0);
            let delay = f64::from(outcome.delay_state.0);
            // A cut of less than one unit of 2^-10 may round to no cut.
            let cut = 0.8 * (delay - target - 1.0) / delay * f64::from(fcwnd.0);
            // A retransmission cuts by the bound, if it is the first one of its packet, or to the minimum at the limit.
            let retransmitted = event.retransmit_count == 1 || u32::from(event.retransmit_count) >= p.retransmit_limit;
            let cuts = if measured { cut > 1.0 } else { retransmitted };
            if s.gap >= rtt && u64::from(s.gap) + u64::from(rtt) < WRAP && cuts && fcwnd > p.min_fcwnd {
                prop_assert!(outcome.fcwnd < fcwnd, "a decrease was lost");
            }
            event = after(&outcome, event);
        }
    }
}
