//! RACK-TLP in the handshake: the option of one connection, the tuning of the nodes, and peers that do not
//! know the extension.

use super::*;

/// F-9.1.6-9: RACK-TLP is on if both ends have the capability. A peer that does not know it is connected to without.
#[tokio::test]
async fn a_peer_that_does_not_know_rack_tlp_is_connected_to() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let terms = Terms { rack_tlp: Some(true), ..Terms::default() };
    let (peer, cid) = connected_by_hand(&left, terms, offer_by_hand()).await;
    assert_eq!(peer.introduction.capabilities.rack_tlp, Some(Present {}));
    assert!(!left.host().opened(cid).connection.tuning.rack_tlp);
}

/// F-9.1.6-9: an end that does not have RACK-TLP on neither offers it nor refuses an offer of it.
#[tokio::test]
async fn rack_tlp_needs_both_offers() {
    let (node, _n) = start(FakeNode::new(LEFT, 1500)).await;
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let more = Capabilities { rack_tlp: Some(Present {}), ..Capabilities::default() };
    let answer = introduce(&mut stream, more, offer_by_hand()).await;
    let Message::Accept { introduction, offer, .. } = answer else { panic!("accepted") };
    assert_eq!(introduction.capabilities.rack_tlp, None);
    assert!(!node.host().opened(Cid(offer.cid)).connection.tuning.rack_tlp);
}

/// The terms of a connection decide before the tuning of the node that connects. Terms without a word on it leave
/// it to the tuning. The node that accepts has its tuning only.
#[tokio::test]
async fn one_connection_differs_from_the_tuning_of_its_node() {
    for (own, theirs, asked, on) in [
        (true, true, None, true),
        (true, true, Some(false), false),
        (true, true, Some(true), true),
        (false, true, None, false),
        (false, true, Some(true), true),
        (true, false, None, false),
        (true, false, Some(true), false),
    ] {
        let (left, _l) = start_tuned(FakeNode::new(LEFT, 1500), own).await;
        let (right, _r) = start_tuned(FakeNode::new(RIGHT, 1500), theirs).await;
        let terms = Terms { rack_tlp: asked, ..Terms::default() };
        let cid = left.connect(RIGHT.parse().unwrap(), right.address().port(), terms).await.unwrap();
        let peer_cid = accepted(&right).await;
        let ends = [left.host().opened(cid), right.host().opened(peer_cid)];
        let got = ends.map(|end| end.connection.tuning.rack_tlp);
        assert_eq!(got, [on; 2], "tuning {own} and {theirs}, asked for {asked:?}");
    }
}

async fn start_tuned(node: FakeNode, rack_tlp: bool) -> (Manager, Notices) {
    let tuning = Tuning { rack_tlp, ..Tuning::default() };
    let timing = Timing { heartbeat: Duration::from_millis(20), ..Timing::default() };
    let options = ManagerOptions { port: 0, tuning, timing, limits: Limits::default() };
    ConnectionManager::start(node, options).await.expect("loopback")
}
