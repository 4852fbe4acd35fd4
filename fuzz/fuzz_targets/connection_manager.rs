//! Passes arbitrary bytes through the parser of the messages of the connection managers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tiercel_node::fuzz::connection_manager(bytes);
});
