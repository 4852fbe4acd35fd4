//! Peers of which nothing is heard for a while, and connections that are set up again when they are lost.

use super::*;

/// A patience that is short, but many times the pauses of these tests.
const SHORT: Duration = Duration::from_millis(300);

/// After an outage TCP is late by as long as the outage was. So the node asks over another TCP connection, and an answer
/// counts as a sign of life. The questions come so often that 60 of them take twice the patience.
#[tokio::test]
async fn a_peer_that_answers_over_another_connection_is_alive() {
    let (node, mut notices) = start(FakeNode::new(LEFT, 1500)).await;
    let terms = Terms { patience: Some(SHORT), ..Terms::default() };
    let (peer, cid) = connected_by_hand(&node, terms, offer_by_hand()).await;
    assert_eq!(peer.offer.patience_ms, 300);
    let SecurityOffer::Plaintext { spi: their_spi } = peer.offer.security;
    for _ in 0..60 {
        let (mut stream, _) = within("it asks", peer.listener.accept()).await.unwrap();
        let question = within("a question", read_message(&mut stream, PATIENCE)).await.unwrap();
        assert_eq!(question, Message::Alive { cid: 9, peer_cid: cid.0, spi: 5 });
        let answer = Message::Alive { cid: cid.0, peer_cid: 9, spi: their_spi };
        write_message(&mut stream, &answer, PATIENCE).await.unwrap();
    }
    assert_eq!(node.sessions().len(), 1, "{:?}", node.events());
    // Without answers it is dead.
    assert_eq!(within("the end", notices.recv()).await, Some(Notice::Ended(cid)));
    let text = node.events().pop().unwrap().text;
    assert!(text.contains("lost: nothing arrived for 0.3 s"), "{text}");
    assert_eq!((node.statistics().silent, node.host().in_use()), (1, 0));
}

/// The accepting end takes the question for a sign of life, and answers it. Only the peer of the connection can ask.
#[tokio::test]
async fn a_question_is_a_sign_of_life() {
    let timing = Timing { patience: SHORT, ..Timing::default() };
    let (node, mut notices) = start_with(FakeNode::new(RIGHT, 1500), timing).await;
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let Message::Accept { offer, .. } = say_hello(&mut stream, offer_by_hand()).await else {
        panic!("accepted")
    };
    write_message(&mut stream, &Message::Ready, PATIENCE).await.unwrap();
    accepted(&node).await;
    let SecurityOffer::Plaintext { spi } = offer.security;
    let question = |spi| Message::Alive { cid: offer.cid, peer_cid: 9, spi };
    let ask = async |source: &str, question: Message| {
        let mut stream = connect_from(source, &node).await;
        write_message(&mut stream, &question, PATIENCE).await.unwrap();
        read_message(&mut stream, PATIENCE).await.unwrap()
    };
    for _ in 0..60 {
        let answer = ask(LEFT, question(spi)).await;
        assert_eq!(answer, Message::Alive { cid: 9, peer_cid: offer.cid, spi: 5 });
        tokio::time::sleep(SHORT / 30).await;
    }
    assert_eq!(node.sessions().len(), 1, "{:?}", node.events());
    let mut strangers = 0;
    while node.sessions().len() == 1 {
        for (source, question) in [(LEFT, question(spi ^ 1)), ("127.0.1.1", question(spi))] {
            let answer = ask(source, question).await;
            assert!(matches!(answer, Message::Reject { reason: Rejection::Unknown, .. }), "{answer:?}");
            strangers += 1;
        }
    }
    assert!(strangers > 0);
    assert_eq!(within("the end", notices.recv()).await, Some(Notice::Ended(Cid(offer.cid))));
}

/// Falcon packets that arrive are signs of life, even if TCP is silent.
#[tokio::test]
async fn falcon_packets_are_signs_of_life() {
    let timing = Timing { patience: SHORT, ..Timing::default() };
    let (node, mut notices) = start_with(FakeNode::new(RIGHT, 1500), timing).await;
    let (_silent, cid) = handshake_by_hand(&node).await;
    for _ in 0..60 {
        node.host().0.packets.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(SHORT / 30).await;
    }
    assert_eq!(node.sessions().len(), 1, "{:?}", node.events());
    assert_eq!(within("the end", notices.recv()).await, Some(Notice::Ended(cid)));
}

/// The connecting end decides about the patience of both.
#[tokio::test]
async fn the_patience_is_agreed_on() {
    for (own, terms, agreed) in [
        (DEFAULT_PATIENCE, None, DEFAULT_PATIENCE),
        (DEFAULT_PATIENCE, Some(Duration::from_secs(30)), Duration::from_secs(30)),
        (PATIENCE, None, PATIENCE),
        (PATIENCE, Some(DEFAULT_PATIENCE), DEFAULT_PATIENCE),
    ] {
        let timing = Timing { patience: own, ..Timing::default() };
        let (left, _l) = start_with(FakeNode::new(LEFT, 1500), timing).await;
        let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
        let terms = Terms { patience: terms, ..Terms::default() };
        left.connect(RIGHT.parse().unwrap(), right.address().port(), terms).await.unwrap();
        accepted(&right).await;
        let got = [&left, &right].map(|node| node.sessions()[0].patience_ms);
        assert_eq!(got, [agreed.as_millis() as u64; 2], "{own:?} {terms:?}");
    }
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    for patience in [Duration::ZERO, Duration::from_secs(7200)] {
        let terms = Terms { patience: Some(patience), ..Terms::default() };
        let error = left.connect(RIGHT.parse().unwrap(), 1, terms).await.unwrap_err();
        assert!(matches!(error, ConnectError::Patience), "{error}");
    }
}

/// A lost connection is set up again, if its terms say so. What was outstanding is told.
#[tokio::test]
async fn a_lost_connection_is_set_up_again() {
    let (left, mut notices) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, mut right_notices) = start(FakeNode::new(RIGHT, 1500)).await;
    let terms = Terms { reconnect: true, ..Terms::default() };
    let mut cid = left.connect(RIGHT.parse().unwrap(), right.address().port(), terms).await.unwrap();
    left.host().0.outstanding.store(3, Ordering::Relaxed);
    for round in 1..=3 {
        let peer_cid = accepted(&right).await;
        lock(&right.host().0.fatal).push(peer_cid);
        assert_eq!(within("right ends", right_notices.recv()).await, Some(Notice::Ended(peer_cid)));
        lock(&right.host().0.fatal).clear();
        assert_eq!(within("left ends", notices.recv()).await, Some(Notice::Ended(cid)));
        let Some(Notice::Replaced { lost, by }) = within("it comes back", notices.recv()).await else {
            panic!("replaced")
        };
        assert_eq!(lost, cid);
        cid = by;
        assert_eq!(left.statistics().established, round + 1);
    }
    let events = left.events();
    let told = "closed by the peer: packet delivery failed; 3 outstanding operations completed with DeadConn";
    assert!(events.iter().any(|event| event.text.contains(told)), "{events:?}");
    assert!(left.sessions()[0].reconnects && left.reconnecting().is_empty());
    // What the users of either end close stays closed.
    accepted(&right).await;
    assert!(right.close(Cid(right.sessions()[0].local_cid)).await);
    assert_eq!(within("left ends", notices.recv()).await, Some(Notice::Ended(cid)));
    assert!(left.reconnecting().is_empty());
    assert_eq!((left.host().in_use(), right.host().in_use()), (0, 0));
}

/// While the peer is away the node tries again, says why it fails, and stops when its user wants it to.
#[tokio::test]
async fn a_connection_that_does_not_come_back_is_given_up_by_its_user() {
    let (node, mut notices) = start(FakeNode::new(LEFT, 1500)).await;
    let terms = Terms { reconnect: true, ..Terms::default() };
    let (PeerByHand { listener, stream, .. }, cid) = connected_by_hand(&node, terms, offer_by_hand()).await;
    drop(listener);
    stream.set_zero_linger().unwrap();
    drop(stream);
    assert_eq!(within("the end is noticed", notices.recv()).await, Some(Notice::Ended(cid)));
    eventually("attempts fail", || node.reconnecting().first().is_some_and(|lost| lost.attempts > 1)).await;
    let lost = &node.reconnecting()[0];
    assert_eq!(lost.cid, cid.0);
    assert!(lost.error.as_ref().is_some_and(|error| error.contains("no node listens there")), "{lost:?}");
    assert!(node.close(cid).await);
    assert!(node.reconnecting().is_empty());
    assert!(!node.close(cid).await);
    eventually("nothing is left", || node.host().in_use() == 0).await;
    // The reason is told once, not with each attempt.
    let told = node.events().iter().filter(|event| event.text.contains("cannot be set up again yet")).count();
    assert_eq!(told, 1);
}
