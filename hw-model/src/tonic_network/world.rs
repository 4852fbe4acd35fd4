//! Hosts on a switch, and the clock they share.

use std::collections::VecDeque;

use crate::network::{
    ByteCount, ConfigError, Delivery, Egress, Fabric, FabricConfig, FabricStats, Impairments, Port, Rate,
    Span, Time, is_trimmed,
};
use crate::reference_senders::{CongestionPoint, Red};
use crate::tonic::ControlPacket;

use super::drops::DropPattern;
use super::frame::{self, Contents, MIN_FRAME, Message};
use super::receiving::{Arrived, Receiving};
use super::sender::Sender;
use super::uplink::Uplink;

/// Cables and switch.
#[derive(Clone, Debug)]
pub struct Cabling {
    /// Rate of every cable.
    pub rate: Rate,
    /// Delay of every cable in each direction, above 0: a quarter of the round-trip time.
    pub delay: Span,
    /// Bytes the queue towards each host holds.
    pub buffer: ByteCount,
    /// How the switch marks data frames; `None`: not at all.
    pub red: Option<Red>,
    /// What else befalls frames on the way from the switch to a host. Rate, delay and queue are set from the above.
    pub impairments: Impairments,
    /// Which segments receivers' cards drop.
    pub drops: DropPattern,
    /// Decides all that is random on the way.
    pub seed: u64,
}

/// Why a network could not be built.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The fabric's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Without a delay nothing can be computed ahead.
    #[error("cables without delay: a picosecond at least is needed")]
    NoDelay,
}

/// A host.
struct Host {
    sender: Option<Box<dyn Sender>>,
    /// By the host the segments come from.
    receiving: Vec<Option<Box<dyn Receiving>>>,
    uplink: Uplink,
    inbox: VecDeque<Delivery>,
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

    /// Does all that is due before `end` in the order of time.
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
                Self::answer(&mut self.uplink, now, number, from, packet);
            }
        }
    }

    /// A frame has arrived, and all before it is done.
    fn receive(&mut self, number: u16, delivery: Delivery, drops: &mut DropPattern) {
        let Some(contents) = frame::read(&delivery.frame) else { return };
        let now = delivery.time;
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
                    let uplink = &mut self.uplink;
                    receiving.on_segment(now, &arrived, &mut |packet| {
                        Self::answer(uplink, now, number, contents.source, packet);
                    });
                }
            }
        }
        self.uplink.recycle(delivery.frame);
    }
}

/// Hosts joined by one switch.
///
/// Time advances in windows as long as a cable's delay. What leaves a host within a window cannot be at the switch
/// within it, nor what leaves the switch at a host: each host computes a window without a look at the others, and the
/// result is the same as if all went forward in step.
pub struct TonicNetwork {
    fabric: Fabric,
    hosts: Vec<Host>,
    points: Vec<Option<CongestionPoint>>,
    drops: DropPattern,
    delay: Span,
    now: Time,
}

impl TonicNetwork {
    /// `hosts` hosts that neither send nor receive yet.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn new(hosts: u16, cabling: &Cabling) -> Result<Self, NetworkError> {
        if cabling.delay == Span::ZERO {
            return Err(NetworkError::NoDelay);
        }
        let impairments = Impairments {
            rate: Some(cabling.rate),
            delay: cabling.delay,
            queue: cabling.buffer,
            ..cabling.impairments.clone()
        };
        let towards = (0..hosts).map(|host| (host, impairments.clone())).collect();
        let config = FabricConfig { seed: cabling.seed, towards, ..FabricConfig::default() };
        let mut fabric = Fabric::new(hosts, config)?;
        for host in 0..hosts {
            fabric.learn(frame::address(host), Port(host));
        }
        let host = |_| Host {
            sender: None,
            receiving: (0..hosts).map(|_| None).collect(),
            uplink: Uplink::new(cabling.rate, cabling.delay),
            inbox: VecDeque::new(),
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
    /// If there is no such host.
    pub fn set_sender(&mut self, host: u16, sender: Box<dyn Sender>) {
        self.hosts[usize::from(host)].sender = Some(sender);
    }

    /// Gives a host its receiving side for the segments of another.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn set_receiving(&mut self, host: u16, from: u16, receiving: Box<dyn Receiving>) {
        self.hosts[usize::from(host)].receiving[usize::from(from)] = Some(receiving);
    }

    /// All before this instant is done.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// A host's sending side.
    pub fn sender(&self, host: u16) -> Option<&dyn Sender> {
        self.hosts.get(usize::from(host))?.sender.as_deref()
    }

    /// Segments of a flow between two hosts that have arrived, each counted once; 0 if there is no such flow.
    pub fn delivered(&self, from: u16, to: u16, flow: u16) -> u64 {
        let host = self.hosts.get(usize::from(to));
        let receiving = host.and_then(|host| host.receiving.get(usize::from(from))?.as_ref());
        receiving.map_or(0, |receiving| receiving.delivered(flow))
    }

    /// Cycles computed by all Tonics.
    pub fn cycles(&self) -> u64 {
        self.hosts.iter().filter_map(|host| host.sender.as_ref()).map(|sender| sender.cycles()).sum()
    }

    /// Counters of the switch.
    pub fn stats(&self) -> FabricStats {
        self.fabric.stats()
    }

    /// Bytes that wait at the switch for a host.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn queued_bytes(&self, host: u16) -> u64 {
        self.fabric.queued_bytes(Egress::Host(Port(host)), self.now)
    }

    /// Data frames the switch has marked on their way to a host, and all it saw.
    pub fn marked(&self, host: u16) -> (u64, u64) {
        let point = self.points.get(usize::from(host)).and_then(Option::as_ref);
        point.map_or((0, 0), |point| (point.marked(), point.packets()))
    }

    fn next_event(&self) -> Option<Time> {
        let hosts = self.hosts.iter().filter_map(Host::next_event);
        hosts.chain(self.fabric.next_event()).min()
    }

    /// Does all that is due before `end`.
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
        // Instants are whole picoseconds, and `until` is not part of the window.
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

    /// A frame is at the switch: it marks data frames by the queue they find (the fabric's own threshold has no
    /// probability).
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
