//! The common text form of all configurations: items `key=value`, and their errors.

use core::fmt;
use core::str::FromStr;

/// The reason why a configuration could not be read. Each message names the item at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The item is not of the form `key=value`.
    #[error("`{0}` is not of the form key=value")]
    NotAPair(String),
    /// The key does not exist.
    #[error("unknown key `{key}`; known are {known}")]
    UnknownKey {
        /// The key as given.
        key: String,
        /// All keys, separated by commas.
        known: String,
    },
    /// The same key is twice in one section.
    #[error("`{0}` is given twice")]
    Repeated(String),
    /// The value is not valid for its key.
    #[error("{key}: `{value}` {reason}")]
    Value {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What is wrong with the value, as the end of a sentence.
        reason: String,
    },
    /// A section that begins neither with a port nor with a trunk, `trunks` or `switches`, or a second section for
    /// the same one.
    #[error(
        "section `{0}` must begin with a port number that no other section has and a colon, as in `1:loss=5%`, with a \
         trunk, as in `trunk1:loss=5%`, or with `trunks:` or `switches:`, each at most once"
    )]
    Section(String),
    /// A section for a port that the fabric does not have.
    #[error("section {port}: the fabric has ports 0 to {last}")]
    NoSuchPort {
        /// The port in the section.
        port: u16,
        /// The last port of the fabric.
        last: u16,
    },
    /// A section for a link between switches that the fabric does not have.
    #[error("section trunk{trunk}: the number of trunks between the switches of the fabric is {trunks}")]
    NoSuchTrunk {
        /// The trunk in the section.
        trunk: u16,
        /// The number of trunks; they are counted from 0.
        trunks: u16,
    },
}

pub(super) fn value<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn store<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

pub(super) fn pair(item: &str) -> Result<(&str, &str), ConfigError> {
    let (key, value) = item.split_once('=').ok_or_else(|| ConfigError::NotAPair(item.to_owned()))?;
    Ok((key.trim(), value.trim()))
}

pub(super) fn bad_value(key: &str, value: &str, reason: impl fmt::Display) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), value: value.to_owned(), reason: reason.to_string() }
}

pub(super) fn unknown_key<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> ConfigError {
    let known: Vec<_> = known.into_iter().collect();
    ConfigError::UnknownKey { key: key.to_owned(), known: known.join(", ") }
}

/// Returns the items of a comma-separated list. A blank list has no items.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(move |_| !text.trim().is_empty())
}
