use super::{get, machine, run, set, value};

#[test]
fn precedence_is_the_standards() {
    assert_eq!(value("bit<8>", "a + b * 2", 1, 3), 7);
    assert_eq!(value("bit<8>", "a << 1 + 1", 1, 0), 4);
    assert_eq!(value("bool", "a & 1 == 1", 3, 0), 1, "& binds tighter than ==");
    assert_eq!(value("bit<8>", "a | b ^ 2 & b", 8, 3), 9);
    assert_eq!(value("bit<8>", "a > b ? a - b : b - a", 3, 5), 2);
    assert_eq!(value("bool", "a == 1 || b == 1 && false", 1, 1), 1);
    assert_eq!(
        value("bit<16>", "(bit<16>) a ++ b == 24w0 ? 16w1 : 16w2", 0, 0),
        1,
        "a cast binds tighter than ++"
    );
    assert_eq!(value("bit<8>", "a >> 1 > b ? 8w1 : 0", 8, 3), 1);
    assert_eq!(value("bit<8>", "a - b - 1", 9, 3), 5);
    assert_eq!(value("bit<8>", "-a + ~b", 1, 0), 254);
}

#[test]
fn numbers_are_written_in_many_ways() {
    for number in ["255", "0xff", "0xFF", "0b1111_1111", "0o377", "8w255", "8w0xFF", "16w0x0FF[7:0]", "0d255"]
    {
        assert_eq!(value("bit<8>", number, 0, 0), 255, "{number}");
    }
}

#[test]
fn constants_are_calculated_exactly() {
    let locals = "const int BIG = 1 << 100; const bit<8> SMALL = (bit<8>) (BIG >> 97);";
    let body = "y = SMALL; bit<(BIG >> 98)> narrow = 3 * 5; z = narrow;";
    let mut machine = machine("out bit<8> y, out bit<4> z", locals, body);
    assert_eq!((run(&mut machine, &[]), get(&machine, "z")), (8, 15));
}

#[test]
fn structs_are_passed_and_copied() {
    let source = "\
struct inner_t { bit<4> low; bit<4> high; }
struct outer_t { inner_t inner; int<8> other; }
control Pipe(in outer_t x, inout outer_t y, out bit<8> z);
package Engine(Pipe pipe);
control Swap(in inner_t a, out inner_t b) { apply { b.low = a.high; b.high = a.low; } }
control Test(in outer_t x, inout outer_t y, out bit<8> z) {
    Swap() swap;
    apply {
        outer_t copy = x;
        swap.apply(copy.inner, y.inner);
        copy.other = y.other;
        z = copy.inner.high ++ copy.inner.low;
    }
}
Engine(Test()) main;";
    let mut machine = super::Machine::new(super::Program::compile(source).unwrap());
    set(&mut machine, "x.inner.low", 3);
    set(&mut machine, "x.inner.high", 12);
    set(&mut machine, "y.other", 77);
    machine.run();
    let outputs = ["y.inner.low", "y.inner.high", "y.other", "z"].map(|name| get(&machine, name));
    assert_eq!(outputs, [12, 3, 77, 0xc3]);
}

/// Arguments are passed by value: a change of the variable in the action does not change the parameter.
#[test]
fn parameters_are_copied_in_and_out() {
    let locals = "\
bit<8> v = 1;
action act(in bit<8> before, inout bit<8> x, out bit<8> sum) { v = 100; x = x + before; sum = before + x; }";
    let mut machine =
        machine("in bit<8> a, out bit<8> y, out bit<8> z", locals, "bit<8> s; act(v, v, s); y = s; z = v;");
    assert_eq!(run(&mut machine, &[("a", 0)]), 3);
    assert_eq!(get(&machine, "z"), 2, "the copy out is last");
}

#[test]
fn registers_keep_their_cells() {
    let mut machine = machine(
        "in bit<32> at, in bit<8> add, out bit<8> y",
        "register<bit<8>>(4) cells;",
        "cells.read(y, at); y = y + add; cells.write(at, y);",
    );
    assert_eq!(run(&mut machine, &[("at", 2), ("add", 200)]), 200);
    assert_eq!(run(&mut machine, &[("at", 2), ("add", 57)]), 1, "cells are as wide as their type");
    assert_eq!(run(&mut machine, &[("at", 3), ("add", 9)]), 9);
    assert_eq!(run(&mut machine, &[("at", 4), ("add", 9)]), 9, "no such cell: 0");
    assert_eq!(run(&mut machine, &[("at", 4), ("add", 9)]), 9);
    assert_eq!(machine.cell("cells", 2), Ok(1));
    machine.set_cell("cells", 2, 0x1ff).unwrap();
    assert_eq!(machine.cell("cells", 2), Ok(255));
    assert!(machine.cell("cells", 4).is_err() && machine.cell("other", 0).is_err());
}

#[test]
fn slices_are_read_and_written() {
    assert_eq!(value("bit<4>", "a[6:3]", 0b0101_1000, 0), 0b1011);
    let mut machine = machine("in bit<8> a, out bit<16> y", "", "y = 0xffff; y[11:4] = a; y[11:4][3:0] = 0;");
    assert_eq!(run(&mut machine, &[("a", 0x5a)]), 0xf50f);
}

#[test]
fn both_sides_of_a_branch_and_what_is_after_it() {
    let body = "\
bit<8> v;
if (a > 10) { v = 1; if (a > 20) v = 2; } else if (a == 5) { v = 3; } else v = 4;
y = v;";
    let mut machine = machine("in bit<8> a, out bit<8> y", "", body);
    for (input, expected) in [(11, 1), (21, 2), (5, 3), (0, 4)] {
        assert_eq!(run(&mut machine, &[("a", input)]), expected, "{input}");
    }
}

/// A name in an action has the meaning that it had at the action's declaration.
#[test]
fn actions_see_the_scope_of_their_declaration() {
    let locals = "const bit<8> N = 1; action act(out bit<8> r) { r = N; }";
    let mut machine = machine("out bit<8> y", locals, "const bit<8> N = 2; act(y);");
    assert_eq!(run(&mut machine, &[]), 1);
}

#[test]
fn the_whole_width_works() {
    let mut machine = machine(
        "in bit<128> a, in bit<128> b, out bit<128> y, out int<128> z",
        "",
        "y = (a * b) >> 64; z = (int<128>) a |+| (int<128>) b;",
    );
    let (a, b) = (u128::MAX, 0x1234_5678_9abc_def0_u128);
    assert_eq!(run(&mut machine, &[("a", a), ("b", b)]), a.wrapping_mul(b) >> 64);
    assert_eq!(get(&machine, "z"), b - 1);
}
