//! The contract of a [`Platform`] of the datapath, as one suite of checks.
//!
//! [`check`] runs the suite on a [`Fixture`]: a platform over a [`HostNic`](crate::HostNic). It calls every function of the
//! interface. The host's platform passes it, and so do the platforms in front of it: a frame on a card whose memory
//! other runs use, the card in cycles, and the recorder.
//!
//! Two implementations cannot run it as a whole:
//!
//! - The replay of a trace takes its answers from a recording, and keeps nothing of a frame but the headers. It
//!   runs the [`checks`] that do not read a frame back; `hw-model/replay/src/platform/contract.rs` names the others.
//! - The platform of the XDP programs exists only in the kernel. Its evidence is the differential test, which
//!   compares runs of the datapath in the kernel with those on the host. [`Platform`] says how far that goes.

mod congestion;
mod fixture;
mod node;

use transport_common::connection::State;
use transport_common::datapath::{
    Atomic, Cells as _, Connections as _, Frames as _, HEADER_BYTES, Host as _, Locked as _, MAX_COPY,
    MAX_HEADERS, MAX_SUMMED_HEADERS, MIN_CELL_FRAME, MIN_FRAME, Memory as _, PREFIX_BYTES, Platform, Scratch,
    Services as _, UDP_AT,
};
use transport_common::ids::CellId;
use transport_common::queues::{BANK_BYTES, CONNECTIONS};
use transport_common::units::{Picoseconds, Ticks};
use transport_common::wire::cursor::{Bytes as _, Cursor as _};

use fixture::{CELLS, FRAME_LIMIT, MEMORY, frame_of, scratch};

pub use fixture::{Fixture, node};

/// A check, and its name.
pub type Check<F> = (&'static str, fn(&mut F));

/// Returns all checks. Each leaves the node so that the others can follow.
#[must_use]
pub fn checks<F: Fixture>() -> Vec<Check<F>> {
    macro_rules! named {
        ($($check:path),* $(,)?) => {
            vec![$((stringify!($check), $check as fn(&mut F))),*]
        };
    }
    named![
        headers_are_read,
        frames_get_the_length_of_their_packet,
        headers_are_stored_within_bounds,
        sums_are_those_of_the_bytes,
        memory_is_copied_within_bounds,
        atomics_change_whole_words,
        cells_have_one_owner,
        cells_keep_what_they_are_given,
        locks_are_given_back,
        services_are_asked_for_and_answered,
        deadlines_come,
        node::only_own_addresses_are_owned,
        node::counters_are_raised_by_one,
        node::the_card_reports_arrival_and_buffer,
        node::regions_are_found_by_their_index,
        node::a_backlog_is_more_than_one_request,
        congestion::the_admission_sees_the_queues,
        congestion::events_are_published_in_order,
        congestion::results_are_taken_in_order,
        congestion::delays_are_counted_in_their_buckets,
    ]
}

/// Runs all checks.
///
/// # Panics
/// Panics if a check fails.
pub fn check(node: &mut impl Fixture) {
    checks().into_iter().for_each(|(_, check)| check(node));
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 256) as u8).collect()
}

/// Returns all bytes of the current frame.
fn content(platform: &mut impl Platform) -> Vec<u8> {
    let mut cursor = platform.cursor();
    std::iter::from_fn(|| cursor.take::<1>().map(|byte| byte.array::<0, 1>()[0])).collect()
}

fn headers_are_read(node: &mut impl Fixture) {
    for length in [20, PREFIX_BYTES] {
        let frame = bytes(length);
        let mut platform = node.with(frame_of(frame.clone()));
        assert_eq!(platform.cursor().remaining(), length);
        assert_eq!(content(&mut platform), frame);
        let mut prefix = [0xee; PREFIX_BYTES];
        platform.peek(&mut prefix);
        assert_eq!(prefix[..length], frame);
        assert!(prefix[length..].iter().all(|byte| *byte == 0xee), "bytes beyond the frame are not written");
    }
}

/// Puts a frame of these header bytes and of the payload at `at`.
fn put(platform: &mut impl Platform, s: &mut Scratch, headers: (u32, u32), at: u64, length: u32) -> bool {
    s.step.output.packet.ulp.memory_offset = at;
    platform.put_frame(s, headers.0, headers.1, length)
}

fn frames_get_the_length_of_their_packet(node: &mut impl Fixture) {
    let mut s = scratch();
    s.header.copy_from_slice(&bytes(HEADER_BYTES));
    for length in [20, PREFIX_BYTES, 1000] {
        let frame = bytes(length);
        let mut platform = node.with(frame_of(frame.clone()));
        assert_eq!(content(&mut platform), frame);
        let mut prefix = [0xee; PREFIX_BYTES];
        platform.peek(&mut prefix);
        let known = length.min(PREFIX_BYTES);
        assert_eq!(prefix[..known], frame[..known]);
        assert!(prefix[known..].iter().all(|byte| *byte == 0xee), "bytes beyond the frame are not written");

        assert!(!put(&mut platform, &mut s, (0, MIN_FRAME - 1), 0, 0), "a frame has an Ethernet header");
        assert!(!put(&mut platform, &mut s, (0, 60), 0, FRAME_LIMIT - 59), "too long");
        assert_eq!(content(&mut platform), frame, "nothing has changed");
        for (headers, payload) in [(60, length as u32), (60, FRAME_LIMIT - 60), (MIN_FRAME, 0), (66, 1)] {
            assert!(put(&mut platform, &mut s, (0, headers), 0, payload));
            assert_eq!(platform.cursor().remaining(), (headers + payload) as usize);
        }
    }
}

fn headers_are_stored_within_bounds(node: &mut impl Fixture) {
    let mut s = scratch();
    s.header.copy_from_slice(&bytes(HEADER_BYTES));
    let last = HEADER_BYTES as u32 - MAX_HEADERS;
    let mut platform = node.with(frame_of(vec![0; 300]));
    for (start, length) in [(0, MIN_FRAME), (last, MAX_HEADERS), (7, 66)] {
        assert!(put(&mut platform, &mut s, (start, length), 0, 0));
        assert_eq!(content(&mut platform), s.header[start as usize..(start + length) as usize]);
    }
    for (start, length) in [(0, 0), (last + 1, 60), (0, MAX_HEADERS + 1), (u32::MAX, 60), (0, u32::MAX)] {
        assert!(!put(&mut platform, &mut s, (start, length), 0, 0), "{length} from {start}");
    }
}

/// Returns true if `sum` is a correct sum of `of`. Sums of 16-bit words in memory order are equivalent if they are
/// equal modulo 2^16 - 1.
fn same(sum: u64, of: &[u8]) -> bool {
    let pairs = of.chunks(2).map(|pair| [pair[0], pair.get(1).copied().unwrap_or(0)]);
    let expected: u64 = pairs.map(|pair| u64::from(u16::from_ne_bytes(pair))).sum();
    sum % 0xffff == expected % 0xffff
}

fn sums_are_those_of_the_bytes(node: &mut impl Fixture) {
    let mut s = scratch();
    let frame = bytes(3000);
    let mut platform = node.with(frame_of(frame.clone()));
    for (offset, length) in [(0, 1), (1, 2), (42, 255), (34, 256), (34, 257), (10, 2990)] {
        let sum = platform.sum_frame(&mut s, offset, length).expect("inside the frame");
        assert!(
            same(sum.into(), &frame[offset as usize..(offset + length) as usize]),
            "{length} from {offset}"
        );
        assert!(platform.frame_to_memory(offset, 64, length));
        s.step.output.packet.ulp.memory_offset = 64;
        let sum = platform.sum_packet(&s, 0, length);
        assert!(same(sum, &frame[offset as usize..(offset + length) as usize]), "{length} in memory");
    }
    for (offset, length) in [(0, 0), (0, 3001), (2999, 2), (3000, 1), (0, MAX_COPY + 1), (u32::MAX, 1)] {
        assert_eq!(platform.sum_frame(&mut s, offset, length), None, "{length} from {offset}");
    }
    s.header.copy_from_slice(&frame[..HEADER_BYTES]);
    // Headers, and headers with a payload in memory.
    let behind = &frame[10..113];
    assert!(platform.frame_to_memory(10, 64, 103));
    for headers in [4, 52, MAX_SUMMED_HEADERS] {
        let own = &s.header[UDP_AT..UDP_AT + headers as usize].to_vec();
        assert!(same(platform.sum_packet(&s, headers, 0), own), "{headers}");
        assert!(same(platform.sum_packet(&s, headers, 103), &[own, behind].concat()), "{headers}");
    }
    let refused = [(MAX_SUMMED_HEADERS + 4, 0), (0, 0), (0, MAX_COPY + 1), (u32::MAX, u32::MAX)];
    assert_eq!(refused.map(|(headers, length)| platform.sum_packet(&s, headers, length)), [0; 4]);
    s.step.output.packet.ulp.memory_offset = u64::MAX;
    assert_eq!(platform.sum_packet(&s, 0, 8), 0);
}

fn memory_is_copied_within_bounds(node: &mut impl Fixture) {
    const HEADERS: u32 = 60;
    let behind = HEADERS as usize;
    let mut s = scratch();
    let frame = bytes(1000);
    let bank = BANK_BYTES as u64;
    let copies = [(0, 0, 1), (14, 1001, 256), (14, 4099, 257), (0, 8192, 1000)];
    // Across the end of a bank, at the end of one, and at the end of the memory.
    let at_ends =
        [(0, bank - 1, 2), (5, 2 * bank - 999, 995), (1, bank - 300, 300), (0, MEMORY - 1000, 1000)];
    for (offset, at, length) in copies.into_iter().chain(at_ends) {
        let mut platform = node.with(frame_of(frame.clone()));
        assert!(platform.frame_to_memory(offset, at, length));
        assert!(put(&mut platform, &mut s, (0, HEADERS), at, length));
        let copied = &frame[offset as usize..(offset + length) as usize];
        assert_eq!(content(&mut platform)[behind..], *copied);
        assert!(same(platform.sum_packet(&s, 0, length), copied), "{length} at {at}");
    }
    let mut platform = node.with(frame_of(frame.clone()));
    assert!(platform.frame_to_memory(0, 0, 1000));
    let refused = [(0, 0, 0), (1, 0, 1000), (0, 0, MAX_COPY + 1), (1000, 0, 1), (0, u64::MAX, 8)];
    let beyond = [(0, MEMORY, 8), (0, MEMORY - 999, 1000), (900, bank - 50, 101)];
    for (offset, at, length) in refused.into_iter().chain(beyond) {
        assert!(!platform.frame_to_memory(offset, at, length), "{length} from {offset} to {at}");
    }
    assert_eq!(content(&mut platform), frame, "nothing has changed");
    assert!(put(&mut platform, &mut s, (0, HEADERS), 0, 1000));
    assert_eq!(content(&mut platform)[behind..], frame, "nor in memory");
    for (at, length) in [(MEMORY, 8), (MEMORY - 999, 1000), (u64::MAX, 8), (0, MAX_COPY + 1)] {
        assert!(!put(&mut platform, &mut s, (0, HEADERS), at, length), "{length} at {at}");
    }
    for at in [bank - 3, MEMORY - 8] {
        let value = 0x0807_0605_0403_0201u64;
        assert!(platform.store_value(at, value) && put(&mut platform, &mut s, (0, HEADERS), at, 8));
        assert_eq!(content(&mut platform)[behind..], value.to_ne_bytes(), "at {at}");
    }
}

fn atomics_change_whole_words(node: &mut impl Fixture) {
    let mut platform = node.with(frame_of(vec![0; 64]));
    assert!(platform.store_value(4096, 5) && platform.store_value(4105, 9), "any alignment is valid");
    for outside in [u64::MAX, MEMORY, MEMORY - 7] {
        assert!(!platform.store_value(outside, 1), "{outside}");
    }
    assert!(platform.store_value(4096, 5));
    assert_eq!(platform.atomic(Atomic::FetchAdd, 4096, u64::MAX, 0), 5);
    assert_eq!(platform.atomic(Atomic::CompareSwap, 4096, 7, 5), 4, "a different value does not change");
    assert_eq!(platform.atomic(Atomic::CompareSwap, 4096, 8, 4), 4);
    assert_eq!(platform.atomic(Atomic::FetchAdd, 4096, 0, 8), 8);
    assert_eq!(platform.atomic(Atomic::FetchAdd, 4103, 0, 0), 8, "the word is aligned");
    for outside in [MEMORY, u64::MAX - 7] {
        for kind in [Atomic::FetchAdd, Atomic::CompareSwap] {
            assert_eq!(platform.atomic(kind, outside, 1, 0), 0);
        }
    }
}

/// Returns the number of cells in use.
fn cells_in_use(platform: &mut impl Platform) -> u32 {
    let mut s = scratch();
    platform.observe(&mut s, 0, false);
    s.step.input.cells_in_use
}

fn cells_have_one_owner(node: &mut impl Fixture) {
    let mut platform = node.with(frame_of(vec![0; 64]));
    let taken: Vec<CellId> = (0..CELLS).map(|_| platform.frame_to_cell(0, 8)).collect();
    let mut different = taken.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), CELLS, "{taken:?}");
    assert!(!taken.contains(&CellId::NONE));
    assert_eq!((cells_in_use(&mut platform), platform.frame_to_cell(0, 8)), (CELLS as u32, CellId::NONE));
    platform.free_cell(taken[1]);
    assert_eq!((cells_in_use(&mut platform), platform.frame_to_cell(0, 8)), (CELLS as u32 - 1, taken[1]));
    taken.into_iter().for_each(|cell| platform.free_cell(cell));
    assert_eq!(cells_in_use(&mut platform), 0);
    for (offset, length) in [(64, 1), (57, 8), (0, MAX_COPY + 1), (u32::MAX, 1)] {
        assert_eq!(platform.frame_to_cell(offset, length), CellId::NONE, "{length} from {offset}");
        assert_eq!(cells_in_use(&mut platform), 0, "the cell is given back");
    }
}

fn cells_keep_what_they_are_given(node: &mut impl Fixture) {
    let frame = bytes(2000);
    for length in [1, MIN_CELL_FRAME, 300, 1900] {
        let mut platform = node.with(frame_of(frame.clone()));
        let cell = platform.frame_to_cell(90, length);
        assert!(platform.cell_to_frame(cell, length));
        assert_eq!(platform.cursor().remaining(), length.max(MIN_CELL_FRAME) as usize);
        assert_eq!(content(&mut platform)[..length as usize], frame[90..90 + length as usize]);
        platform.free_cell(cell);
    }
    let mut platform = node.with(frame_of(frame));
    let cell = platform.frame_to_cell(0, 0);
    assert!(!cell.is_none() && platform.cell_to_frame(cell, 0), "zero bytes are stored too");
    assert!(!platform.cell_to_frame(CellId::NONE, 8));
    platform.free_cell(cell);
}

fn locks_are_given_back(node: &mut impl Fixture) {
    let mut platform = node.with(frame_of(vec![0; 64]));
    for round in 0..2 {
        for slot in [0, CONNECTIONS as u32 - 1] {
            let mut connection = platform.lock(slot).expect("the lock is free");
            assert_eq!(connection.parts().0.inspect().connection.state, State::Closed, "round {round}");
            platform.unlock(connection);
        }
    }
    assert!(platform.lock(CONNECTIONS as u32).is_none(), "there is no such slot");
    assert!(platform.lock(u32::MAX).is_none());
}

fn services_are_asked_for_and_answered(node: &mut impl Fixture) {
    let mut platform = node.with(frame_of(vec![0; 64]));
    assert_eq!(platform.ready(), None);
    for slot in [9, 3, 3] {
        platform.wake(slot, None);
    }
    let mut served = Vec::new();
    while let Some(slot) = platform.ready() {
        assert!(served.len() < 3, "two requests of one connection are one service: {served:?}");
        platform.answer(slot);
        served.push(slot);
    }
    served.sort_unstable();
    assert_eq!(served, [3, 9]);
    platform.wake(5, Some(Picoseconds(1_000_000_000_000).after(Ticks(10).as_picos())));
    assert_eq!(platform.ready(), Some(5), "an engine that is awake gets the request at once");
    platform.answer(5);
}

fn deadlines_come(node: &mut impl Fixture) {
    let mut platform = node.with(frame_of(vec![0; 64]));
    let now = platform.now();
    assert_eq!(platform.expired(now), None);
    platform.file(7, now, Ticks(1000));
    let due = |ticks: u32| now.after(Ticks(ticks).as_picos());
    assert_eq!(platform.expired(due(990)), None);
    // The wheel may need several polls to reach a deadline, and may be late by one of its own ticks.
    let expired = (0..64).find_map(|_| platform.expired(due(1010)));
    assert_eq!(expired, Some(7));
    assert_eq!((0..64).find_map(|_| platform.expired(due(2000))), None, "once");
}
