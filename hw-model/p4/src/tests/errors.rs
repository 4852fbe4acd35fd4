//! Tests programs with errors: the position, and that the message says what to do.

use super::{PRELUDE, Program, source};

/// Returns the error message for a program, and asserts that its position is within the source.
fn refused(locals: &str, body: &str) -> String {
    let source = source("in bit<8> a, in int<8> s, out bit<8> y", locals, body);
    let error = Program::compile(&source).err().unwrap_or_else(|| panic!("accepted: {body}"));
    let line = source.lines().nth(error.line as usize - 1).unwrap_or("");
    assert!(error.column as usize <= line.chars().count() + 1, "{error} in `{line}`");
    error.kind.to_string()
}

fn refused_body(body: &str) -> String {
    refused("", body)
}

#[test]
fn places_are_lines_and_columns() {
    let text = "control P(in bit<8> a);\npackage E(P p);\n// \u{e4}\ncontrol T(in bit<8> a) {\n  apply { /*\u{e4}*/ b = 1; }\n}\nE(T()) main;";
    let error = Program::compile(text).unwrap_err();
    assert_eq!(error.to_string(), "line 5, column 17: `b` is not declared: declare it above this line");
}

#[test]
fn loops_division_and_the_like_are_no_part_of_it() {
    for (body, what) in [
        ("for (bit<8> i = 0; i < 8; i = i + 1) { y = i; }", "a loop"),
        ("y = a / 2;", "division"),
        ("y = a % 2;", "division"),
        ("y = 1; return;", "`return`"),
        ("y = 1; exit;", "`exit`"),
        ("switch (a) { 1: { y = 1; } }", "`switch`"),
    ] {
        let message = refused_body(body);
        assert!(message.starts_with(&format!("{what} is not part of this subset: ")), "{body}: {message}");
    }
    let enumeration = Program::compile("enum bit<2> e { A = 1 }").unwrap_err();
    assert!(enumeration.to_string().contains("an enumeration is not part"), "{enumeration}");
    let directive = Program::compile("#include <core.p4>").unwrap_err();
    assert!(directive.to_string().contains("preprocessor"), "{directive}");
}

/// Recursion is impossible, because a name is known only after its declaration.
#[test]
fn recursion_has_no_name_to_call() {
    let itself = refused("action act() { act(); }", "y = 1;");
    assert_eq!(itself, "`act` is not declared: declare it above this line");
    let each_other = refused("action one() { two(); } action two() { one(); }", "one(); y = 1;");
    assert_eq!(each_other, "`two` is not declared: declare it above this line");
    let control = format!(
        "{PRELUDE}control B(in bit<8> a); package E(B b);\n\
         control T(in bit<8> a) {{ T() t; apply {{ t.apply(a); }} }}\nE(T()) main;"
    );
    assert!(Program::compile(&control).is_err());
}

#[test]
fn types_are_not_mixed() {
    for (body, message) in [
        (
            "y = a + 16w1;",
            "expected bit<8>, found bit<16>: cast it, as in `(bit<8>)(...)`, or change the declaration",
        ),
        (
            "y = s;",
            "expected bit<8>, found int<8>: cast it, as in `(bit<8>)(...)`, or change the declaration",
        ),
        (
            "y = a + (bit<8>) s + s;",
            "expected bit<8>, found int<8>: cast it, as in `(bit<8>)(...)`, or change the declaration",
        ),
        (
            "y = (bit<4>) s;",
            "int<8> cannot be cast to bit<4>: cast in two steps, first the width and then the sign",
        ),
        ("y = 256;", "256 does not fit bit<8>: use a wider type or a smaller number"),
        ("y = a + -1;", "-1 does not fit bit<8>: use a wider type or a smaller number"),
        (
            "if (a) y = 1; else y = 2;",
            "expected bool, found bit<8>: cast it, as in `(bool)(...)`, or change the declaration",
        ),
        ("y = !a;", "`!` does not work on bit<8>: it needs bool"),
        ("y = a << s;", "`<<` does not work on int<8>: it needs an unsigned distance: cast it to bit<W>"),
        (
            "y = 1 << a;",
            "`<<` does not work on int: it needs a value with a width, as in 32w1, unless both sides are known",
        ),
        ("y = a << -1;", "`<<` does not work on -1: it needs a distance of 0 or more"),
        ("y = ~1;", "`~` does not work on int: it needs bit<W> or int<W>"),
        ("y = a[8:1];", "[8:1] is not a slice of bit<8>: write the upper bit first, and count bits from 0"),
        ("y = a[1:2];", "[1:2] is not a slice of bit<8>: write the upper bit first, and count bits from 0"),
        ("bit<129> w; y = 1;", "129 is not a width: use 1 to 128 bits"),
        ("bit<0> w; y = 1;", "0 is not a width: use 1 to 128 bits"),
        ("bit<(a)> w; y = 1;", "this must be known when the program is compiled: use numbers and constants"),
        (
            "const bit<8> C = a; y = C;",
            "this must be known when the program is compiled: use numbers and constants",
        ),
    ] {
        assert_eq!(refused_body(body), message, "{body}");
    }
}

#[test]
fn every_value_is_assigned_before_it_is_read() {
    let read = "`v` may have no value here: assign it on every path to this line";
    assert_eq!(refused_body("bit<8> v; y = v;"), read);
    assert_eq!(refused_body("bit<8> v; if (a > 1) { v = 1; } y = v;"), read);
    assert_eq!(refused_body("bit<8> v; v[3:0] = 1; y = 1;"), read);
    let out = "the `out` parameter `y` may have no value at the end: assign it on every path";
    assert_eq!(refused_body("if (a > 1) { y = 1; }"), out);
    let table = "action one() { y = 1; } action two() { }
        table t { key = { a : exact; } actions = { one; two; } default_action = two(); }";
    assert_eq!(refused(table, "t.apply();"), out);
    assert_eq!(refused("action get(out bit<8> r) { }", "get(y);").split('`').nth(3), Some("r"));
}

#[test]
fn only_variables_are_written() {
    assert!(refused_body("a = 1; y = 1;").starts_with("`a` cannot be written"));
    assert!(refused_body("a + 1 = 1; y = 1;").starts_with("this expression cannot be written"));
    assert!(refused("const bit<8> C = 1;", "C = 2; y = 1;").starts_with("`C` is not"));
    assert!(refused("action act(in bit<8> p) { p = 1; }", "y = 1;").starts_with("`p` cannot be written"));
    assert!(
        refused("action act(out bit<8> p) { p = 1; }", "act(a); y = 1;").starts_with("`a` cannot be written")
    );
}

#[test]
fn calls_have_all_their_arguments() {
    let cells = "register<bit<8>>(4) cells;";
    assert_eq!(refused("register<bit<8>>() cells;", "y = 1;"), "`cells` takes 1 arguments, found 0");
    assert_eq!(refused(cells, "cells.read(y);"), "`read` takes 2 arguments, found 1");
    assert_eq!(refused(cells, "cells.write(1, a, 2); y = 1;"), "`write` takes 2 arguments, found 3");
    let table = "action one() { y = 1; }
        table t { key = { a : exact; } actions = { one; } default_action = one(); }";
    assert_eq!(refused(table, "t.apply(a);"), "`t` takes 0 arguments, found 1");
}

#[test]
fn tables_make_sense() {
    let with = |properties: &str| {
        let locals = format!(
            "action set(bit<8> v) {{ y = v; }} action in_(in bit<8> v) {{ y = v; }} table t {{ {properties} }}"
        );
        refused(&locals, "t.apply();")
    };
    let key = "key = { a : exact; } actions = { set; }";
    assert_eq!(with(key), "the table has no `default_action`: add it");
    assert_eq!(with("actions = { set; } default_action = set(1);"), "the table has no `key`: add it");
    assert_eq!(with("key = { a : exact; } default_action = set(1);"), "the table has no `actions`: add it");
    assert!(
        with("key = { a : exact; } actions = { in_; } default_action = in_(1);").contains("with a direction")
    );
    assert!(
        with("key = { a : fuzzy; } actions = { set; } default_action = set(1);").contains("`fuzzy` is not")
    );
    let entry = |kind: &str, entry: &str| {
        with(&format!(
            "key = {{ a : {kind}; }} actions = {{ set; }} default_action = set(0); const entries = {{ {entry} }}"
        ))
    };
    assert!(entry("exact", "1 &&& 3 : set(1);").starts_with("an exact match is one value"));
    assert!(entry("exact", "1 : set(1); 1 : set(2);").starts_with("an entry above matches the same"));
    assert!(entry("exact", "(1, 2) : set(1);").starts_with("give one match for each field"));
    assert!(entry("lpm", "1 &&& 0x81 : set(1);").starts_with("an lpm match is"));
    assert!(entry("range", "3 .. 1 : set(1);").starts_with("a range is"));
    assert!(entry("ternary", "1 .. 3 : set(1);").starts_with("a ternary match is"));
    assert!(entry("exact", "300 : set(1);").starts_with("300 does not fit"));
    assert!(entry("exact", "1 : set(300);").starts_with("300 does not fit"));
    assert!(entry("exact", "1 : set();").starts_with("`set` takes 1 arguments, found 0"));
    assert!(entry("exact", "1 : in_(1);").starts_with("`in_` is not among the table's actions"));
    assert!(
        refused(
            &format!("action set(bit<8> v) {{ y = v; }} table t {{ {key} default_action = set(1); }}"),
            "t.apply(); t.apply();"
        )
        .starts_with("`t` is applied twice")
    );
}

#[test]
fn what_nothing_calls_makes_sense_too() {
    assert!(refused("action unused() { y = 1 + true; }", "y = 1;").starts_with("expected bool"));
    let control = "control Unused(in bit<8> a) { apply { bit<8> v = missing; } }";
    let text = format!("{control}\n{}", source("out bit<8> y", "", "y = 1;"));
    assert_eq!(Program::compile(&text).unwrap_err().line, 1);
}
