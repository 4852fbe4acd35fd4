//! Tests every operator, width and sign against an independent implementation of the arithmetic.

use proptest::prelude::*;

use super::{Machine, machine, run};

/// Returns a machine that applies an operator to two values of a type.
fn binary(signed: bool, width: u32, operator: &str, result: &str) -> Machine {
    let ty = if signed { format!("int<{width}>") } else { format!("bit<{width}>") };
    let result = if result.is_empty() { &ty } else { result };
    machine(&format!("in {ty} a, in {ty} b, out {result} y"), "", &format!("y = a {operator} b;"))
}

/// Returns the value as a signed or unsigned number.
fn number(value: u128, signed: bool, width: u32) -> i128 {
    let negative = signed && value >> (width - 1) & 1 == 1;
    if negative { value as i128 - (1 << width) } else { value as i128 }
}

fn expected(operator: &str, a: i128, b: i128, signed: bool, width: u32) -> i128 {
    let (least, most) =
        if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) };
    match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "&" => a & b,
        "|" => a | b,
        "^" => a ^ b,
        "|+|" => (a + b).clamp(least, most),
        "|-|" => (a - b).clamp(least, most),
        "<" => (a < b).into(),
        "<=" => (a <= b).into(),
        ">" => (a > b).into(),
        ">=" => (a >= b).into(),
        "==" => (a == b).into(),
        _ => (a != b).into(),
    }
}

const ARITHMETIC: [&str; 8] = ["+", "-", "*", "&", "|", "^", "|+|", "|-|"];
const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

/// Tests all pairs of 4-bit values.
#[test]
fn small_numbers_exhaustively() {
    for signed in [false, true] {
        for operator in ARITHMETIC.into_iter().chain(COMPARISONS) {
            let result = if COMPARISONS.contains(&operator) { "bool" } else { "" };
            let mut machine = binary(signed, 4, operator, result);
            for (a, b) in (0..16).flat_map(|a| (0..16).map(move |b| (a, b))) {
                let wanted = expected(operator, number(a, signed, 4), number(b, signed, 4), signed, 4);
                let found = run(&mut machine, &[("a", a), ("b", b)]);
                assert_eq!(found, wanted as u128 & 15, "{a} {operator} {b}, signed: {signed}");
            }
        }
    }
}

#[test]
fn shifts_exhaustively() {
    for (signed, ty) in [(false, "bit<4>"), (true, "int<4>")] {
        let mut left = machine(&format!("in {ty} a, in bit<4> b, out {ty} y"), "", "y = a << b;");
        let mut right = machine(&format!("in {ty} a, in bit<4> b, out {ty} y"), "", "y = a >> b;");
        for by in 0..16 {
            let mut left_by = machine(&format!("in {ty} a, out {ty} y"), "", &format!("y = a << {by};"));
            let mut right_by = machine(&format!("in {ty} a, out {ty} y"), "", &format!("y = a >> {by};"));
            for a in 0..16 {
                let number = number(a, signed, 4);
                let wanted = [(number << by) as u128 & 15, (number >> by) as u128 & 15];
                let both = [("a", a), ("b", by)];
                assert_eq!([run(&mut left, &both), run(&mut right, &both)], wanted, "{ty} {a} {by}");
                let one = [("a", a)];
                assert_eq!([run(&mut left_by, &one), run(&mut right_by, &one)], wanted, "{ty} {a} {by}");
            }
        }
    }
}

#[test]
fn casts_exhaustively() {
    type Wanted = fn(u128) -> u128;
    let cases: [(&str, &str, Wanted); 6] = [
        ("bit<4>", "bit<6>", |a| a),
        ("bit<4>", "bit<2>", |a| a & 3),
        ("int<4>", "int<6>", |a| if a & 8 == 0 { a } else { a | 0x30 }),
        ("int<4>", "int<2>", |a| a & 3),
        ("int<4>", "bit<4>", |a| a),
        ("bit<4>", "int<4>", |a| a),
    ];
    for (from, to, wanted) in cases {
        let mut machine = machine(&format!("in {from} a, out {to} y"), "", &format!("y = ({to}) a;"));
        for a in 0..16 {
            assert_eq!(run(&mut machine, &[("a", a)]), wanted(a), "{from} to {to} {a}");
        }
    }
}

#[test]
fn concatenation_has_the_sign_of_its_left_side() {
    let mut machine = machine("in int<4> a, in bit<4> b, out bool y", "", "y = a ++ b < 0;");
    assert_eq!(run(&mut machine, &[("a", 8), ("b", 1)]), 1);
    assert_eq!(run(&mut machine, &[("a", 7), ("b", 15)]), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Random widths below 64, so that products fit the oracle.
    #[test]
    fn wide_numbers(
        width in 1u32..63,
        signed: bool,
        operator in prop::sample::select(ARITHMETIC.to_vec()),
        a: u64,
        b: u64,
    ) {
        let all = (1u128 << width) - 1;
        let (a, b) = (u128::from(a) & all, u128::from(b) & all);
        let wanted = expected(operator, number(a, signed, width), number(b, signed, width), signed, width);
        let mut machine = binary(signed, width, operator, "");
        prop_assert_eq!(run(&mut machine, &[("a", a), ("b", b)]), wanted as u128 & all);
    }

    /// A calculation at compile time gives the same result as at run time.
    #[test]
    fn constants_equal_variables(operator in prop::sample::select(ARITHMETIC.to_vec()), a: u8, b: u8) {
        let body = format!("bit<8> v = {a}; if (x == 1) {{ v = {a}; }} y = v {operator} 8w{b}; z = 8w{a} {operator} 8w{b};");
        let mut machine = machine("in bit<8> x, out bit<8> y, out bit<8> z", "", &body);
        let y = run(&mut machine, &[]);
        prop_assert_eq!(y, super::get(&machine, "z"));
    }
}
