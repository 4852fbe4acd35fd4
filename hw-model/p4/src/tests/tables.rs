use proptest::prelude::*;

use super::{Machine, machine, run};
use crate::{ChangeError, Match, MatchFault};

/// Returns a machine with a table of one key that sets `y`.
fn table(key: &str, width: u32, entries: &str) -> Machine {
    let locals = format!(
        "action set(bit<8> v) {{ y = v; }}
         table t {{ key = {{ a : {key}; }} actions = {{ set; }} const default_action = set(0);
                    const entries = {{ {entries} }} }}"
    );
    machine(&format!("in bit<{width}> a, out bit<8> y"), &locals, "t.apply();")
}

fn all(machine: &mut Machine, keys: impl IntoIterator<Item = u128>) -> Vec<u128> {
    keys.into_iter().map(|key| run(machine, &[("a", key)])).collect()
}

#[test]
fn exact_matches_are_one_value() {
    for width in [4, 60] {
        let mut machine = table("exact", width, "3 : set(30); 5 : set(50);");
        assert_eq!(all(&mut machine, 2..7), [0, 30, 0, 50, 0]);
    }
}

#[test]
fn of_ternary_matches_the_first_wins() {
    let mut machine =
        table("ternary", 8, "0x80 &&& 0x80 : set(1); 0x40 &&& 0x40 : set(2); 3 : set(3); _ : set(4);");
    assert_eq!(all(&mut machine, [0xff, 0x7f, 3, 0]), [1, 2, 3, 4]);
}

#[test]
fn of_prefixes_the_longest_wins() {
    let mut machine =
        table("lpm", 8, "_ : set(9); 0x80 &&& 0x80 : set(1); 0xc0 &&& 0xf0 : set(2); 0xc1 : set(3);");
    assert_eq!(all(&mut machine, [0, 0x80, 0xff, 0xc0, 0xc1, 0xcf]), [9, 1, 1, 2, 3, 2]);
}

#[test]
fn ranges_include_their_ends() {
    let mut machine = table("range", 8, "3 .. 5 : set(1); 5 .. 255 : set(2);");
    assert_eq!(all(&mut machine, [2, 3, 5, 6, 255]), [0, 1, 1, 2, 2]);
}

#[test]
fn keys_of_several_fields() {
    let locals = "\
action set(bit<8> v) { y = v; }
action none() { y = 99; }
table t {
    key = { a : exact; b + 1 : ternary; c : range; }
    actions = { set; none; }
    default_action = none();
    const entries = { (1, _, 2 .. 3) : set(1); (1, 0x10 &&& 0xf0, _) : set(2); (2, 7, 0) : set(3); }
}";
    let mut machine = machine("in bit<4> a, in bit<8> b, in bit<8> c, out bit<8> y", locals, "t.apply();");
    let mut at = |a, b, c| run(&mut machine, &[("a", a), ("b", b), ("c", c)]);
    let found = [at(1, 50, 2), at(1, 0x1e, 9), at(1, 0x1f, 9), at(2, 6, 0), at(2, 7, 0)];
    assert_eq!(found, [1, 2, 99, 3, 99]);
}

#[test]
fn a_condition_asks_whether_an_entry_matched() {
    for (test, wanted) in [("t.apply().hit", [1, 0]), ("t.apply().miss", [0, 1]), ("!t.apply().hit", [0, 1])]
    {
        let locals = "bit<8> v; action set(bit<8> x) { v = x; }
            table t { key = { a : exact; } actions = { set; } default_action = set(7); entries = { 1 : set(8); } }";
        let mut machine =
            machine("in bit<4> a, out bit<8> y", locals, &format!("if ({test}) y = 1; else y = 0;"));
        assert_eq!(all(&mut machine, [1, 2]), wanted, "{test}");
    }
}

#[test]
fn entries_come_and_go_at_run_time() {
    let locals = "action set(bit<8> v) { y = v; }
        table t { key = { a : exact; } actions = { set; } size = 2; default_action = set(7); }
        table c { key = { a : exact; } actions = { set; } const default_action = set(7);
                  const entries = { 1 : set(1); } }";
    let mut machine = machine("in bit<4> a, out bit<8> y", locals, "c.apply(); t.apply();");
    machine.insert("t", &[Match::Value(1)], "set", &[10]).unwrap();
    assert_eq!(all(&mut machine, [1, 2]), [10, 7]);
    machine.set_default("t", "set", &[6]).unwrap();
    let duplicate = machine.insert("t", &[Match::Value(1)], "set", &[11]);
    assert_eq!(duplicate, Err(ChangeError::Match(MatchFault::Duplicate)));
    assert_eq!(machine.insert("t", &[Match::Any], "set", &[11]), Err(MatchFault::Exact.into()));
    assert!(matches!(machine.insert("t", &[Match::Value(2)], "set", &[256]), Err(ChangeError::Action(_))));
    assert_eq!(machine.insert("t", &[Match::Value(16)], "set", &[1]), Err(MatchFault::Width.into()));
    assert!(matches!(machine.insert("c", &[Match::Value(2)], "set", &[1]), Err(ChangeError::Constant(_))));
    assert!(matches!(machine.set_default("c", "set", &[1]), Err(ChangeError::Constant(_))));
    machine.insert("t", &[Match::Value(2)], "set", &[20]).unwrap();
    assert_eq!(machine.insert("t", &[Match::Value(3)], "set", &[1]), Err(MatchFault::Full.into()));
    assert_eq!(all(&mut machine, [1, 2, 3]), [10, 20, 6]);
    machine.clear("t").unwrap();
    assert_eq!(all(&mut machine, [1, 2, 3]), [6, 6, 6]);
}

/// Each instance has its own tables and registers.
#[test]
fn instances_are_named_by_their_path() {
    let source = "\
match_kind { exact }
control Pipe(in bit<4> a, out bit<8> y);
package Engine(Pipe pipe);
control Inner(in bit<4> a, out bit<8> r) {
    action set(bit<8> v) { r = v; }
    table t { key = { a : exact; } actions = { set; } default_action = set(0); }
    apply { t.apply(); }
}
control Test(in bit<4> a, out bit<8> y) {
    Inner() one;
    Inner() two;
    apply { bit<8> x; one.apply(a, x); two.apply(a, y); y = y + x; }
}
Engine(Test()) main;";
    let mut machine = Machine::new(super::Program::compile(source).unwrap());
    machine.insert("one.t", &[Match::Value(3)], "set", &[1]).unwrap();
    machine.insert("two.t", &[Match::Value(3)], "set", &[10]).unwrap();
    assert_eq!(all(&mut machine, [3, 4]), [11, 0]);
    let names: Vec<_> = machine.program().report().tables.iter().map(|table| table.name.clone()).collect();
    assert_eq!(names, ["one.t", "two.t"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Compares lookups of random prefixes with a search of all entries.
    #[test]
    fn longest_prefix_is_found(prefixes in prop::collection::hash_map((any::<u8>(), 0u32..=8), any::<u8>(), 0..20)) {
        let mut machine = machine(
            "in bit<8> a, out bit<8> y",
            "action set(bit<8> v) { y = v; }
             table t { key = { a : lpm; } actions = { set; } default_action = set(0); }",
            "t.apply();",
        );
        let mut kept: Vec<(u8, u32, u8)> = Vec::new();
        for ((prefix, length), result) in prefixes {
            let mask = !(0xffu32 >> length) as u8;
            let entry = [Match::Mask((prefix & mask).into(), mask.into())];
            let is_new = !kept.iter().any(|(other, bits, _)| *bits == length && *other == prefix & mask);
            prop_assert_eq!(machine.insert("t", &entry, "set", &[result.into()]).is_ok(), is_new);
            if is_new {
                kept.push((prefix & mask, length, result));
            }
        }
        for key in 0..=255u8 {
            let matching = kept.iter().filter(|(prefix, length, _)| key & !(0xffu32 >> length) as u8 == *prefix);
            let wanted = matching.max_by_key(|(_, length, _)| *length).map_or(0, |(_, _, result)| *result);
            prop_assert_eq!(run(&mut machine, &[("a", key.into())]), u128::from(wanted));
        }
    }
}
