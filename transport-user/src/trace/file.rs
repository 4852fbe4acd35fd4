//! Writes the file of a trace.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use transport_common::congestion::settings::Settings;
use transport_common::connection::Entry;
use transport_common::tape::file::{ChunkHead, ChunkKind, Head};

use crate::error::Error;

/// Size of the write buffer, bytes.
const BUFFER: usize = 1 << 20;

/// The file of a trace.
#[derive(Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    to: BufWriter<File>,
    /// Size so far, bytes.
    pub(super) bytes: u64,
}

impl TraceFile {
    /// Creates a new file and writes its head.
    pub(super) fn create(path: PathBuf) -> Result<Self, Error> {
        let failed = |source: io::Error, file| {
            let hint = match source.kind() {
                io::ErrorKind::AlreadyExists => "Name a new file, or remove this one",
                io::ErrorKind::NotFound => "Create the directory first",
                _ => "Name a file that this node may write",
            };
            Error::TraceFile { file, hint, source }
        };
        let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(source) => return Err(failed(source, path)),
        };
        let mut this = Self { path, to: BufWriter::with_capacity(BUFFER, file), bytes: 0 };
        this.write(&[&Head::THIS.to_bytes()])?;
        // From now on, a reader sees a trace without an end.
        this.to.flush().map_err(|source| this.failed(source))?;
        Ok(this)
    }

    /// Removes the file, if no trace is recorded.
    pub(super) fn discard(self) {
        let (path, to) = (self.path, self.to);
        drop(to.into_parts()); // discards the buffer
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(%error, "cannot remove {}, which has no trace", path.display());
        }
    }

    /// Writes a recorded run.
    pub(super) fn run(&mut self, tape: &[u8]) -> Result<(), Error> {
        self.chunk(ChunkKind::RUN, &[tape])
    }

    /// Writes the current state of a connection.
    pub(super) fn connection(
        &mut self,
        slot: usize,
        entry: &Entry,
        settings: &Settings,
    ) -> Result<(), Error> {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(slot as u32).to_le_bytes());
        self.chunk(ChunkKind::CONNECTION, &[&head, bytes_of_entry(entry), bytemuck::bytes_of(settings)])
    }

    /// Writes the last steps of the trace: slot, generation and number of steps of each connection.
    pub(super) fn last(&mut self, connections: impl Iterator<Item = (usize, u32, u64)>) -> Result<(), Error> {
        let mut list = vec![];
        for (slot, generation, steps) in connections {
            list.extend((slot as u32).to_le_bytes());
            list.extend(generation.to_le_bytes());
            list.extend(steps.to_le_bytes());
        }
        self.chunk(ChunkKind::LAST, &[&list])
    }

    /// Writes the number of lost runs since the start.
    pub(super) fn lost(&mut self, lost: u64) -> Result<(), Error> {
        self.chunk(ChunkKind::LOST, &[&lost.to_le_bytes()])
    }

    /// Writes the end of the trace.
    pub(super) fn end(&mut self, runs: u64, lost: u64) -> Result<(), Error> {
        self.chunk(ChunkKind::END, &[&runs.to_le_bytes(), &lost.to_le_bytes()])?;
        self.to.flush().map_err(|source| self.failed(source))
    }

    fn chunk(&mut self, kind: ChunkKind, parts: &[&[u8]]) -> Result<(), Error> {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        self.write(&[&ChunkHead { kind, bytes }.to_bytes()])?;
        self.write(parts)
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        for part in parts {
            self.to.write_all(part).map_err(|source| self.failed(source))?;
            self.bytes += part.len() as u64;
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        let hint = "The part that was written stays. Free some space, or name a file elsewhere";
        Error::TraceFile { file: self.path.clone(), hint, source }
    }
}

/// Returns the bytes of a connection.
fn bytes_of_entry(entry: &Entry) -> &[u8] {
    bytemuck::bytes_of(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        std::fs::write(&path, "mine").expect("a file");
        let refused = TraceFile::create(path.clone()).expect_err("it is there").to_string();
        assert!(refused.contains("Name a new file"), "{refused}");
        assert_eq!(std::fs::read(&path).expect("the file"), b"mine");
        let nowhere = TraceFile::create(directory.path().join("no/where")).expect_err("no directory");
        assert!(nowhere.to_string().contains("Create the directory"), "{nowhere}");
    }

    #[test]
    fn a_trace_that_is_not_taken_leaves_no_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        TraceFile::create(path.clone()).expect("a new file").discard();
        assert!(!path.exists());
    }

    #[test]
    fn chunks_say_how_long_they_are() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        let mut file = TraceFile::create(path.clone()).expect("a new file");
        file.run(&[1, 2, 3]).expect("room");
        file.end(1, 0).expect("room");
        let bytes = std::fs::read(&path).expect("the file");
        assert_eq!(bytes.len() as u64, file.bytes);
        let (head, rest) = bytes.split_first_chunk::<{ Head::LEN }>().expect("a head");
        assert_eq!(Head::from_bytes(head), Some(Head::THIS));
        let (run, rest) = rest.split_first_chunk::<{ ChunkHead::LEN }>().expect("a chunk");
        assert_eq!(ChunkHead::from_bytes(*run), ChunkHead { kind: ChunkKind::RUN, bytes: 3 });
        let (end, rest) = rest[3..].split_first_chunk::<{ ChunkHead::LEN }>().expect("a chunk");
        assert_eq!(
            (ChunkHead::from_bytes(*end), rest.len()),
            (ChunkHead { kind: ChunkKind::END, bytes: 16 }, 16)
        );
    }
}
