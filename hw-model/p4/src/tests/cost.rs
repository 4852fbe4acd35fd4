//! Tests the report with programs whose cost can be counted by hand.

use super::{Program, source};
use crate::{Operation, Report};

fn report(locals: &str, body: &str) -> Report {
    let text = source("in bit<8> a, in bit<8> b, out bit<16> y", locals, body);
    Program::compile(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).report().clone()
}

fn count(report: &Report, operation: Operation) -> u32 {
    report.operations.get(&operation).copied().unwrap_or(0)
}

#[test]
fn wires_cost_nothing() {
    let report = report("", "y = (a ++ b)[11:4] ++ a[3:0] ++ b[7:4] << 2;");
    assert_eq!((report.total, report.depth, report.stages), (0, 0, 0));
}

#[test]
fn depth_is_the_longest_chain() {
    let report = report("", "bit<8> c = a + b; bit<8> d = c ^ 1; bit<8> e = a & b; y = (bit<16>) (d |+| e);");
    assert_eq!((report.total, report.depth, report.stages), (4, 3, 3));
    let chain: Vec<_> = report.chain.iter().map(|link| link.operation).collect();
    assert_eq!(chain, [Operation::Add, Operation::Logic, Operation::SaturatingAdd]);
    assert_eq!(report.operations_by_stage, [2, 1, 1]);
}

/// Both branches and the condition are calculated in parallel. Then one branch is selected.
#[test]
fn a_branch_is_a_selection() {
    let report = report("", "bit<8> c = a; if (a > b) { c = a + 1; } else { c = b - 1; } y = (bit<16>) c;");
    assert_eq!((report.total, report.depth), (4, 2));
    assert_eq!(count(&report, Operation::Select), 1);
    let only_one =
        self::report("", "bit<8> c = a; if (a > b) { c = b; bit<8> unused = a; } y = (bit<16>) c;");
    assert_eq!((only_one.total, count(&only_one, Operation::Select)), (2, 1));
}

#[test]
fn multipliers_have_the_size_of_what_they_multiply() {
    let report = report("", "y = (bit<16>) a * (bit<16>) b[3:0]; y = y * y;");
    let sizes: Vec<_> = report.multipliers.iter().map(|kind| (kind.narrow, kind.wide, kind.count)).collect();
    assert_eq!(sizes, [(4, 8, 1), (12, 12, 1)]);
    let wide = super::source("in bit<40> a, out bit<80> y", "", "y = (bit<80>) a * (bit<80>) a;");
    assert_eq!(Program::compile(&wide).unwrap().report().stages, 3, "40 bits by 16");
}

#[test]
fn a_table_is_a_lookup_and_a_selection_of_its_actions() {
    let locals = "bit<8> c = 0; action one(bit<8> v) { c = v; } action two() { c = c + 1; }
        table t { key = { a : exact; b : ternary; } actions = { one; two; } default_action = two();
                  const entries = { (1, _) : one(2); } }";
    let report = report(locals, "t.apply(); y = (bit<16>) c;");
    assert_eq!((report.total, report.depth, count(&report, Operation::Lookup)), (3, 2, 1));
    let table = &report.tables[0];
    assert_eq!((table.entries, table.key_bits, table.match_bits, table.data_bits), (1, 16, 32, 9));
}

/// A register write waits until its condition is known.
#[test]
fn writes_wait_for_conditions() {
    let report = report("register<bit<8>>(4) cells;", "if (a > b) { cells.write(1, a); } y = 0;");
    assert_eq!((report.depth, count(&report, Operation::RegisterWrite), report.register_bits), (2, 1, 32));
}
