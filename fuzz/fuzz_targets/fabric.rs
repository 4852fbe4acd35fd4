//! Passes arbitrary bytes through the parser of the description of a fabric.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fabric_model::fuzz::fabric(bytes);
});
