//! Ethernet addresses and their text form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An Ethernet address. Its text and serialised form is `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Mac(pub [u8; 6]);

/// The error for a text that is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a MAC address: write six hexadecimal bytes, as in 02:00:00:00:00:01")]
pub struct MacError(String);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let error = || MacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part =
                parts.next().filter(|p| matches!(p.len(), 1 | 2) && !p.starts_with('+')).ok_or_else(error)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        parts.next().is_none().then_some(Self(bytes)).ok_or_else(error)
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

impl TryFrom<String> for Mac {
    type Error = MacError;

    fn try_from(text: String) -> Result<Self, MacError> {
        text.parse()
    }
}

/// Returns whether a MAC address can be that of one host: not zero, and not a group address.
pub fn is_host(mac: Mac) -> bool {
    mac.0[0] & 1 == 0 && mac.0 != [0; 6]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_match() {
        let mac = Mac([0x02, 0, 0, 0xaa, 0xbb, 0x0c]);
        assert_eq!(mac.to_string(), "02:00:00:aa:bb:0c");
        assert_eq!("2:0:0:AA:bb:c".parse(), Ok(mac));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "02-00-00-00-00-01",
            "g2:0:0:0:0:0",
            "+1:0:0:0:0:0",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
