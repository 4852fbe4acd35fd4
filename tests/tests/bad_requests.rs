//! Requests that a node or its peer must refuse, each with its own error. Existing connections continue to work.

use anyhow::Result;
use tiercel::{Access, Error, LocalCid, Mac, MemoryRegion, OpenConnection, OperationError, PostError};
use tiercel_node::{Node, NodeError, NodeOptions};
use tiercel_tests::checks::{block_on, contents, fill, settle};
use tiercel_tests::nodes::{CID_A, CID_B, Setup, TwoNodes};
use tiercel_tests::{Host, Pair, PassProgram, need_root, veth};
use transport_common::ids::{Cid, RKey};
use transport_common::queues::{CONNECTIONS, Verb, WorkRequest};
use transport_common::transaction::CompletionCode;
use transport_common::ulp::UlpCode;

/// Falcon's code of a push that the peer's ULP completed in error (F-11-33).
const CIE: u8 = CompletionCode::TargetNackCie as u8;

/// A local region, and one region of the peer for each purpose.
struct Regions {
    local: MemoryRegion,
    all: MemoryRegion,
    read_only: MemoryRegion,
    write_only: MemoryRegion,
}

impl Regions {
    const LENGTH: u64 = 8192;

    fn new(nodes: &TwoNodes) -> Result<Self> {
        let remote = |access| nodes.b.register(Self::LENGTH as usize, access);
        Ok(Self {
            local: nodes.a.register(Self::LENGTH as usize, Access::ALL)?,
            all: remote(Access::ALL)?,
            read_only: remote(Access { remote_read: true, ..Access::LOCAL })?,
            write_only: remote(Access { remote_write: true, ..Access::LOCAL })?,
        })
    }
}

async fn works(nodes: &TwoNodes, regions: &Regions, seed: u64) -> Result<()> {
    let sent = fill(&regions.local, 1000, seed);
    nodes.at_a.write(&regions.local, 0, regions.all.key(), 0, 1000).await?;
    assert!(contents(&regions.all, 1000) == sent);
    Ok(())
}

/// D-84: bounds and rights, for each operation.
async fn access(nodes: &TwoNodes, regions: &Regions) -> Result<()> {
    let Regions { local, all, read_only, write_only } = regions;
    let (connection, length) = (&nodes.at_a, Regions::LENGTH);
    let denied = |code| Some(OperationError::Completion { code, ulp_code: UlpCode::ACCESS.0 });
    let unknown = RKey(200);
    // Each right separately: one region allows what the other denies.
    for (what, key, address) in [
        ("an unknown key", unknown, 0),
        ("a key of another incarnation", RKey(all.key().0 + 256), 0),
        ("no right", read_only.key(), 0),
        ("the end", all.key(), length),
        ("across the end", all.key(), length - 10),
        ("far beyond", all.key(), 1 << 40),
    ] {
        let outcome = connection.write(local, 0, key, address, 64).await;
        assert_eq!(outcome.err(), denied(CIE), "WRITE: {what}");
        let outcome = connection.write_immediate(local, 0, key, address, 64, 1).await;
        assert_eq!(outcome.err(), denied(CIE), "WRITE with immediate: {what}");
    }
    // D-45: a pull that the ULP refuses has no Falcon error.
    for (what, key, address) in [
        ("an unknown key", unknown, 0),
        ("no right", write_only.key(), 0),
        ("across the end", all.key(), length - 10),
    ] {
        assert_eq!(connection.read(local, 0, key, address, 64).await.err(), denied(0), "READ: {what}");
    }
    for (what, key, address) in
        [("an unknown key", unknown, 0), ("no right", read_only.key(), 0), ("the end", all.key(), length)]
    {
        assert_eq!(connection.fetch_add(key, address, 1).await.err(), denied(0), "fetch and add: {what}");
        let outcome = connection.compare_swap(key, address, 0, 1).await;
        assert_eq!(outcome.err(), denied(0), "compare and swap: {what}");
    }
    // A long operation is refused in each of its transactions, and completes once.
    let outcome = connection.write(local, 0, read_only.key(), 0, length).await;
    assert_eq!(outcome.err(), denied(CIE), "a long WRITE");
    // A key is invalid after its region was deregistered.
    let short_lived = nodes.b.register(64, Access::ALL)?;
    let key = short_lived.key();
    drop(short_lived);
    assert_eq!(connection.read(local, 0, key, 0, 8).await.err(), denied(0), "a region given back");
    Ok(())
}

/// Operations that the node refuses and never sends.
async fn refused_here(nodes: &TwoNodes, regions: &Regions) -> Result<()> {
    let (connection, local, key) = (&nodes.at_a, &regions.local, regions.all.key());
    let size = Regions::LENGTH;
    let beyond = OperationError::OutOfBounds { offset: size - 8, length: 9, size };
    assert_eq!(connection.write(local, size - 8, key, 0, 9).await, Err(beyond.clone()));
    assert_eq!(connection.read(local, size - 8, key, 0, 9).await, Err(beyond.clone()));
    assert_eq!(connection.send(local, size - 8, 9, None).await, Err(beyond.clone()));
    assert_eq!(connection.post_receive(local, size - 8, 9, 1), Err(beyond));
    assert_eq!(
        connection.write(&regions.all, 0, key, 0, 8).await,
        Err(OperationError::ForeignRegion),
        "memory of another node"
    );
    assert_eq!(
        connection.read(local, 0, key, u64::MAX - 3, 8).await,
        Err(OperationError::AddressOverflow { address: u64::MAX - 3, length: 8 })
    );
    assert_eq!(connection.fetch_add(key, 4, 1).await, Err(OperationError::Misaligned(4)));
    assert_eq!(connection.compare_swap(key, 1, 0, 1).await, Err(OperationError::Misaligned(1)));
    let oversize = WorkRequest {
        opcode: Verb::WRITE,
        rkey: key.0,
        local_offset: local.local_offset(0, 8)?,
        length: connection.max_segment() + 1,
        ..WorkRequest::default()
    };
    let refused = connection.post(oversize);
    assert!(matches!(refused, Err(PostError::Malformed(_))), "{refused:?}");
    if !connection.is_ordered() {
        let limit = connection.max_segment();
        let length = u64::from(limit) + 1;
        let outcome = connection.send(local, 0, length, None).await;
        assert_eq!(outcome, Err(OperationError::TooLong { what: "a SEND", length, limit })); // D-84
    }
    Ok(())
}

/// A SEND that does not fit its receive ends both with an error, and the next one works.
async fn too_long_for_the_receive(nodes: &TwoNodes, regions: &Regions) -> Result<()> {
    nodes.at_b.post_receive(&regions.all, 0, 50, 1)?;
    nodes.at_b.post_receive(&regions.all, 100, 100, 2)?;
    let (sent, received) = tokio::join!(nodes.at_a.send(&regions.local, 0, 51, None), nodes.at_b.receive());
    assert_eq!(sent, Err(OperationError::Completion { code: CIE, ulp_code: UlpCode::INVALID_REQUEST.0 }));
    let misfit = OperationError::Completion { code: CompletionCode::OperationError as u8, ulp_code: 0 };
    assert_eq!(received, Err(misfit));
    let (sent, received) = tokio::join!(nodes.at_a.send(&regions.local, 0, 100, None), nodes.at_b.receive());
    sent?;
    assert_eq!(received?.wr_id, 2);
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn refused_operations_leave_the_connection_alive() -> Result<()> {
    need_root();
    for ordered in [true, false] {
        let nodes = TwoNodes::up(Pair::direct()?, Setup { ordered, ..Setup::default() })?;
        let regions = Regions::new(&nodes)?;
        block_on(async {
            access(&nodes, &regions).await?;
            works(&nodes, &regions, 1).await?;
            refused_here(&nodes, &regions).await?;
            too_long_for_the_receive(&nodes, &regions).await?;
            works(&nodes, &regions, 2).await
        })?;
        assert!(nodes.at_a.is_alive() && nodes.at_b.is_alive());
        settle(&nodes.a);
        settle(&nodes.b);
        connections_in_use(&nodes, &regions)?;
    }
    Ok(())
}

/// CIDs that are in use, and the largest number of connections.
fn connections_in_use(nodes: &TwoNodes, regions: &Regions) -> Result<()> {
    let open = |cid| {
        let peer = (nodes.pair.b.ipv4.into(), Mac(nodes.pair.b.mac.0));
        nodes.a.open(OpenConnection { local_cid: cid, ..OpenConnection::new(CID_B, peer.0, peer.1) })
    };
    let same_slot = Cid(CID_A.0 + CONNECTIONS as u32);
    for cid in [CID_A, same_slot] {
        let refused = open(LocalCid::Given(cid));
        assert!(matches!(refused, Err(Error::CidInUse { occupant: CID_A, .. })), "{refused:?}");
    }
    for cid in [Cid(0), Cid(Cid::MAX + 1)] {
        let refused = open(LocalCid::Given(cid));
        assert!(matches!(refused, Err(Error::BadCid(_))), "{refused:?}");
    }
    let many = (1..CONNECTIONS).map(|_| open(LocalCid::Any)).collect::<Result<Vec<_>, _>>()?;
    let refused = open(LocalCid::Any);
    assert!(matches!(refused, Err(Error::NoFreeCid(CONNECTIONS))), "{refused:?}");
    block_on(works(nodes, regions, 3))?;
    many[0].close();
    block_on(many[0].closed());
    assert_ne!(
        open(LocalCid::Any)?.cid(),
        many[0].cid(),
        "a late packet must not find the slot's next connection"
    );
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_comes_up_where_it_can_and_says_why_it_cannot() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let up = |options: NodeOptions| pair.a.run(|| Node::up(options));
    let on = |interface: &str| NodeOptions::new(interface, pair.a.ipv4.into());
    let refused = up(on("veth9"));
    assert!(
        matches!(&refused, Err(NodeError::UnknownInterface { available, .. }) if available.contains(&"veth0".to_owned())),
        "{refused:?}"
    );
    assert!(matches!(up(on("lo")), Err(NodeError::Loopback { .. })));
    let tiny = NodeOptions { mtu: Some(100), ..on(Host::INTERFACE) };
    assert!(matches!(up(tiny), Err(NodeError::MtuTooSmall { .. })));
    pair.a.ip("link set veth0 mtu 2000\n")?;
    let above_interface = NodeOptions { mtu: Some(3000), ..on(Host::INTERFACE) };
    assert!(matches!(up(above_interface), Err(NodeError::MtuAboveInterface { limit: 2000, .. })));
    pair.a.ip("link set veth0 mtu 1500\n")?;
    let huge = NodeOptions { mtu: Some(9000), ..on(Host::INTERFACE) };
    assert!(matches!(up(huge), Err(NodeError::MtuAboveLargest { .. })));
    let nobody = NodeOptions::new(Host::INTERFACE, std::net::Ipv4Addr::UNSPECIFIED.into());
    assert!(matches!(up(nobody), Err(NodeError::BadAddress { .. })));

    let foreign = pair.a.run(|| PassProgram::attach(veth::interface_index(Host::INTERFACE)?))?;
    let foreign_id = program_on(&pair.a)?;
    let refused = up(on(Host::INTERFACE));
    assert!(
        matches!(&refused, Err(NodeError::XdpOccupied { id, .. }) if Some(*id) == foreign_id),
        "{refused:?}"
    );
    assert_eq!(program_on(&pair.a)?, foreign_id, "left alone");
    let forced = up(NodeOptions { force: true, ..on(Host::INTERFACE) })?;
    let id = program_on(&pair.a)?;
    assert!(id.is_some() && id != foreign_id);
    let refused = up(on(Host::INTERFACE));
    assert!(
        matches!(&refused, Err(NodeError::NodeRunning { id: other, .. }) if Some(*other) == id),
        "{refused:?}"
    );
    drop(foreign);
    assert_eq!(program_on(&pair.a)?, id, "it was replaced, not stacked");
    forced.down();
    assert_eq!(program_on(&pair.a)?, None);
    pair.a.ip("link set veth0 down\n")?;
    assert!(matches!(up(on(Host::INTERFACE)), Err(NodeError::InterfaceDown { .. })));
    Ok(())
}

/// Returns the id of the XDP program on a host's interface.
fn program_on(host: &Host) -> Result<Option<u32>> {
    let shown = host.command("ip", ["-json", "link", "show", Host::INTERFACE])?;
    let links: serde_json::Value = serde_json::from_str(&shown)?;
    Ok(links[0]["xdp"]["prog"]["id"].as_u64().map(|id| id as u32))
}
