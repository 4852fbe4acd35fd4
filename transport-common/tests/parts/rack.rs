//! RACK-TLP without transactions: which packets are lost, and when the last one is probed.

use bytemuck::Zeroable;
use proptest::prelude::*;
use transport_common::bitmap::Bitmap128;
use transport_common::ids::{Psn, Rsn};
use transport_common::packet_delivery::{
    self, Acknowledgement, Cause, Context, DATA_WINDOW, Delivery, DeliveryTables, Explicit, Found, Gate,
    Lane, Latest, PACKETS, PacketDelivery, PacketFlags, PathClock, PathTimes, REQUEST_WINDOW, ReceiveWindow,
    TransmitWindow, Tuning, TxPacket, Window,
};
use transport_common::units::{Deadline, FalconTime, Picoseconds, Ticks};
use transport_common::wire::PacketType;
use transport_common::wire::packet::Packet;

/// Just before the wrap, so that times pass it.
const START: FalconTime = FalconTime(u32::MAX - 300);
const DATA: u32 = u32::MAX - 5;
const REQUEST: u32 = 100;
const MIN_RTT: Ticks = Ticks(100);
const RTO: Ticks = Ticks(1000);
const PUSH: PacketType = PacketType::PushData;
const PULL: PacketType = PacketType::PullRequest;

/// The times of the path. They do not change with the acknowledgements.
#[derive(Clone, Copy)]
struct Clock {
    smoothed_rtt: Ticks,
    rto: Ticks,
}

impl PathClock for Clock {
    fn rto(&self) -> Ticks {
        self.rto
    }

    fn times(&self, now: FalconTime) -> PathTimes {
        PathTimes { now, min_rtt: MIN_RTT, smoothed_rtt: self.smoothed_rtt, rto: self.rto }
    }
}

/// One end with RACK-TLP on.
struct End {
    delivery: PacketDelivery,
    tables: Box<DeliveryTables>,
    clock: Clock,
}

impl Context for End {
    type Clock = Clock;

    fn delivery(&mut self) -> (Delivery<'_>, &Clock) {
        (Delivery { state: &mut self.delivery, tables: &mut self.tables }, &self.clock)
    }

    fn acknowledged(&mut self, _packet: TxPacket) {}
}

/// Measures nothing.
struct Unmeasured;

impl Explicit<End> for Unmeasured {
    fn measure(&mut self, _end: &mut End, _found: Found) {}
}

fn at(ticks: u32) -> FalconTime {
    START.after(Ticks(ticks))
}

impl End {
    fn new() -> Self {
        let lane = |psn, size| Lane {
            tx: TransmitWindow::new(Psn(psn), size),
            rx: ReceiveWindow::new(Psn(psn), size),
        };
        let lanes = [lane(DATA, DATA_WINDOW), lane(REQUEST, REQUEST_WINDOW)];
        let ack_coalescing = Ticks(50);
        let tuning = Tuning { ooo_threshold: 3, rack_tlp: 1, ack_coalescing, ..Tuning::default() };
        Self {
            delivery: PacketDelivery { lanes, tuning, ..PacketDelivery::default() },
            tables: Box::new(DeliveryTables::zeroed()),
            clock: Clock { smoothed_rtt: Ticks(120), rto: RTO },
        }
    }

    fn send(&mut self, kind: PacketType, ticks: u32) {
        let packet = TxPacket { rsn: Rsn(ticks), last_sent: at(ticks), kind, ..TxPacket::default() };
        let (mut delivery, clock) = self.delivery();
        delivery.send(packet, clock, at(ticks));
    }

    /// Receives an EACK: packets below the bases are acknowledged, and data packets `received` after the first ones.
    /// Numbers count from the first packet ever. Returns whether something is lost.
    fn eack(&mut self, (data, request): (u32, u32), received: &[u32], ticks: u32) -> bool {
        let received = received.iter().fold(Bitmap128::ZERO, |all, n| all.with(n - data));
        let acknowledgement = Acknowledgement {
            data_base: Psn(DATA).add(data),
            request_base: Psn(REQUEST).add(request),
            selective: 1,
            data_received: received,
            ..Acknowledgement::default()
        };
        // It measures the longest time: RACK-TLP uses the path's smallest.
        let (t1, arrival) = (FalconTime(1), Picoseconds(0));
        let packet = Packet { kind: PacketType::Eack, acknowledgement, t1, arrival, ..Packet::default() };
        packet_delivery::acknowledge_explicit(self, &mut Unmeasured, &packet, at(ticks))
            .expect("a valid EACK")
    }

    fn timer(&mut self, ticks: u32) {
        let (mut delivery, clock) = self.delivery();
        delivery.on_timer(clock, at(ticks));
    }

    /// Sends what is queued. Returns window, number and whether it is the probe.
    fn resend(&mut self, gate: u32, ticks: u32) -> Vec<(Window, u32, bool)> {
        let gate = Gate { fabric: gate, ncwnd: 128 };
        let mut sent = Vec::new();
        while let Some(resend) = self.delivery().0.next_retransmission(gate) {
            let (mut delivery, clock) = self.delivery();
            let again = delivery.book_retransmission(resend, clock, at(ticks), |_| true);
            let probe = again.cause == Cause::Probe;
            let first = if resend.window == Window::Data { DATA } else { REQUEST };
            sent.push((resend.window, resend.psn.0.wrapping_sub(first), probe));
        }
        sent
    }

    fn due(&self) -> Option<u32> {
        self.delivery.retransmit.time().map(|time| time.since(START).0)
    }
}

/// F-9.1.6-9: with the extension, an EACK is due for any data packet that was received, also in order. Without it, only
/// for a hole.
#[test]
fn a_received_packet_needs_an_eack() {
    for (rack_tlp, eack) in [(0, false), (1, true)] {
        let mut end = End::new();
        end.delivery.tuning.rack_tlp = rack_tlp;
        assert!(!end.delivery.needs_eack());
        end.delivery.data_mut().rx.receive(Psn(DATA));
        assert_eq!(end.delivery.needs_eack(), eack, "received in order, not acknowledged");
        // F-9.1.6-4: a packet with our bases does not tell of it, so the ACK still follows.
        end.delivery.coalesce_ack(at(0));
        end.delivery.bases_piggybacked();
        assert!(end.delivery.ack.coalescing.is_armed());
        end.delivery.data_mut().rx.acknowledge(Psn(DATA));
        assert!(!end.delivery.needs_eack());
    }
}

/// F-9.1.6-9: a packet sent before a delivered one is lost after the reordering window, a quarter of the smallest round
/// trip and the coalescing time. A later one is not.
#[test]
fn late_packets_are_lost_after_the_reordering_window() {
    let mut end = End::new();
    (0..4).for_each(|n| end.send(PUSH, 10 * n));
    assert!(!end.eack((0, 0), &[2], 120), "2 took 100, and 0 may take 175");
    assert_eq!(end.due(), Some(175));
    end.timer(175);
    assert_eq!(end.resend(128, 175), [(Window::Data, 0, false)]);
    assert_eq!(end.due(), Some(185));
    end.timer(185);
    assert_eq!(end.resend(128, 185), [(Window::Data, 1, false)]);
    end.timer(400);
    assert!(!end.resend(128, 400).contains(&(Window::Data, 0, false)), "once");
}

/// F-9.1.6-9: many packets above a hole mean loss at once, until a packet was seen out of order.
#[test]
fn reordering_is_learnt() {
    let mut end = End::new();
    (0..6).for_each(|n| end.send(PUSH, n));
    assert!(end.eack((0, 0), &[1, 2, 3, 4], 104), "four above the hole, and the distance is three");
    assert_eq!(end.resend(128, 104), [(Window::Data, 0, false)]);
    // It was late, not lost: no copy crosses the path in 2 ticks.
    assert!(!end.eack((5, 0), &[], 106));
    assert!(end.tables.rack.reordered != 0);
    (6..16).for_each(|n| end.send(PUSH, 200 + n));
    assert!(!end.eack((6, 0), &[7, 8, 9, 10, 11, 12, 13, 14], 314), "six times the distance");
    assert!(!end.delivery.has_retransmissions());
    assert!(!end.eack((16, 0), &[], 320), "it arrives within the reordering window");
    assert!(!end.delivery.has_retransmissions());
}

/// F-9.1.6-9: what arrives of one window shows loss in the other, unless both were sent in the same tick.
#[test]
fn one_window_shows_loss_in_the_other() {
    for (pull, lost) in [(0, true), (100, false), (110, false)] {
        let mut end = End::new();
        if pull == 0 {
            end.send(PULL, 0);
        }
        end.send(PUSH, 100);
        if pull != 0 {
            end.send(PULL, pull);
        }
        assert_eq!(end.eack((1, 0), &[], 200), lost, "pull sent at {pull}");
    }
}

/// F-9.1.6-9: a lost retransmission is found as well. A delivery sooner than a round trip after a copy says nothing about
/// when the packet was sent.
#[test]
fn copies_are_told_apart() {
    let mut end = End::new();
    (0..6).for_each(|n| end.send(PUSH, n));
    assert!(end.eack((0, 0), &[1, 2, 3, 4], 104));
    end.resend(128, 104);
    end.send(PUSH, 110);
    assert!(end.eack((0, 0), &[1, 2, 3, 4, 6], 210), "6 was sent after the copy");
    assert_eq!(end.resend(128, 210), [(Window::Data, 0, false), (Window::Data, 5, false)]);
    end.send(PUSH, 215);
    end.eack((7, 0), &[], 240);
    assert_eq!(end.tables.rack.sent, at(110), "30 ticks after the copy");
    end.send(PUSH, 245);
}

/// F-9.1.6-9, F-9.1.2-5: nothing arrives for two round trips: the last packet is sent again, once, when the gate lets it
/// pass. It is no timeout of the packet. News make room for another probe.
#[test]
fn the_last_packet_is_probed_once() {
    let mut end = End::new();
    end.send(PUSH, 0);
    assert_eq!(end.due(), Some(240 + 50), "one packet: the peer may wait with its ACK");
    end.send(PULL, 5);
    end.send(PUSH, 10);
    end.timer(249);
    assert!(!end.delivery.has_retransmissions());
    end.timer(250);
    assert_eq!(end.resend(1, 250), [], "the gate");
    assert_eq!(end.resend(128, 251), [(Window::Data, 1, true)]);
    let packet = end.tables.packets[0][(DATA as usize + 1) % PACKETS];
    assert_eq!((packet.attempts, packet.last_sent), (0, at(251)));
    end.timer(900);
    assert!(!end.delivery.has_retransmissions(), "one probe");
    // The probe arrives, and shows that all before it is lost.
    assert!(end.eack((0, 0), &[1], 901));
    assert_eq!(end.resend(128, 901), [(Window::Data, 0, false), (Window::Request, 0, false)]);
    end.timer(901 + 240);
    assert_eq!(end.resend(128, 901 + 240).iter().filter(|(.., probe)| *probe).count(), 1);
}

/// F-9.1.6-9: the probe is the packet sent last of both windows, but not one that the peer asked to wait with (D-36).
#[test]
fn the_probe_is_the_last_packet_that_may_be_sent() {
    use Window::{Data, Request};
    let rnr = [(Data, 0), (Request, 0)];
    for (sent, waiting, expected) in [
        (&[PUSH][..], &[][..], Some((Data, 0))),
        (&[PULL], &[], Some((Request, 0))),
        (&[PUSH, PUSH, PULL], &[], Some((Request, 0))),
        (&[PULL, PULL, PUSH, PULL, PULL], &[], Some((Request, 3))),
        (&[PULL, PULL, PUSH], &[], Some((Data, 0))),
        (&[PUSH, PULL], &rnr[1..], Some((Data, 0))),
        (&[PULL, PUSH], &rnr[..1], Some((Request, 0))),
        (&[PULL, PUSH], &rnr, None),
    ] {
        let mut end = End::new();
        (1..).zip(sent).for_each(|(ticks, kind)| end.send(*kind, ticks));
        for (window, number) in waiting {
            let first = [DATA, REQUEST][*window as usize];
            end.tables.packets[*window as usize][first.wrapping_add(*number) as usize % PACKETS].flags |=
                PacketFlags::RNR;
        }
        end.timer(400);
        let expected: Vec<_> =
            expected.into_iter().map(|(window, number): (Window, u32)| (window, number, true)).collect();
        assert_eq!(end.resend(128, 400), expected, "{sent:?}, RNR {waiting:?}");
    }
}

/// F-9.1.6-9: a probe that waits for the gate stays the probe when news come, and there is no second one. If its packet is
/// acknowledged meanwhile, there is none any more.
#[test]
fn a_probe_that_waits_for_the_gate_outlives_news() {
    for kind in [PUSH, PULL] {
        let window = if kind == PUSH { Window::Data } else { Window::Request };
        let bases = |n| if kind == PUSH { (n, 0) } else { (0, n) };
        let waiting = || {
            let mut end = End::new();
            (0..3).for_each(|n| end.send(kind, n));
            end.timer(400);
            assert_eq!(end.resend(0, 400), []);
            end
        };
        let mut end = waiting();
        end.eack(bases(1), &[], 402);
        assert!(!end.tables.rack.probe_at.is_armed(), "one probe");
        assert_eq!(end.resend(128, 403), [(window, 2, true)]);

        let mut end = waiting();
        end.eack(bases(3), &[], 402);
        end.send(kind, 403);
        assert!(end.tables.rack.probe_at.is_armed(), "the next burst has its own");
    }
}

/// F-9.1.6-9: a lost packet that leaves before the probe is not taken for it.
#[test]
fn another_copy_is_no_probe() {
    let mut end = End::new();
    (0..3).for_each(|n| end.send(PUSH, n));
    end.timer(400);
    assert_eq!(end.resend(0, 400), []);
    assert!(!end.eack((0, 0), &[1], 402), "1 took 401, and 0 may take 476");
    end.timer(476);
    assert_eq!(end.resend(128, 477), [(Window::Data, 0, false), (Window::Data, 2, true)]);
}

/// F-9.1.6-9: which deliveries say when their packet was sent. One that the peer asked for or that was never sent does not,
/// nor a copy that arrives sooner than the shortest round trip.
#[test]
fn deliveries_that_tell_the_time() {
    let none = PacketFlags::empty();
    for (flags, now, tells) in [
        (none, 100, true),
        (none, 40, true),
        (PacketFlags::RNR, 100, false),
        (PacketFlags::ASKED_FOR, 100, false),
        (PacketFlags::UNSENT, 100, false),
        (PacketFlags::RESENT, 1 + MIN_RTT.0, true),
        (PacketFlags::RESENT, MIN_RTT.0, false),
        (none, 1 + (1 << 30), true),
        (none, 2 + (1 << 30), false),
    ] {
        let mut end = End::new();
        (0..3).for_each(|n| end.send(PUSH, n));
        end.tables.packets[0][DATA.wrapping_add(1) as usize % PACKETS].flags |= flags;
        end.eack((0, 0), &[1], now);
        let told = (end.tables.rack.sent, end.tables.rack.rtt);
        let expected = if tells { (at(1), Ticks(now - 1)) } else { Default::default() };
        assert_eq!(told, expected, "{flags:?} at {now}");
    }
}

/// F-9.1.6-9: a packet that arrives after a later one was late, unless a copy of it may have been the one that arrived.
#[test]
fn overtaking_is_seen() {
    for (flags, now, seen) in [
        (PacketFlags::empty(), 150, true),
        (PacketFlags::RESENT, 150, false),
        (PacketFlags::RESENT, 90, true),
    ] {
        let mut end = End::new();
        (0..3).for_each(|n| end.send(PUSH, n));
        end.eack((0, 0), &[1], 80);
        assert!(end.tables.rack.reordered == 0);
        end.tables.packets[0][DATA as usize % PACKETS].flags |= flags;
        end.eack((2, 0), &[], now);
        assert_eq!(end.tables.rack.reordered != 0, seen, "{flags:?} at {now}");
    }
}

/// F-9.1.6-9: news start the probe timeout again, of either window, by a base or by a bitmap (RFC 8985, 7.2). An
/// acknowledgement without news does not.
#[test]
fn only_news_start_the_probe_timeout_again() {
    let mut end = End::new();
    (0..4).for_each(|n| end.send(PUSH, n));
    (4..6).for_each(|n| end.send(PULL, n));
    for (bases, received, now, expected) in [
        ((0, 0), &[1][..], 100, 340),
        ((0, 0), &[1], 110, 340),
        ((0, 0), &[1, 2], 120, 360),
        ((1, 0), &[1, 2], 130, 370),
        ((1, 0), &[1, 2], 140, 370),
        ((1, 1), &[1, 2], 150, 390),
        ((1, 1), &[1, 2], 160, 390),
    ] {
        end.eack(bases, received, now);
        assert_eq!(end.tables.rack.probe_at, Deadline::at(at(expected)), "at {now}");
    }
}

/// The time of a delivered packet counts for as long as times can be compared, and while something is in flight.
#[test]
fn an_old_delivery_shows_nothing() {
    const LONGEST: u32 = 1 << 30;
    let delivered = |end: &End| end.tables.rack.latest != Latest::None;
    for (now, counts) in [(LONGEST + 1, true), (LONGEST + 2, false)] {
        let mut end = End::new();
        (0..4).for_each(|n| end.send(PUSH, n));
        // Its delivery is news, and says nothing about time.
        end.tables.packets[0][DATA.wrapping_add(2) as usize % PACKETS].flags |= PacketFlags::RNR;
        end.eack((0, 0), &[1], 100);
        assert!(delivered(&end));
        end.eack((0, 0), &[1, 2], now);
        assert_eq!((delivered(&end), end.tables.rack.sent), (counts, at(1)), "{now}");
    }
    let mut end = End::new();
    end.send(PUSH, 0);
    end.eack((1, 0), &[], 100);
    assert!(!delivered(&end), "nothing is in flight");
}

/// F-9.1.6-9, D-36, D-40: a packet that the peer asked to wait with is neither lost nor a probe.
#[test]
fn an_rnr_delay_continues() {
    let mut end = End::new();
    (0..8).for_each(|n| end.send(PUSH, n));
    end.tables.packets[0][DATA as usize % PACKETS].flags |= PacketFlags::RNR;
    end.tables.packets[0][(DATA.wrapping_add(7)) as usize % PACKETS].flags |= PacketFlags::RNR;
    assert!(!end.eack((0, 0), &[1, 2, 3, 4, 5, 6], 106));
    end.timer(106 + 240);
    assert_eq!(end.resend(128, 346), []);
}

/// The timeout has to be below the RTO, and a round trip has to be known.
#[test]
fn no_probe_without_a_round_trip_or_after_the_rto() {
    for (smoothed, rto, probe) in [(0, 1000, false), (120, 240, false), (120, 291, true), (120, 290, false)] {
        let mut end = End::new();
        end.clock = Clock { smoothed_rtt: Ticks(smoothed), rto: Ticks(rto) };
        end.send(PUSH, 0);
        assert_eq!(end.tables.rack.probe_at.is_armed(), probe, "{smoothed} {rto}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 500 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-9.1.6-9: what is lost by a first EACK, against the rule on a list. Packets are sent in the order of the list, at
    /// most 40 ticks one after the other.
    #[test]
    fn the_rule_on_a_list(
        sent in prop::collection::vec((any::<bool>(), 0..40u32, any::<bool>(), any::<bool>()), 1..60),
        acknowledged in (0..4u32, 0..4u32),
        since in 0..200u32,
        reordered in any::<bool>(),
    ) {
        let mut end = End::new();
        end.tables.rack.reordered = reordered.into();
        let (mut now, mut counts, mut list) = (0, [0, 0], Vec::new());
        for (pull, gap, received, rnr) in sent {
            now += gap;
            let window = usize::from(pull);
            let number = counts[window];
            counts[window] += 1;
            end.send(if pull { PULL } else { PUSH }, now);
            let first = [DATA, REQUEST][window];
            let rnr = rnr && number % 5 == 0;
            if rnr {
                end.tables.packets[window][first.wrapping_add(number) as usize % PACKETS].flags |= PacketFlags::RNR;
            }
            list.push((window, number, now, received && !pull, rnr));
        }
        let bases = [acknowledged.0.min(counts[0]), acknowledged.1.min(counts[1])];
        let delivered = |&(window, number, _, received, _): &(usize, u32, u32, bool, bool)| {
            number < bases[window] || received
        };
        let seen: Vec<u32> = list.iter().filter(|p| p.0 == 0 && p.1 >= bases[0] && p.3).map(|p| p.1).collect();
        let now = now + since;
        let lost = end.eack((bases[0], bases[1]), &seen, now);
        let newest = list.iter().filter(|p| delivered(p) && !p.4).map(|p| p.2).max();
        let expected: Vec<(Window, u32)> = list.iter().filter(|p| !delivered(p) && !p.4).filter(|p| {
            let Some(newest) = newest else { return false };
            let hole = list.iter().filter(|q| q.0 == p.0 && !delivered(q)).map(|q| q.1).min().unwrap_or(0);
            let above = list.iter().filter(|q| q.0 == p.0 && q.1 > hole && delivered(q)).count();
            let window = if !reordered && above > 3 { 0 } else { MIN_RTT.0 / 4 + 50 };
            // Within a tick, the PSN decides in a window, and nothing does between the two.
            let same_tick = || {
                let of = |window| list.iter().filter(move |q| q.2 == newest && q.0 == window);
                let last = of(p.0).filter(|q| delivered(q) && !q.4).map(|q| q.1).max();
                last.is_some_and(|last| last > p.1) && !of(1 - p.0).any(|q| delivered(q) && !q.4)
            };
            let earlier = p.2 < newest || (p.2 == newest && same_tick());
            earlier && now - p.2 >= (now - newest) + window
        }).map(|p| ([Window::Data, Window::Request][p.0], p.1)).collect();
        let mut resent: Vec<(Window, u32)> =
            end.resend(128, now).iter().map(|(window, number, _)| (*window, *number)).collect();
        // Packets of both windows in the newest tick: the order is not known, and the state keeps one of them.
        let ambiguous = newest.is_some_and(|newest| {
            let of = |window| list.iter().any(|q| q.2 == newest && q.0 == window);
            of(0) && of(1)
        });
        prop_assume!(!ambiguous);
        let key = |(window, number): &(Window, u32)| (*window as u8, *number);
        let mut expected = expected;
        expected.sort_by_key(key);
        resent.sort_by_key(key);
        prop_assert_eq!(&resent, &expected);
        prop_assert_eq!(lost, !expected.is_empty());
    }
}
