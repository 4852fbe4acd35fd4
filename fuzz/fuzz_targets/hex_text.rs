//! Passes arbitrary bytes through the parser of the hexadecimal text of `tiercel decode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tiercel_cli::fuzz::hex_text(bytes);
});
