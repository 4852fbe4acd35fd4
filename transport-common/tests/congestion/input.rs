//! Base events for tests, and random ones.

use rand::Rng;
use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::{Direction, Event, EventType, RetransmitReason};
use transport_common::congestion::nic_time::{DelayCode, DelaySelect, NicTime};
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::result::Outcome;
use transport_common::congestion::swift::swift;
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};
use transport_common::wire::nack::NackCode;

/// Returns a window of `packets`, rounded to nearest.
pub(crate) fn fcwnd(packets: f64) -> Fcwnd {
    Fcwnd((packets * 1024.0).round() as u32)
}

/// Returns an ACK of one packet at time `now` that took `rtt` ticks, all of them in the fabric. No hops, base
/// target 191 ticks, both markers 10,000 ticks ago, receive buffers at their target, both windows in the middle of
/// their range.
pub(crate) fn ack(now: u32, rtt: u32) -> Event {
    let marker = NicTime(now).before(Ticks(10_000));
    let t1 = NicTime(now).before(Ticks(rtt));
    Event {
        connection_id: 7,
        event_type: EventType::ACK,
        t1,
        t2: NicTime(500),
        t3: NicTime(500),
        t4: NicTime(now),
        fcwnd: Fcwnd::from_packets(16),
        ncwnd: 64,
        retransmit_timeout: Ticks(7629),
        num_packets_acked: 1,
        delay_select: DelaySelect::Fabric.code(),
        fabric_window_time_marker: marker,
        nic_window_time_marker: marker,
        ncwnd_direction: Direction::INCREASE,
        base_delay_target: Ticks(191),
        delay_state: Ticks(191),
        rtt_state: Ticks(191),
        rx_buffer_level: 15,
        ..Event::default()
    }
}

/// The defaults without flow scaling, so that the target delay is the base target.
pub(crate) fn plain() -> Parameters {
    Parameters { max_flow_scaling: Ticks(0), ..Parameters::DEFAULT }
}

/// Runs Swift on a new connection.
pub(crate) fn run(event: &Event, parameters: &Parameters) -> Outcome {
    run_with(event, &mut EngineState::default(), &parameters.prepare().unwrap())
}

/// Runs Swift. The result's memory is filled before, so that a field that is not written is visible.
pub(crate) fn run_with(event: &Event, engine: &mut EngineState, parameters: &Prepared) -> Outcome {
    let mut outcome = dirty();
    swift(event, engine, parameters, &mut outcome);
    outcome
}

/// Returns a result with nonsense in all fields.
pub(crate) fn dirty() -> Outcome {
    let mut outcome = Outcome::default();
    outcome.decode(&[0xa5a5_a5a5_a5a5_a5a5; 8]);
    outcome
}

/// Returns `event` as it is if the result before it was `outcome`.
pub(crate) fn after(outcome: &Outcome, event: Event) -> Event {
    Event {
        cc_metadata: outcome.cc_metadata,
        fcwnd: outcome.fcwnd,
        inter_packet_gap: outcome.inter_packet_gap,
        ncwnd: outcome.ncwnd,
        retransmit_timeout: outcome.retransmit_timeout,
        fabric_window_time_marker: outcome.fabric_window_time_marker,
        nic_window_time_marker: outcome.nic_window_time_marker,
        ncwnd_direction: outcome.ncwnd_direction,
        base_delay_target: outcome.base_delay_target,
        delay_state: outcome.delay_state,
        rtt_state: outcome.rtt_state,
        cc_opaque: outcome.cc_opaque,
        ..event
    }
}

/// Returns a value of random magnitude, at most `most`: small numbers are as likely as large ones.
pub(crate) fn magnitude(random: &mut impl Rng, most: u32) -> u32 {
    let bits = random.random_range(0..=32 - most.leading_zeros());
    random.random_range(0..=(1u64 << bits) - 1).min(u64::from(most)) as u32
}

/// Returns a random event: any value of every field, but delays, markers and windows are often close to the values
/// where Swift's decision changes.
pub(crate) fn random_event(random: &mut impl Rng, parameters: &Parameters) -> Event {
    let now = NicTime(random.random_range(0..=NicTime::MASK));
    let rtt = magnitude(random, NicTime::MASK);
    let held = magnitude(random, rtt.max(1));
    let largest_target = if random.random_bool(0.5) { 4096 } else { NicTime::MASK };
    let base_delay_target = Ticks(magnitude(random, largest_target));
    let t1 = now.before(Ticks(rtt));
    let t2 = NicTime(random.random_range(0..=NicTime::MASK));
    let t3 = NicTime(t2.0.wrapping_add(held) & NicTime::MASK);
    let near = |random: &mut _, value: u32, most: u32| {
        let offset = magnitude(random, 8).wrapping_sub(magnitude(random, 8));
        value.wrapping_add(offset).min(most)
    };
    let marker_age = match random.random_range(0..4) {
        0 => rtt,
        1 => near(random, rtt, NicTime::MASK),
        2 => magnitude(random, NicTime::MASK),
        _ => random.random_range(0..=NicTime::MASK),
    };
    let nic_age = if random.random_bool(0.5) {
        near(random, rtt, NicTime::MASK)
    } else {
        magnitude(random, NicTime::MASK)
    };
    let range = parameters.min_fcwnd.0..=parameters.max_fcwnd.0;
    let window = match random.random_range(0..8) {
        0 => parameters.min_fcwnd.0,
        1 => parameters.max_fcwnd.0,
        2 => near(random, 1024, Fcwnd::MAX.0).max(1),
        3 => magnitude(random, Fcwnd::MAX.0).max(1),
        4 => magnitude(random, 2047).max(1),
        _ => random.random_range(range),
    };
    let ncwnd = match random.random_range(0..4) {
        0 => parameters.min_ncwnd,
        1 => parameters.max_ncwnd,
        2 => random.random_range(1..=2047),
        _ => random.random_range(parameters.min_ncwnd..=parameters.max_ncwnd),
    };
    Event {
        connection_id: random.random_range(0..1 << 24),
        event_type: EventType(*[0, 0, 0, 0, 1, 1, 2, 2, 3].get(random.random_range(0..9usize)).unwrap()),
        t1,
        t2,
        t3,
        t4: now,
        cc_metadata: random.random_range(0..1 << 24),
        fcwnd: Fcwnd(window),
        inter_packet_gap: InterPacketGap(random.random_range(0..1 << 20)),
        retransmit_timeout: Ticks(random.random_range(0..1 << 24)),
        fabric_window_time_marker: now.before(Ticks(marker_age)),
        nic_window_time_marker: now.before(Ticks(nic_age)),
        base_delay_target,
        delay_state: Ticks(magnitude(random, NicTime::MASK)),
        rtt_state: Ticks(magnitude(random, NicTime::MASK)),
        ncwnd: ncwnd as u16,
        num_packets_acked: magnitude(random, 1023) as u16,
        ecn_accumulated: random.random_range(0..1 << 14),
        retransmit_count: random.random_range(0..8),
        retransmit_reason: RetransmitReason(random.random_range(0..2)),
        nack_code: NackCode(random.random_range(0..10)),
        forward_hops: random.random_range(0..16),
        rx_buffer_level: random.random_range(0..32),
        eack_drop: random.random_range(0..2),
        eack: random.random_range(0..2),
        event_queue_select: random.random_range(0..4),
        delay_select: DelayCode(*[1, 1, 1, 0, 2, 3].get(random.random_range(0..6usize)).unwrap()),
        ncwnd_direction: Direction(random.random_range(0..2)),
        cc_opaque: random.random_range(0..4),
        generation: random.random_range(0..2),
        reserved: 0,
    }
}

/// Returns random parameters within their ranges. Every third time these are the defaults.
pub(crate) fn random_parameters(random: &mut impl Rng) -> Parameters {
    use transport_common::congestion::fixed_point::Fraction;

    if random.random_bool(1.0 / 3.0) {
        return Parameters::DEFAULT;
    }
    let min_fcwnd = magnitude(random, Fcwnd::MAX.0).max(1);
    let max_fcwnd = random.random_range(min_fcwnd..=Fcwnd::MAX.0);
    let min_ncwnd = magnitude(random, 2047).max(1);
    let min_scaling = magnitude(random, Fcwnd::MAX.0 / 2).max(1);
    let fraction = |random: &mut _, most: u32| {
        Fraction(match Rng::random_range(random, 0..4) {
            0 => 0,
            1 => most,
            _ => Rng::random_range(random, 0..=most),
        })
    };
    let one = Fraction::ONE.0;
    let parameters = Parameters {
        min_fcwnd: Fcwnd(min_fcwnd),
        max_fcwnd: Fcwnd(max_fcwnd),
        fixed_window: Fcwnd(max_fcwnd),
        fabric_additive_increment: Fcwnd(magnitude(random, Fcwnd::MAX.0).max(1)),
        fabric_multiplicative_decrease_factor: fraction(random, one),
        max_fabric_multiplicative_decrease_factor: fraction(random, one),
        min_ncwnd,
        max_ncwnd: random.random_range(min_ncwnd..=2047),
        nic_additive_increment: magnitude(random, 2047).max(1),
        nic_multiplicative_decrease_factor: fraction(random, one),
        max_nic_multiplicative_decrease_factor: fraction(random, one),
        target_rx_buffer_level: random.random_range(0..32),
        plb_target_delay_multiplier: fraction(random, 4 * one),
        plb_congestion_threshold: fraction(random, one),
        plb_attempt_threshold: random.random_range(1..16),
        rtt_smoothing_alpha: fraction(random, one),
        delay_smoothing_alpha: fraction(random, one),
        topology_scaling_per_hop: Ticks(magnitude(random, 1 << 16)),
        retransmit_timeout_scalar: Fraction(random.random_range(one..=256 * one)),
        retransmit_limit: random.random_range(1..8),
        min_rto: Ticks(magnitude(random, NicTime::MASK).max(1)),
        min_flow_scaling_window: Fcwnd(min_scaling),
        max_flow_scaling_window: Fcwnd(random.random_range(2 * min_scaling..=Fcwnd::MAX.0)),
        max_flow_scaling: Ticks(magnitude(random, NicTime::MASK)),
        max_decrease_on_eack_drop: random.random_range(0..2),
        ..Parameters::DEFAULT
    };
    parameters.check().expect("random parameters are within the ranges");
    parameters
}
