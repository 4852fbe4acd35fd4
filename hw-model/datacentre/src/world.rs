//! The event loop of a run.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use fabric_model::{ConfigError, Delivery, Egress, Fabric, FabricStats, Impairments, Port, Span, Time};
use host_nic::HostNic;
use transport_common::connection::Path;
use transport_common::ids::Cid;

use super::address::flow_hash;
use super::flow::{End, Flow};
use super::host::{Arrival, Departure, Host, HostStats, slot_of};
use super::plan::{FlowPlan, Plan};
use super::record::{PacketDeparture, Record};
use super::tap;

/// An event outside the fabric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A frame from a host reaches its switch.
    Enter { host: u16, frame: Vec<u8> },
    /// A slow ULP has finished taking a frame.
    Taken { host: u16 },
    /// The engine of a card is checked for work.
    Engine { host: u16, card: usize },
    /// An application has a message to post.
    Post { flow: usize },
    /// A sample is taken.
    Sample,
}

/// A running data centre. See the crate's page for an example.
pub struct DataCentre {
    now: Time,
    fabric: Fabric,
    hosts: Vec<Host>,
    flows: Vec<Flow>,
    /// Ordered by time, then by the order in which they were scheduled.
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    next_number: u64,
    sample_every: Span,
    watch: Vec<Egress>,
    /// Hosts with a slow ULP.
    slow: Vec<u16>,
    /// The flow of each destination end. Empty if departures are not recorded.
    by_destination: HashMap<End, usize>,
    record: Record,
}

impl DataCentre {
    /// Builds the data centre at time 0, with all connections open.
    ///
    /// # Errors
    /// Returns [`ConfigError::NoSuchPort`] if the fabric's configuration has a section for a port without a host.
    ///
    /// # Panics
    /// Panics if a flow names a host that does not exist, or its tuning is out of range.
    pub fn new(plan: Plan) -> Result<Self, ConfigError> {
        let host = |port| Host::new(port, *plan.hosts.get(&port).unwrap_or(&plan.host));
        let ports = 0..plan.topology.hosts();
        let slow_ulp = |port: &u16| plan.hosts.get(port).unwrap_or(&plan.host).slow_ulp.is_some();
        let mut data_centre = Self {
            now: Time::ZERO,
            hosts: ports.clone().map(host).collect(),
            slow: ports.filter(slow_ulp).collect(),
            fabric: Fabric::with_topology(plan.topology, plan.fabric)?,
            flows: vec![],
            events: BinaryHeap::new(),
            next_number: 0,
            sample_every: plan.sample_every,
            watch: plan.watch,
            by_destination: HashMap::new(),
            record: Record::default(),
        };
        plan.flows.into_iter().for_each(|flow| data_centre.open(flow));
        for (port, host) in (0..).map(Port).zip(&data_centre.hosts) {
            (0..host.cards.len()).for_each(|card| data_centre.fabric.learn(host.address(card).mac(), port));
        }
        if plan.record_departures {
            let flows = data_centre.flows.iter().enumerate();
            data_centre.by_destination = flows.map(|(number, flow)| (flow.destination, number)).collect();
            data_centre.record.departures = vec![vec![]; data_centre.flows.len()];
        }
        data_centre.record.flows = vec![vec![]; data_centre.flows.len()];
        data_centre.record.queues = vec![vec![]; data_centre.watch.len()];
        data_centre.record.buffers = vec![vec![]; data_centre.slow.len()];
        if data_centre.sample_every > Span::ZERO {
            data_centre.happens(Time::ZERO, Event::Sample);
        }
        Ok(data_centre)
    }

    /// Opens both ends of a flow's connection.
    fn open(&mut self, plan: FlowPlan) {
        let number = self.flows.len();
        let mut end = |host: u16, flow| {
            let (card, slot) = self.hosts[usize::from(host)].take_slot(flow);
            End { host, card, slot }
        };
        let ends = [end(plan.source, Some(number)), end(plan.destination, None)];
        let address = |end: End| self.hosts[usize::from(end.host)].address(end.card);
        let addresses = ends.map(address);
        let cids = ends.map(|end| Cid(end.slot as u32));
        for (own, peer) in [(0, 1), (1, 0)] {
            let path = addresses[own].path_to(addresses[peer], plan.ip_version, plan.entropy);
            let parameters = plan.tuning.parameters(path, [cids[own], cids[peer]]);
            assert_eq!(parameters.check(), Ok(()), "flow {number}");
            let End { host, card, slot } = ends[own];
            self.hosts[usize::from(host)].cards[card].nic.open(slot, &parameters);
        }
        for message in &plan.messages {
            self.happens(message.at, Event::Post { flow: number });
        }
        self.flows.push(Flow::new(plan, ends[0], ends[1]));
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Runs all events until `end`, inclusive.
    pub fn run_until(&mut self, end: Time) {
        while self.next_event().is_some_and(|time| time <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// Runs until every message of every flow is complete, or until `limit`. Returns true if all are complete.
    pub fn run_to_completion(&mut self, limit: Time) -> bool {
        // Most steps complete no flow. So the loop checks one incomplete flow until it is complete, then the next.
        let mut waits_for = 0;
        while let Some(flow) = self.flows.get(waits_for) {
            if flow.is_complete() {
                waits_for += 1;
            } else if self.next_event().is_some_and(|time| time <= limit) {
                self.step();
            } else {
                return false;
            }
        }
        true
    }

    /// Returns a flow by its index in the plan.
    ///
    /// # Panics
    /// Panics if there is no such flow.
    #[must_use]
    pub fn flow(&self, number: usize) -> &Flow {
        &self.flows[number]
    }

    /// Returns all flows, in the order of the plan.
    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Returns the samples so far.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the fabric's counters.
    #[must_use]
    pub fn fabric_stats(&self) -> FabricStats {
        self.fabric.stats()
    }

    /// Returns the counters of the cards of each host.
    #[must_use]
    pub fn host_stats(&self) -> Vec<HostStats> {
        self.hosts.iter().map(|host| host.stats).collect()
    }

    /// Returns the card at the sending end of a flow, and the slot of its connection there.
    ///
    /// # Panics
    /// Panics if there is no such flow.
    #[must_use]
    pub fn sender(&self, flow: usize) -> (&HostNic, usize) {
        let End { host, card, slot } = self.flows[flow].source;
        (&self.hosts[usize::from(host)].cards[card].nic, slot)
    }

    /// Returns the addresses, source port and flow label that the sending end of a flow currently uses.
    ///
    /// # Panics
    /// Panics if there is no such flow.
    #[must_use]
    pub fn path(&self, flow: usize) -> Path {
        let (nic, slot) = self.sender(flow);
        nic.entry(slot).connection.flow.endpoint.path
    }

    /// Returns the links that a flow's packets currently take.
    ///
    /// # Panics
    /// Panics if there is no such flow.
    #[must_use]
    pub fn route(&self, flow: usize) -> Vec<Egress> {
        let hash = flow_hash(&self.path(flow));
        let Flow { source, destination, .. } = &self.flows[flow];
        self.fabric.route(Port(source.host), Port(destination.host), hash)
    }

    /// Returns the links that the packets of the other end of a flow, its acknowledgements, currently take.
    ///
    /// # Panics
    /// Panics if there is no such flow.
    #[must_use]
    pub fn route_back(&self, flow: usize) -> Vec<Egress> {
        let Flow { source, destination, .. } = &self.flows[flow];
        let End { host, card, slot } = *destination;
        let path = self.hosts[usize::from(host)].cards[card].nic.entry(slot).connection.flow.endpoint.path;
        self.fabric.route(Port(host), Port(source.host), flow_hash(&path))
    }

    /// Changes the impairments of a link from now on; see [`Fabric::set_impairments`].
    ///
    /// # Panics
    /// Panics if the fabric has no such link.
    pub fn set_impairments(&mut self, link: impl Into<Egress>, impairments: Impairments) {
        self.fabric.set_impairments(link, impairments);
    }

    /// Unplugs or plugs in a link; see [`Fabric::set_link`].
    ///
    /// # Panics
    /// Panics if the fabric has no such link.
    pub fn set_link(&mut self, link: impl Into<Egress>, up: bool) {
        self.fabric.set_link(link, up);
    }

    fn next_event(&self) -> Option<Time> {
        let own = self.events.peek().map(|Reverse((time, ..))| *time);
        own.into_iter().chain(self.fabric.next_event()).min()
    }

    fn happens(&mut self, time: Time, event: Event) {
        self.events.push(Reverse((time, self.next_number, event)));
        self.next_number += 1;
    }

    fn step(&mut self) {
        let own = self.events.peek().map(|Reverse((time, ..))| *time);
        // Events of the fabric go first, because they cannot depend on what hosts do at the same time.
        if let Some(time) = self.fabric.next_event().filter(|time| own.is_none_or(|own| *time <= own)) {
            self.now = self.now.max(time);
            if let Some(delivery) = self.fabric.poll(self.now) {
                self.arrive(delivery);
            }
            return;
        }
        let Some(Reverse((time, _, event))) = self.events.pop() else { return };
        self.now = self.now.max(time);
        match event {
            Event::Enter { host, frame } => self.fabric.offer(self.now, Port(host), frame),
            Event::Taken { host } => self.taken(host),
            Event::Engine { host, card } => {
                let departure = self.hosts[usize::from(host)].turn_engine(card, self.now);
                self.depart(host, departure);
                self.plan_engine(host, card);
            }
            Event::Post { flow } => self.attend(flow, Flow::post),
            Event::Sample => self.sample(),
        }
    }

    fn arrive(&mut self, delivery: Delivery) {
        let Delivery { port: Port(host), frame, .. } = delivery;
        let card = usize::from(frame[5]); // the last byte of the destination MAC address is the card
        match self.hosts[usize::from(host)].arrive(card, self.now, frame) {
            Arrival::Ready(frame) => self.receive(host, card, frame, self.now),
            Arrival::Begins(takes) => self.happens(self.now + takes, Event::Taken { host }),
            Arrival::Waits | Arrival::Dropped => {}
        }
    }

    fn taken(&mut self, host: u16) {
        let Some(taken) = self.hosts[usize::from(host)].take_buffered() else { return };
        if let Some(takes) = taken.next {
            self.happens(self.now + takes, Event::Taken { host });
        }
        self.receive(host, taken.card, taken.frame, taken.arrival);
    }

    fn receive(&mut self, host: u16, card: usize, frame: Vec<u8>, arrival: Time) {
        let receiver = &mut self.hosts[usize::from(host)];
        let (departure, acknowledged) = receiver.receive(card, self.now, frame, arrival);
        self.depart(host, departure);
        self.plan_engine(host, card);
        if let Some(acknowledged) = acknowledged {
            self.flows[acknowledged.flow].sample_delay(acknowledged.delay);
            self.attend(acknowledged.flow, Flow::progress);
        }
    }

    fn depart(&mut self, host: u16, departure: Option<Departure>) {
        if let Some(Departure { arrival, frame }) = departure {
            self.note_departure(&frame);
            self.happens(arrival, Event::Enter { host, frame });
        }
    }

    /// Records the departure of a frame, if the plan asks for departures.
    fn note_departure(&mut self, frame: &[u8]) {
        if self.by_destination.is_empty() {
            return;
        }
        let Some(packet) = tap::read(frame).filter(|packet| packet.acknowledgement.is_none()) else { return };
        // The destination MAC address contains the host and the card.
        let (host, card) = (u16::from_be_bytes([frame[3], frame[4]]), usize::from(frame[5]));
        let end = End { host, card, slot: slot_of(packet.cid) };
        if let Some(&flow) = self.by_destination.get(&end) {
            let (nic, slot) = self.sender(flow);
            let inter_packet_gap = nic.entry(slot).connection.flow.congestion.inter_packet_gap;
            let departure = PacketDeparture { at: Time(packet.left.0), inter_packet_gap };
            self.record.departures[flow].push(departure);
        }
    }

    fn plan_engine(&mut self, host: u16, card: usize) {
        if let Some(time) = self.hosts[usize::from(host)].plan_engine(card, self.now) {
            self.happens(time, Event::Engine { host, card });
        }
    }

    /// Runs `what` for the application of a flow, then checks the engine of its card.
    fn attend(&mut self, flow: usize, what: fn(&mut Flow, &mut HostNic, Time)) {
        let End { host, card, .. } = self.flows[flow].source;
        what(&mut self.flows[flow], self.hosts[usize::from(host)].card_at(card, self.now), self.now);
        self.plan_engine(host, card);
    }

    fn sample(&mut self) {
        self.record.times.push(self.now);
        for (flow, samples) in self.flows.iter_mut().zip(&mut self.record.flows) {
            samples.push(flow.sample(&self.hosts));
        }
        for (egress, samples) in self.watch.iter().zip(&mut self.record.queues) {
            samples.push(self.fabric.queued_bytes(*egress, self.now));
        }
        for (host, samples) in self.slow.iter().zip(&mut self.record.buffers) {
            samples.push(self.hosts[usize::from(*host)].buffered_bytes());
        }
        self.happens(self.now + self.sample_every, Event::Sample);
    }
}
