//! Swift in P4.

use crate::p4::swift::{SOURCE, SwiftProgram, differential, generate};

#[test]
fn tables_are_what_the_generator_makes() {
    let made = generate::regenerate(SOURCE);
    let difference = SOURCE.lines().zip(made.lines()).enumerate().find(|(_, (file, made))| file != made);
    assert_eq!(difference, None, "run `cargo run -p hw-model --example swift-p4-tables`");
    assert!(made == SOURCE);
    for part in generate::PARTS {
        assert_eq!(SOURCE.matches(&format!("// made: {part}\n")).count(), 1, "{part}");
    }
}

/// Every bit of every result, and PLB's counters. The experiment `p4-swift` does the same with millions.
#[test]
fn equals_the_core_bit_for_bit() {
    let comparison = differential::compare(60_000, 1, &mut |_| {}).unwrap();
    assert_eq!(comparison.differences, 0, "{}", comparison.first_difference.unwrap_or_default());
    assert!(comparison.is_thorough(), "{comparison:?}");
}

/// The comparison sees what is wrong: each change to the program shows in some result.
#[test]
fn a_wrong_program_is_found() {
    for (right, wrong) in [
        ("bool grows = delay <= target;", "bool grows = delay < target;"),
        ("(bit<63>) (previous >> 1)", "0"),
        ("0x7fff;", "0x8000;"),
        ("(rest >= (bit<63>) divisor ? 23w1 : 0)", "0"),
        ("0xff : set_start(1025);", "0xff : set_start(1300);"),
        ("counters[23:14] |+| event", "counters[23:14] + event"),
        ("(smoothed_rtt |+| 0x8000)", "(smoothed_rtt + 0x7fff)"),
        ("        newton(m, y);\n        root", "        root"),
        ("exhausted ? DECREASE : INCREASE", "INCREASE"),
        ("? event.t4 - rtt : marker;", "? event.t4 : marker;"),
        ("+ (bit<40>) gap_half)", "+ 0)"),
        ("if (packets == 1023 || ", "if ("),
    ] {
        assert_eq!(SOURCE.matches(right).count(), 1, "{right}");
        let program = SwiftProgram::with_source(&SOURCE.replace(right, wrong)).unwrap();
        let comparison = differential::compare_with(program, 60_000, 1, &mut |_| {}).unwrap();
        assert!(comparison.differences > 0, "{wrong}");
    }
}

/// The defaults of the program are those of D-78: without an entry for its profile a connection has them.
#[test]
fn the_defaults_are_those_of_the_core() {
    use transport_common::congestion::algorithm::EngineState;
    use transport_common::congestion::parameters::Prepared;
    use transport_common::congestion::result::Outcome;
    use transport_common::congestion::swift::swift;

    let mut program = SwiftProgram::new().unwrap();
    let mut random = crate::p4::swift::RandomEvents::new(3);
    let mut engine = EngineState::default();
    for _ in 0..2_000 {
        let event = random.event(9, &Prepared::DEFAULT, None);
        let (mut expected, mut found) = (Outcome::default(), Outcome::default());
        swift(&event, &mut engine, &Prepared::DEFAULT, &mut expected);
        program.update(&event, &mut found);
        assert_eq!(expected, found, "{event:?}");
    }
}

/// What the model says of the program is what can be counted by hand.
#[test]
fn the_report_counts_memory() {
    let program = SwiftProgram::new().unwrap();
    let report = program.program().report();
    let bits: Vec<_> =
        report.tables.iter().map(|table| (table.name.as_str(), table.match_bits, table.data_bits)).collect();
    let profile = 21 * 3
        + 17 * 2
        + 11 * 3
        + 17 * 2
        + 5
        + 21
        + 17
        + 4
        + 17 * 2
        + 24
        + 25
        + 3
        + 24
        + 1
        + 46 * 2
        + 34
        + 40
        + 12;
    let expected = [
        ("profile", 0, 16 * profile),
        ("scale", 21 * 42, 21 * 4),
        ("normalise", 40 * 80, 40 * 6),
        ("reciprocal", 0, 256 * 11),
        ("gap", 0, 1024 * 64),
        ("level", 0, 32 * 22),
    ];
    assert_eq!(bits, expected);
    assert_eq!(report.register_bits, 4096 * 24);
    assert_eq!(report.operations_by_stage.len(), report.stages as usize);
    assert_eq!(report.operations_by_stage.iter().sum::<u32>(), report.total);
    assert_eq!(report.chain.len(), report.depth as usize);
    assert_eq!(
        report.multipliers.iter().map(|kind| kind.count).sum::<u32>(),
        report.operations[&crate::p4::Operation::Multiply]
    );
}
