//! Passes arbitrary bytes through the parsers of [`decode`](crate::decode), for the fuzz targets in `fuzz/` and the replay of
//! their inputs in `tests/tests/fuzz_corpus.rs`. A broken property panics. Each function returns how many layers it read. Not
//! part of the crate's interface.

use std::io::Cursor;

use crate::decode::{Capture, Decoded, decode_falcon, decode_frame, parse_hex};

/// A capture file, as `tiercel decode` reads it.
pub fn capture(bytes: &[u8]) -> usize {
    let Ok(capture) = Capture::new(Box::new(Cursor::new(bytes.to_vec()))) else { return 0 };
    let (mut ended, mut count) = (false, 0);
    for frame in capture {
        assert!(!ended, "an error ends a capture");
        match frame {
            Ok(frame) => count += print(&decode_frame(&frame.data)),
            Err(error) => {
                ended = true;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    count
}

/// The hexadecimal text of `tiercel decode --hex`.
pub fn hex_text(bytes: &[u8]) -> usize {
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    match parse_hex(text) {
        Ok(read) => {
            assert_eq!(parse_hex(&hex::encode(&read)).as_ref(), Ok(&read));
            print(&decode_frame(&read)) + print(&decode_falcon(&read))
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            0
        }
    }
}

/// Prints a decoded packet in both forms. The layers lie within the packet. Returns their number.
fn print(decoded: &Decoded) -> usize {
    for layer in &decoded.layers {
        assert!(layer.offset + layer.length <= decoded.length, "{} is beyond the end", layer.name);
    }
    assert!(!decoded.to_string().contains('\u{1b}'));
    serde_json::to_string(decoded).expect("it can be written");
    decoded.layers.len()
}
