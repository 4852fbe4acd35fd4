//! Peers that stall, flood, send garbage and disappear, at any step of the handshake and of the session. A seed decides
//! what each of them does.
//!
//! What must hold: the connection of a good peer lives on; each hostile one is done with in bounded time, and its end has a
//! name among the counters; tasks, events and lines of the log are bounded; nothing is left.

use std::time::Instant;

use futures_util::FutureExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::*;

/// Hostile peers in one run, and runs.
const PEERS: usize = 24;
const SEEDS: u64 = 24;
/// Messages of a flood.
const FLOOD: usize = 500;

/// Where a peer begins to be hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Connected,
    Hello,
    Path,
    Ready,
    Proof,
    Session,
}

/// What it does then.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Stalls,
    SendsHalfAMessage,
    SendsGarbage,
    SendsTooLong,
    SendsAnotherStep,
    FloodsWithSteps,
    FloodsWithoutReading,
    Closes,
    Resets,
    AsksForOthers,
}

const STEPS: [Step; 6] = [Step::Connected, Step::Hello, Step::Path, Step::Ready, Step::Proof, Step::Session];
const FAULTS: [Fault; 10] = [
    Fault::Stalls,
    Fault::SendsHalfAMessage,
    Fault::SendsGarbage,
    Fault::SendsTooLong,
    Fault::SendsAnotherStep,
    Fault::FloodsWithSteps,
    Fault::FloodsWithoutReading,
    Fault::Closes,
    Fault::Resets,
    Fault::AsksForOthers,
];

/// Counts the lines of the log of this thread.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicUsize>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// One hostile peer.
struct Peer<'a> {
    random: StdRng,
    node: &'a Manager,
    step: Step,
    fault: Fault,
}

impl Peer<'_> {
    /// Goes as far as its step, is hostile, and waits until the node is done with it.
    async fn run(mut self, number: usize) {
        let source = format!("127.0.2.{}", 1 + number % 7);
        let mut stream = connect_from(&source, self.node).await;
        // The node may hang up at any step, because it has too many handshakes.
        if self.go(&mut stream).await.is_some() {
            self.act(&mut stream).await;
        }
    }

    /// Does the handshake as far as the step. Returns `None` if the node ends it before.
    async fn go(&mut self, stream: &mut TcpStream) -> Option<()> {
        if self.step == Step::Connected {
            return Some(());
        }
        let socket = tokio::net::UdpSocket::bind((RIGHT, 0)).await.unwrap();
        let searches = self.step == Step::Path;
        let probe = ProbeOffer { port: socket.local_addr().unwrap().port(), token: 1 };
        let proves = self.step == Step::Proof;
        let more = Capabilities {
            path_search: searches.then_some(probe),
            path_proof: proves.then_some(ProofRegion { rkey: 7 }),
            ..Capabilities::default()
        };
        write_message(stream, &hello(with(more), offer_by_hand()), PATIENCE).await.ok()?;
        if self.step == Step::Hello {
            return Some(());
        }
        match read_message(stream, PATIENCE).await.ok()? {
            Message::Probe { .. } | Message::Accept { .. } => {}
            _ => return None,
        }
        if self.step == Step::Session || proves {
            write_message(stream, &Message::Ready, PATIENCE).await.ok()?;
        }
        if proves {
            // The node has proven its direction, and waits for what the peer says of its own.
            let Message::Proof { .. } = read_message(stream, PATIENCE).await.ok()? else { return None };
        }
        Some(())
    }

    async fn act(&mut self, stream: &mut TcpStream) {
        // Writing may fail at any time, because the node hangs up.
        match self.fault {
            Fault::Stalls => {}
            Fault::SendsHalfAMessage => {
                let _ = stream.write_all(&frame(b"{\"type\":\"heartbeat\"}")[..9]).await;
            }
            Fault::SendsGarbage => {
                let mut bytes = vec![0; self.random.random_range(1..2000)];
                self.random.fill(&mut bytes[..]);
                let _ = stream.write_all(&frame(&bytes)).await;
            }
            Fault::SendsTooLong => drop(stream.write_all(&[0xff; 4]).await),
            Fault::SendsAnotherStep => {
                let wrong = [Message::Ready, Message::Heartbeat, Message::Path { mtu: Some(1) }];
                let message = wrong.choose(&mut self.random).expect("some");
                let _ = write_message(stream, message, PATIENCE).await;
                let _ = write_message(stream, &Message::Path { mtu: None }, PATIENCE).await;
            }
            Fault::FloodsWithSteps => {
                let ((mut from_node, mut to_node), mut answers) = (stream.split(), Vec::new());
                tokio::select! {
                    () = flood(&mut to_node) => {}
                    _ = from_node.read_to_end(&mut answers) => {}
                }
            }
            Fault::FloodsWithoutReading => flood(stream).await,
            Fault::Closes => return,
            Fault::Resets => return stream.set_zero_linger().unwrap(),
            Fault::AsksForOthers => {
                for cid in 0..20 {
                    let question = Message::Alive { cid, peer_cid: 9, spi: 5 };
                    let _ = write_message(stream, &question, PATIENCE).await;
                }
            }
        }
        hung_up(stream).await;
    }
}

/// Sends steps that each begin a transfer.
async fn flood(stream: &mut (impl tokio::io::AsyncWrite + Unpin)) {
    for transfer in 0..FLOOD as u64 {
        let step = FileMessage::Fetch { transfer, name: "n".repeat(200), via: Via::Write };
        if write_message(stream, &Message::File { step }, PATIENCE).await.is_err() {
            return;
        }
    }
}

/// Takes notices as a node does that is busy with other things now and then. Refuses all transfers.
async fn take(node: &Manager, mut notices: Notices, mut random: StdRng) {
    while let Some(notice) = notices.recv().await {
        if let Notice::File(cid, step) = notice {
            let abort =
                FileMessage::Abort { transfer: step.transfer(), text: "not served".into(), posted: None };
            node.try_send_file_step(cid, abort);
        }
        if random.random_ratio(1, 100) {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..20))).await;
        }
    }
}

async fn one_run(seed: u64) {
    let log = Lines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let began = Instant::now();
    let mut random = StdRng::seed_from_u64(seed);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let timing = Timing {
        patience: Duration::from_millis(300),
        first_message: Duration::from_millis(200),
        proof: Duration::from_millis(100),
        ..Timing::default()
    };
    let limits = Limits { handshakes: 16, handshakes_per_source: 4, ..Limits::default() };
    let (node, notices) = start_limited(FakeNode::new(RIGHT, 1500), timing, limits).await;
    let (good, mut good_notices) = start(FakeNode::new(LEFT, 1500)).await;
    let good_cid =
        good.connect(RIGHT.parse().unwrap(), node.address().port(), Terms::default()).await.unwrap();
    accepted(&node).await;
    let before = tasks();

    let peers: Vec<Peer<'_>> = (0..PEERS)
        .map(|_| Peer {
            random: StdRng::seed_from_u64(random.random()),
            node: &node,
            step: *STEPS.choose(&mut random).expect("some"),
            fault: *FAULTS.choose(&mut random).expect("some"),
        })
        .collect();
    let what: Vec<_> = peers.iter().map(|peer| (peer.step, peer.fault)).collect();
    let all =
        futures_util::future::join_all(peers.into_iter().enumerate().map(|(number, peer)| peer.run(number)));
    let watched = async {
        let mut most = 0;
        loop {
            most = most.max(tasks());
            assert!(most <= before + limits.handshakes + PEERS, "seed {seed}: {most} tasks");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let serving = take(&node, notices, StdRng::seed_from_u64(seed));
    let steady = async {
        tokio::select! {
            _ = within("the node is done with all of them", all) => {}
            never = watched => never,
        }
        eventually("nothing is left", || {
            node.host().in_use() == 1 && node.sessions().len() == 1 && tasks() <= before
        })
        .await;
    };
    tokio::select! {
        () = steady => {}
        () = serving => panic!("the manager lives"),
    }

    let told = format!("seed {seed}: {what:?}, {:?}", node.events());
    // The good peer lives.
    assert_eq!(node.sessions()[0].peer.ip(), LEFT.parse::<IpAddr>().unwrap(), "{told}");
    assert_eq!(good.sessions().len(), 1, "{told}");
    assert!(good_notices.recv().now_or_never().is_none(), "{told}");
    assert_eq!(good.host().health(good_cid), Health::Open);
    // Each has an end with a name.
    let statistics = node.statistics();
    let ManagerStatistics { established, closed_by_peer, closed_here, peer_died, path_lost, fatal, .. } =
        statistics;
    assert_eq!(
        established,
        1 + closed_by_peer + closed_here + peer_died + path_lost + fatal,
        "{told} {statistics:?}"
    );
    let wrong = statistics.garbage + statistics.oversize + statistics.wrong_version + statistics.silent;
    let ended = established
        + statistics.declined
        + statistics.unproven
        + statistics.displaced
        + statistics.refused_busy
        + statistics.broken_off
        + statistics.asked
        + wrong;
    assert!(ended >= statistics.tcp_accepted, "{told} {statistics:?}");
    assert!(ended - peer_died <= statistics.tcp_accepted, "{told} {statistics:?}");
    // The log is bounded by what strangers may have, and by the start and the end of each connection.
    let seconds = began.elapsed().as_secs() as usize + 1;
    let lines = log.0.load(Ordering::Relaxed);
    let bound = 64 + 4 * seconds + 2 * (established as usize + 1) + 4;
    assert!(lines <= bound, "{told}: {lines} lines, bound {bound}");
    assert!(node.events().len() <= 256);
}

#[tokio::test]
async fn hostile_peers_harm_nobody() {
    for seed in 0..SEEDS {
        one_run(seed).await;
    }
}
