//! The receiving side of a host.

use clocked::Cycle;
use fabric_model::{Span, Time};
use reference_senders::{GoBackNAnswer, GoBackNReceiver, NotificationPoint, TcpAck, TcpReceiver};
use tonic_model::{
    Answer, Arrival, ControlPacket, FlowId, Frequency, Kind, Receiver, Segment, SegmentAddress,
};

use super::alarms::Alarms;

/// A segment that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// The flow.
    pub flow: u16,
    /// The number of the segment.
    pub segment: u32,
    /// The stamp that its sender wrote into it.
    pub stamp: u32,
    /// True if it is marked as "congestion experienced".
    pub marked: bool,
    /// True if a switch has removed its payload.
    pub trimmed: bool,
}

/// The receiver of the segments of one sending host.
pub trait Receiving {
    /// Returns when the receiver may answer without a new segment.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Handles a segment that has arrived. Passes the answers to `answer`.
    fn on_segment(&mut self, now: Time, arrived: &Arrived, answer: &mut dyn FnMut(ControlPacket));

    /// Returns the next answer that is due before `end`, and its time.
    fn due(&mut self, _end: Time) -> Option<(Time, ControlPacket)> {
        None
    }

    /// Returns the number of segments of a flow that have arrived, each counted once.
    fn delivered(&self, flow: u16) -> u64;
}

/// TCP receivers, one per flow.
#[derive(Debug)]
pub struct TcpReceiving {
    flows: Vec<TcpReceiver>,
    alarms: Alarms,
}

impl TcpReceiving {
    /// Creates `flows` receivers. For the other parameters see [`TcpReceiver::new`].
    #[must_use]
    pub fn new(flows: usize, delay: Option<Span>, window: u64) -> Self {
        Self { flows: vec![TcpReceiver::new(delay, window); flows], alarms: Alarms::default() }
    }

    fn packet(flow: u16, ack: TcpAck) -> ControlPacket {
        ControlPacket {
            flow: FlowId(flow),
            kind: Kind::Ack,
            cumulative: Segment(ack.next as u32),
            selective: None,
            data: ack.echo,
            bitmap: [0; 2],
        }
    }
}

impl Receiving for TcpReceiving {
    fn next_event(&self) -> Option<Time> {
        self.alarms.next()
    }

    fn on_segment(&mut self, now: Time, arrived: &Arrived, answer: &mut dyn FnMut(ControlPacket)) {
        let Some(receiver) = self.flows.get_mut(usize::from(arrived.flow)) else { return };
        if arrived.trimmed {
            return;
        }
        if let Some(ack) = receiver.on_segment(now, arrived.segment.into(), arrived.stamp) {
            answer(Self::packet(arrived.flow, ack));
        }
        self.alarms.set(arrived.flow, receiver.timer());
    }

    fn due(&mut self, end: Time) -> Option<(Time, ControlPacket)> {
        while let Some((now, flow)) = self.alarms.ring(end) {
            let receiver = &mut self.flows[usize::from(flow)];
            let ack = receiver.on_timer(now);
            self.alarms.set(flow, receiver.timer());
            if let Some(ack) = ack {
                return Some((now, Self::packet(flow, ack)));
            }
        }
        None
    }

    fn delivered(&self, flow: u16) -> u64 {
        self.flows[usize::from(flow)].delivered()
    }
}

/// RoCE receivers with DCQCN's notification points, one per flow.
#[derive(Debug)]
pub struct RoceReceiving {
    flows: Vec<(GoBackNReceiver, NotificationPoint)>,
}

impl RoceReceiving {
    /// Creates `flows` receivers. A flow is notified at most once per `interval`.
    #[must_use]
    pub fn new(flows: usize, interval: Span) -> Self {
        Self { flows: vec![(GoBackNReceiver::default(), NotificationPoint::new(interval)); flows] }
    }
}

impl Receiving for RoceReceiving {
    fn on_segment(&mut self, now: Time, arrived: &Arrived, answer: &mut dyn FnMut(ControlPacket)) {
        let Some((receiver, point)) = self.flows.get_mut(usize::from(arrived.flow)) else { return };
        let packet = |kind, next: u64| ControlPacket {
            flow: FlowId(arrived.flow),
            kind,
            cumulative: Segment(next as u32),
            selective: None,
            data: 0,
            bitmap: [0; 2],
        };
        if arrived.marked && point.on_marked(now) {
            answer(packet(Kind::Cnp, receiver.next()));
        }
        if arrived.trimmed {
            return;
        }
        match receiver.on_segment(arrived.segment.into()) {
            Some(GoBackNAnswer::Ack(next)) => answer(packet(Kind::Ack, next)),
            Some(GoBackNAnswer::Nack(next)) => answer(packet(Kind::Nack, next)),
            None => {}
        }
    }

    fn delivered(&self, flow: u16) -> u64 {
        self.flows[usize::from(flow)].0.next()
    }
}

/// Tonic's own receiver, for the protocols that have no reference.
#[derive(Debug)]
pub struct TonicReceiving {
    receiver: Receiver,
    clock: Frequency,
    /// True if the protocol can use trimmed segments. Otherwise a trimmed segment counts as lost.
    knows_trimming: bool,
}

impl TonicReceiving {
    /// Creates a receiver for `flows` flows. It counts cycles of `clock`, and notifies a flow at most once per
    /// `cnp_interval` cycles.
    #[must_use]
    pub fn new(answer: Answer, flows: usize, clock: Frequency, cnp_interval: u64) -> Self {
        let receiver = Receiver::new(answer, flows, Segment(0), cnp_interval);
        Self { receiver, clock, knows_trimming: answer == Answer::Ndp }
    }
}

impl Receiving for TonicReceiving {
    fn on_segment(&mut self, now: Time, arrived: &Arrived, answer: &mut dyn FnMut(ControlPacket)) {
        if arrived.trimmed && !self.knows_trimming {
            return;
        }
        let address = SegmentAddress {
            flow: FlowId(arrived.flow),
            segment: Segment(arrived.segment),
            retransmission: false,
        };
        let arrival = Arrival {
            address,
            // The receiver echoes the low 32 bits.
            sent: Cycle(arrived.stamp.into()),
            trimmed: arrived.trimmed,
            marked: arrived.marked,
        };
        self.receiver.receive(Cycle(now.0 / self.clock.period_ps()), &arrival, answer);
    }

    fn delivered(&self, flow: u16) -> u64 {
        // This counts only the segments below the first missing one. At the end of a run these are all segments.
        self.receiver.next(FlowId(flow)).0.into()
    }
}
