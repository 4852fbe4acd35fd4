//! The execution of a run: which event is next, and its effects.

mod ending;
mod failing;
mod reached;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use fabric_model::{Fabric, Port, Span, Time};
use host_nic::{FrameAtHand, HostNic};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::datapath::Verdict;
use transport_common::queues::Verb;
use transport_common::units::Fcwnd;

use super::application::{self, Flow};
use super::causes::Arrived;
use super::congestion;
use super::cpus::Task;
use super::draw::{scale, settings};
use super::faults::{Fault, Thread};
use super::host::{Before, Host};
use super::late::LateAcknowledgements;
use super::ledger::Ledger;
use super::scenario::{Profile, Scenario, mac};
use super::scribbler;
use super::trace::{Trace, summary};

pub use reached::Reached;

/// Virtual time by which everything must be complete, picoseconds: five minutes.
const LAST: Time = Time(300_000_000_000_000);
/// Time after a node that was stopped goes on, by which what was posted before must have ended: far more than transaction
/// timeouts, far less than the wrap of times.
const AFTER_A_STOP: Span = Span(30_000_000_000_000);
/// Number of card steps by which everything must be complete.
const MOST_STEPS: u64 = 10_000_000;

/// Number of frames that an attacker remembers.
const SEEN: usize = 64;

/// Observes a card before each of its steps.
pub trait Observer {
    /// A frame is about to be received.
    fn before_receive(&mut self, _host: usize, _nic: &HostNic, _slots: &[usize], _frame: &[u8]) {}
    /// The engine is about to run.
    fn before_engine(&mut self, _host: usize, _nic: &HostNic, _slots: &[usize]) {}
    /// A frame is at a host's port: received from the fabric, or sent into it.
    fn at_port(&mut self, _now: Time, _host: usize, _frame: &[u8]) {}
}

/// Observes nothing.
impl Observer for () {}

/// A running scenario.
pub struct World {
    scenario: Scenario,
    rng: StdRng,
    now: Time,
    fabric: Fabric,
    hosts: Vec<Host>,
    /// The flows by link and side of the initiator.
    flows: Vec<[Flow; 2]>,
    /// What was told to the applications, by link and side.
    ledgers: Vec<[Ledger; 2]>,
    /// Draws what hostile frames contain.
    attacker: StdRng,
    /// Draws where runs on several CPUs stop.
    interleaving: StdRng,
    /// The faults that are still to come.
    faults: VecDeque<Fault>,
    /// Pairs of hosts between which no frame passes, and until when.
    partitions: Vec<([usize; 2], Time)>,
    late: Vec<LateAcknowledgements>,
    /// Nodes that were stopped: by when what was posted before must have ended, and the number of operations, by link and
    /// side.
    stopped: Vec<(Time, Vec<[usize; 2]>)>,
    /// Links that will be closed as soon as a run at one of their hosts is between its step and its packet.
    lurking: Vec<usize>,
    /// Links that are being closed, to be opened again.
    closing: Vec<usize>,
    /// The link that took the place of each link that was opened again.
    successors: BTreeMap<usize, usize>,
    /// Frames that an attacker has seen, with the host that they went to.
    seen: VecDeque<(usize, Vec<u8>)>,
    /// A flow that was not done when that was last asked, which is before every step.
    undone: usize,
    /// Counts the actions of the applications, to record their order.
    doings: u64,
    steps: u64,
    /// What happened on cards and connections that are no more.
    reached: Reached,
    trace: Option<Trace>,
}

/// The next event. The order of the variants breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Fault,
    Resume(usize),
    GoOn(usize),
    Arrival,
    Engine(usize),
    Application(usize),
}

impl World {
    /// Creates the initial state of a scenario: connections are open, and no operation is posted.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let mut rng = StdRng::seed_from_u64(scenario.seed ^ 0x5eed);
        let mut fabric =
            Fabric::new(scenario.hosts.len() as u16, scenario.fabric.clone()).expect("the ports exist");
        // Frames are not flooded: a card receives only frames for its own address.
        (0..scenario.hosts.len()).for_each(|host| fabric.learn(mac(host), Port(host as u16)));
        let mut hosts: Vec<Host> = (0..scenario.hosts.len()).map(|host| Host::new(&scenario, host)).collect();
        hosts.iter_mut().for_each(|host| congestion::open_queues(&mut host.nic, &mut rng));
        let faults = scenario.faults.iter().copied().collect();
        let interleaving = StdRng::seed_from_u64(scenario.seed ^ 0xc0_c0);
        let attacker = StdRng::seed_from_u64(scenario.seed ^ 0xa77ac);
        let mut this = Self {
            scenario,
            rng,
            attacker,
            interleaving,
            now: Time::ZERO,
            fabric,
            hosts,
            flows: vec![],
            ledgers: vec![],
            faults,
            partitions: vec![],
            late: vec![],
            stopped: vec![],
            lurking: vec![],
            closing: vec![],
            successors: BTreeMap::new(),
            seen: VecDeque::new(),
            undone: 0,
            doings: 0,
            steps: 0,
            reached: Reached::default(),
            trace: None,
        };
        (0..this.scenario.links.len()).for_each(|number| this.open(number));
        this
    }

    /// Opens both ends of a link.
    fn open(&mut self, number: usize) {
        let link = &self.scenario.links[number];
        let places = link.ends.map(|end| self.hosts[end.host].take_place());
        for (side, (end, parameters)) in link.ends.iter().zip(&link.parameters).enumerate() {
            let mut parameters = *parameters;
            parameters.config.domain = application::domain(places[side]);
            assert_eq!(parameters.check(), Ok(()), "parameters of {end:?}");
            let host = &mut self.hosts[end.host];
            host.nic.open(end.slot, &parameters);
            host.ends.push((end.slot, number, side));
            host.slots.push(end.slot);
            host.begin_account(end.slot);
        }
        let mut both = [0, 1].map(|side| Flow::new(places, link, side, self.scenario.profile));
        both.iter_mut().for_each(|flow| flow.prepare(&mut self.rng, &mut self.hosts[flow.target.host].nic));
        if self.scenario.scribbler == Some(number) {
            both[0].scribble(true);
            both[1].scribble(false);
            let end = self.scenario.links[number].ends[0];
            self.hosts[end.host].scribbled = Some(end.slot);
        }
        self.flows.push(both);
        self.ledgers.push(<[Ledger; 2]>::default());
    }

    /// Remembers the last events, for [`Self::trace`].
    pub fn keep_trace(&mut self) {
        self.trace = Some(Trace::default());
    }

    /// Returns the last events, if they are kept.
    #[must_use]
    pub const fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// Returns the number of steps of cards so far, and the virtual time.
    #[must_use]
    pub const fn progress_made(&self) -> (u64, Time) {
        (self.steps, self.now)
    }

    /// Returns what has happened so far.
    #[must_use]
    pub fn reached(&self) -> Reached {
        let mut reached = self.reached.clone();
        self.hosts.iter().for_each(|host| host.add_to(&mut reached));
        reached
    }

    /// Plays to the end and verifies the results.
    ///
    /// # Panics
    /// If a check fails.
    pub fn run(&mut self, observer: &mut impl Observer) {
        let last = LAST + self.scenario.stops();
        while !self.is_done() {
            assert!(self.now < last && self.steps < MOST_STEPS, "no progress: {}", self.progress());
            self.step(observer);
        }
        self.end_scribbler();
        self.settle(observer);
        if self.scenario.profile == Profile::Exhausting {
            self.verify_idle();
            self.close_all();
            self.settle(observer);
        }
        self.verify();
    }

    fn is_done(&mut self) -> bool {
        let done = |flow: &Flow| flow.is_done(&self.hosts[flow.initiator.host].nic);
        let flows = self.flows.as_flattened();
        if flows.get(self.undone).is_some_and(|flow| !done(flow)) {
            return false;
        }
        let undone = flows.iter().position(|flow| !done(flow));
        self.undone = undone.unwrap_or_default();
        undone.is_none()
    }

    fn progress(&self) -> String {
        let of = |flow: &Flow| format!("{} posted, {} arrived; ", flow.ops.len(), flow.arrivals.len());
        let flows: String = self.flows.iter().flatten().map(of).collect();
        format!("{flows}{:?} after {} steps", self.now, self.steps)
    }

    /// Plays all remaining events.
    fn settle(&mut self, observer: &mut impl Observer) {
        // Nobody opens a link any more.
        self.lurking.clear();
        for host in &mut self.hosts {
            host.application = Time(u64::MAX);
            host.release(self.now);
        }
        for flow in self.flows.iter().flatten() {
            flow.be_ready(&mut self.hosts[flow.target.host].nic);
        }
        while self.next_turn().is_some() {
            assert!(self.steps < MOST_STEPS, "no rest: {}", self.progress());
            self.step(observer);
        }
        (0..self.hosts.len()).for_each(|host| self.collect(host));
    }

    /// Closes the connection of the application that scribbles, as its node does when it ends.
    fn end_scribbler(&mut self) {
        for end in self.scenario.scribbler.into_iter().flat_map(|link| self.scenario.links[link].ends) {
            self.hosts[end.host].nic.close(end.slot);
        }
    }

    fn close_all(&mut self) {
        for host in &mut self.hosts {
            host.slots.iter().for_each(|slot| host.nic.close(*slot));
        }
    }

    fn next_turn(&self) -> Option<(Time, Turn)> {
        let mut next = (Time(u64::MAX), Turn::Arrival);
        let mut offer = |time: Option<Time>, turn: Turn| {
            if let Some(time) = time
                && (time < next.0 || time == next.0 && turn < next.1)
            {
                next = (time, turn);
            }
        };
        offer(self.fabric.next_event(), Turn::Arrival);
        offer(self.faults.front().map(|fault| fault.at), Turn::Fault);
        for (number, host) in self.hosts.iter().enumerate() {
            offer(host.engine(self.now), Turn::Engine(number));
            offer(Some(host.application), Turn::Application(number));
            offer(host.resumes(), Turn::Resume(number));
            offer(host.goes_on(), Turn::GoOn(number));
        }
        // An application that looks no more has no next time.
        (next.0.0 != u64::MAX).then_some(next)
    }

    fn step(&mut self, observer: &mut impl Observer) {
        let (time, turn) = self.next_turn().expect("an application always looks again");
        self.now = self.now.max(time);
        self.check_stopped();
        self.steps += u64::from(!matches!(turn, Turn::Application(_)));
        match turn {
            Turn::Fault => self.fail(observer),
            Turn::Resume(host) => {
                let frame = self.hosts[host].waiting.pop_front().expect("a frame waits");
                self.receive(host, frame, observer);
            }
            Turn::GoOn(host) => self.go_on(host, observer),
            Turn::Arrival => self.arrive(observer),
            Turn::Engine(host) => self.turn_engine(host, observer),
            Turn::Application(host) => self.wake_application(host),
        }
    }

    fn arrive(&mut self, observer: &mut impl Observer) {
        let Some(delivery) = self.fabric.poll(self.now) else { return };
        let index = delivery.port.0 as usize;
        let host = &mut self.hosts[index];
        if host.is_deaf(self.now) {
            self.note(|| format!("    lost at host {index}, which is stopped"));
            return;
        }
        if host.is_busy(self.now) {
            host.waiting.push_back(delivery.frame);
        } else {
            self.receive(index, delivery.frame, observer);
        }
    }

    fn receive(&mut self, index: usize, frame: Vec<u8>, observer: &mut impl Observer) {
        self.note(|| format!("host {index} receives {}", summary(&frame)));
        let host = &mut self.hosts[index];
        host.set_time(self.now);
        observer.at_port(self.now, index, &frame);
        if host.interleaves() {
            let limit = host.nic.frame_limit(&frame);
            host.begin(Task::Receive, FrameAtHand { bytes: frame, limit, arrival: None }, self.now);
            return;
        }
        observer.before_receive(index, &host.nic, &host.slots, &frame);
        let before = host.snapshot();
        host.arrived = Arrived::of(&frame);
        let (verdict, frame) = host.nic.receive(frame);
        self.after_step(index, &before, verdict, frame, observer);
    }

    fn turn_engine(&mut self, index: usize, observer: &mut impl Observer) {
        let host = &mut self.hosts[index];
        host.set_time(self.now);
        if host.interleaves() {
            host.engine_free = self.now + host.frame_time;
            host.begin_service(self.now);
            return;
        }
        observer.before_engine(index, &host.nic, &host.slots);
        let before = host.snapshot();
        host.engine_free = self.now + host.frame_time;
        let (verdict, frame) = host.nic.engine_frame().unwrap_or((Verdict::Drop, Vec::new()));
        self.after_step(index, &before, verdict, frame, observer);
    }

    /// Lets the next run of a host go on.
    fn go_on(&mut self, index: usize, observer: &mut impl Observer) {
        let host = &mut self.hosts[index];
        host.set_time(self.now);
        let before = host.snapshot();
        let over = host.go_on(self.now, &mut self.interleaving);
        let (verdict, frame) = match over {
            Some((task, verdict, frame)) => {
                self.note(|| format!("host {index} ends {task:?}: {verdict:?}"));
                (verdict, frame)
            }
            None => (Verdict::Drop, vec![]),
        };
        self.after_step(index, &before, verdict, frame, observer);
        if !self.lurking.is_empty() && self.hosts[index].has_packet_in_hand() {
            self.close_amid_run(index);
        }
    }

    fn after_step(
        &mut self,
        index: usize,
        before: &[Before],
        verdict: Verdict,
        frame: Vec<u8>,
        observer: &mut impl Observer,
    ) {
        if verdict == Verdict::Transmit {
            observer.at_port(self.now, index, &frame);
            self.send(index, frame);
        }
        let locked = self.hosts[index].check(before);
        for (number, before) in before.iter().enumerate() {
            let (slot, link, side) = self.hosts[index].ends[number];
            if locked.contains(&slot) {
                self.watch(link, side, before);
            }
        }
    }

    fn send(&mut self, from: usize, mut frame: Vec<u8>) {
        let to = usize::from(frame[5]) - 1;
        self.late.retain(|late| self.now < late.until);
        for late in self.late.iter_mut().filter(|late| late.host == from) {
            let is_late = late.hold_back(&mut frame);
            self.reached.note(late.lateness.name(), is_late);
        }
        self.note(|| format!("host {from} sends {}", summary(&frame)));
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back((to, frame.clone()));
        self.partitions.retain(|(_, until)| self.now < *until);
        if self.partitions.iter().any(|(hosts, _)| hosts.contains(&from) && hosts.contains(&to)) {
            self.note(|| "    lost in the partition".to_owned());
            return;
        }
        self.fabric.offer(self.now, Port(from as u16), frame);
    }

    fn note(&mut self, event: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.note(self.now, event());
        }
    }

    fn wake_application(&mut self, index: usize) {
        self.hosts[index].set_time(self.now);
        if let Some(link) = self.hosts[index].look_at_hoard(self.now) {
            self.close_link(link);
        }
        if self.hosts[index].runs(Thread::Completions, self.now) {
            self.collect(index);
        }
        let rng = &mut self.rng;
        let host = &mut self.hosts[index];
        for (slot, link, side) in host.ends.clone() {
            self.doings += 1;
            let [first, second] = &mut self.flows[link];
            let (own, peers) = if side == 0 { (first, second) } else { (second, first) };
            if host.scribbled == Some(slot) {
                scribbler::scribble(host, slot, own.places[1], &mut self.attacker);
                continue;
            }
            own.post(rng, &mut host.nic, self.doings);
            if host.runs(Thread::Receives, self.now) {
                peers.attend(rng, &mut host.nic);
            }
            if rng.random_bool(0.05) {
                // Windows may change at any time, with any placement.
                let congestion = &mut host.nic.entry_mut(slot).connection.flow.congestion;
                congestion.fcwnd = Fcwnd(scale(rng, 100, 256 << 10) as u32);
                congestion.ncwnd = scale(rng, 1, 256) as u32;
                host.nic.ring(slot);
            }
            if rng.random_bool(0.02) {
                host.nic.set_congestion(slot, settings(rng));
            }
        }
        congestion::answer_events(host, rng);
        let pause = scale(rng, 500, host.pause_nanos);
        host.application = self.now + Span::from_nanos(pause);
        self.reopen();
    }

    /// Takes the completions of all connections of a host.
    fn collect(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        for &(slot, link, side) in &host.ends {
            if host.scribbled == Some(slot) {
                continue;
            }
            while let Some(mut completion) = host.nic.poll_completion(slot) {
                // The oracle knows operations, not slots.
                let named = core::mem::take(&mut completion.queue_pair);
                assert_eq!(named, host.nic.entry(slot).connection.flow.endpoint.local_cid, "{completion:?}");
                self.doings += 1;
                match completion.opcode {
                    // It may be of anything.
                    Verb::RECEIVE | Verb::RECEIVE_IMMEDIATE if self.scenario.scribbler == Some(link) => {}
                    Verb::RECEIVE | Verb::RECEIVE_IMMEDIATE => {
                        self.flows[link][1 - side].arrivals.push(completion)
                    }
                    _ => self.flows[link][side].complete(completion, self.doings),
                }
            }
        }
    }
}
