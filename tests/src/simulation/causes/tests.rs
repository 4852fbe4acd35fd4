//! Each rule of the account, and a change that breaks nothing but it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use host_nic::{HostConfig, HostNic, testbed};
use transport_common::counters::Counter;
use transport_common::datapath::Verdict;
use transport_common::queues::{AccessFlags, Region, Verb, WorkFlags, WorkRequest};
use transport_common::units::Picoseconds;

use super::*;

const SLOT: usize = 5;
/// The retransmission timeout has passed after so long.
const LATER: Picoseconds = Picoseconds((1 << 40) + (1 << 36));

/// Returns the initiator of two WRITEs that were sent, its account, and the frames.
fn initiator(placement: Placement) -> (HostNic, Causes, Vec<Vec<u8>>) {
    let mut nic = HostNic::new(HostConfig::new(testbed::node(0)));
    nic.set_time(Picoseconds(1 << 40));
    let mut parameters = testbed::connection(0, SLOT);
    parameters.settings.placement = placement as u32;
    nic.open(SLOT, &parameters);
    nic.register(Region {
        offset: 8192,
        length: 4096,
        key: 1,
        access: AccessFlags::REMOTE_WRITE,
        ..Region::default()
    });
    for _ in 0..2 {
        let flags = WorkFlags::SIGNALED;
        let work = WorkRequest { opcode: Verb::WRITE, flags, length: 64, rkey: 1, ..WorkRequest::default() };
        nic.post(SLOT, work).expect("the queue is empty");
    }
    let frames = core::iter::from_fn(|| nic.engine_frame()).map(|(_, frame)| frame).collect();
    let causes = Causes::of(nic.entry(SLOT));
    (nic, causes, frames)
}

/// Returns the acknowledgement of the target of these frames.
fn acknowledgement(frames: Vec<Vec<u8>>) -> Vec<u8> {
    let mut target = HostNic::new(HostConfig::new(testbed::node(1)));
    target.set_time(Picoseconds((1 << 40) + (1 << 24)));
    target.open(SLOT, &testbed::connection(1, SLOT));
    target.register(Region {
        offset: 8192,
        length: 4096,
        key: 1,
        access: AccessFlags::REMOTE_WRITE,
        ..Region::default()
    });
    let replies = frames.into_iter().map(|frame| target.receive(frame)).collect::<Vec<_>>();
    let mut sent = replies.into_iter().filter(|(verdict, _)| *verdict == Verdict::Transmit);
    sent.next().expect("the last WRITE asks for an acknowledgement").1
}

/// Returns what a check says when it fails, and nothing if it does not.
fn text_of(check: impl FnOnce()) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(check)) else { return String::new() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).expect("a text")
}

/// Lets the acknowledgement of both WRITEs arrive `times` times, changes the connection after the last one, and returns
/// what the account says.
fn said_of_acknowledgement(times: usize, change: impl FnOnce(&mut Snapshot)) -> String {
    let (mut nic, mut causes, frames) = initiator(Placement::Kernel);
    let frame = acknowledgement(frames);
    let arrived = Arrived::of(&frame);
    let mut look = |nic: &HostNic| {
        causes.look(nic.entry(SLOT), arrived.as_ref(), Placement::Kernel as u32, nic.time());
    };
    for _ in 1..times {
        nic.receive(frame.clone());
        look(&nic);
    }
    nic.receive(frame.clone());
    change(nic.entry_mut(SLOT));
    text_of(|| look(&nic))
}

/// Lets the timers run and the engine send what they queue, changes the connection, and returns what the account says.
fn said(change: impl FnOnce(&mut Snapshot)) -> String {
    let (mut nic, mut causes, _) = initiator(Placement::Kernel);
    nic.set_time(LATER);
    // The engine looks at the wheel now and then.
    let sent = |nic: &HostNic| nic.entry(SLOT).tables.statistics.retransmitted_timeout;
    while sent(&nic) == 0 {
        nic.engine_frame();
    }
    change(nic.entry_mut(SLOT));
    let placement = nic.entry(SLOT).settings.in_force.placement;
    text_of(|| {
        causes.look(nic.entry(SLOT), None, placement, nic.time());
    })
}

#[test]
fn an_acknowledgement_must_be_told_once() {
    assert_eq!(said_of_acknowledgement(1, |_| {}), "");
    assert_eq!(said_of_acknowledgement(2, |_| {}), "", "the second one measures nothing new");
    let find = |times, clause: &str, change: fn(&mut Statistics)| {
        let said = said_of_acknowledgement(times, |entry| change(&mut entry.tables.statistics));
        assert!(said.contains(clause), "{clause}: {said}");
    };
    find(1, "does not learn of an acknowledgement", |s| s.congestion_events -= 1);
    find(1, "one step raises 2 events", |s| s.congestion_events += 1);
    find(2, "measures anything (F-10.1-3)", |s| s.congestion_events += 1);
    find(1, "neither stale nor invalid", |s| s.acks_received -= 1);
    find(1, "neither stale nor invalid", |s| s.refused.spi += 1);
}

/// The queues of the card have no place, so it refuses the event.
#[test]
fn an_event_for_user_space_that_is_in_no_queue_was_refused() {
    let (mut nic, mut causes, frames) = initiator(Placement::User);
    let frame = acknowledgement(frames);
    let arrived = Arrived::of(&frame);
    nic.receive(frame);
    let news = causes.look(nic.entry(SLOT), arrived.as_ref(), Placement::User as u32, nic.time());
    assert_eq!(news, News { told: None, untold: [1, 1] });
    assert_eq!(nic.counter(Counter::EventRefusedFull), 1);
}

#[test]
fn a_timeout_is_explained() {
    assert_eq!(said(|_| {}), "");
}

#[test]
fn every_rule_is_checked() {
    let find = |clause: &str, change: fn(&mut Snapshot)| {
        let said = said(change);
        assert!(said.contains(clause), "{clause}: {said}");
    };
    fn statistics(entry: &mut Snapshot) -> &mut Statistics {
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
    find("without a reason (F-9.1.5)", |e| e.connection.flow.delivery.data_mut().tx.retransmit.set(0));
    find("events", |e| statistics(e).congestion_events += 3);
}
