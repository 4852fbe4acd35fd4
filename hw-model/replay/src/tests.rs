//! Tests files that are not valid traces.

use std::mem::offset_of;

use falcon_nic::Parameters;
use transport_common::connection::{Connection, Snapshot, Tables};
use transport_common::tape::file::{ChunkHead, ChunkKind, Head};
use transport_common::tape::{PREFIX_BYTES, Tag, Tape};
use transport_common::transaction::{Response, TargetRequest, Transaction};
use transport_common::ulp::Answer;

use super::connections::Connections;
use super::reader::LastStep;
use super::{Chunk, Decisions, Ended, ReadError, Request, TraceReader, report};

mod next_hop;
mod notice;

fn head() -> Vec<u8> {
    Head::THIS.to_bytes().to_vec()
}

fn with_chunk(mut trace: Vec<u8>, kind: ChunkKind, payload: &[u8]) -> Vec<u8> {
    trace.extend(ChunkHead { kind, bytes: payload.len() as u32 }.to_bytes());
    trace.extend(payload);
    trace
}

/// Returns a tape with these words.
fn tape(words: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; Tape::HEAD_BYTES];
    bytes[0] = 1;
    bytes[4..8].copy_from_slice(&(words.len() as u32).to_le_bytes());
    assert_eq!(bytes.len(), 16 + PREFIX_BYTES);
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

/// Returns the bytes of a tape that was recorded.
pub(crate) fn bytes_of(tape: &mut Tape) -> Vec<u8> {
    let used = tape.used.get();
    let head = [tape.kind.get(), used, tape.steps.get(), tape.frame_length.get()];
    let mut bytes: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    bytes.extend(*tape.prefix.get_mut());
    bytes.extend(tape.words[..used as usize].iter().flat_map(|word| word.get().to_le_bytes()));
    bytes
}

fn error(trace: &[u8]) -> String {
    let mut reader = match TraceReader::new(trace) {
        Ok(reader) => reader,
        Err(error) => return error.to_string(),
    };
    Decisions::replay(&mut reader, |_| {}).expect_err("no trace").to_string()
}

#[test]
fn foreign_and_cut_files_are_told_apart() {
    assert!(error(b"").contains("this is not a trace"));
    assert!(error(&[0; 100]).contains("this is not a trace"));
    let mut other = head();
    other[12] ^= 1;
    assert!(error(&other).contains("another build took"), "{}", error(&other));
    assert!(error(&head()).contains("no end after event 0"));
    let run = with_chunk(head(), ChunkKind::RUN, &tape(&[Tag::End as u32 | 1 << 16]));
    for length in head().len() + 1..run.len() {
        assert!(error(&run[..length]).contains("no end after event 0"), "{length}");
    }
    assert!(error(&run).contains("nothing more") || error(&run).contains("asks for"), "{}", error(&run));
}

#[test]
fn damage_is_said() {
    let kind = with_chunk(head(), ChunkKind(77), &[]);
    assert!(error(&kind).contains("unknown kind 77"));
    let mut long = head();
    long.extend(ChunkHead { kind: ChunkKind::RUN, bytes: u32::MAX }.to_bytes());
    assert!(error(&long).contains("a chunk of 4294967295 bytes"));
    let tag = with_chunk(head(), ChunkKind::RUN, &tape(&[0xff]));
    assert!(error(&tag).contains("tag 255"), "{}", error(&tag));
    for payload in [&[0u8; 3][..], &tape(&[Tag::Now as u32 | 2 << 8]), &tape(&[])] {
        let short = with_chunk(head(), ChunkKind::RUN, payload);
        assert!(error(&short).contains("shorter than its contents"), "{}", error(&short));
    }
    for kind in [ChunkKind::CONNECTION, ChunkKind::LAST, ChunkKind::LOST, ChunkKind::END] {
        let short = with_chunk(head(), kind, &[0; 3]);
        assert!(error(&short).contains("shorter than its contents"));
    }
}

/// The bytes of a file become the state of a connection only if they are a valid state.
#[test]
fn a_connection_in_no_state_is_refused() {
    let place = |of: usize, within: usize| 8 + of + within;
    let whole = vec![0; 8 + size_of::<Snapshot>()];
    let tables = offset_of!(Snapshot, tables);
    let states = [
        place(offset_of!(Snapshot, connection), offset_of!(Connection, state)),
        place(
            tables,
            offset_of!(Tables, transactions) + 3 * size_of::<Transaction>() + offset_of!(Transaction, state),
        ),
        place(tables, offset_of!(Tables, requests) + offset_of!(TargetRequest, state)),
        place(tables, offset_of!(Tables, responses) + offset_of!(Response<Answer>, state)),
        place(
            tables,
            offset_of!(Tables, responses) + offset_of!(Response<Answer>, answer) + offset_of!(Answer, kind),
        ),
    ];
    let ends = |payload: &[u8]| error(&with_chunk(head(), ChunkKind::CONNECTION, payload));
    assert!(ends(&whole).contains("no end after event 0"), "{}", ends(&whole));
    for at in states {
        let mut damaged = whole.clone();
        damaged[at] = 0x80;
        assert!(ends(&damaged).contains("has an unknown state"), "byte {at}: {}", ends(&damaged));
    }
}

/// A run that the trace lacks is missed even if no recorded state of its connection follows.
#[test]
fn the_last_step_must_be_there() {
    let connection = vec![0; 8 + size_of::<Snapshot>()];
    let with_steps = |generation: u32, steps: u64| {
        let trace = with_chunk(head(), ChunkKind::CONNECTION, &connection);
        let payload = [&[0; 4][..], &generation.to_le_bytes(), &steps.to_le_bytes()].concat();
        let trace = with_chunk(trace, ChunkKind::LAST, &payload);
        with_chunk(trace, ChunkKind::END, &[0; 16])
    };
    let replay = |trace: Vec<u8>| Decisions::replay(&mut TraceReader::new(&*trace).expect("a head"), |_| {});
    assert!(replay(with_steps(0, 0)).is_ok());
    assert!(replay(with_steps(7, 1)).is_ok(), "another connection, of which the trace has no state");
    let missing = replay(with_steps(0, 1)).expect_err("step 1 is not there").to_string();
    assert!(missing.contains("step 1"), "{missing}");
}

/// The plain programs make steps between the last ones that are recorded, so these cannot be replayed.
#[test]
fn steps_after_the_last_are_left_out() {
    let mut connections = Connections::default();
    assert!(!connections.is_after_end(3, &[7]), "no end is known yet");
    connections.end_with([(3, LastStep { generation: 0, step: 7 })].into_iter().collect());
    assert!(!connections.is_after_end(3, &[6, 7]));
    assert!(connections.is_after_end(3, &[8]));
    assert!(connections.is_after_end(4, &[1]), "a connection that was opened after the end");
    assert!(!connections.has_ended(3, 6) && connections.has_ended(3, 7));
    assert!(connections.is_after_end(3, &[5, 9]), "a run is replayed as a whole");
    assert!(connections.is_after_end(3, &[6]), "step 5 is not replayed, so what follows is not");
    assert!(!connections.is_after_end(3, &[4]) && connections.has_ended(3, 4));
}

#[test]
fn an_empty_trace_is_one() {
    let trace = with_chunk(head(), ChunkKind::END, &[0; 16]);
    let mut reader = TraceReader::new(&*trace).expect("a head");
    assert!(matches!(reader.next_chunk(), Ok(Chunk::End { runs: 0, lost: 0 })));
    let mut reader = TraceReader::new(&*trace).expect("a head");
    assert_eq!(Decisions::replay(&mut reader, |_| {}).expect("nothing differs").events, 0);
}

/// A report on nothing would be an error without a reason.
#[test]
fn a_trace_without_events_is_not_reported_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.trace");
    let refused = |trace: Vec<u8>| {
        std::fs::write(&path, trace).expect("a file");
        let request = Request { trace: path.clone(), parameters: Parameters::default(), events: None };
        report(&request, |_, _| {}).expect_err("nothing to report on").to_string()
    };
    let empty = refused(with_chunk(head(), ChunkKind::END, &[0; 16]));
    assert!(empty.contains("run.trace: the trace is empty"), "{empty}");
    let mut end = [0; 16];
    end[8] = 7;
    let lost = refused(with_chunk(head(), ChunkKind::END, &end));
    assert!(lost.contains("7 runs were lost"), "{lost}");
}

proptest::proptest! {
    /// Any bytes after a header give an error and no panic.
    #[test]
    fn noise_is_refused(noise: Vec<u8>, words: Vec<u32>) {
        let noise = [head(), noise].concat();
        let mut reader = TraceReader::new(&*noise).expect("a head");
        let outcome = Decisions::replay(&mut reader, |_| {});
        let refused = matches!(outcome, Err(Ended::Read(ReadError::Truncated { .. } | ReadError::Damaged { .. })));
        proptest::prop_assert!(refused);
        let run = with_chunk(head(), ChunkKind::RUN, &tape(&words));
        let mut reader = TraceReader::new(&*run).expect("a head");
        let outcome = Decisions::replay(&mut reader, |_| {});
        proptest::prop_assert!(outcome.is_err());
    }
}
