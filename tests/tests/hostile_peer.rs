//! A node against a peer that speaks the connection manager's protocol by hand, and badly. The connection of another peer
//! lives on, and memory, tasks and the log stay small.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tiercel_tests::checks::{block_on, wait_until};
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::{Host, Pair, need_root};
use tokio::net::TcpSocket;
use transport_user::config::DEFAULT_CONTROL_PORT;
use transport_user::connection_manager::{
    FileMessage, Message, Offer, PROTOCOL, SecurityOffer, VERSION, Via,
};
use transport_user::{Mac, Ulp};

/// The address of the hostile peer, beside that of node A.
const HOSTILE: &str = "10.7.0.99";
/// Steps that the hostile peer sends. Each begins a transfer.
const FLOOD: u64 = 40_000;
/// What the node may grow by meanwhile, KiB. Without a limit it grew by 200 MB.
const GROWTH_KIB: u64 = 48 << 10;
/// How long the node may take to notice anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A peer by hand.
struct Peer(TcpStream);

impl Peer {
    /// Connects from [`HOSTILE`]. The thread must be in the namespace of its host.
    fn connect(node: IpAddr) -> Result<Self> {
        let stream = block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(HOSTILE.parse().expect("an address"), 0))?;
            socket.connect(SocketAddr::new(node, DEFAULT_CONTROL_PORT)).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    /// Sends a message. Fails when the node has ended the session.
    fn send(&mut self, message: &Message) -> Result<()> {
        let json = serde_json::to_vec(message)?;
        let length = u32::try_from(json.len())?.to_be_bytes();
        Ok(self.0.write_all(&[&length[..], &json].concat())?)
    }

    fn receive(&mut self) -> Result<Message> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut json = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }

    /// Does the handshake.
    fn with_session(node: IpAddr) -> Result<Self> {
        let mut peer = Self::connect(node)?;
        let offer = Box::new(offer());
        peer.send(&Message::Hello { protocol: PROTOCOL.into(), version: VERSION, offer })?;
        let answer = peer.receive()?;
        ensure!(matches!(answer, Message::Accept { .. }), "{answer:?}");
        peer.send(&Message::Ready)?;
        Ok(peer)
    }
}

fn offer() -> Offer {
    Offer {
        cid: 9,
        request_psn: 1,
        data_psn: 2,
        rsn: 3,
        mtu: 1500,
        max_segment: 1024,
        ordered: true,
        rack_tlp: false,
        ulp: Ulp::Rdma,
        tunnel: None,
        patience_ms: None,
        probe: None,
        proof: None,
        request_window: 64,
        data_window: 128,
        security: SecurityOffer::Plaintext { spi: 5 },
        mac: Mac([2, 0, 0, 0, 0, 9]),
        function: 0,
        time: 1,
        regions: Vec::new(),
    }
}

/// Returns what a process uses of memory, KiB.
fn resident(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("a line VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("a number")?.parse()?)
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_hostile_peer_takes_neither_memory_nor_log_nor_the_connections_of_others() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let inbox = TempDir::new()?;
    pair.a.ip(&format!("address add {HOSTILE}/24 dev {}\n", Host::INTERFACE))?;
    let up = |host: &Host, name: &str, options: &[&str]| {
        let address = host.ipv4.to_string();
        let arguments = [&["--interface", Host::INTERFACE, "--address", &address], options].concat();
        NodeProcess::up(host, directory.path(), name, &arguments)
    };
    let a = up(&pair.a, "a", &[])?;
    let b = up(&pair.b, "b", &["--receive-dir", &inbox.path().to_string_lossy()])?;
    let target = IpAddr::from(pair.b.ipv4);
    let cid = a.json(&["conn", "connect", &target.to_string()])?["local_cid"].to_string();
    let connected = b.json(&["status"])?["events"][0].clone();
    let before = (resident(b.id())?, b.log().lines().count());

    // Steps that begin transfers, from a peer that does not read what becomes of them.
    pair.a.run(|| -> Result<()> {
        let mut peer = Peer::with_session(target)?;
        for transfer in 0..FLOOD {
            let step = FileMessage::Fetch { transfer, name: "n".repeat(100), via: Via::Write };
            if peer.send(&Message::File { step }).is_err() {
                break;
            }
        }
        Ok(())
    })?;
    // Handshakes that are none.
    pair.a.run(|| -> Result<()> {
        for _ in 0..2000 {
            let mut peer = Peer::connect(target)?;
            // The node may have hung up already.
            let _ = peer.0.write_all(b"GET / HTTP/1.1\r\n\r\n");
            let _ = peer.0.read_to_end(&mut Vec::new());
        }
        Ok(())
    })?;
    wait_until("B is done with the hostile peer", || {
        b.json(&["status"]).is_ok_and(|status| status["connection_manager"]["sessions"] == 1)
    });
    let growth = resident(b.id())?.saturating_sub(before.0);
    assert!(growth < GROWTH_KIB, "B grew by {growth} KiB");
    let lines = b.log().lines().count() - before.1;
    assert!(lines < 800, "{lines} lines of the log");
    let status = b.json(&["status"])?;
    assert_eq!(status["events"][0], connected, "the events of others are still there");
    assert_eq!(status["pools"]["connections"], 1);
    // The peer that behaves is served.
    let file = directory.path().join("file");
    std::fs::write(&file, "content")?;
    a.ok(&["cp", &file.to_string_lossy(), &format!("{cid}:")])?;
    assert_eq!(std::fs::read(inbox.path().join("file"))?, b"content");
    Ok(())
}
