//! Replays the inputs of the fuzz targets, and mutates them with fixed seeds. `cargo xtask fuzz` runs the same functions
//! under libFuzzer. An input that it finds is copied into `fuzz/corpus`, and is replayed from then on.
//! The inputs of the target `decode` are replayed by `transport-common/tests/fuzz_replay`.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use fabric_model::fuzz::fabric;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tiercel_cli::fuzz::{capture, hex_text};
use tiercel_node::fuzz::{connection_manager, control, netlink, node_file, quantities};
use trace_replay::fuzz::trace;

/// The name of a target and its function, which returns how many things it read.
type Target = (&'static str, fn(&[u8]) -> usize);

const TARGETS: [Target; 9] = [
    ("capture", capture),
    ("connection_manager", connection_manager),
    ("control", control),
    ("fabric", fabric),
    ("hex_text", hex_text),
    ("netlink", netlink),
    ("node_file", node_file),
    ("quantities", quantities),
    ("trace", trace),
];

/// Things that can be read in the inputs of a target, at least.
const WELL_FORMED: usize = 2;

/// Mutations of each input.
const MUTATIONS: u64 = 300;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("the directory is committed");
    let stem = |entry: fs::DirEntry| entry.path().file_stem().expect("a name").to_string_lossy().into_owned();
    entries.map(|entry| stem(entry.expect("a readable directory"))).collect()
}

/// Returns the input with some of its bytes changed, cut out or repeated.
fn mutated(input: &[u8], random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=bytes.len());
        let until = (at + random.random_range(0..16)).min(bytes.len());
        match random.random_range(0..5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..until)),
            2 => {
                let part = bytes[at..until].to_vec();
                bytes.splice(at..at, part);
            }
            3 => bytes.insert(at, random.random()),
            _ if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            _ => {}
        }
    }
    bytes
}

/// Calls the target, and returns how many things it read. If it panics, shows the input.
fn call((name, target): Target, from: &str, bytes: &[u8]) -> usize {
    catch_unwind(AssertUnwindSafe(|| target(bytes))).unwrap_or_else(|panic| {
        eprintln!("{name}, from the input {from}: {:?}", String::from_utf8_lossy(bytes));
        eprintln!("as hexadecimal: {}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        resume_unwind(panic)
    })
}

#[test]
fn every_target_is_replayed() {
    let mut expected: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&directory().join("corpus")), expected);
    expected.insert("decode".to_owned());
    assert_eq!(names(&directory().join("fuzz_targets")), expected);
}

#[test]
fn no_input_breaks_a_parser() {
    for target in TARGETS {
        let inputs = directory().join("corpus").join(target.0);
        let mut paths: Vec<PathBuf> =
            fs::read_dir(inputs).expect("inputs").map(|entry| entry.expect("a file").path()).collect();
        paths.sort();
        let mut count = 0;
        for (number, path) in paths.iter().enumerate() {
            let input = fs::read(path).expect("a readable file");
            let name = path.file_name().expect("a name").to_string_lossy();
            count += call(target, &name, &input);
            let mut random = SmallRng::seed_from_u64(number as u64);
            for _ in 0..MUTATIONS {
                call(target, &name, &mutated(&input, &mut random));
            }
        }
        // Without it, the inputs would only show that a parser refuses.
        assert!(count >= WELL_FORMED, "{}: only {count} things in the inputs can be read", target.0);
    }
}
