//! What decoding finds.

use std::fmt;

use serde::Serialize;
use transport_common::wire::Malformed;

use super::text;

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
    pub(super) fn new(layer: &'static str, offset: usize, reason: Malformed) -> Self {
        Self { layer, offset, reason: reason.name(), text: text::malformed(reason) }
    }
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
