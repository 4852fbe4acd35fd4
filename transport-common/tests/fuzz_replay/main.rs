//! Replays the committed corpus through the fuzz harness, and mutates it with fixed seeds.
//!
//! `fuzz/` runs the same harness under libFuzzer. A crash that it finds is copied into `tests/corpus/` under any
//! name, and is replayed from then on. After a change of format, `TIERCEL_WRITE_CORPUS=1 cargo test -p
//! transport-common --test fuzz_replay` writes the generated part of the corpus again.

mod frames;
mod harness;

use frames::{WRAPS, foreign, frame, malformed, packets, repair_ipv4};
use harness::{Verdict, exercise};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use transport_common::wire::Malformed;

const MUTATIONS: u64 = if cfg!(miri) { 20 } else { 200_000 };

fn corpus_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus"))
}

/// The committed files by name.
fn corpus() -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(corpus_dir())
        .expect("the corpus is committed")
        .map(|entry| {
            let entry = entry.expect("a readable directory");
            let bytes = std::fs::read(entry.path()).expect("a readable file");
            (entry.file_name().into_string().expect("an ASCII name"), bytes)
        })
        .collect()
}

/// Returns the generated part of the corpus, without the frames that the fuzzer found.
fn generated() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for (i, (name, header, payload)) in packets().into_iter().enumerate() {
        for wrap in WRAPS {
            files.insert(format!("whole-{name}-{}.bin", wrap.name), frame(wrap, header, &payload));
        }
        let whole = frame(WRAPS[i % WRAPS.len()], header, &payload);
        let mut random = SplitMix64(i as u64);
        files.insert(format!("cut-{name}.bin"), whole[..random.below(whole.len())].to_vec());
        let mut mutated = whole;
        mutate(&mut mutated, &mut random);
        files.insert(format!("mutated-{name}.bin"), mutated);
    }
    files.extend(malformed().into_iter().map(|(name, bytes)| (format!("bad-{name}.bin"), bytes)));
    files.extend(foreign().into_iter().map(|(name, bytes)| (format!("foreign-{name}.bin"), bytes)));
    files
}

/// The generator of the same name: one seed, one sequence.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `n`; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Makes one to four changes: a bit, a byte, a special byte value, a shorter or longer frame, a copied run of
/// bytes.
fn mutate(frame: &mut Vec<u8>, random: &mut SplitMix64) {
    for _ in 0..=random.below(4) {
        if frame.is_empty() {
            frame.push(random.next() as u8);
        }
        let at = random.below(frame.len());
        match random.below(8) {
            0..3 => frame[at] ^= 1 << random.below(8),
            3 => frame[at] = random.next() as u8,
            4 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            5 => frame.truncate(at),
            6 => frame.resize(frame.len() + random.below(32), random.next() as u8),
            _ => {
                let len = random.below(frame.len() - at).min(16);
                let to = random.below(frame.len() - len);
                frame.copy_within(at..at + len, to);
            }
        }
    }
    if random.below(2) == 0 {
        repair_ipv4(frame);
    }
}

fn name_of(verdict: &Verdict) -> &'static str {
    match verdict {
        Ok(Some(packet)) => match packet.falcon {
            transport_common::wire::FalconHeader::Ack(_) => "ack",
            _ => "falcon",
        },
        Ok(None) => "foreign",
        Err(reason) => reason.name(),
    }
}

#[test]
fn corpus_is_what_the_generator_makes() {
    let generated = generated();
    assert!(generated.len() >= 150, "{} files", generated.len());
    if std::env::var_os("TIERCEL_WRITE_CORPUS").is_some() {
        std::fs::create_dir_all(corpus_dir()).expect("a writable checkout");
        for (name, bytes) in &generated {
            std::fs::write(corpus_dir().join(name), bytes).expect("a writable checkout");
        }
    }
    let committed = corpus();
    for (name, bytes) in &generated {
        assert_eq!(committed.get(name), Some(bytes), "{name}: see the module's comment");
    }
}

#[test]
fn corpus_replays_to_the_verdicts_its_names_tell() {
    for (name, bytes) in corpus() {
        let verdict = exercise(&bytes);
        let (kind, rest) = name.trim_end_matches(".bin").split_once('-').unwrap_or((&name, ""));
        match kind {
            "whole" => assert!(matches!(verdict, Ok(Some(_))), "{name}: {verdict:?}"),
            "foreign" => assert_eq!(verdict, Ok(None), "{name}"),
            "cut" => assert!(verdict.is_err(), "{name}: {verdict:?}"),
            "bad" => assert_eq!(verdict.map_err(Malformed::name), Err(rest), "{name}"),
            _ => {} // mutated, or found by the fuzzer: it must only not panic
        }
    }
}

#[test]
fn corpus_has_a_frame_for_every_reason() {
    let names: BTreeSet<_> = malformed().into_iter().map(|(name, _)| name).collect();
    for reason in Malformed::ALL {
        assert!(names.contains(reason.name()), "{reason}");
    }
}

#[test]
fn frames_cut_at_every_length_are_truncated() {
    for (name, header, payload) in packets() {
        for wrap in WRAPS {
            let whole = frame(wrap, header, &payload);
            for cut in 0..whole.len() {
                // The IP length still states the whole length: Ethernet or IP is the first layer that detects it.
                let verdict = exercise(&whole[..cut]);
                let noticed = matches!(
                    verdict,
                    Err(Malformed::EthernetTruncated
                        | Malformed::Ipv4Truncated
                        | Malformed::Ipv4TotalLength
                        | Malformed::Ipv6Truncated
                        | Malformed::Ipv6PayloadLength)
                );
                assert!(noticed, "{name} {} cut at {cut}: {verdict:?}", wrap.name);
            }
            let mut padded = whole.clone();
            padded.resize(whole.len() + 18, 0);
            assert_eq!(exercise(&padded), exercise(&whole), "{name}: Ethernet padding changes nothing");
        }
    }
}

#[test]
fn mutated_frames_are_survived() {
    let corpus: Vec<_> = corpus().into_values().collect();
    let mut random = SplitMix64(0x7469_6572_6365_6c00);
    let mut seen: BTreeMap<&'static str, u64> = BTreeMap::new();
    for _ in 0..MUTATIONS {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        mutate(&mut bytes, &mut random);
        *seen.entry(name_of(&exercise(&bytes))).or_default() += 1;
    }
    // The mutations must reach everything. Otherwise they prove nothing.
    for expected in Malformed::ALL.iter().map(|m| m.name()).chain(["falcon", "ack", "foreign"]) {
        assert!(seen.contains_key(expected), "{expected} was never reached: {seen:?}");
    }
}
