//! Flows are added, get data, and are removed.

use std::collections::VecDeque;

use clocked::{Clock, Cycle};

use crate::protocols::Ndp;
use crate::{
    Answer, ControlPacket, FlowError, FlowId, Kind, Parameters, Path, Receiver, Rules, Segment, Testbed,
    Tonic, TonicInput, TonicOutput,
};

use super::{CLOCK, fixed_window, testbed};

const FLOW: FlowId = FlowId(3);

#[test]
fn a_flow_sends_what_it_has_and_stops() {
    let all = (1, Segment(u32::MAX - 50), Some(100));
    let mut testbed =
        testbed(fixed_window(20), &Parameters::default(), Answer::Cumulative, Path::default(), all);
    let mut order = Vec::new();
    while let Some((_, output)) = testbed.step(Cycle(100_000_000)) {
        order.extend(output.transmit.map(|address| address.segment));
    }
    // The segment numbers wrap. Each segment is sent once and in order.
    let expected: Vec<_> = (0..100).map(|count| Segment(u32::MAX - 50).plus(count)).collect();
    assert_eq!(order, expected);
    assert_eq!(testbed.receiver().next(FlowId(0)), Segment(49));
    let status = testbed.clock().block().status(FlowId(0)).expect("it is open");
    assert_eq!((status.timer, status.outstanding), (None, 0), "nothing is left to wait for");
    assert_eq!(status.window_start, status.next_new);
    assert!(testbed.clock().evaluated() < 2_000, "idle cycles are skipped");

    // More data makes the flow active again.
    testbed.tonic_mut().supply(FlowId(0), Some(7)).expect("it is open");
    testbed.run(Cycle(200_000_000), |_| false);
    assert_eq!(testbed.receiver().next(FlowId(0)), Segment(56));
    testbed.tonic_mut().close(FlowId(0)).expect("it is at rest");
    assert!(testbed.clock().block().status(FlowId(0)).is_none());
}

#[test]
fn flows_that_cannot_be() {
    let mut clock = Clock::new(Tonic::<_>::new(fixed_window(4), &Parameters::default()).expect("exists"));
    let tonic = clock.block_mut();
    let open = |tonic: &mut Tonic<_>, flow, segments| tonic.open(Cycle::ZERO, flow, Segment(0), segments);
    assert_eq!(open(tonic, FlowId(1024), None), Err(FlowError::OutOfRange(FlowId(1024))));
    assert_eq!(open(tonic, FLOW, Some(u32::MAX)), Err(FlowError::TooMany(u32::MAX)));
    assert_eq!(tonic.supply(FLOW, None), Err(FlowError::NotOpen(FLOW)));
    open(tonic, FLOW, Some(2)).expect("a new flow");
    assert_eq!(open(tonic, FLOW, None), Err(FlowError::InUse(FLOW)));
    assert_eq!(tonic.close(FLOW), Err(FlowError::Busy(FLOW)));
    // Both segments have left. A flow can be removed before they are acknowledged.
    for _ in 0..30 {
        clock.step(&TonicInput::IDLE);
    }
    clock.block_mut().close(FLOW).expect("nothing waits for credit");
    open(clock.block_mut(), FLOW, Some(2)).expect("the number is free");
    let published = Parameters { rules: Rules::Published, ..Parameters::default() };
    let mut tonic = Tonic::<_>::new(fixed_window(4), &published).expect("exists");
    assert_eq!(open(&mut tonic, FlowId(1023), None), Err(FlowError::OutOfRange(FlowId(1023))));
}

/// Packets of flows that do not exist, and acknowledgments of segments that were never sent, change nothing.
#[test]
fn packets_for_nobody() {
    let mut clock = Clock::new(Tonic::<_>::new(fixed_window(4), &Parameters::default()).expect("exists"));
    clock.block_mut().open(Cycle::ZERO, FLOW, Segment(0), None).expect("a new flow");
    for _ in 0..40 {
        clock.step(&TonicInput::IDLE);
    }
    let mut step = |flow, kind, cumulative, selective: Option<u32>| {
        let packet = ControlPacket {
            flow,
            kind,
            cumulative: Segment(cumulative),
            selective: selective.map(Segment),
            bitmap: [0; 2],
            data: 1,
        };
        let mut outputs = vec![clock.step(&TonicInput { packet: Some(packet), link_ready: true })];
        outputs.extend((0..8).map(|_| clock.step(&TonicInput::IDLE)));
        let status = clock.block().status(FLOW).expect("it is open");
        (status.window_start, status.acked, outputs.iter().filter_map(|output| output.incoming).count())
    };
    assert_eq!(step(FlowId(4), Kind::Ack, 1, None), (Segment(0), 0, 0), "not open");
    assert_eq!(step(FlowId(40_000), Kind::Ack, 1, None), (Segment(0), 0, 0), "no such number");
    assert_eq!(step(FLOW, Kind::Ack, 5, None), (Segment(0), 0, 1), "four were sent");
    assert_eq!(step(FLOW, Kind::Ack, u32::MAX, None), (Segment(0), 0, 1), "before the window");
    assert_eq!(step(FLOW, Kind::Ack, 0, Some(4)), (Segment(0), 0, 1), "not sent yet");
    assert_eq!(step(FLOW, Kind::Pull, 3, Some(2)), (Segment(0), 0, 1), "a pull acknowledges nothing");
    assert_eq!(step(FLOW, Kind::Ack, 1, Some(3)), (Segment(1), 1, 1));
    assert_eq!(
        step(FLOW, Kind::Nack, 4, None),
        (Segment(4), 0, 1),
        "and the bit of the selective acknowledgment is not kept"
    );
}

/// A run with skipped idle cycles equals a run with the same packets in which every cycle is computed.
#[test]
fn passing_over_idle_cycles_changes_nothing() {
    let end = Cycle(400_000);
    let path = Path { delay: 2_000, return_delay: 3_000, ..Path::default() };
    let parameters = Parameters { flows: 32, ..Parameters::default() };
    let protocol = Ndp { initial_window: 6, ..Ndp::new(CLOCK) };
    let mut testbed = testbed(protocol, &parameters, Answer::Ndp, path, (2, Segment(0), Some(70)));
    let (mut expected, mut packets) = (Vec::new(), Vec::new());
    while let Some((now, output)) = testbed.step(end) {
        // A packet takes three cycles from the pins to the programmable stage.
        packets.extend(output.incoming.map(|record| (Cycle(now.0 - 3), record.packet)));
        if output != TonicOutput::default() {
            expected.push((now, output));
        }
    }
    let skipped = end.0 - testbed.clock().evaluated();
    assert!(expected.len() > 500 && skipped > 350_000, "{skipped} of {end} cycles skipped");

    let mut clock = Clock::new(Tonic::<_>::new(protocol, &parameters).expect("hardware that exists"));
    for flow in [0, 1] {
        clock.block_mut().open(Cycle::ZERO, FlowId(flow), Segment(0), Some(70)).expect("a new flow");
    }
    let (mut every, mut packets) = (Vec::new(), VecDeque::from(packets));
    while clock.now() < end {
        let now = clock.now();
        let packet = packets.pop_front_if(|(cycle, _)| *cycle == now).map(|(_, packet)| packet);
        let output = clock.step(&TonicInput { packet, link_ready: true });
        if output != TonicOutput::default() {
            every.push((now, output));
        }
    }
    assert_eq!(clock.evaluated(), end.0);
    assert_eq!(every, expected);
}

/// A window of 256 segments and 2048 flows.
#[test]
fn the_largest_hardware() {
    let parameters = Parameters { flows: 2048, outstanding: 64, ..Parameters::default() };
    let tonic = Tonic::<_, 4>::new(fixed_window(256), &parameters).expect("hardware that exists");
    let receiver = Receiver::new(Answer::Cumulative, 2048, Segment(0), 1);
    let path = Path { delay: 500_000, ..Path::default() };
    let mut testbed = Testbed::new(tonic, receiver, path);
    for flow in [0, 1, 2047] {
        testbed.tonic_mut().open(Cycle::ZERO, FlowId(flow), Segment(0), None).expect("a new flow");
    }
    testbed.run(Cycle(500_000), |_| false);
    assert_eq!(testbed.transmitted(), 3 * 256, "a full window per flow, and nothing is acknowledged yet");
}
