//! What a client can ask of a node, and what comes back: the types that the node, its clients and `--json` share.
//!
//! A [`Call`] is a request whose answer has one type. On the socket it stands in an [`Envelope`], and its answer in
//! [`Reply::Done`]. `schema.txt` beside this file holds the JSON of all of them; a test compares.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub mod answer;
pub mod request;
#[cfg(test)]
mod schema;

pub use request::Request;

/// Version of the control protocol; node and client must speak the same.
pub const VERSION: u32 = 2;
/// Longest line either side accepts, bytes.
pub const LARGEST_LINE: usize = 2 << 20;
/// Most data bytes inside a line; more goes through a file.
pub const INLINE_LIMIT: u64 = 256 << 10;

/// A request whose answer has one type.
pub trait Call: Into<Request> + Serialize + DeserializeOwned {
    /// What the node answers if it could.
    type Answer: Serialize + DeserializeOwned;
}

/// A request with the version its sender speaks. The answer is of the same version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// [`VERSION`].
    pub version: u32,
    /// The request.
    pub request: Request,
}

/// A line from the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// More is to come.
    Progress(Progress),
    /// The request is done.
    Done {
        /// The [`Call::Answer`] of the request.
        result: serde_json::Value,
    },
    /// The request failed.
    Failed(Failure),
}

/// How far a long operation is. The first one says that it has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Bytes of a copy, or runs or milliseconds of a trace done.
    pub done: u64,
    /// All of them; none where there is no limit.
    pub total: Option<u64>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{text}")]
pub struct Failure {
    /// For programs; decides the exit code of `tiercel`.
    pub kind: FailureKind,
    /// What happened and what to do.
    pub text: String,
    /// Falcon completion code, when an operation completed in error (F-11-33).
    pub status: Option<u8>,
    /// The peer ULP's code (D-84).
    pub ulp_code: Option<u8>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request makes no sense: an unknown CID or key, bounds, a name.
    Invalid,
    /// An operation completed in error.
    Operation,
    /// No connection could be made.
    Connect,
    /// A file could not be read, written or verified.
    File,
    /// The node could not do it.
    Node,
}

impl Failure {
    /// A failure without completion codes.
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), status: None, ulp_code: None }
    }

    /// A request that makes no sense.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(FailureKind::Invalid, text)
    }
}

/// Bytes, in JSON as hexadecimal digits: two for each byte, nothing between.
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
