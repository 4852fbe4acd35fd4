//! Passes arbitrary bytes through the reader of trace files, for the fuzz target `trace` and the replay of its inputs.
//! Not part of the library's interface.

use crate::{Chunk, ReadError, RecordedRun, TraceReader};
use transport_common::tape::file::Head;

/// A trace file, with and without its header, and a tape alone. Returns how many chunks were read.
pub fn trace(bytes: &[u8]) -> usize {
    let count = read(bytes) + read(&[&Head::THIS.to_bytes(), bytes].concat());
    if let Ok(run) = RecordedRun::from_bytes(bytes) {
        assert!(run.notes().all(|note| note.is_ok()), "a run that was read has only notes that can be read");
    }
    count
}

fn read(bytes: &[u8]) -> usize {
    let Ok(mut reader) = TraceReader::new(bytes) else { return 0 };
    let (mut runs, mut chunks) = (0, 0);
    loop {
        match reader.next_chunk() {
            Ok(Chunk::Run(_)) => runs += 1,
            Ok(_) => chunks += 1,
            Err(error) => {
                assert!(!matches!(error, ReadError::Io(_)), "{error}");
                break;
            }
        }
    }
    assert_eq!(reader.runs(), runs);
    chunks + runs as usize
}
