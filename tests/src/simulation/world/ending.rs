//! What is checked of a world at each step apart from its cards, and at its end.

use transport_common::connection::State;
use transport_common::counters::Counter;

use fabric_model::Port;

use super::World;
use crate::simulation::faults::{FaultKind, Thread};
use crate::simulation::host::{Before, Host};
use crate::simulation::scenario::{End, Profile};
use crate::simulation::{attention, corruption, invariants};

impl World {
    /// Looks at what a step has told an application or the peer.
    pub(super) fn watch(&mut self, link: usize, side: usize, before: &Before) {
        if self.scenario.scribbler == Some(link) {
            return; // nobody knows what it wanted
        }
        let [first, second] = &mut self.flows[link];
        let (own, peers) = if side == 0 { (first, second) } else { (second, first) };
        let nic = &self.hosts[own.initiator.host].nic;
        let entry = nic.entry(own.initiator.slot);
        self.reached.note("timers_behind", before.was_behind(nic.time()));
        let ledger = &mut self.ledgers[link][side];
        let lost = ledger.look(nic.queue_pair(own.initiator.slot), entry, own, peers);
        self.reached.add_full_queue(&entry.connection, lost.len());
        self.reached.note("receives_blocked", attention::lacks_place(nic, own.initiator.slot));
        self.reached.add_lateness(entry);
        self.reached.note("send_queue_full", own.fills_send_queue(nic));
        own.lost_ends.extend(lost);
        if !own.is_cut() {
            let sender = self.hosts[own.target.host].nic.entry(own.target.slot);
            ledger.check_acknowledged(&before.pushes, (nic, entry), sender, peers);
        }
    }

    pub(super) fn verify(&self) {
        for flow in self.flows.iter().flatten() {
            flow.verify(&self.hosts[flow.initiator.host].nic, &self.hosts[flow.target.host].nic);
        }
        let strange = self.has(FaultKind::brings_strange_packets) || self.scenario.scribbler.is_some();
        for (index, host) in self.hosts.iter().enumerate() {
            let nic = &host.nic;
            assert_eq!(nic.cells_in_use(), 0, "F-11-1: receive cells are given back");
            let lost = |kind| matches!(kind, FaultKind::Partition { .. } | FaultKind::Stop { .. });
            if !strange && !self.has(lost) {
                let concurrent = self.hosts.iter().any(Host::interleaves);
                corruption::verify(nic, self.fabric.corruptions(Port(index as u16)), concurrent);
            }
            let none = |counter: Counter| {
                assert_eq!(nic.counter(counter), 0, "{}", counter.name());
            };
            none(Counter::PlatformFault);
            let lazy = |kind| {
                matches!(kind, FaultKind::Stall { thread: Thread::Completions, .. } | FaultKind::Hoard { .. })
            };
            if !self.has(lazy) && self.scenario.scribbler.is_none() {
                none(Counter::CompletionQueueFull);
            }
            if !strange {
                none(Counter::DropTunnel);
            }
            if !strange {
                [Counter::AckInvalid, Counter::DropFunction, Counter::DropSpi, Counter::DropReplay]
                    .into_iter()
                    .for_each(none);
                // The ends of an exhausting run are closed while packets are on their way.
                if self.scenario.profile != Profile::Exhausting {
                    none(Counter::DropUnknownCid);
                }
            }
        }
        if self.scenario.profile == Profile::Lossy {
            self.verify_idle();
        } else {
            self.verify_closed();
        }
    }

    /// Whether the scenario has a fault of a kind.
    fn has(&self, kind: impl Fn(FaultKind) -> bool) -> bool {
        self.scenario.faults.iter().any(|fault| kind(fault.kind))
    }

    /// Checks that links with two live ends hold no resources any more.
    pub(super) fn verify_idle(&self) {
        for (link, flows) in self.scenario.links.iter().zip(&self.flows) {
            if flows[0].is_cut() {
                continue;
            }
            let entries = link.ends.map(|end| self.hosts[end.host].nic.entry(end.slot));
            if entries.iter().all(|entry| entry.connection.state == State::Open) {
                entries.iter().for_each(|entry| invariants::check_idle(entry));
            } else {
                assert_eq!(
                    self.scenario.profile,
                    Profile::Exhausting,
                    "F-11-6: a connection died without a reason"
                );
            }
        }
    }

    fn verify_closed(&self) {
        for end in self.scenario.links.iter().flat_map(|link| link.ends) {
            let End { host, slot } = end;
            let state = self.hosts[host].nic.entry(slot).connection.state;
            assert!([State::Closed, State::Fatal].contains(&state), "state {state:?} after the close");
        }
    }
}
