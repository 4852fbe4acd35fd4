//! Congestion control of a connection without packets in flight: gate, samples, events, results, pacing.

use transport_common::congestion::admission::{Admission, Verdict};
use transport_common::congestion::control::{Congestion, Start};
use transport_common::congestion::event::{Event, EventType, RetransmitReason};
use transport_common::congestion::parameters::Parameters;
use transport_common::congestion::queues::AdmissionView;
use transport_common::congestion::result::Outcome;
use transport_common::congestion::settings::{Placement, Settings};
use transport_common::packet_delivery::{Cause, Gate, Retransmission, TxPacket};
use transport_common::units::{Fcwnd, InterPacketGap, Picoseconds, Ticks};
use transport_common::wire::PacketType;
use transport_common::wire::packet::Packet;

const RTO: Ticks = Ticks::from_nanos(1_000_000);

fn congestion(settings: &Settings) -> Congestion {
    Congestion::new(Start { fcwnd: Fcwnd::from_packets(8), ncwnd: 64, rto: RTO }, settings)
}

fn at(micros: u64) -> Picoseconds {
    Picoseconds::from_nanos(5_000_000_000 + micros * 1000)
}

/// Returns an ACK that arrives at `now` for a packet that left `rtt` microseconds before. The peer kept it for `kept`.
fn ack(now: u64, rtt: u64, kept: u64) -> Packet {
    Packet {
        kind: PacketType::Back,
        t1: at(now - rtt).ticks(),
        t2: at(now - rtt / 2 - kept).ticks(),
        iv: at(now - rtt / 2),
        arrival: at(now),
        ..Packet::default()
    }
}

/// D-28: the windows in force are the gate.
#[test]
fn the_gate_is_that_of_the_windows() {
    let mut c = congestion(&Settings::CONSTANT);
    assert_eq!(c.gate(), Gate { fabric: 8, ncwnd: 64 });
    c.fcwnd = Fcwnd(1 << 9);
    assert_eq!(c.gate().fabric, 1, "half a packet is one at a time");
}

/// F-9.2.3-4: an acknowledgement is a sample of the round trip, once, and not if the peer's ULP kept it.
#[test]
fn an_acknowledgement_is_a_sample_once() {
    let mut c = congestion(&Settings::SWIFT);
    let is_new = c.sample_rtt(&ack(1000, 40, 0));
    let rtt = c.rtt;
    assert!(is_new && rtt.0.abs_diff(Ticks::from_nanos(40_000).0) <= 1, "{rtt:?}");
    assert_eq!(c.min_rtt, rtt);
    assert!(!c.sample_rtt(&ack(1000, 40, 0)), "the same times");
    assert!(!c.sample_rtt(&ack(9000, 7000, 5000)), "kept for longer than the timeout");
    assert_eq!(c.rtt, rtt);
}

/// F-10.6.2.1-1: acknowledgements and retransmissions become events.
#[test]
fn what_happens_becomes_an_event() {
    let settings = Settings::SWIFT;
    let mut c = congestion(&settings);
    (0..3).for_each(|_| c.packet_acknowledged());
    let mut event = Event::default();
    c.on_acknowledgement(&mut event, &ack(1000, 40, 0), true, (&settings, at(1000).ticks()));
    c.describe(&mut event, &settings, 77);
    assert_eq!((event.event_type, event.eack_drop, event.num_packets_acked), (EventType::ACK, 1, 3));
    assert_eq!((event.connection_id, event.fcwnd, event.ncwnd), (77, c.fcwnd, 64));
    let retransmission =
        Retransmission { packet: TxPacket::default(), attempts: 9, cause: Cause::Early, is_loss: true };
    c.on_retransmission(&mut event, &retransmission);
    assert_eq!(
        (event.event_type, event.retransmit_count, event.retransmit_reason),
        (EventType::RETRANSMIT, 7, RetransmitReason::EARLY)
    );
    let mut outcome = Outcome::default();
    c.update(&mut event, &settings, at(1000), &mut outcome);
    assert_eq!((c.packets_acked, c.last_event), (0, at(1000).ticks()), "D-75");
    assert!(outcome.fcwnd < c.fcwnd, "it decides, and changes nothing");
    let applied = c.apply(&mut outcome, &settings);
    assert_eq!((applied.repaired, applied.old_rto, c.fcwnd), (false, RTO, outcome.fcwnd));
}

/// F-6.3-2: with placement constant the windows stay as they are. A connection that follows the floor of its path would
/// otherwise make its window one packet for a while.
#[test]
fn a_constant_window_is_not_drained() {
    let parameters = Parameters { adaptive_target: 1, ..Parameters::DEFAULT };
    let prepared = parameters.prepare().expect("legal");
    let drains = |c: &mut Congestion, settings: &Settings| {
        (0..60).any(|step| {
            let now = 1000 + step * 20_000;
            // A queue stands from the second packet on.
            let rtt = if step == 0 { 600 } else { 900 };
            let mut event = Event::default();
            c.on_acknowledgement(&mut event, &ack(now, rtt, 0), false, (settings, at(now).ticks()));
            c.gate().fabric != 8
        })
    };
    let constant = Settings { prepared, ..Settings::CONSTANT };
    let kernel = Settings { prepared, ..Settings::SWIFT };
    assert!(!drains(&mut congestion(&constant), &constant));
    let mut c = congestion(&kernel);
    assert!(drains(&mut c, &kernel), "the same delays drain a window that is not constant");
    c.apply_settings(&constant);
    assert_eq!(c.gate().fabric, 8, "the drain ends when the placement becomes constant");
}

/// F-10.6.2.2-5: a result that is not legal is repaired, and the caller is told.
#[test]
fn an_illegal_result_is_repaired() {
    let settings = Settings::SWIFT;
    let mut c = congestion(&settings);
    let mut outcome = Outcome { fcwnd: Fcwnd(0), ncwnd: 0, ..Outcome::default() };
    assert!(c.apply(&mut outcome, &settings).repaired);
    assert!(c.fcwnd.0 > 0 && c.ncwnd > 0);
}

/// D-73: one event is outstanding. It is given up after a time.
#[test]
fn one_event_waits_for_its_result() {
    let settings = Settings { placement: Placement::User as u32, ..Settings::SWIFT };
    let mut c = congestion(&settings);
    let queues = AdmissionView { occupancy: [0; 4], admission: Admission::new(1024) };
    let mut admit = |micros| {
        let admitted = c.admit(&queues, &settings, at(micros).ticks());
        (admitted.verdict.is_admitted(), admitted.lost)
    };
    assert_eq!(admit(0), (true, false));
    assert_eq!(admit(1000), (false, false), "the result is outstanding");
    assert_eq!(admit(17_000), (true, true), "the engine did not answer");
    assert!(c.expects_result(&settings));
    assert!(!c.expects_result(&settings), "once");
    let gone = AdmissionView { occupancy: [0; 4], admission: Admission::new(0) };
    let verdict: Verdict = c.admit(&gone, &settings, at(20_000).ticks()).verdict;
    assert!(!verdict.is_admitted(), "no engine");
}

/// F-10.3.5-1, D-63: below a window of one packet, packets are apart by the gap.
#[test]
fn a_window_below_one_packet_spaces_departures() {
    let mut c = congestion(&Settings::SWIFT);
    (c.fcwnd, c.inter_packet_gap) = (Fcwnd(1 << 9), InterPacketGap(100)); // 51.2 us
    assert!(c.may_depart(at(0)), "the first");
    c.departed(at(0));
    assert!(!c.may_depart(at(51)));
    assert!(c.wait_for_departure());
    assert!(!c.wait_for_departure(), "it waits already");
    assert!(c.pacing.is_due(at(52).ticks()) && c.may_depart(at(52)));
    c.departed(at(60));
    assert!(c.may_depart(at(103)), "the gap counts from the time when it was due");
    c.fcwnd = Fcwnd::from_packets(1);
    assert!(c.may_depart(at(61)));
}

/// Ticks wrap after 563 s, and the clock after 213 days. A connection that sent nothing for longer than half of that may
/// still send at once.
#[test]
fn a_paced_connection_may_send_after_any_time_of_silence() {
    let mut c = congestion(&Settings::SWIFT);
    (c.fcwnd, c.inter_packet_gap) = (Fcwnd(1 << 9), InterPacketGap(100));
    c.departed(at(1));
    for silence in
        [1u64, 281, 282, 400, 562, 563, 564, 9_000_000, 18_000_000].map(|seconds| seconds * 1_000_000)
    {
        let now = Picoseconds(silence.wrapping_mul(1_000_000));
        assert!(c.may_depart(now), "{} s", silence / 1_000_000);
    }
    c.departed(Picoseconds(u64::MAX - 1_000_000));
    assert!(!c.may_depart(Picoseconds(49_000_000)), "the gap goes on where the clock wraps");
    assert!(c.may_depart(Picoseconds(51_000_000)));
}
