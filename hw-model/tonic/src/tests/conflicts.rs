//! Several events of one flow in one cycle (section 3.4).

use clocked::{Clock, Cycle};

use crate::logic::{Logic, Plain, Word};
use crate::protocols::{DcqcnState, NewReno, RoceDcqcn, Tcp};
use crate::{ControlPacket, FlowId, Kind, Parameters, Protocol, Segment, Tonic, TonicInput, TonicOutput};

use super::{CLOCK, fixed_window};

const FLOW: FlowId = FlowId(5);

/// An acknowledgment of a segment that was sent in cycle `sent`.
fn ack(cumulative: u32, sent: u64) -> ControlPacket {
    let cumulative = Segment(cumulative);
    ControlPacket {
        flow: FLOW,
        kind: Kind::Ack,
        cumulative,
        selective: None,
        bitmap: [0; 2],
        data: sent as u32,
    }
}

fn clock<P: Protocol>(protocol: P, flows: u16) -> Clock<Tonic<P>> {
    let parameters = Parameters { flows, ..Parameters::default() };
    let mut clock = Clock::new(Tonic::new(protocol, &parameters).expect("hardware that exists"));
    clock.block_mut().open(Cycle::ZERO, FLOW, Segment(0), None).expect("a new flow");
    clock
}

/// Steps to `end`. The packet arrives in the cycle given with it. Idle cycles are not skipped.
fn run<P: Protocol>(
    clock: &mut Clock<Tonic<P>>,
    end: u64,
    packet: (u64, Option<ControlPacket>),
) -> Vec<(Cycle, TonicOutput)> {
    let mut outputs = Vec::new();
    while clock.now() < Cycle(end) {
        let now = clock.now();
        let packet = packet.1.filter(|_| now == Cycle(packet.0));
        outputs.push((now, clock.step(&TonicInput { packet, link_ready: true })));
    }
    outputs
}

/// A timer of 1000 cycles, and a flow that Periodic Updates visits in every eighth cycle.
fn short_timer() -> NewReno {
    let tcp = Tcp { initial_window: 1, initial_rto: 1_000, min_rto: 1_000, ..Tcp::new(CLOCK) };
    NewReno(tcp)
}

fn timeout(outputs: &[(Cycle, TonicOutput)]) -> Option<Cycle> {
    outputs.iter().find(|(_, output)| output.timeout.is_some()).map(|(now, _)| *now)
}

/// The decrement of the first segment is in cycle 19. The first visit of the flow after the timer's expiry finds
/// it.
#[test]
fn a_timeout_is_found_at_the_next_look() {
    let mut clock = clock(short_timer(), 8);
    let fired = timeout(&run(&mut clock, 2_000, (0, None))).expect("nothing is acknowledged");
    assert!(fired >= Cycle(1_019) && fired < Cycle(1_027), "{fired}");
    assert_eq!(fired.0 % 8, (u64::from(FLOW.0) + 3) % 8, "the phase of the hardware");
}

/// If an acknowledgment is in either stage of Incoming in the cycle in which the timer would fire, the timer does
/// not fire. The acknowledgment restarts it.
#[test]
fn an_acknowledgment_beats_a_timeout() {
    let fired =
        timeout(&run(&mut clock(short_timer(), 8), 2_000, (0, None))).expect("nothing is acknowledged");
    // The pins are 2 cycles before the fixed stage and 3 cycles before the programmable stage.
    for (at_pins, beats) in [(4, true), (3, true), (2, true), (1, false), (0, false)] {
        let at = fired.0 - at_pins;
        let mut clock = clock(short_timer(), 8);
        let outputs = run(&mut clock, fired.0 + 500, (at, Some(ack(1, at))));
        assert_eq!(timeout(&outputs).is_none(), beats, "{at_pins} cycles before");
        let status = clock.block().status(FLOW).expect("it is open");
        assert_eq!(status.window_start, Segment(1));
        if beats {
            assert_eq!(status.timer, Some(Cycle(at + 3 + 1_000)));
            assert_eq!(status.user.cwnd.0, 2, "slow start, not a collapse");
        }
    }
}

/// A duplicate acknowledgment postpones a timeout too. It does not restart the timer, so the next visit finds it.
#[test]
fn a_timeout_is_put_off_by_a_packet_that_acknowledges_nothing() {
    let fired =
        timeout(&run(&mut clock(short_timer(), 8), 2_000, (0, None))).expect("nothing is acknowledged");
    let mut clock = clock(short_timer(), 8);
    let outputs = run(&mut clock, 2_000, (fired.0 - 3, Some(ack(0, 0))));
    assert_eq!(timeout(&outputs), Some(fired + 8));
}

/// An acknowledgment that says that the window's new start has arrived contradicts itself: the window would start
/// after it. This part is ignored, because a segment that counts as arrived is never sent again.
#[test]
fn the_window_start_is_not_acknowledged_selectively() {
    let selective = ControlPacket { selective: Some(Segment(1)), ..ack(1, 0) };
    let bitmap = ControlPacket { bitmap: [0b101, 0], ..ack(1, 0) };
    for (packet, arrived) in [(selective, 0), (bitmap, 1)] {
        let mut clock = clock(fixed_window(8), 8);
        let outputs = run(&mut clock, 60, (40, Some(packet)));
        let record = outputs.iter().find_map(|(_, output)| output.incoming).expect("it was processed");
        assert_eq!(record.newly_acked, 1 + arrived, "segment 0, and segment 3 if the bitmap has it");
        let outputs = run(&mut clock, 80, (60, Some(ack(2, 0))));
        let record = outputs.iter().find_map(|(_, output)| output.incoming).expect("it was processed");
        assert_eq!(record.newly_acked, 1, "segment 1 arrives only now");
    }
}

/// In a cycle in which a segment is generated and another segment of the flow leaves the credit engine, the number
/// of outstanding addresses does not change.
#[test]
fn generation_and_transmission_leave_the_count() {
    let mut clock = clock(fixed_window(128), 8);
    let (mut before, mut both) = (0, 0);
    while clock.now() < Cycle(110) {
        let output = clock.step(&TonicInput::IDLE);
        let after = clock.block().status(FLOW).expect("it is open").outstanding;
        let change = i16::from(output.generate.is_some()) - i16::from(output.decrement.is_some());
        assert_eq!(i16::from(after) - i16::from(before), change);
        both += u32::from(output.generate.is_some() && output.decrement.is_some());
        before = after;
    }
    assert!(both > 10, "{both} cycles with both");
}

/// A change of the user state by a packet wins over a change by the timers. A notification in the cycle in which
/// the rate would be increased and alpha would decay restarts both timers.
#[test]
fn packet_and_user_timers_are_merged() {
    type L = Plain<2>;
    let protocol = RoceDcqcn::new(CLOCK, 100_000_000_000, 1_500);
    let before: DcqcnState<L> = DcqcnState {
        limited: L::word(1),
        alpha_due: L::word(700),
        increase_due: L::word(900),
        time_stage: L::word(3),
        ..protocol.initial::<L>(L::word(0)).state
    };
    let periodic = DcqcnState { alpha: L::word(77), alpha_due: L::word(6_200), ..before };
    let incoming = DcqcnState { time_stage: L::word(0), ..before };
    let merged = protocol.merge::<L>(&before, &incoming, &periodic);
    assert_eq!((merged.alpha.0, merged.alpha_due.0), (77, 6_200));
    assert_eq!((merged.time_stage.0, merged.increase_due.0), (0, 900));
    let incoming = DcqcnState { alpha: L::word(88), ..incoming };
    assert_eq!(protocol.merge::<L>(&before, &incoming, &periodic).alpha.0, 88);
    assert!(!before.limited.is(L::word(0)));
}
