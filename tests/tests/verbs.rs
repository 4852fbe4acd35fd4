//! Every operation of the Rust API between two nodes on real hosts.

use anyhow::Result;
use tiercel::{Access, MemoryRegion, OperationError, Tuning, Tunnel};
use tiercel_tests::checks::{self, info};
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::{Pair, need_root};
use transport_common::counters::Counter;
use transport_common::transaction::CompletionCode;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed) ^ (n >> 8) as u8).collect()
}

fn filled(region: &MemoryRegion, length: usize, seed: u8) -> Vec<u8> {
    let bytes = pattern(length, seed);
    region.write(0, &bytes).expect("in bounds");
    bytes
}

fn contents(region: &MemoryRegion, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    region.read(0, &mut bytes).expect("in bounds");
    bytes
}

/// WRITE, READ, SEND and atomics of several sizes, one after the other, with contents compared.
async fn every_operation(nodes: &TwoNodes) -> Result<()> {
    const ROOM: usize = 1 << 20;
    let local = nodes.a.register(ROOM, Access::ALL)?;
    let back = nodes.a.register(ROOM, Access::ALL)?;
    let remote = nodes.b.register(ROOM, Access::ALL)?;
    for (n, length) in [1usize, 8, 64, 1000, 3000, 10_000, 200_000].into_iter().enumerate() {
        let sent = filled(&local, length, n as u8);
        nodes.at_a.write(&local, 0, remote.key(), 0, length as u64).await?;
        assert_eq!(contents(&remote, length), sent, "WRITE of {length} bytes");
        nodes.at_a.read(&back, 0, remote.key(), 0, length as u64).await?;
        assert_eq!(contents(&back, length), sent, "READ of {length} bytes");
    }
    remote.write(0, &5u64.to_ne_bytes())?;
    assert_eq!(nodes.at_a.fetch_add(remote.key(), 0, 7).await?, 5);
    assert_eq!(nodes.at_a.compare_swap(remote.key(), 0, 12, 100).await?, 12);
    assert_eq!(nodes.at_a.compare_swap(remote.key(), 0, 12, 1).await?, 100);
    assert_eq!(contents(&remote, 8), 100u64.to_ne_bytes());
    for length in [1usize, 3000, 50_000] {
        if length as u32 > nodes.at_a.max_segment() && !nodes.at_a.is_ordered() {
            continue;
        }
        let sent = filled(&local, length, 77);
        nodes.at_b.post_receive(&remote, 0, ROOM as u32, 4711)?;
        let (done, received) =
            tokio::join!(nodes.at_a.send(&local, 0, length as u64, Some(9)), nodes.at_b.receive());
        done?;
        let received = received?;
        assert_eq!((received.wr_id, received.length, received.immediate), (4711, length as u32, Some(9)));
        assert_eq!(contents(&remote, length), sent, "SEND of {length} bytes");
    }
    Ok(())
}

/// Returns the completion code with which an operation ended.
fn code(result: Result<(), OperationError>) -> CompletionCode {
    match result {
        Ok(()) => CompletionCode::Ack,
        Err(OperationError::Completion { code, .. }) => {
            CompletionCode::from_code(code).expect("a code of Falcon")
        }
        Err(other) => panic!("{other}"),
    }
}

/// F-11-17, F-11-20, F-11-23: while the function of one end is being reset, its own operations and those of its peer
/// end with the codes for that, and nothing is written. Then all goes on.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_function_in_reset_drops_requests_of_both_ends() -> Result<()> {
    need_root();
    for ordered in [true, false] {
        let nodes = TwoNodes::up(Pair::direct()?, Setup { ordered, ..Setup::default() })?;
        let (at_a, at_b) = (nodes.a.register(4096, Access::ALL)?, nodes.b.register(4096, Access::ALL)?);
        let forth = || block_on(nodes.at_a.write(&at_a, 0, at_b.key(), 0, 64));
        let back = || block_on(nodes.at_b.write(&at_b, 0, at_a.key(), 0, 64));
        at_a.write(0, &[1; 64])?;
        assert_eq!((code(forth()), code(back())), (CompletionCode::Ack, CompletionCode::Ack));

        nodes.at_b.drop_requests(true);
        // The engine takes the command over at its next service.
        checks::wait_until("B drops its own requests", || code(back()) == CompletionCode::LocalXlr);
        at_a.write(0, &[2; 64])?;
        assert_eq!((code(forth()), contents(&at_b, 64)), (CompletionCode::RemoteError, vec![1; 64]));
        assert!(checks::counter(&nodes.b, Counter::DropXlr) >= 2);

        nodes.at_b.drop_requests(false);
        checks::wait_until("B takes requests again", || code(back()) == CompletionCode::Ack);
        at_a.write(0, &[3; 64])?;
        assert_eq!((code(forth()), contents(&at_b, 64)), (CompletionCode::Ack, vec![3; 64]));
    }
    Ok(())
}

/// Returns a pair of inner addresses of an IP version.
fn inner(ipv6: bool) -> Tunnel {
    let [local, peer] = if ipv6 { ["fd01::1", "fd01::2"] } else { ["192.168.7.1", "192.168.7.2"] };
    Tunnel { local: local.parse().expect("an address"), peer: peer.parse().expect("an address") }
}

/// F-7.1.2-1: all operations in tunnel mode, for every combination of outer and inner IP version.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn every_operation_in_a_tunnel() -> Result<()> {
    need_root();
    for (ipv6, inner_ipv6, ordered) in
        [(false, false, true), (false, true, false), (true, false, true), (true, true, false)]
    {
        let tunnel = Some(inner(inner_ipv6));
        let setup = Setup { ordered, ipv6, tunnel, ..Setup::default() };
        let nodes = TwoNodes::up(Pair::direct()?, setup)?;
        assert_eq!((info(&nodes.at_a).tunnel, nodes.at_a.max_segment()), (tunnel, 3200));
        block_on(every_operation(&nodes))?;
        let dropped = [&nodes.a, &nodes.b].map(|node| checks::counter(node, Counter::DropTunnel));
        assert_eq!(dropped, [0, 0]);
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn every_operation_on_a_direct_link() -> Result<()> {
    need_root();
    for ordered in [true, false] {
        for ipv6 in [false, true] {
            let nodes = TwoNodes::up(Pair::direct()?, Setup { ordered, ipv6, ..Setup::default() })?;
            block_on(every_operation(&nodes))?;
        }
    }
    Ok(())
}

/// D-43: a SEND that waits for a receive is delivered when one is posted, and not when the RNR delay is over. The
/// delays of all rounds together are longer than the test's patience.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_posted_receive_rings_the_doorbell_for_a_send_that_waits() -> Result<()> {
    need_root();
    const ROUNDS: u32 = 128;
    const LONGEST_CODE: u8 = 0; // 655.36 ms (F-7.8-12)
    const DELAY: std::time::Duration = std::time::Duration::from_micros(655_360);
    assert!(ROUNDS * DELAY > checks::PATIENCE);
    let tuning = Tuning { rnr_timeout_code: LONGEST_CODE, ..Setup::CONSTANT };
    let nodes = TwoNodes::up(Pair::direct()?, Setup { tuning, ..Setup::default() })?;
    let local = nodes.a.register(64, Access::ALL)?;
    let remote = nodes.b.register(64, Access::ALL)?;
    checks::block_on(async {
        for round in 0..u64::from(ROUNDS) {
            let sent = filled(&local, 64, round as u8);
            let held = info(&nodes.at_b).statistics.held;
            let receive = async {
                while info(&nodes.at_b).statistics.held == held {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                nodes.at_b.post_receive(&remote, 0, 64, round)?;
                Ok::<_, anyhow::Error>(nodes.at_b.receive().await?)
            };
            let (done, received) = tokio::join!(nodes.at_a.send(&local, 0, 64, None), receive);
            done?;
            assert_eq!(received?.wr_id, round);
            assert_eq!(contents(&remote, 64), sent, "SEND {round}");
        }
        Ok(())
    })
}
