//! A trace of a short run, as text and as VCD.

use std::io::{self, Write};

use clocked::Cycle;
use clocked::trace::{TextTrace, VcdTrace};

use crate::protocols::{NewReno, Tcp};
use crate::{Answer, FlowId, Frequency, Parameters, Path, Receiver, Segment, Testbed, Tonic, TonicOutput};

/// Writes the events of two NewReno flows in the first `cycles` cycles. Each event is a line of `text` and a
/// change of wires in `vcd`.
///
/// # Errors
/// Returns the errors of the sinks.
pub fn record(cycles: u64, text: impl Write, vcd: impl Write) -> io::Result<()> {
    let clock = Frequency::default();
    let protocol = NewReno(Tcp { initial_window: 10, ..Tcp::new(clock) });
    let tonic = Tonic::<_, 2>::new(protocol, &Parameters::default()).expect("hardware that exists");
    let mut testbed =
        Testbed::new(tonic, Receiver::new(Answer::Cumulative, 3, Segment(0), 1), Path::default());
    for flow in [1, 2] {
        testbed.tonic_mut().open(Cycle::ZERO, FlowId(flow), Segment(0), None).expect("a new flow");
    }
    let mut text = TextTrace::new(text);
    let mut vcd = VcdTrace::new::<TonicOutput>(vcd, "tonic", clock.period_ps())?;
    while let Some((now, output)) = testbed.step(Cycle(cycles)) {
        text.record(now, &output)?;
        vcd.record(now, &output)?;
    }
    vcd.finish(Cycle(cycles))
}
