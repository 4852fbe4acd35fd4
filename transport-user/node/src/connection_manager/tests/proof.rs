//! The proof of the data path, at the end of the handshake.

use super::*;

async fn connect(left: &Manager, right: &Manager) -> Result<Cid, ConnectError> {
    within("an outcome", left.connect(RIGHT.parse().unwrap(), right.address().port(), Terms::default())).await
}

/// TCP reaches the peer, Falcon packets do not: no end is connected, nothing stays open, and both ends say what is blocked.
#[tokio::test]
async fn a_data_path_that_carries_nothing_is_no_connection() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    // Packets of the left end arrive, but no answer does.
    *lock(&left.host().0.carries) = 0;
    *lock(&left.host().0.hears) = false;
    *lock(&right.host().0.carries) = 0;
    let error = connect(&left, &right).await.unwrap_err();
    assert!(matches!(error, ConnectError::DataPath { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("TCP reaches 127.0.0.2:"), "{text}");
    assert!(text.contains("no Falcon packet passes from the peer: let UDP port 1000 pass"), "{text}");
    eventually("the other end knows", || right.statistics().unproven == 1).await;
    let told = |event: &Event| event.text.contains("no Falcon packet passes to the peer: ");
    assert!(right.events().iter().any(told), "{:?}", right.events());
    assert_eq!((left.statistics().unproven, left.statistics().established), (1, 0));
    eventually("all is given back", || left.host().in_use() + right.host().in_use() == 0).await;
    assert!(left.sessions().is_empty() && right.sessions().is_empty());
}

/// Probes of the search pass, Falcon packets of that length do not, in one direction: the smallest MTU is tried.
#[tokio::test]
async fn where_full_packets_do_not_pass_the_smallest_mtu_is_tried() {
    for carries in [1400, 1280] {
        let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
        let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
        *lock(&right.host().0.carries) = carries;
        let cid = connect(&left, &right).await.unwrap();
        let opened = left.host().opened(cid);
        assert_eq!(opened.mtu, 1280);
        assert!(opened.max_segment < 1280);
        let told =
            |event: &Event| event.text.contains("Falcon packets of 1500 bytes do not pass from the peer");
        assert!(left.events().iter().any(told), "{:?}", left.events());
        accepted(&right).await;
        assert_eq!((right.sessions()[0].mtu, left.host().in_use(), right.host().in_use()), (1280, 1, 1));
    }
    // A path that carries less than IPv6 demands is not used.
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    *lock(&left.host().0.carries) = 1279;
    let text = connect(&left, &right).await.unwrap_err().to_string();
    assert!(text.contains("Falcon packets of 1280 bytes do not pass to the peer, shorter ones do"), "{text}");
}

/// A peer without the capability is connected to, and no packet is sent to prove the path.
#[tokio::test]
async fn a_peer_that_does_not_prove_is_connected_to() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    *lock(&left.host().0.carries) = 0;
    let (peer, cid) = connected_by_hand(&left, Terms::default(), offer_by_hand()).await;
    assert_eq!(peer.introduction.capabilities.path_proof, Some(ProofRegion { rkey: 7 }));
    assert_eq!(left.host().health(cid), Health::Open);
}

/// The peer says something else where its proof should be, or says that its packets did not arrive.
#[tokio::test]
async fn what_the_peer_says_of_its_proof_is_judged() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let none = Proof { heard: true, ..Proof::default() };
    for (said, unproven, garbage) in
        [(Message::Heartbeat, 0, 1), (Message::Proof { proof: none }, 1, 1), (Message::Ready, 1, 2)]
    {
        let path_proof = Some(ProofRegion { rkey: 7 });
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        let more = Capabilities { path_proof, ..Capabilities::default() };
        let answer = introduce(&mut stream, more, offer_by_hand()).await;
        let Message::Accept { introduction, .. } = answer else { panic!("accepted") };
        assert_eq!(introduction.capabilities.path_proof, path_proof);
        write_message(&mut stream, &Message::Ready, PATIENCE).await.unwrap();
        // A short packet of the node was acknowledged, so only the peer's direction for long ones is in doubt.
        let proof = read_message(&mut stream, PATIENCE).await.unwrap();
        assert_eq!(proof, Message::Proof { proof: Proof::COMPLETE });
        write_message(&mut stream, &said, PATIENCE).await.unwrap();
        eventually("it is closed", || node.host().in_use() == 0).await;
        let statistics = node.statistics();
        assert_eq!((statistics.unproven, statistics.garbage, statistics.established), (unproven, garbage, 0));
    }
}
