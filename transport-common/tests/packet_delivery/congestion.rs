//! The interface between the datapath and congestion control: events, results, pacing, paths, occupancy (section
//! 10).

use transport_common::bitmap::Bitmap128;
use transport_common::congestion::admission::{Admission, Verdict};
use transport_common::congestion::algorithm::AlgorithmId;
use transport_common::congestion::event::{EventType, RetransmitReason};
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::result::Outcome;
use transport_common::congestion::settings::{CurrentSettings, Placement, Settings};
use transport_common::counters::Counter;
use transport_common::packet_delivery::Window;
use transport_common::units::{FalconTime, Fcwnd, InterPacketGap, Picoseconds, Ticks};

use crate::harness::*;

/// Nanoseconds per unit of the inter-packet gap.
const GAP_NANOS: u64 = 512;
/// A tick, rounded up, nanoseconds.
const TICK_NANOS: u64 = 132;

fn node(settings: Settings) -> Node {
    let mut p = parameters(true, initial(100, 300, 1), initial(500, 700, 1));
    p.settings = settings;
    Node::new(&p)
}

fn user() -> Settings {
    Settings { placement: Placement::User as u32, ..Settings::SWIFT }
}

/// Creates a node whose rate update engine admits up to `capacity` events.
fn queued(capacity: u32) -> Node {
    let mut node = node(user());
    node.admit_events(Admission::new(capacity));
    node
}

/// Returns a BACK of everything sent, in response to a packet sent at `t1` that arrived at `t2`.
fn answer(node: &Node, t1: u64, t2: u64, now: u64) -> Wire {
    let c = &node.entry.connection;
    let mut wire = back(node, c.flow.delivery.data().tx.next.0, c.flow.delivery.request().tx.next.0, at(now));
    wire.packet.t1 = at(t1).ticks();
    wire.packet.t2 = at(t2).ticks();
    wire
}

fn nic_time(micros: u64) -> NicTime {
    NicTime::from_picoseconds(at(micros))
}

/// F-10.6.2.1-1, F-10.6.2.1-2, F-10.6.2.1-4, F-10.6.2.1-5, F-10.6.2.1-9: the content of an ACK's event.
#[test]
fn an_ack_raises_an_event_with_its_four_times() {
    let mut node = queued(16);
    (0..3).for_each(|_| {
        node.post(write(0, 4));
    });
    node.drain(at(0));
    let mut wire = answer(&node, 0, 7, 30);
    wire.packet.iv = at(20);
    wire.packet.forward_hops = 3;
    wire.packet.rx_buffer_level = 17;
    wire.packet.ecn_count = 99;
    wire.packet.cc_metadata = 0xabcdef;
    node.receive(&wire, at(30));
    let [event] = node.events[..] else { panic!("one event: {:?}", node.events) };
    assert_eq!((event.connection_id, event.event_type), (5, EventType::ACK));
    assert_eq!([event.t1, event.t2, event.t3, event.t4], [0, 7, 20, 30].map(nic_time));
    assert_eq!((event.forward_hops, event.rx_buffer_level, event.ecn_accumulated), (3, 17, 99));
    assert_eq!((event.cc_metadata, event.num_packets_acked), (0xabcdef, 3));
    assert_eq!((event.eack, event.eack_drop, event.fcwnd, event.ncwnd), (0, 0, Fcwnd::from_packets(32), 64));
    let delays = &node.entry.connection.flow.congestion.delays;
    assert_eq!(delays[0].last, nic_time(30).since(nic_time(0)));
    let fabric = nic_time(30).since(nic_time(0)).0 - nic_time(20).since(nic_time(7)).0;
    assert_eq!((delays[1].last, delays[1].windowed_minimum()), (Ticks(fabric), Ticks(fabric)));
}

/// F-10.6.2.1-10: loss shown by the out-of-order distance. The count of acknowledged packets starts again.
#[test]
fn an_eack_that_shows_loss_says_so_and_each_retransmission_is_an_event() {
    let mut node = queued(16);
    (0..10).for_each(|_| {
        node.post(write(0, 4));
    });
    node.drain(at(0));
    let mut wire = answer(&node, 0, 5, 100);
    let base = node.entry.connection.flow.delivery.lanes[0].tx.base;
    wire.packet.kind = EACK;
    wire.packet.acknowledgement.data_base = base;
    wire.packet.acknowledgement.selective = 1;
    wire.packet.acknowledgement.data_received = Bitmap128 { low: 0b11_1111_1110, high: 0 };
    wire.packet.acknowledgement.data_acknowledged = Bitmap128 { low: 0b11_1111_1110, high: 0 };
    node.receive(&wire, at(100));
    let event = *node.events.last().expect("an event");
    assert_eq!((event.eack, event.eack_drop, event.num_packets_acked), (1, 1, 9));
    // The rate update engine has not answered, so the retransmission's event is refused.
    node.drain(at(101));
    assert_eq!(node.count(Counter::EventRefusedOutstanding), 1);
    assert_eq!(node.events.len(), 1);
    node.result(Outcome { connection_id: 5, ..outcome(&node) }, at(102));
    not_sent(&mut node, Window::Data, base);
    node.wake = true;
    node.drain(at(103));
    assert_eq!(node.events.len(), 1, "a packet that was never sent is sent again without an event");
    node.drain(at(103 + RTO_MICROS + 10));
    let event = *node.events.last().expect("an event");
    assert_eq!((event.event_type, event.retransmit_count), (EventType::RETRANSMIT, 1));
    assert_eq!(event.retransmit_reason, RetransmitReason::TIMEOUT);
    assert_eq!(event.num_packets_acked, 0);
}

/// F-6.3-3, F-9.2.4-3, F-11-9, D-38: each of the three causes raises its event: an ACK, a NACK, a retransmission. A
/// packet dropped for lack of resources shows in the NACK's code, one dropped beyond the window in the ACK's
/// metadata.
#[test]
fn each_cause_raises_its_event() {
    let mut node = queued(16);
    for _ in 0..3 {
        node.post(write(0, 4));
    }
    node.drain(at(0));
    let answered = |node: &mut Node, now: u64| {
        let unchanged = outcome(node);
        node.result(unchanged, at(now));
    };
    let mut ack = answer(&node, 0, 5, 10);
    ack.packet.acknowledgement.data_base.0 -= 2;
    ack.packet.cc_metadata = 0b10; // OWN of the data window
    node.receive(&ack, at(10));
    answered(&mut node, 11);
    let mut refusal = nack(&node, Window::Data, 301, NO_RESOURCES, at(20));
    (refusal.packet.t1, refusal.packet.t2) = (at(1).ticks(), at(6).ticks());
    node.receive(&refusal, at(20));
    answered(&mut node, 21);
    assert_eq!(node.drain(at(900)), [], "F-9.2.4-3: the timer sends it again");
    assert!(!node.drain(at(RTO_MICROS + 100)).is_empty());
    let raised: Vec<_> = node.events.iter().map(|event| event.event_type).collect();
    assert_eq!(raised, [EventType::ACK, EventType::NACK, EventType::RETRANSMIT]);
    assert_eq!((node.events[0].cc_metadata, node.events[1].nack_code), (0b10, NO_RESOURCES));
}

/// F-6.3-2: the rate update engine is a stub that answers each event with a constant. The datapath keeps to it.
#[test]
fn the_datapath_obeys_a_stub() {
    for (fcwnd, ncwnd, gap) in [(1, 64, 0), (3, 64, 0), (32, 2, 0), (32, 7, 0)] {
        let mut node = queued(16);
        let stub = Outcome {
            fcwnd: Fcwnd::from_packets(fcwnd),
            ncwnd,
            inter_packet_gap: InterPacketGap(gap),
            ..outcome(&node)
        };
        node.post(write(0, 4));
        node.drain(at(0));
        let ack = answer(&node, 0, 2, 5);
        node.receive(&ack, at(5));
        assert_eq!(node.events.len(), 1);
        node.result(stub, at(6));
        for _ in 0..20 {
            node.post(write(0, 4));
        }
        assert_eq!(node.drain(at(7)).len() as u32, fcwnd.min(ncwnd.into()), "fcwnd {fcwnd}, ncwnd {ncwnd}");
    }
    let mut node = queued(16);
    node.post(write(0, 4));
    node.drain(at(0));
    let ack = answer(&node, 0, 2, 5);
    node.receive(&ack, at(5));
    // 100 us between packets.
    let gap = InterPacketGap((100_000 / GAP_NANOS) as u32);
    let stub = Outcome { fcwnd: Fcwnd(512), inter_packet_gap: gap, ..outcome(&node) };
    node.result(stub, at(6));
    let mut departures = Vec::new();
    for now in 7..1000 {
        node.post(write(0, 4));
        if !node.drain(at(now)).is_empty() {
            departures.push(now);
            let ack = answer(&node, now, now + 1, now + 2);
            node.receive(&ack, at(now + 2));
        }
    }
    assert!(departures.len() >= 9, "{departures:?}");
    assert!(departures.windows(2).all(|pair| (99..103).contains(&(pair[1] - pair[0]))), "{departures:?}");
}

/// Returns a result that changes nothing.
fn outcome(node: &Node) -> Outcome {
    let c = &node.entry.connection.flow.congestion;
    Outcome {
        connection_id: 5,
        fcwnd: c.fcwnd,
        ncwnd: c.ncwnd as u16,
        retransmit_timeout: c.rto,
        base_delay_target: c.base_delay_target,
        delay_state: c.delay_state,
        rtt_state: c.rtt_state,
        ..Outcome::default()
    }
}

/// D-73: a full queue refuses events, and so does one without an engine. The count of packets continues.
#[test]
fn without_room_events_are_refused_and_counted() {
    let mut node = queued(0);
    for round in 0..3 {
        node.post(write(0, 4));
        node.drain(at(round * 10));
        let wire = answer(&node, round * 10, round * 10 + 2, round * 10 + 5);
        node.receive(&wire, at(round * 10 + 5));
    }
    assert_eq!(node.count(Counter::EventRefusedFull), 3);
    assert_eq!(Counter::EventRefusedFull.name(), Verdict::RefusedFull.name());
    assert_eq!((node.events.len(), node.entry.connection.flow.congestion.packets_acked), (0, 3));
}

/// If an engine never answers, its event is given up after some time, and nothing else changes (D-73).
#[test]
fn an_event_without_a_result_is_given_up() {
    let mut node = queued(16);
    let ack = |node: &mut Node, now: u64| {
        node.post(write(0, 4));
        node.drain(at(now));
        let wire = answer(node, now, now + 2, now + 5);
        node.receive(&wire, at(now + 5));
    };
    ack(&mut node, 0);
    ack(&mut node, 100);
    assert_eq!((node.events.len(), node.count(Counter::EventRefusedOutstanding)), (1, 1));
    ack(&mut node, 20_000);
    assert_eq!((node.events.len(), node.count(Counter::CongestionEventLost)), (2, 1));
    assert_eq!(node.entry.tables.statistics.congestion_lost, 1);
    assert_eq!(
        node.entry.connection.flow.congestion.fcwnd,
        Fcwnd::from_packets(32),
        "the last windows stay in force"
    );
}

/// Unexpected results are dropped, and illegal ones are repaired (D-73, F-10.6.2.2-5).
#[test]
fn results_are_checked_before_they_are_used() {
    let mut node = queued(16);
    let mut wild =
        Outcome { fcwnd: Fcwnd(0), ncwnd: u16::MAX, retransmit_timeout: Ticks(0), ..outcome(&node) };
    node.result(wild, at(0));
    assert_eq!(node.count(Counter::CongestionResultUnexpected), 1);
    assert_eq!(node.entry.connection.flow.congestion.fcwnd, Fcwnd::from_packets(32));
    node.post(write(0, 4));
    node.drain(at(1));
    let wire = answer(&node, 1, 3, 5);
    node.receive(&wire, at(5));
    wild.connection_id = 6;
    node.result(wild, at(6));
    assert_eq!(node.count(Counter::CongestionResultUnexpected), 2, "another connection's");
    wild.connection_id = 5;
    node.result(wild, at(7));
    assert_eq!(node.count(Counter::CongestionResultRepaired), 1);
    let c = &node.entry.connection.flow.congestion;
    assert_eq!((c.fcwnd, c.ncwnd, c.rto), (Fcwnd(1), 2047, Ticks(1)));
}

/// F-9.1.1-8, F-10.6.2.1-8: a shorter timeout moves timers that already run to earlier times.
#[test]
fn a_shorter_timeout_holds_for_packets_under_way() {
    let mut node = queued(16);
    node.post(write(0, 4));
    node.post(write(0, 4));
    node.drain(at(0));
    let mut wire = answer(&node, 0, 2, 5);
    wire.packet.acknowledgement.data_base.0 -= 1;
    node.receive(&wire, at(5));
    node.result(Outcome { retransmit_timeout: Ticks::from_nanos(50_000), ..outcome(&node) }, at(6));
    assert!(node.drain(at(40)).is_empty());
    let again = node.drain(at(60));
    assert_eq!(again.iter().map(|wire| wire.packet.psn).collect::<Vec<_>>(), [301]);
    assert_eq!(node.entry.tables.statistics.retransmitted_timeout, 1);
}

/// D-80: another port or flow label for all packets from then on, and no other change.
#[test]
fn randomize_path_takes_another_path() {
    for version in [4, 6] {
        let mut node = queued(16);
        node.entry.connection.flow.endpoint.path.ip_version = version;
        node.entry.connection.flow.endpoint.path.source_port = 50_000;
        let mut seen = vec![node.entry.connection.flow.endpoint.path];
        for round in 0..20 {
            let now = round * 100;
            node.post(write(0, 4));
            node.drain(at(now));
            let wire = answer(&node, now, now + 2, now + 5);
            node.receive(&wire, at(now + 5));
            node.result(Outcome { randomize_path: 1, ..outcome(&node) }, at(now + 6));
            let (path, last) = (node.entry.connection.flow.endpoint.path, seen[seen.len() - 1]);
            if version == 4 {
                assert!(path.source_port >= 49152 && path.source_port != last.source_port);
                assert_eq!(path.flow_label, last.flow_label);
            } else {
                assert!(path.flow_label < 1 << 20 && path.flow_label != last.flow_label);
                assert_eq!(path.source_port, last.source_port);
            }
            seen.push(path);
        }
        let mut distinct: Vec<_> = seen.iter().map(|path| (path.source_port, path.flow_label)).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 15, "{} paths", distinct.len());
        assert_eq!(node.entry.tables.statistics.path_changes, 20);
    }
}

fn with_timeout_threshold(threshold: u32) -> Settings {
    let parameters = Parameters { plb_timeout_threshold: threshold, ..Parameters::DEFAULT };
    Settings { prepared: parameters.prepare().expect("in range"), ..Settings::SWIFT }
}

/// F-10.6.2.2-4: the first packet that times out takes all to another path, itself included. The others of its window
/// follow it, and do not change the path again.
#[test]
fn a_timeout_takes_another_path() {
    for threshold in [0, 1] {
        let mut node = node(with_timeout_threshold(threshold));
        (0..10).for_each(|_| {
            node.post(write(0, 4));
        });
        node.drain(at(0));
        let before = node.entry.connection.flow.endpoint.path;
        let first = node.turn(at(RTO_MICROS + 1)).expect("the base packet, sent again");
        assert_eq!(first.packet.psn, 300);
        let after = node.entry.connection.flow.endpoint.path;
        assert_eq!(before != after, threshold == 1, "before the copy leaves");
        node.drain(at(RTO_MICROS + 2));
        assert_eq!(node.entry.tables.statistics.retransmitted_timeout, 10);
        assert_eq!(node.entry.connection.flow.endpoint.path, after);
        assert_eq!(node.entry.tables.statistics.path_changes, threshold.into());
    }
}

/// An end that sends no data of its own has no timeouts. If its peer repeats what it already has, its ACKs are
/// probably lost, so they take other paths: after 2, 4, 8... copies in a row (with a threshold of 1). A new packet
/// shows that the ACKs arrive.
#[test]
fn acknowledgements_that_get_lost_take_other_paths() {
    for (threshold, new_packet, expected) in
        [(0, false, 0), (1, false, 5), (1, true, 2), (3, false, 4), (7, false, 3)]
    {
        let mut p = Pair::new(true);
        p.b.entry.settings = CurrentSettings::new(with_timeout_threshold(threshold));
        (0..2).for_each(|_| {
            p.a.post(write(0, 4));
        });
        let sent = p.a.drain(at(0));
        p.b.receive(&sent[0], at(10));
        let path = |p: &Pair| p.b.entry.connection.flow.endpoint.path;
        let (before, copies) = (path(&p), if new_packet { 4 } else { 32 });
        for n in 0..copies {
            if new_packet && n == 3 {
                p.b.receive(&sent[1], at(20 + n));
            }
            p.b.receive(&sent[0], at(20 + n));
        }
        if new_packet {
            p.b.receive(&sent[0], at(30));
        }
        assert_eq!(p.b.entry.tables.statistics.path_changes, expected, "threshold {threshold}");
        assert_eq!(path(&p) != before, expected != 0);
        assert_eq!(p.b.count(Counter::DropOldDuplicate), p.b.entry.tables.statistics.duplicates as u32);
    }
}

/// F-10.3.5-1, F-10.6.2.1-7, D-63: below a window of 1, packets are sent one by one, a gap apart, at both ends of
/// the range.
#[test]
fn departures_keep_the_gap() {
    // 8 Gb/s and 800 kb/s with packets of 3264 B, and the ends of the field's range.
    for gap in [1, 6, 1000, 63_750, (1 << 20) - 1] {
        let mut node = node(Settings::CONSTANT);
        node.entry.connection.flow.congestion.fcwnd = Fcwnd(512);
        node.entry.connection.flow.congestion.inter_packet_gap = InterPacketGap(gap);
        node.entry.connection.flow.congestion.rto = Ticks((1 << 24) - 1);
        (0..20).for_each(|_| {
            node.post(write(0, 4));
        });
        let mut now = 5_000_000_000u64;
        let mut departures = Vec::new();
        while departures.len() < 20 {
            let sent = node.drain(Picoseconds::from_nanos(now));
            assert!(sent.len() <= 1, "one packet outstanding at most");
            if !sent.is_empty() {
                departures.push(now);
                let c = &node.entry.connection;
                let time = Picoseconds::from_nanos(now + 50);
                let ack =
                    back(&node, c.flow.delivery.data().tx.next.0, c.flow.delivery.request().tx.next.0, time);
                node.receive(&ack, time);
            }
            // The wheel wakes the engine at ticks of 512 ns.
            now += GAP_NANOS / 4;
            if let Some(deadline) = node.deadline() {
                let rest = deadline.since(Picoseconds::from_nanos(now).ticks()).0;
                if rest < 1 << 24 {
                    now += Ticks(rest).as_nanos();
                }
            }
        }
        let gap_nanos = u64::from(gap) * GAP_NANOS;
        for pair in departures.windows(2) {
            let apart = pair[1] - pair[0];
            assert!(apart + TICK_NANOS >= gap_nanos, "gap {gap}: {apart} ns apart");
        }
        // The lateness of the engine does not accumulate: the rate is kept over all departures.
        let mean = (departures[19] - departures[0]) / 19;
        assert!(mean.abs_diff(gap_nanos) <= TICK_NANOS + GAP_NANOS / 2, "gap {gap}: {mean} ns on average");
        assert!(gap < 6 || node.entry.tables.statistics.paced >= 18);
    }
}

/// F-10.3.5-1: without an acknowledgement no packet follows, even if the gap is long over. From a window of 1 on
/// there is no gap (F-10.6.2.1-6).
#[test]
fn one_packet_is_outstanding_below_a_window_of_one() {
    let mut node = node(Settings::CONSTANT);
    let c = &mut node.entry.connection.flow.congestion;
    (c.fcwnd, c.inter_packet_gap, c.rto) = (Fcwnd(1023), InterPacketGap(10), Ticks((1 << 24) - 1));
    (0..5).for_each(|_| {
        node.post(write(0, 4));
    });
    assert_eq!(node.drain(at(0)).len(), 1);
    node.wake = true;
    assert!(node.drain(at(1000)).is_empty());
    node.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(3);
    node.wake = true;
    assert_eq!(node.drain(at(1001)).len(), 2, "three are outstanding at once");
}

/// A retransmission and a response also wait for their departure.
#[test]
fn retransmissions_and_responses_are_paced() {
    let mut p = Pair::new(false);
    let c = &mut p.b.entry.connection.flow.congestion;
    (c.fcwnd, c.inter_packet_gap) = (Fcwnd(512), InterPacketGap(200));
    (0..2).for_each(|_| {
        p.a.post(read(0, 4));
    });
    let requests = p.a.drain(at(0));
    let first = p.b.receive(&requests[0], at(1)).expect("the first response leaves at once");
    p.a.receive(&first, at(2));
    let ack = back(
        &p.b,
        p.b.entry.connection.flow.delivery.lanes[0].tx.next.0,
        p.b.entry.connection.flow.delivery.lanes[1].tx.next.0,
        at(3),
    );
    p.b.receive(&ack, at(3));
    let second = p.b.receive(&requests[1], at(4));
    assert!(second.is_none_or(|wire| !wire.is(PULL_DATA)), "102 us are not over");
    assert!(p.b.drain(at(50)).iter().all(|wire| !wire.is(PULL_DATA)));
    assert_eq!(p.b.drain(at(104)).iter().filter(|wire| wire.is(PULL_DATA)).count(), 1);
}

/// Swift in the datapath: an ACK within the target increases the window, one far above it decreases the window
/// (F-10.3.1-1, F-10.3.1-3).
#[test]
fn swift_decides_in_the_step() {
    let mut node = node(Settings::SWIFT);
    node.post(write(0, 4));
    node.drain(at(0));
    let wire = answer(&node, 0, 5, 10);
    node.receive(&wire, at(10));
    let grown = node.entry.connection.flow.congestion.fcwnd;
    assert!(grown > Fcwnd::from_packets(32), "{grown:?}");
    node.post(write(0, 4));
    node.drain(at(1000));
    let mut wire = answer(&node, 1000, 1001, 2000);
    wire.packet.iv = at(1002);
    node.receive(&wire, at(2000));
    let c = &node.entry.connection.flow.congestion;
    assert!(c.fcwnd <= Fcwnd(grown.0 / 2 + 1), "{:?}", c.fcwnd);
    assert_eq!(node.entry.tables.statistics.congestion_results, 2);
    assert!(node.events.is_empty(), "no event uses the queues");
}

/// Settings change during traffic: limits apply at once, and the state that was reached stays.
#[test]
fn settings_change_while_packets_are_under_way() {
    let mut node = node(Settings::SWIFT);
    node.post(write(0, 4));
    node.drain(at(0));
    let narrow = Parameters {
        max_fcwnd: Fcwnd::from_packets(8),
        max_flow_scaling_window: Fcwnd::from_packets(8),
        fixed_window: Fcwnd::from_packets(8),
        ..Parameters::DEFAULT
    };
    let prepared: Prepared = narrow.prepare().expect("in range");
    let settings = Settings { algorithm: AlgorithmId::NewReno as u32, prepared, ..user() };
    node.entry.settings.request(&settings);
    assert_eq!(node.entry.settings.in_force, Settings::SWIFT, "not before the next service");
    node.wake = true;
    node.drain(at(5));
    assert_eq!(node.entry.settings, CurrentSettings::new(settings));
    assert_eq!(node.entry.connection.flow.congestion.fcwnd, Fcwnd::from_packets(8));
}

/// F-10.2-1, F-10.2-3, F-10.2-4, D-76: requests that have to wait raise the level that ACKs report. Later it falls
/// again.
#[test]
fn held_requests_raise_the_level() {
    let mut p = Pair::new(true);
    p.a.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(128);
    p.a.entry.connection.flow.congestion.ncwnd = 128;
    (0..65).for_each(|_| {
        p.a.post(write(0, 4));
    });
    let sent = p.a.drain(at(0));
    for wire in &sent[1..] {
        p.b.receive(wire, at(1));
    }
    let level = p.b.entry.cold.occupancy.level;
    assert_eq!(level, 16, "64 of 128 requests wait for the first");
    let ack = p.b.drain(at(20)).into_iter().find(|wire| wire.is(EACK)).expect("an EACK");
    assert_eq!(ack.packet.rx_buffer_level, 16);
    p.b.receive(&sent[0], at(21));
    p.b.drain(at(22));
    assert_eq!(p.b.entry.cold.occupancy.level, 0);
}

/// F-10.2-3: the value at which a pool counts as full sets its thresholds, separately for the two pools.
#[test]
fn thresholds_follow_where_a_pool_is_full() {
    let level = |full_packet_pool, full_buffer_pool, held: u64| {
        let mut p = Pair::new(true);
        let config = &mut p.b.entry.cold.occupancy;
        (config.full_packet_pool, config.full_buffer_pool) = (full_packet_pool, full_buffer_pool);
        p.a.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(128);
        p.a.entry.connection.flow.congestion.ncwnd = 128;
        (0..=held).for_each(|_| {
            p.a.post(write(0, 4));
        });
        for wire in &p.a.drain(at(0))[1..] {
            p.b.receive(wire, at(1));
        }
        p.b.entry.cold.occupancy.level
    };
    assert_eq!([level(0, 0, 16), level(128, 2048, 16)], [4, 4], "the defaults are the whole pools");
    assert_eq!([level(32, 0, 15), level(32, 0, 16), level(32, 0, 40)], [15, 16, 31]);
    // The nodes here use no cell other than the one of the request that arrives.
    assert_eq!([level(0, 3, 1), level(0, 2, 1), level(0, 1, 1)], [10, 16, 31]);
    assert_eq!(level(u16::MAX, u16::MAX, 16), 4, "no pool is larger than it is");
}

/// F-10.2-2, D-61: the weight of a new value smooths the level.
#[test]
fn a_small_weight_smooths_the_level() {
    let mut p = Pair::new(true);
    p.b.entry.cold.occupancy.weight = 64; // a quarter
    (0..3).for_each(|_| {
        p.a.post(write(0, 4));
    });
    let sent = p.a.drain(at(0));
    p.b.receive(&sent[1], at(1));
    assert_eq!(p.b.entry.cold.occupancy.packets, 256, "the first sample, 8 fraction bits (D-76)");
    p.b.receive(&sent[2], at(1));
    assert_eq!(p.b.entry.cold.occupancy.packets, 320, "a quarter of one request more");
}

/// The timing wheel is not the only clock: the pacing timer itself never fires early either.
#[test]
fn the_pacing_timer_is_armed_behind_the_departure() {
    let mut node = node(Settings::CONSTANT);
    let c = &mut node.entry.connection.flow.congestion;
    (c.fcwnd, c.inter_packet_gap) = (Fcwnd(512), InterPacketGap(100));
    (0..2).for_each(|_| {
        node.post(write(0, 4));
    });
    assert_eq!(node.drain(at(0)).len(), 1);
    let wire = answer(&node, 0, 1, 2);
    node.receive(&wire, at(2));
    assert!(node.drain(at(3)).is_empty());
    let pacing = node.entry.connection.flow.congestion.pacing.time().expect("armed");
    let due = FalconTime(at(0).ticks().0).after(Ticks::from_nanos(100 * GAP_NANOS));
    assert!(pacing.reached(due));
    assert!(pacing.since(due).0 <= 2);
}
