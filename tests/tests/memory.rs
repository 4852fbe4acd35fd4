//! The memory of nodes: operations across the ends of its banks, the longest operations, and sizes that are refused.

use std::time::Duration;

use anyhow::Result;
use tiercel::{Access, Completion, Error, MemoryRegion, Verb, WorkFlags, WorkRequest};
use tiercel_node::{Node, NodeError, NodeOptions};
use tiercel_tests::checks::{self, pattern, wait_until};
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::{Host, Pair, need_root};
use transport_common::counters::Counter;
use transport_common::queues::BANK_BYTES;

/// The longest operation, and the longest of verbs.
const GIB: u64 = 1 << 30;

fn read(region: &MemoryRegion, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    region.read(offset, &mut bytes).expect("in bounds");
    bytes
}

/// Returns the offset in `region` at which the first bank ends.
fn end_of_bank(region: &MemoryRegion) -> u64 {
    let bank = BANK_BYTES as u64;
    bank - region.info().offset % bank
}

/// Returns how many bytes before the end of a bank the operations begin, and how many are behind it. Pieces of up to 64
/// bytes are copied in another way than longer ones, and the sum of a piece depends on whether it begins at an odd byte.
fn splits() -> impl Iterator<Item = (u64, u64)> {
    let sizes = [1, 2, 3, 4, 7, 8, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1600];
    sizes.into_iter().flat_map(move |before| sizes.map(|behind| (before, behind)))
}

/// WRITE, READ and SEND with a part of their bytes in one bank of memory and the rest in the next, at either end and at
/// both; the bytes around stay as they were. The packets carry a checksum, which covers the bytes.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn operations_across_the_end_of_a_bank() -> Result<()> {
    need_root();
    const AROUND: u64 = 4096;
    let nodes = TwoNodes::up(Pair::direct()?, Setup::default())?;
    let two_banks = 2 * BANK_BYTES;
    let local = nodes.a.register(two_banks, Access::LOCAL)?;
    let remote = nodes.b.register(two_banks, Access::ALL)?;
    let (here, there) = (end_of_bank(&local), end_of_bank(&remote));
    let around = |region: &MemoryRegion, end: u64| read(region, end - AROUND, 2 * AROUND);
    let replaced = |mut bytes: Vec<u8>, from: u64, with: &[u8]| {
        bytes[from as usize..][..with.len()].copy_from_slice(with);
        bytes
    };
    checks::block_on(async {
        for (n, (before, behind)) in splits().enumerate() {
            let (length, seed) = (before + behind, 3 * n as u64);
            let what = format!("{before} bytes before the end, {behind} behind it");
            let (source, target) =
                (pattern(2 * AROUND as usize, seed), pattern(2 * AROUND as usize, seed + 1));
            local.write(here - AROUND, &source)?;
            remote.write(there - AROUND, &target)?;
            let at = (AROUND - before) as usize;
            let sent = &source[at..at + length as usize];
            nodes.at_a.write(&local, here - before, remote.key(), there - before, length).await?;
            assert!(
                around(&remote, there) == replaced(target.clone(), AROUND - before, sent),
                "WRITE, {what}"
            );

            // Only one of the ends is split.
            nodes.at_a.write(&local, here - before, remote.key(), 1, length).await?;
            assert!(read(&remote, 1, length) == sent, "WRITE from two banks, {what}");
            nodes.at_a.read(&local, 1, remote.key(), there - before, length).await?;
            assert!(read(&local, 1, length) == sent, "READ from two banks, {what}");

            let answer = pattern(length as usize, seed + 2);
            remote.write(5, &answer)?;
            nodes.at_a.read(&local, here - before, remote.key(), 5, length).await?;
            assert!(around(&local, here) == replaced(source, AROUND - before, &answer), "READ, {what}");

            remote.write(there - AROUND, &target)?;
            nodes.at_b.post_receive(&remote, there - before, length as u32, n as u64)?;
            let (send, receive) =
                tokio::join!(nodes.at_a.send(&local, here - before, length, None), nodes.at_b.receive());
            send?;
            assert_eq!(u64::from(receive?.length), length);
            assert!(around(&remote, there) == replaced(target, AROUND - before, &answer), "SEND, {what}");
        }
        anyhow::Ok(())
    })?;
    for node in [&nodes.a, &nodes.b] {
        assert_eq!(node.stats()?.counters[Counter::DropUdpChecksum.name()], 0);
    }
    Ok(())
}

/// The original value of an atomic is stored wherever the work request says, also in two banks, and the atomics at the
/// first and the last word of a bank change that word only.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn atomics_at_the_end_of_a_bank() -> Result<()> {
    need_root();
    let nodes = TwoNodes::up(Pair::direct()?, Setup::default())?;
    let local = nodes.a.register(2 * BANK_BYTES, Access::LOCAL)?;
    let remote = nodes.b.register(2 * BANK_BYTES, Access::ALL)?;
    let (here, there) = (end_of_bank(&local), end_of_bank(&remote));
    for before in 0..=8 {
        for (word, value) in [(there - 8, 0x0102_0304_0506_0708_u64), (there, 0x1112_1314_1516_1718)] {
            remote.write(there - 16, &[0xee; 32])?;
            remote.write(word, &value.to_ne_bytes())?;
            local.write(here - 16, &[0xdd; 32])?;
            let work = WorkRequest {
                opcode: Verb::FETCH_ADD,
                flags: WorkFlags::SIGNALED,
                length: 8,
                local_offset: local.local_offset(here - before, 8)?,
                rkey: remote.key().0,
                remote_address: word,
                swap_or_add: 1,
                ..WorkRequest::default()
            };
            nodes.at_a.post(work)?;
            let mut done = [Completion::default(); 1];
            wait_until("the atomic completes", || nodes.at_a.poll(&mut done) == 1);
            assert_eq!(done[0].status, 0, "{before} bytes before the end");
            let mut stored = vec![0xdd; 32];
            stored[16 - before as usize..][..8].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(read(&local, here - 16, 32), stored, "{before} bytes before the end");
            let mut changed = vec![0xee; 32];
            changed[(word + 16 - there) as usize..][..8].copy_from_slice(&(value + 1).to_ne_bytes());
            assert_eq!(read(&remote, there - 16, 32), changed);
        }
    }
    Ok(())
}

/// Compares a region with copies of `piece`, from `at` on.
fn holds(region: &MemoryRegion, at: u64, length: u64, piece: &[u8]) -> bool {
    let size = piece.len() as u64;
    (0..length).step_by(piece.len()).all(|done| {
        let bytes = size.min(length - done);
        read(region, at + done, bytes) == piece[..bytes as usize]
    })
}

/// One WRITE with immediate data, and one READ, of 1 GiB, from and to odd addresses.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_operation_of_one_gibibyte() -> Result<()> {
    need_root();
    const IMMEDIATE: u32 = 0xfeed_f00d;
    // A busy machine may move less than 20 MB in a second.
    const PATIENCE: Duration = Duration::from_secs(300);
    let setup = Setup { memory: Some(GIB + 1), ..Setup::default() };
    let nodes = TwoNodes::up(Pair::direct()?, setup)?;
    assert_eq!(nodes.a.stats()?.pools.memory, GIB + BANK_BYTES as u64, "whole banks");
    let (from, to) = (5, 3);
    let room = (GIB + 8) as usize;
    let (local, remote) = (nodes.a.register(room, Access::LOCAL)?, nodes.b.register(room, Access::ALL)?);
    // Of a length that has no factor in common with a bank or a segment, so that no piece is in the place of another.
    let piece = pattern((1 << 20) - 1, 1);
    for at in (0..GIB).step_by(piece.len()) {
        local.write(from + at, &piece[..piece.len().min((GIB - at) as usize)])?;
    }
    nodes.at_b.post_receive(&remote, 0, 1, 4)?;
    let (written, received) = checks::block_on_for(PATIENCE, async {
        let write = nodes.at_a.write_immediate(&local, from, remote.key(), to, GIB, IMMEDIATE);
        tokio::join!(write, nodes.at_b.receive())
    });
    written?;
    assert_eq!(received?.immediate, Some(IMMEDIATE));
    assert!(holds(&remote, to, GIB, &piece), "WRITE");
    assert_eq!((read(&remote, 0, to), read(&remote, to + GIB, 5)), (vec![0; 3], vec![0; 5]));

    let other = pattern(piece.len(), 2);
    for at in (0..GIB).step_by(other.len()) {
        remote.write(to + at, &other[..other.len().min((GIB - at) as usize)])?;
    }
    checks::block_on_for(PATIENCE, nodes.at_a.read(&local, from, remote.key(), to, GIB))?;
    assert!(holds(&local, from, GIB, &other), "READ");
    assert_eq!((read(&local, 0, from), read(&local, from + GIB, 3)), (vec![0; 5], vec![0; 3]));
    Ok(())
}

/// A node says how much memory it has, and how much it can have.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn memory_that_is_not_there_is_refused() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let up = |memory: u64| {
        let options = NodeOptions { memory, ..NodeOptions::new(Host::INTERFACE, pair.a.ipv4.into()) };
        pair.a.run(|| Node::up(options))
    };
    for asked in [0, (256 << 20) - 1, (64 << 30) + 1, u64::MAX] {
        let error = up(asked).expect_err("refused");
        assert!(matches!(error, NodeError::Library(Error::NodeMemory { .. })), "{asked}: {error}");
        assert!(error.to_string().ends_with("choose 256MiB to 64GiB"), "{error}");
    }
    let node = up(256 << 20)?;
    let free = node.stats()?.pools.memory;
    let Err(Error::OutOfMemory { asked, free: left, largest }) = node.register(GIB as usize, Access::ALL)
    else {
        panic!("a node of the default size has less than 1 GiB");
    };
    assert_eq!((asked, left, largest), (GIB, free, free));
    node.register(free as usize, Access::ALL)?;
    Ok(())
}
