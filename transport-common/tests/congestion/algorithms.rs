//! The choice of algorithms, and the properties of all of them.

use rand::{Rng, SeedableRng, rngs::StdRng};
use transport_common::congestion::algorithm::{Algorithm, AlgorithmId, EngineState};
use transport_common::congestion::event::{Event, EventType};
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::result::Outcome;
use transport_common::congestion::window::clamp_fcwnd;
use transport_common::units::Fcwnd;
use transport_common::wire::nack::NackCode;

use crate::input::{ack, after, dirty, fcwnd, random_event, random_parameters, run};

fn update(id: AlgorithmId, event: &Event, engine: &mut EngineState) -> Outcome {
    let mut outcome = dirty();
    id.update(event, engine, &Prepared::default(), &mut outcome);
    outcome
}

#[test]
fn names_and_indices() {
    assert_eq!(AlgorithmId::ALL.map(AlgorithmId::name), ["swift", "dcqcn", "newreno", "fixed"]);
    for (index, id) in AlgorithmId::ALL.into_iter().enumerate() {
        assert_eq!(AlgorithmId::from_index(index as u32), Some(id));
        assert_eq!(AlgorithmId::from_name(id.name()), Some(id));
        assert_eq!(Algorithm::name(&id), id.name());
    }
    assert_eq!(AlgorithmId::from_index(4), None);
    assert_eq!(AlgorithmId::from_name("cubic"), None);
}

/// Each algorithm acts according to its name, on a late and lossy ACK with marks.
#[test]
fn each_algorithm_is_dispatched() {
    let event = Event { eack_drop: 1, ecn_accumulated: 5, ..ack(100_000, 300) };
    let window = |id| update(id, &event, &mut EngineState::default()).fcwnd;
    assert_eq!(window(AlgorithmId::Swift), run(&event, &Parameters::DEFAULT).fcwnd);
    assert!(window(AlgorithmId::Swift) < fcwnd(16.0) && window(AlgorithmId::Swift) > fcwnd(8.0));
    assert_eq!(window(AlgorithmId::NewReno), fcwnd(8.0));
    assert_eq!(window(AlgorithmId::Fixed), fcwnd(32.0));
    // RTT smoothed to 218 from 191, at half the rate of 16 packets in 218 ticks.
    assert_eq!(window(AlgorithmId::Dcqcn), fcwnd(8.0));
}

/// The fixed window is that of the parameters, and nothing else changes. Packets are paced if it is below one
/// packet.
#[test]
fn the_fixed_window_stays() {
    let p = Parameters { fixed_window: fcwnd(0.5), ..Parameters::DEFAULT };
    for event_type in [EventType::ACK, EventType::NACK, EventType::RETRANSMIT] {
        let event = Event {
            event_type,
            nack_code: NackCode(1),
            retransmit_count: 7,
            rx_buffer_level: 31,
            ..ack(100_000, 1000)
        };
        let mut outcome = dirty();
        AlgorithmId::Fixed.update(&event, &mut EngineState::default(), &p.prepare().unwrap(), &mut outcome);
        assert_eq!((outcome.fcwnd, outcome.ncwnd), (fcwnd(0.5), 64));
        assert_eq!(outcome.inter_packet_gap.0, if event_type == EventType::RETRANSMIT { 98 } else { 512 });
        assert_eq!(outcome.nic_window_time_marker, event.nic_window_time_marker);
    }
}

/// An algorithm that is chosen again starts with a new state, not with its old one.
#[test]
fn a_change_of_algorithm_starts_fresh() {
    let mut engine = EngineState::default();
    let lossy = Event { eack_drop: 1, ..ack(100_000, 100) };
    let cut = update(AlgorithmId::NewReno, &lossy, &mut engine);
    assert_eq!(engine.newreno.threshold, fcwnd(8.0));
    let event = after(&cut, Event { num_packets_acked: 3, ..ack(101_000, 100) });
    update(AlgorithmId::Swift, &event, &mut engine);
    assert_eq!((engine.newreno.threshold, engine.plb.packets_acknowledged), (Fcwnd(0), 3));
    update(AlgorithmId::Swift, &event, &mut engine);
    assert_eq!(engine.plb.packets_acknowledged, 6, "its own state stays");
    update(AlgorithmId::NewReno, &event, &mut engine);
    assert_eq!(engine.plb.packets_acknowledged, 0);
}

/// On random histories with random parameters, every result of every algorithm is legal, its windows are within
/// the limits of the parameters, and the same input gives the same output.
#[test]
fn results_are_always_legal() {
    let mut random = StdRng::seed_from_u64(0x1ee7);
    for _ in 0..300 {
        let parameters = random_parameters(&mut random);
        let prepared = parameters.prepare().unwrap();
        for id in AlgorithmId::ALL {
            let mut engine = EngineState::default();
            let mut last = None;
            for _ in 0..100 {
                let fresh = random_event(&mut random, &parameters);
                let event = last.map_or(fresh, |last| after(&last, fresh));
                let mut twin = engine;
                let mut outcome = dirty();
                id.update(&event, &mut engine, &prepared, &mut outcome);
                let mut second = Outcome::default();
                id.update(&event, &mut twin, &prepared, &mut second);
                assert_eq!((outcome, engine), (second, twin));
                assert!(outcome.is_legal(&parameters), "{id:?} {event:?} {outcome:?}");
                if event.event_type <= EventType::RETRANSMIT {
                    assert!(outcome.fcwnd >= parameters.min_fcwnd && outcome.fcwnd <= parameters.max_fcwnd);
                }
                assert!(outcome.retransmit_timeout >= parameters.min_rto);
                assert!(
                    outcome.inter_packet_gap.0 == 0 || outcome.fcwnd.0 < 1024,
                    "no gap from one packet up"
                );
                last = Some(outcome);
            }
        }
    }
}

/// A window is never 0, whatever the limits are: zeroed memory has a minimum of 0.
#[test]
fn a_window_is_never_zero() {
    let p = Parameters { min_fcwnd: Fcwnd(0), max_fcwnd: Fcwnd(0), ..Parameters::DEFAULT };
    assert_eq!(clamp_fcwnd(0, &p), Fcwnd(1));
    assert_eq!(clamp_fcwnd(u64::MAX, &p), Fcwnd(1));
    assert_eq!(clamp_fcwnd(u64::MAX, &Parameters::DEFAULT), Fcwnd::from_packets(256));
}

/// Events that no datapath produces, with every field wider than its bits: they give a result without a panic, and
/// the windows are still within the limits.
#[test]
fn nonsense_is_answered() {
    let mut random = StdRng::seed_from_u64(7);
    let prepared = Prepared::default();
    for _ in 0..20_000 {
        let mut event = random_event(&mut random, prepared.parameters());
        event.fcwnd = Fcwnd(random.random());
        event.ncwnd = random.random();
        event.delay_state.0 = random.random();
        event.rtt_state.0 = random.random();
        event.base_delay_target.0 = random.random();
        event.fabric_window_time_marker.0 = random.random();
        event.nic_window_time_marker.0 = random.random();
        event.t3.0 = random.random();
        event.num_packets_acked = random.random();
        event.ecn_accumulated = random.random();
        (event.rx_buffer_level, event.forward_hops, event.delay_select.0) = random.random();
        (event.retransmit_count, event.ncwnd_direction.0, event.cc_opaque) = random.random();
        for id in AlgorithmId::ALL {
            let mut outcome = dirty();
            id.update(&event, &mut EngineState::default(), &prepared, &mut outcome);
            if event.event_type <= EventType::RETRANSMIT {
                assert!(outcome.fcwnd >= Fcwnd(10) && outcome.fcwnd <= Fcwnd::from_packets(256));
            }
        }
    }
}
