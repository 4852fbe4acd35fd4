//! One negative test per check that a packet has to pass (F-9.2.2-1, D-23), and the measurements of a packet that
//! passes.

use transport_common::connection::State;
use transport_common::counters::Counter;
use transport_common::ids::Spi;
use transport_common::security::{RemoteTime, SecurityDrops};
use transport_common::units::{PicosecondSpan, Picoseconds};

use crate::harness::*;

/// Creates a pair and a push of `a` on its way to `b`.
fn push() -> (Pair, Wire) {
    let mut p = Pair::new(true);
    p.a.post(write(0, 4));
    let wire = p.a.drain(at(0)).remove(0);
    (p, wire)
}

/// `change` makes the push unacceptable. Only a counter changes, and the unchanged push is still accepted.
#[track_caller]
fn refused(reason: Counter, change: impl Fn(&mut Node, &mut Wire)) {
    let (mut p, wire) = push();
    // There is something to acknowledge. The piggyback of a refused packet must not acknowledge it (D-23).
    p.b.post(write(0, 4));
    p.b.drain(at(0));
    let mut bad = wire.clone();
    bad.packet.acknowledgement.data_base = bad.packet.acknowledgement.data_base.add(1);
    bad.packet.hop_limit = 251;
    bad.packet.congestion_experienced = 1;
    change(&mut p.b, &mut bad);
    let (before, completions) = (p.b.entry.connection, p.b.completions());
    assert_eq!(p.b.receive(&bad, at(5)), None, "nothing is sent");
    assert_eq!(p.b.count(reason), 1);
    let refused = p.b.entry.tables.statistics.refused.counts();
    let expected = SecurityDrops::CAUSES.map(|cause| u64::from(cause == reason));
    assert_eq!(refused, expected, "D-59: the connection's own count");
    assert!(p.b.entry.connection == before, "a refused packet does not change the context");
    assert_eq!(p.b.completions(), completions);
    assert_eq!(p.b.delivered, Vec::<u32>::new());
}

/// F-11-18, D-50.
#[test]
fn connection_must_be_alive() {
    refused(Counter::DropNotAlive, |b, _| b.entry.connection.state = State::Fatal);
    refused(Counter::DropNotAlive, |b, _| b.entry.connection.state = State::Closing);
    refused(Counter::DropUnknownCid, |b, _| b.entry.connection.state = State::Closed);
}

/// D-50: the CID of another connection in the same slot.
#[test]
fn cid_must_be_the_connections() {
    refused(Counter::DropUnknownCid, |_, w| w.packet.dest_cid += 256);
}

/// D-15. ACK and NACK have no such field.
#[test]
fn function_must_match() {
    refused(Counter::DropFunction, |_, w| w.packet.dest_function ^= 1);
    let (mut p, _) = push();
    let mut ack = back(&p.a, 301, 100, at(5));
    ack.packet.dest_function = 0x00ff_ffff;
    p.a.receive(&ack, at(5));
    assert_eq!(p.a.completed(), [(1, 0)]);
}

/// D-83: a plaintext packet is not accepted as a protected one, and a protected one not as plaintext.
#[test]
fn psp_version_must_match() {
    refused(Counter::DropPspHeader, |_, w| w.packet.psp_version = 0);
}

/// F-9.2.2.3-1, F-9.2.2.3-2, F-9.2.2.3-8, F-11-12: the piggyback does not count either.
#[test]
fn spi_must_match_and_be_configured() {
    refused(Counter::DropSpi, |_, w| w.packet.spi += 1);
    refused(Counter::DropSpi, |b, w| {
        b.entry.connection.flow.security.rx_spi = Spi(0);
        w.packet.spi = 0;
    });
    // Also for ACKs.
    let (mut p, _) = push();
    let mut forged = back(&p.a, 301, 100, at(5));
    forged.packet.spi += 1;
    p.a.receive(&forged, at(5));
    assert_eq!((p.a.count(Counter::DropSpi), p.a.completed()), (1, vec![]));
}

/// F-9.2.2.2-1, F-9.2.2.2-2, D-56: an equal IV is dropped, and one that is larger by a picosecond is accepted. The
/// clock's wrap makes no difference.
#[test]
fn replay_margin_is_exclusive() {
    let margin = parameters(true, initial(0, 0, 0), initial(0, 0, 0)).config.replay_margin;
    for remote_time in [margin.0 * 3, margin.0 / 2, 0, u64::MAX].map(Picoseconds) {
        let set = move |b: &mut Node, w: &mut Wire, iv: Picoseconds| {
            b.entry.connection.flow.security.remote_time = remote_time;
            b.entry.connection.flow.security.remote_time_known = 1;
            w.packet.iv = iv;
        };
        let edge = remote_time.before(margin);
        refused(Counter::DropReplay, move |b, w| set(b, w, edge));
        refused(Counter::DropReplay, move |b, w| set(b, w, edge.before(PicosecondSpan(1))));
        let (mut p, mut wire) = push();
        set(&mut p.b, &mut wire, edge.after(PicosecondSpan(1)));
        p.b.receive(&wire, at(5));
        assert_eq!((p.b.count(Counter::DropReplay), p.b.delivered.len()), (0, 1));
        assert_eq!(p.b.entry.connection.flow.security.remote_time, remote_time, "D-57: never moves back");
    }
}

/// Not a rule of Falcon: the SPI alone does not say who sent a packet.
#[test]
fn source_must_be_the_peer() {
    refused(Counter::DropSource, |_, w| w.packet.source[0] ^= 1 << 24);
    refused(Counter::DropSource, |_, w| w.packet.source[1] ^= 1);
}

/// D-57, D-87: an IV may be ahead of the peer's clock by the margin.
#[test]
fn iv_must_not_be_ahead_of_the_peers_clock() {
    let margin = parameters(true, initial(0, 0, 0), initial(0, 0, 0)).config.replay_margin;
    // The peer's clock showed `iv` at 0, and a packet at 0 confirmed it.
    let known = |b: &mut Node, iv: Picoseconds| {
        let (s, clock) = (&mut b.entry.connection.flow.security, &mut b.entry.cold.clock);
        s.know_clock(clock, RemoteTime { iv, read_at: Some(at(0)) });
        clock.seen = at(0);
        clock.round = at(0);
    };
    for ahead in [margin.0 + 10_000_000, 1 << 50, u64::MAX / 4] {
        refused(Counter::DropIvAhead, move |b, w| {
            known(b, w.packet.iv);
            w.packet.iv.0 += ahead;
        });
    }
    let (mut p, mut wire) = push();
    known(&mut p.b, wire.packet.iv);
    wire.packet.iv.0 += margin.0 - 10_000_000;
    p.b.receive(&wire, at(5));
    assert_eq!((p.b.count(Counter::DropIvAhead), p.b.delivered.len()), (0, 1));
}

/// F-9.2.1-5, D-57, D-87: only a packet that passes every check moves Remote Time, and only forward.
#[test]
fn remote_time_moves_forward_after_success() {
    let (mut p, wire) = push();
    let time = |p: &Pair| {
        let s = &p.b.entry.connection.flow.security;
        (s.remote_time_known != 0).then_some(s.remote_time)
    };
    assert_eq!(time(&p), None);
    let mut forged = wire.clone();
    forged.packet.spi += 1;
    forged.packet.iv = Picoseconds(u64::MAX / 2);
    p.b.receive(&forged, at(1));
    assert_eq!(time(&p), None);
    p.b.receive(&wire, at(2));
    assert_eq!(time(&p), Some(wire.packet.iv), "D-87: the first packet that passes sets it");
    let mut newer = wire.clone();
    newer.packet.iv.0 += 1_000_000;
    p.b.receive(&newer, at(3));
    assert_eq!(time(&p), Some(newer.packet.iv), "a duplicate passed the checks as well");
    p.b.receive(&wire, at(4));
    assert_eq!(time(&p), Some(newer.packet.iv));
    assert_eq!(p.b.count(Counter::DropDuplicate) + p.b.count(Counter::DropOldDuplicate), 2);
}

/// D-14: modulo 2^14, only authenticated packets.
#[test]
fn ecn_counts_modulo_its_field() {
    let (mut p, mut wire) = push();
    wire.packet.congestion_experienced = 1;
    for n in 1..=3u64 {
        wire.packet.iv.0 += n;
        p.b.receive(&wire, at(5));
    }
    assert_eq!(p.b.entry.connection.flow.delivery.ack.report.ecn_count, 3);
    p.b.entry.connection.flow.delivery.ack.report.ecn_count = 0x3fff;
    p.b.receive(&wire, at(6));
    assert_eq!(p.b.entry.connection.flow.delivery.ack.report.ecn_count, 0);
    wire.packet.congestion_experienced = 0;
    p.b.receive(&wire, at(7));
    assert_eq!(p.b.entry.connection.flow.delivery.ack.report.ecn_count, 0);
}

/// D-14: both ends start at 255. At most 15 can be reported.
#[test]
fn hops_are_counted_from_255() {
    for (hop_limit, hops) in [(255, 0), (254, 1), (240, 15), (239, 15), (64, 15), (0, 15)] {
        let (mut p, mut wire) = push();
        wire.packet.hop_limit = hop_limit;
        p.b.receive(&wire, at(5));
        assert_eq!(p.b.entry.connection.flow.delivery.ack.report.forward_hops, hops, "hop limit {hop_limit}");
    }
}

/// D-13: duplicates, packets beyond the window and packets dropped for lack of resources also crossed the fabric,
/// so their times are reported. ACKs do not count.
#[test]
fn t1_and_t2_are_those_of_the_last_packet_that_passed() {
    let times = |n: &Node| {
        (n.entry.connection.flow.delivery.ack.report.t1, n.entry.connection.flow.delivery.ack.report.t2)
    };
    let expected = |w: &Wire, now: Picoseconds| (w.packet.iv.ticks(), now.ticks());
    let (mut p, wire) = push();
    let ack = p.b.receive(&wire, at(50)).expect("the last push of a burst asks for an ACK");
    assert_eq!(times(&p.b), expected(&wire, at(50)));
    assert_eq!(ack.packet.t1, expected(&wire, at(50)).0);
    assert_eq!(p.b.s.step.output.packet.t2, at(50).ticks());

    let mut old = wire.clone(); // an old duplicate now
    old.packet.iv.0 += 1 << 30;
    p.b.receive(&old, at(60));
    assert_eq!((times(&p.b), p.b.count(Counter::DropOldDuplicate)), (expected(&old, at(60)), 1));

    let mut beyond = old.clone();
    beyond.packet.psn += 500;
    beyond.packet.iv.0 += 1 << 30;
    p.b.receive(&beyond, at(70));
    assert_eq!((times(&p.b), p.b.count(Counter::DropOutOfWindow)), (expected(&beyond, at(70)), 1));

    p.b.withhold_cells(CELLS);
    let mut late = beyond.clone();
    (late.packet.psn, late.packet.rsn) = (wire.packet.psn + 2, wire.packet.rsn + 2);
    late.packet.iv.0 += 1 << 30;
    let nack = p.b.receive(&late, at(80)).expect("a resource NACK");
    assert_eq!((nack.packet.kind, nack.packet.nack_code), (NACK, NO_RESOURCES));
    assert_eq!((times(&p.b), p.b.count(Counter::DropResources)), (expected(&late, at(80)), 1));
    assert_eq!(nack.packet.t1, expected(&late, at(80)).0);

    let mut ack = back(&p.b, 200, 100, at(90));
    ack.packet.iv.0 += 1 << 40;
    p.b.receive(&ack, at(90));
    assert_eq!(times(&p.b), expected(&late, at(80)));
}

/// D-23: the piggyback of a packet beyond the window counts. The packet changes nothing else.
#[test]
fn piggyback_beyond_the_window_is_processed() {
    let (mut p, wire) = push();
    p.b.post(write(0, 4));
    p.b.drain(at(0));
    let mut beyond = wire.clone();
    beyond.packet.psn += 128;
    beyond.packet.acknowledgement.data_base = beyond.packet.acknowledgement.data_base.add(1);
    p.b.receive(&beyond, at(5));
    assert_eq!(p.b.completed(), [(1, 0)]);
    assert_eq!(p.b.delivered, Vec::<u32>::new());
    let mut inside = wire;
    inside.packet.psn += 127;
    inside.packet.rsn += 127;
    p.b.receive(&inside, at(6));
    assert!(p.b.entry.connection.flow.delivery.lanes[0].rx.received.get(127), "F-9-1: base + 127 is inside");
}
