//! What holds of a connection between any two steps, whatever the network does.

use transport_common::bitmap::Bitmap128;
use transport_common::connection::{Connection, Entry, RESPONSES, TRANSACTIONS, Tables, state, timer};
use transport_common::datapath::NO_CELL;
use transport_common::ids::{Psn, Rsn};
use transport_common::packet_delivery::{ReceiveWindow, TransmitWindow, TxPacket, packet_flag};
use transport_common::queues::opcode;
use transport_common::transaction::{
    PULL_CREDITS, Transaction, request_state, response_state, transaction_state,
};
use transport_common::wire::PacketType;

const PULL_DATA: u8 = PacketType::PullData as u8;

/// Checks an entry.
///
/// # Panics
/// If an invariant is broken; the message names the clause.
pub fn check(entry: &Entry) {
    let c = &entry.connection;
    if c.state != state::OPEN {
        return;
    }
    transmit(&c.request_tx, &entry.tables.request_packets, 64, "request");
    transmit(&c.data_tx, &entry.tables.data_packets, 128, "data");
    assert!(c.request_tx.pull_data.is_zero(), "Pull Data travels in the data window (F-6.1.2-1)");
    receive(&c.request_rx, "request");
    receive(&c.data_rx, "data");
    assert_eq!(
        c.request_rx.received, c.request_rx.acknowledged,
        "F-9-1: a request is acknowledged when received"
    );
    responses(c, &entry.tables);
    requests(c, &entry.tables);
    transactions(c, &entry.tables);
    timers(c, &entry.tables);
}

fn bits(map: Bitmap128) -> impl Iterator<Item = u32> {
    (0..128).filter(move |n| map.get(*n))
}

/// The packet at base + `offset`.
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
    for map in [w.acknowledged, w.retransmit, w.pull_data] {
        assert!(map.and_not(sent).is_zero(), "{name}: a bit for a packet never sent (D-19)");
    }
    assert!(!w.acknowledged.get(0), "F-9.1.1-1: the base is the oldest packet not acknowledged");
    assert!(w.acknowledged.and(w.retransmit).is_zero(), "{name}: acknowledged packets are not sent again");
    let outstanding = sent.and_not(w.acknowledged);
    let requests = outstanding.and_not(w.pull_data).count_ones();
    assert_eq!(u32::from(w.outstanding_requests), requests, "{name}: RORC or DORC (D-30)");
    let mut retransmitted = 0;
    for offset in bits(outstanding) {
        let packet = packet(w, packets, offset);
        assert_eq!(w.pull_data.get(offset), packet.kind == PULL_DATA, "{name}: base + {offset}");
        if packet.flags & packet_flag::RETRANSMITTED != 0 {
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

/// The response ring: acknowledged and sent ones, then those that wait; every one sent has its packet.
fn responses(c: &Connection, tables: &Tables) {
    let t = &c.target;
    let (sent, all) =
        (t.response_next.wrapping_sub(t.response_head), t.response_tail.wrapping_sub(t.response_head));
    assert!(sent <= all && all <= RESPONSES as u32, "response ring {sent} of {all}");
    let mut in_ring = 0;
    for n in 0..RESPONSES as u32 {
        let position = t.response_head.wrapping_add(n);
        let state = tables.responses[position as usize % RESPONSES].state;
        let expected = match n {
            _ if n >= all => state == response_state::FREE,
            _ if n >= sent => state == response_state::READY,
            0 => state == response_state::SENT,
            _ => state == response_state::SENT || state == response_state::ACKNOWLEDGED,
        };
        assert!(expected, "F-8.5.1-3: response {n} of {sent} of {all} is in state {state}");
        in_ring += u32::from(n < sent && state == response_state::SENT);
    }
    let w = &c.data_tx;
    let mut seen = [false; RESPONSES];
    for offset in bits(w.pull_data.and_not(w.acknowledged)) {
        let packet = packet(w, &tables.data_packets, offset);
        let slot = packet.response as usize % RESPONSES;
        assert!(!core::mem::replace(&mut seen[slot], true), "two packets for one response");
        assert_eq!(tables.responses[slot].rsn, packet.rsn, "F-7.4-2: Pull Data carries the request's RSN");
        assert_eq!(tables.responses[slot].state, response_state::SENT);
        in_ring -= 1;
    }
    assert_eq!(in_ring, 0, "a response is sent and no packet carries it");
}

/// Requests of the peer that are not finished, and the data window that waits for them.
fn requests(c: &Connection, tables: &Tables) {
    let ordered = c.config.ordered != 0;
    let mut held = 0;
    let mut unfinished = Bitmap128::ZERO;
    for (key, request) in tables.requests.iter().enumerate() {
        let pull = request.flags & 2 != 0;
        match request.state {
            request_state::FREE => continue,
            request_state::CONSUMED => assert!(ordered, "only order makes a Resync wait (D-25)"),
            request_state::HELD | request_state::RNR => {
                held += 1;
                assert!(request.cell as u32 != NO_CELL, "key {key}: held where?");
                assert!(
                    !pull || request.state == request_state::HELD,
                    "F-11-25: pulls are not RNRed on the wire"
                );
            }
            request_state::ERRORED => {
                assert_eq!(request.cell as u32, NO_CELL, "key {key}: an error keeps no cell")
            }
            other => panic!("key {key}: in state {other} between two steps"),
        }
        let ahead = Rsn(request.rsn).distance_from(c.target.nrsn);
        if ordered {
            assert_eq!(request.rsn as usize % TRANSACTIONS, key, "a request stands at its RSN");
            let waits = request.state != request_state::ERRORED;
            assert!(
                !waits || ahead < TRANSACTIONS as u32,
                "key {key}: waits for an RSN that is past (F-8.5.1-2)"
            );
            assert!(request.state != request_state::RNR || ahead == 0, "D-42: only the next RSN is in RNR");
        }
        if !pull && request.state != request_state::CONSUMED {
            let offset = Psn(request.psn).distance_from(c.data_rx.base);
            assert!(
                c.data_rx.received.get(offset) && !c.data_rx.acknowledged.get(offset),
                "key {key}: F-6.1.1.1-2"
            );
            assert!(!unfinished.get(offset), "two requests with one PSN");
            unfinished.set(offset);
        }
    }
    assert_eq!(c.target.held, held, "requests in cells");
    assert_eq!(c.target.delivering, 0, "nothing is at the ULP between two steps");
    let waiting = c.data_rx.received.and_not(c.data_rx.acknowledged);
    assert_eq!(waiting, unfinished, "F-9-2: a push received and not acknowledged has its request");
}

fn transactions(c: &Connection, tables: &Tables) {
    let i = &c.initiator;
    let at = |rsn: Rsn| tables.transactions[rsn.0 as usize % TRANSACTIONS].state;
    assert!(
        tables.transactions.iter().all(|t| t.state != transaction_state::PLACING),
        "F-8.4.1-3: between two steps"
    );
    let open_pull = |t: &&Transaction| {
        let pull = matches!(t.opcode, opcode::READ | opcode::COMPARE_SWAP | opcode::FETCH_ADD);
        pull && matches!(t.state, transaction_state::SENT | transaction_state::ACKNOWLEDGED)
    };
    let open_pulls = tables.transactions.iter().filter(open_pull).count();
    assert_eq!(usize::from(i.open_pulls), open_pulls, "pulls that hold a credit");
    assert!(i.open_pulls <= PULL_CREDITS, "F-8.5.3.1-1: pulls the target has responses for");
    let oldest = at(i.brsn);
    assert!(oldest != transaction_state::REPORTED, "F-8.4.1-1: BRSN is the oldest not completed");
    assert!(
        oldest != transaction_state::DONE || i.completions_blocked != 0,
        "F-8.4.2-1: done and not reported"
    );
    if c.config.ordered != 0 {
        let sent = i.next.distance_from(i.brsn);
        assert!(sent <= TRANSACTIONS as u32, "transactions outstanding");
        for n in 0..TRANSACTIONS as u32 {
            let fresh = at(i.brsn.add(n)) == transaction_state::SUBMITTED;
            assert_eq!(fresh, n >= sent, "F-9.1.3-2: sent in RSN order, BRSN + {n} of {sent}");
        }
    }
}

/// Whatever waits for time has a timer that runs.
fn timers(c: &Connection, tables: &Tables) {
    let armed = |bit| c.timers.armed & bit != 0;
    for window in [&c.request_tx, &c.data_tx] {
        assert!(
            window.timed().is_zero() || armed(timer::RETRANSMIT),
            "F-9.1.1-11: a packet whose timer does not run"
        );
    }
    let rnr = tables.requests.iter().any(|request| request.state == request_state::RNR);
    let retry = c.target.rnr_due != 0 || !c.target.rnr_retry.is_zero();
    assert!(!rnr || retry || armed(timer::RNR), "D-43: a request in RNR that nobody redelivers");
    let oldest = tables.transactions[c.initiator.brsn.0 as usize % TRANSACTIONS].state;
    let waiting = matches!(oldest, transaction_state::SENT | transaction_state::ACKNOWLEDGED);
    assert!(!waiting || armed(timer::TRANSACTION), "F-11-19: the oldest transaction has no timer");
}

/// Whether an entry is back where it was when it was opened, but for its sequence numbers: every resource was given
/// back.
///
/// # Panics
/// If not; the message says what is left.
pub fn check_idle(entry: &Entry) {
    let c = &entry.connection;
    for (window, name) in [(&c.request_tx, "request"), (&c.data_tx, "data")] {
        assert_eq!(window.in_flight(), 0, "F-11-1: packets left in the {name} window");
        assert_eq!(window.outstanding_requests, 0, "{name}: RORC or DORC");
        assert_eq!(window.outstanding_retransmitted, 0, "{name}: RORRC or DORRC");
    }
    for (window, name) in [(&c.request_rx, "request"), (&c.data_rx, "data")] {
        assert!(
            window.received.is_zero() && window.acknowledged.is_zero(),
            "holes left in the {name} window"
        );
    }
    assert_eq!(c.target.response_head, c.target.response_tail, "responses left");
    assert!(
        entry.tables.requests.iter().all(|request| request.state == request_state::FREE),
        "requests left"
    );
    let free = |state: u8| state == transaction_state::SUBMITTED;
    assert!(entry.tables.transactions.iter().all(|t| free(t.state)), "transactions left");
    assert_eq!(c.timers.armed & !timer::FILED, 0, "timers left running");
    assert_eq!(c.ack.pending, 0, "an acknowledgement was not sent");
}
