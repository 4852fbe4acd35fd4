//! Packet delivery without transactions: windows, acknowledgements, timeouts.

use bytemuck::Zeroable;
use transport_common::bitmap::Bitmap128;
use transport_common::ids::{Psn, Rsn};
use transport_common::packet_delivery::{
    self, AckVerdict, Acknowledgement, Arrival, Cause, Context, DATA_WINDOW, Delivery, DeliveryTables,
    Explicit, Found, Gate, Lane, NackVerdict, PACKETS, PacketDelivery, PacketFlags, PathClock, PathTimes,
    REQUEST_WINDOW, ReceiveWindow, Round, TransmitWindow, Tuning, TxPacket, Window,
};
use transport_common::units::{FalconTime, Fcwnd, Picoseconds, Ticks};
use transport_common::wire::PacketType;
use transport_common::wire::nack::{NackCode, rnr_timeout};
use transport_common::wire::packet::Packet;
use transport_common::wire::resync::ResyncCode;

const RTO: Ticks = Ticks(1000);
const START: FalconTime = FalconTime(50_000);
const OPEN: Gate = Gate { fabric: 128, ncwnd: 128 };

struct Clock;

impl PathClock for Clock {
    fn rto(&self) -> Ticks {
        RTO
    }

    fn times(&self, _now: FalconTime) -> PathTimes {
        unreachable!("RACK-TLP is off")
    }
}

/// One end: data from PSN 300, requests from PSN 100.
struct Part {
    delivery: PacketDelivery,
    tables: Box<DeliveryTables>,
    /// RSNs that were acknowledged.
    acknowledged: Vec<u32>,
}

impl Context for Part {
    type Clock = Clock;

    fn delivery(&mut self) -> (Delivery<'_>, &Clock) {
        (Delivery { state: &mut self.delivery, tables: &mut self.tables }, &Clock)
    }

    fn acknowledged(&mut self, packet: TxPacket) {
        self.acknowledged.push(packet.rsn.0);
    }
}

/// What an explicit acknowledgement shows.
struct Shown(Option<Found>);

impl Explicit<Part> for Shown {
    fn measure(&mut self, _part: &mut Part, found: Found) {
        self.0 = Some(found);
    }
}

impl Part {
    fn new() -> Self {
        let lane = |psn, size| Lane {
            tx: TransmitWindow::new(Psn(psn), size),
            rx: ReceiveWindow::new(Psn(psn), size),
        };
        let tuning = Tuning { ooo_threshold: 2, max_retransmit_attempts: 1, ..Tuning::default() };
        let lanes = [lane(300, DATA_WINDOW), lane(100, REQUEST_WINDOW)];
        Self {
            delivery: PacketDelivery { lanes, tuning, ..PacketDelivery::default() },
            tables: Box::new(DeliveryTables::zeroed()),
            acknowledged: Vec::new(),
        }
    }

    fn parts(&mut self) -> Delivery<'_> {
        self.delivery().0
    }

    fn send(&mut self, kind: PacketType, rsn: u32, ticks: u32) -> (Window, Psn) {
        let now = START.after(Ticks(ticks));
        let packet = TxPacket { rsn: Rsn(rsn), last_sent: now, kind, ..TxPacket::default() };
        self.parts().send(packet, &Clock, now)
    }

    /// Returns the RSNs that `ack` acknowledges.
    fn acknowledged(&mut self, ack: &Acknowledgement) -> Vec<u32> {
        let round = Round { now: START, rtt: Ticks(u32::MAX) };
        let verdict = packet_delivery::acknowledge(self, ack, round);
        assert!(matches!(verdict, AckVerdict::Applied | AckVerdict::Known), "{verdict:?}");
        core::mem::take(&mut self.acknowledged)
    }

    /// Receives an explicit acknowledgement, which is valid and measures 100 ticks. Returns what it shows.
    fn explicit(&mut self, packet: Packet, ticks: u32) -> Found {
        let now = START.after(Ticks(ticks));
        let arrival = Picoseconds(u64::from(now.0) << Ticks::PICOS_SHIFT);
        let packet = Packet { t1: FalconTime(now.0 - 100), arrival, ..packet };
        let mut shown = Shown(None);
        let late = packet_delivery::acknowledge_explicit(self, &mut shown, &packet, now);
        assert_eq!(late, Ok(false), "only RACK-TLP finds late packets");
        shown.0.expect("a valid acknowledgement is measured")
    }

    fn timeout(&mut self, ticks: u32) -> [Bitmap128; 2] {
        self.parts().on_timer(&Clock, START.after(Ticks(ticks)))
    }

    /// Sends what is queued. Returns PSN, attempts and cause of each.
    fn resend(&mut self, ticks: u32) -> Vec<(u32, u16, Cause)> {
        let mut sent = Vec::new();
        while let Some(resend) = self.parts().next_retransmission(OPEN) {
            let now = START.after(Ticks(ticks));
            let booked = self.parts().book_retransmission(resend, &Clock, now, |_| true);
            sent.push((resend.psn.0, booked.attempts, booked.cause));
        }
        sent
    }

    fn nack(&mut self, psn: u32, code: NackCode, ticks: u32) -> NackVerdict {
        let [data, request] = self.delivery.lanes.map(|lane| lane.tx.base.0);
        let nack = Packet {
            kind: PacketType::Nack,
            psn,
            nack_code: code,
            rnr_timeout_code: 14,
            acknowledgement: bases(data, request),
            ..Packet::default()
        };
        let found = self.explicit(nack, ticks);
        found.nack.expect("the verdict on a NACK")
    }
}

fn bases(data: u32, request: u32) -> Acknowledgement {
    Acknowledgement { data_base: Psn(data), request_base: Psn(request), ..Acknowledgement::default() }
}

/// F-9.2.3: it returns which packets are acknowledged, each once, and refuses an acknowledgement as a whole.
#[test]
fn it_returns_what_was_acknowledged() {
    let mut part = Part::new();
    assert_eq!(part.send(PacketType::PushData, 1, 0), (Window::Data, Psn(300)));
    assert_eq!(part.send(PacketType::PullRequest, 2, 0), (Window::Request, Psn(100)));
    for rsn in 3..6 {
        part.send(PacketType::PushData, rsn, 0);
    }
    assert!(part.delivery.knows(&bases(300, 100)));
    assert_eq!(part.delivery.judge(&bases(299, 100)), AckVerdict::Stale);
    assert_eq!(part.delivery.judge(&bases(305, 100)), AckVerdict::Invalid, "PSN 304 was never sent");
    let selective = Acknowledgement {
        selective: 1,
        data_acknowledged: Bitmap128::bit(2),
        data_received: Bitmap128::bit(2),
        ..bases(301, 100)
    };
    assert_eq!(part.acknowledged(&selective), [1, 5]);
    assert_eq!(part.delivery.data().tx.base, Psn(301));
    assert_eq!(part.acknowledged(&bases(304, 100)), [3, 4], "not the 5 again");
}

/// F-9.1.5, F-11-6: a timeout queues the packet, then puts a Resync in its place, then gives up.
#[test]
fn it_returns_what_timed_out() {
    let mut part = Part::new();
    part.send(PacketType::PushData, 1, 0);
    part.send(PacketType::PushData, 2, 600);
    assert!(part.delivery.retransmit.is_due(START.after(RTO)));
    assert_eq!(part.timeout(1000), [Bitmap128::ZERO; 2]);
    assert_eq!(part.resend(1000), [(300, 1, Cause::Timeout)], "the other is younger");
    assert!(!part.delivery.retransmit.is_due(START.after(Ticks(1599))));
    assert_eq!(part.acknowledged(&bases(300, 100)), [0; 0]);
    part.timeout(2000);
    assert_eq!(part.resend(2000), [(300, 0, Cause::Resync), (301, 1, Cause::Timeout)]);
    part.timeout(3000);
    part.resend(3000);
    assert_eq!(part.timeout(4000), [Bitmap128::bit(0), Bitmap128::ZERO], "an exhausted Resync");
}

/// F-9.1.4: an EACK shows loss by the distance, if the last copy is old enough.
#[test]
fn it_returns_whether_packets_are_lost() {
    let mut part = Part::new();
    (0..4).for_each(|rsn| {
        part.send(PacketType::PushData, rsn, 0);
    });
    let received = Bitmap128::bit(3);
    let acknowledgement = Acknowledgement { selective: 1, data_received: received, ..bases(300, 100) };
    let eack = Packet { kind: PacketType::Eack, acknowledgement, ..Packet::default() };
    let detect = |part: &mut Part, ticks| part.explicit(eack, ticks).lost;
    assert!(detect(&mut part, 99), "the distance shows loss");
    assert!(!part.delivery.has_retransmissions(), "but the copies are younger than a round trip");
    detect(&mut part, 100);
    assert_eq!(part.resend(100), [(300, 0, Cause::Early)]);
}

/// F-9.2.4: the verdicts on a NACK.
#[test]
fn it_returns_what_a_nack_means() {
    let mut part = Part::new();
    (0..3).for_each(|rsn| {
        part.send(PacketType::PushData, rsn, 0);
    });
    assert_eq!(part.nack(303, NackCode::RNR, 10), NackVerdict::Ignored);
    assert_eq!(part.nack(300, NackCode::INSUFFICIENT_RESOURCES, 10), NackVerdict::Waits);
    assert_eq!(part.nack(301, NackCode::RNR, 10), NackVerdict::Waits);
    assert_eq!(part.nack(301, NackCode::RNR, 20), NackVerdict::WaitsStill);
    assert_eq!(part.nack(302, NackCode::COMPLETE_IN_ERROR, 20), NackVerdict::Refused);
    assert_eq!(part.resend(30), [(302, 0, Cause::Resync)]);
    let resync = part.tables.packet(Window::Data, Psn(302)).resync();
    assert_eq!(resync, Some(ResyncCode::TARGET_ULP_COMPLETE_IN_ERROR));
    let wait = rnr_timeout(14).0;
    part.timeout(20 + wait - 1);
    assert!(!part.resend(20 + wait - 1).iter().any(|(psn, ..)| *psn == 301), "D-40: its RNR time");
    part.timeout(20 + wait);
    assert!(part.resend(20 + wait).contains(&(301, 1, Cause::NotReady)));
}

/// F-9.2.2.4: the receive side sorts what arrives, and says when an EACK is needed.
#[test]
fn it_sorts_what_arrives() {
    let mut part = Part::new();
    let rx = |part: &mut Part, psn| part.delivery.data_mut().rx.classify(Psn(psn));
    assert_eq!(rx(&mut part, 299), Arrival::Old);
    assert_eq!(rx(&mut part, 427), Arrival::New);
    assert_eq!(rx(&mut part, 428), Arrival::Beyond);
    part.delivery.data_mut().rx.receive(Psn(301));
    assert_eq!(rx(&mut part, 301), Arrival::Duplicate);
    assert!(part.delivery.needs_eack(), "a hole");
    part.delivery.data_mut().rx.acknowledge(Psn(301));
    part.delivery.data_mut().rx.acknowledge(Psn(300));
    assert_eq!((part.delivery.data().rx.base, part.delivery.needs_eack()), (Psn(302), false));
    assert!(!part.delivery.ack_is_due(START));
    part.delivery.coalesce_ack(START);
    assert!(part.delivery.ack_is_due(START), "no coalescing time");
    part.delivery.ack_sent(false, START);
    assert!(!part.delivery.ack_is_due(START));
}

/// F-9.1.2-7, F-11-7: a Resync starts again in the place of a packet, which may have been retransmitted.
#[test]
fn a_resync_begins_anew() {
    for retransmitted in [false, true] {
        let mut part = Part::new();
        part.send(PacketType::PushData, 1, 0);
        if retransmitted {
            part.timeout(1001);
            assert_eq!(part.resend(1001), [(300, 1, Cause::Timeout)]);
        }
        assert_eq!(part.nack(300, NackCode::XLR_DROP, 1002), NackVerdict::Refused);
        let packet = part.tables.packets[Window::Data as usize][300 % PACKETS];
        assert_eq!((packet.flags, packet.attempts), (PacketFlags::RESYNC, 0));
        // The queued packet is no longer one of the outstanding retransmissions.
        assert_eq!(part.delivery.data().tx.outstanding_retransmitted, 0);
        assert_eq!(part.nack(300, NackCode::XLR_DROP, 1003), NackVerdict::Waits, "it is a Resync already");
        // F-9.1.8-2: the first copy of a Resync is one, a further copy is a retransmission.
        assert_eq!(part.resend(1004), [(300, 0, Cause::Resync)]);
        part.timeout(3000);
        assert_eq!(part.resend(3000), [(300, 1, Cause::Timeout)]);
    }
}

/// A PSN is acknowledged below the base, and beyond it if it is marked.
#[test]
fn it_knows_what_it_acknowledged() {
    let mut window = ReceiveWindow::new(Psn(300), DATA_WINDOW);
    window.acknowledged = Bitmap128::bit(2);
    let known = [299, 300, 301, 302, 303].map(|psn| window.is_acknowledged(Psn(psn)));
    assert_eq!(known, [true, false, false, true, false]);
}

/// F-9.1.4-1, D-36: packets that lie more than the threshold below the highest one received are lost, unless they were
/// received or are queued. With `own`, all that were not received.
#[test]
fn it_shows_which_packets_are_lost() {
    let mut part = Part::new();
    for rsn in 0..6 {
        part.send(PacketType::PushData, rsn, 0);
    }
    let window = &part.delivery.data().tx;
    let lost = |received: &[u32], threshold, own| {
        let received = received.iter().fold(Bitmap128::ZERO, |all, bit| all.with(*bit));
        let (lost, shown) = window.shown_lost(received, threshold, own);
        ((0..8).filter(|bit| lost.get(*bit)).collect::<Vec<u32>>(), shown)
    };
    assert_eq!(lost(&[], 2, 0), (vec![], false));
    assert_eq!(lost(&[2], 2, 0), (vec![], false), "at the threshold");
    assert_eq!(lost(&[3], 2, 0), (vec![0], true));
    assert_eq!(lost(&[0, 1, 5], 2, 0), (vec![2], true));
    assert_eq!(lost(&[0, 1, 2, 5], 2, 0), (vec![], false));
    assert_eq!(lost(&[1], 2, 1), (vec![0, 2, 3, 4, 5], false), "own: all");
    assert_eq!(lost(&[0, 4], 2, 1), (vec![1, 2, 3, 5], true));
    assert_eq!(lost(&[0], 0, 0), (vec![], false));
    assert_eq!(lost(&[1], 0, 0), (vec![0], true));
}

/// D-35, F-9.2.3-2: a bitmap that reaches beyond the next PSN is refused, wherever its base is. One that ends with the
/// last packet is applied. Both windows, both bitmaps of the data window.
#[test]
fn a_bitmap_ends_with_the_last_packet_sent() {
    let mut part = Part::new();
    for rsn in 1..5 {
        part.send(PacketType::PushData, rsn, 0);
        part.send(PacketType::PullRequest, rsn + 10, 0);
    }
    for advance in 0..5u32 {
        for bit in 0..8u32 {
            let none = Acknowledgement { selective: 1, ..bases(300 + advance, 100 + advance) };
            let marked = Bitmap128::bit(bit);
            let expected = if advance + bit < 4 { AckVerdict::Applied } else { AckVerdict::Invalid };
            for ack in [
                Acknowledgement { data_acknowledged: marked, ..none },
                Acknowledgement { data_received: marked, ..none },
                Acknowledgement { request: marked, ..none },
            ] {
                assert_eq!(part.delivery.judge(&ack), expected, "base + {advance}, bit {bit}: {ack:?}");
            }
        }
    }
}

/// F-9.1.5-3, D-53: the older request is sent again first, whichever window it is in. If the gate holds it, the younger
/// passes it only on an unordered connection. Responses depend on neither.
#[test]
fn requests_are_sent_again_in_their_order() {
    let [push, pull, answer] = [PacketType::PushData, PacketType::PullRequest, PacketType::PullData];
    // Closes the gate for new positions in one window.
    let order = |kinds: [(PacketType, u32); 2], ordered: u16| {
        let mut part = Part::new();
        part.delivery.tuning.ordered = ordered;
        for (kind, rsn) in kinds {
            part.send(kind, rsn, 0);
        }
        part.timeout(1000);
        let first = part.parts().next_retransmission(OPEN);
        let closed = Gate { fabric: 0, ncwnd: 128 };
        assert_eq!(part.parts().next_retransmission(closed), None);
        part.resend(1000);
        assert_eq!(part.parts().next_retransmission(OPEN), None, "nothing is left");
        first.map(|resend| resend.window)
    };
    for ordered in [0, 1] {
        assert_eq!(order([(push, 1), (pull, 2)], ordered), Some(Window::Data));
        assert_eq!(order([(pull, 1), (push, 2)], ordered), Some(Window::Request));
        assert_eq!(order([(push, 2), (pull, 1)], ordered), Some(Window::Request), "by RSN");
        assert_eq!(order([(pull, 1), (answer, 7)], ordered), Some(Window::Data), "responses first");
        assert_eq!(order([(pull, 1), (pull, 2)], ordered), Some(Window::Request));
        assert_eq!(order([(push, 1), (push, 2)], ordered), Some(Window::Data));
    }
}

/// F-10.6.2.1-8, D-69: a shorter timeout moves the running timer by the difference. A longer one leaves it: it fires, and
/// is set again for the packets that are not due.
#[test]
fn a_new_timeout_moves_the_running_timer() {
    let mut part = Part::new();
    part.delivery.timeout_changed(RTO, Ticks(1));
    assert!(!part.delivery.retransmit.is_armed(), "no timer runs");
    part.send(PacketType::PushData, 1, 0);
    let due = |part: &Part| part.delivery.retransmit.time().map(|time| time.since(START));
    assert_eq!(due(&part), Some(Ticks(1000)));
    part.delivery.timeout_changed(RTO, RTO);
    part.delivery.timeout_changed(RTO, Ticks(1500));
    assert_eq!(due(&part), Some(Ticks(1000)));
    part.delivery.timeout_changed(RTO, Ticks(400));
    assert_eq!(due(&part), Some(Ticks(400)));
}

/// F-9.1.3.1-1, F-9.1.3.1-2, D-81: every packet asks while the window is at most the threshold. Above it a constant
/// fraction does, and the last of a burst.
#[test]
fn packets_ask_for_acks() {
    let mut part = Part::new();
    part.delivery.tuning.ack_request_threshold = 4;
    part.delivery.tuning.ack_request_percent = 30;
    let window = |packets: u32| Fcwnd::from_packets(packets);
    for _ in 0..3 {
        assert!(part.delivery.choose_ack_request(window(4), false));
    }
    let mut asked = |last| part.delivery.choose_ack_request(window(5), last);
    let asks: Vec<_> = (0..10).map(|_| asked(false)).collect();
    assert_eq!(asks, [false, false, false, true, false, false, true, false, false, true], "30 of 100");
    assert!(asked(true), "the last of a burst");
    // What the last one asked does not count as part of the fraction.
    assert_eq!([asked(false), asked(false), asked(false)], [false, false, true]);
}
