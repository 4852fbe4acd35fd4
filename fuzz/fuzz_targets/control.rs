//! Passes arbitrary bytes through the parser of the lines of the control socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tiercel_node::fuzz::control(bytes);
});
