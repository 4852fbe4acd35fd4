//! Tests the language with small programs.

mod cost;
mod errors;
mod language;
mod operators;
mod robustness;
mod tables;

use super::{Machine, Program};

/// The start of every test program.
const PRELUDE: &str = "\
match_kind { exact, ternary, lpm, range }
extern register<T> {
    register(bit<32> size);
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
}
";

/// Returns the source of a program with one control.
fn source(parameters: &str, locals: &str, body: &str) -> String {
    format!(
        "{PRELUDE}control Block({parameters});\npackage Engine(Block block);\n\
         control Test({parameters}) {{\n{locals}\napply {{\n{body}\n}}\n}}\nEngine(Test()) main;\n"
    )
}

fn machine(parameters: &str, locals: &str, body: &str) -> Machine {
    let source = source(parameters, locals, body);
    match Program::compile(&source) {
        Ok(program) => Machine::new(program),
        Err(error) => panic!("{error}\n{source}"),
    }
}

fn set(machine: &mut Machine, name: &str, value: u128) {
    let field = machine.program().field(name).expect("a field of that name");
    machine.set(field, value);
}

fn get(machine: &Machine, name: &str) -> u128 {
    machine.get(machine.program().field(name).expect("a field of that name"))
}

/// Sets inputs, runs the machine once, and returns the output `y`.
fn run(machine: &mut Machine, inputs: &[(&str, u128)]) -> u128 {
    for (name, value) in inputs {
        set(machine, name, *value);
    }
    machine.run();
    get(machine, "y")
}

/// Returns the value of an expression over `a` and `b`, which have 8 bits each.
fn value(ty: &str, expression: &str, a: u128, b: u128) -> u128 {
    let mut machine =
        machine(&format!("in bit<8> a, in bit<8> b, out {ty} y"), "", &format!("y = {expression};"));
    run(&mut machine, &[("a", a), ("b", b)])
}
