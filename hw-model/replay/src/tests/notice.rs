//! A sleeping application is woken while a trace is taken.

use super::next_hop::begun;
use super::*;

/// The note names the slot. A run that wakes nobody, or somebody else, diverges.
#[test]
fn the_call_that_wakes_an_application_is_replayed() {
    let (mut nic, between) = begun();
    let second = next_hop::sent(&mut nic);
    let at = next_hop::words_of(&second, Tag::Notify);
    assert_eq!(second[at..at + 4], (next_hop::SLOT as u32).to_le_bytes());
    let replayed = |second: &[u8]| {
        let trace = next_hop::with_state(with_chunk(between.clone(), ChunkKind::RUN, second), &nic);
        let trace = with_chunk(trace, ChunkKind::END, &[0; 16]);
        Decisions::replay(&mut TraceReader::new(&*trace).expect("a head"), |_| {})
    };
    assert_eq!(replayed(&second).expect("nothing differs").events, 2);
    let mut other = second.clone();
    other[at] ^= 1;
    let error = replayed(&other).expect_err("another application").to_string();
    assert!(error.contains("notify"), "{error}");
}
