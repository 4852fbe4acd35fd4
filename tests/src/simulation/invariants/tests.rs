//! Each invariant, and a state that breaks nothing but it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use host_nic::{HostConfig, HostNic, testbed};
use transport_common::connection::Snapshot;
use transport_common::queues::{AccessFlags, Region, Verb, WorkFlags, WorkRequest};
use transport_common::transaction::{ResponseState, TransactionState};
use transport_common::units::{Deadline, Fcwnd, Picoseconds};

use super::*;
use crate::simulation::host::Before;

const SLOT: usize = 5;

/// Returns the initiator of two SENDs, a READ and a WRITE, and their target. The target has no receive, and the initiator
/// has got no answer.
fn ends() -> [HostNic; 2] {
    let [mut a, mut b] = [0, 1].map(|side| HostNic::new(HostConfig::new(testbed::node(side))));
    for (side, nic) in [&mut a, &mut b].into_iter().enumerate() {
        let mut parameters = testbed::connection(side, SLOT);
        parameters.config.ordered = 0;
        nic.open(SLOT, &parameters);
        nic.set_time(Picoseconds(1 << 40));
    }
    let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
    b.register(Region { offset: 8192, length: 4096, key: 1, access, ..Region::default() });
    for opcode in [Verb::SEND_ONLY, Verb::SEND_ONLY, Verb::READ, Verb::WRITE] {
        let rkey = if opcode == Verb::SEND_ONLY { 0 } else { 1 };
        let work =
            WorkRequest { opcode, flags: WorkFlags::SIGNALED, length: 64, rkey, ..WorkRequest::default() };
        a.post(SLOT, work).expect("the queue is empty");
    }
    while let Some((_, frame)) = a.engine_frame() {
        if !frame.is_empty() {
            b.receive(frame);
        }
    }
    [a, b]
}

/// Corrupts an entry, and returns what the check says.
fn said(nic: &HostNic, corrupt: impl FnOnce(&mut Snapshot)) -> String {
    let mut entry = Box::new(*nic.entry(SLOT));
    check(&entry);
    corrupt(&mut entry);
    let panic = catch_unwind(AssertUnwindSafe(|| check(&entry))).expect_err("nothing was found");
    text(&*panic)
}

fn text(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).expect("a text")
}

#[test]
fn every_invariant_of_an_initiator_is_checked() {
    let [a, _] = ends();
    let find = |clause: &str, corrupt: fn(&mut Snapshot)| {
        let said = said(&a, corrupt);
        assert!(said.contains(clause), "{clause}: {said}");
    };
    find("F-9.1.2-1", |e| e.connection.flow.delivery.data_mut().tx.size = 1);
    find("D-19", |e| e.connection.flow.delivery.data_mut().tx.acknowledged.set(100));
    find("F-9.1.1-1", |e| e.connection.flow.delivery.data_mut().tx.acknowledged.set(0));
    find("D-30", |e| e.connection.flow.delivery.data_mut().tx.outstanding_requests += 1);
    find("F-9.1.2-7", |e| e.connection.flow.delivery.data_mut().tx.outstanding_retransmitted += 1);
    find("F-9.2.2.4-2", |e| {
        e.connection.flow.delivery.data_mut().rx.size = 8;
        e.connection.flow.delivery.data_mut().rx.received.set(9);
    });
    find("acknowledged and not received", |e| e.connection.flow.delivery.data_mut().rx.acknowledged.set(3));
    find("credit", |e| e.connection.initiator.open_pulls += 1);
    find("F-8.4.1-1", |e| {
        let oldest = e.connection.initiator.brsn.0 as usize % TRANSACTIONS;
        e.tables.transactions[oldest].state = TransactionState::Reported;
    });
    find("F-9.1.1-11", |e| e.connection.flow.delivery.retransmit = Deadline::NONE);
    find("F-11-19", |e| e.connection.initiator.timer = Deadline::NONE);
}

#[test]
fn every_invariant_of_a_target_is_checked() {
    let [_, b] = ends();
    let find = |clause: &str, corrupt: fn(&mut Snapshot)| {
        let said = said(&b, corrupt);
        assert!(said.contains(clause), "{clause}: {said}");
    };
    fn held(e: &mut Snapshot) -> &mut transport_common::transaction::TargetRequest {
        let all = e.tables.requests.iter_mut();
        all.into_iter().find(|request| request.state != RequestState::Free).expect("a SEND waits")
    }
    find("requests in cells", |e| e.connection.target.held += 1);
    find("held where?", |e| held(e).cell = CellId::NONE);
    find("F-6.1.1.1-2", |e| e.connection.flow.delivery.data_mut().rx.acknowledged.set(1));
    find("F-9-2", |e| {
        held(e).state = RequestState::Free;
        e.connection.target.held -= 1;
    });
    find("D-43", |e| e.connection.target.rnr_waiting = Bitmap128::ZERO);
    find("D-43", |e| e.connection.target.rnr_timer = Deadline::NONE);
    find("F-8.5.1-3", |e| {
        let oldest = e.connection.target.response_head as usize % RESPONSES;
        e.tables.responses[oldest].state = ResponseState::Free;
    });
    find("F-9-1", |e| e.connection.flow.delivery.request_mut().rx.received.set(5));
}

/// What must not go back or too far in a step.
#[test]
fn every_comparison_with_the_state_before_is_made() {
    let [a, _] = ends();
    let find = |clause: &str, corrupt: fn(&mut Connection)| {
        let mut connection = a.entry(SLOT).connection;
        let before = Before::of(&connection);
        before.check(&connection);
        corrupt(&mut connection);
        let panic = catch_unwind(AssertUnwindSafe(|| before.check(&connection)));
        let said = text(&*panic.expect_err("nothing was found"));
        assert!(said.contains(clause), "{clause}: {said}");
    };
    find("D-90", |c| c.flow.security.last_iv = Picoseconds(c.flow.security.last_iv.0 - 1));
    find("F-8.4.1-1", |c| c.initiator.brsn = Rsn(c.initiator.brsn.0.wrapping_sub(1)));
    find("F-8.4.1-1", |c| c.target.nrsn = c.target.nrsn.add(1000));
    find("F-9.1.1-1", |c| c.flow.delivery.data_mut().tx.base = c.flow.delivery.data().tx.base.add(u32::MAX));
    find("F-9.1.1-1", |c| c.flow.delivery.data_mut().rx.base = c.flow.delivery.data().rx.base.add(u32::MAX));
    find("F-9.1.2-1", |c| {
        c.flow.congestion.fcwnd = Fcwnd(1);
        c.flow.delivery.data_mut().tx.next = c.flow.delivery.data().tx.next.add(1);
    });
    find("F-9.1.2-3", |c| {
        c.flow.congestion.ncwnd = 1;
        let w = &mut c.flow.delivery.data_mut().tx;
        w.next = w.next.add(1);
        w.outstanding_requests += 1;
    });
}
