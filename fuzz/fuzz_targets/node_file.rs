//! Passes arbitrary bytes through the parser of a node file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tiercel_node::fuzz::node_file(bytes);
});
