//! Tests the text trace of the outputs.

use clocked::trace::TextTrace;

use crate::{CacheInput, Flush, FlushMode, Parameters};
use transport_common::ids::Cid;

use super::{Bench, Log, command};

#[test]
fn a_miss_as_text() {
    let mut parameters = Parameters { connections: 8, ..Parameters::default() };
    (parameters.off_chip.latency, parameters.off_chip.jitter) = (10, 0);
    let mut bench = Bench::new(&parameters);
    let mut text = Vec::new();
    let mut trace = TextTrace::new(&mut text);
    let mut input = CacheInput { network: Some(command(3, 0)), ..CacheInput::default() };
    for _ in 0..40 {
        let now = bench.clock.now();
        let output = bench.cycle(std::mem::take(&mut input), 0).expect("the checker finds no error");
        trace.record(now, &output).expect("memory");
    }
    let flush = Flush { cid: Cid(3), context: Log::default(), mode: FlushMode::Install };
    let input = CacheInput { flush: Some(flush), ..CacheInput::default() };
    bench.cycle(input, 0).expect("accepted");
    let now = bench.clock.now();
    trace.record(now, &bench.cycle(CacheInput::default(), 0).expect("it is issued")).expect("memory");
    let expected = "\
        0 issued cid=3 event=0 second_pass=0\n\
        7 transition cid=3 event=0 from=0 to=1 waits=1\n\
        8 off_chip cid=3 write=0\n\
        18 issued cid=3 event=1 second_pass=0\n\
        25 transition cid=3 event=1 from=1 to=2 waits=0\n\
        26 issued cid=3 event=0 second_pass=1\n\
        32 processed cid=3 entry=0 network=1 first_pass=0\n\
        33 transition cid=3 event=0 from=2 to=2 waits=0\n\
        41 issued cid=3 event=5 second_pass=0\n\
        41 flush_busy\n";
    assert_eq!(String::from_utf8(text).expect("text"), expected);
}
