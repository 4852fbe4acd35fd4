//! Writes the file of a trace. A thread of its own does that, so that nothing else waits for a file system that stalls.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use transport_common::congestion::settings::Settings;
use transport_common::connection::Entry;
use transport_common::tape::file::{ChunkHead, ChunkKind, Head};

use crate::error::Error;

/// Number of bytes that are handed to the writer at once. It may be more by what is added in one call.
const PIECE: usize = 1 << 20;
/// Most pieces that wait for the writer.
const PIECES: usize = 4;

/// The file of a trace.
#[derive(Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    /// What the writer does not have yet.
    piece: Vec<u8>,
    /// `None` when it has ended.
    writer: Option<Writer>,
    /// Size so far, bytes. Some of it may still wait for the writer.
    pub(super) bytes: u64,
}

/// The thread that writes.
#[derive(Debug)]
struct Writer {
    pieces: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Writer {
    fn start(mut file: File) -> io::Result<Self> {
        let (pieces, waiting) = sync_channel::<Vec<u8>>(PIECES);
        let write = move || -> io::Result<()> {
            for piece in waiting {
                file.write_all(&piece)?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("trace-file".to_owned()).spawn(write)?;
        Ok(Self { pieces, thread })
    }

    /// Waits until everything is written.
    fn end(self) -> io::Result<()> {
        drop(self.pieces);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl TraceFile {
    /// Creates a new file and writes its head.
    pub(super) fn create(path: PathBuf) -> Result<Self, Error> {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => Self::begin(path, file),
            Err(source) => {
                let hint = match source.kind() {
                    io::ErrorKind::AlreadyExists => "Name a new file, or remove this one",
                    io::ErrorKind::NotFound => "Create the directory first",
                    _ => "Name a file that this node may write",
                };
                Err(Error::TraceFile { file: path, hint, source })
            }
        }
    }

    /// Writes the head to an empty file. From then on, a reader sees a trace without an end.
    fn begin(path: PathBuf, mut file: File) -> Result<Self, Error> {
        let head = Head::THIS.to_bytes();
        file.write_all(&head).map_err(|source| failed(&path, source))?;
        let writer =
            Writer::start(file).map_err(|e| Error::system("start the thread that writes the trace", e))?;
        let piece = Vec::with_capacity(PIECE);
        Ok(Self { path, piece, writer: Some(writer), bytes: head.len() as u64 })
    }

    /// Removes the file, if no trace is recorded.
    pub(super) fn discard(mut self) {
        let path = std::mem::take(&mut self.path);
        self.piece.clear();
        drop(self); // the writer ends
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(%error, "cannot remove {}, which has no trace", path.display());
        }
    }

    /// Returns whether the file takes more. If not, the writer is behind, and what is added only takes memory. Does not wait.
    pub(super) fn has_room(&mut self) -> Result<bool, Error> {
        if self.piece.len() < PIECE {
            return Ok(true);
        }
        let Some(writer) = &self.writer else { return Ok(false) };
        match writer.pieces.try_send(std::mem::take(&mut self.piece)) {
            Ok(()) => {
                self.piece.reserve(PIECE);
                Ok(true)
            }
            Err(TrySendError::Full(piece)) => {
                self.piece = piece;
                Ok(false)
            }
            // The writer has failed.
            Err(TrySendError::Disconnected(_)) => self.close().map(|()| false),
        }
    }

    /// Waits until the file takes more.
    pub(super) fn wait_for_room(&mut self) -> Result<(), Error> {
        if self.piece.len() < PIECE { Ok(()) } else { self.hand_over() }
    }

    /// Hands what there is to the writer. Waits until that has room.
    fn hand_over(&mut self) -> Result<(), Error> {
        let piece = std::mem::take(&mut self.piece);
        let taken = self.writer.as_ref().is_some_and(|writer| writer.pieces.send(piece).is_ok());
        // A writer that takes nothing has failed.
        if taken { Ok(()) } else { self.close() }
    }

    /// Waits until the writer has written what it has. Returns its failure, if any.
    fn close(&mut self) -> Result<(), Error> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.end().map_err(|source| failed(&self.path, source))
    }

    /// Adds a recorded run.
    pub(super) fn run(&mut self, tape: &[u8]) {
        self.chunk(ChunkKind::RUN, &[tape]);
    }

    /// Adds the current state of a connection.
    pub(super) fn connection(&mut self, slot: usize, entry: &Entry, settings: &Settings) {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(slot as u32).to_le_bytes());
        self.chunk(ChunkKind::CONNECTION, &[&head, bytes_of_entry(entry), bytemuck::bytes_of(settings)]);
    }

    /// Adds the last steps of the trace: slot, generation and number of steps of each connection.
    pub(super) fn last(&mut self, connections: impl Iterator<Item = (usize, u32, u64)>) {
        let mut list = vec![];
        for (slot, generation, steps) in connections {
            list.extend((slot as u32).to_le_bytes());
            list.extend(generation.to_le_bytes());
            list.extend(steps.to_le_bytes());
        }
        self.chunk(ChunkKind::LAST, &[&list]);
    }

    /// Adds the number of lost runs since the start.
    pub(super) fn lost(&mut self, lost: u64) {
        self.chunk(ChunkKind::LOST, &[&lost.to_le_bytes()]);
    }

    /// Adds the end of the trace, and waits until everything is written.
    pub(super) fn end(&mut self, runs: u64, lost: u64) -> Result<(), Error> {
        self.chunk(ChunkKind::END, &[&runs.to_le_bytes(), &lost.to_le_bytes()]);
        self.hand_over()?;
        self.close()
    }

    fn chunk(&mut self, kind: ChunkKind, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        self.add(&ChunkHead { kind, bytes }.to_bytes());
        for part in parts {
            self.add(part);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.piece.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl Drop for TraceFile {
    /// Writes what there is of a trace that has failed.
    fn drop(&mut self) {
        // Another failure is known already, and it ended the trace.
        let _ = self.hand_over().and_then(|()| self.close());
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    let hint = "The part that was written stays. Free some space, or name a file elsewhere";
    Error::TraceFile { file: path.to_owned(), hint, source }
}

/// Returns the bytes of a connection.
fn bytes_of_entry(entry: &Entry) -> &[u8] {
    bytemuck::bytes_of(entry)
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};
    use std::os::fd::OwnedFd;

    use super::*;

    /// Makes a file that stalls when nobody reads it any more.
    fn stalling() -> (PipeReader, TraceFile) {
        let (reader, writer) = pipe().expect("a pipe");
        let file = File::from(OwnedFd::from(writer));
        (reader, TraceFile::begin("pipe".into(), file).expect("the pipe has room for the head"))
    }

    #[test]
    fn nobody_waits_for_a_file_that_stalls() {
        let (mut reader, mut file) = stalling();
        let mut runs: u64 = 0;
        while file.has_room().expect("somebody may read it") {
            file.run(&[7; 1000]);
            runs += 1;
        }
        assert!(file.bytes < (2 * PIECES * PIECE) as u64, "{} bytes take memory", file.bytes);
        let read = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        file.wait_for_room().expect("it is read");
        assert!(file.has_room().expect("it is read"));
        file.end(runs, 0).expect("it is read");
        let all = read.join().expect("reading does not panic").expect("the whole trace");
        assert_eq!(all.len() as u64, file.bytes);
        assert_eq!(all[all.len() - 16..][..8], runs.to_le_bytes());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let (reader, mut file) = stalling();
        drop(reader);
        let failed = loop {
            match file.has_room() {
                Ok(_) => file.run(&[7; 1000]),
                Err(failed) => break failed,
            }
        };
        assert!(matches!(&failed, Error::TraceFile { file, .. } if file == Path::new("pipe")), "{failed}");
    }

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
        file.run(&[1, 2, 3]);
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
