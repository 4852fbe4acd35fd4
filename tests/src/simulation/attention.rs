//! Checks that nothing is forgotten: whatever waits has a doorbell or a timer.

use core::sync::atomic::Ordering::Relaxed;

use host_nic::HostNic;
use transport_common::connection::{State, TRANSACTIONS};
use transport_common::timing_wheel::WheelTick;
use transport_common::transaction::{RequestState, ResponseState};
use transport_common::units::{Deadline, Ticks};

use super::invariants;
use super::ledger::is_full;

/// Whether a receive is posted that a push can complete.
fn has_receive(nic: &HostNic, slot: usize) -> bool {
    let c = &nic.entry(slot).connection;
    let posted = nic.queue_pair(slot).receive_producer.load(Relaxed);
    !c.flow.endpoint.protocol.is_block() && posted != c.responder.receive_next
}

/// Whether a push waits although a receive is posted, because the completion queue has no place.
pub(super) fn lacks_place(nic: &HostNic, slot: usize) -> bool {
    let waits = nic.entry(slot).connection.target.waits_for_ulp();
    waits && has_receive(nic, slot) && is_full(nic.queue_pair(slot))
}

/// Checks that a connection with possible work has rung the doorbell, and that one that waits for a time is
/// in the wheel. `one_engine`: how late the wheel fires is known.
///
/// # Panics
/// If something was forgotten; the message names it.
pub(super) fn check(nic: &mut HostNic, slot: usize, one_engine: bool) {
    if nic.page().ready.contains(slot as u32) {
        return;
    }
    let entry = nic.entry(slot);
    let c = &entry.connection;
    let is_full = is_full(nic.queue_pair(slot));
    let unreported = c.state == State::Fatal && c.initiator.brsn != c.initiator.known;
    assert!(!unreported || is_full, "a transaction of a dead connection has a place, and nobody reports it");
    if c.state != State::Open {
        return;
    }
    assert_eq!(c.flow.delivery.ack.pending, 0, "an ACK is due and nobody sends it (F-9.1.6-2)");
    if c.flow.congestion.pacing.is_armed() {
        return; // the waiting packet may wait for its departure time
    }
    let response = &entry.tables.responses[c.target.response_next as usize % 128];
    let waits = c.target.response_next != c.target.response_tail && response.state == ResponseState::Ready;
    let (request, data) = (&c.flow.delivery.request().tx, &c.flow.delivery.data().tx);
    let gate = data.may_send_response(c.flow.congestion.gate());
    let behind = !data.retransmit.and(data.pull_data).is_zero();
    assert!(!waits || !gate || behind, "a response could leave and nobody sends it (F-8.3-2)");
    let next = entry.tables.requests[c.target.nrsn.0 as usize % TRANSACTIONS];
    let room = c.target.response_tail.wrapping_sub(c.target.response_head) < 128;
    let deliverable = c.target.ordered != 0
        && next.state == RequestState::Held
        && next.rsn == c.target.nrsn
        && (room || !next.is_pull());
    assert!(!deliverable, "a held request could be delivered and nobody does (F-8.5.1-2)");
    assert!(!c.target.has_due(), "RNR time is over and nobody redelivers (D-43)");
    assert!(
        is_full || !has_receive(nic, slot) || !c.target.waits_for_ulp(),
        "a push waits for a receive, and one is posted whose completion has a place (D-43)"
    );
    for (window, other) in [(request, data), (data, request)] {
        // A packet of the other window may be before it and wait for its own gate (F-9.1.5-3).
        let base =
            window.retransmit.get(0) && window.outstanding_retransmitted == 0 && other.retransmit.is_zero();
        assert!(!base, "the base packet waits for retransmission and nobody sends it (D-29)");
    }
    let earliest = invariants::deadlines(c).into_iter().fold(Deadline::NONE, Deadline::or_earlier);
    let Some(at) = earliest.time() else { return };
    assert!(c.service.filed.is_armed(), "a timer that the connection did not file");
    let fires = nic.wheel().deadline_of(slot as u32).expect("a timer nobody turns");
    // Of two engines the one with the later deadline may be the last to enter it.
    if one_engine {
        let now = nic.time();
        let left = if now.ticks().reached(at) { Ticks(0) } else { at.since(now.ticks()) };
        // The wheel rounds up, and the time of the deadline was rounded down.
        let latest = WheelTick::deadline(now, left).after(1);
        assert!(!fires.is_after(latest), "a timer that is due at {latest:?} fires at {fires:?} (F-9.1.1-11)");
    }
}
