//! Tests that no source makes the compiler or a machine panic.

use proptest::prelude::*;

use super::{Machine, PRELUDE, Program, source};

/// Returns a program that uses most constructs.
fn sample() -> String {
    let locals = "\
const int SHIFT = 3;
register<int<12>>(8) cells;
bit<16> total = 0;
action add(in bit<8> x, inout wide_t sum) { sum = sum |+| (wide_t) x; }
action put(bit<4> k, bool b) { total[7:4] = k; if (b) { total = total ^ 0xff00; } else ; }
@name(\"t\") table t {
    key = { a[3:0] : ternary; a[7:4] : range @opt; s : exact; }
    actions = { @tableonly put; }
    size = 4;
    default_action = put(1, true);
    const entries = { (1 &&& 3, 2 .. 5, -1) : put(4, false); (_, _, 8s2) : put(0, true); }
}";
    let body = "\
int<12> cell; cells.read(cell, (bit<32>) a); cells.write(7, cell |-| (int<12>) s);
add(a, total); /* text */ if (!t.apply().hit) { total = total >> SHIFT; }
y = total[7:0] << a[2:0] ++ 1w1 != 8w2 ? (bit<8>) total : (a ++ a)[11:4]; // text";
    format!("typedef bit<16> wide_t;\n{}", source("in bit<8> a, in int<8> s, out bit<8> y", locals, body))
}

fn compile_and_run(text: &str) -> bool {
    let Ok(program) = Program::compile(text) else { return false };
    let fields: Vec<_> = program.ports().map(|port| port.name.to_owned()).collect();
    let mut machine = Machine::new(program);
    for value in [0, 1, 0x55, u128::MAX] {
        for name in &fields {
            super::set(&mut machine, name, value);
        }
        machine.run();
    }
    true
}

#[test]
fn the_sample_is_a_program() {
    if let Err(error) = Program::compile(&sample()) {
        panic!("{error}\n{}", sample());
    }
    assert!(compile_and_run(&sample()));
}

/// Words of P4 programs.
const WORDS: [&str; 70] = [
    "control",
    "apply",
    "action",
    "table",
    "key",
    "actions",
    "entries",
    "default_action",
    "const",
    "size",
    "if",
    "else",
    "in",
    "out",
    "inout",
    "bit<8>",
    "int<4>",
    "bool",
    "int",
    "register<bit<8>>",
    "struct",
    "header",
    "typedef",
    "package",
    "extern",
    "match_kind",
    "exact",
    "ternary",
    "range",
    "lpm",
    "main",
    "true",
    "a",
    "b",
    "y",
    "t",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    ":",
    ",",
    ".",
    "..",
    "=",
    "+",
    "++",
    "|+|",
    "-",
    "|-|",
    "*",
    "&",
    "&&&",
    "|",
    "||",
    "~",
    "!",
    "==",
    "<",
    "<<",
    ">",
    "?",
    "_",
    "0",
    "8w7",
    "300",
    "@",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn random_text(text in "[ -~\n\u{e4}]{0,200}") {
        let _ = Program::compile(&text);
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Program::compile(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_words(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..80)) {
        let words = words.join(" ");
        let _ = Program::compile(&words);
        let _ = Program::compile(&source("in bit<8> a, inout bit<8> b, out bit<8> y", "", &words));
        let _ = Program::compile(&format!("{PRELUDE}{words}"));
    }

    /// Compiles the sample with words removed, doubled, swapped and replaced.
    #[test]
    fn mutated_program(changes in prop::collection::vec((0usize..400, 0u8..4, prop::sample::select(WORDS.to_vec())), 1..6)) {
        let sample = sample();
        let mut words: Vec<&str> = sample.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        for (at, kind, word) in changes {
            let at = at % words.len();
            match kind {
                0 => { words.remove(at); }
                1 => words.insert(at, words[at]),
                2 => { let other = (at * 7 + 3) % words.len(); words.swap(at, other); }
                _ => words[at] = word,
            }
        }
        compile_and_run(&words.concat());
    }
}

/// Depth is limited wherever the grammar nests or chains.
#[test]
fn deep_programs_are_refused() {
    let many = 20_000;
    let nested = [
        format!("y = {}1{};", "(".repeat(many), ")".repeat(many)),
        format!("y = {}a;", "~".repeat(many)),
        format!("y = {}a;", "(bit<8>)".repeat(many)),
        format!("y = a{};", " + 1".repeat(many)),
        format!("y = a{};", "[0:0]".repeat(many)),
        format!("y = a{};", ".f".repeat(many)),
        format!("y = a{};", "()".repeat(many)),
        format!("y = {}1;", "a > 1 ? 8w1 : ".repeat(many)),
        format!("{}y = 1;{}", "{".repeat(many), "}".repeat(many)),
        format!("{} y = 1;", "if (a > 1) ".repeat(many)),
        format!("{} y = 1;", "if (a > 1) y = 2; else ".repeat(many)),
        format!("{}bit<8>{} x;", "register<".repeat(many), ">".repeat(many)),
        format!("bit<{}1{}> x;", "(".repeat(many), ")".repeat(many)),
    ];
    for body in nested {
        let text = source("in bit<8> a, out bit<8> y", "", &body);
        assert!(Program::compile(&text).is_err(), "{}", &body[..40]);
    }
}

/// Chains of calls are deep although the source is not nested.
#[test]
fn chains_of_calls_are_limited() {
    let actions: String = (1..10_000).map(|n| format!("action a{n}() {{ a{}(); }}\n", n - 1)).collect();
    let text = source("out bit<8> y", &format!("action a0() {{ }}\n{actions}"), "a9999(); y = 1;");
    assert!(Program::compile(&text).is_err());
    let doubled: String =
        (1..60).map(|n| format!("action a{n}() {{ a{m}(); a{m}(); }}\n", m = n - 1)).collect();
    let text = source("out bit<8> y", &format!("action a0() {{ y = 1; }}\n{doubled}"), "a59(); y = 1;");
    assert!(Program::compile(&text).is_err());
    let structs: String = (1..10_000).map(|n| format!("struct s{n} {{ s{} x; }}\n", n - 1)).collect();
    let text = format!("struct s0 {{ bit<1> x; }}\n{structs}control C(in s9999 x) {{ apply {{ }} }}");
    assert!(Program::compile(&text).is_err());
    let wide: String = (1..30).map(|n| format!("struct s{n} {{ s{m} x; s{m} y; }}\n", m = n - 1)).collect();
    let text = format!("struct s0 {{ bit<1> x; }}\n{wide}control C(in s29 x) {{ apply {{ }} }}");
    assert!(Program::compile(&text).is_err());
}

#[test]
fn a_large_source_is_refused() {
    assert!(Program::compile(&" ".repeat((1 << 20) + 1)).is_err());
    assert!(Program::compile(&"/*".repeat(1 << 18)).is_err());
    assert!(Program::compile(&"(".repeat(1 << 20)).is_err());
}
