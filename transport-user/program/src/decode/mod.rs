//! Decodes frames and bare Falcon packets to readable fields, from hexadecimal text or a capture file.
//!
//! Decoding uses the decoders of the datapath. So it refuses the same packets as a node, for the same reason. The
//! result has all fields that were decoded before an error.

mod capture;
mod decoded;
mod hex;
mod layers;
mod text;

#[cfg(test)]
mod tests;

pub use capture::{Capture, CaptureError, CapturedFrame};
pub use decoded::{DecodeError, Decoded, Field, Layer, Value};
pub use hex::{HexError, parse_hex};

/// Decodes an Ethernet frame.
pub fn decode_frame(bytes: &[u8]) -> Decoded {
    layers::decode(bytes, layers::frame)
}

/// Decodes a bare Falcon packet: Falcon header, ULP header and data, without a PSP header before and an ICV after
/// them.
pub fn decode_falcon(bytes: &[u8]) -> Decoded {
    layers::decode(bytes, layers::bare_falcon)
}
