//! A node against a peer that speaks the connection manager's protocol by hand, and badly. The connection of another peer
//! lives on, and memory, tasks and the log stay small.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tiercel::{Mac, Ulp};
use tiercel_node::config::DEFAULT_CONTROL_PORT;
use tiercel_node::connection_manager::{
    Ending, FileMessage, Introduction, Message, Offer, PROTOCOL, ProofRegion, SecurityOffer, Via,
};
use tiercel_tests::checks::{PATIENCE, block_on, pattern, wait_until};
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::{Host, Pair, need_root};
use tokio::net::TcpSocket;

/// The address of the hostile peer, beside that of node A.
const HOSTILE: &str = "10.7.0.99";
/// Steps that the hostile peer sends. Each begins a transfer.
const FLOOD: u64 = 40_000;
/// What the node may grow by meanwhile, KiB. Without a limit it grew by 200 MB.
const GROWTH_KIB: u64 = 48 << 10;

/// A peer by hand.
struct Peer(TcpStream);

impl Peer {
    /// Connects from an address of its host, in whose namespace the thread must be.
    fn connect(from: &str, node: IpAddr) -> Result<Self> {
        let stream = block_on(async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(from.parse().expect("an address"), 0))?;
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

    /// Does the handshake. Returns the node's CID as well.
    fn with_session(from: &str, node: IpAddr, introduction: Introduction) -> Result<(Self, u32)> {
        let mut peer = Self::connect(from, node)?;
        let offer = Box::new(offer());
        peer.send(&Message::Hello { protocol: PROTOCOL.into(), introduction, offer })?;
        let Message::Accept { offer, .. } = peer.receive()? else { bail!("the offer is not accepted") };
        peer.send(&Message::Ready)?;
        Ok((peer, offer.cid))
    }

    fn step(&mut self, step: FileMessage) -> Result<()> {
        self.send(&Message::File { step })
    }

    /// Returns the next step of the node. Sends signs of life until it comes.
    fn next_step(&mut self) -> Result<FileMessage> {
        loop {
            self.0.set_read_timeout(Some(SIGN_OF_LIFE))?;
            match self.0.peek(&mut [0]) {
                Ok(0) => bail!("the node has ended the session"),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.send(&Message::Heartbeat)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            self.0.set_read_timeout(Some(PATIENCE))?;
            match self.receive()? {
                Message::File { step: FileMessage::Waiting { .. } } => {}
                Message::File { step } => return Ok(step),
                // Its own signs of life come as often.
                Message::Heartbeat | Message::Regions { .. } => self.send(&Message::Heartbeat)?,
                other => bail!("{other:?}"),
            }
        }
    }

    /// Waits until the node has hung up.
    fn hung_up(mut self) -> Result<()> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// How long the peer waits before it sends a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

fn offer() -> Offer {
    Offer {
        cid: 9,
        request_psn: 1,
        data_psn: 2,
        rsn: 3,
        mtu: 1500,
        max_segment: 1024,
        ordered: true,
        ulp: Ulp::Rdma,
        tunnel: None,
        patience_ms: 5000,
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
    let a = NodeProcess::on(&pair.a, directory.path(), "a", &[])?;
    let receive = ["--receive-dir", &inbox.path().to_string_lossy()];
    let b = NodeProcess::on(&pair.b, directory.path(), "b", &receive)?;
    let target = IpAddr::from(pair.b.ipv4);
    let cid = a.json(&["conn", "connect", &target.to_string()])?["local_cid"].to_string();
    // The end that is connected to notes it a moment after the other end has its answer.
    let mut connected = Value::Null;
    wait_until("B has noted the connection", || {
        connected = b.json(&["status"]).map_or(Value::Null, |status| status["events"][0].clone());
        connected.is_object()
    });
    let before = (resident(b.id())?, b.log().lines().count());

    // Steps that begin transfers, from a peer that does not read what becomes of them.
    pair.a.run(|| -> Result<()> {
        let mut peer = Peer::with_session(HOSTILE, target, Introduction::default())?.0;
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
            let mut peer = Peer::connect(HOSTILE, target)?;
            // The node may have hung up already.
            let _ = peer.0.write_all(b"GET / HTTP/1.1\r\n\r\n");
            let _ = peer.0.read_to_end(&mut Vec::new());
        }
        Ok(())
    })?;
    // A session ends before the connection has given its slot back.
    wait_until("B is done with the hostile peer", || {
        b.json(&["status"]).is_ok_and(|status| {
            status["connection_manager"]["sessions"] == 1 && status["pools"]["connections"] == 1
        })
    });
    let growth = resident(b.id())?.saturating_sub(before.0);
    assert!(growth < GROWTH_KIB, "B grew by {growth} KiB");
    let lines = b.log().lines().count() - before.1;
    assert!(lines < 800, "{lines} lines of the log");
    assert_eq!(b.json(&["status"])?["events"][0], connected, "the events of others are still there");
    // The peer that behaves is served.
    let file = directory.path().join("file");
    std::fs::write(&file, "content")?;
    a.ok(&["cp", &file.to_string_lossy(), &format!("{cid}:")])?;
    assert_eq!(std::fs::read(inbox.path().join("file"))?, b"content");
    Ok(())
}

/// Where a peer begins to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The node has answered an offer.
    Offered,
    /// The node has stored the first chunk of two.
    FirstChunk,
    /// The node has stored everything and waits for the hash.
    BeforeEnd,
    /// The node has offered the file for which the peer asked.
    Fetched,
}

/// What it does then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It gives signs of life and says nothing else.
    Stalls,
    /// It says nothing at all.
    Hangs,
    /// It sends bytes that are no message.
    SendsGarbage,
    /// It sends a message that does not belong there.
    SendsAnother,
    /// Its TCP connection is reset.
    Disappears,
}

const FAULTS: [Fault; 5] =
    [Fault::Stalls, Fault::Hangs, Fault::SendsGarbage, Fault::SendsAnother, Fault::Disappears];
/// Steps of a transfer.
const STEPS: [Step; 4] = [Step::Offered, Step::FirstChunk, Step::BeforeEnd, Step::Fetched];
/// Length of the files of these peers. They have no data path, so the node stores the zeros that its memory has.
const LENGTH: u64 = 1000;
const CHUNK: u32 = 500;
/// SHA-256 of so many zeros.
const HASH: &str = "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53";
/// The file for which they ask.
const KEPT: &str = "kept";

/// Begins a transfer and goes as far as the step.
fn go(peer: &mut Peer, step: Step, transfer: u64, name: &str) -> Result<()> {
    if step == Step::Fetched {
        peer.step(FileMessage::Fetch { transfer, name: KEPT.into(), via: Via::Read })?;
        let answer = peer.next_step()?;
        ensure!(matches!(answer, FileMessage::Offer { .. }), "{answer:?}");
        return Ok(());
    }
    peer.step(FileMessage::Offer {
        transfer,
        name: name.to_owned(),
        via: Via::Write,
        length: LENGTH,
        chunk: CHUNK,
        slots: 2,
        rkey: 0,
        overwrite: false,
        mode: FileMessage::DEFAULT_MODE,
        sparse: None,
    })?;
    let answer = peer.next_step()?;
    ensure!(matches!(answer, FileMessage::Ready { .. }), "{answer:?}");
    let chunks = match step {
        Step::FirstChunk => 1,
        Step::BeforeEnd => 2,
        _ => 0,
    };
    for index in 0..chunks {
        peer.step(FileMessage::Chunk { transfer, index })?;
        let answer = peer.next_step()?;
        ensure!(answer == FileMessage::Stored { transfer, index }, "{answer:?}");
    }
    Ok(())
}

/// Misbehaves, and waits until the node has noticed. Returns what it writes into its log.
fn misbehave(mut peer: Peer, step: Step, fault: Fault, transfer: u64) -> Result<&'static str> {
    let aborted = |peer: &mut Peer, cause: &str| -> Result<()> {
        let answer = peer.next_step()?;
        ensure!(
            matches!(&answer, FileMessage::Abort { text, .. } if text.contains(cause)),
            "{answer:?} instead of {cause:?}"
        );
        Ok(())
    };
    let name = format!("good-{step:?}-{fault:?}");
    match fault {
        Fault::Stalls => {
            let cause = "the peer sent nothing for 10 s";
            aborted(&mut peer, cause)?;
            behave(&mut peer, &name, transfer + 1)?;
            Ok(cause)
        }
        Fault::SendsAnother => {
            peer.step(FileMessage::Stored { transfer, index: 77 })?;
            let cause = "the peer sent a wrong step of the transfer";
            aborted(&mut peer, cause)?;
            behave(&mut peer, &name, transfer + 1)?;
            Ok(cause)
        }
        Fault::Hangs => peer.hung_up().map(|()| "the connection ended during the transfer"),
        Fault::SendsGarbage => {
            peer.0.write_all(b"\0\0\0\x08garbage!")?;
            peer.hung_up().map(|()| "the connection ended during the transfer")
        }
        Fault::Disappears => {
            peer.0.set_nonblocking(true)?;
            block_on(async { tokio::net::TcpStream::from_std(peer.0)?.set_zero_linger() })?;
            Ok("the connection ended during the transfer")
        }
    }
}

/// Only the transfer has ended: over the same session, the peer copies a file as it should.
fn behave(peer: &mut Peer, name: &str, transfer: u64) -> Result<()> {
    go(peer, Step::BeforeEnd, transfer, name)?;
    peer.step(FileMessage::End { transfer, sha256: HASH.into() })?;
    let answer = peer.next_step()?;
    ensure!(answer == FileMessage::Verdict { transfer, sha256: HASH.into() }, "{answer:?}");
    peer.send(&Message::Close { reason: Ending::Closed, text: "done".into() })
}

/// A peer that misbehaves in the middle of a transfer, at each step in each way, and one that misbehaves while the data path is
/// proven. The node ends that transfer or that set-up and says why; a copy of a good peer completes meanwhile.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_peer_that_misbehaves_in_a_transfer_ends_only_that() -> Result<()> {
    need_root();
    let (pair, directory, inbox) = (Pair::direct()?, TempDir::new()?, TempDir::new()?);
    // A peer has two transfers at a time, so each misbehaving one has its own address.
    let address = |number: usize| format!("10.7.0.{}", 100 + number);
    let peers = FAULTS.len() * STEPS.len();
    let batch: String =
        (0..peers).map(|n| format!("address add {}/24 dev {}\n", address(n), Host::INTERFACE)).collect();
    pair.a.ip(&batch)?;
    let a = NodeProcess::on(&pair.a, directory.path(), "a", &[])?;
    let receive = ["--receive-dir", &inbox.path().to_string_lossy()];
    let b = NodeProcess::on(&pair.b, directory.path(), "b", &receive)?;
    std::fs::write(inbox.path().join(KEPT), "kept")?;
    let target = IpAddr::from(pair.b.ipv4);
    let cid = a.json(&["conn", "connect", &target.to_string()])?["local_cid"].to_string();
    let file = directory.path().join("file");
    std::fs::write(&file, pattern(3 << 20, 1))?;
    let before = b.json(&["status"])?["pools"].clone();

    let mut number = 0;
    for step in STEPS {
        let mut bad = Vec::new();
        for fault in FAULTS {
            let from = address(number);
            number += 1;
            let run = move || -> Result<(u32, &'static str)> {
                let (mut peer, cid) = Peer::with_session(&from, target, Introduction::default())?;
                go(&mut peer, step, 1, &format!("bad-{step:?}-{fault:?}"))?;
                Ok((cid, misbehave(peer, step, fault, 1)?))
            };
            bad.push((fault, run));
        }
        let ended = thread::scope(|scope| -> Result<Vec<_>> {
            let running: Vec<_> =
                bad.into_iter().map(|(fault, run)| (fault, scope.spawn(|| pair.a.run(run)))).collect();
            // The good peer copies while they do so, again and again.
            let mut copies = 0;
            while copies == 0 || running.iter().any(|(_, thread)| !thread.is_finished()) {
                let name = format!("{cid}:{step:?}-{copies}");
                a.ok(&["cp", &file.to_string_lossy(), &name])?;
                copies += 1;
            }
            running
                .into_iter()
                .map(|(fault, thread)| {
                    let ended = thread.join().expect("no panic");
                    ended.with_context(|| format!("{fault:?} at {step:?}"))
                })
                .collect()
        })?;
        for ((cid, cause), fault) in ended.into_iter().zip(FAULTS) {
            let told = format!("connection {cid}: file transfer failed: ");
            wait_until(&format!("the node says {cause:?} ({fault:?} at {step:?})"), || {
                b.log()
                    .lines()
                    .any(|line| line.split_once(&told).is_some_and(|(_, text)| text.contains(cause)))
            });
        }
        wait_until("all is given back", || {
            let now =
                |status: &Value| ["connections", "regions", "memory_used"].map(|name| status[name].clone());
            b.json(&["status"]).is_ok_and(|status| now(&status["pools"]) == now(&before))
        });
    }
    // A thread for file work removes what a transfer leaves, and may do so after the transfer has given its memory back.
    wait_until("no part of a file is left", || {
        std::fs::read_dir(inbox.path()).is_ok_and(|mut entries| {
            entries.all(|entry| entry.is_ok_and(|entry| !entry.file_name().to_string_lossy().contains('.')))
        })
    });
    // Only whole files have a name: those of the good peer, of the others while they behaved, and the one to fetch.
    for entry in std::fs::read_dir(inbox.path())? {
        let path = entry?.path();
        let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
        match std::fs::metadata(&path)?.len() {
            4 => assert_eq!(name, KEPT),
            LENGTH => assert!(name.starts_with("good-"), "{name}"),
            length => assert_eq!((length, name.contains('.')), (3 << 20, false), "{name}"),
        }
    }
    Ok(())
}

/// A peer that promises to prove the data path and then misbehaves is not connected, and the set-up ends under a name.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_peer_that_misbehaves_while_the_data_path_is_proven_is_not_connected() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    pair.a.ip(&format!("address add {HOSTILE}/24 dev {}\n", Host::INTERFACE))?;
    let b = NodeProcess::on(&pair.b, directory.path(), "b", &[])?;
    let counted = || b.json(&["stats"]).map(|stats| stats["connection_manager"].clone());
    for (fault, counter) in [
        (Fault::Stalls, "silent"),
        (Fault::SendsGarbage, "garbage"),
        (Fault::SendsAnother, "garbage"),
        (Fault::Disappears, "broken_off"),
    ] {
        let before = counted()?[counter].as_u64().context("a counter")?;
        pair.a.run(|| -> Result<()> {
            let mut promised = Introduction::default();
            promised.capabilities.path_proof = Some(ProofRegion { rkey: 7 });
            let (mut peer, _) = Peer::with_session(HOSTILE, pair.b.ipv4.into(), promised)?;
            match fault {
                Fault::SendsGarbage => peer.0.write_all(b"\0\0\0\x08garbage!")?,
                Fault::SendsAnother => peer.send(&Message::Heartbeat)?,
                Fault::Disappears => return Ok(()),
                Fault::Stalls | Fault::Hangs => {}
            }
            peer.hung_up()
        })?;
        wait_until(&format!("{fault:?} is counted"), || {
            counted().is_ok_and(|counted| counted[counter].as_u64() == Some(before + 1))
        });
    }
    // The manager counts why a session ends before it gives back what the session held.
    wait_until("connections and sessions are given back", || {
        b.json(&["status"]).is_ok_and(|status| {
            status["pools"]["connections"] == 0 && status["connection_manager"]["sessions"] == 0
        })
    });
    Ok(())
}
