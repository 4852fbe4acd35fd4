//! Passes arbitrary bytes through the parser of numbers with units.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tiercel_node::fuzz::quantities(bytes);
});
