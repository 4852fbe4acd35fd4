//! Reads a trace file.

use std::io::{self, Read};

use bytemuck::checked::CheckedCastError;
use rustc_hash::FxHashMap;
use transport_common::connection::Snapshot;
use transport_common::tape::Unreadable;
use transport_common::tape::file::{ChunkHead, ChunkKind, Head};

use super::RecordedRun;

/// The reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    /// The file is not a trace.
    #[error("this is not a trace: it does not begin with {:?}; take one with `tiercel trace`", "TIERCELT")]
    Foreign,
    /// Another build took the trace.
    #[error(
        "another build took the trace (layout {} with {} bytes per connection and {} kinds of notes, this build \
         has {} with {} and {}): replay it with the build that took it, or take a new trace",
        .there.version, .there.entry_bytes, .there.tags, Head::THIS.version, Head::THIS.entry_bytes, Head::THIS.tags
    )]
    OtherBuild {
        /// The header of the trace.
        there: Head,
    },
    /// The file ends too early.
    #[error(
        "the trace has no end after event {runs}: it is still being written, or the process that took it was \
         killed, or the file was not copied completely; wait until `tiercel status` shows no trace, or copy it or \
         take it again"
    )]
    Truncated {
        /// Number of complete runs before the end.
        runs: u64,
    },
    /// A part of the file is invalid.
    #[error("the trace is damaged after event {runs}: {what}; copy it again, or take a new trace")]
    Damaged {
        /// Number of runs before the invalid part.
        runs: u64,
        /// The problem.
        what: String,
    },
}

/// The last step of a connection that a replay can repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastStep {
    /// Generation of the connection.
    pub generation: u32,
    /// Number of the step.
    pub step: u64,
}

/// A chunk of a trace.
pub enum Chunk {
    /// The state of a connection.
    Connection {
        /// Its slot.
        slot: u32,
        /// Its context and tables.
        entry: Box<Snapshot>,
    },
    /// A run.
    Run(Box<RecordedRun>),
    /// The last step of each connection that a replay can repeat, by slot.
    Last(FxHashMap<u32, LastStep>),
    /// The number of runs lost so far.
    Lost(u64),
    /// The end of the trace.
    End {
        /// Number of runs in the trace.
        runs: u64,
        /// Number of lost runs.
        lost: u64,
    },
}

/// Reads a trace chunk by chunk.
pub struct TraceReader<R> {
    from: R,
    runs: u64,
    buffer: Vec<u8>,
}

impl<R: Read> TraceReader<R> {
    /// Creates a reader and reads the header of the trace.
    ///
    /// # Errors
    /// Returns a [`ReadError`] if the file cannot be read or is not a trace of this build.
    pub fn new(mut from: R) -> Result<Self, ReadError> {
        let mut head = [0; Head::LEN];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(ReadError::Foreign),
            outcome => outcome?,
        }
        let there = Head::from_bytes(&head).ok_or(ReadError::Foreign)?;
        if there != Head::THIS {
            return Err(ReadError::OtherBuild { there });
        }
        Ok(Self { from, runs: 0, buffer: vec![] })
    }

    /// Returns the number of runs read so far.
    pub const fn runs(&self) -> u64 {
        self.runs
    }

    /// Reads the next chunk.
    ///
    /// # Errors
    /// Returns a [`ReadError`] if the file cannot be read, ends too early, or is damaged.
    pub fn next_chunk(&mut self) -> Result<Chunk, ReadError> {
        let mut head = [0; ChunkHead::LEN];
        self.read(&mut head)?;
        let head = ChunkHead::from_bytes(head);
        if head.bytes > ChunkHead::LONGEST {
            return Err(self.damaged(format!("a chunk of {} bytes is too long", head.bytes)));
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.resize(head.bytes as usize, 0);
        self.read(&mut bytes)?;
        let chunk = self.parse(head.kind, &bytes);
        self.buffer = bytes;
        chunk
    }

    fn parse(&mut self, kind: ChunkKind, bytes: &[u8]) -> Result<Chunk, ReadError> {
        let wide = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map(u64::from_le_bytes)
        };
        let chunk = match kind {
            ChunkKind::CONNECTION => match connection(bytes) {
                Some(Err(_)) => {
                    return Err(self.damaged("a connection has an unknown state".to_owned()));
                }
                whole_or_cut => whole_or_cut.and_then(Result::ok),
            },
            ChunkKind::RUN => match RecordedRun::from_bytes(bytes) {
                Ok(run) => {
                    self.runs += 1;
                    Some(Chunk::Run(Box::new(run)))
                }
                Err(Unreadable::Cut) => None,
                Err(unknown) => return Err(self.damaged(unknown.to_string())),
            },
            ChunkKind::LAST => {
                let (list, rest) = bytes.as_chunks::<16>();
                let last = list.iter().map(|[s @ .., g0, g1, g2, g3, a, b, c, d, e, f, g, h]: &[u8; 16]| {
                    let generation = u32::from_le_bytes([*g0, *g1, *g2, *g3]);
                    let step = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                    (u32::from_le_bytes(*s), LastStep { generation, step })
                });
                rest.is_empty().then(|| Chunk::Last(last.collect()))
            }
            ChunkKind::LOST => wide(0).map(Chunk::Lost),
            ChunkKind::END => wide(0).zip(wide(8)).map(|(runs, lost)| Chunk::End { runs, lost }),
            other => return Err(self.damaged(format!("a chunk has the unknown kind {}", other.0))),
        };
        chunk.ok_or_else(|| self.damaged("a chunk is shorter than its contents".to_owned()))
    }

    fn read(&mut self, to: &mut [u8]) -> Result<(), ReadError> {
        self.from.read_exact(to).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::Truncated { runs: self.runs },
            _ => ReadError::Io(error),
        })
    }

    fn damaged(&self, what: String) -> ReadError {
        ReadError::Damaged { runs: self.runs, what }
    }
}

/// Reads a connection. Returns `None` if the bytes have the wrong length.
fn connection(bytes: &[u8]) -> Option<Result<Chunk, CheckedCastError>> {
    let (head, entry) = bytes.split_first_chunk::<8>()?;
    if entry.len() != size_of::<Snapshot>() {
        return None;
    }
    let entry = bytemuck::checked::try_pod_read_unaligned(entry).map(Box::new);
    let slot = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    Some(entry.map(|entry| Chunk::Connection { slot, entry }))
}
