//! RACK-TLP between two ends (F-9.1.6-9): what it gains against the out-of-order distance and the timeout.

use transport_common::congestion::event::EventType;

use crate::harness::*;

/// One way of the path, microseconds.
const WAY: u64 = 40;

/// Two ends, and a path that delays each push of the left end by a time of its own, or loses it.
struct Line {
    left: Node,
    right: Node,
    /// Frames on their way: when they arrive, whether they go to the right, and which they are.
    flying: Vec<(u64, bool, Wire)>,
    now: u64,
}

impl Line {
    fn new(rack_tlp: u8) -> Self {
        let mut p = parameters(false, initial(0, u32::MAX - 3, 0), initial(0, 0, 0));
        p.config.rack_tlp = rack_tlp;
        let (left, right) = (Node::new(&p), Node::new(&mirrored(&p)));
        let mut line = Self { left, right, flying: Vec::new(), now: 0 };
        // The first one gives a round trip time.
        line.burst(1, |_| Some(WAY));
        line
    }

    /// Sends `writes` at once and plays until all are complete. `way` is the time of the n-th push on the path, `None` if
    /// it is lost. Returns how long it took, and the pushes sent beyond the first copies.
    fn burst(&mut self, writes: usize, way: impl Fn(usize) -> Option<u64>) -> (u64, usize) {
        for _ in 0..writes {
            self.left.post(write(0, 4));
        }
        let (began, mut pushes, mut completed) = (self.now, 0, 0);
        while completed < writes {
            assert!(self.now < began + 10_000, "the burst ends");
            let mut arrived = Vec::new();
            self.flying.retain(|(at, to_right, wire)| {
                let here = *at <= self.now;
                if here {
                    arrived.push((*to_right, wire.clone()));
                }
                !here
            });
            let mut sent = Vec::new();
            for (to_right, wire) in arrived {
                let node = if to_right { &mut self.right } else { &mut self.left };
                sent.extend(node.receive(&wire, at(self.now)).map(|wire| (!to_right, wire)));
            }
            sent.extend(self.left.drain(at(self.now)).into_iter().map(|wire| (true, wire)));
            sent.extend(self.right.drain(at(self.now)).into_iter().map(|wire| (false, wire)));
            for (to_right, wire) in sent {
                let mut delay = Some(WAY);
                if wire.is(PUSH_DATA) {
                    delay = way(pushes);
                    pushes += 1;
                }
                self.flying.extend(delay.map(|delay| (self.now + delay, to_right, wire)));
            }
            completed += self.left.completions().len();
            self.now += 1;
        }
        (self.now - began, pushes - writes)
    }
}

/// F-9.1.6-9: the loss of the last packets is repaired within seven round trips of the start of the burst, not after a
/// timeout. One probe finds them all. Without RACK-TLP, the timeout does.
#[test]
fn a_lost_tail_does_not_wait_for_the_timeout() {
    for lost in [1, 2, 5] {
        let tail = |n: usize| if (10 - lost..10).contains(&n) { None } else { Some(WAY) };
        let (without, copies) = Line::new(0).burst(10, tail);
        assert!(
            (RTO_MICROS..RTO_MICROS + 200).contains(&without) && copies == lost,
            "{without} us, {copies}"
        );
        let mut line = Line::new(1);
        let (with, copies) = line.burst(10, tail);
        assert_eq!(copies, lost);
        assert!(with < 7 * 2 * WAY, "{with} us with {lost} lost, {without} us without RACK-TLP");
        let statistics = &line.left.entry.tables.statistics;
        let kinds =
            (statistics.tail_probes, statistics.retransmitted_early, statistics.retransmitted_timeout);
        assert_eq!(kinds, (1, lost as u64 - 1, 0));
    }
}

/// F-9.1.6-9: the acknowledgement of a probe may show a shorter round trip than all before, because the burst queued and the
/// probe does not. It is none of an earlier copy: the probe has arrived, and one is enough.
#[test]
fn a_probe_that_is_faster_than_all_packets_before_has_arrived() {
    let way = |n: usize| match n {
        0..8 => Some(WAY),
        8..10 => None,
        _ => Some(WAY - 4),
    };
    let mut line = Line::new(1);
    let (with, copies) = line.burst(10, way);
    let statistics = &line.left.entry.tables.statistics;
    assert_eq!((copies, statistics.tail_probes, statistics.retransmitted_early), (2, 1, 1), "{with} us");
}

/// F-9.1.6-9: once a packet was seen out of order, packets late by less than a quarter of a round trip are not sent
/// again, over whatever distance. The out-of-order distance sends them again each time.
#[test]
fn packets_out_of_order_are_not_sent_again() {
    for (rack_tlp, expected) in [(0, 3), (1, 0)] {
        let mut line = Line::new(rack_tlp);
        line.burst(12, |n| Some(if n == 0 { WAY + 4 } else { WAY }));
        let mut copies = 0;
        for _ in 0..3 {
            // The others, almost four times the distance, overtake the first. The last asks for an ACK, so an EACK tells
            // of it.
            copies += line.burst(12, |n| Some(if n == 0 { WAY + 19 } else { WAY })).1;
        }
        assert_eq!(copies, expected, "RACK-TLP {rack_tlp}");
    }
}

/// F-9.1.6-9, F-10.6.2.1-1: a probe asks for an ACK. It is no sign of loss for congestion control.
#[test]
fn a_probe_is_no_sign_of_loss() {
    let mut line = Line::new(1);
    line.left.post(write(0, 4));
    assert_eq!(line.left.drain(at(line.now)).len(), 1);
    let mut sent = Vec::new();
    for now in line.now..line.now + RTO_MICROS / 2 {
        line.left.s.step.output.event.event_type = EventType::ACK;
        sent.extend(line.left.drain(at(now)));
        assert_ne!(line.left.s.step.output.event.event_type, EventType::RETRANSMIT);
    }
    let [probe] = sent.as_slice() else { panic!("one probe: {sent:?}") };
    assert_eq!((probe.packet.kind, probe.packet.ack_request), (PUSH_DATA, 1));
    assert_eq!(line.left.entry.tables.statistics.tail_probes, 1);
}
