//! The operations of a small world, and their places in the memories of both ends.

use host_nic::HostNic;
use transport_common::ids::Rsn;
use transport_common::queues::{Verb, WorkFlags, WorkRequest};
use transport_common::ulp::block::BLOCK_BYTES;

use super::small_world::{SmallOp, SmallWorld};

/// The slot of the connection at both ends.
pub(super) const SLOT: usize = 5;
/// Region of each end that the other may use: its key and its place.
pub(super) const KEY: u32 = 1;
pub(super) const REMOTE: u64 = 2048;
pub(super) const REMOTE_BYTES: u64 = 2048;
/// Where receives begin.
pub(super) const RECEIVES: u64 = REMOTE + REMOTE_BYTES;
/// What an atomic adds, and what its initiator's memory holds before the answer.
pub(super) const ADDEND: u64 = 7;
const UNANSWERED: [u8; 8] = [0xaa; 8];

/// Returns the RSN of the first operation of either end.
pub(super) fn first_rsn() -> Rsn {
    host_nic::testbed::connection(0, SLOT).tx.rsn
}

/// Returns how far apart the places of two operations are.
pub(super) const fn stride(world: &SmallWorld) -> u64 {
    if world.blocks { BLOCK_BYTES as u64 } else { 64 }
}

/// Returns the place of an operation's bytes at its initiator.
pub(super) const fn local(world: &SmallWorld, number: usize) -> usize {
    stride(world) as usize * number
}

/// Returns the place of an operation's bytes at its target. Each has its own.
pub(super) const fn remote(world: &SmallWorld, number: usize) -> usize {
    REMOTE as usize + stride(world) as usize * number
}

/// Returns the bytes that an operation moves which come from `side`.
pub(super) fn pattern(world: &SmallWorld, side: usize, number: usize) -> &'static [u8] {
    static PATTERNS: [[u8; BLOCK_BYTES as usize]; 8] =
        [[0x11; _], [0x12; _], [0x13; _], [0x14; _], [0x21; _], [0x22; _], [0x23; _], [0x24; _]];
    &PATTERNS[side * 4 + number][..world.bytes() as usize]
}

/// Returns the work request of an operation.
pub(super) fn work(world: &SmallWorld, number: usize, op: SmallOp) -> WorkRequest {
    let base = WorkRequest {
        flags: WorkFlags::SIGNALED,
        wr_id: number as u64,
        length: world.bytes(),
        local_offset: local(world, number) as u64,
        remote_address: remote(world, number) as u64 - REMOTE,
        rkey: KEY,
        ..WorkRequest::default()
    };
    match op {
        SmallOp::Write => WorkRequest { opcode: Verb::WRITE, ..base },
        SmallOp::Read => WorkRequest { opcode: Verb::READ, ..base },
        SmallOp::FetchAdd => WorkRequest { opcode: Verb::FETCH_ADD, length: 0, swap_or_add: ADDEND, ..base },
        SmallOp::Send => WorkRequest { opcode: Verb::SEND_ONLY, rkey: 0, remote_address: 0, ..base },
    }
}

/// Fills the bytes that an operation moves.
pub(super) fn prepare(world: &SmallWorld, nics: &mut [HostNic; 2], side: usize, number: usize, op: SmallOp) {
    let mut fill = |side: usize, at: usize, bytes: &[u8]| {
        nics[side].memory_mut()[at..][..bytes.len()].copy_from_slice(bytes);
    };
    match op {
        SmallOp::Write | SmallOp::Send => fill(side, local(world, number), pattern(world, side, number)),
        SmallOp::Read => fill(1 - side, remote(world, number), pattern(world, 1 - side, number)),
        SmallOp::FetchAdd => fill(side, local(world, number), &UNANSWERED),
    }
}
