//! The receiver's side: it makes control packets of what arrives (section 2.1: "reuse modules from the sender to
//! implement a receiver solely for generating" these).

use clocked::{Cycle, RingBitmap};
use serde::{Deserialize, Serialize};

use transport_common::bitmap::Bitmap128;
use transport_common::ids::Psn;
use transport_common::packet_delivery::ReceiveWindow;

use super::packet::{ControlPacket, FlowId, Kind, Segment, SegmentAddress};

/// A segment that arrives, whole or trimmed to its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Which.
    pub address: SegmentAddress,
    /// When it left the sender.
    pub sent: Cycle,
    /// A switch has cut off the payload.
    pub trimmed: bool,
    /// A switch has marked it: congestion experienced.
    pub marked: bool,
}

/// How a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Each segment with a cumulative acknowledgment; the data is the cycle in which it was sent.
    Cumulative,
    /// The same, and a segment out of order with a selective acknowledgment too.
    Selective,
    /// In order with an acknowledgment; the first segment out of order with a negative one. Nothing out of order
    /// is kept.
    GoBackN,
    /// In order with an acknowledgment; out of order with a negative one that names the segment.
    Irn,
    /// Whole segments with an acknowledgment, trimmed ones with a negative one; either with a pull, numbered from 1.
    Ndp,
    /// Each segment with an acknowledgment that carries Falcon's receive bitmap; the data is the cycle in which the
    /// segment was sent. Of trimmed ones Falcon knows nothing.
    Falcon,
}

/// What the receiver keeps of a flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The lowest segment that has not arrived.
    next: Segment,
    /// What has arrived beyond.
    beyond: RingBitmap<4>,
    /// A negative acknowledgment for `next` is out.
    nacked: bool,
    /// Falcon's receive window: the datapath's own.
    window: ReceiveWindow,
    pulls: u32,
    /// When the next congestion notification may be sent.
    next_cnp: Cycle,
}

/// Receives the segments of all flows.
#[derive(Clone, Debug)]
pub struct Receiver {
    answer: Answer,
    cnp_interval: u64,
    flows: Vec<Flow>,
    delivered: u64,
    duplicates: u64,
}

impl Receiver {
    /// For `flows` flows whose first segment has the number `first`. A flow is sent a congestion notification for
    /// marked segments at most once in `cnp_interval` cycles.
    #[must_use]
    pub fn new(answer: Answer, flows: usize, first: Segment, cnp_interval: u64) -> Self {
        let flow = Flow {
            next: first,
            beyond: RingBitmap::EMPTY,
            nacked: false,
            window: ReceiveWindow::new(Psn(first.0), Bitmap128::WIDTH),
            pulls: 0,
            next_cnp: Cycle::ZERO,
        };
        Self { answer, cnp_interval, flows: vec![flow; flows], delivered: 0, duplicates: 0 }
    }

    /// Segments received for the first time.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Segments that were there already.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// The lowest segment of a flow that has not arrived.
    pub fn next(&self, flow: FlowId) -> Segment {
        self.flows[flow.index()].next
    }

    /// Takes a segment and hands the answers to `send`.
    pub fn receive(&mut self, now: Cycle, arrival: &Arrival, mut send: impl FnMut(ControlPacket)) {
        let SegmentAddress { flow: id, segment, .. } = arrival.address;
        let flow = &mut self.flows[id.index()];
        if arrival.marked && flow.next_cnp <= now {
            flow.next_cnp = now + self.cnp_interval;
            let cumulative = flow.next;
            send(ControlPacket {
                flow: id,
                kind: Kind::Cnp,
                cumulative,
                selective: None,
                bitmap: [0; 2],
                data: 0,
            });
        }
        let offset = segment.after(flow.next) as i32;
        // A receiver keeps as many segments as its bitmap has bits; others it never saw.
        if offset >= RingBitmap::<4>::BITS as i32 {
            return;
        }
        let in_order = offset == 0;
        let keeps = !arrival.trimmed && offset >= 0 && (in_order || self.answer != Answer::GoBackN);
        let new = keeps && !flow.beyond.get(segment.0);
        if new {
            flow.beyond.set(segment.0);
            while flow.beyond.get(flow.next.0) {
                flow.beyond.clear(flow.next.0);
                flow.next = flow.next.plus(1);
            }
            self.delivered += 1;
        } else if !arrival.trimmed && (offset < 0 || keeps) {
            self.duplicates += 1;
        }
        let out_of_order = offset > 0;
        let selective = (out_of_order && keeps).then_some(segment);
        let ack = ControlPacket {
            flow: id,
            kind: Kind::Ack,
            cumulative: flow.next,
            selective,
            bitmap: [0; 2],
            data: 0,
        };
        match self.answer {
            Answer::Cumulative => send(ControlPacket { selective: None, data: arrival.sent.0 as u32, ..ack }),
            Answer::Selective => send(ControlPacket { data: arrival.sent.0 as u32, ..ack }),
            Answer::GoBackN if out_of_order => {
                if !flow.nacked {
                    flow.nacked = true;
                    send(ControlPacket { kind: Kind::Nack, ..ack });
                }
            }
            Answer::GoBackN => {
                flow.nacked = false;
                send(ack);
            }
            Answer::Irn if out_of_order => send(ControlPacket { kind: Kind::Nack, ..ack }),
            Answer::Irn => send(ack),
            Answer::Falcon if arrival.trimmed => {}
            Answer::Falcon => {
                flow.window.acknowledge(Psn(segment.0));
                let (cumulative, bitmap) = (Segment(flow.window.base.0), flow.window.acknowledged.words());
                let data = arrival.sent.0 as u32;
                send(ControlPacket { cumulative, selective: None, bitmap, data, ..ack });
            }
            Answer::Ndp => {
                let kind = if arrival.trimmed { Kind::Nack } else { Kind::Ack };
                send(ControlPacket { kind, data: segment.0, ..ack });
                flow.pulls = flow.pulls.wrapping_add(1);
                send(ControlPacket { kind: Kind::Pull, data: flow.pulls, ..ack });
            }
        }
    }
}
