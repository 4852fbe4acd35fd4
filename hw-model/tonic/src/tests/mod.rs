//! Tests of Tonic at its pins: packets go in, segment addresses come out.

mod conflicts;
mod credit;
mod experiments;
mod flows;
mod impairments;
mod logic;
mod parameters;
mod protocols;
mod published;
mod report;
mod rules;

use clocked::Cycle;

use super::protocols::{NewReno, Tcp};
use super::{Answer, FlowId, Frequency, Parameters, Path, Protocol, Receiver, Segment, Testbed, Tonic};

const CLOCK: Frequency = Frequency { hertz: 100_000_000 };

/// Returns a Tonic on a path. Flows 0 to `flows` - 1 start with segment `first` and have `segments` segments each.
fn testbed<P: Protocol>(
    protocol: P,
    parameters: &Parameters,
    answer: Answer,
    path: Path,
    (flows, first, segments): (u16, Segment, Option<u32>),
) -> Testbed<P> {
    let tonic = Tonic::new(protocol, parameters).expect("hardware that exists");
    let receiver = Receiver::new(answer, flows.into(), first, CLOCK.cycles(50_000));
    let mut testbed = Testbed::new(tonic, receiver, path);
    for flow in 0..flows {
        testbed.tonic_mut().open(Cycle::ZERO, FlowId(flow), first, segments).expect("a new flow");
    }
    testbed
}

/// Returns a NewReno whose window starts at `window` segments and stays there, because this is also the largest
/// window.
fn fixed_window(window: u16) -> NewReno {
    NewReno(Tcp { initial_window: window, max_window: window, ..Tcp::new(CLOCK) })
}
