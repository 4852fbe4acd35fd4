//! Passes arbitrary bytes through every decoder. It checks the same properties as the corpus replay.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../transport-common/tests/fuzz_replay/harness.rs"]
mod harness;

fuzz_target!(|bytes: &[u8]| {
    // The result is ignored here; the corpus replay judges it. Here only the properties count, and a broken
    // property panics.
    let _ = harness::exercise(bytes);
});
