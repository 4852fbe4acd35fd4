//! Any bytes through every decoder; the properties checked are those of the corpus replay.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../transport-common/tests/fuzz_replay/harness.rs"]
mod harness;

fuzz_target!(|bytes: &[u8]| {
    // The verdict is the replay's to judge; here only the properties count, which panic when broken.
    let _ = harness::exercise(bytes);
});
