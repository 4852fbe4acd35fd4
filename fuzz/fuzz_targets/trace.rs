//! Passes arbitrary bytes through the parser of a trace file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    trace_replay::fuzz::trace(bytes);
});
