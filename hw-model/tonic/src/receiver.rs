//! The receiver: it answers the segments that arrive with control packets (section 2.1: "reuse modules from the
//! sender to implement a receiver solely for generating" these).

use clocked::{Cycle, RingBitmap};
use serde::{Deserialize, Serialize};

use transport_common::bitmap::Bitmap128;
use transport_common::ids::Psn;
use transport_common::packet_delivery::ReceiveWindow;

use super::packet::{ControlPacket, FlowId, Kind, Segment, SegmentAddress};

/// A segment that arrives, whole or trimmed to its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The address of the segment.
    pub address: SegmentAddress,
    /// The cycle in which it left the sender.
    pub sent: Cycle,
    /// True if a switch has removed the payload.
    pub trimmed: bool,
    /// True if a switch has marked it as "congestion experienced".
    pub marked: bool,
}

/// The way in which a receiver answers segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Each segment is answered by a cumulative acknowledgment. Its data is the cycle in which the segment was
    /// sent.
    Cumulative,
    /// As `Cumulative`, and a segment out of order is also acknowledged selectively.
    Selective,
    /// A segment in order is answered by an acknowledgment. The first segment out of order is answered by a
    /// negative acknowledgment. Segments out of order are discarded.
    GoBackN,
    /// A segment in order is answered by an acknowledgment. A segment out of order is answered by a negative
    /// acknowledgment that names it.
    Irn,
    /// A whole segment is answered by an acknowledgment, a trimmed one by a negative acknowledgment. Each is also
    /// answered by a pull. Pulls are numbered from 1.
    Ndp,
    /// Each segment is answered by an acknowledgment with Falcon's receive bitmap. Its data is the cycle in which
    /// the segment was sent. Trimmed segments are ignored, because Falcon does not know trimming.
    Falcon,
}

/// The receiver's state of a flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The lowest segment that has not arrived.
    next: Segment,
    /// The segments after `next` that have arrived.
    beyond: RingBitmap<4>,
    /// True if a negative acknowledgment for `next` was sent.
    nacked: bool,
    /// Falcon's receive window, the type of the datapath.
    window: ReceiveWindow,
    pulls: u32,
    /// The first cycle in which the next congestion notification may be sent.
    next_cnp: Cycle,
}

/// A receiver for the segments of all flows.
#[derive(Clone, Debug)]
pub struct Receiver {
    answer: Answer,
    cnp_interval: u64,
    flows: Vec<Flow>,
    delivered: u64,
    duplicates: u64,
}

impl Receiver {
    /// Creates a receiver for `flows` flows whose first segment has the number `first`. It sends a congestion
    /// notification for marked segments at most once per `cnp_interval` cycles and flow.
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

    /// Returns the number of segments received for the first time.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the number of segments received again.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns the lowest segment of a flow that has not arrived.
    pub fn next(&self, flow: FlowId) -> Segment {
        self.flows[flow.index()].next
    }

    /// Takes a segment and passes the answers to `send`.
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
        // A receiver keeps as many segments as its bitmap has bits. It ignores segments beyond that.
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
