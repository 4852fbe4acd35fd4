//! The sliding windows alone, against models that keep sets and lists of PSNs.

use std::collections::HashSet;

use proptest::prelude::*;
use transport_common::bitmap::Bitmap128;
use transport_common::ids::Psn;
use transport_common::packet_delivery::{
    Arrival, Gate, PacketFlags, ReceiveWindow, TransmitWindow, TxPacket,
};

/// Bases at which errors are likely: near the wrap, near the middle, random.
fn base() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0..300u32).prop_map(|n| u32::MAX - n),
        0..10u32,
        (0..300u32).prop_map(|n| 0x8000_0000 - n),
        any::<u32>(),
    ]
}

/// The receive window as the specification describes it: two sets of PSNs, no bitmap.
struct Receiver {
    base: u32,
    size: u32,
    received: HashSet<u32>,
    acknowledged: HashSet<u32>,
}

impl Receiver {
    fn classify(&self, psn: u32) -> Arrival {
        if (psn.wrapping_sub(self.base) as i32) < 0 {
            return Arrival::Old; // F-9.2.2.4-1
        }
        if !(0..self.size).any(|n| self.base.wrapping_add(n) == psn) {
            return Arrival::Beyond; // F-9.2.2.4-2
        }
        if self.received.contains(&psn) { Arrival::Duplicate } else { Arrival::New }
    }

    fn acknowledge(&mut self, psn: u32) {
        self.received.insert(psn);
        self.acknowledged.insert(psn);
        while self.acknowledged.remove(&self.base) {
            self.received.remove(&self.base);
            self.base = self.base.wrapping_add(1); // D-20
        }
    }

    fn assert_same(&self, window: &ReceiveWindow) {
        assert_eq!(window.base.0, self.base);
        let (mut received, mut acknowledged) = (Bitmap128::ZERO, Bitmap128::ZERO);
        for n in 0..self.size {
            let psn = self.base.wrapping_add(n);
            if self.received.contains(&psn) {
                received.set(n);
            }
            if self.acknowledged.contains(&psn) {
                acknowledged.set(n);
            }
        }
        assert_eq!(window.received, received, "F-9.2.2.4-7: the Rx bitmap shifts with the base");
        assert_eq!(window.acknowledged, acknowledged);
        assert_eq!(received.count_ones() as usize, self.received.len(), "no bit is lost");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-9-1, F-9.2.1-1, F-9.2.1-2, F-9.2.2.4-1..7, D-17, D-19..D-21.
    #[test]
    fn receive_window_is_two_sets(
        base in base(),
        size in prop_oneof![Just(64u32), Just(128u32)],
        steps in prop::collection::vec((-40i32..170, any::<bool>()), 1..if cfg!(miri) { 20 } else { 400 }),
    ) {
        let mut window = ReceiveWindow::new(Psn(base), size);
        let mut model =
            Receiver { base, size, received: HashSet::new(), acknowledged: HashSet::new() };
        for (offset, acknowledge) in steps {
            // Small offsets are twice as likely, so that the base moves.
            let offset = if offset > 100 && offset < 128 { offset - 100 } else { offset };
            let psn = model.base.wrapping_add(offset as u32);
            let expected = model.classify(psn);
            prop_assert_eq!(window.classify(Psn(psn)), expected);
            let inside = matches!(expected, Arrival::New | Arrival::Duplicate);
            if acknowledge {
                // Late acknowledgements of the ULP also come for PSNs outside the window (D-25).
                window.acknowledge(Psn(psn));
                if inside {
                    model.acknowledge(psn);
                }
            } else if expected == Arrival::New {
                window.receive(Psn(psn));
                model.received.insert(psn);
            }
            model.assert_same(&window);
            let known = (psn.wrapping_sub(model.base) as i32) < 0 || model.acknowledged.contains(&psn);
            prop_assert_eq!(window.is_acknowledged(Psn(psn)), known);
        }
    }

    /// F-9.1.2-1..8, D-26..D-29: the gate equals a closed formula of offsets and counts.
    #[test]
    fn gates_are_their_formulas(
        base in base(),
        sent in 0..=(if cfg!(miri) { 20 } else { 128u32 }),
        size in 1..=128u32,
        fabric in 1..=140u32,
        ncwnd in 1..=140u32,
        retransmitted in 0..=140u16,
        kinds in prop::collection::vec(any::<bool>(), 128),
        refused in prop_oneof![Just(vec![false; 128]), prop::collection::vec(any::<bool>(), 128)],
    ) {
        let mut w = TransmitWindow::new(Psn(base), size);
        let mut pushes = 0;
        for (n, &pull_data) in kinds.iter().take(sent as usize).enumerate() {
            pushes += u32::from(!pull_data);
            prop_assert_eq!(w.assign(pull_data), Psn(base.wrapping_add(n as u32))); // F-9.1.3-1
        }
        prop_assert_eq!(w.next, Psn(base.wrapping_add(sent))); // F-9.1.1-2
        prop_assert_eq!(u32::from(w.outstanding_requests), pushes); // F-9.1.1-7
        for (n, &pull_data) in kinds.iter().take(sent as usize).enumerate() {
            prop_assert_eq!(w.pull_data.get(n as u32), pull_data);
        }
        // D-92: a sixteenth of the sequence numbers of the data window is reserved for responses, and at least one if the
        // window has at least four. What waits after an RNR NACK is not in flight.
        let reserve = if size < 4 { 0 } else { (size / 16).max(1) };
        let gate = Gate { fabric, ncwnd };
        let mut waits = 0;
        for (n, (&pull_data, &refused)) in kinds.iter().zip(&refused).take(sent as usize).enumerate() {
            if refused && !pull_data {
                w.not_ready.set(n as u32);
                waits += 1;
            }
        }
        let (flight, pushes) = (sent - waits, pushes - waits);
        prop_assert_eq!(w.may_send_request(gate, true), sent < size - reserve && flight < fabric && pushes < ncwnd);
        prop_assert_eq!(w.may_send_request(gate, false), sent < size && flight < fabric && pushes < ncwnd);
        prop_assert_eq!(w.may_send_response(Gate { ncwnd: 0, ..gate }), sent < size && flight < fabric);
        w.outstanding_retransmitted = retransmitted;
        for offset in 0..sent {
            let room = u32::from(retransmitted) < ncwnd;
            let before = (0..offset).filter(|n| w.not_ready.get(*n)).count() as u32;
            let passes = offset - before < fabric;
            prop_assert_eq!(w.may_retransmit(offset, false, gate), passes && room);
            prop_assert_eq!(w.may_retransmit(offset, true, Gate { ncwnd: 0, ..gate }), passes);
        }
    }

    /// F-9.1.1-1: the base passes everything acknowledged, and the bitmaps shift with it.
    #[test]
    fn transmit_base_jumps_over_acknowledged(
        base in base(),
        acknowledged in any::<[u64; 2]>(),
        run in 0..=128u32,
        retransmit in any::<[u64; 2]>(),
    ) {
        let acknowledged = Bitmap128::from_words(acknowledged).or(Bitmap128::low_mask(run));
        let retransmit = Bitmap128::from_words(retransmit).and_not(acknowledged);
        let mut w = TransmitWindow::new(Psn(base), 128);
        w.next = Psn(base.wrapping_add(128));
        (w.acknowledged, w.retransmit) = (acknowledged, retransmit);
        let expected = (0..128).find(|&n| !acknowledged.get(n)).unwrap_or(128);
        prop_assert_eq!(w.advance(), expected);
        prop_assert_eq!(w.base, Psn(base.wrapping_add(expected)));
        prop_assert_eq!(w.in_flight(), 128 - expected);
        for n in 0..128 {
            prop_assert_eq!(w.acknowledged.get(n), acknowledged.get(n + expected));
            prop_assert_eq!(w.retransmit.get(n), retransmit.get(n + expected));
            let timed = n + expected < 128
                && !acknowledged.get(n + expected)
                && !retransmit.get(n + expected);
            prop_assert_eq!(w.timed().get(n), timed);
        }
    }
}

/// F-9.1.2-7, D-31: decremented once per loss, never below 0.
#[test]
fn a_retransmitted_packet_is_forgotten_once() {
    let mut w = TransmitWindow::new(Psn(0), 128);
    w.assign(false);
    let mut packet = TxPacket { flags: PacketFlags::RETRANSMITTED, ..TxPacket::default() };
    w.outstanding_retransmitted = 1;
    w.queue_retransmission(0, &mut packet);
    assert_eq!((w.outstanding_retransmitted, packet.flags), (0, PacketFlags::empty()));
    assert!(w.retransmit.get(0));
    w.forget_retransmitted(&mut packet);
    assert_eq!(w.outstanding_retransmitted, 0);
    packet.flags = PacketFlags::RETRANSMITTED;
    w.forget_retransmitted(&mut packet);
    assert_eq!(w.outstanding_retransmitted, 0, "never negative");
}
