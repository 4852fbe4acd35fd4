//! The switch: forwarding, and the frames under way in the order of their arrival.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use slab::Slab;

use super::config::{ConfigError, FabricConfig, Impairments};
use super::header::{self, Address, Class};
use super::link::{Held, Link, Name};
use super::stats::{Corruption, FabricStats};
use super::time::Time;

/// Addresses the switch learns at most; what it does not know it floods.
const ADDRESS_LIMIT: usize = 1 << 16;

/// A place where a host is attached, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

impl Port {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A frame that has reached a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When its last bit arrived.
    pub time: Time,
    /// The host it reached.
    pub port: Port,
    /// The frame, from destination address to the end of its payload.
    pub frame: Vec<u8>,
}

/// A frame under way.
#[derive(Debug)]
struct Flight {
    /// Number of the event that delivers it. Other events that point here are stale.
    event: u64,
    due: Time,
    ingress: Port,
    egress: Port,
    ordinal: Option<u64>,
    frame: Vec<u8>,
}

/// When to look at a slot. Ordered by time, then by when it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time: Time,
    number: u64,
    slot: usize,
}

/// A switch with a host at each port. See the module for what happens to a frame.
///
/// Driven from outside: [`offer`](Self::offer) frames, [`poll`](Self::poll) until nothing more has arrived,
/// come back at [`next_event`](Self::next_event) or with the next frame. The instants given should not go
/// back; one that does is taken as the latest given so far. A frame costs O(log n) of the frames under way,
/// however many ports there are.
#[derive(Debug)]
pub struct Fabric {
    seed: u64,
    now: Time,
    links: Vec<Link>,
    table: HashMap<Address, Port>,
    flights: Slab<Flight>,
    events: BinaryHeap<Reverse<Event>>,
    next_number: u64,
    runts: u64,
    filtered: u64,
}

impl Fabric {
    /// A fabric with ports 0 to `ports - 1`.
    ///
    /// # Errors
    /// [`ConfigError::NoSuchPort`] if the configuration has a section for another port.
    pub fn new(ports: u16, config: FabricConfig) -> Result<Self, ConfigError> {
        if let Some((&port, _)) = config.towards.range(ports..).next() {
            return Err(ConfigError::NoSuchPort { port, last: ports.saturating_sub(1) });
        }
        let link = |port| Link::new(port, ports, config.impairments(port).clone());
        Ok(Self {
            seed: config.seed,
            now: Time::ZERO,
            links: (0..ports).map(link).collect(),
            table: HashMap::new(),
            flights: Slab::new(),
            events: BinaryHeap::new(),
            next_number: 0,
            runts: 0,
            filtered: 0,
        })
    }

    /// Tells the switch where an address is, as the source address of any frame does.
    ///
    /// # Panics
    /// If the fabric has no such port.
    pub fn learn(&mut self, address: [u8; 6], port: Port) {
        assert!(port.index() < self.links.len(), "the fabric has no port {}", port.0);
        if !header::is_group(address)
            && (self.table.len() < ADDRESS_LIMIT || self.table.contains_key(&address))
        {
            self.table.insert(address, port);
        }
    }

    /// Takes a frame from a host's wire.
    ///
    /// # Panics
    /// If the fabric has no such port.
    pub fn offer(&mut self, now: Time, ingress: Port, frame: Vec<u8>) {
        self.now = self.now.max(now);
        let Some((destination, source)) = header::addresses(&frame) else {
            self.runts += 1;
            return;
        };
        self.learn(source, ingress);
        match self.table.get(&destination) {
            Some(&egress) if egress == ingress => self.filtered += 1,
            Some(&egress) => self.transmit(ingress, egress, frame),
            None => {
                for egress in (0..self.links.len() as u16).map(Port).filter(|egress| *egress != ingress) {
                    self.transmit(ingress, egress, frame.clone());
                }
            }
        }
        self.discard_stale_events();
    }

    /// The next frame that has arrived by `now`, in the order of arrival; `None` once there is no more.
    pub fn poll(&mut self, now: Time) -> Option<Delivery> {
        self.now = self.now.max(now);
        let Reverse(event) = *self.events.peek().filter(|Reverse(event)| event.time <= self.now)?;
        self.events.pop();
        // The top of the heap is never stale.
        let Flight { ingress, egress, ordinal, frame, .. } = self.flights.remove(event.slot);
        let link = &mut self.links[egress.index()];
        link.stats.in_flight -= 1;
        link.stats.delivered += 1;
        link.stats.delivered_bytes += frame.len() as u64;
        if ordinal.is_some_and(|ordinal| link.directions[ingress.index()].deliver(ordinal)) {
            link.stats.reordered += 1;
        }
        self.discard_stale_events();
        Some(Delivery { time: event.time, port: egress, frame })
    }

    /// When the next frame arrives; `None` if none is under way.
    pub fn next_event(&self) -> Option<Time> {
        self.events.peek().map(|Reverse(event)| event.time)
    }

    /// A copy of all counters.
    pub fn stats(&self) -> FabricStats {
        FabricStats {
            towards: self.links.iter().map(|link| link.stats.clone()).collect(),
            runts: self.runts,
            filtered: self.filtered,
        }
    }

    /// The frames corrupted towards `port`, in order, up to 65,536 of them.
    ///
    /// # Panics
    /// If the fabric has no such port.
    pub fn corruptions(&self, port: Port) -> &[Corruption] {
        &self.links[port.index()].corruptions
    }

    /// What the link towards `port` does at present.
    ///
    /// # Panics
    /// If the fabric has no such port.
    pub fn impairments(&self, port: Port) -> &Impairments {
        self.links[port.index()].impairments()
    }

    /// Changes what the link towards `port` does to the frames offered from now on. Those already on it keep
    /// their times; ordinals go on.
    ///
    /// # Panics
    /// If the fabric has no such port.
    pub fn set_impairments(&mut self, port: Port, impairments: Impairments) {
        self.links[port.index()].set_impairments(impairments);
    }

    /// Unplugs (`up == false`) or plugs in the host at `port`. While it is unplugged, frames from and to it
    /// are dropped; those already under way arrive.
    ///
    /// # Panics
    /// If the fabric has no such port.
    pub fn set_link(&mut self, port: Port, up: bool) {
        self.links[port.index()].up = up;
    }

    /// One frame's way over the link towards a host; the module's steps 1 to 4.
    fn transmit(&mut self, ingress: Port, egress: Port, mut frame: Vec<u8>) {
        let source_is_up = self.links[ingress.index()].is_up(self.now);
        let link = &mut self.links[egress.index()];
        link.stats.offered += 1;
        // An ordinal is taken even with the link down, lest the length of an outage shift later decisions.
        let class = header::classify(&frame);
        let name = link.enter(self.seed, ingress.0, class);
        if !source_is_up || !link.is_up(self.now) {
            link.stats.link_down_dropped += 1;
            return;
        }
        if name.is_some_and(|name| link.loses(self.seed, name)) || !link.pass_hops(&mut frame, class) {
            return;
        }
        let twin = name.filter(|name| link.duplicates(self.seed, *name));
        let copy = twin.map(|name| (Name { copy: 1, ..name }, frame.clone()));
        self.send(ingress, egress, frame, class, name);
        if let Some((name, frame)) = copy {
            self.links[egress.index()].stats.duplicated += 1;
            self.send(ingress, egress, frame, class, Some(name));
        }
    }

    /// The module's steps 5 to 8.
    fn send(&mut self, ingress: Port, egress: Port, mut frame: Vec<u8>, class: Class, name: Option<Name>) {
        let link = &mut self.links[egress.index()];
        let Some(passage) = link.send(self.seed, self.now, &mut frame, class, name) else {
            return;
        };
        link.stats.in_flight += 1;
        let direction = &mut link.directions[ingress.index()];
        let event = self.next_number;
        self.next_number += 1;
        let ordinal = name.map(|name| name.ordinal);
        let flight = Flight { event, due: passage.arrival, ingress, egress, ordinal, frame };
        let slot = self.flights.insert(flight);
        self.events.push(Reverse(Event { time: passage.arrival, number: event, slot }));
        match passage.behind {
            Some(behind) => {
                direction.held.push(Reverse(Held { until_passed: direction.passed + behind, event, slot }));
            }
            None if name.is_some() => self.release_overtaken(ingress, egress, passage.arrival),
            None => {}
        }
    }

    /// A frame went by: those held back until now follow right behind it, unless their time is up before.
    fn release_overtaken(&mut self, ingress: Port, egress: Port, arrival: Time) {
        let direction = &mut self.links[egress.index()].directions[ingress.index()];
        direction.passed += 1;
        while let Some(&Reverse(held)) = direction.held.peek() {
            if held.until_passed > direction.passed {
                return;
            }
            direction.held.pop();
            let flight = self.flights.get_mut(held.slot).filter(|flight| flight.event == held.event);
            if let Some(flight) = flight.filter(|flight| flight.due > arrival) {
                flight.due = arrival;
                flight.event = self.next_number;
                let event = Event { time: arrival, number: flight.event, slot: held.slot };
                self.events.push(Reverse(event));
                self.next_number += 1;
            }
        }
    }

    /// Keeps the top of the heap an event that delivers a frame.
    fn discard_stale_events(&mut self) {
        while let Some(Reverse(event)) = self.events.peek() {
            if self.flights.get(event.slot).is_some_and(|flight| flight.event == event.number) {
                return;
            }
            self.events.pop();
        }
    }
}
