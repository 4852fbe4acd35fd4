//! The network: hosts on a switch, with a common time.

use std::collections::VecDeque;

use fabric_model::{
    ByteCount, ConfigError, Delivery, Egress, Fabric, FabricConfig, FabricStats, FlowControl, Impairments,
    Port, Rate, Span, Time, is_trimmed, pauses,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reference_senders::{CongestionPoint, Red};
use tonic_model::ControlPacket;

use super::drops::DropPattern;
use super::frame::{self, Contents, MIN_FRAME, Message};
use super::receiving::{Arrived, Receiving};
use super::sender::Sender;
use super::uplink::Uplink;

/// The parameters of the cables and the switch.
#[derive(Clone, Debug)]
pub struct Cabling {
    /// The rate of every cable.
    pub rate: Rate,
    /// The largest deviation of a transmitter's clock from its rate, in parts per million. The deviation is
    /// uniform in both directions. Ethernet allows 100 (IEEE 802.3).
    pub clock_tolerance: u32,
    /// The longest time that a receiver's answer takes to get to the cable. The time is uniform from zero to this.
    /// The order of answers does not change.
    pub processing: Span,
    /// The delay of every cable in each direction: a quarter of the round-trip time. It must be above 0.
    pub delay: Span,
    /// The bytes that the queue towards each host holds.
    pub buffer: ByteCount,
    /// The rule by which the switch pauses hosts. `None` if it never pauses them.
    pub flow_control: Option<FlowControl>,
    /// The rule by which the switch marks data frames. `None` if it never marks them.
    pub red: Option<Red>,
    /// Other impairments of frames on the way from the switch to a host. Rate, delay and queue come from the
    /// fields above.
    pub impairments: Impairments,
    /// The segments that the receivers' cards drop.
    pub drops: DropPattern,
    /// The seed of all random decisions in the network.
    pub seed: u64,
}

/// The reason why a network could not be built.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The configuration of the fabric is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The cables have no delay. Without a delay, hosts cannot be computed ahead of each other.
    #[error("cables without delay: choose at least one picosecond")]
    NoDelay,
}

/// A host.
struct Host {
    sender: Option<Box<dyn Sender>>,
    /// The receiving sides, by the host that sends the segments.
    receiving: Vec<Option<Box<dyn Receiving>>>,
    uplink: Uplink,
    inbox: VecDeque<Delivery>,
    processing: Processing,
    pauses: u64,
}

/// The time that a receiver's answer takes within its host.
struct Processing {
    most: Span,
    random: StdRng,
}

impl Processing {
    fn over(&mut self, now: Time) -> Time {
        if self.most == Span::ZERO { now } else { now + Span(self.random.random_range(0..=self.most.0)) }
    }
}

/// Returns the rate of a transmitter whose clock deviates by `parts` in 10^9.
fn off_by(rate: Rate, parts: i64) -> Rate {
    const WHOLE: i64 = 1_000_000_000;
    let bits = i128::from(rate.bits_per_second()) * i128::from(WHOLE + parts) / i128::from(WHOLE);
    u64::try_from(bits).ok().and_then(Rate::from_bits_per_second).unwrap_or(rate)
}

impl Host {
    fn next_event(&self) -> Option<Time> {
        let sender = self.sender.as_ref().and_then(|sender| sender.next_event());
        let receiving = self.receiving.iter().flatten().filter_map(|receiving| receiving.next_event());
        receiving.chain(sender).chain(self.uplink.next()).min()
    }

    /// Puts an answer onto the cable.
    fn answer(uplink: &mut Uplink, now: Time, source: u16, destination: u16, packet: ControlPacket) {
        let message = Message::Control(packet);
        let contents = Contents { source, destination, flow: packet.flow.0, marked: false, message };
        let mut buffer = uplink.buffer();
        frame::write(&mut buffer, &contents, MIN_FRAME);
        uplink.send(now, buffer);
    }

    /// Does everything that is due before `end`, in the order of time.
    fn run(&mut self, number: u16, end: Time) {
        loop {
            let receiving =
                (0..).zip(&mut self.receiving).filter_map(|(from, of)| Some((from, of.as_mut()?)));
            let due = receiving.filter_map(|(from, of)| Some((of.next_event()?, from, of)));
            let due = due.filter(|(time, ..)| *time < end).min_by_key(|(time, from, _)| (*time, *from));
            let until = due.as_ref().map_or(end, |(time, ..)| *time);
            if let Some(sender) = &mut self.sender {
                sender.run(until, &mut self.uplink);
            }
            let Some((time, from, receiving)) = due else { return };
            while let Some((now, packet)) = receiving.due(Time(time.0 + 1)) {
                let ready = self.processing.over(now);
                Self::answer(&mut self.uplink, ready, number, from, packet);
            }
        }
    }

    /// Handles a frame that has arrived. Everything before its arrival is done.
    fn receive(&mut self, number: u16, delivery: Delivery, drops: &mut DropPattern) {
        let now = delivery.time;
        if let Some(pauses) = pauses(&delivery.frame) {
            self.uplink.pause(now, pauses);
            self.pauses += u64::from(pauses);
            return;
        }
        let Some(contents) = frame::read(&delivery.frame) else { return };
        match contents.message {
            Message::Control(packet) => {
                if let Some(sender) = &mut self.sender {
                    sender.receive(now, packet, &mut self.uplink);
                }
            }
            Message::Data { segment, stamp } => {
                let flow = contents.flow;
                let receiving = self.receiving.get_mut(usize::from(contents.source)).and_then(Option::as_mut);
                let trimmed = is_trimmed(&delivery.frame);
                if let Some(receiving) = receiving.filter(|_| trimmed || !drops.drops(flow, segment)) {
                    let arrived = Arrived { flow, segment, stamp, marked: contents.marked, trimmed };
                    let (uplink, processing) = (&mut self.uplink, &mut self.processing);
                    receiving.on_segment(now, &arrived, &mut |packet| {
                        Self::answer(uplink, processing.over(now), number, contents.source, packet);
                    });
                }
            }
        }
        self.uplink.recycle(delivery.frame);
    }
}

/// Hosts connected to one switch.
///
/// Time advances in windows as long as a cable's delay. A frame that leaves a host within a window does not reach
/// the switch within it. A frame that leaves the switch does not reach a host within it. Each host therefore
/// computes a window independently of the others. The result is the same as if all advanced in step.
pub struct TonicNetwork {
    fabric: Fabric,
    hosts: Vec<Host>,
    points: Vec<Option<CongestionPoint>>,
    drops: DropPattern,
    delay: Span,
    now: Time,
}

impl TonicNetwork {
    /// Creates a network of `hosts` hosts that do not send or receive yet.
    ///
    /// # Errors
    /// Returns [`NetworkError`] if the parameters describe no network.
    pub fn new(hosts: u16, cabling: &Cabling) -> Result<Self, NetworkError> {
        if cabling.delay == Span::ZERO {
            return Err(NetworkError::NoDelay);
        }
        let mut clocks = StdRng::seed_from_u64(cabling.seed);
        let tolerance = 1_000 * i64::from(cabling.clock_tolerance);
        let mut rate = || off_by(cabling.rate, clocks.random_range(-tolerance..=tolerance));
        let towards = (0..hosts).map(|host| {
            let rate = Some(rate());
            let (delay, queue) = (cabling.delay, cabling.buffer);
            (host, Impairments { rate, delay, queue, ..cabling.impairments.clone() })
        });
        let towards = towards.collect();
        let config = FabricConfig { seed: cabling.seed, towards, ..FabricConfig::default() };
        let mut fabric = Fabric::new(hosts, config)?;
        for host in 0..hosts {
            fabric.learn(frame::address(host), Port(host));
        }
        if let Some(flow_control) = cabling.flow_control {
            fabric.set_flow_control(flow_control);
        }
        let host = |host| Host {
            sender: None,
            receiving: (0..hosts).map(|_| None).collect(),
            uplink: Uplink::new(rate(), cabling.delay),
            inbox: VecDeque::new(),
            processing: Processing {
                most: cabling.processing,
                random: StdRng::seed_from_u64(cabling.seed ^ u64::from(host) << 32),
            },
            pauses: 0,
        };
        let point = |host: u16| {
            let seed = cabling.seed ^ u64::from(host) << 32;
            cabling.red.map(|red| CongestionPoint::new(red, seed))
        };
        Ok(Self {
            fabric,
            hosts: (0..hosts).map(host).collect(),
            points: (0..hosts).map(point).collect(),
            drops: cabling.drops.clone(),
            delay: cabling.delay,
            now: Time::ZERO,
        })
    }

    /// Gives a host its sending side.
    ///
    /// # Panics
    /// Panics if there is no such host.
    pub fn set_sender(&mut self, host: u16, sender: Box<dyn Sender>) {
        self.hosts[usize::from(host)].sender = Some(sender);
    }

    /// Gives a host its receiving side for the segments of another host, `from`.
    ///
    /// # Panics
    /// Panics if there is no such host.
    pub fn set_receiving(&mut self, host: u16, from: u16, receiving: Box<dyn Receiving>) {
        self.hosts[usize::from(host)].receiving[usize::from(from)] = Some(receiving);
    }

    /// Returns the current time. Everything before it is done.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Returns the sending side of a host.
    pub fn sender(&self, host: u16) -> Option<&dyn Sender> {
        self.hosts.get(usize::from(host))?.sender.as_deref()
    }

    /// Returns the number of segments of a flow between two hosts that have arrived, each counted once. Returns 0
    /// if there is no such flow.
    pub fn delivered(&self, from: u16, to: u16, flow: u16) -> u64 {
        let host = self.hosts.get(usize::from(to));
        let receiving = host.and_then(|host| host.receiving.get(usize::from(from))?.as_ref());
        receiving.map_or(0, |receiving| receiving.delivered(flow))
    }

    /// Returns the number of cycles computed by all Tonics.
    pub fn cycles(&self) -> u64 {
        self.hosts.iter().filter_map(|host| host.sender.as_ref()).map(|sender| sender.cycles()).sum()
    }

    /// Returns the counters of the switch.
    pub fn stats(&self) -> FabricStats {
        self.fabric.stats()
    }

    /// Returns the bytes that wait at the switch for a host.
    ///
    /// # Panics
    /// Panics if there is no such host.
    pub fn queued_bytes(&self, host: u16) -> u64 {
        self.fabric.queued_bytes(Egress::Host(Port(host)), self.now)
    }

    /// Returns how often the switch has paused a host, for all hosts together.
    pub fn pauses(&self) -> u64 {
        self.hosts.iter().map(|host| host.pauses).sum()
    }

    /// Returns how many data frames to a host the switch has marked, and how many it has seen.
    pub fn marked(&self, host: u16) -> (u64, u64) {
        let point = self.points.get(usize::from(host)).and_then(Option::as_ref);
        point.map_or((0, 0), |point| (point.marked(), point.packets()))
    }

    fn next_event(&self) -> Option<Time> {
        let hosts = self.hosts.iter().filter_map(Host::next_event);
        hosts.chain(self.fabric.next_event()).min()
    }

    /// Does everything that is due before `end`.
    pub fn run(&mut self, end: Time) {
        while let Some(next) = self.next_event().map(|next| next.max(self.now)).filter(|next| *next < end) {
            let until = end.min(next + self.delay);
            self.window(until);
            self.now = until;
        }
        self.now = self.now.max(end);
    }

    fn window(&mut self, until: Time) {
        loop {
            let heads =
                self.hosts.iter().enumerate().filter_map(|(host, of)| Some((of.uplink.next()?, host)));
            let Some((_, host)) = heads.min() else { break };
            let Some((time, frame)) = self.hosts[host].uplink.arrive(until) else { break };
            self.offer(time, host as u16, frame);
        }
        // Times are whole picoseconds, and `until` is not part of the window.
        while let Some(delivery) = self.fabric.poll(Time(until.0 - 1)) {
            self.hosts[usize::from(delivery.port.0)].inbox.push_back(delivery);
        }
        for (number, host) in (0..).zip(&mut self.hosts) {
            while let Some(delivery) = host.inbox.pop_front() {
                host.run(number, delivery.time);
                host.receive(number, delivery, &mut self.drops);
            }
            host.run(number, until);
        }
    }

    /// Passes a frame to the switch. A data frame is marked here by the length of the queue that it finds, because
    /// the fabric's own threshold has no probability.
    fn offer(&mut self, time: Time, from: u16, mut frame: Vec<u8>) {
        if let Some(Contents { source, destination, flow, message: Message::Data { segment, .. }, .. }) =
            frame::read(&frame)
            && let Some(Some(point)) = self.points.get_mut(usize::from(destination))
        {
            let queue = self.fabric.queued_bytes(Egress::Host(Port(destination)), time);
            if point.on_packet(queue, u32::from(source) << 16 | u32::from(flow), segment) {
                frame::mark(&mut frame);
            }
        }
        self.fabric.offer(time, Port(from), frame);
    }
}
