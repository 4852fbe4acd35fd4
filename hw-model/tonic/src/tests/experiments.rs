//! Runs each experiment. Its claims must hold.

use std::io::BufReader;

use model_experiment::SEED;

use crate::experiments::{ExperimentError, NAMES, Report, Results, compare_with, record, run};

/// Runs an experiment and checks its claims. The experiment about the model's own speed is not run here.
fn holds(name: &str) -> Report {
    let mut last = (0, 0);
    let report = run(name, SEED, &mut |done, all| {
        assert!(done <= all && done >= last.0, "progress goes on");
        last = (done, all);
    })
    .expect("it is in the list");
    assert_eq!(last.0, last.1, "and comes to an end");
    for claim in &report.claims {
        assert!(claim.holds, "{name}: {}: {report:#?}", claim.claim);
    }
    assert!(!report.claims.is_empty());
    let text = serde_json::to_string(&report).expect("numbers and names");
    let read: Report = serde_json::from_str(&text).expect("its own text");
    assert_eq!((read.experiment, read.claims), (report.experiment.clone(), report.claims.clone()));
    report
}

#[test]
fn hardware() {
    holds(NAMES[0]);
}

#[test]
fn saturation() {
    let Results::Saturation(saturation) = holds(NAMES[1]).results else { panic!("another result") };
    // 100 Gb/s of 128-byte segments, and the credit that the flow had when the first segment left.
    let row = &saturation.rate_limited[0];
    let ideal = row.cycles * 125 / 128;
    assert!((ideal..ideal + 16).contains(&row.segments), "{row:?}");
}

#[test]
fn rate_limiter() {
    let Results::RateLimiter(rates) = holds(NAMES[2]).results else { panic!("another result") };
    for row in &rates.rates {
        let off = row.achieved_bits_per_second / row.bits_per_second as f64 - 1.0;
        assert!(off.abs() < 0.01, "{row:?}");
    }
    assert_eq!((rates.single_precision.shortest_gap, rates.single_precision.longest_gap), (1_003, 1_003));
}

#[test]
fn conflicts() {
    holds(NAMES[3]);
}

#[test]
fn protocols() {
    holds(NAMES[4]);
}

#[test]
fn delivery() {
    let Results::Delivery(delivery) = holds(NAMES[5]).results else { panic!("another result") };
    assert_eq!(delivery.rows.len(), 32);
}

#[test]
fn an_unknown_name_is_refused() {
    let error = run("tonic-flight", SEED, &mut |_, _| {}).expect_err("no such experiment");
    assert!(
        error.to_string().starts_with("there is no experiment `tonic-flight`: choose from tonic-hardware, ")
    );
    assert!(matches!(compare_with("{}"), Err(ExperimentError::Data(_))));
}

/// The first lines equal the latencies of the data, and a viewer can read the dump.
#[test]
fn a_run_as_text_and_as_vcd() {
    let (mut text, mut dump) = (Vec::new(), Vec::new());
    record(100, &mut text, &mut dump).expect("vectors take everything");
    let text = String::from_utf8(text).expect("text");
    let lines: Vec<_> = text.lines().take(5).collect();
    assert_eq!(
        lines,
        [
            "0 select flow=1",
            "1 select flow=2",
            "2 generate flow=1 segment=0 retransmission=0",
            "3 select flow=1",
            "3 generate flow=2 segment=0 retransmission=0",
        ]
    );
    assert!(text.contains("12 transmit flow=1 segment=0 retransmission=0\n"));
    assert!(text.contains("19 decrement flow=1\n"));
    let acknowledged = "45 incoming flow=1 cumulative_ack=1 window_start_before=0 window_size_before=10 \
                        next_new_seen=10 newly_acked=1 mark=0 reset_timer=1 window_size_after=11\n";
    assert!(text.contains(acknowledged));

    let mut parser = vcd::Parser::new(BufReader::new(&dump[..]));
    let header = parser.parse_header().expect("a header");
    assert_eq!(header.timescale, Some((1, vcd::TimescaleUnit::PS)));
    let valid = header.find_var(&["tonic", "transmit", "valid"]).expect("the wire exists").code;
    let changes = parser.filter(
        |command| matches!(command, Ok(vcd::Command::ChangeScalar(code, vcd::Value::V1)) if *code == valid),
    );
    assert!(changes.count() >= 2, "the first window, then its acknowledgments");
}
