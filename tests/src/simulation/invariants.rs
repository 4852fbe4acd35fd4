//! The invariants of a connection between any two steps, whatever the network does.

#[cfg(test)]
mod tests;

use transport_common::bitmap::Bitmap128;
use transport_common::connection::{Connection, RESPONSES, Snapshot, State, TRANSACTIONS, Tables};
use transport_common::ids::{CellId, Rsn};
use transport_common::packet_delivery::{PacketFlags, ReceiveWindow, TransmitWindow, TxPacket, Window};
use transport_common::transaction::{PULL_CREDITS, RequestState, ResponseState, TransactionState};
use transport_common::units::Deadline;
use transport_common::wire::PacketType;

const PULL_DATA: PacketType = PacketType::PullData;
// What is in use has a state that is not 0.
const _: () = assert!(
    RequestState::Free as u32 == 0
        && ResponseState::Free as u32 == 0
        && TransactionState::Submitted as u32 == 0
);

/// Checks an entry. All of this holds whatever the application writes into its queues.
///
/// # Panics
/// If an invariant is broken; the message names the clause.
pub fn check(entry: &Snapshot) {
    let c = &entry.connection;
    if c.state != State::Open {
        return;
    }
    let (request, data) = (c.flow.delivery.request(), c.flow.delivery.data());
    let packets = |window: Window| &entry.tables.delivery.packets[window as usize];
    transmit(&request.tx, packets(Window::Request), 64, "request");
    transmit(&data.tx, packets(Window::Data), 128, "data");
    assert!(request.tx.pull_data.is_zero(), "Pull Data travels in the data window (F-6.1.2-1)");
    receive(&request.rx, "request");
    receive(&data.rx, "data");
    assert_eq!(
        request.rx.received, request.rx.acknowledged,
        "F-9-1: a request is acknowledged when received"
    );
    responses(c, &entry.tables);
    requests(c, &entry.tables);
    transactions(c, &entry.tables);
    timers(c, &entry.tables);
}

/// Returns the entries of a table whose `state` is not 0, with their places. It looks at eight entries at once, because
/// every step of a simulation looks through all tables and most entries are free.
pub(super) fn in_use<'a, T>(
    table: &'a [T],
    state: impl Fn(&T) -> u32 + Copy + 'a,
) -> impl Iterator<Item = (usize, &'a T)> {
    let (eights, rest) = table.as_chunks::<8>();
    assert!(rest.is_empty(), "the tables are powers of two");
    let used = move |[a, b, c, d, e, f, g, h]: &[T; 8]| {
        state(a) | state(b) | state(c) | state(d) | state(e) | state(f) | state(g) | state(h)
    };
    let some = eights.iter().enumerate().filter(move |(_, eight)| used(eight) != 0);
    let places = some.flat_map(|(number, eight)| (8 * number..).zip(eight));
    places.filter(move |(_, entry)| state(entry) != 0)
}

fn bits(mut map: Bitmap128) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || map.take_lowest())
}

/// Returns the packet at base + `offset`.
fn packet<'a>(w: &TransmitWindow, packets: &'a [TxPacket], offset: u32) -> &'a TxPacket {
    &packets[w.base.add(offset).0 as usize % packets.len()]
}

fn transmit(w: &TransmitWindow, packets: &[TxPacket], largest: u32, name: &str) {
    let in_flight = w.in_flight();
    assert!(
        w.size <= largest && in_flight <= w.size,
        "F-9.1.2-1: {in_flight} in the {name} window of {}",
        w.size
    );
    let sent = Bitmap128::low_mask(in_flight);
    for map in [w.acknowledged, w.retransmit, w.pull_data, w.not_ready] {
        assert!(map.and_not(sent).is_zero(), "{name}: a bit for a packet never sent (D-19)");
    }
    assert!(!w.acknowledged.get(0), "F-9.1.1-1: the base is the oldest packet not acknowledged");
    assert!(w.acknowledged.and(w.retransmit).is_zero(), "{name}: acknowledged packets are not sent again");
    assert!(
        w.acknowledged.and(w.not_ready).is_zero(),
        "{name}: acknowledged packets wait for no receive (D-92)"
    );
    let outstanding = sent.and_not(w.acknowledged);
    let requests = outstanding.and_not(w.pull_data).count_ones();
    assert_eq!(u32::from(w.outstanding_requests), requests, "{name}: RORC or DORC (D-30)");
    let mut retransmitted = 0;
    for offset in bits(outstanding) {
        let packet = packet(w, packets, offset);
        assert_eq!(w.pull_data.get(offset), packet.kind == PULL_DATA, "{name}: base + {offset}");
        let waits = packet.flags.intersects(PacketFlags::RNR | PacketFlags::ASKED_FOR);
        let (not_ready, queued) = (w.not_ready.get(offset), w.retransmit.get(offset));
        assert!(
            if waits { not_ready } else { !not_ready || queued },
            "D-92: base + {offset} of the {name} window waits after an RNR NACK, or does not"
        );
        if packet.flags.contains(PacketFlags::RETRANSMITTED) {
            assert!(
                packet.kind != PULL_DATA && !w.retransmit.get(offset),
                "{name}: ORRC counts base + {offset} (D-31)"
            );
            retransmitted += 1;
        }
    }
    assert_eq!(w.outstanding_retransmitted, retransmitted, "{name}: ORRC (F-9.1.2-7)");
}

fn receive(w: &ReceiveWindow, name: &str) {
    let window = Bitmap128::low_mask(w.size);
    assert!(w.received.and_not(window).is_zero(), "F-9.2.2.4-2: a {name} packet beyond the window");
    assert!(w.acknowledged.and_not(w.received).is_zero(), "{name}: acknowledged and not received");
    assert!(!w.acknowledged.get(0), "D-20: the base is the oldest packet not acknowledged");
}

/// Checks the response ring: first responses that are acknowledged or sent, then those that wait. Each one sent
/// has its packet.
fn responses(c: &Connection, tables: &Tables) {
    let t = &c.target;
    let (sent, all) =
        (t.response_next.wrapping_sub(t.response_head), t.response_tail.wrapping_sub(t.response_head));
    assert!(sent <= all && all <= RESPONSES as u32, "response ring {sent} of {all}");
    let mut in_ring = 0;
    let mut not_free = 0;
    for (place, response) in in_use(&tables.responses, |response| response.state as u32) {
        let state = response.state;
        not_free += 1;
        let n = (place as u32).wrapping_sub(t.response_head) % RESPONSES as u32;
        let expected = match n {
            _ if n >= all => false,
            _ if n >= sent => state == ResponseState::Ready,
            0 => state == ResponseState::Sent,
            _ => state == ResponseState::Sent || state == ResponseState::Acknowledged,
        };
        assert!(expected, "F-8.5.1-3: response {n} of {sent} of {all} is in state {state:?}");
        in_ring += u32::from(state == ResponseState::Sent);
    }
    assert_eq!(not_free, all, "F-8.5.1-3: a response of the ring is free");
    let w = &c.flow.delivery.data().tx;
    let mut seen = [false; RESPONSES];
    for offset in bits(w.pull_data.and_not(w.acknowledged)) {
        let packet = packet(w, &tables.delivery.packets[Window::Data as usize], offset);
        let slot = packet.response as usize % RESPONSES;
        assert!(!core::mem::replace(&mut seen[slot], true), "two packets for one response");
        assert_eq!(tables.responses[slot].rsn, packet.rsn, "F-7.4-2: Pull Data carries the request's RSN");
        assert_eq!(tables.responses[slot].state, ResponseState::Sent);
        in_ring -= 1;
    }
    assert_eq!(in_ring, 0, "a response is sent and no packet carries it");
}

/// Checks the peer's requests that are not finished, and the data window that waits for them.
fn requests(c: &Connection, tables: &Tables) {
    let ordered = c.target.ordered != 0;
    let data = &c.flow.delivery.data().rx;
    let mut held = 0;
    let mut any_in_rnr = false;
    let mut unfinished = Bitmap128::ZERO;
    for (key, request) in in_use(&tables.requests, |request| request.state as u32) {
        let pull = request.is_pull();
        match request.state {
            RequestState::Free => unreachable!("it is in use"),
            RequestState::Consumed => assert!(ordered, "only order makes a Resync wait (D-25)"),
            RequestState::Held | RequestState::Rnr => {
                held += 1;
                any_in_rnr |= request.state == RequestState::Rnr;
                assert!(!request.cell.is_none(), "key {key}: held where?");
                let waits = if ordered {
                    c.target.rnr == 1 + u8::from(pull) && request.rsn == c.target.nrsn
                } else if pull {
                    c.target.pulls_waiting.or(c.target.pulls_due).get(request.psn.0 % 128)
                } else {
                    c.target.rnr_waiting.or(c.target.rnr_due).get(request.psn.0 % 128)
                };
                assert!(
                    request.state != RequestState::Rnr || waits,
                    "key {key}: nobody offers it again (D-43)"
                );
                assert!(
                    !pull || request.state == RequestState::Held || c.flow.endpoint.protocol.is_block(),
                    "RDMA is always ready for a pull"
                );
            }
            RequestState::Errored => {
                assert_eq!(request.cell, CellId::NONE, "key {key}: an error keeps no cell")
            }
        }
        let ahead = request.rsn.distance_from(c.target.nrsn);
        if ordered {
            assert_eq!(request.rsn.0 as usize % TRANSACTIONS, key, "a request stands at its RSN");
            let waits = request.state != RequestState::Errored;
            assert!(
                !waits || ahead < TRANSACTIONS as u32,
                "key {key}: waits for an RSN that is past (F-8.5.1-2)"
            );
            assert!(request.state != RequestState::Rnr || ahead == 0, "D-42: only the next RSN is in RNR");
        }
        if !pull && request.state != RequestState::Consumed {
            let offset = request.psn.distance_from(data.base);
            assert!(data.received.get(offset) && !data.acknowledged.get(offset), "key {key}: F-6.1.1.1-2");
            assert!(!unfinished.get(offset), "two requests with one PSN");
            unfinished.set(offset);
        }
    }
    assert_eq!(c.target.held, held, "requests in cells");
    let waiting = data.received.and_not(data.acknowledged);
    assert_eq!(waiting, unfinished, "F-9-2: a push received and not acknowledged has its request");
    let retry = !c.target.rnr_due.is_zero() || !c.target.pulls_due.is_zero();
    assert!(
        !any_in_rnr || retry || c.target.rnr_timer.is_armed(),
        "D-43: a request in RNR that nobody redelivers"
    );
}

fn transactions(c: &Connection, tables: &Tables) {
    let i = &c.initiator;
    assert!(
        i.is_consistent(),
        "F-8.4.1-1: released <= BRSN <= submitted <= released + {TRANSACTIONS}: {i:?}"
    );
    let at = |rsn: Rsn| tables.transactions[rsn.0 as usize % TRANSACTIONS].state;
    let mut open_pulls = 0;
    // Transactions outstanding, on an ordered connection.
    let sent = i.next.distance_from(i.released);
    let mut not_fresh = 0;
    for (place, t) in in_use(&tables.transactions, |t| t.state as u32) {
        let waits = matches!(t.state, TransactionState::Sent | TransactionState::Acknowledged);
        open_pulls += usize::from(t.pull != 0 && waits);
        // A transaction that ended before it was sent is not sent. A Resync is sent instead.
        if t.skipped != 0 {
            continue;
        }
        not_fresh += 1;
        let n = (place as u32).wrapping_sub(i.released.0) % TRANSACTIONS as u32;
        assert!(i.ordered == 0 || n < sent, "F-9.1.3-2: sent in RSN order, released + {n} of {sent}");
    }
    // An answer gives its credit back when the peer knows that it arrived.
    let answers = c.flow.delivery.data().rx.answers.count_ones() as usize;
    assert_eq!(usize::from(i.open_pulls), open_pulls + answers, "pulls that hold a credit");
    assert!(i.open_pulls <= PULL_CREDITS, "F-8.5.3.1-1: pulls the target has responses for");
    // If the table is full of transactions that are reported and not released, BRSN has no entry of its own.
    let has_entry = i.brsn.distance_from(i.released) < TRANSACTIONS as u32;
    let oldest = at(i.brsn);
    assert!(
        !has_entry || oldest != TransactionState::Reported,
        "F-8.4.1-1: BRSN is the oldest not completed"
    );
    assert!(
        !has_entry || oldest != TransactionState::Done || i.completions_blocked != 0,
        "F-8.4.2-1: done and not reported"
    );
    if i.ordered != 0 {
        // Completed transactions whose packet is not acknowledged keep their entry as well.
        assert!(sent <= TRANSACTIONS as u32, "transactions outstanding");
        assert_eq!(not_fresh, sent, "F-9.1.3-2: sent in RSN order");
    }
}

/// Checks that everything that waits for a time has a running timer.
fn timers(c: &Connection, tables: &Tables) {
    for lane in &c.flow.delivery.lanes {
        assert!(
            lane.tx.timed().is_zero() || c.flow.delivery.retransmit.is_armed(),
            "F-9.1.1-11: a packet whose timer does not run"
        );
    }
    let oldest = tables.transactions[c.initiator.brsn.0 as usize % TRANSACTIONS].state;
    let waiting = matches!(oldest, TransactionState::Sent | TransactionState::Acknowledged);
    assert!(!waiting || c.initiator.timer.is_armed(), "F-11-19: the oldest transaction has no timer");
}

/// Returns all deadlines of a connection except the one with which it is filed.
pub(super) const fn deadlines(c: &Connection) -> [Deadline; 5] {
    let (ack, retransmit) = (c.flow.delivery.ack.coalescing, c.flow.delivery.retransmit);
    [ack, retransmit, c.initiator.timer, c.target.rnr_timer, c.flow.congestion.pacing]
}

/// Checks that an entry has its initial state again, except for its sequence numbers, so that every resource
/// was given back.
///
/// # Panics
/// If it has not; the message says what is left.
pub fn check_idle(entry: &Snapshot) {
    let c = &entry.connection;
    let (request, data) = (c.flow.delivery.request(), c.flow.delivery.data());
    for (window, name) in [(&request.tx, "request"), (&data.tx, "data")] {
        assert_eq!(window.in_flight(), 0, "F-11-1: packets left in the {name} window");
        assert_eq!(window.outstanding_requests, 0, "{name}: RORC or DORC");
        assert_eq!(window.outstanding_retransmitted, 0, "{name}: RORRC or DORRC");
    }
    for (window, name) in [(&request.rx, "request"), (&data.rx, "data")] {
        assert!(
            window.received.is_zero() && window.acknowledged.is_zero(),
            "holes left in the {name} window"
        );
    }
    assert_eq!(c.target.response_head, c.target.response_tail, "responses left");
    let left = entry.tables.requests.iter().find(|request| request.state != RequestState::Free);
    assert_eq!(left, None, "a request is left: the next RSN is {:?}", c.target.nrsn);
    let free = |state: TransactionState| state == TransactionState::Submitted;
    assert!(entry.tables.transactions.iter().all(|t| free(t.state)), "transactions left");
    assert!(deadlines(c).iter().all(|deadline| !deadline.is_armed()), "timers left running");
    assert_eq!(c.flow.delivery.ack.pending, 0, "an acknowledgement was not sent");
}
