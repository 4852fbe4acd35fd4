//! Tests Swift in P4.

use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::Event;
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::result::Outcome;
use transport_common::congestion::swift::swift;
use transport_common::units::{Fcwnd, Ticks};

use crate::{SOURCE, SwiftProgram, differential, generate};

#[test]
fn tables_are_what_the_generator_makes() {
    let made = generate::regenerate(SOURCE);
    let difference = SOURCE.lines().zip(made.lines()).enumerate().find(|(_, (file, made))| file != made);
    assert_eq!(difference, None, "run `cargo run -p swift-p4 --example swift-p4-tables`");
    assert!(made == SOURCE);
    for part in generate::PARTS {
        assert_eq!(SOURCE.matches(&format!("// made: {part}\n")).count(), 1, "{part}");
    }
}

/// Compares every bit of every result, and PLB's counters. The experiment `p4-swift` does the same with millions
/// of events.
#[test]
fn equals_the_core_bit_for_bit() {
    let comparison = differential::compare(40_000, 1, &mut |_| {}).unwrap();
    assert_eq!(comparison.differences, 0, "{}", comparison.first_difference.unwrap_or_default());
    assert!(comparison.is_thorough(), "{comparison:?}");
}

/// The comparison finds errors: each of these changes to the program changes some result.
#[test]
fn a_wrong_program_is_found() {
    for (right, wrong) in [
        ("bool grows = delay <= target;", "bool grows = delay < target;"),
        ("(bit<63>) (previous >> 1)", "0"),
        ("0x7fff;", "0x8000;"),
        ("0xff : set_start(1025);", "0xff : set_start(1300);"),
        ("counters[23:14] |+| event", "counters[23:14] + event"),
        ("(smoothed_rtt |+| 0x8000)", "(smoothed_rtt + 0x7fff)"),
        ("        newton(m, y);\n        root", "        root"),
        ("exhausted ? DECREASE : INCREASE", "INCREASE"),
        ("? event.t4 - rtt : marker;", "? event.t4 : marker;"),
        ("+ (bit<40>) gap_half)", "+ 0)"),
        ("if (attempts >= p.plb_attempts)", "if (attempts > p.plb_attempts)"),
    ] {
        assert_eq!(SOURCE.matches(right).count(), 1, "{right}");
        let program = SwiftProgram::with_source(&SOURCE.replace(right, wrong)).unwrap();
        let found = (1..=12).any(|seed| {
            let comparison = differential::compare_with(program.clone(), 5_000, seed, &mut |_| {}).unwrap();
            comparison.differences > 0
        });
        assert!(found, "{wrong}");
    }
}

/// Growth with a whole number as its quotient, for odd windows. The reciprocal is never too large. Without the
/// correction it gives a quotient that is one too small.
fn whole_quotients() -> impl Iterator<Item = (Prepared, Event)> {
    (1025u64..2_000_000).step_by(70_002).flat_map(|window| {
        let wanted = (window - (window >> 1)) % window;
        // The increment that gives the required rest when it is multiplied by 1024.
        let increment = (1..window.min(1 << 21)).find(|increment| increment * 1024 % window == wanted);
        increment.and_then(|increment| {
            let parameters = Parameters {
                fabric_additive_increment: Fcwnd(increment as u32),
                max_fcwnd: Fcwnd::MAX,
                ..Parameters::DEFAULT
            };
            let event = Event {
                t4: NicTime(10),
                fcwnd: Fcwnd(window as u32),
                ncwnd: 64,
                num_packets_acked: 1,
                base_delay_target: Ticks(1_000),
                ..Event::default()
            };
            Some((parameters.prepare().ok()?, event))
        })
    })
}

#[test]
fn the_quotient_is_corrected() {
    let wrong = SOURCE.replace("(rest >= (bit<63>) divisor ? 23w1 : 0)", "0");
    assert!(wrong != SOURCE);
    let (mut right, mut wrong) = (SwiftProgram::new().unwrap(), SwiftProgram::with_source(&wrong).unwrap());
    let mut corrected = 0;
    for (parameters, event) in whole_quotients() {
        let mut outcomes = [Outcome::default(); 3];
        swift(&event, &mut EngineState::default(), &parameters, &mut outcomes[0]);
        for (program, outcome) in [&mut right, &mut wrong].into_iter().zip(&mut outcomes[1..]) {
            program.set_parameters(&parameters).unwrap();
            program.update(&event, outcome);
        }
        assert_eq!(outcomes[0], outcomes[1], "{event:?}");
        corrected += u32::from(outcomes[0].fcwnd != outcomes[2].fcwnd);
    }
    assert!(corrected > 10, "{corrected}");
}

/// A connection without an entry for its profile has the program's defaults, which are those of D-78.
#[test]
fn the_defaults_are_those_of_the_core() {
    let mut program = SwiftProgram::new().unwrap();
    let mut random = crate::RandomEvents::new(3);
    let mut engine = EngineState::default();
    for _ in 0..2_000 {
        let event = random.event(9, &Prepared::DEFAULT, None);
        let (mut expected, mut found) = (Outcome::default(), Outcome::default());
        swift(&event, &mut engine, &Prepared::DEFAULT, &mut expected);
        program.update(&event, &mut found);
        assert_eq!(expected, found, "{event:?}");
    }
}

/// The report of the program is equal to numbers counted by hand.
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
        report.operations[&p4_subset::Operation::Multiply]
    );
}
