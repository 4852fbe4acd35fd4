//! Passes arbitrary bytes through the parser of a capture file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tiercel_cli::fuzz::capture(bytes);
});
