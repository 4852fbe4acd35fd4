//! Each protocol, compared with its specification packet by packet.

mod dcqcn;
mod falcon;
mod irn;
mod ndp;
mod new_reno;
mod reno;
mod sack;
mod swift;

use clocked::{Clock, Cycle};

use crate::logic::Plain;
use crate::protocols::Tcp;
use crate::{
    ControlPacket, FlowId, FlowStatus, IncomingRecord, Kind, Parameters, Protocol, Segment, Tonic,
    TonicInput, TonicOutput,
};

use super::CLOCK;

const FLOW: FlowId = FlowId(1);

/// A sender. The test plays its receiver.
struct Session<P: Protocol> {
    clock: Clock<Tonic<P>>,
    /// The segments sent since the test last took them.
    sent: Vec<u32>,
}

impl<P: Protocol> Session<P> {
    /// A flow with endless data whose first segments have been sent.
    fn new(protocol: P) -> Self {
        Self::with(protocol, None)
    }

    fn with(protocol: P, segments: Option<u32>) -> Self {
        // With 8 flows, the timers of a flow are checked in every eighth cycle.
        let parameters = Parameters { flows: 8, ..Parameters::default() };
        let mut clock = Clock::new(Tonic::new(protocol, &parameters).expect("hardware that exists"));
        clock.block_mut().open(Cycle::ZERO, FLOW, Segment(0), segments).expect("a new flow");
        let mut session = Self { clock, sent: Vec::new() };
        session.wait(300);
        session
    }

    fn step(&mut self, packet: Option<ControlPacket>) -> TonicOutput {
        let output = self.clock.step(&TonicInput { packet, link_ready: true });
        self.sent.extend(output.transmit.map(|address| address.segment.0));
        output
    }

    /// Runs for a number of cycles.
    fn wait(&mut self, cycles: u64) {
        for _ in 0..cycles {
            self.step(None);
        }
    }

    /// Runs until the timer fires and its effects have occurred.
    fn wait_for_timeout(&mut self) -> Cycle {
        for _ in 0..2_000_000 {
            let now = self.clock.now();
            if self.step(None).timeout.is_some() {
                self.wait(100);
                return now;
            }
        }
        panic!("no timer fires");
    }

    /// Sends a packet, and runs until its effects have occurred.
    fn packet(&mut self, kind: Kind, cumulative: u32, selective: Option<u32>, data: u32) -> IncomingRecord {
        let selective = selective.map(Segment);
        let packet = ControlPacket {
            flow: FLOW,
            kind,
            cumulative: Segment(cumulative),
            selective,
            bitmap: [0; 2],
            data,
        };
        let mut record = self.step(Some(packet)).incoming;
        for _ in 0..60 {
            record = record.or(self.step(None).incoming);
        }
        record.expect("packets are processed")
    }

    /// Sends an acknowledgment that echoes a segment sent 50 cycles ago.
    fn ack(&mut self, cumulative: u32) -> IncomingRecord {
        let echo = self.clock.now().since(Cycle(50)) as u32;
        self.packet(Kind::Ack, cumulative, None, echo)
    }

    /// Sends a cumulative and a selective acknowledgment.
    fn sack(&mut self, cumulative: u32, selective: u32) -> IncomingRecord {
        let echo = self.clock.now().since(Cycle(50)) as u32;
        self.packet(Kind::Ack, cumulative, Some(selective), echo)
    }

    fn sent(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.sent)
    }

    fn status(&self) -> FlowStatus<P::State<Plain<2>>> {
        self.clock.block().status(FLOW).expect("it is open")
    }
}

/// A TCP with an initial window of ten segments and timeouts of at least 10,000 cycles.
fn tcp() -> Tcp {
    Tcp { initial_window: 10, initial_rto: 30_000, min_rto: 10_000, max_rto: 100_000, ..Tcp::new(CLOCK) }
}
