//! What a file is.

use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;

/// Returns what it is if it is not a regular file.
pub(in super::super) fn kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}
