//! Retransmission by timeout, RNR, exhaustion (F-9.1.5, F-11-4..8, D-40, D-41, D-44, D-46, D-89).

use transport_common::bitmap::Bitmap128;
use transport_common::congestion::settings::Settings;
use transport_common::connection::State;
use transport_common::counters::Counter;
use transport_common::packet_delivery::{PacketFlags, Window};
use transport_common::transaction::CompletionCode;
use transport_common::units::{Fcwnd, Ticks};
use transport_common::wire::nack::NackCode;
use transport_common::wire::resync::ResyncCode;

use crate::harness::*;

/// Returns every packet that a node sends without any reply until `until`, in steps of 10 us, with its time.
fn into_nothing(node: &mut Node, from: u64, until: u64) -> Vec<(u64, Wire)> {
    let mut sent = Vec::new();
    for now in (from..until).step_by(10) {
        sent.extend(node.drain(at(now)).into_iter().map(|w| (now, w)));
    }
    sent
}

/// F-6.4-7, F-7.6-4, F-9-8, F-9.1.1-12, F-9.1.3-3, F-9.1.5-1, F-11-4..6, D-46: 1 + M copies, 1 + M Resyncs with code 3, then the connection fails, for any M.
#[test]
fn exhaustion_counts_copies_resyncs_and_ends() {
    for attempts in [0, 1, 3] {
        for pull in [false, true] {
            let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
            p.config.max_retransmit_attempts = attempts;
            let mut node = Node::new(&p);
            node.post(if pull { read(0, 4) } else { write(0, 4) });
            node.post(write(8, 4));
            node.entry.connection.flow.congestion.ncwnd = 1; // the second push cannot leave
            if pull {
                node.entry.connection.flow.delivery.lanes[0].tx.size = 0;
            }
            let sent = into_nothing(&mut node, 0, 20_000);
            let kind = if pull { PULL_REQUEST } else { PUSH_DATA };
            let psn = if pull { 9 } else { 20 };
            let kinds: Vec<_> = sent.iter().map(|(_, w)| w.packet.kind).collect();
            let copies = 1 + attempts as usize;
            assert_eq!(kinds, [vec![kind; copies], vec![RESYNC; copies]].concat(), "M = {attempts}");
            for (n, (time, wire)) in sent.iter().enumerate() {
                assert_eq!((wire.packet.psn, wire.packet.rsn), (psn, 1), "F-9.1.5-2, F-9.1.8-2");
                if wire.is(RESYNC) {
                    assert_eq!((wire.packet.resync_code, wire.packet.resync_type), (ResyncCode(3), kind));
                }
                let due = n as u64 * RTO_MICROS;
                assert!((due..due + 20 * (n as u64 + 1)).contains(time), "F-9.1.5-5: equal gaps");
            }
            assert_eq!(node.entry.connection.state, State::Fatal, "F-11-6");
            // D-89: the exhausted one completes with LocalTO, the other with DeadConn.
            let dead = CompletionCode::DeadConnection as u8;
            assert_eq!(node.completed(), [(1, CompletionCode::LocalTimeout as u8), (2, dead)]);
        }
    }
}

/// D-89, F-11-19: a transaction that is exhausted in the scan that fails the connection completes with the code
/// its Resync stands for, exactly once. Unsent requests complete with `DeadConn`. With M = 0, successive scans
/// create the Resync and fail the connection.
#[test]
fn all_that_is_exhausted_in_one_scan_completes_as_such() {
    const TIMED_OUT: u8 = CompletionCode::LocalTimeout as u8;
    const DEAD: u8 = CompletionCode::DeadConnection as u8;
    for (ordered, attempts) in [(true, 0), (true, 1), (false, 0), (false, 3)] {
        let mut p = parameters(ordered, initial(9, u32::MAX - 3, 1), initial(0, 0, 0));
        p.config.max_retransmit_attempts = attempts;
        p.ncwnd = 10;
        let mut node = Node::new(&p);
        for n in 0..30 {
            node.post(if n % 3 == 1 { read(0, 4) } else { write(0, 4) });
        }
        let sent: Vec<u32> = node.drain(at(0)).iter().map(|w| w.packet.rsn).collect();
        assert!(sent.len() > 10, "packets of both windows");
        // One timeout at a time, the same for all packets.
        for n in 1..=2 * u64::from(attempts) + 2 {
            assert_eq!(node.entry.connection.state, State::Open, "scan {n}");
            node.drain(at(n * (RTO_MICROS + 100)));
        }
        assert_eq!(node.entry.connection.state, State::Fatal);
        let mut done = node.completed();
        done.sort_unstable();
        let expected = |rsn| (rsn, if sent.contains(&rsn) { TIMED_OUT } else { DEAD });
        assert_eq!(done, (1..=30).map(expected).collect::<Vec<_>>(), "M = {attempts}");
        into_nothing(&mut node, 50_000, 60_000);
        assert_eq!(node.completed(), [], "each once");
    }
}

/// D-44: each transaction ends with its own error, also if the Resyncs of other transactions are exhausted in the
/// same scan.
#[test]
fn resyncs_exhausted_in_one_scan_report_their_own_errors() {
    let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
    p.config.max_retransmit_attempts = 0;
    let mut node = Node::new(&p);
    for n in 0..4 {
        node.post(if n == 3 { read(0, 4) } else { write(0, 4) });
    }
    node.drain(at(0));
    let mut refused = nack(&node, Window::Data, 21, CIE, at(RTO_MICROS + 90));
    refused.packet.ulp_code = 0x42;
    node.receive(&refused, at(RTO_MICROS + 90));
    let resyncs = node.drain(at(RTO_MICROS + 100));
    assert_eq!(resyncs.iter().map(|w| w.packet.resync_code.0).collect::<Vec<_>>(), [3, 1, 3, 3]);
    node.drain(at(2 * RTO_MICROS + 200));
    assert_eq!(node.entry.connection.state, State::Fatal);
    let timeout = CompletionCode::LocalTimeout as u8;
    let refused = CompletionCode::TargetNackCie as u8;
    let done: Vec<_> = node.completions().iter().map(|c| (c.rsn, c.status, c.ulp_code)).collect();
    assert_eq!(done, [(1, timeout, 0), (2, refused, 0x42), (3, timeout, 0), (4, timeout, 0)]);
}

/// A Resync for a transaction that has ended completes nothing, even if another transaction uses its table entry
/// now.
#[test]
fn an_exhausted_resync_of_a_transaction_that_is_over_completes_nobody() {
    let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
    p.config.max_retransmit_attempts = 3;
    p.config.transaction_timeout = Ticks::from_nanos(500_000);
    let mut node = Node::new(&p);
    node.post(write(0, 4));
    node.drain(at(0));
    into_nothing(&mut node, 10, 700);
    assert_eq!(node.completed(), [(1, CompletionCode::LocalTimeout as u8)], "its own timeout");
    node.entry.connection.initiator.timeout = Ticks::from_nanos(2_000_000_000);
    into_nothing(&mut node, 700, 20_000);
    assert_eq!(node.entry.connection.state, State::Fatal);
    assert_eq!(node.completed(), [], "no second completion");
}

/// D-89: Pull Data carries the peer's RSN. Its exhaustion completes none of our transactions with LocalTO.
#[test]
fn exhausted_pull_data_is_no_transaction_of_ours() {
    let mut p = Pair::new(false);
    p.a.post(read(0, 4));
    let request = p.a.drain(at(0)).remove(0);
    let request_answer = p.b.receive(&request, at(1)).expect("the response, lost with everything after it");
    into_nothing(&mut p.b, 10, 4000);
    p.b.post(write(0, 4)); // RSN 1 as well, in the other direction
    let resyncs = into_nothing(&mut p.b, 4000, 20_000);
    let resync =
        resyncs.iter().find(|(_, wire)| wire.is(RESYNC) && wire.packet.psn == request_answer.packet.psn);
    let (_, resync) = resync.expect("in place of the Pull Data");
    assert_eq!((resync.packet.rsn, resync.packet.resync_type), (1, PULL_DATA), "F-7.6-4");
    assert_eq!(p.b.entry.connection.state, State::Fatal);
    assert_eq!(p.b.completed(), [(1, CompletionCode::DeadConnection as u8)]);
}

/// D-44: a push that was completed in error, and whose Resync is exhausted, reports that error. Then the
/// connection is dead.
#[test]
fn exhausted_resync_reports_the_original_error() {
    let mut node = Node::new(&parameters(true, initial(9, 20, 1), initial(0, 0, 0)));
    node.post(write(0, 4));
    node.drain(at(0));
    let mut wire = nack(&node, Window::Data, 20, CIE, at(5));
    wire.packet.ulp_code = 0x42;
    node.receive(&wire, at(5));
    let sent = into_nothing(&mut node, 5, 20_000);
    assert!(sent.iter().all(|(_, w)| w.is(RESYNC) && w.packet.resync_code.0 == 1));
    assert_eq!(sent.len(), 3, "F-11-7: the full number of attempts");
    assert_eq!(node.entry.connection.state, State::Fatal);
    let completions = node.completions();
    assert_eq!((completions[0].status, completions[0].ulp_code), (CompletionCode::TargetNackCie as u8, 0x42));
}

/// F-7.6-3, F-7.8-5, F-9.2.4-5..8, F-11-23, F-11-24, D-47: which NACK leads to which Resync and which completion.
#[test]
fn nack_codes_become_resyncs_and_completions() {
    let table = [
        (4, 5, CompletionCode::RemoteError),
        (6, 1, CompletionCode::TargetNackCie),
        (7, 6, CompletionCode::TargetNackNre),
        (8, 7, CompletionCode::TargetNackCid),
    ];
    for (code, resync_code, completion) in table {
        let mut node = Node::new(&parameters(true, initial(9, 20, 1), initial(0, 0, 0)));
        node.post(write(0, 4));
        node.drain(at(0));
        let mut wire = nack(&node, Window::Data, 20, NackCode(code), at(5));
        wire.packet.ulp_code = 0x80;
        node.receive(&wire, at(5));
        let sent = node.drain(at(5));
        assert_eq!((sent.len(), sent[0].id()), (1, (RESYNC, 20, 1)), "NACK code {code}");
        assert_eq!(
            (sent[0].packet.resync_code, sent[0].packet.resync_type),
            (ResyncCode(resync_code), PUSH_DATA)
        );
        // A second NACK changes nothing.
        node.receive(&wire, at(6));
        assert_eq!(node.drain(at(6)), []);
        assert_eq!(node.completed(), [], "D-44");
        let ack = back(&node, 21, 9, at(7));
        node.receive(&ack, at(7));
        let done = node.completions();
        assert_eq!((done[0].status, done[0].ulp_code), (completion as u8, 0x80), "F-7.8-7");
        assert_eq!(node.entry.connection.flow.delivery.lanes[0].tx.outstanding_requests, 0, "D-30");
    }
}

/// F-7.8-3, F-7.8-5, D-38, D-39: reserved codes and PSNs that are not outstanding: the bases are applied, nothing else happens.
#[test]
fn other_nacks_are_ignored() {
    for (code, psn) in [(0, 20), (3, 20), (5, 20), (9, 20), (255, 20), (6, 19), (6, 22), (6, 20 + 128)] {
        let mut node = Node::new(&parameters(true, initial(9, 19, 1), initial(0, 0, 0)));
        for _ in 0..3 {
            node.post(write(0, 4));
        }
        node.drain(at(0));
        let mut wire = nack(&node, Window::Data, psn, NackCode(code), at(5));
        wire.packet.acknowledgement.data_base = transport_common::ids::Psn(20);
        node.receive(&wire, at(5));
        assert_eq!(node.completed(), [(1, 0)], "F-7.8-8: a NACK acknowledges by its bases");
        assert_eq!(node.drain(at(5)), []);
        assert_eq!(node.count(Counter::NackIgnored), 1, "code {code} PSN {psn}");
    }
    assert_eq!((NO_RESOURCES, RNR), (NackCode(1), NackCode(2)));
    // F-9.2.4-3: a resource NACK is applied, and leaves the packet to its timer.
    let mut node = Node::new(&parameters(true, initial(9, 20, 1), initial(0, 0, 0)));
    node.post(write(0, 4));
    node.drain(at(0));
    let wire = nack(&node, Window::Data, 20, NO_RESOURCES, at(5));
    node.receive(&wire, at(5));
    assert_eq!((node.drain(at(5)).len(), node.count(Counter::NackIgnored)), (0, 0));
    assert_eq!(node.drain(at(RTO_MICROS + 1)).len(), 1);
}

/// F-9.2.4-4, F-11-8, D-40: max(RTO, RNR) from the arrival of the NACK, for that packet, once.
#[test]
fn rnr_delays_one_copy_from_receipt() {
    for (code, micros) in [(1, RTO_MICROS), (16, 2560), (20, 10_240)] {
        let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
        p.config.max_retransmit_attempts = 100;
        let mut node = Node::new(&p);
        node.post(write(0, 4));
        node.post(write(0, 4));
        node.drain(at(0));
        let mut wire = nack(&node, Window::Data, 20, RNR, at(500));
        wire.packet.rnr_timeout_code = code;
        node.receive(&wire, at(500));
        let sent = into_nothing(&mut node, 500, 500 + micros + 3 * RTO_MICROS);
        let times =
            |psn| sent.iter().filter(|(_, w)| w.packet.psn == psn).map(|&(t, _)| t).collect::<Vec<_>>();
        let refused = times(20);
        assert!((500 + micros..500 + micros + 20).contains(&refused[0]), "code {code}: {refused:?}");
        assert!((RTO_MICROS..RTO_MICROS + 40).contains(&(refused[1] - refused[0])), "only once");
        assert!(
            (RTO_MICROS..RTO_MICROS + 20).contains(&times(21)[0]),
            "F-8.4.3.4-1: other packets keep their timer"
        );
    }
}

/// D-41: each RNR NACK resets the counter, so a target that is not ready never makes the connection fail.
#[test]
fn rnr_resets_the_counter() {
    let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
    p.config.max_retransmit_attempts = 1;
    p.config.transaction_timeout = Ticks::from_nanos(100_000_000_000);
    let mut node = Node::new(&p);
    node.post(write(0, 4));
    let mut now = 0;
    for _ in 0..20 {
        let sent = node.drain(at(now));
        assert_eq!((sent.len(), sent[0].packet.kind), (1, PUSH_DATA));
        let wire = nack(&node, Window::Data, 20, RNR, at(now + 5));
        node.receive(&wire, at(now + 5));
        // Code 0 is 655.36 ms.
        assert_eq!(node.drain(at(now + 655_300)), []);
        now += 655_380;
    }
    assert_eq!(node.entry.connection.state, State::Open);
    let statistics = &node.entry.tables.statistics;
    // The peer asked for them: none is a timeout.
    assert_eq!((statistics.retransmitted_rnr, statistics.retransmitted_timeout), (19, 0));
}

/// D-41, D-46, F-6.4-1: also with M = 0 the copy that an RNR NACK asks for is sent after the delay. Only silence
/// after it leads to exhaustion. Further attempts are counted as usual, from 0 at the NACK.
#[test]
fn rnr_is_retried_also_without_attempts() {
    for attempts in [0, 1, 2] {
        let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
        p.config.max_retransmit_attempts = attempts;
        let mut node = Node::new(&p);
        node.post(write(0, 4));
        node.drain(at(0));
        let mut now = 500;
        for refusal in 0..3 {
            let mut wire = nack(&node, Window::Data, 20, RNR, at(now));
            wire.packet.rnr_timeout_code = 16; // 2.56 ms
            node.receive(&wire, at(now));
            let sent = into_nothing(&mut node, now, now + 2600);
            assert_eq!(sent.len(), 1, "M = {attempts}, refusal {refusal}: {sent:?}");
            assert!(sent[0].1.is(PUSH_DATA) && sent[0].0 >= now + 2560, "{sent:?}");
            now += 2700;
        }
        let copies = into_nothing(&mut node, now, now + 20_000);
        let resync = copies.iter().position(|(_, w)| w.is(RESYNC)).expect("exhausted");
        assert_eq!(
            resync,
            attempts.saturating_sub(1) as usize,
            "the requested copy counts as one (F-9.1.5-1)"
        );
        assert_eq!(copies[resync].1.packet.resync_code.0, 3);
        assert_eq!(copies.len() - resync, 1 + attempts as usize, "F-11-5: the Resync starts again");
        assert_eq!(node.completed(), [(1, CompletionCode::LocalTimeout as u8)]);
    }
}

/// D-40: an RNR NACK for a packet in the retransmission queue takes it out and starts its timer.
#[test]
fn rnr_takes_a_packet_out_of_the_queue_and_arms_its_timer() {
    let mut node = Node::new(&parameters(true, initial(9, 20, 1), initial(0, 0, 0)));
    node.post(write(0, 4));
    node.drain(at(0));
    // The timeout is processed in a service whose frame an ACK takes: the copy is still queued.
    node.entry.connection.flow.delivery.ack.pending = 1;
    let first = node.turn(at(RTO_MICROS + 1)).expect("the ACK");
    assert!(first.is(BACK));
    assert!(node.entry.connection.flow.delivery.lanes[0].tx.retransmit.get(0));
    let mut wire = nack(&node, Window::Data, 20, RNR, at(RTO_MICROS + 2));
    wire.packet.rnr_timeout_code = 16;
    node.receive(&wire, at(RTO_MICROS + 2));
    assert_eq!(node.drain(at(RTO_MICROS + 2)), []);
    let sent = into_nothing(&mut node, RTO_MICROS + 10, 2 * RTO_MICROS + 5000);
    assert!(sent.first().is_some_and(|(t, w)| w.is(PUSH_DATA) && (3560..3600).contains(t)), "{sent:?}");
}

/// F-9.1.5-3, F-8.2.1.1-2: packets that timed out together are resent in RSN order across both windows.
#[test]
fn ordered_batches_are_resent_in_rsn_order() {
    let mut node = Node::new(&parameters(true, initial(9, 20, 1), initial(0, 0, 0)));
    for n in 0..12 {
        node.post(if n % 3 == 1 { read(0, 4) } else { write(0, 4) });
    }
    let first: Vec<_> = node.drain(at(0)).iter().map(Wire::id).collect();
    assert_eq!(first.iter().map(|id| id.2).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    let second: Vec<_> = node.drain(at(RTO_MICROS + 1)).iter().map(Wire::id).collect();
    assert_eq!(second, first);
}

/// F-9.1.2-7, D-31: loss, loss, ACK results in 0, also if the packet is in the queue when the ACK arrives.
#[test]
fn orrc_ends_at_zero() {
    for queued in [false, true] {
        let mut node = Node::new(&parameters(true, initial(9, 20, 1), initial(0, 0, 0)));
        node.post(write(0, 4));
        node.drain(at(0));
        assert_eq!(node.drain(at(1001)).len(), 1);
        assert_eq!(node.entry.connection.flow.delivery.lanes[0].tx.outstanding_retransmitted, 1);
        if queued {
            node.entry.connection.flow.delivery.ack.pending = 1;
            node.turn(at(2005));
            assert!(node.entry.connection.flow.delivery.lanes[0].tx.retransmit.get(0));
            assert_eq!(
                node.entry.connection.flow.delivery.lanes[0].tx.outstanding_retransmitted, 0,
                "eligible again"
            );
        } else {
            assert_eq!(node.drain(at(2005)).len(), 1);
        }
        let ack = back(&node, 21, 9, at(2010));
        node.receive(&ack, at(2010));
        let w = node.entry.connection.flow.delivery.lanes[0].tx;
        assert_eq!((w.outstanding_retransmitted, w.outstanding_requests), (0, 0));
        assert_eq!(node.drain(at(2010)), [], "an ACK takes it out of the queue (D-29)");
        assert_eq!(into_nothing(&mut node, 2010, 6000).len(), 0);
    }
}

/// D-29, F-9.1.5-2: a smaller window holds back copies beyond its edge. The base always passes. F-9.1.8-3: also as
/// a Resync.
#[test]
fn shrunken_window_resends_the_base_only() {
    let mut node = Node::new(&parameters(true, initial(9, 20, 1), initial(0, 0, 0)));
    for _ in 0..4 {
        node.post(write(0, 4));
    }
    node.drain(at(0));
    node.entry.connection.flow.congestion.fcwnd = Fcwnd(1);
    let wire = nack(&node, Window::Data, 22, CIE, at(5));
    node.receive(&wire, at(5));
    assert_eq!(node.drain(at(5)), [], "the Resync of 22 waits");
    let psns: Vec<u32> = node.drain(at(RTO_MICROS + 1)).iter().map(|w| w.packet.psn).collect();
    assert_eq!(psns, [20]);
    let mut ack = back(&node, 20, 9, at(1010));
    ack.packet.kind = EACK;
    ack.packet.acknowledgement.selective = 1;
    ack.packet.acknowledgement.data_acknowledged = Bitmap128 { low: 0b11, high: 0 };
    node.receive(&ack, at(1010));
    let sent: Vec<_> = node.drain(at(1010)).iter().map(Wire::id).collect();
    assert_eq!(sent, [(RESYNC, 22, 3)], "the base advanced to it");
}

/// F-9-6: a retransmission equals the original, except for piggyback, AR and IV. Also if its frame could not be
/// built before.
#[test]
fn copies_equal_the_original() {
    let mut node = Node::new(&parameters(true, initial(9, 20, 1), initial(0, 0, 0)));
    node.memory[..4].copy_from_slice(b"keep");
    node.post(write(0x1234, 4));
    let first = node.drain(at(0)).remove(0);
    not_sent(&mut node, Window::Data, transport_common::ids::Psn(20));
    assert_eq!(node.entry.tables.delivery.packets[0][20].attempts, 0, "no timeout");
    node.wake = true;
    let early = node.drain(at(1)).remove(0);
    let late = node.drain(at(RTO_MICROS + 10)).remove(0);
    for copy in [early, late] {
        assert!(copy.packet.iv.is_later_than(first.packet.iv), "D-12: IVs only increase");
        let mut same = copy.clone();
        (same.packet.iv, same.packet.ack_request) = (first.packet.iv, first.packet.ack_request);
        // The bytes of the headers have both as well.
        same.head.clone_from(&first.head);
        assert_eq!(same, first);
    }
    assert!(node.entry.tables.delivery.packets[0][20].flags.contains(PacketFlags::RETRANSMITTED));
}

/// A target whose ULP stays not ready sends RNR again and again, with the times of the last received packet, and
/// asks for copies. Neither is a sign of congestion. The first NACK is measured (F-9.2.4-2), its repetitions are
/// not.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn waiting_for_a_receive_is_no_congestion() {
    let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
    p.settings = Settings::SWIFT;
    p.config.transaction_timeout = Ticks::from_nanos(100_000_000_000);
    let mut node = Node::new(&p);
    node.post(write(0, 4));
    assert_eq!(node.drain(at(0)).len(), 1);
    let mut first = nack(&node, Window::Data, 20, RNR, at(5));
    first.packet.rnr_timeout_code = 20; // 10.24 ms
    node.receive(&first, at(12));
    let reached = node.entry.connection.flow.congestion;
    assert_eq!(node.entry.tables.statistics.congestion_events, 1);
    let mut copies = 0;
    for now in (100..1_000_000).step_by(100) {
        let mut again = first.clone();
        again.packet.iv = at(now);
        node.receive(&again, at(now + 7));
        copies += node.drain(at(now + 8)).len();
    }
    let congestion = node.entry.connection.flow.congestion;
    assert_eq!(copies, 0, "each RNR NACK delays the copy (D-40)");
    assert_eq!(node.entry.tables.statistics.congestion_events, 1);
    assert_eq!((congestion.fcwnd, congestion.rto), (reached.fcwnd, reached.rto));
    assert_eq!((congestion.rtt, congestion.delays), (reached.rtt, reached.delays));

    // No more RNR NACKs come: the requested copy is sent, and does not count as a loss. The next copy is a
    // timeout.
    let sent = into_nothing(&mut node, 1_000_000, 1_011_000);
    assert_eq!((sent.len(), node.entry.tables.statistics.congestion_events), (1, 1));
    let sent = into_nothing(&mut node, 1_011_000, 1_100_000);
    assert!(!sent.is_empty() && node.entry.tables.statistics.congestion_events > 1);
    assert!(node.entry.connection.flow.congestion.fcwnd < reached.fcwnd);
}

/// The frame is built after the lock is released. If this fails, a new connection in the same slot must not
/// change.
#[test]
fn what_a_predecessor_could_not_send_is_nothing_to_its_successor() {
    let mut p = Pair::new(true);
    p.a.post(write(0, 4));
    let sent = p.a.drain(at(0));
    assert_eq!(sent[0].id(), (PUSH_DATA, 300, 1));
    let booked = p.a.s.step.output.packet;
    let successor = *p.a.entry;
    for (state, generation) in [(State::Open, 2), (State::Closed, 1), (State::Fatal, 1)] {
        *p.a.entry = successor;
        (p.a.entry.connection.state, p.a.entry.connection.generation) = (state, generation);
        let before = p.a.entry.clone();
        p.a.entry.whole().not_sent(&booked);
        assert!(p.a.entry == before, "{state:?}, incarnation {generation}");
    }
    *p.a.entry = successor;
    p.a.entry.whole().not_sent(&booked);
    assert!(p.a.entry.connection.flow.delivery.lanes[0].tx.retransmit.get(0), "its own packet is sent again");
}
