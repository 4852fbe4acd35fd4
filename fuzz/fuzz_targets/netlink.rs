//! Passes arbitrary bytes through the parser of the answers of the kernel on a netlink socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tiercel_node::fuzz::netlink(bytes);
});
