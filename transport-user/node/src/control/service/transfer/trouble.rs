//! Why a transfer failed, in the words of each end.
//!
//! A text that crosses to the peer names the file as the peer knows it, and no number and no path of this node.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::time::Duration;

use tiercel::control::{Failure, FailureKind};

use super::super::disk::NoAnswer;
use crate::common::open_files;
use crate::connection_manager::shortened;

/// Why a transfer failed.
#[derive(Debug)]
pub(in super::super) enum Trouble {
    /// The client left.
    Cancelled,
    /// The peer sent a step that does not belong here.
    OutOfStep,
    /// The peer sent more steps than a transfer has.
    TooManySteps,
    /// The connection ended.
    ConnectionEnded,
    /// The connection has no session.
    NoSession,
    /// The peer sent nothing.
    PeerSilent(Duration),
    /// The peer aborted, with its reason, and with the number of receives that it posted if some of them are left.
    PeerAborted(String, Option<u64>),
    /// The two hashes differ. The text says which end saw it.
    HashDiffers(&'static str),
    /// An operation, or something else of this node, failed.
    Node(Failure),
    /// This node serves too many transfers of its peers.
    Busy(Failure),
    /// The receives of the connection are in use.
    ReceivesInUse(Failure),
    /// The chunks of an offer exceed the limits.
    Absurd,
    /// The name cannot be that of a file at a node.
    Name(Failure),
    /// This node has no receive directory.
    NoReceiveDirectory,
    /// The file system does not answer.
    NoAnswer(NoAnswer),
    /// A call to the file system failed: what it should do, and why it could not.
    File(&'static str, io::Error),
    /// The target exists.
    Exists,
    /// The target exists, and may not be replaced.
    Kept,
    /// The target is a directory.
    IsDirectory,
    /// The source is not a regular file: what it is.
    NotAFile(&'static str),
    /// The source ended early: its length at the start, and what could be read.
    Shorter(u64, u64),
    /// The source does not tell its length, and is longer than this.
    NoLength(u64),
    /// The file is longer than the receive directory takes: its length, and the limit.
    TooLong(u64, u64),
    /// The receive directory would be fuller than allowed: what is in it, what the file needs, and the limit.
    TotalFull(u64, u64, u64),
    /// The list of the directory would be longer than this.
    TooManyEntries(usize),
    /// There is too little space: what is needed, and what is free.
    NoSpace(u64, u64),
}

impl Trouble {
    /// Returns the failure for a client of this node. `file` is the file on this node.
    pub(in super::super) fn for_client(self, file: impl Display) -> Failure {
        let kind = match &self {
            Self::ConnectionEnded | Self::NoSession | Self::PeerSilent(_) => FailureKind::Connect,
            Self::Absurd => FailureKind::Invalid,
            Self::Node(failure)
            | Self::Name(failure)
            | Self::Busy(failure)
            | Self::ReceivesInUse(failure) => return failure.clone(),
            _ => FailureKind::File,
        };
        Failure::new(kind, self.text(&file))
    }

    /// Returns the reason for the peer. `name` is the name that the peer gave to the file.
    pub(in super::super) fn for_peer(&self, name: &str) -> String {
        let file = format!("\"{}\"", name.escape_debug());
        shortened(match self {
            // These texts have numbers of this node.
            Self::Node(Failure { status: Some(status), .. }) => {
                format!("an operation failed there with completion code {status}")
            }
            Self::Node(_) => "the node could not do its part: its log says why".to_owned(),
            Self::Name(failure) | Self::Busy(failure) => failure.text.clone(),
            Self::ReceivesInUse(_) => "the receives of the connection are in use there, by `tiercel recv post` or by what a copy \
                                       that failed left behind: copy with --via write, or close the connection and connect again"
                .to_owned(),
            Self::PeerAborted(..) => "aborted".to_owned(),
            other => other.text(&file),
        })
    }

    fn text(&self, file: &dyn Display) -> String {
        match self {
            Self::Cancelled => "cancelled".to_owned(),
            Self::OutOfStep => "the peer sent a wrong step of the transfer, or an older SEND of this connection arrived: close \
                                the connection and connect again; if it happens again, install the same release on both nodes"
                .to_owned(),
            Self::TooManySteps => "the peer sent more steps than the transfer has: install the same release on both nodes".to_owned(),
            Self::ConnectionEnded => "the connection ended during the transfer: connect again".to_owned(),
            Self::NoSession => "the connection has no session with the peer's connection manager: if it has ended, connect again \
                                with `tiercel conn connect`; if it is static, copy with `tiercel write` and `tiercel read`"
                .to_owned(),
            Self::PeerSilent(time) => {
                format!("the peer sent nothing for {} s: see the log of its node", time.as_secs())
            }
            Self::PeerAborted(text, _) => format!("the peer aborted: {}", text.escape_debug().to_string().replace("\\\"", "\"")),
            Self::HashDiffers(text) => format!("{text} (SHA-256 differs): copy again"),
            Self::Node(failure) | Self::Name(failure) | Self::Busy(failure) | Self::ReceivesInUse(failure) => failure.text.clone(),
            Self::Absurd => "the chunks of the offer exceed the limits".to_owned(),
            Self::NoReceiveDirectory => "the node has no directory for files of peers: start it with --receive-dir".to_owned(),
            Self::NoAnswer(error) => format!("{file}: {error}"),
            Self::File(what, error) => {
                format!("cannot {what} {file}: {}", reason(error))
            }
            Self::Exists => format!("{file} already exists: choose another name, or replace it with --overwrite"),
            Self::Kept => format!(
                "{file} already exists, and the node does not let its peers replace files: choose another name, or start it with \
                 --receive-overwrite"
            ),
            Self::IsDirectory => format!("{file} is a directory: name the file"),
            Self::NotAFile("a pipe") => format!(
                "{file} is a pipe, and the length of a copy must be known before it begins: write the data to a file first"
            ),
            Self::NotAFile("a directory") => {
                format!("{file} is a directory: name a file in it, or copy it with `cp -r`")
            }
            Self::NotAFile(what) => format!("{file} is {what}, not a file: only files can be copied"),
            Self::Shorter(length, read) => format!(
                "{file} became shorter during the copy: it had {length} bytes, and {read} could be read; copy again when nobody \
                 writes to it"
            ),
            Self::NoLength(most) => format!(
                "{file} does not tell its length, and has more than {most} bytes: write its content to a regular file first"
            ),
            Self::TooLong(length, most) => format!(
                "{file} has {length} bytes, and the node takes files of at most {most}: raise --receive-max-file there"
            ),
            Self::TotalFull(used, needed, most) => format!(
                "{file} needs {needed} bytes, and the receive directory holds {used} of at most {most}: remove files there, or raise \
                 --receive-max-total"
            ),
            Self::TooManyEntries(most) => format!(
                "{file} has so many entries that their list exceeds {most} bytes: copy the directories in it one after the other"
            ),
            Self::NoSpace(needed, free) => {
                format!("{file} needs {needed} bytes, and {free} are free: free some space, then copy again")
            }
        }
    }
}

impl From<NoAnswer> for Trouble {
    fn from(error: NoAnswer) -> Self {
        Self::NoAnswer(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Node(failure)
    }
}

/// Returns the reason of the system with what to do about it.
pub(in super::super) fn reason(error: &io::Error) -> String {
    if let Some(remedy) = open_files::remedy(error) {
        return format!("{remedy}, or copy fewer files at a time");
    }
    let remedy = match error.raw_os_error() {
        Some(libc::ENOSPC) => "the file system is full: free some space, then copy again",
        Some(libc::EDQUOT) => "the disk quota is used up: free some space, then copy again",
        Some(libc::EROFS) => "the file system is read-only: name a directory elsewhere",
        Some(libc::EFBIG) => "the file system takes no file of this length",
        Some(libc::EXDEV) => "a symbolic link or `..` leads out of the directory: name a file inside of it",
        Some(libc::EIO) => "input/output error: check the disk (`dmesg`)",
        _ if error.kind() == ErrorKind::StorageFull => {
            "the file system is full: free some space, then copy again"
        }
        _ => return error.to_string(),
    };
    remedy.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Trouble> {
        let failed = |code| Trouble::File("write", io::Error::from_raw_os_error(code));
        let numbers =
            || Failure { status: Some(5), ..Failure::new(FailureKind::Operation, "connection 77 at /srv") };
        vec![
            Trouble::Cancelled,
            Trouble::Exists,
            Trouble::Kept,
            Trouble::IsDirectory,
            Trouble::NotAFile("a pipe"),
            Trouble::Shorter(10, 5),
            Trouble::NoAnswer(NoAnswer(Duration::from_secs(30))),
            Trouble::Node(numbers()),
            Trouble::Node(Failure::new(FailureKind::Node, "connection 77 at /srv")),
            Trouble::PeerAborted("connection 77 at /srv".to_owned(), Some(1)),
            Trouble::NoSpace(10, 5),
            failed(libc::EMFILE),
            failed(libc::ENOSPC),
            failed(libc::EACCES),
        ]
    }

    #[test]
    fn the_peer_reads_no_number_and_no_path_of_this_node() {
        for trouble in all() {
            let there = trouble.for_peer("a.bin");
            assert!(!there.contains("77") && !there.contains("/srv"), "{there}");
            let named = format!("{trouble:?}");
            let here = trouble.for_client("/srv/a.bin").text;
            assert!(!here.contains("\"a.bin\""), "{named}: {here}");
        }
        assert!(Trouble::Exists.for_peer("a.bin").starts_with("\"a.bin\" already exists"));
        assert!(Trouble::Exists.for_client("/srv/a.bin").text.starts_with("/srv/a.bin already exists"));
    }

    #[test]
    fn failures_of_the_system_say_what_to_do() {
        let text = |code| Trouble::File("open", io::Error::from_raw_os_error(code)).for_client("/srv/a").text;
        assert!(text(libc::EMFILE).contains("ulimit -n"), "{}", text(libc::EMFILE));
        assert!(text(libc::ENOSPC).contains("free some space"));
        assert!(text(libc::EXDEV).contains("leads out of the directory"));
        assert!(Trouble::NotAFile("a pipe").for_client("x").text.contains("write the data to a file first"));
    }
}
