//! A data path that stops carrying the packets of an established connection. The fake node says what its datapath sees, and
//! the peer by hand is the path.

use tokio::net::UdpSocket;

use super::*;

const HEADERS: usize = 20 + 8;
const OLD_ROUTER: Mac = Mac([2, 0, 0, 0, 0, 9]);
const NEW_ROUTER: Mac = Mac([2, 0, 0, 0, 0, 8]);

fn stalled(cid: Cid) -> PathState {
    PathState {
        cid,
        generation: 1,
        peer: LEFT.parse().unwrap(),
        next_hop: OLD_ROUTER,
        follows: true,
        failed: false,
        outstanding: 1,
        oldest: [7, 7],
        timeouts: 0,
        heard: 1,
        nacks: 0,
    }
}

/// Has the node send the oldest packet of a connection again and again, until a condition holds.
async fn without_answers(node: &Manager, cid: Cid, what: &str, mut holds: impl FnMut() -> bool) {
    *lock(&node.host().0.paths) = vec![stalled(cid)];
    eventually(what, || {
        lock(&node.host().0.paths)[0].timeouts += 1;
        holds()
    })
    .await;
}

/// Answers the probes of a node whose packets are at most `carries` bytes long.
async fn answer_probes(socket: &UdpSocket, token: u64, carries: usize) {
    let mut bytes = [0; 9000];
    loop {
        let (length, from) = socket.recv_from(&mut bytes).await.unwrap();
        if length + HEADERS <= carries {
            let mut answer: [u8; 20] = bytes[..20].try_into().unwrap();
            answer[7] = 2;
            answer[8..16].copy_from_slice(&token.to_be_bytes());
            socket.send_to(&answer, from).await.unwrap();
        }
    }
}

/// A peer that is connected over a path of 1500 bytes, and takes part in searches.
async fn connect_by_hand(node: &Manager) -> (TcpStream, Cid) {
    let socket = UdpSocket::bind((LEFT, 0)).await.unwrap();
    let probe = ProbeOffer { port: socket.local_addr().unwrap().port(), token: 1 };
    let path_proof = Some(ProofRegion { rkey: 7 });
    let more = Capabilities { path_search: Some(probe), path_proof, ..Capabilities::default() };
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let Message::Probe { probe: theirs } = introduce(&mut stream, more, offer_by_hand()).await else {
        panic!("it searches")
    };
    write_message(&mut stream, &Message::Path { mtu: Some(1500) }, PATIENCE).await.unwrap();
    let answer = tokio::select! {
        answer = read_message(&mut stream, PATIENCE) => answer.unwrap(),
        () = answer_probes(&socket, theirs.token, 1500) => unreachable!("it answers forever"),
    };
    let Message::Accept { offer, path_mtu: Some(1500), .. } = answer else { panic!("{answer:?}") };
    for message in [Message::Ready, Message::Proof { proof: Proof::COMPLETE }] {
        write_message(&mut stream, &message, PATIENCE).await.unwrap();
    }
    accepted(node).await;
    (stream, Cid(offer.cid))
}

/// Takes part in the searches of the node, as a path that carries packets of `carries` bytes. Returns the last words of the
/// node, and how often it searched.
async fn search_until_the_end(stream: &mut TcpStream, carries: usize) -> (String, u32) {
    let last_words = |message| if let Message::Close { text, .. } = message { Some(text) } else { None };
    search_until(stream, carries, last_words).await
}

/// The same until a message for which `wanted` returns something.
async fn search_until<T>(
    stream: &mut TcpStream,
    carries: usize,
    wanted: impl Fn(Message) -> Option<T>,
) -> (T, u32) {
    let mut searches = 0;
    let mut answering = tokio::spawn(async {});
    loop {
        match read_message(stream, PATIENCE).await.unwrap() {
            Message::Probe { probe } => {
                searches += 1;
                let socket = UdpSocket::bind((LEFT, 0)).await.unwrap();
                let own = ProbeOffer { port: socket.local_addr().unwrap().port(), token: 2 };
                answering.abort();
                answering = tokio::spawn(async move { answer_probes(&socket, probe.token, carries).await });
                write_message(stream, &Message::Probe { probe: own }, PATIENCE).await.unwrap();
            }
            message => {
                if let Some(wanted) = wanted(message) {
                    return (wanted, searches);
                }
            }
        }
    }
}

/// RFC 8899, 4.3: packets of the agreed size are lost, so the path is searched again. Two searches agree that it carries
/// less. The packets that are lost stay too long, so the connection ends and names both sizes, at both ends.
#[tokio::test]
async fn a_path_that_shrinks_ends_the_connection_with_its_sizes() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (mut stream, cid) = connect_by_hand(&node).await;
    *lock(&node.host().0.longest) = 1401;
    let peer = tokio::spawn(async move { search_until_the_end(&mut stream, 1400).await });
    without_answers(&node, cid, "the connection ends", || node.host().in_use() == 0).await;
    let (text, searches) = within("the peer is told", peer).await.unwrap();
    let expected = "the MTU of the path is now 1400 bytes, and the connection was set up with 1500";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!((searches, node.statistics().path_lost, node.statistics().closed_here), (2, 1, 0));
    let told = |event: &Event| event.text.contains(" ended: ") && event.text.contains(expected);
    eventually("it is an event", || node.events().iter().any(told)).await;
}

/// The same, but nothing of this end is too long: it goes on with shorter packets, and has told the peer to do so.
#[tokio::test]
async fn a_path_that_shrinks_leaves_a_connection_whose_packets_fit() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (mut stream, cid) = connect_by_hand(&node).await;
    *lock(&node.host().0.longest) = 1400;
    let session = node.sessions().remove(0);
    let peer = tokio::spawn(async move {
        let smaller = search_until(&mut stream, 1400, |message| match message {
            Message::Mtu { smaller } => Some(smaller),
            _ => None,
        });
        (smaller.await.0, stream)
    });
    without_answers(&node, cid, "packets are shorter", || node.sessions()[0].mtu == 1400).await;
    lock(&node.host().0.paths).clear();
    let (told, mut stream) = within("the peer is told", peer).await.unwrap();
    assert_eq!(told, SmallerMtu { mtu: 1400, of: MtuOf::Path });
    assert_eq!(lock(&node.host().0.narrowed)[&cid], 1400);
    assert_eq!(node.sessions(), [SessionInfo { mtu: 1400, path_mtu: Some(1400), ..session }]);
    let text = "the MTU of the path is now 1400 bytes, it was 1500";
    eventually("it is an event", || node.events().iter().any(|event| event.text.contains(text))).await;
    // The peer knows of one that is smaller still. A larger one changes nothing.
    *lock(&node.host().0.longest) = 0;
    for (mtu, of, agreed) in [(1300, MtuOf::Node, 1300), (1350, MtuOf::Path, 1300), (1290, MtuOf::Path, 1290)]
    {
        let message = Message::Mtu { smaller: SmallerMtu { mtu, of } };
        write_message(&mut stream, &message, PATIENCE).await.unwrap();
        eventually("it is in force", || node.sessions()[0].mtu == agreed).await;
    }
    let text = "the MTU of the peer's node is now 1300 bytes, it was 1400";
    assert!(node.events().iter().any(|event| event.text.contains(text)), "{:?}", node.events());
    let message = Message::Mtu { smaller: SmallerMtu { mtu: 1279, of: MtuOf::Path } };
    write_message(&mut stream, &message, PATIENCE).await.unwrap();
    eventually("it is closed", || node.host().in_use() == 0).await;
    assert_eq!(node.statistics().garbage, 1);
}

/// Probes pass as before, so the size is not the reason. The connection ends when packet delivery would give it up.
#[tokio::test]
async fn a_stall_whose_cause_is_not_found_ends_too() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (mut stream, cid) = connect_by_hand(&node).await;
    let peer = tokio::spawn(async move { search_until_the_end(&mut stream, 9000).await });
    without_answers(&node, cid, "the connection ends", || node.host().in_use() == 0).await;
    let (text, searches) = within("the peer is told", peer).await.unwrap();
    assert!(text.starts_with("no packet of the peer was acknowledged for "), "{text}");
    assert!(text.contains("no Falcon packet of this node reaches it: UDP port 1000"), "{text}");
    assert_eq!((searches, node.statistics().path_lost), (1, 1));
    let told = |event: &Event| {
        event.text.contains(" ended: no packet was acknowledged for ")
            && event.text.contains("the peer is down")
    };
    eventually("it is an event", || node.events().iter().any(told)).await;
}

/// Returns the next hops of the connections of a node.
fn next_hops(node: &Manager) -> Vec<Mac> {
    lock(&node.host().0.paths).iter().map(|path| path.next_hop).collect()
}

fn told(node: &Manager, cid: Cid) -> bool {
    let text =
        format!("next hop of connection {} is now 02:00:00:00:00:08 instead of 02:00:00:00:00:09", cid.0);
    node.events().iter().any(|event| event.text == text)
}

/// Another router has taken over: the kernel sends to its MAC address, and no notice says so. A stalled connection has the kernel
/// resolve it, takes it over, and goes on.
#[tokio::test]
async fn a_stalled_connection_takes_over_the_mac_address_of_the_next_hop() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (_stream, cid) = connect_by_hand(&node).await;
    let asks = |node: &Manager| lock(&node.host().0.next_hop_reads)[1];
    without_answers(&node, cid, "it asks", || asks(&node) > 0).await;
    assert_eq!(next_hops(&node), [OLD_ROUTER], "the kernel does not know it yet");
    *lock(&node.host().0.next_hop) = Some(NEW_ROUTER);
    eventually("it goes on", || next_hops(&node) == [NEW_ROUTER]).await;
    // The packets are acknowledged now.
    lock(&node.host().0.paths)[0].outstanding = 0;
    eventually("it is an event", || told(&node, cid)).await;
    let passes = |event: &Event| event.text.contains("its packets pass again after");
    eventually("they pass again", || node.events().iter().any(passes)).await;
    assert_eq!((node.sessions().len(), node.statistics().path_lost), (1, 0));
}

/// The kernel lets readers of its tables wait while interfaces change. A stalled connection ends in time all the same.
#[tokio::test]
async fn a_neighbour_table_that_does_not_answer_stops_nothing() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    node.host().0.neighbours_wait.store(true, Ordering::Relaxed);
    let (mut stream, cid) = connect_by_hand(&node).await;
    let peer = tokio::spawn(async move { search_until_the_end(&mut stream, 9000).await });
    without_answers(&node, cid, "the connection ends", || node.host().in_use() == 0).await;
    assert_eq!(*lock(&node.host().0.next_hop_reads), [0, 0], "it still waits");
    node.host().0.neighbours_wait.store(false, Ordering::Relaxed);
    assert_eq!(node.statistics().path_lost, 1);
    let (text, _) = within("the peer is told", peer).await.unwrap();
    assert!(text.starts_with("no packet of the peer was acknowledged for "), "{text}");
}

/// A connection that only acknowledges never stalls. It follows when there is a notice, and when it is new.
#[tokio::test]
async fn an_idle_connection_follows_its_next_hop_when_there_is_a_notice() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (first, fixed, later) = (Cid(200), Cid(201), Cid(202));
    let idle = |cid| PathState { outstanding: 0, ..stalled(cid) };
    *lock(&node.host().0.next_hop) = Some(OLD_ROUTER);
    *lock(&node.host().0.paths) = vec![idle(first), PathState { follows: false, ..idle(fixed) }];
    let reads = |node: &Manager| *lock(&node.host().0.next_hop_reads);
    eventually("a new one is compared", || reads(&node) == [1, 0]).await;
    *lock(&node.host().0.next_hop) = Some(NEW_ROUTER);
    *lock(&node.host().0.next_hops_changed) = true;
    eventually("it follows", || next_hops(&node) == [NEW_ROUTER, OLD_ROUTER]).await;
    eventually("it is an event", || told(&node, first)).await;
    // This one was opened with the old address while the notice was read.
    lock(&node.host().0.paths).push(idle(later));
    eventually("it follows", || next_hops(&node) == [NEW_ROUTER, OLD_ROUTER, NEW_ROUTER]).await;
    eventually("it is an event", || told(&node, later)).await;
    assert!(!told(&node, fixed), "it keeps what was written");
    // Without a notice, nothing is read.
    assert_eq!(reads(&node), [3, 0]);
}

/// A connection that only acknowledges, and no notice: the kernel does not know it either. The peer is stalled, so it searches,
/// and this end asks for its next hop.
#[tokio::test]
async fn an_idle_connection_asks_for_its_next_hop_when_the_peer_is_stalled() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (mut stream, cid) = connect_by_hand(&node).await;
    *lock(&node.host().0.next_hop) = Some(OLD_ROUTER);
    *lock(&node.host().0.paths) = vec![PathState { outstanding: 0, ..stalled(cid) }];
    let reads = |node: &Manager| *lock(&node.host().0.next_hop_reads);
    eventually("a new one is compared", || reads(&node) == [1, 0]).await;
    let socket = UdpSocket::bind((LEFT, 0)).await.unwrap();
    let own = ProbeOffer { port: socket.local_addr().unwrap().port(), token: 3 };
    write_message(&mut stream, &Message::Probe { probe: own }, PATIENCE).await.unwrap();
    eventually("it asks once", || reads(&node) == [1, 1]).await;
    *lock(&node.host().0.next_hop) = Some(NEW_ROUTER);
    *lock(&node.host().0.next_hops_changed) = true;
    eventually("it follows", || next_hops(&node) == [NEW_ROUTER]).await;
    eventually("it is an event", || told(&node, cid)).await;
}

/// An address that no host has, or one that the kernel does not know.
#[tokio::test]
async fn a_next_hop_that_cannot_be_one_is_not_taken_over() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    *lock(&node.host().0.paths) = vec![PathState { outstanding: 0, ..stalled(Cid(200)) }];
    eventually("it is compared", || lock(&node.host().0.next_hop_reads)[0] == 1).await;
    let [zero, all, group] = [[0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]].map(|mac| Some(Mac(mac)));
    // When the last one is read, the rounds before have ended.
    for other in [zero, all, group, None, Some(OLD_ROUTER)] {
        let before = lock(&node.host().0.next_hop_reads)[0];
        *lock(&node.host().0.next_hop) = other;
        *lock(&node.host().0.next_hops_changed) = true;
        eventually("it is read", || lock(&node.host().0.next_hop_reads)[0] > before).await;
    }
    assert_eq!((next_hops(&node), node.events().len()), (vec![OLD_ROUTER], 0));
}

/// A peer that did not search at set-up is asked nothing later, and a path that works is left alone.
#[tokio::test]
async fn who_does_not_search_is_not_asked() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (mut stream, cid) = handshake_by_hand(&node).await;
    let peer = tokio::spawn(async move { search_until_the_end(&mut stream, 1400).await });
    without_answers(&node, cid, "it is an event", || !node.events().is_empty()).await;
    without_answers(&node, cid, "the connection ends", || node.host().in_use() == 0).await;
    let (text, searches) = within("the peer is told", peer).await.unwrap();
    assert!(text.starts_with("no packet of the peer was acknowledged for "), "{text}");
    assert_eq!(searches, 0);
}

/// The peer's packets are lost, and it searches: this end answers with its own socket, and searches as well.
#[tokio::test]
async fn the_peer_may_search_too() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let (mut stream, _) = connect_by_hand(&node).await;
    let socket = UdpSocket::bind((LEFT, 0)).await.unwrap();
    let own = ProbeOffer { port: socket.local_addr().unwrap().port(), token: 3 };
    write_message(&mut stream, &Message::Probe { probe: own }, PATIENCE).await.unwrap();
    let theirs = loop {
        if let Message::Probe { probe } = read_message(&mut stream, PATIENCE).await.unwrap() {
            break probe;
        }
    };
    let mut probe = vec![0; 1400 - HEADERS];
    probe[..8].copy_from_slice(b"tcl-mtu\x01");
    probe[8..16].copy_from_slice(&theirs.token.to_be_bytes());
    probe[16..20].copy_from_slice(&1400u32.to_be_bytes());
    socket.send_to(&probe, (RIGHT, theirs.port)).await.unwrap();
    let mut bytes = [0; 9000];
    within("it is answered", async {
        loop {
            let length = socket.recv(&mut bytes).await.unwrap();
            if bytes[7] == 2 {
                assert_eq!((length, &bytes[8..16]), (20, &3u64.to_be_bytes()[..]));
                break;
            }
        }
    })
    .await;
    // A port on which probes do harm ends the session.
    let bad = ProbeOffer { port: 1000, token: 3 };
    write_message(&mut stream, &Message::Probe { probe: bad }, PATIENCE).await.unwrap();
    eventually("it is closed", || node.host().in_use() == 0).await;
    assert_eq!(node.statistics().garbage, 1);
}

/// Makes the interface of a node smaller, and has it known.
fn shrink_interface(node: &Manager, mtu: u32) {
    *lock(&node.host().0.mtu) = mtu;
    lock(&node.host().0.news).push("the interface has changed".to_owned());
}

/// The MTU of this end's interface shrinks: connections with a larger one go on at both ends with shorter packets. Static ones
/// do at this end.
#[tokio::test]
async fn an_interface_that_shrinks_shortens_the_packets_of_its_connections() {
    let (left, _l, right, _r, cid, peer_cid) = pair().await;
    let fixed = Cid(200);
    *lock(&left.host().0.paths) = vec![PathState { outstanding: 0, ..stalled(fixed) }];
    for mtu in [1400, 1300] {
        shrink_interface(&left, mtu);
        eventually("both go on", || {
            [&left, &right].iter().all(|node| node.sessions().iter().all(|session| session.mtu == mtu))
        })
        .await;
        let narrowed = |node: &Manager, cid| lock(&node.host().0.narrowed).get(&cid).copied();
        assert_eq!((narrowed(&left, cid), narrowed(&right, peer_cid)), (Some(mtu), Some(mtu)));
        eventually("the static one", || narrowed(&left, fixed) == Some(mtu)).await;
    }
    assert_eq!((left.sessions().len(), right.sessions().len()), (1, 1));
}

/// What is on its way is too long for it: the connection ends, and names both sizes. Others stay.
#[tokio::test]
async fn an_interface_that_shrinks_ends_the_connections_that_are_too_large_for_it() {
    let (left, _l, right, _r, cid, _) = pair().await;
    let small = {
        *lock(&right.host().0.mtu) = 1300;
        left.connect(RIGHT.parse().unwrap(), right.address().port(), Terms::default()).await.unwrap()
    };
    *lock(&left.host().0.longest) = 1500;
    shrink_interface(&left, 1400);
    eventually("one is left", || left.sessions().len() == 1 && right.sessions().len() == 1).await;
    assert_eq!((left.host().health(cid), left.host().health(small)), (Health::Closed, Health::Open));
    assert_eq!((left.statistics().path_lost, right.statistics().closed_by_peer), (1, 1));
    let sizes = "is now 1400 bytes, and the connection was set up with 1500";
    for (node, expected) in [
        (&left, format!(" ended: the MTU of the node {sizes}")),
        (&right, format!(" closed by the peer: the MTU of its node {sizes}")),
    ] {
        eventually("it is an event", || node.events().iter().any(|event| event.text.contains(&expected)))
            .await;
    }
    assert!(left.events().iter().any(|event| event.text == "the interface has changed"));
}

/// Whichever end finds that the path carries less: the connecting end sets the connection up again, with the MTU of now.
#[tokio::test]
async fn a_connection_that_the_path_has_ended_comes_back_with_the_mtu_of_now() {
    let (left, mut notices) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    let terms = Terms { reconnect: true, ..Terms::default() };
    let mut cid = left.connect(RIGHT.parse().unwrap(), right.address().port(), terms).await.unwrap();
    for (node, mtu) in [(&left, 1400), (&right, 1300)] {
        accepted(&right).await;
        *lock(&node.host().0.longest) = 1500;
        shrink_interface(node, mtu);
        assert_eq!(within("it ends", notices.recv()).await, Some(Notice::Ended(cid)));
        let Some(Notice::Replaced { lost, by }) = within("it comes back", notices.recv()).await else {
            panic!("replaced")
        };
        assert_eq!((lost, left.sessions()[0].mtu), (cid, mtu));
        *lock(&node.host().0.longest) = 0;
        cid = by;
    }
    assert_eq!((left.statistics().path_lost, right.statistics().path_lost), (1, 1));
    // What this end's user closes stays closed.
    assert!(left.close(cid).await);
    assert_eq!(within("it ends", notices.recv()).await, Some(Notice::Ended(cid)));
    assert!(left.reconnecting().is_empty());
}
