//! What the faults of a scenario do to its world.

use fabric_model::Span;
use host_nic::HostNic;
use rand::Rng;
use transport_common::connection::{Snapshot, State, Statistics};
use transport_common::counters::Counter;
use transport_common::datapath::Verdict;

use super::{AFTER_A_STOP, Observer, World};
use crate::simulation::application::Flow;
use crate::simulation::congestion;
use crate::simulation::faults::{Fault, FaultKind};
use crate::simulation::hostile::Forgery;
use crate::simulation::late::LateAcknowledgements;
use crate::simulation::scenario::End;

impl World {
    /// Carries out the next fault.
    pub(super) fn fail(&mut self, observer: &mut impl Observer) {
        let fault = self.faults.pop_front().expect("it was next");
        self.note(|| fault.to_string());
        match fault.kind {
            FaultKind::Pause { host, length } => self.hosts[host].pause(self.now + length),
            FaultKind::Stop { host, length, receives } => self.stop(host, length, receives),
            FaultKind::Partition { hosts, length } => self.partitions.push((hosts, self.now + length)),
            FaultKind::Late { host, lateness, length } => {
                self.late.push(LateAcknowledgements::new(host, lateness, self.now + length));
            }
            FaultKind::ClockStep { host, by } => self.hosts[host].step_clock(by),
            FaultKind::Hostile { host, frames, forgery } => {
                (0..frames).for_each(|_| self.attack(host, forgery, observer));
            }
            FaultKind::Silence { host, length } => self.hosts[host].silence(self.now + length),
            FaultKind::Stall { host, thread, length } => self.hosts[host].stall(thread, self.now + length),
            FaultKind::Hoard { host, full, length, closes } => {
                self.hosts[host].hoard(full, self.now + length, closes);
            }
            FaultKind::Shortage { host, left, length } => {
                self.hosts[host].withhold_cells(left);
                let relief = Fault { at: self.now + length, kind: FaultKind::Relief { host } };
                let place = self.faults.partition_point(|fault| fault.at <= relief.at);
                self.faults.insert(place, relief);
            }
            FaultKind::Relief { host } => self.hosts[host].return_cells(),
            FaultKind::Reopen { link, amid_run: true } => self.lurking.push(link),
            FaultKind::Reopen { link, amid_run: false } => {
                self.close_link(link);
            }
            FaultKind::Restart { host } => self.restart(host),
        }
    }

    /// Stops the node of a host. Remembers what is posted until then, see [`Self::check_stopped`].
    fn stop(&mut self, host: usize, length: Span, receives: bool) {
        let until = self.now + length;
        self.hosts[host].stop(until, receives);
        self.hosts.iter_mut().for_each(|host| host.silence(until));
        let posted = self.flows.iter().map(|flows| [flows[0].ops.len(), flows[1].ops.len()]).collect();
        self.stopped.push((until + AFTER_A_STOP, posted));
    }

    /// Checks that what was posted before a node was stopped has ended, some time after it went on. All transaction
    /// timeouts are below half a second.
    pub(super) fn check_stopped(&mut self) {
        let now = self.now;
        let Some(place) = self.stopped.iter().position(|(by, _)| *by <= now) else { return };
        let (_, posted) = self.stopped.swap_remove(place);
        for (flow, posted) in self.flows.as_flattened().iter().zip(posted.as_flattened()) {
            let entry = self.hosts[flow.initiator.host].nic.entry(flow.initiator.slot);
            let ended = entry.connection.initiator.brsn.distance_from(flow.first) as usize;
            assert!(
                flow.is_cut() || ended >= *posted,
                "{ended} of {posted} operations have ended long after a node went on"
            );
        }
    }

    /// Closes the links of a host that wait for a run with a packet in hand. Such runs stop until a link is open again.
    pub(super) fn close_amid_run(&mut self, index: usize) {
        for link in core::mem::take(&mut self.lurking) {
            let ends = self.scenario.links.get(link).map(|link| link.ends);
            if ends.is_some_and(|ends| ends.iter().all(|end| end.host != index)) {
                self.lurking.push(link);
            } else if self.close_link(link) {
                self.note(|| format!("link {link} is closed in the middle of a run"));
                self.hosts[index].hold();
            }
        }
    }

    /// Closes both ends of a link. [`Self::reopen`] opens it again. Returns false if it does not exist any more.
    pub(super) fn close_link(&mut self, mut link: usize) -> bool {
        while let Some(successor) = self.successors.get(&link) {
            link = *successor;
        }
        // A link may have been shrunk away, or its host may have restarted.
        if self.flows.get(link).is_none_or(|flows| flows[0].is_cut()) {
            return false;
        }
        for end in self.scenario.links[link].ends {
            self.hosts[end.host].nic.close(end.slot);
        }
        self.flows[link].iter_mut().for_each(Flow::lose_target);
        self.closing.push(link);
        true
    }

    /// Opens the links again that are closed by now.
    pub(super) fn reopen(&mut self) {
        for link in core::mem::take(&mut self.closing) {
            let ends = self.scenario.links[link].ends;
            let state = |end: &End| self.hosts[end.host].nic.entry(end.slot).connection.state;
            if self.flows[link][0].is_forgotten() || self.flows[link][1].is_forgotten() {
                ends.iter().for_each(|end| self.hosts[end.host].release(self.now));
                continue; // its host restarted meanwhile, and has opened it again
            }
            if ends.iter().any(|end| state(end) != State::Closed) {
                self.closing.push(link);
                continue;
            }
            for end in ends {
                // What is not taken now is lost with the queues.
                self.collect(end.host);
                let host = &mut self.hosts[end.host];
                self.reached.add_connection(&host.nic.entry(end.slot).tables.statistics);
                host.ends.retain(|(_, of, _)| *of != link);
                host.slots.retain(|slot| *slot != end.slot);
            }
            self.flows[link].iter_mut().for_each(Flow::retire);
            let again = self.scenario.links[link].reopened(&mut self.rng, self.scenario.profile);
            self.scenario.links.push(again);
            self.note(|| format!("link {link} is open again"));
            let new = self.scenario.links.len() - 1;
            self.open(new);
            self.successors.insert(link, new);
            ends.iter().for_each(|end| self.hosts[end.host].release(self.now));
        }
    }

    /// Delivers a hostile frame to a host. It must change nothing, and be counted.
    fn attack(&mut self, index: usize, forgery: Forgery, observer: &mut impl Observer) {
        let known: Vec<&Vec<u8>> =
            self.seen.iter().filter(|(to, _)| *to == index).map(|(_, frame)| frame).collect();
        if known.is_empty() {
            return;
        }
        let frame = forgery.forge(known[self.attacker.random_range(0..known.len())], &mut self.attacker);
        if !forgery.is_without_effect() {
            self.receive(index, frame, observer);
            return;
        }
        let host = &mut self.hosts[index];
        host.set_time(self.now);
        // Statistics count the refusal.
        let entries = |nic: &HostNic| -> Vec<Box<Snapshot>> {
            let without_statistics = |slot: &usize| {
                let mut entry = Box::new(*nic.entry(*slot));
                entry.tables.statistics = Statistics::default();
                entry
            };
            host.slots.iter().map(without_statistics).collect()
        };
        let (before, counted) = (entries(&host.nic), refusals(&host.nic));
        let (verdict, _) = host.nic.receive(frame);
        let after = entries(&host.nic);
        host.note_refusals();
        for (after, before) in after.iter().zip(&before) {
            let [after, before] = [after, before].map(|entry| bytemuck::bytes_of(&**entry));
            if after != before {
                let changed = after.iter().zip(before).position(|(after, before)| after != before);
                panic!(
                    "a hostile frame ({forgery:?}) changed a connection at byte {changed:?} of its entry (D-23)"
                );
            }
        }
        // A packet for a CID that is not there is answered, and counted as that.
        assert!(
            verdict == Verdict::Transmit || refusals(&host.nic) > counted,
            "a hostile frame ({forgery:?}) was dropped without a counter"
        );
    }

    /// Restarts a host. Its links are cut, and opened again as new ones.
    fn restart(&mut self, index: usize) {
        let plan = self.scenario.hosts[index];
        let ends = core::mem::take(&mut self.hosts[index].ends);
        self.hosts[index].add_to(&mut self.reached);
        self.hosts[index].restart(&plan, index, self.now);
        congestion::open_queues(&mut self.hosts[index].nic, &mut self.rng);
        for (_, number, side) in ends {
            let is_replaced = self.flows[number][1 - side].is_forgotten();
            self.flows[number][side].lose_initiator();
            self.flows[number][1 - side].lose_target();
            if is_replaced {
                continue; // its other end restarted before, and opened it again
            }
            let new = self.scenario.links.len();
            let (profile, corrupts) = (self.scenario.profile, true);
            let link = self.scenario.links[number].again(&mut self.rng, new, side, profile, corrupts);
            self.scenario.links.push(link);
            self.open(new);
        }
    }
}

/// Returns the number of frames that a card has refused or passed on.
fn refusals(nic: &HostNic) -> u64 {
    let refusal =
        |counter: &&Counter| counter.name().starts_with("drop_") || counter.name().starts_with("pass_");
    Counter::ALL.iter().filter(refusal).map(|counter| nic.counter(*counter)).sum()
}
