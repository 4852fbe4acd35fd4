//! Passes arbitrary bytes through the parser of fabric descriptions, for the fuzz target `fabric` and the replay of its
//! inputs. Not part of the library's interface.

use crate::FabricConfig;

/// A description of a fabric. One that was read is read again from its text. Returns how many were read.
pub fn fabric(bytes: &[u8]) -> usize {
    let Ok(text) = core::str::from_utf8(bytes) else { return 0 };
    match text.parse::<FabricConfig>() {
        Ok(config) => {
            assert_eq!(config.to_string().parse(), Ok(config));
            1
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            0
        }
    }
}
