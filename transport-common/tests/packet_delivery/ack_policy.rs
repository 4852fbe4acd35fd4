//! When an ACK is sent and of which kind (F-9.1.6, D-22, D-32, D-33, D-88), and when one is requested (D-81).

use transport_common::bitmap::Bitmap128;
use transport_common::counters::Counter;
use transport_common::ids::Rsn;
use transport_common::packet_delivery::Window;
use transport_common::queues::Verb;
use transport_common::transaction::RESPONSES;
use transport_common::units::{Deadline, Fcwnd, Ticks};
use transport_common::wire::PacketType;

use crate::harness::*;

/// Sends packets of these `kinds` from `a`.
fn pair(ordered: bool, posts: &[bool]) -> (Pair, Vec<Wire>) {
    let mut p = Pair::new(ordered);
    for &push in posts {
        p.a.post(if push { write(0, 4) } else { read(0, 4) });
    }
    let mut sent = p.a.drain(at(0));
    for wire in &mut sent {
        wire.packet.ack_request = 0;
    }
    (p, sent)
}

/// Returns the ACK that is sent if one is requested now.
fn ack_now(node: &mut Node) -> Wire {
    ack_now_at(node, 1)
}

fn ack_now_at(node: &mut Node, now: u64) -> Wire {
    node.entry.connection.flow.delivery.ack.pending = 1;
    node.turn(at(now)).expect("the requested ACK")
}

/// F-9-3, F-9.1.6-7, F-9.1.6-8, D-33: every combination of the first 5 bits of the bitmaps and the OWN bits.
#[test]
fn eack_exactly_when_the_bases_do_not_say_it_all() {
    let mut node = Node::new(&parameters(true, initial(0, 0, 0), initial(0, 0, 0)));
    for received in 0..32u64 {
        for acknowledged in (0..32u64).filter(|a| a & !received == 0) {
            for request in 0..8u64 {
                for own in 0..4u32 {
                    let c = &mut node.entry.connection;
                    let [data, requests] = &mut c.flow.delivery.lanes;
                    data.rx.received = Bitmap128 { low: received, high: 0 };
                    data.rx.acknowledged = Bitmap128 { low: acknowledged, high: 0 };
                    requests.rx.received = Bitmap128 { low: request, high: 0 };
                    requests.rx.acknowledged = requests.rx.received;
                    (data.rx.own, requests.rx.own) = (own & 1, own >> 1);
                    let silent = received == 0 && request == 0 && own == 0;
                    c.flow.delivery.ack.coalescing = Deadline::at(at(1000).ticks());
                    c.flow.delivery.bases_piggybacked();
                    assert_eq!(!c.flow.delivery.ack.coalescing.is_armed(), silent, "F-9.1.6-4");
                    let hole = (0..5).any(|n| received >> n & 1 == 0 && received >> (n + 1) != 0);
                    let eack = request != 0 || acknowledged != 0 || hole || own != 0;
                    let ack = ack_now(&mut node);
                    assert_eq!(
                        ack.packet.kind,
                        if eack { EACK } else { BACK },
                        "{received:05b} {acknowledged:05b}"
                    );
                    if eack {
                        let report = ack.packet.acknowledgement;
                        assert_eq!(report.data_received.low, received, "F-7.7.2-5: a snapshot");
                        assert_eq!(report.data_acknowledged.low, acknowledged);
                        assert_eq!(report.request.low, request);
                        assert_eq!(
                            (report.own_data, report.own_request),
                            ((own & 1) as u8, (own >> 1) as u8)
                        );
                    }
                    let [data, requests] = &node.entry.connection.flow.delivery.lanes;
                    assert_eq!((data.rx.own, requests.rx.own), (0, 0), "F-9.2.1-3: reported once");
                }
            }
        }
    }
    // Bits in the upper word count as well.
    let full = Bitmap128::low_mask(100);
    node.entry.connection.flow.delivery.lanes[0].rx.received = full;
    node.entry.connection.flow.delivery.lanes[0].rx.acknowledged = Bitmap128::ZERO;
    node.entry.connection.flow.delivery.lanes[1].rx.received = Bitmap128::ZERO;
    assert!(ack_now(&mut node).is(BACK));
    node.entry.connection.flow.delivery.lanes[0].rx.received = full.with(127);
    assert!(ack_now(&mut node).is(EACK));
}

/// F-6.1.2-4, F-7.7.1-7, F-9-4, F-9.1.6-1, F-9.1.6-5, F-9.1.1-9: without AR, one ACK is sent when the coalescing time is over.
#[test]
fn coalesced_ack_leaves_once_at_expiry() {
    let (mut p, sent) = pair(true, &[true, true, true]);
    for (n, wire) in sent.iter().enumerate() {
        assert_eq!(p.b.receive(wire, at(10 + n as u64)), None);
    }
    assert_eq!(p.b.drain(at(17)), []);
    let acks = p.b.drain(at(19));
    assert_eq!(acks.iter().map(|w| (w.packet.kind, w.bases().0)).collect::<Vec<_>>(), [(BACK, 303)]);
    assert_eq!(p.b.drain(at(100)), [], "the timer stopped");
}

/// F-9.1.6-2: a Pull Request with AR is acknowledged on receipt, in addition to the response, which piggybacks
/// (D-88).
#[test]
fn ack_request_of_a_pull_is_honoured_beside_its_answer() {
    let (mut p, mut sent) = pair(true, &[false]);
    sent[0].packet.ack_request = 1;
    let answer = p.b.receive(&sent[0], at(10)).expect("the response takes the frame");
    assert_eq!((answer.packet.kind, answer.bases()), (PULL_DATA, (300, 101)));
    let acks = p.b.drain(at(10));
    assert_eq!(acks.len(), 1);
    assert_eq!((acks[0].packet.kind, acks[0].bases()), (BACK, (300, 101)));
    assert_eq!(p.b.drain(at(100)), []);
}

/// A sleeping engine is not woken for an ACK whose frame a response took. The response asks for an ACK, and its
/// frame carries ours.
#[test]
fn ack_displaced_by_an_answer_leaves_in_the_frame_of_its_ack() {
    for lost in [false, true] {
        let (mut p, mut sent) = pair(true, &[false]);
        sent[0].packet.ack_request = 1;
        let answer = p.b.receive(&sent[0], at(10)).expect("the response takes the frame");
        assert_eq!((answer.packet.kind, answer.packet.ack_request), (PULL_DATA, 1));
        let report = &p.b.s.step.output.report;
        assert_eq!((report.wake, report.file), (0, 1), "an engine that is awake is notified");
        if lost {
            // The response's timer brings the engine, which sends the ACK.
            let mut kinds: Vec<_> =
                p.b.drain(at(20 + RTO_MICROS)).iter().map(|wire| wire.packet.kind).collect();
            kinds.sort_unstable_by_key(|kind| *kind as u8);
            assert_eq!(kinds, [PULL_DATA, BACK]);
            continue;
        }
        p.b.wake = false; // this engine sleeps
        let asked = p.a.receive(&answer, at(11)).expect("it was asked for");
        let displaced = p.b.receive(&asked, at(12)).expect("the frame is free");
        assert_eq!((displaced.packet.kind, displaced.bases()), (BACK, (300, 101)));
        let t1 = sent[0].packet.iv.ticks();
        assert_eq!(displaced.packet.t1, t1, "F-10.1-5");
        assert_eq!(p.a.receive(&displaced, at(13)), None);
        assert_eq!((p.a.drain(at(14)), p.b.drain(at(14))), (vec![], vec![]));
    }
}

/// Responses of which each takes a frame do not each ask for another one: one ACK of the peer carries one of ours. Under
/// load, two of three READs cost an ACK of each side otherwise.
#[test]
fn one_answer_asks_for_the_frame_of_a_displaced_ack() {
    let (mut p, mut sent) = pair(true, &[false, false, false]);
    sent[0].packet.ack_request = 1;
    let mut asks = Vec::new();
    let mut answers = Vec::new();
    for (n, wire) in sent.iter().enumerate() {
        let answer = p.b.receive(wire, at(10 + n as u64)).expect("the response takes the frame");
        asks.push(answer.packet.ack_request);
        answers.push(answer);
    }
    assert_eq!(asks, [1, 0, 0]);
    p.b.wake = false; // this engine sleeps
    let asked = p.a.receive(&answers[0], at(20)).expect("it was asked for");
    let displaced = p.b.receive(&asked, at(21)).expect("the frame is free");
    assert_eq!((displaced.packet.kind, displaced.bases()), (BACK, (300, 103)));
    // The next request that asks is a new case.
    p.a.receive(&displaced, at(22));
    p.a.post(read(0, 4));
    let mut next = p.a.drain(at(23));
    next[0].packet.ack_request = 1;
    let answer = p.b.receive(&next[0], at(24)).expect("the response takes the frame");
    assert_eq!(answer.packet.ack_request, 1);
}

/// F-9.1.6-2, D-32: a push with AR is acknowledged when the ULP has it, not on receipt. The timer starts on
/// receipt.
#[test]
fn ack_request_of_a_push_waits_for_the_ulp() {
    let mut p = Pair::new(true);
    p.a.post(work(Verb::SEND_ONLY, 0, 4));
    let mut sent = p.a.drain(at(0));
    sent[0].packet.ack_request = 1;
    let refusal = p.b.receive(&sent[0], at(10)).expect("no receive is posted");
    assert_eq!((refusal.packet.nack_code, refusal.bases().0), (RNR, 300));
    let report = p.b.drain(at(20));
    assert_eq!((report.len(), report[0].bases().0), (1, 300), "coalesced, the base did not move");
    p.b.post_receive(1, 0, 4);
    let sent = p.b.drain(at(30));
    assert_eq!((sent.len(), sent[0].packet.kind, sent[0].bases().0), (1, BACK, 301), "at once");
}

/// F-9.1.6-4, F-9.1.1-10: a piggyback replaces the coalesced ACK, unless there is more to report than the bases.
#[test]
fn piggyback_stops_the_timer_only_if_it_says_it_all() {
    let (mut p, sent) = pair(true, &[true, true, true]);
    p.b.receive(&sent[0], at(10));
    p.b.post(write(0, 4));
    let reverse = p.b.drain(at(12));
    assert_eq!((reverse.len(), reverse[0].packet.kind, reverse[0].bases().0), (1, PUSH_DATA, 301));
    assert_eq!(p.b.drain(at(50)), [], "the push has carried it");

    p.b.receive(&sent[2], at(60)); // a hole at 301
    p.b.post(write(0, 4));
    let reverse = p.b.drain(at(62));
    assert_eq!((reverse.len(), reverse[0].packet.kind), (1, PUSH_DATA));
    let acks = p.b.drain(at(70));
    assert_eq!(acks.iter().map(|w| w.packet.kind).collect::<Vec<_>>(), [EACK]);
}

/// F-9.1.1-12: the coalescing time is that of the configuration.
#[test]
fn the_ack_follows_after_the_configured_time() {
    for micros in [3, 8, 200] {
        let mut p = parameters(true, initial(100, 300, 1), initial(100, 200, 1));
        p.config.ack_coalescing = Ticks::from_nanos(micros * 1000);
        let mut p = Pair::with(&p);
        p.a.post(write(0, 4));
        let mut push = p.a.drain(at(0)).remove(0);
        push.packet.ack_request = 0;
        assert_eq!(p.b.receive(&push, at(10)), None);
        assert_eq!(p.b.drain(at(10 + micros - 1)), [], "{micros} us");
        assert_eq!(p.b.drain(at(10 + micros + 1)).len(), 1);
    }
}

/// F-9.1.6-3, F-7.2-10, F-7.2-11: whatever leaves carries the base of the data window and of the request window as
/// they are then: a new packet, a copy, a Resync, an answer, an ACK, a NACK.
#[test]
fn every_packet_carries_the_latest_bases() {
    let mut p = Pair::new(false);
    p.a.post(write(0, 4));
    let first = p.a.drain(at(0)).remove(0);
    assert_eq!((first.id(), first.bases()), ((PUSH_DATA, 300, 1), (200, 100)));
    p.b.post(write(0, 4));
    p.b.post(read(0, 4));
    p.b.post(work(Verb::SEND_ONLY, 0, 4));
    let mut from_b = p.b.drain(at(1));
    from_b.sort_by_key(|wire| wire.packet.rsn);
    let answers = from_b.iter().enumerate().filter_map(|(n, wire)| p.a.receive(wire, at(2 + n as u64)));
    let mut sent: Vec<Wire> = answers.collect();
    // One push and one request are acknowledged; no receive is posted for the SEND.
    sent.extend(p.a.drain(at(50)));
    sent.extend(p.a.drain(at(RTO_MICROS + 1)).into_iter().filter(|wire| wire.is(PUSH_DATA)));
    let refusal = nack(&p.a, Window::Data, 300, CIE, at(RTO_MICROS + 2));
    p.a.receive(&refusal, at(RTO_MICROS + 2));
    p.a.post(write(0, 4));
    sent.extend(p.a.drain(at(RTO_MICROS + 3)));
    for kind in [PUSH_DATA, PULL_DATA, RESYNC, BACK, NACK] {
        assert!(sent.iter().any(|wire| wire.is(kind)), "{kind:?}");
    }
    for wire in &sent {
        assert_eq!(wire.bases(), (201, 101), "{:?}", wire.packet.kind);
    }
}

/// F-9.1.6-6, F-9.1.7-1, F-7.7.1-3..5, F-7.7.1-8, F-7.8-2, F-7.8-3: ACK and NACK carry what the last packet showed,
/// and go to the CID that their receiver handed out.
#[test]
fn acks_and_nacks_report_the_last_packet() {
    for nacked in [false, true] {
        let (mut p, mut sent) = pair(true, &[true, true, false, true]);
        p.b.entry.connection.flow.congestion.cc_metadata = 0x2b_cdef;
        for (n, wire) in sent.iter_mut().enumerate() {
            wire.packet.hop_limit = 254 - n as u8;
            wire.packet.congestion_experienced = 1;
            wire.packet.iv = at(5 + 2 * n as u64);
        }
        p.b.receive(&sent[0], at(10));
        let (report, last, at_last) = if nacked {
            p.b.withhold_cells(CELLS);
            (p.b.receive(&sent[2], at(14)).expect("no cell for the later RSN"), &sent[2], at(14))
        } else {
            p.b.receive(&sent[1], at(12));
            (ack_now_at(&mut p.b, 13), &sent[1], at(12))
        };
        let packet = report.packet;
        assert_eq!(packet.kind, if nacked { NACK } else { BACK });
        assert_eq!((packet.t1, packet.t2), (last.packet.iv.ticks(), at_last.ticks()));
        assert_eq!((packet.ecn_count, packet.forward_hops), (2, 255 - last.packet.hop_limit));
        // The OWN bits of an ACK take the place of the lowest two.
        assert_eq!(packet.cc_metadata, if nacked { 0x2b_cdef } else { 0x2b_cdec });
        assert_eq!(packet.dest_cid, p.a.entry.connection.flow.endpoint.local_cid.0);
        assert_eq!(report.bases(), (if nacked { 301 } else { 302 }, 100));
        if nacked {
            assert_eq!((packet.psn, packet.nack_window, packet.nack_code), (100, 1, NO_RESOURCES));
        }
    }
}

/// F-9.2.2.4-4, D-22, D-93: a packet that was received before is acknowledged again, which repeats what was lost: at once
/// after a silence, and then once in 128 us, or after the coalescing time if it asks for an ACK.
#[test]
fn a_copy_is_acknowledged_at_once_after_a_silence() {
    let (mut p, mut sent) = pair(true, &[true, true]);
    p.b.receive(&sent[0], at(10));
    assert_eq!(p.b.drain(at(20)).len(), 1);
    sent[0].packet.ack_request = 0;
    let ack = p.b.receive(&sent[0], at(200)).expect("the first copy after a silence");
    assert_eq!((ack.packet.kind, ack.bases().0), (BACK, 301));
    assert_eq!(p.b.count(Counter::DropOldDuplicate), 1);
    assert_eq!(p.b.receive(&sent[0], at(210)), None);
    assert_eq!(p.b.drain(at(327)), []);
    assert_eq!(p.b.drain(at(329)).len(), 1, "128 us after the last");
    sent[0].packet.ack_request = 1;
    assert_eq!(p.b.receive(&sent[0], at(340)), None);
    assert_eq!(p.b.drain(at(347)), []);
    assert_eq!(p.b.drain(at(349)).len(), 1, "a coalescing time after a copy that asks");
    sent[0].packet.ack_request = 0;
    assert_eq!(p.b.receive(&sent[0], at(360)), None);
    sent[0].packet.ack_request = 1;
    assert_eq!(p.b.receive(&sent[0], at(370)), None);
    assert_eq!(p.b.drain(at(475)), [], "another that asks shares the next ACK");
    assert_eq!(p.b.drain(at(478)).len(), 1, "128 us after the last");
    sent[0].packet.ack_request = 0;
    p.b.receive(&sent[0], at(700)).expect("the first copy after a silence");
    assert_eq!(p.b.receive(&sent[0], at(710)), None);
    sent[0].packet.ack_request = 1;
    assert_eq!(p.b.receive(&sent[0], at(720)), None);
    assert_eq!(p.b.drain(at(729)).len(), 1, "one that asks does not wait for one that does not");
}

/// D-93: copies that ask, and Resyncs, share one ACK in 128 us in a storm, after a first one within a coalescing time.
#[test]
fn copies_that_ask_share_acks_in_a_storm() {
    for resync in [false, true] {
        let (mut p, mut sent) = pair(true, &[true, true]);
        sent[0].packet.ack_request = 1;
        p.b.receive(&sent[0], at(10)).expect("it asks for an ACK");
        let mut copy = sent[0].clone();
        if resync {
            copy.packet.kind = PacketType::Resync;
            copy.packet.resync_type = PacketType::PushData;
        }
        let mut acks = Vec::new();
        let (first, repeated) = (200, 128);
        for now in first..first + 20 * repeated {
            acks.extend(p.b.receive(&copy, at(now)).map(|_| now));
            acks.extend(p.b.drain(at(now)).iter().map(|_| now));
        }
        assert_eq!(acks[0], first, "at once after a silence");
        assert!((20..=22).contains(&acks.len()), "{acks:?}");
        assert!(acks[1] <= first + 9, "once within a coalescing time");
        assert!(acks[1..].windows(2).all(|two| two[1] - two[0] >= repeated), "{acks:?}");
        p.b.receive(&sent[1], at(first + 20 * repeated));
        assert_eq!(p.b.drain(at(first + 20 * repeated + 9)).len(), 1, "a new packet does not wait");
    }
}

/// D-93: with a long coalescing time, a repeated ACK waits for that time and not for a multiple of it.
#[test]
fn a_long_coalescing_time_is_not_multiplied() {
    let (mut p, mut sent) = pair(true, &[true, true]);
    p.b.entry.connection.flow.delivery.tuning.ack_coalescing = Ticks::from_nanos(100_000_000);
    sent[0].packet.ack_request = 1;
    p.b.receive(&sent[0], at(10)).expect("it asks for an ACK");
    sent[0].packet.ack_request = 0;
    assert_eq!(p.b.receive(&sent[0], at(1_000)), None);
    assert_eq!(p.b.drain(at(100_000)), []);
    assert_eq!(p.b.drain(at(100_020)).len(), 1);
    p.b.receive(&sent[0], at(200_050)).expect("after a silence of that length");
}

/// D-22, D-93: an ACK that says nothing new follows the last one by 128 us or more, however
/// rare the copies are, below the base or in the window. A new packet is acknowledged within one coalescing time all
/// the same.
#[test]
fn copies_in_a_storm_share_acks_and_new_packets_do_not_wait_for_them() {
    for in_window in [false, true] {
        let (mut p, mut sent) = pair(true, &[true, true, true]);
        sent.iter_mut().for_each(|push| push.packet.ack_request = 0);
        let copy = sent[in_window as usize * 2].clone();
        let (coalescing, repeated) = (8, 128);
        p.b.receive(&copy, at(10));
        assert_eq!(p.b.drain(at(19)).len(), 1);
        let mut acks = Vec::new();
        for now in (30..30 + 10 * repeated).step_by(10) {
            acks.extend(p.b.receive(&copy, at(now)).map(|_| now));
            acks.extend(p.b.drain(at(now)).iter().map(|_| now));
        }
        assert!((8..=10).contains(&acks.len()), "{acks:?}");
        assert!(acks.windows(2).all(|two| two[1] - two[0] >= repeated), "{acks:?}");
        let now = 40 + 10 * repeated;
        p.b.drain(at(now));
        p.b.receive(&copy, at(now + 1));
        p.b.receive(&sent[1], at(now + 2));
        assert_eq!(p.b.drain(at(now + 1 + coalescing)), []);
        assert_eq!(p.b.drain(at(now + 3 + coalescing)).len(), 1, "the new packet");
    }
}

/// F-11-16, D-39: packets for which there is no room are refused by resource NACKs 128 us or more apart (D-94),
/// however many come. Other NACKs do not wait, and nothing is lost: the refused packets are accepted later.
#[test]
fn refused_packets_in_a_storm_share_resource_nacks() {
    let (mut p, sent) = pair(true, &[true, true, true]);
    p.b.withhold_cells(CELLS);
    let repeated = 128;
    let mut nacks = Vec::new();
    for now in (10..10 + 10 * repeated).step_by(10) {
        nacks.extend(p.b.receive(&sent[1], at(now)).map(|nack| (now, nack.packet.nack_code)));
    }
    assert!((8..=10).contains(&nacks.len()), "{nacks:?}");
    assert_eq!(p.b.entry.tables.statistics.nacks_sent, nacks.len() as u64);
    assert_eq!(u64::from(p.b.count(Counter::DropResources)), repeated, "each packet is counted");
    assert!(nacks.iter().all(|nack| nack.1 == NO_RESOURCES));
    assert!(nacks.windows(2).all(|two| two[1].0 - two[0].0 >= repeated), "{nacks:?}");
    p.run(20 + 10 * repeated, 4 * RTO_MICROS);
    assert_eq!(p.b.delivered, [1, 2, 3]);
}

/// D-94, F-8.2.1.2-5: the request that all others wait for is refused each time that it comes. What is behind it shares
/// resource NACKs. It is accepted as soon as there is room.
#[test]
fn the_request_that_all_others_wait_for_is_refused_each_time() {
    let (mut p, sent) = pair(true, &[false]);
    let request = |n: u32| {
        let mut wire = sent[0].clone();
        wire.packet.psn += n;
        wire.packet.rsn += n;
        wire
    };
    let (places, repeated) = (RESPONSES as u32, 128);
    for n in 0..places {
        p.b.receive(&request(n), at(1));
    }
    p.b.withhold_cells(CELLS);
    let mut behind = Vec::new();
    for now in (10..10 + 10 * repeated).step_by(10) {
        behind.extend(p.b.receive(&request(places + 1), at(now)).map(|_| now));
        let nack = p.b.receive(&request(places), at(now + 1)).expect("it is refused each time");
        let packet = nack.packet;
        assert_eq!((packet.kind, packet.nack_window, packet.nack_code), (NACK, 1, NO_RESOURCES));
        assert_eq!(packet.psn, request(places).packet.psn);
    }
    assert!((8..=10).contains(&behind.len()), "{behind:?}");
    assert!(behind.windows(2).all(|two| two[1] - two[0] >= repeated), "{behind:?}");
    let now = 20 + 10 * repeated;
    assert!(p.b.drain(at(now)).iter().any(|wire| wire.is(PULL_DATA)));
    let ack = back(&p.b, 201, 100, at(now + 1));
    p.b.receive(&ack, at(now + 1));
    p.b.receive(&request(places), at(now + 2));
    assert_eq!(p.b.entry.connection.target.nrsn, Rsn(request(places + 1).packet.rsn));
}

/// F-9.2.1-3, F-9.2.2.4-2: the OWN bit of each window is reported by the next EACK, not by the one after it, and
/// not by a NACK (D-33).
#[test]
fn own_bit_lives_until_an_eack() {
    for push in [true, false] {
        let (mut p, mut sent) = pair(true, &[push, push]);
        let size = if push { 128 } else { 64 };
        sent[1].packet.psn = sent[0].packet.psn + size;
        sent[1].packet.ack_request = 1;
        assert_eq!(p.b.receive(&sent[1], at(10)), None, "AR is ignored");
        assert_eq!(p.b.count(Counter::DropOutOfWindow), 1);
        // A NACK in between does not clear the bit.
        p.b.withhold_cells(CELLS);
        sent[1].packet.psn = sent[0].packet.psn + size - 1;
        let nack = p.b.receive(&sent[1], at(11)).expect("no cell for the later RSN");
        assert_eq!((nack.packet.kind, nack.packet.nack_window), (NACK, !push as u8));
        let acks = p.b.drain(at(20));
        let report = acks[0].packet.acknowledgement;
        assert_eq!((acks.len(), acks[0].packet.kind), (1, EACK));
        assert_eq!((report.own_data, report.own_request), (push as u8, !push as u8));
        assert!(ack_now(&mut p.b).is(BACK), "the next ACK has nothing to add");
    }
}

/// F-9.1.1-12, F-9.1.3.1-2, D-81: every packet carries AR at or below the threshold, a constant fraction of the packets above
/// it.
#[test]
fn ack_requests_come_as_a_steady_fraction() {
    for (percent, threshold, fcwnd, expected) in
        [(0, 4, 4, 60), (0, 4, 5, 0), (10, 2, 64, 6), (50, 2, 64, 30), (100, 2, 64, 60), (7, 2, 64, 4)]
    {
        let mut p = parameters(false, initial(0, 0, 0), initial(0, 0, 0));
        p.config.ack_request_percent = percent;
        p.config.ack_request_threshold = threshold;
        p.fcwnd = Fcwnd::from_packets(fcwnd);
        let mut node = Node::new(&p);
        // Pulls, because the last push of a burst always asks.
        let mut asked = Vec::new();
        for n in 0..60 {
            node.post(read(0, 4));
            asked.extend(node.drain(at(n)).iter().map(|w| w.packet.ack_request));
            let ack = back(&node, 0, n as u32 + 1, at(n));
            node.receive(&ack, at(n));
        }
        let count: usize = asked.iter().map(|&a| usize::from(a)).sum();
        assert_eq!(asked.len(), 60);
        assert!(count.abs_diff(expected) <= 1, "{percent} %: {count} of 60");
        if percent > 0 && fcwnd > threshold {
            let spread = 100usize.div_ceil(percent.into());
            for window in asked.windows(spread) {
                assert!(window.contains(&1), "one of any {spread}");
            }
        }
    }
}

/// F-9.1.3.1-1: the last push of a burst asks for an ACK, so that it does not wait for the peer's coalescing
/// timer.
#[test]
fn last_push_of_a_burst_asks() {
    let mut node = Node::new(&parameters(true, initial(0, 0, 0), initial(0, 0, 0)));
    for _ in 0..3 {
        node.post(write(0, 4));
    }
    let asked: Vec<u8> = node.drain(at(0)).iter().map(|w| w.packet.ack_request).collect();
    assert_eq!(asked, [0, 0, 1]);
}
