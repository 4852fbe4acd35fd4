//! Bytes to readable fields: frames and bare Falcon packets, from hexadecimal text or a capture file.
//!
//! Decoding runs through the very decoders of the datapath, so that what is refused here is what a node refuses, for
//! the same reason. Whatever was understood before an error stays in the result.

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

/// What bytes mean, layer by layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decoded {
    /// Bytes given.
    pub length: usize,
    /// Headers understood, outermost first, then payload or whatever could not be read.
    pub layers: Vec<Layer>,
    /// Why decoding ended before the packet did; `None` if all of it was understood.
    pub error: Option<DecodeError>,
    /// Why decoding ended although nothing is wrong: the frame is not Falcon, or it is encrypted.
    pub note: Option<String>,
}

/// One header, or a run of bytes without structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Name of the format.
    pub name: &'static str,
    /// First byte within the bytes given.
    pub offset: usize,
    /// Bytes of the header.
    pub length: usize,
    /// In the order of the wire.
    pub fields: Vec<Field>,
}

/// One field of a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// The specification's name.
    pub name: &'static str,
    /// For programs.
    pub value: Value,
    /// For people: the value with its unit or meaning.
    pub text: String,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number as it stands on the wire.
    Number(u64),
    /// A single bit.
    Flag(bool),
    /// An address, or bytes in hexadecimal.
    Text(String),
}

/// Where and why decoding failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{layer} at byte {offset}: {text} ({reason})")]
pub struct DecodeError {
    /// The layer that is malformed.
    pub layer: &'static str,
    /// First byte of that layer within the bytes given.
    pub offset: usize,
    /// Name of the drop counter under which a node counts this.
    pub reason: &'static str,
    /// For people.
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

/// Decodes a bare Falcon packet: Falcon header, ULP header, data; no PSP header before and no ICV behind.
pub fn decode_falcon(bytes: &[u8]) -> Decoded {
    layers::decode(bytes, layers::bare_falcon)
}

impl Decoded {
    /// Whether the Falcon port was reached: a Falcon packet, or one that was meant to be.
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
