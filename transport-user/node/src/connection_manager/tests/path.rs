//! The search for the MTU of the path during the handshake. The peer by hand is the path too: it decides which probes it
//! answers.

use tokio::net::UdpSocket;

use super::*;

const TOKEN: u64 = 0x0123_4567_89ab_cdef;
const HEADERS: usize = 20 + 8;

#[tokio::test]
async fn the_largest_packet_of_the_path_is_agreed_on() {
    let (left, _l, right, _r, cid, peer_cid) = pair().await;
    let (a, b) = (left.host().opened(cid), right.host().opened(peer_cid));
    assert_eq!([a.mtu, b.mtu], [1500; 2], "the smaller interface");
    assert_eq!([a.path_mtu, b.path_mtu], [Some(1500); 2]);
    let shown = [&left, &right].map(|node| (node.sessions()[0].mtu, node.sessions()[0].path_mtu));
    assert_eq!(shown, [(1500, Some(1500)); 2]);
    let text = &left.events()[0].text;
    assert!(text.contains("MTU 1500 (of the path)"), "{text}");
}

/// Connects by hand over a path that carries packets of at most `carries` bytes, and names `path` as what this end has
/// found. Returns the answer, and how many probes arrived.
async fn over_a_path(node: &Manager, carries: usize, path: Option<u32>) -> (Message, u32) {
    let socket = UdpSocket::bind((LEFT, 0)).await.unwrap();
    let probe = ProbeOffer { port: socket.local_addr().unwrap().port(), token: TOKEN };
    let more = Capabilities { path_search: Some(probe), ..Capabilities::default() };
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let Message::Probe { probe: theirs } = introduce(&mut stream, more, offer_by_hand()).await else {
        panic!("it searches")
    };
    write_message(&mut stream, &Message::Path { mtu: path }, PATIENCE).await.unwrap();
    let mut arrived = 0;
    let answering = async {
        let mut bytes = [0; 9000];
        loop {
            let (length, from) = socket.recv_from(&mut bytes).await.unwrap();
            assert_eq!((from.port(), &bytes[..8]), (theirs.port, &b"tcl-mtu\x01"[..]));
            assert_eq!(bytes[8..16], TOKEN.to_be_bytes());
            arrived += 1;
            if length + HEADERS <= carries {
                let mut answer: [u8; 20] = bytes[..20].try_into().unwrap();
                answer[7] = 2;
                answer[8..16].copy_from_slice(&theirs.token.to_be_bytes());
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    };
    let answer = tokio::select! {
        answer = read_message(&mut stream, PATIENCE) => answer.unwrap(),
        () = answering => unreachable!("it answers forever"),
    };
    (answer, arrived)
}

/// Each end finds the size for its own direction. The smaller one applies to both, and the segments follow.
#[tokio::test]
async fn the_smaller_direction_of_a_path_decides() {
    for (carries, path, agreed) in
        [(1400, 1500, 1400), (1500, 1399, 1399), (1280, 1280, 1280), (9000, 9000, 1500)]
    {
        let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
        let (answer, arrived) = over_a_path(&node, carries, Some(path)).await;
        let Message::Accept { offer, path_mtu, .. } = answer else { panic!("{answer:?}") };
        assert_eq!((offer.mtu, path_mtu), (agreed, Some(agreed)), "{carries} there, {path} back");
        // The fake node says 1400 for its own MTU of 1500. Below that, the segment follows the path.
        let segment = if agreed == 1500 { 1400 } else { tiercel::backend::max_segment(agreed, false, 0) };
        assert_eq!(offer.max_segment, segment);
        assert!(arrived <= 256, "{arrived} probes");
    }
}

/// A firewall that drops probes does not prevent a connection: the MTU of the interfaces is used, as far as nothing smaller
/// was found, and the log says so.
#[tokio::test]
async fn without_probes_the_interfaces_decide() {
    for (carries, path, mtu, way) in
        [(0, None, 1500, "to"), (0, Some(1400), 1400, "to"), (9000, None, 1500, "from")]
    {
        let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
        let (answer, _) = over_a_path(&node, carries, path).await;
        let Message::Accept { offer, path_mtu, .. } = answer else { panic!("{answer:?}") };
        assert_eq!((offer.mtu, path_mtu), (mtu, None));
        let told = format!("crosses the path {way} 127.0.0.1");
        let events = node.events();
        assert!(
            path.is_none() && carries == 0 || events.iter().any(|event| event.text.contains(&told)),
            "{events:?}"
        );
        assert!(events.iter().any(|event| event.text.contains("no probe of 1280 bytes")), "{events:?}");
    }
}

#[tokio::test]
async fn searches_that_break_the_rules_are_declined() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (answer, _) = over_a_path(&node, 9000, Some(1279)).await;
    assert!(matches!(answer, Message::Reject { reason: Rejection::Offer, .. }), "{answer:?}");
    for port in [0, 1000] {
        let path_search = Some(ProbeOffer { port, token: 1 });
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        let more = Capabilities { path_search, ..Capabilities::default() };
        let answer = introduce(&mut stream, more, offer_by_hand()).await;
        let Message::Reject { reason: Rejection::Offer, text } = answer else { panic!("{answer:?}") };
        assert!(text.contains("port for probes"), "{text}");
    }
    eventually("everything is given back", || node.host().in_use() == 0).await;
}

/// A peer without the capability answers with its offer at once.
#[tokio::test]
async fn a_peer_that_does_not_search_is_connected_to() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let answer = Offer { mtu: 1400, max_segment: 1200, ..offer_by_hand() };
    let (peer, cid) = connected_by_hand(&left, Terms::default(), answer).await;
    assert!(peer.introduction.capabilities.path_search.is_some());
    let agreement = left.host().opened(cid);
    assert_eq!((agreement.mtu, agreement.path_mtu, agreement.max_segment), (1400, None, 1200));
}
