//! Hosts with the reference senders. They have no clock and no pipeline. Everything happens at the time of its
//! event.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fabric_model::{Span, Time};
use reference_senders::{Dcqcn, GoBackNSender, LossEvent, NewRenoConfig, NewRenoSender, ReactionPoint};
use tonic_model::{ControlPacket, Kind};

use super::alarms::Alarms;
use super::frame::{self, Contents, Message};
use super::nic::FlowPlan;
use super::sender::{Loss, LossKind, Sender, SenderLog};
use super::uplink::Uplink;

/// Returns the stamp for a time. The stamps of the reference senders count nanoseconds.
const fn stamp(now: Time) -> u32 {
    (now.0 / 1_000) as u32
}

/// Puts a segment onto the cable.
fn send(uplink: &mut Uplink, now: Time, from: u16, to: u16, flow: u16, segment: u64, bytes: usize) {
    let message = Message::Data { segment: segment as u32, stamp: stamp(now) };
    let contents = Contents { source: from, destination: to, flow, marked: false, message };
    let mut buffer = uplink.buffer();
    frame::write(&mut buffer, &contents, bytes);
    uplink.send(now, buffer);
}

/// A flow of TCP.
struct TcpFlow {
    plan: FlowPlan,
    sender: NewRenoSender,
    /// The segments that wait for the cable, and whether they were sent before.
    queue: VecDeque<(u64, bool)>,
}

/// A host with NewReno senders. Segments that the windows allow wait for the cable in one queue per flow. The
/// flows send in round-robin order, like those of a Tonic. At most `places` segments of a flow wait. When one has
/// left, the flow is asked for another.
pub struct NewRenoHost {
    host: u16,
    segment: u64,
    places: usize,
    flows: Vec<TcpFlow>,
    /// The flows with segments that wait, in round-robin order.
    turns: VecDeque<u16>,
    /// The time of the last event. No queued segment leaves before it.
    latest: Time,
    /// The retransmission timers. Before a flow's start: its start.
    alarms: Alarms,
    log: SenderLog,
}

impl NewRenoHost {
    /// Creates a host whose flows have the same settings and an endless supply of data. The `segments` of a plan
    /// are ignored.
    #[must_use]
    pub fn new(
        host: u16,
        config: NewRenoConfig,
        places: usize,
        flows: Vec<FlowPlan>,
        watched: Option<u16>,
    ) -> Self {
        let log = SenderLog::new(flows.len(), watched);
        let mut alarms = Alarms::default();
        for (flow, plan) in (0..).zip(&flows) {
            alarms.set(flow, Some(plan.start));
        }
        let open = |plan| TcpFlow { plan, sender: NewRenoSender::new(config), queue: VecDeque::new() };
        Self {
            host,
            segment: config.segment,
            places,
            flows: flows.into_iter().map(open).collect(),
            turns: VecDeque::new(),
            latest: Time::ZERO,
            alarms,
            log,
        }
    }

    /// Queues the segments that a flow may send now, and logs what `loss` has changed.
    fn serve(&mut self, now: Time, number: u16, loss: Option<LossEvent>) {
        let TcpFlow { sender, queue, .. } = &mut self.flows[usize::from(number)];
        self.log.timeouts += u64::from(loss == Some(LossEvent::Timeout));
        if self.log.watches(number) {
            self.log.window(now, sender.cwnd() as f64 / self.segment as f64);
            self.log.losses.extend(loss.map(|loss| Loss {
                picoseconds: now.0,
                kind: match loss {
                    LossEvent::FastRetransmit => LossKind::FastRetransmit,
                    LossEvent::Timeout => LossKind::Timeout,
                },
                segment: (sender.unacknowledged() / self.segment) as u32,
                ssthresh: sender.ssthresh() / self.segment,
            }));
        }
        let had_turn = !queue.is_empty();
        while queue.len() < self.places
            && let Some(sent) = sender.transmit(now)
        {
            queue.push_back((sent.sequence / self.segment, sent.retransmission));
        }
        if !had_turn && !queue.is_empty() {
            self.turns.push_back(number);
        }
        self.alarms.set(number, sender.timer());
    }

    /// Sends a segment of the next flow in round-robin order.
    fn depart(&mut self, now: Time, uplink: &mut Uplink) {
        let Some(number) = self.turns.pop_front() else { return };
        let flow = &mut self.flows[usize::from(number)];
        let Some((segment, again)) = flow.queue.pop_front() else { return };
        send(uplink, now, self.host, flow.plan.destination, number, segment, self.segment as usize);
        self.log.transmission(now, number, segment as u32, again);
        if !flow.queue.is_empty() {
            self.turns.push_back(number);
        }
        self.serve(now, number, None);
    }
}

impl Sender for NewRenoHost {
    fn next_event(&self) -> Option<Time> {
        let departure = (!self.turns.is_empty()).then_some(self.latest);
        departure.into_iter().chain(self.alarms.next()).min()
    }

    fn receive(&mut self, now: Time, packet: ControlPacket, _uplink: &mut Uplink) {
        let Some(flow) = self.flows.get_mut(packet.flow.index()) else { return };
        if packet.kind == Kind::Ack {
            let nanos = stamp(now).wrapping_sub(packet.data);
            let acknowledgment = u64::from(packet.cumulative.0) * self.segment;
            let loss = flow.sender.on_ack(now, acknowledgment, Some(Span::from_nanos(nanos.into())));
            self.serve(now, packet.flow.0, loss);
        }
        self.latest = now;
    }

    fn run(&mut self, end: Time, uplink: &mut Uplink) {
        loop {
            // A segment that is already queued leaves as soon as the cable is free.
            let departure = uplink.free().max(self.latest);
            let departure = (!self.turns.is_empty() && departure < end).then_some(departure);
            let limit = departure.unwrap_or(end);
            if let Some((now, number)) = self.alarms.ring(limit) {
                let loss = self.flows[usize::from(number)].sender.on_timer(now);
                self.latest = self.latest.max(now);
                self.serve(now, number, loss);
            } else if let Some(now) = departure {
                self.depart(now, uplink);
            } else {
                return;
            }
        }
    }

    fn log(&self) -> &SenderLog {
        &self.log
    }
}

/// A flow of RoCE.
struct RoceFlow {
    plan: FlowPlan,
    point: ReactionPoint,
    segments: GoBackNSender,
    /// The time at which the rate allows the next segment.
    ready: Time,
    /// True if the flow waits for the cable or for its rate, and not for its window.
    scheduled: bool,
}

/// A host with DCQCN senders and one rate limiter per flow. The flows whose rates allow a segment send in
/// round-robin order.
pub struct DcqcnHost {
    host: u16,
    segment_bytes: usize,
    flows: Vec<RoceFlow>,
    /// The flows that wait for their rate.
    waiting: BinaryHeap<Reverse<(Time, u16)>>,
    /// The flows that wait for the cable, in round-robin order.
    turns: VecDeque<u16>,
    alarms: Alarms,
    log: SenderLog,
}

impl DcqcnHost {
    /// Creates a host whose flows have the same settings and an endless supply of data. `window` is the largest
    /// number of segments that go-back-N has in flight. The `segments` of a plan are ignored.
    #[must_use]
    pub fn new(
        host: u16,
        parameters: Dcqcn,
        (window, timeout): (u64, Span),
        segment_bytes: usize,
        flows: Vec<FlowPlan>,
        watched: Option<u16>,
    ) -> Self {
        let log = SenderLog::new(flows.len(), watched);
        let waiting = (0..).zip(&flows).map(|(flow, plan)| Reverse((plan.start, flow))).collect();
        let open = |plan: FlowPlan| RoceFlow {
            plan,
            point: ReactionPoint::new(parameters),
            segments: GoBackNSender::new(window, timeout),
            ready: plan.start,
            scheduled: true,
        };
        let flows = flows.into_iter().map(open).collect();
        Self { host, segment_bytes, flows, waiting, turns: VecDeque::new(), alarms: Alarms::default(), log }
    }

    /// Returns when the next segment can leave.
    fn next_departure(&self, uplink: &Uplink) -> Option<Time> {
        if self.turns.is_empty() {
            self.waiting.peek().map(|Reverse((ready, _))| uplink.free().max(*ready))
        } else {
            Some(uplink.free())
        }
    }

    /// Sends a segment of the next flow in round-robin order.
    fn depart(&mut self, now: Time, uplink: &mut Uplink) {
        while let Some(&Reverse((_, flow))) = self.waiting.peek().filter(|Reverse((ready, _))| *ready <= now)
        {
            self.waiting.pop();
            self.turns.push_back(flow);
        }
        let Some(number) = self.turns.pop_front() else { return };
        let flow = &mut self.flows[usize::from(number)];
        flow.scheduled = false;
        let Some((segment, again)) = flow.segments.transmit(now) else { return };
        send(uplink, now, self.host, flow.plan.destination, number, segment, self.segment_bytes);
        self.log.transmission(now, number, segment as u32, again);
        let bits = 8.0 * self.segment_bytes as f64;
        let gap = Span((bits * 1e12 / flow.point.rate()) as u64);
        // The rate limiter saves up the credit of at most one segment.
        flow.ready = flow.ready.max(Time(now.0.saturating_sub(gap.0))) + gap;
        flow.point.on_sent(self.segment_bytes as u64);
        self.schedule(now, number);
    }

    /// Schedules a flow if its window allows a segment, and sets its alarm.
    fn schedule(&mut self, now: Time, number: u16) {
        let flow = &mut self.flows[usize::from(number)];
        if !flow.scheduled && flow.segments.may_send() {
            flow.scheduled = true;
            self.waiting.push(Reverse((flow.ready, number)));
        }
        let timers = flow.point.timer().into_iter().chain(flow.segments.timer());
        self.alarms.set(number, timers.min());
        if self.log.watches(number) {
            self.log.rate(now, flow.point.rate());
        }
    }
}

impl Sender for DcqcnHost {
    fn next_event(&self) -> Option<Time> {
        // The cable may become free later than this. A result that is too early is allowed.
        let ready = self.waiting.peek().map(|Reverse((ready, _))| *ready);
        let ready = if self.turns.is_empty() { ready } else { Some(Time::ZERO) };
        ready.into_iter().chain(self.alarms.next()).min()
    }

    fn receive(&mut self, now: Time, packet: ControlPacket, _uplink: &mut Uplink) {
        let Some(flow) = self.flows.get_mut(packet.flow.index()) else { return };
        let next = u64::from(packet.cumulative.0);
        match packet.kind {
            Kind::Ack => flow.segments.on_ack(now, next),
            Kind::Nack => flow.segments.on_nack(now, next),
            Kind::Cnp => {
                flow.point.on_notification(now);
                self.log.notification(now, packet.flow.0);
            }
            Kind::Pull => {}
        }
        self.schedule(now, packet.flow.0);
    }

    fn run(&mut self, end: Time, uplink: &mut Uplink) {
        loop {
            let departure = self.next_departure(uplink).filter(|time| *time < end);
            // Timers are handled before a segment that leaves at the same time.
            let limit = departure.map_or(end, |time| Time(time.0 + 1));
            if let Some((now, number)) = self.alarms.ring(limit) {
                let flow = &mut self.flows[usize::from(number)];
                flow.point.on_timer(now);
                let expired = flow.segments.timer().is_some_and(|timer| timer <= now);
                self.log.timeouts += u64::from(expired);
                flow.segments.on_timer(now);
                self.schedule(now, number);
            } else if let Some(now) = departure {
                self.depart(now, uplink);
            } else {
                return;
            }
        }
    }

    fn log(&self) -> &SenderLog {
        &self.log
    }
}
