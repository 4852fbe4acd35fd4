//! Each rule of the account, and a change that breaks nothing but it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use host_nic::{HostConfig, HostNic, testbed};
use transport_common::queues::{AccessFlags, Queues, Region, Verb, WorkFlags, WorkRequest};
use transport_common::units::Picoseconds;

use super::*;

const SLOT: usize = 5;
/// The retransmission timeout has passed after so long.
const LATER: Picoseconds = Picoseconds((1 << 40) + (1 << 36));

/// Returns the initiator of two WRITEs that were sent, and its account.
fn initiator() -> (HostNic, Causes) {
    let mut nic = HostNic::new(HostConfig::new(testbed::node(0)));
    nic.set_time(Picoseconds(1 << 40));
    nic.open(SLOT, &testbed::connection(0, SLOT));
    nic.register(Region { offset: 8192, length: 4096, key: 1, access: AccessFlags::REMOTE_WRITE });
    for _ in 0..2 {
        let flags = WorkFlags::SIGNALED;
        let work = WorkRequest { opcode: Verb::WRITE, flags, length: 64, rkey: 1, ..WorkRequest::default() };
        nic.post(SLOT, work).expect("the queue is empty");
    }
    while nic.engine_frame().is_some() {}
    let causes = Causes::of(nic.entry(SLOT));
    (nic, causes)
}

/// Lets the timers run and the engine send what they queue, changes the connection, and returns what the account says.
fn said(change: impl FnOnce(&mut Entry)) -> String {
    let (mut nic, mut causes) = initiator();
    nic.set_time(LATER);
    // The engine looks at the wheel now and then.
    let sent = |nic: &HostNic| nic.entry(SLOT).tables.statistics.retransmitted_timeout;
    while sent(&nic) == 0 {
        nic.engine_frame();
    }
    change(nic.entry_mut(SLOT));
    let placement = nic.queue_pair(SLOT).settings().placement;
    let look = || causes.look(nic.entry(SLOT), placement, nic.time().ticks());
    let Err(panic) = catch_unwind(AssertUnwindSafe(look)) else { return String::new() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).expect("a text")
}

#[test]
fn a_timeout_is_explained() {
    assert_eq!(said(|_| {}), "");
}

#[test]
fn every_rule_is_checked() {
    let find = |clause: &str, change: fn(&mut Entry)| {
        let said = said(change);
        assert!(said.contains(clause), "{clause}: {said}");
    };
    fn statistics(entry: &mut Entry) -> &mut Statistics {
        &mut entry.tables.statistics
    }
    find("RACK-TLP (F-9.1.6-9), and the reason is Why(TIMER)", |e| {
        statistics(e).tail_probes += 1;
        statistics(e).retransmitted_timeout -= 1;
    });
    find("early (F-9.1.4-1), and the reason is Why(TIMER)", |e| {
        statistics(e).retransmitted_early += 1;
        statistics(e).retransmitted_timeout -= 1;
    });
    find("not sent before, and the reason is Why(TIMER)", |e| statistics(e).retransmitted_timeout -= 1);
    find("booked more than once", |e| statistics(e).tail_probes += 1);
    find("without a reason (F-9.1.5)", |e| e.connection.delivery.data_mut().tx.retransmit.set(0));
    find("events", |e| statistics(e).congestion_events += 3);
}
