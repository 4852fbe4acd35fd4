//! A counter in the peer's memory. Shows fetch and add, READ, WRITE, and compare and swap. They are one-sided: the
//! owner of the memory takes no part in them.
//!
//! ```text
//! ip netns exec b remote_counter veth1 10.7.0.2 10.7.0.1 MAC-OF-VETH0 own
//! ip netns exec a remote_counter veth0 10.7.0.1 10.7.0.2 MAC-OF-VETH1 count
//! ```

use std::env;

use anyhow::{Context, Result, bail};
use tiercel::{Access, Cid, Connection, LocalCid, OpenConnection, RKey};
use tiercel_node::{Node, NodeOptions};

/// The first region a node registers has this key (D-84).
const KEY: RKey = RKey(1);
const CID: Cid = Cid(5);
/// Offsets in the region: of the counter, and of the word that the peer writes at the end.
const COUNTER: u64 = 0;
const FINISHED: u64 = 8;
const STEPS: u64 = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [interface, address, peer, peer_mac, role] = &arguments[..] else {
        bail!("usage: remote_counter INTERFACE ADDRESS PEER-ADDRESS PEER-MAC own|count");
    };
    let node = Node::up(NodeOptions::new(interface.as_str(), address.parse().context("ADDRESS")?))?;
    let mut open = OpenConnection::new(CID, peer.parse().context("PEER-ADDRESS")?, peer_mac.parse()?);
    open.local_cid = LocalCid::Given(CID);
    let connection = node.open(open)?;
    match role.as_str() {
        "own" => own(&node, &connection).await,
        "count" => count(&node, &connection).await,
        other => bail!("\"{other}\" is neither own nor count"),
    }
}

/// Registers the memory and waits for the peer's WRITE with immediate data, which means that the counting is done.
async fn own(node: &Node, connection: &Connection) -> Result<()> {
    let memory = node.register_with_key(KEY, 4096, Access::ALL)?;
    connection.post_receive(&memory, 0, 0, 0)?;
    let word = connection.receive().await?;
    let mut counter = [0; 8];
    memory.read(COUNTER, &mut counter)?;
    println!("the peer counted to {}, and sent {:?}", u64::from_ne_bytes(counter), word.immediate);
    Ok(())
}

async fn count(node: &Node, connection: &Connection) -> Result<()> {
    let buffer = node.register(4096, Access::LOCAL)?;
    for step in 0..STEPS {
        let before = connection.fetch_add(KEY, COUNTER, 1).await?;
        if before != step {
            bail!("step {step} found the counter at {before}");
        }
    }
    connection.read(&buffer, 0, KEY, COUNTER, 8).await?;
    let mut read = [0; 8];
    buffer.read(0, &mut read)?;
    println!("read {}", u64::from_ne_bytes(read));

    // Compare and swap sets a new value only if the expected value is right.
    let refused = connection.compare_swap(KEY, COUNTER, 0, 7).await?;
    let accepted = connection.compare_swap(KEY, COUNTER, STEPS, 1000).await?;
    println!("compare and swap found {refused}, then {accepted}");

    buffer.write(0, &1u64.to_ne_bytes())?;
    connection.write_immediate(&buffer, 0, KEY, FINISHED, 8, STEPS as u32).await?;
    Ok(())
}
