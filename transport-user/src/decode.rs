//! Decodes frames and bare Falcon packets to readable fields, from hexadecimal text or a capture file.
//!
//! Decoding uses the decoders of the datapath. So it refuses the same packets as a node, for the same reason. The
//! result has all fields that were decoded before an error.

mod capture;
mod hex;
mod layers;
mod text;

#[cfg(test)]
mod tests;

pub use capture::{Capture, CaptureError, CapturedFrame};
pub use hex::{HexError, parse_hex};

use serde::Serialize;
use std::fmt;
use transport_common::wire::Malformed;

/// The decoded layers of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decoded {
    /// Number of bytes of the input.
    pub length: usize,
    /// Decoded headers, outermost first, then the payload or the bytes that could not be decoded.
    pub layers: Vec<Layer>,
    /// The error that ended decoding. `None` if there was no error.
    pub error: Option<DecodeError>,
    /// Why decoding ended early without an error: the frame is not Falcon, or it is encrypted.
    pub note: Option<String>,
}

/// One header, or bytes without structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Name of the format.
    pub name: &'static str,
    /// Offset of its first byte in the input.
    pub offset: usize,
    /// Length, bytes.
    pub length: usize,
    /// Fields in the order of the wire.
    pub fields: Vec<Field>,
}

/// One field of a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Name of the field in the specification.
    pub name: &'static str,
    /// The value, for programs.
    pub value: Value,
    /// The value with its unit or meaning, for people.
    pub text: String,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number as on the wire.
    Number(u64),
    /// A single bit.
    Flag(bool),
    /// An address, or bytes in hexadecimal.
    Text(String),
}

/// The error that ended decoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{layer} at byte {offset}: {text} ({reason})")]
pub struct DecodeError {
    /// The layer that is malformed.
    pub layer: &'static str,
    /// Offset of the first byte of that layer in the input.
    pub offset: usize,
    /// Name of the drop counter with which a node counts such a packet.
    pub reason: &'static str,
    /// Text of the error.
    pub text: &'static str,
}

impl DecodeError {
    fn new(layer: &'static str, offset: usize, reason: Malformed) -> Self {
        Self { layer, offset, reason: reason.name(), text: text::malformed(reason) }
    }
}

/// Decodes an Ethernet frame.
pub fn decode_frame(bytes: &[u8]) -> Decoded {
    layers::decode(bytes, layers::frame)
}

/// Decodes a bare Falcon packet: Falcon header, ULP header and data, without a PSP header before and an ICV after
/// them.
pub fn decode_falcon(bytes: &[u8]) -> Decoded {
    layers::decode(bytes, layers::bare_falcon)
}

impl Decoded {
    /// Returns whether the packet has the Falcon port: it is a Falcon packet or a malformed one.
    pub fn is_falcon(&self) -> bool {
        let in_error = self.error.as_ref().is_some_and(|error| error.layer == "PSP");
        in_error || self.layers.iter().any(|layer| layer.name == "PSP" || layer.name.starts_with("Falcon"))
    }
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for layer in &self.layers {
            write!(f, "{layer}")?;
        }
        if let Some(note) = &self.note {
            writeln!(f, "Note: {note}")?;
        }
        if let Some(error) = &self.error {
            writeln!(f, "Error: {error}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({} at byte {})", self.name, text::bytes(self.length), self.offset)?;
        for field in &self.fields {
            writeln!(f, "    {:<28}{}", field.name, field.text)?;
        }
        Ok(())
    }
}
