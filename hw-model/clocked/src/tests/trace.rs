//! Text and VCD traces of a few cycles.

use std::io::BufReader;

use vcd::{Command, Value};

use crate::Cycle;
use crate::trace::{Field, Port, TextTrace, Traced, VcdTrace};

struct Outputs {
    select: Option<u64>,
    generate: Option<(u64, u64)>,
}

impl Traced for Outputs {
    const PORTS: &'static [Port] = &[
        Port { name: "select", fields: &[Field { name: "flow", width: 4 }] },
        Port {
            name: "generate",
            fields: &[Field { name: "flow", width: 4 }, Field { name: "segment", width: 8 }],
        },
    ];

    fn valid_ports(&self, mut port: impl FnMut(usize, &[u64])) {
        if let Some(flow) = self.select {
            port(0, &[flow]);
        }
        if let Some((flow, segment)) = self.generate {
            port(1, &[flow, segment]);
        }
    }
}

const CYCLES: [(Cycle, Outputs); 3] = [
    (Cycle(0), Outputs { select: Some(1), generate: None }),
    (Cycle(2), Outputs { select: Some(2), generate: Some((1, 200)) }),
    (Cycle(3), Outputs { select: None, generate: Some((2, 0)) }),
];

#[test]
fn text_has_a_line_for_each_valid_port() {
    let mut text = Vec::new();
    let mut trace = TextTrace::new(&mut text);
    for (now, outputs) in &CYCLES {
        trace.record(*now, outputs).expect("a vector takes everything");
    }
    assert_eq!(
        String::from_utf8(text).expect("text"),
        "0 select flow=1\n2 select flow=2\n2 generate flow=1 segment=200\n3 generate flow=2 segment=0\n"
    );
}

/// A parser reads the dump back and checks what the wires hold in each cycle.
#[test]
fn vcd_holds_the_same() {
    let mut dump = Vec::new();
    let mut trace = VcdTrace::new::<Outputs>(&mut dump, "tonic", 10_000).expect("a vector takes everything");
    for (now, outputs) in &CYCLES {
        trace.record(*now, outputs).expect("a vector takes everything");
    }
    trace.finish(Cycle(4)).expect("a vector takes everything");

    let mut parser = vcd::Parser::new(BufReader::new(&dump[..]));
    let header = parser.parse_header().expect("a header");
    let code = |path: &[&str]| header.find_var(path).expect("the wire exists").code;
    let wires = [
        code(&["tonic", "select", "valid"]),
        code(&["tonic", "select", "flow"]),
        code(&["tonic", "generate", "valid"]),
        code(&["tonic", "generate", "flow"]),
        code(&["tonic", "generate", "segment"]),
    ];
    let mut values = [0u64; 5];
    let mut history = Vec::new();
    for command in parser {
        let mut store = |code, bits: &mut dyn Iterator<Item = Value>| {
            let place = wires.iter().position(|wire| *wire == code).expect("a declared wire");
            values[place] = bits.fold(0, |value, bit| value << 1 | u64::from(bit == Value::V1));
        };
        match command.expect("well-formed") {
            Command::Timestamp(time) => history.push((time, values)),
            Command::ChangeScalar(code, bit) => store(code, &mut [bit].into_iter()),
            Command::ChangeVector(code, bits) => store(code, &mut bits.iter()),
            _ => {}
        }
    }
    history.push((u64::MAX, values));
    // Each entry holds the values up to that time. The select of cycle 0 ends at cycle 1, which was skipped.
    let times: Vec<_> = history.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [0, 0, 10_000, 20_000, 30_000, 40_000, 40_000, u64::MAX]);
    let held: Vec<_> = history[2..].iter().map(|(_, values)| *values).collect();
    assert_eq!(held[0], [1, 1, 0, 0, 0]);
    assert_eq!(held[1], [0, 1, 0, 0, 0]);
    assert_eq!(held[2], [1, 2, 1, 1, 200]);
    assert_eq!(held[3], [0, 2, 1, 2, 0]);
    assert_eq!(held[5], [0, 2, 0, 2, 0]);
}
