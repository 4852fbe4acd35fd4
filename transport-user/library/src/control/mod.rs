//! The control socket, by which `tiercel` and other local programs send requests to a running node.
//!
//! The node listens on a unix stream socket that only its own user and root may use. Both sides send lines of
//! JSON. A client sends [`Envelope`]s, one per line. For each, it reads any number of [`Reply::Progress`] lines
//! and then one [`Reply::Done`] or [`Reply::Failed`]. The content of files never passes through the socket:
//! with `Copy` the client sends the open file, and other requests name files by absolute path.

mod client;
mod descriptors;
mod file_name;
mod protocol;
pub(crate) mod server;
pub mod service;
mod socket;
#[cfg(test)]
mod tests;
pub mod tree;

pub use client::{Client, ClientError};
pub use protocol::{
    Call, Envelope, Failure, FailureKind, Hex, INLINE_LIMIT, LARGEST_LINE, Progress, Reply, Request, VERSION,
    answer, request,
};
pub use server::{Handler, ProgressSender, Server};
pub use socket::{DIRECTORY, SocketError, bind, default_path, find};
