//! The execution of a run: which event is next, and its effects.

use fabric_model::{Fabric, Port, Span, Time};
use host_nic::{HostConfig, HostNic};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::connection::{State, TRANSACTIONS};
use transport_common::counters::Counter;
use transport_common::datapath::Verdict;
use transport_common::packet_delivery::{Gate, TransmitWindow};
use transport_common::queues::Verb;
use transport_common::transaction::{RequestState, ResponseState};
use transport_common::units::{Fcwnd, Picoseconds};

use super::application::Flow;
use super::scenario::{End, Profile, Scenario, mac, node_config_of, scale};
use super::{congestion, corruption, invariants};

/// Virtual time by which everything must be complete, picoseconds: five minutes.
const LAST: Time = Time(300_000_000_000_000);
/// Number of card steps by which everything must be complete.
const MOST_STEPS: u64 = 1_000_000;

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

struct Host {
    nic: HostNic,
    /// The time of its clock when the fabric's clock shows 0.
    clock: u64,
    frame_time: Span,
    pause_nanos: u64,
    /// When the engine is free again.
    engine_free: Time,
    /// When the application runs again.
    application: Time,
    /// Connections by slot, with their link and side.
    ends: Vec<(usize, usize, usize)>,
    slots: Vec<usize>,
}

/// A running scenario.
pub struct World {
    scenario: Scenario,
    rng: StdRng,
    now: Time,
    fabric: Fabric,
    hosts: Vec<Host>,
    /// The flows by link and side of the initiator.
    flows: Vec<[Flow; 2]>,
    /// Counts the actions of the applications, to record their order.
    doings: u64,
    steps: u64,
}

/// The next event. The order of the variants breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
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
        let mut flows = Vec::new();
        for (number, link) in scenario.links.iter().enumerate() {
            for (end, parameters) in link.ends.iter().zip(&link.parameters) {
                assert_eq!(parameters.check(), Ok(()), "parameters of {end:?}");
                hosts[end.host].nic.open(end.slot, parameters);
            }
            let mut both = [0, 1].map(|side| Flow::new(number, link, side, scenario.profile));
            both.iter_mut().for_each(|flow| flow.prepare(&mut rng, &mut hosts[flow.target.host].nic));
            flows.push(both);
        }
        Self { scenario, rng, now: Time::ZERO, fabric, hosts, flows, doings: 0, steps: 0 }
    }

    /// Plays to the end and verifies the results.
    ///
    /// # Panics
    /// If a check fails.
    pub fn run(mut self, observer: &mut impl Observer) {
        while !self.is_done() {
            assert!(self.now < LAST && self.steps < MOST_STEPS, "no progress: {}", self.progress());
            self.step(observer);
        }
        self.settle(observer);
        if self.scenario.profile == Profile::Exhausting {
            self.verify_idle();
            self.close_all();
            self.settle(observer);
        }
        self.verify();
    }

    fn is_done(&self) -> bool {
        let done = |flow: &Flow| flow.is_done(&self.hosts[flow.initiator.host].nic);
        self.flows.iter().flatten().all(done)
    }

    fn progress(&self) -> String {
        let of = |flow: &Flow| format!("{} posted, {} arrived; ", flow.ops.len(), flow.arrivals.len());
        let flows: String = self.flows.iter().flatten().map(of).collect();
        format!("{flows}{:?} after {} steps", self.now, self.steps)
    }

    /// Plays all remaining events.
    fn settle(&mut self, observer: &mut impl Observer) {
        self.hosts.iter_mut().for_each(|host| host.application = Time(u64::MAX));
        while self.next_turn().is_some() {
            assert!(self.steps < MOST_STEPS, "no rest: {}", self.progress());
            self.step(observer);
        }
        (0..self.hosts.len()).for_each(|host| self.collect(host));
    }

    fn close_all(&mut self) {
        for host in &mut self.hosts {
            host.slots.iter().for_each(|slot| host.nic.close(*slot));
        }
    }

    fn next_turn(&self) -> Option<(Time, Turn)> {
        let arrival = self.fabric.next_event().map(|time| (time, Turn::Arrival));
        let engines = self
            .hosts
            .iter()
            .enumerate()
            .filter_map(|(n, host)| Some((host.engine(self.now)?, Turn::Engine(n))));
        let applications =
            self.hosts.iter().enumerate().map(|(n, host)| (host.application, Turn::Application(n)));
        let awake = applications.filter(|(time, _)| time.0 != u64::MAX);
        arrival.into_iter().chain(engines).chain(awake).min()
    }

    fn step(&mut self, observer: &mut impl Observer) {
        let (time, turn) = self.next_turn().expect("an application always looks again");
        self.now = self.now.max(time);
        self.steps += u64::from(!matches!(turn, Turn::Application(_)));
        match turn {
            Turn::Arrival => self.arrive(observer),
            Turn::Engine(host) => self.turn_engine(host, observer),
            Turn::Application(host) => self.wake_application(host),
        }
    }

    fn arrive(&mut self, observer: &mut impl Observer) {
        let Some(delivery) = self.fabric.poll(self.now) else { return };
        let index = delivery.port.0 as usize;
        let host = &mut self.hosts[index];
        host.set_time(self.now);
        observer.at_port(self.now, index, &delivery.frame);
        observer.before_receive(index, &host.nic, &host.slots, &delivery.frame);
        let before = host.sent();
        let (verdict, frame) = host.nic.receive(delivery.frame);
        self.after_step(index, &before, verdict, frame, observer);
    }

    fn turn_engine(&mut self, index: usize, observer: &mut impl Observer) {
        let host = &mut self.hosts[index];
        host.set_time(self.now);
        observer.before_engine(index, &host.nic, &host.slots);
        let before = host.sent();
        host.engine_free = self.now + host.frame_time;
        let (verdict, frame) = host.nic.engine_frame().unwrap_or((Verdict::Drop, Vec::new()));
        self.after_step(index, &before, verdict, frame, observer);
    }

    fn after_step(
        &mut self,
        index: usize,
        before: &[[TransmitWindow; 2]],
        verdict: Verdict,
        frame: Vec<u8>,
        observer: &mut impl Observer,
    ) {
        if verdict == Verdict::Transmit {
            observer.at_port(self.now, index, &frame);
            self.fabric.offer(self.now, Port(index as u16), frame);
        }
        self.hosts[index].check(before);
    }

    fn wake_application(&mut self, index: usize) {
        self.hosts[index].set_time(self.now);
        self.collect(index);
        let rng = &mut self.rng;
        let host = &mut self.hosts[index];
        for &(slot, link, side) in &host.ends {
            self.doings += 1;
            let [first, second] = &mut self.flows[link];
            let (own, peers) = if side == 0 { (first, second) } else { (second, first) };
            own.post(rng, &mut host.nic, self.doings);
            peers.post_receives(rng, &mut host.nic);
            if rng.random_bool(0.05) {
                // Windows may change at any time, with any placement.
                let congestion = &mut host.nic.entry_mut(slot).connection.congestion;
                congestion.fcwnd = Fcwnd(scale(rng, 100, 256 << 10) as u32);
                congestion.ncwnd = scale(rng, 1, 256) as u32;
                host.nic.ring(slot);
            }
            if rng.random_bool(0.02) {
                host.nic.set_congestion(slot, congestion::settings(rng));
            }
        }
        congestion::answer_events(&mut host.nic, rng);
        let pause = scale(rng, 500, host.pause_nanos);
        host.application = self.now + Span::from_nanos(pause);
    }

    /// Takes the completions of all connections of a host.
    fn collect(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        for &(slot, link, side) in &host.ends {
            while let Some(completion) = host.nic.poll_completion(slot) {
                self.doings += 1;
                match completion.opcode {
                    Verb::RECEIVE | Verb::RECEIVE_IMMEDIATE => {
                        self.flows[link][1 - side].arrivals.push(completion)
                    }
                    _ => self.flows[link][side].complete(completion, self.doings),
                }
            }
        }
    }

    fn verify(&self) {
        for flow in self.flows.iter().flatten() {
            flow.verify(&self.hosts[flow.initiator.host].nic, &self.hosts[flow.target.host].nic);
        }
        for (index, host) in self.hosts.iter().enumerate() {
            let nic = &host.nic;
            assert_eq!(nic.cells_in_use(), 0, "F-11-1: receive cells are given back");
            corruption::verify(nic, self.fabric.corruptions(Port(index as u16)));
            let never = [
                Counter::AckInvalid,
                Counter::DropFunction,
                Counter::DropSpi,
                Counter::DropReplay,
                Counter::DropUnknownCid,
                Counter::PlatformFault,
                Counter::CompletionQueueFull,
            ];
            for counter in never {
                let closed =
                    self.scenario.profile == Profile::Exhausting && counter == Counter::DropUnknownCid;
                assert!(closed || nic.counter(counter) == 0, "{}: {}", counter.name(), nic.counter(counter));
            }
        }
        if self.scenario.profile == Profile::Lossy {
            self.verify_idle();
        } else {
            self.verify_closed();
        }
    }

    /// Checks that links with two live ends hold no resources any more.
    fn verify_idle(&self) {
        for link in &self.scenario.links {
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

impl Host {
    fn new(scenario: &Scenario, host: usize) -> Self {
        let plan = scenario.hosts[host];
        let config = HostConfig::new(node_config_of(host));
        let nic = HostNic::new(HostConfig { cells: plan.cells, tail_room: plan.tail_room, ..config });
        let links = scenario.links.iter().enumerate();
        let all =
            links.flat_map(|(link, l)| l.ends.iter().enumerate().map(move |(side, end)| (*end, link, side)));
        let here = all.filter(|(end, ..)| end.host == host);
        let ends: Vec<_> = here.map(|(end, link, side)| (end.slot, link, side)).collect();
        Self {
            nic,
            clock: plan.clock,
            frame_time: Span::from_nanos(plan.frame_nanos),
            pause_nanos: plan.pause_nanos.max(500),
            engine_free: Time::ZERO,
            application: Time::ZERO,
            slots: ends.iter().map(|(slot, ..)| *slot).collect(),
            ends,
        }
    }

    fn set_time(&mut self, now: Time) {
        self.nic.set_time(Picoseconds(self.clock + now.0));
    }

    /// Returns when the engine runs next, by the fabric's clock.
    fn engine(&self, now: Time) -> Option<Time> {
        let due = Time(self.nic.next_event()?.0.saturating_sub(self.clock));
        Some(due.max(self.engine_free).max(now))
    }

    /// Returns the transmit windows of all connections.
    fn sent(&self) -> Vec<[TransmitWindow; 2]> {
        let connections = self.slots.iter().map(|slot| &self.nic.entry(*slot).connection);
        connections.map(|c| c.delivery.lanes.map(|lane| lane.tx)).collect()
    }

    /// Checks what holds after every step of a card.
    fn check(&mut self, before: &[[TransmitWindow; 2]]) {
        let mut held: Vec<u16> = Vec::new();
        for (slot, before) in self.slots.clone().into_iter().zip(before) {
            let entry = self.nic.entry(slot);
            invariants::check(entry);
            for (old, lane) in before.iter().zip(&entry.connection.delivery.lanes) {
                check_gate(old, &lane.tx, entry.connection.congestion.gate());
            }
            let in_cells = |s| s == RequestState::Held || s == RequestState::Rnr;
            held.extend(entry.tables.requests.iter().filter(|r| in_cells(r.state)).map(|r| r.cell));
            self.check_attended(slot);
        }
        held.sort_unstable();
        assert!(held.windows(2).all(|pair| pair[0] != pair[1]), "a receive cell holds two requests");
        assert_eq!(self.nic.cells_in_use(), held.len(), "receive cells in use and held");
    }

    /// Checks that a connection with possible work has rung the doorbell, and that one that waits for a time is
    /// in the wheel.
    fn check_attended(&mut self, slot: usize) {
        if self.nic.doorbells().ready[slot / 64] >> (slot % 64) & 1 != 0 {
            return;
        }
        let entry = self.nic.entry(slot);
        let c = &entry.connection;
        if c.state != State::Open {
            return;
        }
        assert_eq!(c.delivery.ack.pending, 0, "an ACK is due and nobody sends it (F-9.1.6-2)");
        if c.congestion.pacing.is_armed() {
            return; // the waiting packet may wait for its departure time
        }
        let response = &entry.tables.responses[c.target.response_next as usize % 128];
        let waits =
            c.target.response_next != c.target.response_tail && response.state == ResponseState::Ready;
        let (request, data) = (&c.delivery.request().tx, &c.delivery.data().tx);
        let gate = data.may_send_response(c.congestion.gate());
        let behind = !data.retransmit.and(data.pull_data).is_zero();
        assert!(!waits || !gate || behind, "a response could leave and nobody sends it (F-8.3-2)");
        let next = entry.tables.requests[c.target.nrsn.0 as usize % TRANSACTIONS];
        let room = c.target.response_tail.wrapping_sub(c.target.response_head) < 128;
        let deliverable = c.target.ordered != 0
            && next.state == RequestState::Held
            && next.rsn == c.target.nrsn
            && (room || !next.is_pull());
        assert!(!deliverable, "a held request could be delivered and nobody does (F-8.5.1-2)");
        assert!(c.target.rnr_due.is_zero(), "RNR time is over and nobody redelivers (D-43)");
        for (window, other) in [(request, data), (data, request)] {
            // A packet of the other window may be before it and wait for its own gate (F-9.1.5-3).
            let base = window.retransmit.get(0)
                && window.outstanding_retransmitted == 0
                && other.retransmit.is_zero();
            assert!(!base, "the base packet waits for retransmission and nobody sends it (D-29)");
        }
        let running = invariants::deadlines(c).iter().any(|deadline| deadline.is_armed());
        assert!(
            !running || c.service.filed.is_armed() && self.nic.wheel().is_filed(slot as u32),
            "a timer nobody turns"
        );
    }
}

/// Checks that first transmissions of the last step obeyed the gate (F-9.1.2-1..3).
fn check_gate(old: &TransmitWindow, new: &TransmitWindow, Gate { fabric, ncwnd }: Gate) {
    if new.next == old.next {
        return;
    }
    assert!(
        new.in_flight() <= fabric.min(new.size),
        "F-9.1.2-1: {} in flight, fcwnd {fabric}",
        new.in_flight()
    );
    if new.outstanding_requests > old.outstanding_requests {
        let outstanding = u32::from(new.outstanding_requests);
        assert!(outstanding <= ncwnd, "F-9.1.2-3: {outstanding} outstanding, ncwnd {ncwnd}");
    }
}
