//! Two ends of one connection send a message back and forth. Shows SEND and posted receives, and measures the
//! round trip time.
//!
//! On one machine, with two network namespaces joined by a veth pair whose ends have the addresses 10.7.0.1 and
//! 10.7.0.2:
//!
//! ```text
//! ip netns exec b pingpong veth1 10.7.0.2 10.7.0.1 MAC-OF-VETH0 serve
//! ip netns exec a pingpong veth0 10.7.0.1 10.7.0.2 MAC-OF-VETH1 throw
//! ```

use std::env;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tiercel::{Access, Cid, Connection, LocalCid, MemoryRegion, OpenConnection};
use tiercel_node::{Node, NodeOptions};

const MESSAGE: u64 = 64;
const ROUNDS: u32 = 1000;
/// Both ends use CID 5 for their connection, so that they only have to agree on the addresses.
const CID: Cid = Cid(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [interface, address, peer, peer_mac, role] = &arguments[..] else {
        bail!("usage: pingpong INTERFACE ADDRESS PEER-ADDRESS PEER-MAC serve|throw");
    };
    let node = Node::up(NodeOptions::new(interface.as_str(), address.parse().context("ADDRESS")?))?;
    let mut open = OpenConnection::new(CID, peer.parse().context("PEER-ADDRESS")?, peer_mac.parse()?);
    open.local_cid = LocalCid::Given(CID);
    let connection = node.open(open)?;
    // The first half is the send buffer, the second half the receive buffer.
    let buffer = node.register(2 * MESSAGE as usize, Access::LOCAL)?;

    match role.as_str() {
        "serve" => serve(&connection, &buffer).await,
        "throw" => throw(&connection, &buffer).await,
        other => bail!("\"{other}\" is neither serve nor throw"),
    }
}

async fn serve(connection: &Connection, buffer: &MemoryRegion) -> Result<()> {
    for round in 0..ROUNDS {
        connection.post_receive(buffer, MESSAGE, MESSAGE as u32, round.into())?;
        connection.receive().await?;
        let mut message = [0; MESSAGE as usize];
        buffer.read(MESSAGE, &mut message)?;
        buffer.write(0, &message)?;
        connection.send(buffer, 0, MESSAGE, None).await?;
    }
    println!("sent {ROUNDS} messages back");
    Ok(())
}

async fn throw(connection: &Connection, buffer: &MemoryRegion) -> Result<()> {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        connection.post_receive(buffer, MESSAGE, MESSAGE as u32, round.into())?;
        buffer.write(0, &round.to_be_bytes())?;
        let start = Instant::now();
        connection.send(buffer, 0, MESSAGE, None).await?;
        connection.receive().await?;
        times.push(start.elapsed());
        let mut echo = [0; 4];
        buffer.read(MESSAGE, &mut echo)?;
        if u32::from_be_bytes(echo) != round {
            bail!("message {round} came back changed");
        }
    }
    times.sort_unstable();
    let (median, worst) = (times[times.len() / 2], times.last().copied().unwrap_or(Duration::ZERO));
    println!("{ROUNDS} round trips of {MESSAGE} bytes: median {median:?}, worst {worst:?}");
    Ok(())
}
