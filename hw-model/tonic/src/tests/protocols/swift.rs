//! Swift.

use clocked::RingBitmap;
use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::{Event, EventType};
use transport_common::congestion::nic_time::{DelaySelect, NicTime};
use transport_common::congestion::parameters::Prepared;
use transport_common::congestion::result::Outcome;
use transport_common::congestion::swift::swift;
use transport_common::units::{Fcwnd, Picoseconds};

use crate::logic::{Logic, Plain};
use crate::protocols::{Swift, SwiftState, SwiftWindow};
use crate::{Incoming, Kind, Protocol, RATE_CYCLES, Segment, View};

use super::{CLOCK, Session};

fn swift_of(initial_window: u16) -> Swift {
    Swift(SwiftWindow { initial_window, ..SwiftWindow::new(CLOCK, 100_000_000_000, 1_500) })
}

fn session(initial_window: u16) -> Session<Swift> {
    let mut session = Session::new(swift_of(initial_window));
    session.wait(200);
    assert_eq!(session.sent().len(), usize::from(initial_window));
    session
}

/// Returns the datapath's time of a cycle of 10 ns.
fn ticks(cycle: u64) -> NicTime {
    NicTime::from_picoseconds(Picoseconds(cycle * 10_000))
}

/// Every decision equals that of the datapath: the test passes the same events to its function directly.
#[test]
fn every_window_is_the_one_of_the_datapath() {
    let mut session = session(32);
    session.wait(30_000);
    let mut expected = Outcome { fcwnd: Fcwnd::from_packets(32), ..Outcome::default() };
    let (mut fell, mut rose) = (0, 0);
    for number in 1..=600u64 {
        session.wait(200);
        // The delay alternates every 150 us: below the target of at least 25 us, and far above it.
        let least = if number % 120 < 60 { 600 } else { 8_000 };
        let age = least + number * 7_919 % 1_500;
        // The programmable stage sees the packet three cycles after the pins.
        let seen = session.clock.now().0 + 3;
        let status = session.status();
        let next = if status.next_new == status.window_start {
            status.window_start
        } else {
            status.window_start.plus(1)
        };
        let record = session.packet(Kind::Ack, next.0, None, (seen - age) as u32);
        let event = Event {
            event_type: EventType::ACK,
            t1: ticks(seen - age),
            t4: ticks(seen),
            fcwnd: expected.fcwnd,
            fabric_window_time_marker: expected.fabric_window_time_marker,
            base_delay_target: Prepared::DEFAULT.parameters().base_delay_target,
            delay_select: DelaySelect::Fabric.code(),
            delay_state: expected.delay_state,
            rtt_state: expected.rtt_state,
            num_packets_acked: record.newly_acked as u16,
            ..Event::default()
        };
        swift(&event, &mut EngineState::default(), &Prepared::DEFAULT, &mut expected);
        let status = session.status();
        assert_eq!(status.user.fcwnd.0, u64::from(expected.fcwnd.0), "acknowledgment {number}");
        assert_eq!(status.user.rtt.0, u64::from(expected.rtt_state.0));
        assert_eq!(status.user.delay.0, u64::from(expected.delay_state.0));
        assert_eq!(status.window_size, expected.fcwnd.packets().min(128));
        fell += u32::from(expected.fcwnd.0 < event.fcwnd.0);
        rose += u32::from(expected.fcwnd.0 > event.fcwnd.0);
    }
    assert!(fell >= 5 && rose > 100, "both happen: {fell}, {rose}");
}

/// Half a segment in flight means one segment every two round trips. From one segment on, the rate is the line
/// rate.
#[test]
fn below_one_segment_it_is_paced() {
    type L = Plain<2>;
    const ROUND_TRIP: u64 = 25_000;
    let protocol = swift_of(2);
    let number = |value: u64| L::word(value);
    let decided = |fcwnd: u64| {
        let now = 1_000_000;
        let flow = View::<L> {
            now: number(now),
            window_start: number(8),
            window_size: number(1),
            next_new: number(9),
            data_left: number(1_000),
            total_sent: number(9),
            timer_period: number(100_000),
            acked: RingBitmap::EMPTY,
            marked: RingBitmap::EMPTY,
            retransmitted: RingBitmap::EMPTY,
        };
        let input = Incoming::<L> {
            is_ack: true,
            is_nack: false,
            is_pull: false,
            is_cnp: false,
            cumulative: number(8),
            has_selective: false,
            selective: number(0),
            newly_selective: false,
            data: number(now - ROUND_TRIP),
            newly_acked: number(1),
            old_window_start: number(7),
            flow,
        };
        // The window has just decreased, so it stays.
        let marker = number(ticks(now).0.into());
        let state = SwiftState { fcwnd: number(fcwnd), marker, ..protocol.initial::<L>(number(0)).state };
        protocol.incoming(&input, &state).0
    };
    let half = decided(512);
    let cycles = (1_500 * RATE_CYCLES) / half.rate.0;
    assert!(half.set_rate && cycles.abs_diff(2 * ROUND_TRIP) < 100, "{cycles} cycles a segment");
    assert_eq!(half.window_size.0, 1);
    let two = decided(2_048);
    assert_eq!((two.rate.0, two.window_size.0), (protocol.0.rate.into(), 2));
}

#[test]
fn three_higher_segments_show_a_loss_once() {
    let mut session = session(12);
    session.sack(0, 1);
    assert_eq!(session.sack(0, 2).mark, None);
    assert_eq!(session.sack(0, 3).mark, Some((Segment(0), Segment(1))));
    assert_eq!(session.sent().first(), Some(&0), "before new ones");
    // 4 is lost too, and 0 is lost again. Acknowledgments do not send 0 a third time.
    session.sack(0, 5);
    session.sack(0, 6);
    assert_eq!(session.sack(0, 7).mark, Some((Segment(4), Segment(5))));
    assert_eq!(session.sent().into_iter().filter(|sent| *sent < 12).collect::<Vec<_>>(), [4]);
    // A timeout sends all missing segments again, within half of the window.
    session.wait_for_timeout();
    assert_eq!(session.sent(), [0, 4]);
    assert_eq!(session.status().user.timeouts.0, 1);
}
