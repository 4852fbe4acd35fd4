//! Writes the outputs of the cache to a trace.

use clocked::trace::{Field, Port, Traced};

use super::command::{CacheOutput, Operation};

const CID: Field = Field { name: "cid", width: 24 };
const EVENT: Field = Field { name: "event", width: 3 };
const ENTRY: Field = Field { name: "entry", width: 20 };
const fn state(name: &'static str) -> Field {
    Field { name, width: 2 }
}
const fn bit(name: &'static str) -> Field {
    Field { name, width: 1 }
}

impl<T> Traced for CacheOutput<T> {
    const PORTS: &'static [Port] = &[
        Port { name: "issued", fields: &[CID, EVENT, bit("second_pass")] },
        Port { name: "processed", fields: &[CID, ENTRY, bit("network"), bit("first_pass")] },
        Port { name: "dropped", fields: &[CID] },
        Port { name: "transition", fields: &[CID, EVENT, state("from"), state("to"), bit("waits")] },
        Port { name: "on_chip", fields: &[CID, bit("write")] },
        Port { name: "off_chip", fields: &[CID, bit("write")] },
        Port { name: "flush_busy", fields: &[] },
    ];

    fn valid_ports(&self, mut port: impl FnMut(usize, &[u64])) {
        if let Some(issued) = &self.issued {
            port(0, &[issued.cid.0.into(), issued.event as u64, issued.second_pass.into()]);
        }
        if let Some(processed) = &self.processed {
            let [source, first_pass] = [processed.source as u64, processed.first_pass.into()];
            port(1, &[processed.command.cid.0.into(), processed.entry.into(), source, first_pass]);
        }
        if let Some(command) = &self.dropped {
            port(2, &[command.cid.0.into()]);
        }
        if let Some(of) = &self.transition {
            let states = [of.from as u64, of.to as u64];
            port(3, &[of.cid.0.into(), of.event as u64, states[0], states[1], of.waits.into()]);
        }
        for (side, request) in self.memory.iter().enumerate() {
            if let Some((cid, operation)) = request {
                port(4 + side, &[cid.0.into(), (*operation == Operation::Write).into()]);
            }
        }
        if self.flush_busy {
            port(6, &[]);
        }
    }
}
