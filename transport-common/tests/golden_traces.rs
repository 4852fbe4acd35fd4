//! The example flows of section 6.6, packet by packet, between the two ends of one ordered connection.

#[path = "packet_delivery/harness/mod.rs"]
mod harness;

use harness::*;
use transport_common::connection::WorkKind;
use transport_common::counters::Counter;
use transport_common::ids::Psn;
use transport_common::queues::Verb;
use transport_common::transaction::{CompletionCode, RequestState};
use transport_common::ulp::UlpCode;
use transport_common::wire::PacketType;
use transport_common::wire::resync::ResyncCode;

const ACK: u8 = CompletionCode::Ack as u8;

/// Pushes start at `psn`, Pull Requests at 100 or 101, Pull Data at `psn` of the other side.
fn pair(request_psn: u32, push_psn: u32, pull_data_psn: u32) -> Pair {
    Pair::with(&parameters(true, initial(request_psn, push_psn, 1), initial(request_psn, pull_data_psn, 1)))
}

/// Returns the only packet that was sent. Fails if there is another number of packets.
#[track_caller]
fn only(mut sent: Vec<Wire>) -> Wire {
    assert_eq!(sent.len(), 1, "one packet is sent: {:?}", sent.iter().map(Wire::id).collect::<Vec<_>>());
    sent.remove(0)
}

#[track_caller]
fn ids(sent: &[Wire]) -> Vec<(PacketType, u32, u32)> {
    sent.iter().map(Wire::id).collect()
}

/// F-6.6.1-1..3, F-8.5.3.1-2: two Pull Requests arrive in swapped order.
#[test]
fn rdma_read_flow() {
    let mut p = pair(100, 300, 200);
    p.b.memory[..4].copy_from_slice(b"abcd");
    p.a.post(read(0, 2));
    p.a.post(harness::work(Verb::READ, 2, 2));
    let requests = p.a.drain(at(0));
    assert_eq!(ids(&requests), [(PULL_REQUEST, 100, 1), (PULL_REQUEST, 101, 2)]);

    // The second one waits for the first (F-6.6.1-1): nothing is answered and nothing is acknowledged yet.
    assert_eq!(p.b.receive(&requests[1], at(5)), None);
    assert_eq!(p.b.deliveries[WorkKind::Hold as usize], 1);
    assert_eq!(p.b.drain(at(5)), []);

    // F-6.6.1-3: PSN 200 answers RSN 1, and 201 answers RSN 2. Both piggyback the request base.
    let first = p.b.receive(&requests[0], at(6)).expect("RSN 1 is answered in its frame");
    assert_eq!((first.id(), first.bases()), ((PULL_DATA, 200, 1), (300, 102)));
    let second = only(p.b.drain(at(6)));
    assert_eq!((second.id(), second.bases()), ((PULL_DATA, 201, 2), (300, 102)));

    assert_eq!(p.a.receive(&first, at(10)), None);
    let only_first = p.a.entry.connection.flow.delivery.lanes[0].rx.base;
    assert_eq!(only_first, Psn(201), "Pull Data is acknowledged on receipt");
    assert_eq!(p.a.receive(&second, at(11)), None);
    assert_eq!(p.a.completed(), [(1, ACK), (2, ACK)], "responses reach the ULP in RSN order");
    assert_eq!(&p.a.memory[..2], b"cd", "both READs wrote to offset 0, RSN 2 last");
    let ack = only(p.a.drain(at(25)));
    assert_eq!((ack.packet.kind, ack.bases()), (BACK, (202, 100)));
    p.b.receive(&ack, at(30));
    p.assert_idle();
}

/// F-6.6.1-2: while no response can be sent, one coalesced ACK acknowledges both requests.
#[test]
fn rdma_read_flow_acknowledges_requests_whether_answered_or_not() {
    let mut p = pair(100, 300, 200);
    p.b.entry.connection.flow.delivery.lanes[0].tx.size = 0;
    for _ in 0..2 {
        p.a.post(harness::work(Verb::FETCH_ADD, 0, 8));
    }
    let requests = p.a.drain(at(0));
    assert_eq!(p.b.receive(&requests[1], at(5)), None);
    assert_eq!(p.b.delivered, [], "RSN 2 is not delivered to the ULP before RSN 1");
    assert_eq!(p.b.receive(&requests[0], at(6)), None);
    let ack = only(p.b.drain(at(20)));
    assert_eq!((ack.packet.kind, ack.bases()), (BACK, (300, 102)));
    assert_eq!(p.b.delivered, [1, 2]);
    p.a.receive(&ack, at(25));
    assert_eq!(p.a.completed(), [], "an acknowledged request is not answered yet");
    assert_eq!(p.a.entry.connection.flow.delivery.lanes[1].tx.base, Psn(102));

    p.b.entry.connection.flow.delivery.lanes[0].tx.size = 128;
    p.b.wake = true;
    let answers = p.b.drain(at(30));
    assert_eq!(ids(&answers), [(PULL_DATA, 200, 1), (PULL_DATA, 201, 2)]);
    let (first, second) = (answers[0].clone(), answers[1].clone());
    p.a.receive(&first, at(35));
    p.a.receive(&second, at(36));
    assert_eq!(p.a.completed(), [(1, ACK), (2, ACK)]);
    p.run(40, 100);
    p.assert_idle();
}

/// F-6.6.2-1, F-6.6.2-2, F-8.1-2, F-8.5.3.3-2: two pushes arrive in swapped order. Each is acknowledged when the ULP has it, in RSN
/// order.
#[test]
fn rdma_write_flow() {
    let mut p = pair(100, 300, 200);
    p.a.memory[..4].copy_from_slice(b"data");
    p.a.post(write(10, 4));
    p.a.post(write(12, 4));
    let pushes = p.a.drain(at(0));
    assert_eq!(ids(&pushes), [(PUSH_DATA, 300, 1), (PUSH_DATA, 301, 2)]);

    assert_eq!(p.b.receive(&pushes[1], at(5)), None);
    assert_eq!(p.b.delivered, []);
    // Received, reported (D-32), not acknowledged.
    let report = only(p.b.drain(at(15)));
    assert_eq!((report.packet.kind, report.bases()), (EACK, (300, 100)), "0b10 has a hole (D-33)");
    assert!(report.packet.acknowledgement.data_acknowledged.is_zero());
    p.a.receive(&report, at(17));
    assert_eq!(p.a.completed(), []);

    assert_eq!(p.b.receive(&pushes[0], at(20)), None, "no AR: coalesced");
    assert_eq!(p.b.entry.connection.flow.delivery.lanes[0].rx.base, Psn(301));
    assert_eq!(p.b.delivered, [1]);
    // Now RSN 2 is delivered to the ULP. The last push of the burst asked for the ACK: one ACK for both (D-32).
    let ack = only(p.b.drain(at(21)));
    assert_eq!(p.b.delivered, [1, 2]);
    assert_eq!((ack.packet.kind, ack.bases()), (BACK, (302, 100)));
    assert_eq!(&p.b.memory[10..16], b"dadata");
    p.a.receive(&ack, at(36));
    assert_eq!(p.a.completed(), [(1, ACK), (2, ACK)]);
    p.run(40, 100);
    p.assert_idle();
}

/// F-6.4-5, F-6.6.3-1..4, D-40, D-43: a SEND finds no posted receive; the first RNR NACK is lost.
#[test]
fn push_rnr_flow() {
    let mut p = pair(100, 301, 200);
    // The local redelivery would come before the retransmission, so its time is longer than the RTO here.
    p.b.entry.connection.target.first_rnr_code = 16; // 2.56 ms
    p.a.post(harness::work(Verb::SEND_ONLY, 0, 4));
    let push = only(p.a.drain(at(0)));
    assert_eq!(push.id(), (PUSH_DATA, 301, 1));
    let lost = p.b.receive(&push, at(5)).expect("NACKed at once (D-39)");
    assert_eq!((lost.packet.kind, lost.packet.nack_code, lost.packet.psn), (NACK, RNR, 301));
    assert_eq!(lost.bases(), (301, 100));

    // F-6.6.3-1: the RTO sends the same PSN and RSN.
    assert_eq!(p.a.drain(at(RTO_MICROS - 10)), []);
    let again = only(p.a.drain(at(RTO_MICROS + 1)));
    assert_eq!(again.id(), (PUSH_DATA, 301, 1));

    // F-6.6.3-2: the copy is delivered to the ULP again, and NACKed again.
    let nack = p.b.receive(&again, at(1006)).expect("a second NACK");
    assert_eq!((nack.packet.kind, nack.packet.nack_code, nack.packet.psn), (NACK, RNR, 301));
    assert_eq!(nack.packet.rnr_timeout_code, 18, "twice the delay: no receive was posted");

    // F-6.6.3-3: the next copy is sent an RNR timeout after the NACK arrived, which is longer than the RTO.
    p.a.receive(&nack, at(1011));
    assert_eq!(p.a.drain(at(1011 + 5110)), []);
    p.b.post_receive(77, 50, 100);
    let third = only(p.a.drain(at(1011 + 5121)));
    assert_eq!(third.id(), (PUSH_DATA, 301, 1));

    // F-6.6.3-4.
    let ack = p.b.receive(&third, at(3580));
    let ack = ack.unwrap_or_else(|| only(p.b.drain(at(3600))));
    assert_eq!((ack.packet.kind, ack.bases()), (BACK, (302, 100)));
    p.a.receive(&ack, at(3601));
    assert_eq!(p.a.completed(), [(1, ACK)]);
    let received = p.b.completions();
    assert_eq!((received.len(), received[0].wr_id, received[0].length), (1, 77, 4));
    assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 1, "placed exactly once");
    p.run(3610, 5000);
    p.assert_idle();
}

/// F-6.6.4-1, F-6.6.4-2 for a pull behind a push in RNR: it is acknowledged on receipt, causes no NACK, and is delivered
/// when the ULP is ready (D-42). Tests of the block protocol show a pull for which its own ULP is not ready.
#[test]
fn pull_waits_out_rnr_without_a_nack() {
    let mut p = pair(101, 301, 201);
    p.a.post(harness::work(Verb::SEND_ONLY, 0, 4));
    p.a.post(read(0, 4));
    let sent = p.a.drain(at(0));
    assert_eq!(ids(&sent), [(PUSH_DATA, 301, 1), (PULL_REQUEST, 101, 2)]);
    p.b.receive(&sent[0], at(5)).expect("the push is NACKed; the NACK is lost");
    assert_eq!(p.b.receive(&sent[1], at(6)), None, "no NACK for the pull");
    let ack = only(p.b.drain(at(20)));
    assert_eq!((ack.packet.kind, ack.bases()), (BACK, (301, 102)), "F-6.6.4-1");
    p.a.receive(&ack, at(25));

    // F-6.6.4-2: after the RNR time (1.28 ms) both are redelivered without another packet from the network.
    assert_eq!(p.b.drain(at(1270)), []);
    p.b.entry.connection.target.first_rnr_code = 0; // now only its own clock causes redelivery
    p.b.queues().control.receive_wanted.store(0, std::sync::atomic::Ordering::Relaxed);
    p.b.post_receive(1, 50, 4);
    let answers = p.b.drain(at(1300));
    let pull_data = answers.iter().find(|w| w.is(PULL_DATA)).expect("the pull is answered");
    assert_eq!((pull_data.packet.psn, pull_data.packet.rsn), (201, 2));
    for answer in &answers {
        p.a.receive(answer, at(1310));
    }
    let ack = only(p.a.drain(at(1330)).into_iter().filter(|w| w.is(BACK)).collect());
    assert_eq!(ack.bases().0, 202);
    p.b.receive(&ack, at(1340));
    assert_eq!(p.a.completed(), [(1, ACK), (2, ACK)]);
    p.run(1350, 1000);
    p.assert_idle();
}

/// F-6.4-3, F-6.4-5, F-6.6.5-1..3, F-8.4.3.5-1, F-9.1.7-2, D-44: the ULP completes a push in error; the first NACK is lost.
#[test]
fn push_cie_flow() {
    let mut p = pair(100, 301, 200);
    let mut bad = write(0, 4);
    bad.rkey = 99;
    p.a.post(bad);
    let push = only(p.a.drain(at(0)));
    let lost = p.b.receive(&push, at(5)).expect("NACKed at once");
    assert_eq!((lost.packet.kind, lost.packet.nack_code, lost.packet.psn), (NACK, CIE, 301));
    assert_eq!(lost.packet.ulp_code, UlpCode::ACCESS.0);

    // F-6.6.5-1: the copy is not delivered again. The same NACK is sent again.
    let again = only(p.a.drain(at(RTO_MICROS + 1)));
    assert_eq!(again.id(), push.id());
    let key = 1; // by RSN, on an ordered connection
    assert_eq!(p.b.entry.tables.requests[key].state, RequestState::Errored);
    let nack = p.b.receive(&again, at(1005)).expect("the NACK is repeated");
    assert_eq!((nack.packet.nack_code, nack.packet.ulp_code), (CIE, UlpCode::ACCESS.0));
    assert_eq!(p.b.count(Counter::DropDuplicate), 1);
    assert_eq!(p.b.delivered, Vec::<u32>::new());

    // F-6.6.5-2.
    p.a.receive(&nack, at(1010));
    assert_eq!(p.a.completed(), [], "not before the Resync is acknowledged (F-6.6.5-3)");
    let resync = only(p.a.drain(at(1011)));
    assert_eq!(resync.id(), (RESYNC, 301, 1));
    assert_eq!((resync.packet.resync_code, resync.packet.resync_type), (ResyncCode(1), PUSH_DATA));
    let ack = p.b.receive(&resync, at(1015)).expect("acknowledged at once (D-25)");
    assert_eq!((ack.packet.kind, ack.bases()), (BACK, (302, 100)));

    // F-6.6.5-3: that ACK is lost as well. The Resync is repeated and acknowledged again, then the push completes.
    let resync = only(p.a.drain(at(1015 + RTO_MICROS)));
    assert_eq!(resync.id(), (RESYNC, 301, 1));
    assert_eq!(p.a.completed(), []);
    let ack = p.b.receive(&resync, at(2020)).expect("a duplicate Resync is acknowledged at once (D-25)");
    p.a.receive(&ack, at(2025));
    let completions = p.a.completions();
    assert_eq!(completions.len(), 1);
    assert_eq!(completions[0].status, CompletionCode::TargetNackCie as u8);
    assert_eq!(completions[0].ulp_code, UlpCode::ACCESS.0);
    p.run(2030, 3000);
    p.assert_idle();
}

/// F-6.1.2-5, F-6.6.6-1..3, F-9-8, D-08, D-36: the first of four pushes is lost.
#[test]
fn early_retransmission_flow() {
    let mut p = pair(100, 300, 200);
    p.a.entry.connection.flow.delivery.tuning.ooo_threshold = 2; // 300 < 303 - 2 (D-36)
    for n in 0..4 {
        p.a.post(write(n * 4, 4));
    }
    let pushes = p.a.drain(at(0));
    assert_eq!(ids(&pushes), (0..4).map(|n| (PUSH_DATA, 300 + n, 1 + n)).collect::<Vec<_>>());
    for push in &pushes[1..] {
        assert_eq!(p.b.receive(push, at(5)), None);
    }
    assert_eq!(p.b.delivered, Vec::<u32>::new());
    let eack = only(p.b.drain(at(20)));
    assert_eq!((eack.packet.kind, eack.bases()), (EACK, (300, 100)));
    let report = eack.packet.acknowledgement;
    assert_eq!((report.data_received.low, report.data_received.high), (0x0000_000e, 0));
    assert!(report.data_acknowledged.is_zero() && report.request.is_zero());
    assert_eq!((report.own_data, report.own_request), (0, 0));

    // F-6.6.6-2: long before the RTO, and only PSN 300.
    p.a.receive(&eack, at(30));
    let again = only(p.a.drain(at(30)));
    assert_eq!(again.id(), (PUSH_DATA, 300, 1));
    // F-9.1.4-2: a second EACK within the RTT repeats nothing.
    p.a.receive(&eack, at(35));
    assert_eq!(p.a.drain(at(35)), []);
    assert_eq!(p.a.entry.tables.statistics.retransmitted_early, 1);

    // F-6.6.6-3.
    let mut answers: Vec<Wire> = p.b.receive(&again, at(40)).into_iter().collect();
    answers.extend(p.b.drain(at(40)));
    assert_eq!(p.b.delivered, [1, 2, 3, 4]);
    // The copy asked for an ACK, and so did the last push of the burst. The second ACK contains all the
    // information.
    let acks: Vec<_> = answers.iter().map(|w| (w.packet.kind, w.bases())).collect();
    assert_eq!(acks, [(BACK, (301, 100)), (BACK, (304, 100))]);
    p.a.receive(&answers[1], at(45));
    assert_eq!(p.a.completed(), [(1, ACK), (2, ACK), (3, ACK), (4, ACK)]);
    p.run(50, 2000);
    p.assert_idle();
}
