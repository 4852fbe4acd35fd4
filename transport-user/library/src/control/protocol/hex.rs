//! Bytes in JSON.

use serde::{Deserialize, Serialize};

/// Bytes. In JSON they are hexadecimal digits: two per byte, without separators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hex(#[serde(with = "hex::serde")] pub Vec<u8>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_digits_each() {
        let read = serde_json::from_str::<Hex>;
        assert_eq!(read("\"00fFa5\"").unwrap(), Hex(vec![0, 0xff, 0xa5]));
        assert_eq!(serde_json::to_string(&Hex(vec![0, 0xff, 0xa5])).unwrap(), "\"00ffa5\"");
        assert_eq!(read("\"\"").unwrap(), Hex::default());
        for wrong in ["\"0\"", "\"0g\"", "\"0x00\"", "\"+1\"", "\"\u{e9}\"", "7"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
