//! Copies one file.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use tiercel::control::answer::Copied;
use tiercel::control::request::{self, CopyDirection, Via};

use super::plan::Job;
use crate::exit::Exit;
use crate::output::Bar;
use crate::talk::{Node, absolute};

/// How files are copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) via: Via,
    pub(crate) overwrite: bool,
    pub(crate) recursive: bool,
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    File,
    Directory,
}

/// A copy, as `--json` prints it. A directory that was made at the peer has no content: 0 bytes.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    pub(super) kind: Kind,
    #[serde(flatten)]
    pub(super) copied: Copied,
}

/// Copies one file, or makes a directory at the peer. The path is opened here, so that it means what it means to the caller.
pub(super) async fn copy_one(node: &Node, job: &Job, how: How) -> Result<Done, Exit> {
    let Job { cid, direction, file, name } = job.clone();
    let opened = open(direction, &file)?;
    // From the peer, what is opened is the directory of the new file.
    let made = direction == CopyDirection::ToPeer && opened.metadata().is_ok_and(|opened| opened.is_dir());
    let kind = if made { Kind::Directory } else { Kind::File };
    let How { via, overwrite, .. } = how;
    let call = request::Copy { cid, direction, file: absolute(&file)?, name, via, overwrite };
    let bar = Bar::new();
    let copied = node.ask_with_file(call, opened.as_fd(), |progress| bar.show(progress)).await?;
    Ok(Done { kind, copied })
}

/// Opens the file to send, or the directory in which the new file gets its name.
fn open(direction: CopyDirection, file: &Path) -> Result<File, Exit> {
    match direction {
        CopyDirection::ToPeer => {
            // Opening a pipe would wait for its writer.
            let opened =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file);
            opened.map_err(|error| Exit::file(format!("cannot read {}: {error}", file.display())))
        }
        CopyDirection::FromPeer => {
            let directory = match file.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(directory);
            opened.map_err(|error| {
                Exit::file(format!("cannot create {}: {}: {error}", file.display(), directory.display()))
            })
        }
    }
}
