//! The requests of clients and the answers of nodes. The node, its clients and `--json` share these types.
//!
//! A [`Call`] is a request whose answer has one type. On the socket, an [`Envelope`] carries the request, and
//! [`Reply::Done`] carries the answer. The file `schema.txt` in this directory lists the JSON fields of all of
//! them. A test compares it with the types.

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use crate::common::error::Error;
use crate::common::error_kind::ErrorKind;
use crate::verbs::operation_error::OperationError;

pub mod answer;
mod hex;
pub mod request;
#[cfg(test)]
mod schema;
mod via;

pub use hex::Hex;
pub use request::{Call, Request};

/// Version of the control protocol. Node and client must use the same version.
pub const VERSION: u32 = 2;
/// Longest line that either side accepts, bytes.
pub const LARGEST_LINE: usize = 2 << 20;
/// Largest data inside a line, bytes. Larger data goes through a file.
pub const INLINE_LIMIT: u64 = 256 << 10;

/// A request with the protocol version of its sender. The answer has the same version.
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
    /// The request makes progress. More lines follow.
    Progress(Progress),
    /// The request succeeded.
    Done {
        /// The [`Call::Answer`] of the request.
        result: serde_json::Value,
    },
    /// The request failed.
    Failed(Failure),
}

/// Progress of a long operation. The first progress line means that the operation has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// What is done: bytes of a copy, or runs or milliseconds of a trace.
    pub done: u64,
    /// The total in the same unit. `None` if there is no limit.
    pub total: Option<u64>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{text}")]
pub struct Failure {
    /// Kind of the failure, for programs. It determines the exit code of `tiercel`.
    pub kind: FailureKind,
    /// Text: what is wrong and what to do.
    pub text: String,
    /// Falcon completion code, if an operation completed in error (F-11-33).
    pub status: Option<u8>,
    /// Code of the peer's ULP (D-84).
    pub ulp_code: Option<u8>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FailureKind {
    /// The request is invalid: for example an unknown CID or key, a value out of range, or a wrong name.
    Invalid,
    /// An operation completed in error.
    Operation,
    /// A connection could not be opened, or it ended.
    Connect,
    /// A file could not be read, written or verified.
    File,
    /// The node failed.
    Node,
}

impl Failure {
    /// Makes a failure without completion codes.
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), status: None, ulp_code: None }
    }

    /// Makes a failure for an invalid request.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(FailureKind::Invalid, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Io | ErrorKind::NodeDown | ErrorKind::NotPermitted => FailureKind::Node,
            ErrorKind::ConnectionLost => FailureKind::Connect,
            _ => FailureKind::Invalid,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        let text = error.to_string();
        match error {
            OperationError::Completion { code, ulp_code } => {
                Self { kind: FailureKind::Operation, text, status: Some(code), ulp_code: Some(ulp_code) }
            }
            OperationError::Closed => Self::new(FailureKind::Connect, text),
            _ => Self::invalid(text),
        }
    }
}

/// Reads one line and returns it without its end, or `None` at the end of the stream.
///
/// # Errors
/// Reading fails, the line is longer than [`LARGEST_LINE`], or the stream ends within the line.
pub async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    (&mut *stream).take(LARGEST_LINE as u64 + 1).read_until(b'\n', &mut line).await?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(std::io::Error::other("a line is too long or was cut off")),
    }
}
