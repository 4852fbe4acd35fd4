//! The list of a directory of a peer, which `tiercel cp -r` fetches before the files in it.
//!
//! The list crosses as the content of a file, by the same [copy](super::request::Copy). Its name ends with a slash:
//! `music/` is the list of the directory `music`, and `/` that of the whole receive directory. The list of a file is the
//! file itself. There is one line of JSON for each [`Entry`]. The first has an empty path and stands for what was asked for;
//! a directory comes before what is in it. A node that does not know lists refuses the name.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::file_name::is_file_name;

/// Longest list, bytes. A directory with more in it has to be copied in parts.
pub const LONGEST_LIST: usize = 4 << 20;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. It does not cross.
    SymbolicLink,
    /// Something else that does not cross: a device, a pipe, a socket, or a file whose name cannot be that of a file on a node.
    Other,
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Path from the directory that was asked for, with slashes. Empty for that itself.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
}

/// Why a list cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// It is longer than [`LONGEST_LIST`].
    #[error("the list of the directory has more than {LONGEST_LIST} bytes")]
    TooLong,
    /// A line is not an entry.
    #[error("line {line} of the list is none: {text}")]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        text: String,
    },
    /// The path of a file or directory leads somewhere else.
    #[error("line {line} of the list names {path:?}, which is no path in the directory")]
    Path {
        /// Number of the line, from 1.
        line: usize,
        /// The path.
        path: String,
    },
}

/// Reads a list that came from a peer. The path of every file and directory in it is a path of plain names, so it stays in
/// the directory into which it is copied.
///
/// # Errors
/// The list is malformed. Nothing of it can be used then.
pub fn parse_list(bytes: &[u8]) -> Result<Vec<Entry>, ListError> {
    if bytes.len() > LONGEST_LIST {
        return Err(ListError::TooLong);
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let entries = lines.enumerate().map(|(number, text)| {
        let line = number + 1;
        let malformed = |text: String| ListError::Malformed { line, text: text.escape_debug().to_string() };
        let entry: Entry = serde_json::from_slice(text).map_err(|error| malformed(error.to_string()))?;
        let crosses = matches!(entry.kind, Kind::File | Kind::Directory);
        match (number, entry.path.is_empty()) {
            (0, true) => {}
            (0, false) => return Err(malformed("the first entry has a path".into())),
            (_, false) if !crosses || is_inside(&entry.path) => {}
            _ => return Err(ListError::Path { line, path: entry.path }),
        }
        Ok(entry)
    });
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    match entries.is_empty() {
        true => Err(ListError::Malformed { line: 1, text: "there is no entry".into() }),
        false => Ok(entries),
    }
}

/// Returns the name of a directory of which a list is asked for.
pub fn listed(name: &str) -> Option<&str> {
    name.strip_suffix('/')
}

/// Adds an entry to a list. Returns false if the list would be too long.
pub fn add(list: &mut Vec<u8>, entry: &Entry) -> bool {
    let line = serde_json::to_vec(entry).unwrap_or_default(); // strings and numbers only: it cannot fail
    let fits = list.len() + line.len() < LONGEST_LIST;
    if fits {
        list.extend_from_slice(&line);
        list.push(b'\n');
    }
    fits
}

/// Returns whether a path has only plain names.
fn is_inside(path: &str) -> bool {
    is_file_name(path) && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry { path: path.to_owned(), kind, mode: 0o644 }
    }

    fn list(entries: &[Entry]) -> Vec<u8> {
        let mut list = Vec::new();
        assert!(entries.iter().all(|entry| add(&mut list, entry)));
        list
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let entries = [
            entry("", Kind::Directory),
            entry("a", Kind::File),
            entry("deep", Kind::Directory),
            entry("deep/.hidden", Kind::File),
            entry("../anything \u{1b}", Kind::SymbolicLink),
        ];
        assert_eq!(parse_list(&list(&entries)).unwrap(), entries);
    }

    #[test]
    fn no_entry_leads_out_of_the_directory() {
        for path in ["..", "../x", "/etc/passwd", "a/../../x", "a//b", "a/", ".", "a/./b", "a\0b", "a\nb"] {
            for kind in [Kind::File, Kind::Directory] {
                let list = list(&[entry("", Kind::Directory), entry(path, kind)]);
                let path = path.to_owned();
                assert_eq!(parse_list(&list), Err(ListError::Path { line: 2, path }));
            }
        }
        let twice = list(&[entry("", Kind::Directory), entry("", Kind::Directory)]);
        assert!(parse_list(&twice).is_err());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let good = list(&[entry("", Kind::File)]);
        assert!(parse_list(&good).is_ok());
        for bad in [&b""[..], b"\n", b"x", b"{}", b"[]", &list(&[entry("a", Kind::File)])] {
            assert!(matches!(parse_list(bad), Err(ListError::Malformed { line: 1, .. })), "{bad:?}");
        }
        assert_eq!(parse_list(&vec![b'\n'; LONGEST_LIST + 1]), Err(ListError::TooLong));
    }

    proptest! {
        #[test]
        fn no_list_does_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_list(&bytes);
        }
    }
}
