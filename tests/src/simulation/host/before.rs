//! What must not go back or too far in a step.

use transport_common::connection::{Connection, Service, TRANSACTIONS};
use transport_common::ids::{Psn, Rsn};
use transport_common::packet_delivery::{Gate, ReceiveWindow, TransmitWindow};
use transport_common::units::Picoseconds;

/// What a connection was before a step.
pub(in crate::simulation) struct Before {
    generation: u32,
    transmit: [TransmitWindow; 2],
    receive_base: [Psn; 2],
    /// The receive window of pushes.
    pub(in crate::simulation) pushes: ReceiveWindow,
    /// The oldest transaction not completed, and the next request of the peer to deliver.
    rsn: [Rsn; 2],
    last_iv: Picoseconds,
    service: Service,
}

impl Before {
    pub(in crate::simulation) fn of(c: &Connection) -> Self {
        let lanes = &c.flow.delivery.lanes;
        Self {
            generation: c.generation,
            transmit: lanes.map(|lane| lane.tx),
            receive_base: lanes.map(|lane| lane.rx.base),
            pushes: c.flow.delivery.data().rx,
            rsn: [c.initiator.brsn, c.target.nrsn],
            last_iv: c.flow.security.last_iv,
            service: c.service,
        }
    }

    /// Whether its timers had to catch up, because no service had seen to them for minutes.
    pub(in crate::simulation) fn was_behind(&self, now: Picoseconds) -> bool {
        self.service.timers_run_at(now) != now
    }

    pub(in crate::simulation) fn check(&self, c: &Connection) {
        if c.generation != self.generation {
            return;
        }
        assert!(!self.last_iv.is_later_than(c.flow.security.last_iv), "an IV went backwards (D-90)");
        let rsn = [c.initiator.brsn, c.target.nrsn];
        let moved = |new: Rsn, old: Rsn| new.distance_from(old);
        assert!(
            rsn.iter().zip(self.rsn).all(|(new, old)| moved(*new, old) <= TRANSACTIONS as u32),
            "an RSN moved backwards or too far (F-8.4.1-1, F-8.5.1-2): {:?}, {rsn:?}",
            self.rsn
        );
        for ((old, base), lane) in self.transmit.iter().zip(self.receive_base).zip(&c.flow.delivery.lanes) {
            check_gate(old, &lane.tx, c.flow.congestion.gate());
            let moved = [lane.tx.base.distance_from(old.base), lane.rx.base.distance_from(base)];
            assert!(moved.iter().all(|moved| *moved <= 128), "a base moved backwards or too far (F-9.1.1-1)");
        }
    }
}

/// Checks that first transmissions of the last step obeyed the gate (F-9.1.2-1..3).
fn check_gate(old: &TransmitWindow, new: &TransmitWindow, Gate { fabric, ncwnd }: Gate) {
    if new.next == old.next {
        return;
    }
    // What waits after an RNR NACK is not in flight (D-92).
    let waiting = new.not_ready.count_ones();
    let in_flight = new.in_flight() - waiting;
    assert!(
        in_flight <= fabric && new.in_flight() <= new.size,
        "F-9.1.2-1: {in_flight} in flight, fcwnd {fabric}"
    );
    if new.outstanding_requests > old.outstanding_requests {
        let outstanding = u32::from(new.outstanding_requests) - waiting;
        assert!(outstanding <= ncwnd, "F-9.1.2-3: {outstanding} outstanding, ncwnd {ncwnd}");
    }
}
