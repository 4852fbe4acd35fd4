//! The two transaction tables of a connection, in the states of the specification (F-8.4.1-3, F-8.4.1-4, F-8.5.1-3,
//! F-8.5.1-4).

use serde::{Deserialize, Serialize};
use transport_common::connection::{RESPONSES, Snapshot, TRANSACTIONS};
use transport_common::ids::{Rsn, WorkPosition};
use transport_common::queues::{QueuePair, SEND_QUEUE_DEPTH};
use transport_common::transaction::{RequestState, ResponseState, Transaction, TransactionState};

/// The transactions of a connection that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transactions {
    /// Transactions of this end, in the order of their RSNs. The last ones were posted, but are not sent yet.
    pub initiator: Vec<InitiatorTransaction>,
    /// Transactions of the peer: requests by window and PSN, then responses in the order in which they are sent.
    pub target: Vec<TargetTransaction>,
}

/// A push or a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TransactionKind {
    /// WRITE or SEND.
    Push,
    /// READ or atomic.
    Pull,
}

impl TransactionKind {
    const fn new(pull: bool) -> Self {
        if pull { Self::Pull } else { Self::Push }
    }
}

/// A transaction of this end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitiatorTransaction {
    /// Request sequence number.
    pub rsn: u32,
    /// Push or pull.
    pub kind: TransactionKind,
    /// State.
    pub state: InitiatorState,
    /// Completion code, if it ended in error: see [`OperationError`](crate::OperationError).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
    /// Code of the target's ULP, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ulp_code: Option<u8>,
}

/// State of a transaction at its initiator (F-8.4.1-3, F-8.4.1-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
pub enum InitiatorState {
    /// A push that is posted, but not sent.
    PushReqUlpRx,
    /// A push that is sent.
    PushDataTx,
    /// A push that is acknowledged or has failed. Its completion waits for an older one, or for space in the
    /// completion queue.
    PushDataAckd,
    /// A push that is completed to the application. The slot of its work request is in use until its packet and all
    /// older ones are acknowledged.
    PushCplTx,
    /// A pull that is posted, but not sent.
    PullReqUlpRx,
    /// A pull whose request is sent.
    PullReqTx,
    /// A pull whose request is acknowledged.
    PullReqAckd,
    /// A pull that is answered or has failed. Its completion waits for an older one, or for space in the completion
    /// queue.
    PullDataRx,
    /// A pull that is completed to the application, as for [`Self::PushCplTx`].
    PullDataUlpTx,
}

impl InitiatorState {
    const fn new(kind: TransactionKind, state: TransactionState) -> Self {
        use TransactionKind::{Pull, Push};
        match (kind, state) {
            (Push, TransactionState::Submitted) => Self::PushReqUlpRx,
            (Push, TransactionState::Sent | TransactionState::Acknowledged) => Self::PushDataTx,
            (Push, TransactionState::Done) => Self::PushDataAckd,
            (Push, TransactionState::Reported) => Self::PushCplTx,
            (Pull, TransactionState::Submitted) => Self::PullReqUlpRx,
            (Pull, TransactionState::Sent) => Self::PullReqTx,
            (Pull, TransactionState::Acknowledged) => Self::PullReqAckd,
            (Pull, TransactionState::Done) => Self::PullDataRx,
            (Pull, TransactionState::Reported) => Self::PullDataUlpTx,
        }
    }
}

/// A transaction of the peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetTransaction {
    /// Request sequence number.
    pub rsn: u32,
    /// PSN of the request; absent for a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psn: Option<u32>,
    /// Push or pull.
    pub kind: TransactionKind,
    /// State.
    pub state: TargetState,
    /// What a request waits for; absent for a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<TargetWait>,
    /// Code of the ULP, if it completed a push in error (F-8.5.3.5-1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ulp_code: Option<u8>,
    /// RNR timeout code, if the ULP was not ready (F-8.5.3.4-1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rnr_timeout_code: Option<u8>,
}

/// State of a transaction at its target (F-8.5.1-3, F-8.5.1-4). `PullReqUlpAckd` is never seen: this ULP acknowledges a
/// pull with its response. `PushReqUlpAckd` ends a push: the receive window shows that it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
pub enum TargetState {
    /// A push that waits in a receive cell.
    PushDataRx,
    /// A push that the ULP has seen and not taken.
    PushReqUlpTx,
    /// A pull that waits in a receive cell.
    PullReqRx,
    /// A pull that the ULP has seen and not answered.
    PullReqUlpTx,
    /// A response that is not sent.
    PullDataUlpRx,
    /// A response that is sent.
    PullDataTx,
    /// A response that is acknowledged. An older one is not.
    PullDataAckd,
}

/// What a request at its target waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TargetWait {
    /// Its turn: an older request is missing, or this one is delivered with the next turn of the engine.
    Order,
    /// The ULP, which was not ready (RNR).
    Ulp,
    /// The peer's Resync, after the ULP refused it.
    Resync,
    /// Its turn, to be passed over: a Resync took its place (D-25).
    Skip,
}

impl Transactions {
    /// Reads the tables of a copy of a connection. The application may post while they are read: what it posts then
    /// may be missing.
    pub(crate) fn new(entry: &Snapshot, queues: &QueuePair) -> Self {
        let mut target = requests(entry);
        target.extend(responses(entry));
        Self { initiator: initiated(entry, queues), target }
    }
}

fn initiated(entry: &Snapshot, queues: &QueuePair) -> Vec<InitiatorTransaction> {
    let first = entry.connection.initiator.released.0;
    // The counter is the application's, so it may hold anything.
    const { assert!(SEND_QUEUE_DEPTH == TRANSACTIONS) };
    let count = queues.work_queue().producer().0.wrapping_sub(first).min(SEND_QUEUE_DEPTH as u32);
    let transaction = |n| {
        let rsn = first.wrapping_add(n);
        let t: &Transaction = &entry.tables.transactions[rsn as usize % TRANSACTIONS];
        let pull = match t.state {
            TransactionState::Submitted => queues.work_queue().opcode(WorkPosition(rsn)).is_pull(),
            _ => t.pull != 0,
        };
        let kind = TransactionKind::new(pull);
        let ended = t.state >= TransactionState::Done;
        InitiatorTransaction {
            rsn,
            kind,
            state: InitiatorState::new(kind, t.state),
            code: (ended && t.code != 0).then_some(t.code),
            ulp_code: (ended && t.ulp_code != 0).then_some(t.ulp_code),
        }
    };
    (0..count).map(transaction).collect()
}

fn requests(entry: &Snapshot) -> Vec<TargetTransaction> {
    let mut requests = entry.tables.requests.to_vec();
    requests.retain(|request| request.state != RequestState::Free);
    requests.sort_by_key(|request| {
        let lane = if request.is_pull() { 0 } else { 1 };
        (lane, request.psn.distance_from(entry.connection.flow.delivery.lanes[lane].rx.base))
    });
    let shown = |request: transport_common::transaction::TargetRequest| {
        let kind = TransactionKind::new(request.is_pull());
        let (waiting, seen) = match kind {
            TransactionKind::Push => (TargetState::PushDataRx, TargetState::PushReqUlpTx),
            TransactionKind::Pull => (TargetState::PullReqRx, TargetState::PullReqUlpTx),
        };
        let (state, wait) = match request.state {
            RequestState::Rnr => (seen, TargetWait::Ulp),
            RequestState::Errored => (seen, TargetWait::Resync),
            RequestState::Consumed => (waiting, TargetWait::Skip),
            RequestState::Held | RequestState::Free => (waiting, TargetWait::Order),
        };
        TargetTransaction {
            rsn: request.rsn.0,
            psn: Some(request.psn.0),
            kind,
            state,
            waits_for: Some(wait),
            ulp_code: (wait == TargetWait::Resync).then_some(request.code),
            rnr_timeout_code: (wait == TargetWait::Ulp).then_some(request.code),
        }
    };
    requests.into_iter().map(shown).collect()
}

fn responses(entry: &Snapshot) -> impl Iterator<Item = TargetTransaction> {
    let target = &entry.connection.target;
    let count = target.response_tail.wrapping_sub(target.response_head).min(RESPONSES as u32);
    let first = target.response_head;
    (0..count).filter_map(move |n| {
        let response = &entry.tables.responses[first.wrapping_add(n) as usize % RESPONSES];
        let state = match response.state {
            ResponseState::Free => return None,
            ResponseState::Ready => TargetState::PullDataUlpRx,
            ResponseState::Sent => TargetState::PullDataTx,
            ResponseState::Acknowledged => TargetState::PullDataAckd,
        };
        let Rsn(rsn) = response.rsn;
        let kind = TransactionKind::Pull;
        Some(TargetTransaction {
            rsn,
            psn: None,
            kind,
            state,
            waits_for: None,
            ulp_code: None,
            rnr_timeout_code: None,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use transport_common::ids::Psn;
    use transport_common::queues::{Verb, WorkRequest};
    use transport_common::transaction::{RequestFlags, TargetRequest};

    use super::*;
    use crate::verbs::maps::closed_connection;

    fn queues() -> Box<QueuePair> {
        bytemuck::zeroed_box()
    }

    /// F-8.4.1-3, F-8.4.1-4: every state of both kinds, and those that are posted only.
    #[test]
    fn of_this_end() {
        use InitiatorState as Shown;
        use TransactionState::{Acknowledged, Done, Reported, Sent, Submitted};
        let (mut entry, queues) = (closed_connection(), queues());
        let first = u32::MAX - 3;
        entry.connection.initiator.released = Rsn(first);
        let states = [
            (false, Reported, Shown::PushCplTx),
            (true, Reported, Shown::PullDataUlpTx),
            (false, Sent, Shown::PushDataTx),
            (false, Done, Shown::PushDataAckd),
            (true, Done, Shown::PullDataRx),
            (true, Acknowledged, Shown::PullReqAckd),
            (true, Sent, Shown::PullReqTx),
            (true, Submitted, Shown::PullReqUlpRx),
            (false, Submitted, Shown::PushReqUlpRx),
        ];
        for (n, (pull, state, _)) in states.into_iter().enumerate() {
            let index = first.wrapping_add(n as u32) as usize % TRANSACTIONS;
            let t = &mut entry.tables.transactions[index];
            (t.state, t.pull, t.code) = (state, u8::from(pull && state != Submitted), 7);
            let opcode = if pull { Verb::READ } else { Verb::WRITE };
            queues.send[index].store(WorkRequest { opcode, ..WorkRequest::default() });
        }
        queues.send_producer.store(first.wrapping_add(states.len() as u32), Relaxed);
        let shown = Transactions::new(&entry, &queues);
        assert_eq!(shown.initiator.len(), states.len());
        for ((n, t), (pull, state, expected)) in (0..).zip(&shown.initiator).zip(states) {
            assert_eq!((t.rsn, t.state), (first.wrapping_add(n), expected));
            assert_eq!(t.kind, TransactionKind::new(pull));
            assert_eq!(t.code, (state >= Done).then_some(7), "a code belongs to a transaction that ended");
        }
        assert!(shown.target.is_empty());
        // The application can write any number into its counter.
        queues.send_producer.store(first.wrapping_sub(1), Relaxed);
        assert_eq!(Transactions::new(&entry, &queues).initiator.len(), SEND_QUEUE_DEPTH);
    }

    /// F-8.5.1-3, F-8.5.1-4: every state of both kinds, by window and PSN, then the responses.
    #[test]
    fn of_the_peer() {
        use TargetState as Shown;
        let mut entry = closed_connection();
        entry.connection.flow.delivery.lanes.iter_mut().for_each(|lane| lane.rx.base = Psn(u32::MAX));
        let requests = [
            (true, 1, RequestState::Held, (Shown::PullReqRx, TargetWait::Order)),
            (true, 2, RequestState::Rnr, (Shown::PullReqUlpTx, TargetWait::Ulp)),
            (false, u32::MAX, RequestState::Rnr, (Shown::PushReqUlpTx, TargetWait::Ulp)),
            (false, 0, RequestState::Held, (Shown::PushDataRx, TargetWait::Order)),
            (false, 1, RequestState::Errored, (Shown::PushReqUlpTx, TargetWait::Resync)),
            (false, 2, RequestState::Consumed, (Shown::PushDataRx, TargetWait::Skip)),
        ];
        for (n, (pull, psn, state, _)) in requests.into_iter().enumerate() {
            let flags = if pull { RequestFlags::PULL } else { RequestFlags::empty() };
            // Anywhere in the table.
            let request = &mut entry.tables.requests[(n * 5 + 7) % TRANSACTIONS];
            *request = TargetRequest { psn: Psn(psn), state, flags, code: 9, ..*request };
        }
        let responses = [
            (ResponseState::Acknowledged, Shown::PullDataAckd),
            (ResponseState::Sent, Shown::PullDataTx),
            (ResponseState::Ready, Shown::PullDataUlpRx),
        ];
        let head = u32::MAX;
        entry.connection.target.response_head = head;
        entry.connection.target.response_tail = head.wrapping_add(3);
        for (n, (state, _)) in (0u32..).zip(responses) {
            entry.tables.responses[head.wrapping_add(n) as usize % RESPONSES].state = state;
        }
        let shown = Transactions::new(&entry, &queues()).target;
        assert_eq!(shown.len(), 9);
        for (t, (pull, psn, _, (state, wait))) in shown.iter().zip(requests) {
            assert_eq!((t.psn, t.state, t.waits_for), (Some(psn), state, Some(wait)));
            assert_eq!(t.kind, TransactionKind::new(pull));
            assert_eq!(t.rnr_timeout_code, (wait == TargetWait::Ulp).then_some(9));
            assert_eq!(t.ulp_code, (wait == TargetWait::Resync).then_some(9));
        }
        for (t, (_, state)) in shown[6..].iter().zip(responses) {
            assert_eq!((t.psn, t.kind, t.state, t.waits_for), (None, TransactionKind::Pull, state, None));
        }
    }
}
