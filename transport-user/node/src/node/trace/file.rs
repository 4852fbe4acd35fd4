//! Writes the file of a trace. A thread of its own does that, so that nothing else waits for a file system that stalls.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use transport_common::connection::Snapshot;
use transport_common::tape::file::{ChunkHead, ChunkKind, Head};

use crate::files::{FileSystem, HostFiles};
use crate::node::error::NodeError;

/// Number of bytes that are handed to the writer at once. It may be more by what is added in one call.
const PIECE: usize = 1 << 20;
/// Most pieces that wait for the writer.
const PIECES: usize = 4;

/// The file of a trace.
#[derive(Debug)]
pub(super) struct TraceFile {
    files: Arc<dyn FileSystem>,
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
    /// Starts a thread that adds to a file, which has `length` bytes.
    fn start(files: Arc<dyn FileSystem>, file: File, mut length: u64) -> io::Result<Self> {
        let (pieces, waiting) = sync_channel::<Vec<u8>>(PIECES);
        let write = move || -> io::Result<()> {
            for piece in waiting {
                files.write_at(&file, &piece, length)?;
                length += piece.len() as u64;
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
    pub(super) fn create(path: PathBuf) -> Result<Self, NodeError> {
        Self::create_on(Arc::new(HostFiles), path)
    }

    fn create_on(files: Arc<dyn FileSystem>, path: PathBuf) -> Result<Self, NodeError> {
        let begun = files.create_path(&path).and_then(|file| {
            // A file without a head is no trace, and would be in the way of the next one.
            let written = files.write_at(&file, &Head::THIS.to_bytes(), 0);
            written.inspect_err(|_| drop(files.remove_path(&path)))?;
            Ok(file)
        });
        match begun {
            Ok(file) => Self::begin(files, path, file),
            Err(source) => {
                let hint = match source.kind() {
                    io::ErrorKind::AlreadyExists => "Name a new file, or remove this one",
                    io::ErrorKind::NotFound => "Create the directory first",
                    io::ErrorKind::StorageFull => "Free some space, or name a file elsewhere",
                    _ => "Name a file that this node may write",
                };
                Err(NodeError::TraceFile { file: path, hint, source })
            }
        }
    }

    /// Begins with a file that has a head. A reader sees a trace without an end.
    fn begin(files: Arc<dyn FileSystem>, path: PathBuf, file: File) -> Result<Self, NodeError> {
        let bytes = Head::LEN as u64;
        let writer = Writer::start(Arc::clone(&files), file, bytes)
            .map_err(|e| NodeError::system("start the thread that writes the trace", e))?;
        Ok(Self { files, path, piece: Vec::with_capacity(PIECE), writer: Some(writer), bytes })
    }

    /// Removes the file, if no trace is recorded.
    pub(super) fn discard(mut self) {
        let (files, path) = (Arc::clone(&self.files), std::mem::take(&mut self.path));
        self.piece.clear();
        drop(self); // the writer ends
        if let Err(error) = files.remove_path(&path) {
            tracing::warn!(%error, "cannot remove {}, which has no trace", path.display());
        }
    }

    /// Returns whether the file takes more. If not, the writer is behind, and what is added only takes memory. Does not wait.
    pub(super) fn has_room(&mut self) -> Result<bool, NodeError> {
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
    pub(super) fn wait_for_room(&mut self) -> Result<(), NodeError> {
        if self.piece.len() < PIECE { Ok(()) } else { self.hand_over() }
    }

    /// Hands what there is to the writer. Waits until that has room.
    fn hand_over(&mut self) -> Result<(), NodeError> {
        let piece = std::mem::take(&mut self.piece);
        let taken = self.writer.as_ref().is_some_and(|writer| writer.pieces.send(piece).is_ok());
        // A writer that takes nothing has failed.
        if taken { Ok(()) } else { self.close() }
    }

    /// Waits until the writer has written what it has. Returns its failure, if any.
    fn close(&mut self) -> Result<(), NodeError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.end().map_err(|source| failed(&self.path, source))
    }

    /// Adds a recorded run.
    pub(super) fn run(&mut self, tape: &[u8]) {
        self.chunk(ChunkKind::RUN, &[tape]);
    }

    /// Adds the current state of a connection.
    pub(super) fn connection(&mut self, slot: usize, entry: &Snapshot) {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(slot as u32).to_le_bytes());
        self.chunk(ChunkKind::CONNECTION, &[&head, bytes_of_entry(entry)]);
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
    pub(super) fn end(&mut self, runs: u64, lost: u64) -> Result<(), NodeError> {
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

fn failed(path: &Path, source: io::Error) -> NodeError {
    let hint = "The part that was written stays. Free some space, or name a file elsewhere";
    NodeError::TraceFile { file: path.to_owned(), hint, source }
}

/// Returns the bytes of a connection.
fn bytes_of_entry(entry: &Snapshot) -> &[u8] {
    bytemuck::bytes_of(entry)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::files::faulty::{Fault, Faulty};

    /// Calls to the file system before the first piece: the file is created, and gets its head.
    const BEFORE_PIECES: u32 = 2;

    fn directory() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        (directory, path)
    }

    #[test]
    fn nobody_waits_for_a_file_that_stalls() {
        let (_directory, path) = directory();
        let disk = Faulty::after(BEFORE_PIECES, Fault::Stalls);
        let mut file =
            TraceFile::create_on(Arc::clone(&disk) as _, path.clone()).expect("the head is written");
        let mut runs: u64 = 0;
        while file.has_room().expect("it only stalls") {
            file.run(&[7; 1000]);
            runs += 1;
        }
        assert!(file.bytes < (2 * PIECES * PIECE) as u64, "{} bytes take memory", file.bytes);
        while disk.hit().is_none() {
            std::thread::yield_now();
        }
        disk.answer();
        file.wait_for_room().expect("the disk answers");
        assert!(file.has_room().expect("the disk answers"));
        file.end(runs, 0).expect("the disk answers");
        let all = std::fs::read(&path).expect("the whole trace");
        assert_eq!(all.len() as u64, file.bytes);
        assert_eq!(all[all.len() - 16..][..8], runs.to_le_bytes());
    }

    #[test]
    fn a_full_disk_is_named_and_what_was_written_stays() {
        let (_directory, path) = directory();
        let disk = Faulty::after(BEFORE_PIECES + 1, Fault::Fails(libc::ENOSPC));
        let mut file = TraceFile::create_on(disk, path.clone()).expect("the head is written");
        let failed = loop {
            match file.has_room() {
                Ok(_) => file.run(&[7; 1000]),
                Err(failed) => break failed,
            }
        };
        assert!(matches!(&failed, NodeError::TraceFile { file, .. } if *file == path), "{failed}");
        assert!(failed.to_string().contains("Free some space"), "{failed}");
        drop(file);
        let written = std::fs::read(&path).expect("the part that was written");
        let head = written.first_chunk::<{ Head::LEN }>().expect("a head");
        assert_eq!(Head::from_bytes(head), Some(Head::THIS));
        assert!(written.len() > PIECE, "the first piece has only {} bytes", written.len());
    }

    #[test]
    fn a_disk_without_space_for_the_head_has_no_file() {
        for calls in 0..BEFORE_PIECES {
            let (_directory, path) = directory();
            let disk = Faulty::after(calls, Fault::Fails(libc::ENOSPC));
            let failed = TraceFile::create_on(disk, path.clone()).expect_err("the disk is full").to_string();
            assert!(failed.contains("Free some space"), "{failed}");
            assert!(!path.exists(), "call {calls}");
        }
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let (directory, path) = directory();
        std::fs::write(&path, "mine").expect("a file");
        let refused = TraceFile::create(path.clone()).expect_err("it is there").to_string();
        assert!(refused.contains("Name a new file"), "{refused}");
        assert_eq!(std::fs::read(&path).expect("the file"), b"mine");
        let nowhere = TraceFile::create(directory.path().join("no/where")).expect_err("no directory");
        assert!(nowhere.to_string().contains("Create the directory"), "{nowhere}");
    }

    #[test]
    fn a_trace_that_is_not_taken_leaves_no_file() {
        let (_directory, path) = directory();
        TraceFile::create(path.clone()).expect("a new file").discard();
        assert!(!path.exists());
    }

    #[test]
    fn chunks_say_how_long_they_are() {
        let (_directory, path) = directory();
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
