//! Operations of every length at every MTU that the driver carries.

use std::net::IpAddr;

use anyhow::{Context, Result};
use tiercel::{Access, LARGEST_MTU, LARGEST_SEGMENT, LocalCid, Mac, MemoryRegion, OpenConnection};
use tiercel_node::{AttachMode, NATIVE_MTU, Node, NodeError, NodeOptions};
use tiercel_tests::checks::{self, fill, pattern};
use tiercel_tests::nodes::{self, CID_A, CID_B, Setup, TwoNodes};
use tiercel_tests::operations::Regions;
use tiercel_tests::raw_peer::raw_peer;
use tiercel_tests::{Host, Pair, need_root};
use transport_common::ids::RKey;
use transport_common::ulp::UlpCode;
use transport_common::ulp::rdma::Aeth;

/// Brings two nodes up on a cable of this MTU and connects them. Above [`NATIVE_MTU`] the attachment is generic.
fn at_mtu(mtu: u32, ipv6: bool) -> Result<TwoNodes> {
    let pair = Pair::direct_with_mtu(mtu)?;
    let up = |host: &Host| {
        let address = if ipv6 { host.ipv6.into() } else { host.ipv4.into() };
        let attach = if mtu > NATIVE_MTU { AttachMode::Generic } else { AttachMode::Native };
        let options = NodeOptions { attach, ..NodeOptions::new(Host::INTERFACE, address) };
        host.run(|| Node::up(options))
    };
    let (a, b) = (up(&pair.a)?, up(&pair.b)?);
    let setup = Setup { ipv6, ..Setup::default() };
    let [at_a, at_b] = nodes::connect([(&a, CID_A), (&b, CID_B)], setup)?;
    Ok(TwoNodes { at_a, at_b, a, b, pair })
}

fn read(region: &MemoryRegion, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    region.read(offset, &mut bytes).expect("in bounds");
    bytes
}

/// WRITE, READ and SEND of lengths around the multiples of a segment, at offsets without alignment, with the bytes before
/// and after compared as well.
async fn every_length(nodes: &TwoNodes) -> Result<()> {
    let TwoNodes { at_a, at_b, .. } = nodes;
    let segment = u64::from(at_a.max_segment());
    let room = 4 * segment as usize;
    let Regions { local, back, remote } = Regions::new(nodes, room)?;
    for (n, length) in
        [0, 1, segment - 1, segment, segment + 1, 2 * segment, 3 * segment + 7].into_iter().enumerate()
    {
        let (from, to) = (n as u64 + 1, 5 * n as u64 + 3);
        let filled = |region: &MemoryRegion, seed: usize| {
            let bytes = pattern(room, seed as u64);
            region.write(0, &bytes).expect("in bounds");
            bytes
        };
        let expected = |mut around: Vec<u8>, at: u64, source: &[u8], from: u64| {
            around[at as usize..][..length as usize]
                .copy_from_slice(&source[from as usize..][..length as usize]);
            around
        };
        let (source, before) = (filled(&local, 3 * n), filled(&remote, 3 * n + 1));
        at_a.write(&local, from, remote.key(), to, length).await?;
        let written = expected(before, to, &source, from);
        assert!(read(&remote, 0, room as u64) == written, "WRITE of {length} bytes");

        let before = filled(&back, 3 * n + 2);
        at_a.read(&back, from, remote.key(), to, length).await?;
        assert!(
            read(&back, 0, room as u64) == expected(before, from, &written, to),
            "READ of {length} bytes"
        );

        at_b.post_receive(&remote, from, length as u32, 9)?;
        let (sent, received) = tokio::join!(at_a.send(&local, to, length, Some(7)), at_b.receive());
        sent?;
        let received = received?;
        assert_eq!((received.wr_id, u64::from(received.length), received.immediate), (9, length, Some(7)));
        assert!(
            read(&remote, 0, room as u64) == expected(written, from, &source, to),
            "SEND of {length} bytes"
        );
    }
    Ok(())
}

/// Moves data at every MTU of a list. Each cable carries no longer packet than its MTU, so a packet that is too long would
/// be lost, and its operation would fail.
fn operations_of_every_length_at_every_mtu(ipv6: bool) -> Result<()> {
    need_root();
    for mtu in [1280, 1281, 1499, 1500, 2048, LARGEST_MTU, LARGEST_MTU + 1, NATIVE_MTU, 9000, 65535] {
        let nodes = at_mtu(mtu, ipv6)?;
        let device = nodes.a.device();
        assert_eq!((device.mtu, device.interface_mtu), (mtu.min(LARGEST_MTU), mtu));
        let headers = device.mtu - nodes.at_a.max_segment();
        assert!(
            nodes.at_a.max_segment() == LARGEST_SEGMENT || headers < 136,
            "{headers} bytes of MTU {mtu} without data"
        );
        checks::block_on(every_length(&nodes))?;
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn operations_of_every_length_at_every_mtu_over_ipv4() -> Result<()> {
    operations_of_every_length_at_every_mtu(false)
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn operations_of_every_length_at_every_mtu_over_ipv6() -> Result<()> {
    operations_of_every_length_at_every_mtu(true)
}

/// A node answers a READ of its peer up to what the MTU holds, which is more than its own segments have: Pull Data has the
/// shortest headers. The peer is a program of the test, because no node asks for so much. A longer READ is refused.
fn answers_up_to_the_mtu(interface: u32, ipv6: bool, longest: u32) -> Result<()> {
    const REGION: usize = 4096;
    let pair = Pair::direct_with_mtu(interface)?;
    let [own, other] =
        [&pair.a, &pair.b].map(|host| if ipv6 { host.ipv6.into() } else { IpAddr::from(host.ipv4) });
    let node = pair.a.run(|| Node::up(NodeOptions::new(Host::INTERFACE, own)))?;
    let [tx, rx] = nodes::initials();
    let connection = node.open(OpenConnection {
        local_cid: LocalCid::Given(CID_A),
        tx,
        rx,
        tuning: Setup::CONSTANT,
        ..OpenConnection::new(CID_B, other, Mac(pair.b.mac.0))
    })?;
    assert!(connection.max_segment() < longest, "{} bytes in a segment", connection.max_segment());
    let region = node.register(REGION, Access::ALL)?;
    assert_eq!(region.key(), RKey(1));
    let data = fill(&region, REGION, 15);
    let mut peer = raw_peer(&pair, ipv6, rx, tx)?;
    let from = 3;
    for length in [1, connection.max_segment() + 1, longest - 7, longest - 1, longest] {
        let read = peer.read(from, length);
        let answer = peer.ask(&read).with_context(|| format!("{length} bytes"))?;
        assert_eq!((answer.syndrome(), answer.data().len()), (Some(Aeth::SUCCESS), length as usize));
        assert!(
            answer.data() == &data[from as usize..][..length as usize],
            "{length} bytes: other bytes came"
        );
    }
    let read = peer.read(from, longest + 1);
    let refused = peer.ask(&read)?;
    let code = Aeth::ERROR_BASE + UlpCode::INVALID_REQUEST.0;
    assert_eq!((refused.syndrome(), refused.data().len()), (Some(code), 0));
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_read_of_a_peer_is_answered_up_to_what_the_mtu_holds() -> Result<()> {
    need_root();
    for (interface, ipv6, longest) in [
        (2000, false, 1916),
        (2000, true, 1896),
        (LARGEST_MTU, false, 3306),
        (LARGEST_MTU, true, 3286),
        // The node's MTU is the largest, whatever the interface carries.
        (LARGEST_MTU + 4, false, 3306),
    ] {
        answers_up_to_the_mtu(interface, ipv6, longest)
            .with_context(|| format!("an interface of {interface} bytes, IPv6 {ipv6}"))?;
    }
    Ok(())
}

/// An MTU that the node cannot serve is refused if somebody asks for it, with the largest possible one.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_mtu_that_cannot_be_served_is_refused() -> Result<()> {
    need_root();
    for (carried, possible) in [(9000, LARGEST_MTU), (NATIVE_MTU, LARGEST_MTU), (1500, 1500)] {
        let pair = Pair::direct_with_mtu(carried)?;
        let up = |mtu| {
            let options = NodeOptions {
                mtu: Some(mtu),
                attach: AttachMode::Generic,
                ..NodeOptions::new(Host::INTERFACE, pair.a.ipv4.into())
            };
            pair.a.run(|| Node::up(options))
        };
        for asked in [LARGEST_MTU + 1, 9000] {
            let error = up(asked).expect_err("no node serves it");
            assert!(
                matches!(error, NodeError::MtuAboveLargest { limit, .. } if limit == possible),
                "{error}"
            );
            assert!(error.to_string().contains(&format!("choose at most {possible}")), "{error}");
        }
        assert_eq!(up(possible)?.device().mtu, possible);
    }
    Ok(())
}
