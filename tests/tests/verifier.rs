//! Checks that the programs do not take more verifier work, stack and instructions than before.

use std::path::Path;

use anyhow::{Result, ensure};
use aya::EbpfLoader;
use tiercel_tests::need_root;
use tiercel_tests::ratchet::{Column, Line, complaints};
use tiercel_tests::verifier::{PROGRAMS, costs, costs_of};

/// The recorded cost of each program: verified instructions, stack, instructions. Another compiler release may
/// change them slightly, see [`COLUMNS`]. If you make a program more expensive on purpose, raise its line and
/// give the reason in the commit. If you make it cheaper, lower its line.
const RATCHET: [Line<3>; PROGRAMS.len()] = [
    ("wire", [148_263, 464, 19_164]),
    ("engine", [145_135, 432, 15_068]),
    ("redeliver", [77_706, 320, 9_443]),
    ("exchange", [219, 192, 189]),
    ("wire_recorded", [247_009, 544, 22_890]),
    ("engine_recorded", [241_492, 544, 18_461]),
    ("redeliver_recorded", [112_967, 448, 12_578]),
];

/// The verifier's work changes much with small changes of the code.
const COLUMNS: [Column; 3] = [
    Column { unit: "verified instructions", slack: 10, both_ways: false },
    Column { unit: "bytes of stack", slack: 0, both_ways: false },
    Column { unit: "instructions", slack: 3, both_ways: false },
];
/// The largest number of instructions that the verifier walks.
const MOST_VERIFIED: u32 = 1_000_000;

#[test]
#[ignore = "needs root: cargo xtask test"]
fn no_program_costs_more_than_it_did() -> Result<()> {
    need_root();
    let costs = costs()?;
    println!(
        "{:<20} {:>9} of {MOST_VERIFIED} {:>9} {:>12} {:>16}",
        "program", "verified", "stack, B", "instructions", "machine code, B"
    );
    for (name, cost) in &costs {
        println!(
            "{name:<20} {:>20} {:>9} {:>12} {:>16}",
            cost.verified, cost.stack, cost.translated, cost.machine_code
        );
    }
    let costs: Vec<_> = costs
        .iter()
        .map(|(name, cost)| (*name, [cost.verified, cost.stack, cost.translated].map(u64::from)))
        .collect();
    let complaints = complaints(&COLUMNS, &RATCHET, &costs);
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}

/// The cargo feature `bpf-log`, and `tiercel up --bpf-log`: the kernel also accepts the programs with all their
/// log messages.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn programs_that_tell_of_rare_events_load() -> Result<()> {
    need_root();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bpf-log");
    std::fs::create_dir_all(&directory)?;
    bpf_build::build(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../transport-ebpf"), &directory, &["log"])?;
    let object = std::fs::read(directory.join("tiercel-ebpf"))?;
    let loaded = EbpfLoader::new().override_global("AYA_LOG_LEVEL", &u8::MAX, true).load(&object)?;
    let (telling, silent) = (costs_of(&object, loaded)?, costs()?);
    for ((name, telling), (_, silent)) in telling.iter().zip(&silent) {
        println!(
            "{name:<20} {:>9} verified instructions, {} when it tells nothing",
            telling.verified, silent.verified
        );
    }
    // The log code exists: the programs that refuse packets and lock connections are longer.
    ensure!(telling[0].1.translated > silent[0].1.translated, "wire tells nothing");
    ensure!(telling[1].1.translated > silent[1].1.translated, "engine tells nothing");
    Ok(())
}
