//! File work of the service: what it may do with files, and the threads that do it.
//!
//! A file system may not answer for a long time: a server of NFS is down, a snapshot is being taken, a card is slow.
//! So no call to a file system runs on the workers of the async runtime, which serve the connections and the clients.
//! Each runs as a [`Job`] of a [`Lane`], on a thread that does nothing else. All calls go through [`FileSystem`];
//! the tests have an implementation that fails, fills up and stalls.

mod lanes;

pub(crate) use crate::files::{FileSystem, HostFiles};
pub(crate) use lanes::{Job, Lane, Lanes, NoAnswer, Pulse, Who};
