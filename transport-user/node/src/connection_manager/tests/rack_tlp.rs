//! RACK-TLP in the handshake: the option of one connection, the tuning of the nodes, and peers that do not
//! know the extension.

use super::super::agreement::agree;
use super::*;

/// F-9.1.6-9: RACK-TLP is on if both ends offer it. A node of a release that knows neither it nor the search refuses one
/// field after the other, and is connected to without both.
#[tokio::test]
async fn a_peer_that_does_not_know_rack_tlp_is_connected_to() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let listener = tokio::net::TcpListener::bind((RIGHT, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let old = tokio::spawn(async move {
        let mut offers = Vec::new();
        for unknown in [Some("probe"), Some("rack_tlp"), None] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let Message::Hello { offer, .. } = read_message(&mut stream, PATIENCE).await.unwrap() else {
                panic!()
            };
            offers.push((offer.probe.is_some(), offer.rack_tlp));
            let answer = match unknown {
                Some(field) => {
                    let text = format!("not a message of the protocol: unknown field `{field}`");
                    Message::Reject { reason: Rejection::Offer, text }
                }
                None => {
                    let offer = Box::new(Offer { ordered: true, ..offer_by_hand() });
                    Message::Accept { offer, path_mtu: None }
                }
            };
            write_message(&mut stream, &answer, PATIENCE).await.unwrap();
            if unknown.is_none() {
                assert_eq!(read_message(&mut stream, PATIENCE).await.unwrap(), Message::Ready);
            }
        }
        offers
    });
    let terms = Terms { rack_tlp: Some(true), ..Terms::default() };
    let cid = left.connect(RIGHT.parse().unwrap(), port, terms).await.unwrap();
    assert!(!left.host().opened(cid).connection.tuning.rack_tlp);
    let offers = within("the old peer is done", old).await.unwrap();
    assert_eq!(offers, [(true, true), (false, true), (false, false)]);
}

/// F-9.1.6-9: an end that does not have RACK-TLP on neither offers it nor refuses an offer of it.
#[tokio::test]
async fn rack_tlp_needs_both_offers() {
    let (node, _n) = start(FakeNode::new(LEFT, 1500)).await;
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    let offer = Offer { rack_tlp: true, ..offer_by_hand() };
    let Message::Accept { offer, .. } = say_hello(&mut stream, offer).await else { panic!("accepted") };
    assert!(!offer.rack_tlp && !node.host().opened(Cid(offer.cid)).connection.tuning.rack_tlp);
    let own = Offer { rack_tlp: true, ..offer_by_hand() };
    for (theirs, both) in [(false, false), (true, true)] {
        let peer = Offer { rack_tlp: theirs, ..offer_by_hand() };
        let agreement = agree(&own, &peer, RIGHT.parse().unwrap(), tiercel::Tuning::DEFAULT).unwrap();
        assert_eq!(agreement.connection.tuning.rack_tlp, both);
    }
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
        eventually("the acceptor knows", || right.sessions().len() == 1).await;
        let peer_cid = Cid(right.sessions()[0].local_cid);
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
