//! The ports and fields of Tonic's outputs in a trace.

use clocked::trace::{Field, Port, Traced};

use super::engine::TonicOutput;
use super::packet::SegmentAddress;

const FLOW: Field = Field { name: "flow", width: 11 };
const SEGMENT: Field = Field { name: "segment", width: 32 };
const RETRANSMISSION: Field = Field { name: "retransmission", width: 1 };
const ADDRESS: &[Field] = &[FLOW, SEGMENT, RETRANSMISSION];

const fn address(name: &'static str) -> Port {
    Port { name, fields: ADDRESS }
}

const fn flow(name: &'static str) -> Port {
    Port { name, fields: &[FLOW] }
}

impl Traced for TonicOutput {
    const PORTS: &'static [Port] = &[
        flow("select"),
        address("generate"),
        address("credit_enqueue"),
        flow("credit_select"),
        address("credit_transmit"),
        address("transmit"),
        flow("decrement"),
        Port {
            name: "incoming",
            fields: &[
                FLOW,
                Field { name: "cumulative_ack", width: 32 },
                Field { name: "window_start_before", width: 32 },
                Field { name: "window_size_before", width: 9 },
                Field { name: "next_new_seen", width: 32 },
                Field { name: "newly_acked", width: 9 },
                Field { name: "mark", width: 1 },
                Field { name: "reset_timer", width: 1 },
                Field { name: "window_size_after", width: 9 },
            ],
        },
        flow("timeout"),
    ];

    fn valid_ports(&self, mut port: impl FnMut(usize, &[u64])) {
        let addresses =
            [(1, self.generate), (2, self.credit_enqueue), (4, self.credit_transmit), (5, self.transmit)];
        let flows = [(0, self.select), (3, self.credit_select), (6, self.decrement), (8, self.timeout)];
        for number in 0..Self::PORTS.len() {
            if let Some((_, Some(flow))) = flows.iter().find(|(of, _)| *of == number) {
                port(number, &[flow.0.into()]);
            }
            let address = addresses.iter().find(|(of, _)| *of == number);
            if let Some((_, Some(SegmentAddress { flow, segment, retransmission }))) = address {
                port(number, &[flow.0.into(), segment.0.into(), (*retransmission).into()]);
            }
            if let (7, Some(record)) = (number, &self.incoming) {
                port(number, &record.fields());
            }
        }
    }
}
