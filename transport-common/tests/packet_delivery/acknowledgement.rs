//! Received acknowledgements against a list of packets (F-9.2.3, D-19, D-30, D-34, D-35).

use proptest::prelude::*;
use transport_common::bitmap::Bitmap128;
use transport_common::connection::{PACKETS, Snapshot};
use transport_common::counters::Counter;
use transport_common::ids::Psn;
use transport_common::packet_delivery::{AckVerdict, Acknowledgement, TransmitWindow};

use crate::harness::*;

/// An outstanding packet in the reference list.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outstanding {
    psn: u32,
    rsn: u32,
    acknowledged: bool,
}

/// One transmit window as a list, oldest first.
#[derive(Clone, Debug)]
struct List {
    base: u32,
    packets: Vec<Outstanding>,
}

impl List {
    fn advance_of(&self, base: u32) -> Option<usize> {
        (0..=self.packets.len()).find(|&n| self.base.wrapping_add(n as u32) == base)
    }

    /// Marks everything below `base` and the packets of `bits`. Returns the RSNs that are newly acknowledged.
    fn apply(&mut self, base: u32, bits: Bitmap128) -> Vec<u32> {
        let advance = self.advance_of(base).expect("checked before");
        let mut new = Vec::new();
        for (n, packet) in self.packets.iter_mut().enumerate() {
            let selected = n >= advance && bits.get((n - advance) as u32);
            if (n < advance || selected) && !packet.acknowledged {
                packet.acknowledged = true;
                new.push(packet.rsn);
            }
        }
        while self.packets.first().is_some_and(|p| p.acknowledged) {
            self.packets.remove(0);
            self.base = self.base.wrapping_add(1);
        }
        new
    }

    fn verdict(&self, base: u32, bits: Bitmap128) -> AckVerdict {
        if (base.wrapping_sub(self.base) as i32) < 0 {
            return AckVerdict::Stale; // D-35
        }
        match self.advance_of(base) {
            None => AckVerdict::Invalid, // D-19
            Some(advance) => {
                let in_flight = self.packets.len() - advance;
                let unsent = (in_flight..128).any(|n| bits.get(n as u32));
                if unsent { AckVerdict::Invalid } else { AckVerdict::Applied }
            }
        }
    }

    fn assert_same(&self, w: &TransmitWindow) {
        assert_eq!(w.base.0, self.base);
        assert_eq!(w.in_flight() as usize, self.packets.len());
        // F-9-5, F-9.1.1-3.
        for (n, packet) in self.packets.iter().enumerate() {
            assert_eq!(w.acknowledged.get(n as u32), packet.acknowledged);
        }
        assert_eq!(
            w.acknowledged.count_ones() as usize,
            self.packets.iter().filter(|p| p.acknowledged).count()
        );
        // F-9.1.1-6, F-9.1.1-7, D-30: decremented exactly once per PSN.
        let open = self.packets.iter().filter(|p| !p.acknowledged).count();
        assert_eq!(usize::from(w.outstanding_requests), open);
    }
}

#[derive(Clone, Debug)]
struct Report {
    /// Relative to the window's base.
    data: i32,
    request: i32,
    selective: bool,
    data_acknowledged: u64,
    data_received: u64,
    requests: u64,
    /// Keep only the bits of packets that were sent.
    honest: bool,
}

fn report() -> impl Strategy<Value = Report> {
    let offset = || prop_oneof![6 => 0..6i32, 2 => 0..70i32, 1 => -3..0i32, 1 => Just(i32::MIN)];
    (offset(), offset(), any::<bool>(), any::<[u64; 3]>(), prop::bool::weighted(0.9)).prop_map(
        |(data, request, selective, bits, honest)| Report {
            data,
            request,
            selective,
            data_acknowledged: bits[0],
            data_received: bits[1],
            requests: bits[2],
            honest,
        },
    )
}

fn mask(list: &List, base: u32, honest: bool) -> Bitmap128 {
    let advance = list.advance_of(base).unwrap_or(0);
    if honest { Bitmap128::low_mask((list.packets.len() - advance) as u32) } else { Bitmap128::low_mask(128) }
}

fn check(entry: &Snapshot, data: &List, request: &List) {
    data.assert_same(&entry.connection.flow.delivery.lanes[0].tx);
    request.assert_same(&entry.connection.flow.delivery.lanes[1].tx);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-9.2.3-1..7: pushes and pulls on an unordered connection, where completions show at once which packets
    /// were acknowledged.
    #[test]
    fn acknowledgements_do_what_a_list_would(
        psn in prop_oneof![Just(u32::MAX - 20), Just(0x7fff_fff0), Just(7)],
        rounds in prop::collection::vec((prop::collection::vec(any::<bool>(), 0..30), report()), 1..25),
    ) {
        let mut p = parameters(false, initial(psn, psn.wrapping_mul(3), u32::MAX - 40), initial(0, 0, 0));
        p.fcwnd = transport_common::units::Fcwnd::from_packets(128);
        let mut node = Node::new(&p);
        let mut data = List { base: p.tx.data_psn.0, packets: Vec::new() };
        let mut request = List { base: p.tx.request_psn.0, packets: Vec::new() };
        let mut now = 0;
        for (posts, report) in rounds {
            now += 10;
            // Windows and transaction table have enough space, so the gate refuses nothing.
            let room = 60 - data.packets.len().max(request.packets.len()).min(60);
            let initiator = &node.entry.connection.initiator;
            let open = initiator.next.distance_from(initiator.brsn);
            let room = if open > 150 { 0 } else { room.min(posts.len()) };
            let posts = &posts[..room];
            let mut posted = Vec::new();
            for &pull in posts {
                let rsn = node.post(if pull { read(0, 8) } else { write(0, 8) });
                let list = if pull { &mut request } else { &mut data };
                let psn = list.base.wrapping_add(list.packets.len() as u32);
                list.packets.push(Outstanding { psn, rsn, acknowledged: false });
                posted.push((psn, rsn));
            }
            let mut sent: Vec<_> =
                node.drain(at(now)).iter().map(|w| (w.packet.psn, w.packet.rsn)).collect();
            sent.sort_unstable_by_key(|id| id.1);
            posted.sort_unstable_by_key(|id| id.1);
            prop_assert_eq!(sent, posted);
            check(&node.entry, &data, &request);

            let data_base = data.base.wrapping_add(report.data as u32);
            let request_base = request.base.wrapping_add(report.request as u32);
            // A BACK has no bitmaps.
            let all = Bitmap128::low_mask(if report.selective { 128 } else { 0 });
            let clip = |bits: u64, list: &List, base| {
                Bitmap128 { low: bits, high: 0 }.and(mask(list, base, report.honest)).and(all)
            };
            let ack = Acknowledgement {
                data_base: Psn(data_base),
                request_base: Psn(request_base),
                selective: report.selective as u8,
                data_acknowledged: clip(report.data_acknowledged, &data, data_base),
                data_received: clip(report.data_received, &data, data_base),
                request: clip(report.requests, &request, request_base),
                ..Acknowledgement::default()
            };
            let data_bits = ack.data_acknowledged.or(ack.data_received);
            let data_verdict = data.verdict(data_base, data_bits);
            let verdict = match (data_verdict, request.verdict(request_base, ack.request)) {
                (AckVerdict::Stale, _) | (_, AckVerdict::Stale) => AckVerdict::Stale,
                (AckVerdict::Invalid, _) | (_, AckVerdict::Invalid) => AckVerdict::Invalid,
                _ => AckVerdict::Applied,
            };
            let before = node.entry.clone();
            let judged = match node.entry.connection.flow.delivery.judge(&ack) {
                AckVerdict::Known => AckVerdict::Applied,
                judged => judged,
            };
            prop_assert_eq!(judged, verdict);
            let stale = node.count(Counter::AckStale) + node.count(Counter::AckInvalid);
            let mut wire = back(&node, 0, 0, at(1));
            wire.packet.acknowledgement = ack;
            node.receive(&wire, at(1));
            let refused = node.count(Counter::AckStale) + node.count(Counter::AckInvalid) - stale;
            prop_assert_eq!(refused, u32::from(verdict != AckVerdict::Applied));
            if verdict == AckVerdict::Applied {
                let mut pushes = data.apply(data_base, ack.data_acknowledged);
                let _ = request.apply(request_base, ack.request);
                // F-9.2.3-3, F-9.2.3-7: a newly acknowledged push completes once. A pull is not complete with this
                // (F-6.1.1.2-2).
                let mut completed: Vec<u32> = node.completed().into_iter().map(|c| c.0).collect();
                completed.sort_unstable();
                pushes.sort_unstable();
                prop_assert_eq!(completed, pushes);
            } else {
                let (then, now) = (&before.connection, &node.entry.connection);
                prop_assert_eq!(now.flow.delivery.lanes, then.flow.delivery.lanes, "D-19, D-35: ignored as a whole");
                prop_assert_eq!((&now.initiator, &now.flow.congestion), (&then.initiator, &then.flow.congestion));
            }
            check(&node.entry, &data, &request);
        }
    }
}

/// F-6.1.2-2, F-8.4.1-2, F-9.1.1-2: PSNs and RSNs pass the wrap.
#[test]
fn sequence_numbers_wrap() {
    let mut p =
        Pair::with(&parameters(true, initial(u32::MAX - 1, u32::MAX, u32::MAX - 2), initial(0, u32::MAX, 9)));
    for n in 0..6 {
        p.a.post(if n % 2 == 0 { write(0, 4) } else { read(0, 4) });
    }
    let sent = p.a.drain(at(0));
    let expected = [
        (PUSH_DATA, u32::MAX, u32::MAX - 2),
        (PULL_REQUEST, u32::MAX - 1, u32::MAX - 1),
        (PUSH_DATA, 0, u32::MAX),
        (PULL_REQUEST, u32::MAX, 0),
        (PUSH_DATA, 1, 1),
        (PULL_REQUEST, 0, 2),
    ];
    assert_eq!(sent.iter().map(Wire::id).collect::<Vec<_>>(), expected);
    for wire in sent.iter().rev() {
        let answer = p.b.receive(wire, at(1));
        answer.map(|w| p.a.receive(&w, at(1)));
    }
    p.run(2, 100);
    let order: Vec<u32> = p.a.completed().iter().map(|c| c.0).collect();
    assert_eq!(order, [u32::MAX - 2, u32::MAX - 1, u32::MAX, 0, 1, 2]);
    p.assert_idle();
    assert!(PACKETS.is_power_of_two(), "a PSN's table entry survives the wrap");
}

/// F-9.2.4-1, D-35, D-39: a stale NACK has no effect. A stale piggyback has none either, but its packet is processed.
#[test]
fn stale_bases_are_ignored() {
    let mut p = Pair::new(true);
    p.a.post(write(0, 4));
    p.a.post(write(8, 4));
    p.a.drain(at(0));
    let first = back(&p.a, 301, 100, at(10));
    p.a.receive(&first, at(10));
    let mut late = nack(&p.a, transport_common::packet_delivery::Window::Data, 301, CIE, at(9));
    late.packet.acknowledgement.data_base = Psn(300);
    let before = p.a.entry.connection.flow.delivery.lanes[0].tx;
    assert_eq!(p.a.receive(&late, at(11)), None);
    assert_eq!(p.a.entry.connection.flow.delivery.lanes[0].tx, before);
    assert_eq!(p.a.count(Counter::AckStale), 1);

    p.b.post(write(0, 4));
    let mut push = p.b.drain(at(12)).remove(0);
    push.packet.acknowledgement.data_base = Psn(299);
    p.a.receive(&push, at(13));
    assert_eq!(p.a.count(Counter::AckStale), 2);
    assert_eq!(p.a.deliveries[transport_common::connection::WorkKind::PlaceRequest as usize], 1);
}
