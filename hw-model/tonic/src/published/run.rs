//! Repeats a run of the hardware, with its parameters and with the receiver of the measurement.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use clocked::{Clock, Cycle};
use sha2::{Digest, Sha256};

use crate::{
    ControlPacket, FlowId, Kind, Parameters, Protocol, Rules, Segment, SegmentAddress, Tonic, TonicInput,
    TonicOutput,
};

use super::data::{DataError, Selective};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) name: String,
    pub(super) flows: u16,
    pub(super) n: u8,
    pub(super) max_flows: u16,
    pub(super) ack_delay: u64,
    pub(super) cycles: u64,
    /// The losses: flow, segment, k. The k-th transmission of the segment is lost.
    pub(super) loss: Vec<(u16, u32, u32)>,
    pub(super) selective: Selective,
}

/// An acknowledgment.
struct Answer {
    flow: u16,
    cumulative: u32,
    selective: Option<u32>,
}

/// Acknowledges each segment that is not lost, `ack_delay` cycles later.
struct Receiver<'a> {
    setup: &'a Setup,
    transmissions: BTreeMap<(u16, u32), u32>,
    /// By flow: the lowest segment not received, and the segments received after it.
    received: BTreeMap<u16, (u32, Vec<u32>)>,
    /// The answers in flight, with the cycle in which they arrive.
    under_way: VecDeque<(Cycle, Answer)>,
}

impl Receiver<'_> {
    fn receive(&mut self, now: Cycle, address: SegmentAddress) {
        let (flow, segment) = (address.flow.0, address.segment.0);
        let count = self.transmissions.entry((flow, segment)).or_default();
        *count += 1;
        if self.setup.loss.contains(&(flow, segment, *count)) {
            return;
        }
        let (next, beyond) = self.received.entry(flow).or_default();
        beyond.push(segment);
        while beyond.contains(next) {
            *next += 1;
        }
        let lowest = *next;
        beyond.retain(|segment| *segment >= lowest);
        let selective = match self.setup.selective {
            Selective::None => None,
            Selective::Received => Some(segment),
            Selective::WindowStart => Some(lowest),
        };
        let answer = Answer { flow, cumulative: lowest, selective };
        self.under_way.push_back((now + self.setup.ack_delay, answer));
    }
}

/// The events of a run.
pub(super) struct Events<S> {
    /// The events by cycle. The user state is that after the cycle, of the flow for which a packet was processed.
    pub(super) cycles: Vec<(Cycle, TonicOutput, Option<S>)>,
}

/// Runs a protocol with a setup. `data` returns the data for user logic in the next packet of a flow. `state`
/// returns what to keep of the user state after a packet.
pub(super) fn run<P: Protocol, S>(
    setup: &Setup,
    protocol: P,
    mut data: impl FnMut(u16) -> u32,
    mut state: impl FnMut(&Tonic<P>, FlowId) -> Option<S>,
) -> Result<Events<S>, DataError> {
    let parameters = Parameters {
        flows: setup.max_flows,
        outstanding: setup.n,
        rules: Rules::Published,
        ..Parameters::default()
    };
    let of = || setup.name.clone();
    let tonic =
        Tonic::<P>::new(protocol, &parameters).map_err(|error| DataError::Parameters { of: of(), error })?;
    let mut clock = Clock::new(tonic);
    for flow in 1..=setup.flows {
        let opened = clock.block_mut().open(Cycle::ZERO, FlowId(flow), Segment(0), None);
        opened.map_err(|error| DataError::Flows { of: of(), error })?;
    }
    let mut receiver = Receiver {
        setup,
        transmissions: BTreeMap::new(),
        received: BTreeMap::new(),
        under_way: VecDeque::new(),
    };
    let mut cycles = Vec::new();
    while clock.now() < Cycle(setup.cycles) {
        let now = clock.now();
        let ack = receiver.under_way.pop_front_if(|(due, _)| *due == now);
        let packet = ack.map(|(_, Answer { flow, cumulative, selective })| ControlPacket {
            flow: FlowId(flow),
            kind: Kind::Ack,
            cumulative: Segment(cumulative),
            selective: selective.map(Segment),
            bitmap: [0; 2],
            data: data(flow),
        });
        let output = clock.step(&TonicInput { packet, link_ready: true });
        if let Some(address) = output.transmit {
            receiver.receive(now, address);
        }
        let acked = output.incoming.map(|record| record.packet.flow);
        cycles.push((now, output, acked.and_then(|flow| state(clock.block(), flow))));
    }
    Ok(Events { cycles })
}

impl<S> Events<S> {
    /// Returns a row for each address that `of` finds in a cycle: cycle, flow, segment, is a retransmission.
    pub(super) fn rows(
        &self,
        of: impl Fn(&TonicOutput) -> Option<SegmentAddress>,
    ) -> Vec<(u64, u16, u32, u8)> {
        let row = |(now, output, _): &(Cycle, TonicOutput, Option<S>)| {
            let address = of(output)?;
            Some((now.0, address.flow.0, address.segment.0, address.retransmission.into()))
        };
        self.cycles.iter().filter_map(row).collect()
    }

    /// Returns the SHA-256 of the lines `cycle,flow,segment`, in hexadecimal.
    pub(super) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (cycle, flow, segment, _) in self.rows(|output| output.transmit) {
            hash.update(format!("{cycle},{flow},{segment}\n"));
        }
        hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}
