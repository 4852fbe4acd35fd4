//! The comparison with the data of the hardware.

use crate::published::{Data, DataError, OPEN_SET, Trace, UserLogic, compare, compare_traces};

fn open_set() -> Data {
    Data::parse(OPEN_SET).expect("the data is well-formed")
}

#[test]
fn latencies_are_the_hardwares() {
    let latency = compare(&open_set()).expect("hardware that exists").latency;
    assert_eq!(latency.difference, None);
    let cycles = |name: &str| latency.cycles[name];
    assert_eq!(cycles("select_to_generate"), (2, 2));
    assert_eq!(cycles("generate_to_transmit"), (10, 10));
    assert_eq!(cycles("select_to_transmit"), (12, 12));
    assert_eq!(cycles("transmit_to_decrement"), (7, 7));
    assert_eq!(cycles("generate_to_decrement"), (17, 17));
    assert_eq!(cycles("ack_at_pin_to_programmable_stage"), (3, 3));
    assert_eq!(cycles("ack_at_pin_to_next_generate"), (6, 6));
    assert_eq!(latency.cycles.len(), 7);
}

#[test]
fn rates_and_order_are_the_hardwares() {
    let rates = compare(&open_set()).expect("hardware that exists").rates;
    let segments: Vec<Vec<_>> = rates.iter().map(|run| run.segments.values().copied().collect()).collect();
    assert_eq!(segments, [vec![(2090, 2090)], vec![(1994, 1994); 2], vec![(997, 997); 4]]);
    assert!(rates.iter().all(|run| run.digest_equal));
}

#[test]
fn traces_are_cycle_exact() {
    let comparison = compare(&open_set()).expect("hardware that exists");
    assert!(comparison.is_equal());
    let traces: Vec<_> = comparison
        .traces
        .iter()
        .map(|trace| (trace.name.as_str(), trace.user_logic, trace.transmissions, trace.user_rows))
        .collect();
    assert_eq!(
        traces,
        [
            ("lossless_two_flows", UserLogic::Recorded, 206, 173),
            ("lossless_two_flows", UserLogic::Published, 206, 173),
            ("single_loss", UserLogic::Recorded, 109, 98),
            ("single_loss", UserLogic::Published, 109, 98),
        ]
    );
    assert!(comparison.traces.iter().all(|trace| trace.difference.is_none()));
}

/// Further traces of the hardware, see `data/README.md`.
const TRACES: &str = include_str!("../../data/tonic-traces.json");

/// Several events of a flow in one cycle, losses, timeouts, selective acknowledgments, a window that shrinks while
/// its flow waits to be processed.
#[test]
fn further_traces_are_cycle_exact() {
    let traces = Trace::parse_list(TRACES).expect("the data is well-formed");
    assert_eq!(traces.len(), 30);
    let compared = compare_traces(&traces).expect("hardware that exists");
    let of_published = traces.iter().filter(|trace| trace.protocol == "nreno_1").count();
    assert_eq!(compared.len(), 30 + of_published, "those of `nreno_1` with their user logic too");
    let differ: Vec<_> = compared.iter().filter(|of| !of.digest_equal || of.difference.is_some()).collect();
    assert!(differ.is_empty(), "{} differ: {differ:#?}", differ.len());
}

/// The comparison finds differences.
#[test]
fn a_difference_is_found() {
    let mut data = open_set();
    data.traces[1].transmit[40].0 += 1;
    data.traces[0].user[20][9] = 1;
    data.rates.runs[0].segments.insert(1, 2089);
    data.rates.runs[1].digest.replace_range(..1, "_");
    data.latency.events.pop();
    data.traces.push(data.traces[1].clone());
    data.traces[2].transmit = open_set().traces[1].transmit.clone();
    data.traces[2].timeout.push(vec![200, 1]);
    let comparison = compare(&data).expect("hardware that exists");
    assert!(!comparison.is_equal());
    let found = |i: usize| comparison.traces[i].difference.as_ref().expect("a difference");
    assert_eq!((found(3).of.as_str(), found(3).equal_rows), ("transmit", 40));
    // With a smaller window, a segment is missing in the run that replays the recorded decisions.
    assert_eq!(found(0).of, "generate");
    assert_eq!((found(1).of.as_str(), found(1).equal_rows), ("user", 20));
    assert_eq!((found(4).of.as_str(), found(4).equal_rows), ("timeout", 0));
    assert_eq!(comparison.rates[0].segments[&1], (2090, 2089));
    assert!(comparison.rates[0].digest_equal && !comparison.rates[1].digest_equal);
    assert_eq!(comparison.latency.difference.expect("an event more").data, None);
}

#[test]
fn foreign_and_truncated_data_is_refused() {
    assert!(matches!(Data::parse(&OPEN_SET[..20_000]), Err(DataError::Form(_))));
    assert!(matches!(Data::parse("{\"pcap\": []}"), Err(DataError::Form(_))));
    let mut data: serde_json::Value = serde_json::from_str(OPEN_SET).expect("well-formed");
    data["traces"][0]["user"][3] = serde_json::json!([1, 2, 3]);
    let error = Data::parse(&data.to_string()).expect_err("a short row");
    assert_eq!(
        error.to_string(),
        "trace lossless_two_flows: a row of `user` has 3 columns, at least 10 are needed"
    );
    let mut data = open_set();
    data.traces[0].n = 7;
    let error = compare(&data).expect_err("no such hardware").to_string();
    assert!(error.starts_with("trace lossless_two_flows: 7 outstanding segments"), "{error}");
    let mut data = open_set();
    data.traces[0].flows = 1023;
    let error = compare(&data).expect_err("the last flow id means none").to_string();
    assert_eq!(error, "trace lossless_two_flows: there is no flow 1023: its number is too high");
}
