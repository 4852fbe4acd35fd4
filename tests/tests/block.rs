//! The block protocol, the second ULP, between two nodes on real hosts (F-7.1-2, F-7.2-6).

use anyhow::Result;
use tempfile::TempDir;
use tiercel::{Access, OperationError, Ulp};
use tiercel_tests::checks::{block_on, contents, counter, fill, given_back, info, pools, settle, wait_until};
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::{Pair, need_root};
use transport_common::counters::Counter;
use transport_common::transaction::CompletionCode;

fn blocks() -> Setup {
    Setup { ulp: Ulp::Block, ..Setup::default() }
}

const BULK: usize = 1 << 20;

/// Bytes of 2048 blocks cross both ways through loss, reordering, duplicates and corruption. Then nothing is left in any
/// pool.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn blocks_cross_a_lossy_fabric() -> Result<()> {
    need_root();
    for (seed, ordered, ipv6) in [(21, true, false), (22, false, false), (23, false, true)] {
        let fabric = format!("seed={seed},loss=1%,reorder=1%,duplicate=0.1%,corrupt=0.1%,scope=udp");
        let nodes = TwoNodes::up(Pair::through(fabric.parse()?)?, Setup { ordered, ipv6, ..blocks() })?;
        assert_eq!((info(&nodes.at_a).ulp, nodes.at_a.max_segment() % 512), (Ulp::Block, 0));
        let before = [pools(&nodes.a), pools(&nodes.b)];
        let (local, back) = (nodes.a.register(BULK, Access::LOCAL)?, nodes.a.register(BULK, Access::LOCAL)?);
        let remote = nodes.b.register(BULK, Access::ALL)?;
        let sent = fill(&local, BULK, 5);
        block_on(async {
            nodes.at_a.write(&local, 0, remote.key(), 0, BULK as u64).await?;
            nodes.at_a.read(&back, 0, remote.key(), 0, BULK as u64).await
        })?;
        assert!(contents(&remote, BULK) == sent && contents(&back, BULK) == sent);
        let access = OperationError::Completion { code: 0, ulp_code: 2 };
        let beyond = block_on(nodes.at_a.read(&back, 0, remote.key(), BULK as u64, 512));
        assert_eq!(beyond, Err(access), "a block behind the last one");
        let refused = OperationError::Completion { code: CompletionCode::TargetNackCie as u8, ulp_code: 2 };
        let beyond = block_on(nodes.at_a.write(&local, 0, remote.key(), BULK as u64, 512));
        assert_eq!(beyond, Err(refused));
        settle(&nodes.a);
        settle(&nodes.b);
        drop((local, back, remote));
        given_back(&nodes.a, &before[0]);
        given_back(&nodes.b, &before[1]);
    }
    Ok(())
}

/// F-6.4-1, F-6.4-2, F-8.5.3.4-2: while the region is busy, a read waits at its target and causes no NACK, and a write is
/// refused with RNR. Both end as soon as the region is ready.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn operations_wait_for_a_busy_region() -> Result<()> {
    need_root();
    for ordered in [true, false] {
        let nodes = TwoNodes::up(Pair::direct()?, Setup { ordered, ..blocks() })?;
        let local = nodes.a.register(4096, Access::LOCAL)?;
        let remote = nodes.b.register(4096, Access::ALL)?;
        let sent = fill(&remote, 4096, 9);
        remote.set_busy(true);
        let statistics = || info(&nodes.at_b).statistics;
        block_on(async {
            let read = nodes.at_a.read(&local, 0, remote.key(), 0, 1024);
            let meanwhile = async {
                wait_until("the read is held", || statistics().held == 1);
                assert_eq!(statistics().nacks_sent, 0);
                remote.set_busy(false);
            };
            tokio::join!(read, meanwhile).0
        })?;
        assert!(contents(&local, 1024) == sent[..1024]);
        assert_eq!(statistics().nacks_sent, 0, "the initiator learns nothing of it");

        remote.set_busy(true);
        block_on(async {
            let write = nodes.at_a.write(&local, 0, remote.key(), 1024, 1024);
            let meanwhile = async {
                wait_until("the write is refused", || statistics().nacks_sent >= 1);
                assert!(contents(&remote, 4096) == sent, "nothing is written meanwhile");
                remote.set_busy(false);
            };
            tokio::join!(write, meanwhile).0
        })?;
        assert!(contents(&remote, 2048)[1024..] == sent[..1024]);
        settle(&nodes.a);
        settle(&nodes.b);
    }
    Ok(())
}

/// What the protocol does not have is refused with a sentence, and nothing is sent.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn what_blocks_cannot_do_is_refused() -> Result<()> {
    need_root();
    let nodes = TwoNodes::up(Pair::direct()?, blocks())?;
    let local = nodes.a.register(4096, Access::LOCAL)?;
    let remote = nodes.b.register(4096, Access::ALL)?;
    let (at_a, key) = (&nodes.at_a, remote.key());
    block_on(async {
        assert_eq!(at_a.send(&local, 0, 512, None).await, Err(OperationError::NotOfBlocks("SEND")));
        assert_eq!(at_a.fetch_add(key, 0, 1).await, Err(OperationError::NotOfBlocks("atomics")));
        let immediate = at_a.write_immediate(&local, 0, key, 0, 512, 1).await;
        assert_eq!(immediate, Err(OperationError::NotOfBlocks("immediate data")));
        for (address, length) in [(1, 512), (0, 513), (0, 0), (512, 100)] {
            let part = OperationError::PartOfBlock { address, length };
            assert_eq!(at_a.write(&local, 0, key, address, length).await, Err(part.clone()));
            assert_eq!(at_a.read(&local, 0, key, address, length).await, Err(part));
        }
    });
    assert_eq!(counter(&nodes.a, Counter::BadWorkRequest) + counter(&nodes.a, Counter::SentByEngine), 0);
    Ok(())
}

/// The command line: connect with `--ulp block`, show it, write and read.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_command_line_connects_for_blocks() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let up = |host, name| NodeProcess::on(host, directory.path(), name, &[]);
    let a = up(&pair.a, "a")?;
    let b = up(&pair.b, "b")?;
    let key = b.json(&["mr", "register", "4096"])?["key"].to_string();
    let connection = a.json(&["conn", "connect", &pair.b.ipv4.to_string(), "--ulp", "block"])?;
    assert_eq!(connection["ulp"], "block");
    let cid = connection["local_cid"].to_string();
    let data = "x".repeat(512);
    a.ok(&["write", &cid, "--rkey", &key, "--data", &data])?;
    assert_eq!(b.ok(&["mr", "read", &key, "--length", "512", "--raw"])?, data);
    let refused = a.run(&["write", &cid, "--rkey", &key, "--data", "short"])?;
    assert!(refused.stderr.contains("whole blocks of 512 bytes"), "{}", refused.stderr);
    Ok(())
}
