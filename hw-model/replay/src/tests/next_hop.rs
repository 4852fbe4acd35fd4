//! The next hop of a connection, and its settings of congestion control, change while a trace is taken.

use host_nic::testbed::{connection, node};
use host_nic::{FrameAtHand, HostConfig, HostNic};
use transport_common::congestion::settings::Settings;
use transport_common::connection::{Endpoint, Path};
use transport_common::datapath::{Scratch, Turn, engine};
use transport_common::ids::Cid;
use transport_common::queues::{Verb, WorkRequest};
use transport_common::tape::{Recorded, RunKind, finish};
use transport_common::units::Picoseconds;

use super::*;

pub(super) const SLOT: usize = 5;
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// Has the engine send a WRITE. Returns the tape of the run.
pub(super) fn sent(nic: &mut HostNic) -> Vec<u8> {
    let work = WorkRequest { opcode: Verb::WRITE, length: 8, rkey: 1, ..WorkRequest::default() };
    nic.post(SLOT, work).expect("the queue has space");
    let mut tape: Box<Tape> = bytemuck::zeroed_box();
    let mut scratch: Box<Scratch> = bytemuck::zeroed_box();
    let mut frame = FrameAtHand::of_the_engine();
    tape.begin(RunKind::ENGINE);
    let turn = engine(&mut Recorded::new(nic.platform(&mut frame), &tape), &mut scratch, false);
    assert_eq!((turn, finish(&tape, turn) > 0), (Turn::Transmit, true));
    bytes_of(&mut tape)
}

/// Adds the state of the connection to a trace.
pub(super) fn with_state(trace: Vec<u8>, nic: &HostNic) -> Vec<u8> {
    let slot = (SLOT as u64).to_le_bytes();
    let payload = [&slot[..], bytemuck::bytes_of(nic.entry(SLOT))].concat();
    with_chunk(trace, ChunkKind::CONNECTION, &payload)
}

/// Begins a trace: the state of the connection, a run that sends, and the state again.
pub(super) fn begun() -> (HostNic, Vec<u8>) {
    let mut nic = HostNic::new(HostConfig::new(node(0)));
    nic.open(SLOT, &connection(0, SLOT));
    nic.set_time(Picoseconds(1_000_000_000));
    let begin = with_state(head(), &nic);
    let first = sent(&mut nic);
    let trace = with_state(with_chunk(begin, ChunkKind::RUN, &first), &nic);
    (nic, trace)
}

/// Returns the position of the word after the head of the first note of this kind.
pub(super) fn words_of(tape: &[u8], tag: Tag) -> usize {
    let mut at = Tape::HEAD_BYTES;
    while tape[at] != tag as u8 {
        at += 4 + 4 * usize::from(tape[at + 1]);
    }
    at + 4
}

/// No decision differs, although frames leave for another next hop, and states of the same number of steps have two next hops. A
/// trace that names another next hop than that of the frame diverges.
#[test]
fn a_change_of_the_next_hop_is_replayed() {
    let (mut nic, between) = begun();
    let path = Path { destination_mac: ROUTER, ..Path::default() };
    let request = Endpoint { path, local_cid: Cid(SLOT as u32), ..Endpoint::default() };
    let generation = nic.entry(SLOT).connection.generation;
    assert!(nic.set_next_hop(SLOT, &request, generation));
    let between = with_state(between, &nic);
    let second = sent(&mut nic);
    let at = words_of(&second, Tag::NextHop);
    assert_eq!([&second[at..at + 4], &second[at - 2..at]].concat(), ROUTER);

    let replayed = |second: &[u8]| {
        let trace = with_state(with_chunk(between.clone(), ChunkKind::RUN, second), &nic);
        let trace = with_chunk(trace, ChunkKind::END, &[0; 16]);
        Decisions::replay(&mut TraceReader::new(&*trace).expect("a head"), |_| {})
    };
    let summary = replayed(&second).expect("nothing differs");
    assert_eq!((summary.events, summary.connections_compared), (2, 3));
    let mut wrong = second.clone();
    wrong[at] ^= 4;
    let error = replayed(&wrong).expect_err("the frame had another next hop").to_string();
    assert!(error.contains("event 1"), "{error}");
}

/// The node requests settings between two steps; the next service puts them into force, in the replay too. A trace that names
/// other settings diverges.
#[test]
fn a_change_of_the_settings_is_replayed() {
    let (mut nic, between) = begun();
    nic.set_congestion(SLOT, Settings::SWIFT);
    let between = with_state(between, &nic);
    let second = sent(&mut nic);
    assert_eq!(nic.entry(SLOT).settings.in_force, Settings::SWIFT);
    let third = sent(&mut nic);
    let at = words_of(&second, Tag::Settings);
    assert_eq!(second[at..at + size_of::<Settings>()], *bytemuck::bytes_of(&Settings::SWIFT));

    let replayed = |second: &[u8]| {
        let trace = with_chunk(with_chunk(between.clone(), ChunkKind::RUN, second), ChunkKind::RUN, &third);
        let trace = with_chunk(with_state(trace, &nic), ChunkKind::END, &[0; 16]);
        Decisions::replay(&mut TraceReader::new(&*trace).expect("a head"), |_| {})
    };
    let summary = replayed(&second).expect("nothing differs");
    assert_eq!((summary.events, summary.connections_compared), (3, 3));
    let mut wrong = second.clone();
    wrong[at] ^= 4;
    replayed(&wrong).map(drop).expect_err("other settings were in force");
}
