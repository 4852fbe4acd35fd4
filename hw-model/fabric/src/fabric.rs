//! The switches: forwarding, and the frames in transit in the order of their arrival.

mod control;

use core::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use slab::Slab;

use super::buffer::Memory;
use super::config::FabricConfig;
use super::flow::FlowHash;
use super::flow_control::IngressMemory;
use super::header::{self, Address};
use super::impairments::Impairments;
use super::link::{Admission, Held, Link};
use super::outgoing::{Name, Outgoing, Way};
use super::port::Port;
use super::stats::{Corruption, FabricStats};
use super::text::ConfigError;
use super::time::Time;
use super::topology::{Egress, Topology, Trunk};

/// Maximum number of addresses that the switches learn. Frames to unknown addresses are flooded.
const ADDRESS_LIMIT: usize = 1 << 16;

/// A frame that has arrived at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The time when its last bit arrived.
    pub time: Time,
    /// The port of the host.
    pub port: Port,
    /// The frame, from destination address to the end of its payload.
    pub frame: Vec<u8>,
}

/// A frame in transit.
#[derive(Debug)]
struct Flight {
    /// Number of the event that delivers the frame. Other events for this slot are stale.
    event: u64,
    due: Time,
    /// The host that sent the frame.
    ingress: Port,
    /// The destination host.
    destination: Port,
    /// The link that the frame is on.
    egress: Egress,
    /// The number of the frame among the frames from `ingress` over that link. `None` if the frame is not
    /// impaired.
    ordinal: Option<u64>,
    frame: Vec<u8>,
}

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// The frame in a slot reaches the end of its link, unless the frame has another event now.
    Arrival(usize),
    /// The wire of a link becomes free and frames wait for it. A link has at most one such event.
    Wire(Egress),
    /// This many bytes from a port leave its switch (flow control).
    Release(Port, u64),
}

/// A scheduled event. Events are ordered by time, then by the order in which they were scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time: Time,
    number: u64,
    subject: Subject,
}

/// Switches with a host at each port. The crate's page describes the path of a frame.
///
/// The caller drives the fabric. It [`offer`](Self::offer)s frames, and [`poll`](Self::poll)s until no more frames
/// have arrived. It polls again at [`next_event`](Self::next_event), or when it has the next frame. Times should
/// not go back. An earlier time counts as the latest time given so far. A frame costs O(log n) for n frames in
/// transit, however many ports there are.
#[derive(Debug)]
pub struct Fabric {
    seed: u64,
    topology: Topology,
    now: Time,
    /// The links towards hosts, by port, and then the trunks.
    links: Vec<Link>,
    /// The packet memories, by switch.
    memories: Vec<Memory>,
    /// The flow-control state, by switch. Empty without flow control.
    ingress: Vec<IngressMemory>,
    table: HashMap<Address, Port>,
    flights: Slab<Flight>,
    events: BinaryHeap<Reverse<Event>>,
    /// Frames that have arrived at hosts and have not been polled yet.
    arrived: VecDeque<Flight>,
    next_number: u64,
    runts: u64,
    filtered: u64,
}

impl Fabric {
    /// Creates one switch with ports 0 to `ports - 1`.
    ///
    /// # Errors
    /// Returns [`ConfigError::NoSuchPort`] if the configuration has a section for another port.
    pub fn new(ports: u16, config: FabricConfig) -> Result<Self, ConfigError> {
        Self::with_topology(Topology::star(ports), config)
    }

    /// Creates the switches and hosts of `topology`.
    ///
    /// # Errors
    /// Returns [`ConfigError::NoSuchPort`] or [`ConfigError::NoSuchTrunk`] if the configuration has a section for a
    /// port or a trunk that the topology does not have.
    pub fn with_topology(topology: Topology, config: FabricConfig) -> Result<Self, ConfigError> {
        let hosts = topology.hosts();
        if let Some((&port, _)) = config.towards.range(hosts..).next() {
            return Err(ConfigError::NoSuchPort { port, last: hosts.saturating_sub(1) });
        }
        let trunks = topology.trunks();
        if let Some((&trunk, _)) = config.over.range(trunks..).next() {
            return Err(ConfigError::NoSuchTrunk { trunk, trunks });
        }
        let towards = (0..hosts).map(|port| config.impairments(port));
        let impairments = towards.chain((0..trunks).map(|trunk| config.trunk_impairments(trunk)));
        let links =
            (0..).zip(impairments).map(|(number, impairments)| Link::new(number, impairments.clone()));
        Ok(Self {
            seed: config.seed,
            links: links.collect(),
            memories: (0..topology.switches()).map(|_| Memory::new(config.switches)).collect(),
            ingress: vec![],
            topology,
            now: Time::ZERO,
            table: HashMap::new(),
            flights: Slab::new(),
            events: BinaryHeap::new(),
            arrived: VecDeque::new(),
            next_number: 0,
            runts: 0,
            filtered: 0,
        })
    }

    /// Teaches the switches the port of an address. The source address of every frame does the same.
    ///
    /// # Panics
    /// Panics if the fabric has no such port.
    pub fn learn(&mut self, address: [u8; 6], port: Port) {
        assert!(port.0 < self.topology.hosts(), "the fabric has no port {}", port.0);
        if !header::is_group(address)
            && (self.table.len() < ADDRESS_LIMIT || self.table.contains_key(&address))
        {
            self.table.insert(address, port);
        }
    }

    /// Accepts a frame from a host at the time `now`.
    ///
    /// # Panics
    /// Panics if the fabric has no such port.
    pub fn offer(&mut self, now: Time, ingress: Port, frame: Vec<u8>) {
        self.advance(now);
        let Some((destination, source)) = header::addresses(&frame) else {
            self.runts += 1;
            return;
        };
        self.learn(source, ingress);
        match self.table.get(&destination) {
            Some(&port) if port == ingress => self.filtered += 1,
            Some(&port) => self.enter(ingress, port, frame),
            None => {
                for port in (0..self.topology.hosts()).map(Port).filter(|port| *port != ingress) {
                    self.enter(ingress, port, frame.clone());
                }
            }
        }
        self.discard_stale_events();
    }

    /// Returns the next frame that has arrived by `now`, in the order of arrival, or `None` if there are no more.
    pub fn poll(&mut self, now: Time) -> Option<Delivery> {
        self.advance(now);
        let flight = self.arrived.pop_front()?;
        self.leave_link(&flight);
        Some(Delivery { time: flight.due, port: flight.destination, frame: flight.frame })
    }

    /// Returns the time of the next poll, or `None` if no frame is in transit. With one switch it is the arrival
    /// of the next frame. With several switches, with links that trim, or with flow control, it can be an internal
    /// event, such as an arrival at the next switch. Then a poll at that time may return nothing.
    pub fn next_event(&self) -> Option<Time> {
        let arrived = self.arrived.front().map(|flight| flight.due);
        arrived.or_else(|| self.events.peek().map(|Reverse(event)| event.time))
    }

    /// Returns the bytes in the queue of `egress` at `now`, including the frame on the wire.
    ///
    /// # Panics
    /// Panics if the fabric has no such port or trunk.
    pub fn queued_bytes(&self, egress: Egress, now: Time) -> u64 {
        self.links[self.index(egress)].queued_bytes(now)
    }

    /// Returns the links that a flow's packets take from one host to another, in order.
    pub fn route(&self, from: Port, to: Port, flow: FlowHash) -> Vec<Egress> {
        let mut route = vec![];
        let mut switch = self.topology.switch_of(from);
        loop {
            let egress = self.topology.forward(switch, to, self.seed, || flow);
            route.push(egress);
            match egress {
                Egress::Host(_) => return route,
                Egress::Trunk(trunk) => switch = self.topology.end_of(trunk),
            }
        }
    }

    /// Returns a copy of all counters.
    pub fn stats(&self) -> FabricStats {
        let (hosts, trunks) = self.links.split_at(usize::from(self.topology.hosts()));
        FabricStats {
            towards: hosts.iter().map(|link| link.stats.clone()).collect(),
            trunks: trunks.iter().map(|link| link.stats.clone()).collect(),
            buffer_peaks: self.memories.iter().map(|memory| memory.peak).collect(),
            runts: self.runts,
            filtered: self.filtered,
        }
    }

    /// Returns the frames that were corrupted towards `port`, in order, at most 65,536 of them.
    ///
    /// # Panics
    /// Panics if the fabric has no such port.
    pub fn corruptions(&self, port: Port) -> &[Corruption] {
        &self.links[port.index()].corruptions
    }

    /// Returns the current impairments of a link: of the one towards a host, or of a trunk.
    ///
    /// # Panics
    /// Panics if the fabric has no such port or trunk.
    pub fn impairments(&self, link: impl Into<Egress>) -> &Impairments {
        self.links[self.index(link.into())].impairments()
    }

    /// Changes the impairments of a link for frames offered from now on. Frames that are already on the link keep
    /// their times. Ordinals continue.
    ///
    /// # Panics
    /// Panics if the fabric has no such port or trunk.
    pub fn set_impairments(&mut self, link: impl Into<Egress>, impairments: Impairments) {
        let index = self.index(link.into());
        self.links[index].set_impairments(impairments);
    }

    /// Unplugs (`up == false`) or plugs in a link. While a host is unplugged, frames from and to it are dropped.
    /// While a trunk is unplugged, frames in its direction are dropped, and the switches do not route around it.
    /// Frames that are already in transit still arrive.
    ///
    /// # Panics
    /// Panics if the fabric has no such port or trunk.
    pub fn set_link(&mut self, link: impl Into<Egress>, up: bool) {
        let index = self.index(link.into());
        self.links[index].up = up;
    }

    /// Returns the index of a link in `links`.
    fn index(&self, egress: Egress) -> usize {
        match egress {
            Egress::Host(port) => port.index(),
            Egress::Trunk(Trunk(number)) => usize::from(self.topology.hosts()) + usize::from(number),
        }
    }

    /// Processes all events until `now`.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        // The top of the heap is never stale.
        while let Some(&Reverse(event)) = self.events.peek().filter(|Reverse(event)| event.time <= self.now) {
            self.events.pop();
            match event.subject {
                Subject::Arrival(slot) => self.arrive(event.time, slot),
                Subject::Wire(egress) => self.serve(event.time, egress),
                Subject::Release(port, bytes) => self.release(event.time, port, bytes),
            }
            self.discard_stale_events();
        }
    }

    /// Handles a frame at the end of its link: it arrives at its host, or the next switch forwards it.
    fn arrive(&mut self, time: Time, slot: usize) {
        let flight = self.flights.remove(slot);
        match flight.egress {
            Egress::Host(_) => self.arrived.push_back(flight),
            Egress::Trunk(trunk) => {
                self.leave_link(&flight);
                let way = Way { time, ingress: flight.ingress, destination: flight.destination };
                self.forward(way, self.topology.end_of(trunk), true, flight.frame);
            }
        }
    }

    /// Sends the next frame of a link that trims, because its wire is free.
    fn serve(&mut self, time: Time, egress: Egress) {
        let index = self.index(egress);
        let memory = &mut self.memories[usize::from(self.topology.start_of(egress))];
        if let Some((outgoing, departure, next)) = self.links[index].serve(time, memory) {
            if let Some(next) = next {
                self.schedule(next, Subject::Wire(egress));
            }
            self.launch(egress, outgoing, departure);
        }
    }

    fn schedule(&mut self, time: Time, subject: Subject) {
        let number = self.next_number;
        self.next_number += 1;
        self.events.push(Reverse(Event { time, number, subject }));
    }

    /// Counts a frame that has reached the end of a link.
    fn leave_link(&mut self, flight: &Flight) {
        let index = self.index(flight.egress);
        let link = &mut self.links[index];
        link.stats.in_flight -= 1;
        link.stats.delivered += 1;
        link.stats.delivered_bytes += flight.frame.len() as u64;
        if flight.ordinal.is_some_and(|ordinal| link.direction(flight.ingress.0).deliver(ordinal)) {
            link.stats.reordered += 1;
        }
    }

    /// Forwards a frame from a host at its first switch.
    fn enter(&mut self, ingress: Port, destination: Port, frame: Vec<u8>) {
        let source_is_up = self.links[ingress.index()].is_up(self.now);
        let way = Way { time: self.now, ingress, destination };
        self.forward(way, self.topology.switch_of(ingress), source_is_up, frame);
    }

    /// Forwards a frame out of a switch. This is steps 1 to 4 of the crate's page.
    fn forward(&mut self, way: Way, switch: u16, source_is_up: bool, mut frame: Vec<u8>) {
        let flow = || FlowHash::of(&frame);
        let egress = self.topology.forward(switch, way.destination, self.seed, flow);
        let index = self.index(egress);
        let link = &mut self.links[index];
        link.stats.offered += 1;
        // The frame takes an ordinal even if the link is down. Otherwise the length of an outage would shift later
        // decisions.
        let class = header::classify(&frame);
        let name = link.enter(self.seed, way.ingress.0, class);
        if !source_is_up || !link.is_up(way.time) {
            link.stats.link_down_dropped += 1;
            return;
        }
        if name.is_some_and(|name| link.loses(self.seed, name)) || !link.pass_hops(&mut frame, class) {
            return;
        }
        let twin = name.filter(|name| link.duplicates(self.seed, *name));
        let copy = twin.map(|name| (Name { copy: 1, ..name }, frame.clone()));
        self.send(egress, Outgoing { way, frame, class, name });
        if let Some((name, frame)) = copy {
            self.links[index].stats.duplicated += 1;
            self.send(egress, Outgoing { way, frame, class, name: Some(name) });
        }
    }

    /// Queues a frame. This is step 5 of the crate's page.
    fn send(&mut self, egress: Egress, outgoing: Outgoing) {
        let index = self.index(egress);
        let memory = &mut self.memories[usize::from(self.topology.start_of(egress))];
        match self.links[index].admit(self.seed, outgoing, memory) {
            Admission::Departs(outgoing, departure) => self.launch(egress, outgoing, departure),
            Admission::Serve(time) => self.schedule(time, Subject::Wire(egress)),
            Admission::Settled => {}
        }
    }

    /// Launches a frame whose last bit leaves at `departure`. This is steps 6 to 8 of the crate's page.
    fn launch(&mut self, egress: Egress, mut outgoing: Outgoing, departure: Time) {
        let index = self.index(egress);
        let passage = self.links[index].launch(self.seed, departure, &mut outgoing);
        let Outgoing { way: Way { time, ingress, destination }, frame, name, .. } = outgoing;
        self.store(egress, time, ingress, departure, frame.len() as u64);
        let ordinal = name.map(|name| name.ordinal);
        let entry = self.flights.vacant_entry();
        let slot = entry.key();
        let event = self.next_number;
        entry.insert(Flight { event, due: passage.arrival, ingress, destination, egress, ordinal, frame });
        self.schedule(passage.arrival, Subject::Arrival(slot));
        let direction = self.links[index].direction(ingress.0);
        match passage.behind {
            Some(behind) => {
                direction.held.push(Reverse(Held { until_passed: direction.passed + behind, event, slot }));
            }
            None if name.is_some() => self.release_overtaken(index, ingress, passage.arrival),
            None => {}
        }
    }

    /// Counts a frame that passed without being held back. Held frames that enough frames have overtaken now
    /// arrive directly after it, unless their time ends earlier.
    fn release_overtaken(&mut self, link: usize, ingress: Port, arrival: Time) {
        self.links[link].direction(ingress.0).passed += 1;
        while let Some(held) = self.links[link].direction(ingress.0).pop_overtaken() {
            let flight = self.flights.get_mut(held.slot).filter(|flight| flight.event == held.event);
            if let Some(flight) = flight.filter(|flight| flight.due > arrival) {
                flight.due = arrival;
                flight.event = self.next_number;
                self.schedule(arrival, Subject::Arrival(held.slot));
            }
        }
    }

    /// Removes stale events from the top of the heap, so that the top is always a live event.
    fn discard_stale_events(&mut self) {
        while let Some(Reverse(event)) = self.events.peek() {
            let is_live = match event.subject {
                Subject::Arrival(slot) => {
                    self.flights.get(slot).is_some_and(|flight| flight.event == event.number)
                }
                Subject::Wire(_) | Subject::Release(..) => true,
            };
            if is_live {
                return;
            }
            self.events.pop();
        }
    }
}
