//! Tests with two managers over loopback, with unknown peers of all kinds, and with a fake node.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tiercel::{Mac, Tuning, Tunnel, Ulp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use transport_common::ids::RKey;
use transport_common::queues::{AccessFlags, CONNECTIONS};
use transport_common::security::{RemoteTime, SecurityDrops};
use transport_common::units::Picoseconds;

use super::message::{read_message, write_message};
use super::*;
use crate::config::StaticConnection;

mod fake_node;
mod floods;
mod hostile;
mod incoming;
mod negotiation;
mod outages;
mod path;
mod path_loss;
mod proof;
mod rack_tlp;

use fake_node::FakeNode;

const LEFT: &str = "127.0.0.1";
const RIGHT: &str = "127.0.0.2";
const PATIENCE: Duration = Duration::from_secs(20);

type Manager = ConnectionManager<FakeNode>;

async fn start(node: FakeNode) -> (Manager, Notices) {
    start_with(node, Timing { heartbeat: Duration::from_millis(20), ..Timing::default() }).await
}

async fn start_with(node: FakeNode, timing: Timing) -> (Manager, Notices) {
    start_limited(node, timing, Limits::default()).await
}

async fn start_limited(node: FakeNode, timing: Timing, limits: Limits) -> (Manager, Notices) {
    let options = ManagerOptions { port: 0, tuning: Tuning::default(), timing, limits };
    ConnectionManager::start(node, options).await.expect("loopback")
}

/// Waits until a condition holds that other tasks bring about.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    within(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("never: {what}"))
}

async fn pair() -> (Manager, Notices, Manager, Notices, Cid, Cid) {
    let (left, left_notices) = start(FakeNode::new(LEFT, 3000)).await;
    let (right, right_notices) = start(FakeNode::new(RIGHT, 1500)).await;
    let cid = left.connect(RIGHT.parse().unwrap(), right.address().port(), Terms::default()).await.unwrap();
    let peer_cid = accepted(&right).await;
    (left, left_notices, right, right_notices, cid, peer_cid)
}

#[tokio::test]
async fn both_ends_open_mirror_images() {
    let (left, _l, right, _r, cid, peer_cid) = pair().await;
    let a: StaticConnection = left.host().opened(cid).connection;
    let b: StaticConnection = right.host().opened(peer_cid).connection;
    assert_eq!((a.local_cid, a.peer_cid), (b.peer_cid, b.local_cid));
    assert_eq!((a.tx, a.rx), (b.rx, b.tx)); // D-18
    assert_eq!((a.security.tx_spi, a.security.rx_spi), (b.security.rx_spi, b.security.tx_spi));
    let known = RemoteTime { iv: Picoseconds(77), read_at: Some(Picoseconds(77)) };
    assert_eq!(a.security.remote_time, Some(known)); // F-9.2.1-5, D-87
    assert!(a.ordered && b.ordered);
    assert_eq!(a.peer_address, RIGHT.parse::<IpAddr>().unwrap());
    assert_eq!(b.peer_address, LEFT.parse::<IpAddr>().unwrap());
    assert_eq!((left.host().opened(cid).mtu, right.host().opened(peer_cid).mtu), (1500, 1500));
    assert_eq!(left.host().opened(cid).max_segment, 1400);
}

/// F-7.1.2-1: the connecting end names both inner addresses. The accepting end sees them from its side, and both use
/// segments that leave space for the inner header.
#[tokio::test]
async fn the_connecting_end_decides_about_a_tunnel() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    let tunnel = Tunnel { local: "fd01::1".parse().unwrap(), peer: "fd01::2".parse().unwrap() };
    let terms = Terms { tunnel: Some(tunnel), ..Terms::default() };
    let cid = left.connect(RIGHT.parse().unwrap(), right.address().port(), terms).await.unwrap();
    let peer_cid = accepted(&right).await;
    let (a, b) = (left.host().opened(cid), right.host().opened(peer_cid));
    assert_eq!((a.connection.tunnel, b.connection.tunnel), (Some(tunnel), Some(tunnel.reversed())));
    assert_eq!((a.max_segment, b.max_segment), (1352, 1352));
    // An offer whose tunnel has no two hosts is declined, and nothing stays open.
    let offer = Offer { tunnel: Some(Tunnel { local: tunnel.peer, ..tunnel }), ..offer_by_hand() };
    let mut stream = TcpStream::connect(right.address()).await.unwrap();
    let Message::Reject { reason, text } = say_hello(&mut stream, offer).await else { panic!("rejected") };
    assert_eq!(reason, Rejection::Offer);
    assert!(text.contains("both inner addresses are fd01::2"), "{text}");
    eventually("one connection is left", || right.host().in_use() == 1).await;
}

/// F-6.2-2: each end hands out the CID that stands in packets to it. The left end has given some away before, so the
/// two differ.
#[tokio::test]
async fn each_end_hands_out_the_cid_of_packets_to_it() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    let taken: Vec<_> = (0..3).map(|_| left.host().reserve_cid().expect("there are free ones")).collect();
    let cid = left.connect(RIGHT.parse().unwrap(), right.address().port(), Terms::default()).await.unwrap();
    accepted(&right).await;
    let (a, b) = (left.host().opened(cid).connection, right.host().opened(Cid(0)).connection);
    assert_eq!((cid, a.local_cid, a.peer_cid), (Cid(3), Cid(3), Cid(0)));
    assert_eq!((b.local_cid, b.peer_cid), (Cid(0), Cid(3)));
    drop(taken);
}

#[tokio::test]
async fn closing_one_end_closes_the_other_and_says_so() {
    let (left, mut left_notices, right, mut right_notices, cid, peer_cid) = pair().await;
    assert!(left.close(cid).await);
    assert_eq!(within("right ends", right_notices.recv()).await, Some(Notice::Ended(peer_cid)));
    assert_eq!(within("left ends", left_notices.recv()).await, Some(Notice::Ended(cid)));
    assert_eq!((left.host().in_use(), right.host().in_use()), (0, 0));
    assert_eq!((left.statistics().closed_here, right.statistics().closed_by_peer), (1, 1));
    assert!(!left.close(cid).await);
}

#[tokio::test]
async fn news_of_regions_and_file_steps_reach_the_peer() {
    let (left, _l, right, mut right_notices, cid, peer_cid) = pair().await;
    let region = RegionAdvertisement {
        name: Some("data".into()),
        rkey: 1,
        length: 4096,
        access: (AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE).bits(),
    };
    lock(&left.host().0.regions).push(region.clone());
    eventually("the region is known", || right.sessions()[0].peer_regions == [region.clone()]).await;
    let step = FileMessage::Stored { transfer: 3, index: 9 };
    assert!(left.send_file_step(cid, step.clone()).await);
    assert_eq!(within("the step arrives", right_notices.recv()).await, Some(Notice::File(peer_cid, step)));
}

#[tokio::test]
async fn a_dead_peer_closes_the_connection() {
    let (left, mut notices) = start(FakeNode::new(LEFT, 1500)).await;
    let (stream, cid) = handshake_by_hand(&left).await;
    stream.set_zero_linger().unwrap(); // a reset, as when a host restarts
    drop(stream);
    assert_eq!(within("the end is noticed", notices.recv()).await, Some(Notice::Ended(cid)));
    assert_eq!((left.host().in_use(), left.statistics().peer_died), (0, 1));

    // One peer becomes silent, and one violates the protocol.
    let (left, mut notices) = start_with(
        FakeNode::new(LEFT, 1500),
        Timing { heartbeat: PATIENCE, patience: Duration::from_millis(100), ..Timing::default() },
    )
    .await;
    let (_silent, cid) = handshake_by_hand(&left).await;
    assert_eq!(within("silence is noticed", notices.recv()).await, Some(Notice::Ended(cid)));
    assert_eq!(left.statistics().silent, 1);
    let (mut stream, cid) = handshake_by_hand(&left).await;
    write_message(&mut stream, &Message::Ready, PATIENCE).await.unwrap();
    assert_eq!(within("a second handshake ends it", notices.recv()).await, Some(Notice::Ended(cid)));
    assert_eq!((left.statistics().garbage, left.host().in_use()), (1, 0));
}

#[tokio::test]
async fn a_fatal_connection_is_taken_down_on_both_ends() {
    let (left, mut left_notices, right, mut right_notices, cid, peer_cid) = pair().await;
    lock(&left.host().0.fatal).push(cid); // F-11-6
    assert_eq!(within("left ends", left_notices.recv()).await, Some(Notice::Ended(cid)));
    assert_eq!(within("right ends", right_notices.recv()).await, Some(Notice::Ended(peer_cid)));
    assert_eq!((left.statistics().fatal, right.statistics().closed_by_peer), (1, 1));
}

#[tokio::test]
async fn connect_says_why_it_failed() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let right: IpAddr = RIGHT.parse().unwrap();
    let nobody = left.connect(right, 1, Terms::default()).await.unwrap_err();
    assert!(matches!(nobody, ConnectError::Refused { .. }), "{nobody}");
    let itself =
        left.connect(LEFT.parse().unwrap(), left.address().port(), Terms::default()).await.unwrap_err();
    assert!(matches!(itself, ConnectError::Unsuitable { .. }), "{itself}");
    let (full, _f) = start(FakeNode::with_capacity(RIGHT, 1500, 0)).await;
    let error = left.connect(right, full.address().port(), Terms::default()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Rejected { reason: Rejection::TableFull, .. }), "{error}");
    // What the user there can do about it is for the user there.
    assert!(error.to_string().contains("declined: its connection table is full"), "{error}");
    assert!(!error.to_string().contains("tiercel conn close"), "{error}");
    let told = full.events();
    assert!(told.iter().any(|event| event.text.contains("tiercel conn close")), "{told:?}");
    let error =
        full.connect(LEFT.parse().unwrap(), left.address().port(), Terms::default()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Host(HostError::TableFull)), "{error}");
    assert_eq!((left.host().in_use(), full.host().in_use()), (0, 0));
}

#[tokio::test]
async fn connect_survives_servers_that_are_something_else() {
    let (left, _l) = start_with(
        FakeNode::new(LEFT, 1500),
        Timing { patience: Duration::from_millis(200), ..Timing::default() },
    )
    .await;
    let answers: [&'static [u8]; 4] =
        [b"", b"SSH-2.0-OpenSSH_9.9\r\n", b"\0\0\0\x02{}", b"\0\0\0\x13{\"type\":\"heartbeat\"}"];
    for answer in answers {
        let listener = TcpListener::bind((RIGHT, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(answer).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let error = within("an answer", left.connect(RIGHT.parse().unwrap(), port, Terms::default()))
            .await
            .unwrap_err();
        assert!(matches!(error, ConnectError::Protocol { .. }), "{error}");
        assert_eq!(left.host().in_use(), 0);
        server.await.unwrap();
    }
}

#[tokio::test]
async fn strangers_are_counted_and_the_node_goes_on_serving() {
    let timing = Timing {
        first_message: Duration::from_millis(150),
        heartbeat: Duration::from_millis(20),
        ..Timing::default()
    };
    let (node, _n) = start_with(FakeNode::new(RIGHT, 1500), timing).await;
    let wrong_version = br#"{"type":"hello","protocol":"tiercel-connection-manager","introduction":{"versions":{"lowest":2,"highest":3}}}"#;
    let strangers: [(&str, Vec<u8>); 7] = [
        ("an HTTP client", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("no JSON", frame(b"\xff\xfe\xfd")),
        ("deep JSON", frame(&b"[".repeat(60_000))),
        ("another protocol", frame(br#"{"type":"hello","protocol":"x"}"#)),
        ("another version", frame(wrong_version)),
        ("half a message", frame(b"{}")[..5].to_vec()),
        ("nothing", Vec::new()),
    ];
    let (expected_oversize, expected_garbage) = (1, 3);
    for (who, bytes) in &strangers {
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        // The node closes the connection. Before that it may send a reason.
        let _ = within(who, stream.read_to_end(&mut Vec::new())).await;
    }
    // One peer closes the connection during the handshake.
    drop(TcpStream::connect(node.address()).await.unwrap());
    eventually("all are counted", || node.statistics().broken_off == 1).await;
    let statistics = node.statistics();
    assert_eq!(statistics.tcp_accepted, 8);
    assert_eq!(statistics.oversize, expected_oversize);
    assert_eq!(statistics.garbage, expected_garbage);
    assert_eq!((statistics.wrong_version, statistics.silent), (1, 2));
    assert_eq!((statistics.established, node.host().in_use()), (0, 0));
    assert_eq!(node.events().len(), 8);

    let (_stream, cid) = handshake_by_hand(&node).await;
    assert_eq!(node.host().health(cid), Health::Open);
}

/// F-11-12, D-59.
#[tokio::test]
async fn refused_packets_are_an_event() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let drops = SecurityDrops { replay: 3, ..SecurityDrops::default() };
    *lock(&node.host().0.refusals) =
        vec![Refusals { cid: Cid(5), generation: 1, peer: node.address().ip(), drops }];
    eventually("there is an event", || !node.events().is_empty()).await;
    let text = &node.events()[0].text;
    assert!(text.starts_with("connection 5 to 127.0.0.2 refused 3 packets"), "{text}");
    assert!(text.ends_with("(drop_replay)"), "{text}");
    // It counts on.
    lock(&node.host().0.refusals)[0].drops.replay = 5;
    eventually("there is another", || node.events().len() > 1).await;
    assert!(node.events()[1].text.contains("refused 2 packets"), "{:?}", node.events());
}

#[tokio::test]
async fn offers_beyond_the_limits_are_declined() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let changes: [fn(&mut Offer); 9] = [
        |offer| offer.cid = 1 << 24,
        |offer| offer.mtu = 100,
        |offer| offer.max_segment = 1 << 20,
        |offer| offer.max_segment = 0,
        |offer| offer.request_window = 65,
        |offer| offer.data_window = 0,
        |offer| offer.security = SecurityOffer::Plaintext { spi: 0 },
        |offer| offer.mac = Mac([0xff; 6]),
        |offer| offer.function = 1 << 24,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut offer = offer_by_hand();
        change(&mut offer);
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        let answer = say_hello(&mut stream, offer).await;
        assert!(matches!(answer, Message::Reject { reason: Rejection::Offer, .. }), "{number}: {answer:?}");
    }
    assert_eq!((node.statistics().declined, node.host().in_use()), (changes.len() as u64, 0));
}

/// Times that are so long that no peer is disconnected for its silence within a test.
const UNHURRIED: Timing = Timing {
    heartbeat: Duration::from_millis(20),
    patience: PATIENCE,
    first_message: PATIENCE,
    proof: PATIENCE,
};

/// Connects to a node from the given address of this host.
async fn connect_from(source: &str, node: &Manager) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
    socket.connect(node.address()).await.unwrap()
}

async fn hung_up(stream: &mut TcpStream) {
    let _ = within("it is hung up on", stream.read_to_end(&mut Vec::new())).await;
}

#[tokio::test]
async fn silent_peers_keep_nobody_out() {
    let (node, _n) = start_with(FakeNode::new(RIGHT, 1500), UNHURRIED).await;
    let limits = Limits::default();
    let mut silent = Vec::new();
    for number in 0..limits.handshakes {
        let source = format!("127.0.1.{}", 1 + number / limits.handshakes_per_source);
        silent.push(connect_from(&source, &node).await);
    }
    eventually("all are accepted", || node.statistics().tcp_accepted == silent.len() as u64).await;
    handshake_by_hand(&node).await;
    hung_up(&mut silent[0]).await;
    assert_eq!(node.statistics().displaced, 1);
    assert_eq!(node.statistics().refused_busy, 0);
}

#[tokio::test]
async fn one_peer_cannot_take_every_handshake() {
    let (node, _n) = start_with(FakeNode::new(RIGHT, 1500), UNHURRIED).await;
    let limits = Limits::default();
    let mut half_open = Vec::new();
    for _ in 0..limits.handshakes_per_source {
        let mut stream = connect_from("127.0.1.1", &node).await;
        assert!(matches!(say_hello(&mut stream, offer_by_hand()).await, Message::Accept { .. }));
        half_open.push(stream);
    }
    let mut one_more = connect_from("127.0.1.1", &node).await;
    let answer = within("it is told", read_message(&mut one_more, PATIENCE)).await.unwrap();
    assert!(matches!(answer, Message::Reject { reason: Rejection::Busy, .. }), "{answer:?}");
    assert_eq!((node.statistics().refused_busy, node.statistics().displaced), (1, 0));
    let _other = handshake_by_hand(&node).await;
    drop(half_open);
    eventually("everything is given back", || node.host().in_use() == 1).await;
}

#[tokio::test]
async fn one_peer_cannot_take_the_whole_connection_table() {
    let limits = Limits { connections_per_source: 2, ..Limits::default() };
    let (node, _n) = start_limited(FakeNode::new(RIGHT, 1500), UNHURRIED, limits).await;
    let _connections = [handshake_by_hand(&node).await, handshake_by_hand(&node).await];
    let mut third = TcpStream::connect(node.address()).await.unwrap();
    let answer = say_hello(&mut third, offer_by_hand()).await;
    let Message::Reject { reason: Rejection::TableFull, text } = answer else { panic!("{answer:?}") };
    assert!(text.contains("2 connections"), "{text}");
    let mut other = connect_from("127.0.1.1", &node).await;
    assert!(matches!(say_hello(&mut other, offer_by_hand()).await, Message::Accept { .. }));
}

#[tokio::test]
async fn many_connections_to_one_peer_are_made_without_meeting_its_limits() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    let right_address: IpAddr = RIGHT.parse().unwrap();
    let connects = (0..100).map(|_| left.connect(right_address, right.address().port(), Terms::default()));
    let cids = within("all are connected", futures_util::future::try_join_all(connects)).await.unwrap();
    assert_eq!(cids.len(), 100);
    assert_eq!((right.statistics().refused_busy, right.statistics().displaced), (0, 0));
}

#[tokio::test]
async fn a_next_hop_that_is_not_found_holds_up_nobody() {
    let (node, _n) = start_with(FakeNode::new(RIGHT, 1500), UNHURRIED).await;
    *lock(&node.host().0.unreachable) = Some("127.0.1.1".parse().unwrap());
    let mut stuck = connect_from("127.0.1.1", &node).await;
    write_message(&mut stuck, &hello(Introduction::default(), offer_by_hand()), PATIENCE).await.unwrap();
    eventually("it has its CID", || node.host().in_use() == 1).await;
    handshake_by_hand(&node).await;
}

#[tokio::test]
async fn shutting_down_takes_leave_of_every_peer() {
    let (left, _l, right, mut right_notices, _, peer_cid) = pair().await;
    left.shut_down().await;
    assert_eq!(within("right ends", right_notices.recv()).await, Some(Notice::Ended(peer_cid)));
    assert_eq!((left.sessions().len(), left.host().in_use(), right.host().in_use()), (0, 0, 0));
    assert_eq!(right.statistics().closed_by_peer, 1);
}

#[tokio::test]
async fn an_address_that_is_not_ours_cannot_be_listened_on() {
    let node = FakeNode::new("192.0.2.1", 1500);
    let (timing, limits) = (Timing::default(), Limits::default());
    let options = ManagerOptions { port: 0, tuning: Tuning::default(), timing, limits };
    let Err(error) = ConnectionManager::start(node, options).await else { panic!("not our address") };
    let text = error.to_string();
    assert!(text.starts_with("cannot listen on 192.0.2.1:0 for the connection manager: "), "{text}");
    assert!(text.contains("does not have this address"), "{text}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_refused_and_named() {
    let address = LEFT.parse().unwrap();
    let first = ListeningPlace::take(address, 0, 1).expect("any port");
    let second = ListeningPlace::take(address, first.local.port(), 1);
    let text = second.err().expect("it is taken").to_string();
    assert!(text.contains(&first.local.to_string()) && text.contains("--control-port"), "{text}");
}

#[test]
fn the_largest_table_of_regions_fits_a_message() {
    let region = RegionAdvertisement {
        name: Some("n".repeat(64)),
        rkey: u32::MAX,
        length: u64::MAX,
        access: u32::MAX,
    };
    let message = Message::Regions { regions: vec![region; transport_common::queues::REGIONS] };
    assert!(serde_json::to_vec(&message).unwrap().len() <= LARGEST_MESSAGE);
}

fn frame(json: &[u8]) -> Vec<u8> {
    [&(json.len() as u32).to_be_bytes(), json].concat()
}

fn offer_by_hand() -> Offer {
    Offer {
        cid: 9,
        request_psn: 0xffff_fff0,
        data_psn: 2,
        rsn: 3,
        mtu: 9000,
        max_segment: 4096,
        ordered: false,
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

fn hello(introduction: Introduction, offer: Offer) -> Message {
    Message::Hello { protocol: PROTOCOL.into(), introduction, offer: Box::new(offer) }
}

fn accept(more: Capabilities, offer: Offer) -> Message {
    Message::Accept { introduction: with(more), offer: Box::new(offer), path_mtu: None }
}

/// Says hello as a peer that neither searches nor proves the path. Returns the answer.
async fn say_hello(stream: &mut TcpStream, offer: Offer) -> Message {
    introduce(stream, Capabilities::default(), offer).await
}

/// The same with these capabilities in addition to what every peer has.
async fn introduce(stream: &mut TcpStream, more: Capabilities, offer: Offer) -> Message {
    write_message(stream, &hello(with(more), offer), PATIENCE).await.unwrap();
    read_message(stream, PATIENCE).await.unwrap()
}

/// How a peer by hand introduces itself: with the capabilities of this release, and those of `more` that depend on the
/// connection.
fn with(more: Capabilities) -> Introduction {
    let Capabilities { rack_tlp, path_search, path_proof, .. } = more;
    let own = Introduction::default();
    Introduction {
        capabilities: Capabilities { rack_tlp, path_search, path_proof, ..own.capabilities },
        ..own
    }
}

/// A peer without a manager to which a node has connected.
struct PeerByHand {
    listener: TcpListener,
    stream: TcpStream,
    /// How the node introduced itself, and its offer.
    introduction: Introduction,
    offer: Offer,
}

/// Lets a node connect to a peer that neither searches nor proves the path. The offer of the peer is `answer`, in the order
/// that the node wants.
async fn connected_by_hand(node: &Manager, terms: Terms, answer: Offer) -> (PeerByHand, Cid) {
    let listener = TcpListener::bind((RIGHT, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepting = async {
        let (mut stream, _) = within("the node connects", listener.accept()).await.unwrap();
        let first = read_message(&mut stream, PATIENCE).await.unwrap();
        let Message::Hello { introduction, offer, .. } = first else { panic!("{first:?}") };
        let answer = Offer { ordered: offer.ordered, ..answer };
        write_message(&mut stream, &accept(Capabilities::default(), answer), PATIENCE).await.unwrap();
        assert_eq!(read_message(&mut stream, PATIENCE).await.unwrap(), Message::Ready);
        (stream, introduction, *offer)
    };
    let (cid, (stream, introduction, offer)) =
        tokio::join!(node.connect(RIGHT.parse().unwrap(), port, terms), accepting);
    (PeerByHand { listener, stream, introduction, offer }, cid.unwrap())
}

/// Waits for the next connection that a peer has opened.
async fn accepted(node: &Manager) -> Cid {
    Cid(within("a connection", node.accept()).await.expect("the node is up").local_cid)
}

/// Connects a peer without a manager. Returns the stream and the node's CID.
async fn handshake_by_hand(node: &Manager) -> (TcpStream, Cid) {
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let Message::Accept { offer, .. } = say_hello(&mut stream, offer_by_hand()).await else {
        panic!("accepted")
    };
    write_message(&mut stream, &Message::Ready, PATIENCE).await.unwrap();
    while accepted(node).await != Cid(offer.cid) {}
    (stream, Cid(offer.cid))
}
