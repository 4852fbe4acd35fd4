//! The control socket, by which `tiercel` and other local programs send requests to a running node: the client's side, and
//! what both sides have in common.
//!
//! The node listens on a unix stream socket that only its own user and root may use. Both sides send lines of
//! JSON. A client sends [`Envelope`]s, one per line. For each, it reads any number of [`Reply::Progress`] lines
//! and then one [`Reply::Done`] or [`Reply::Failed`]. The content of files never passes through the socket:
//! with `Copy` the client sends the open file, and other requests name files by absolute path.

mod client;
pub mod file_name;
mod protocol;
mod socket;
pub mod tree;

pub use client::{Client, ClientError};
pub use protocol::{
    Call, Envelope, Failure, FailureKind, Hex, INLINE_LIMIT, LARGEST_LINE, Progress, Reply, Request, VERSION,
    answer, read_line, request,
};
pub use socket::{DIRECTORY, SocketError, answers, default_path, find};
