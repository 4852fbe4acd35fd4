//! Peers that send too much: of garbage, of file steps.

use super::*;

/// Sends bytes to the node from an address, and waits until the node hangs up.
async fn garbage_from(source: &str, node: &Manager) {
    let mut stream = connect_from(source, node).await;
    // The node may hang up before all is written.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
    hung_up(&mut stream).await;
}

/// Whoever sends garbage fills neither the log nor the list of events. Everything is counted.
#[tokio::test]
async fn garbage_pushes_no_event_of_others_out() {
    const ROUNDS: u64 = 400;
    let (node, _n) = start_with(FakeNode::new(RIGHT, 1500), UNHURRIED).await;
    let _peer = handshake_by_hand(&node).await;
    let first = node.events()[0].clone();
    assert!(first.text.starts_with("connection "), "{first:?}");
    for _ in 0..ROUNDS {
        garbage_from("127.0.1.1", &node).await;
    }
    eventually("all are counted", || node.statistics().oversize == ROUNDS).await;
    let events = node.events();
    assert_eq!(events[0], first, "the connection is still there");
    let of_stranger = events.iter().filter(|event| event.text.contains("127.0.1.1")).count() as u64;
    assert!((1..ROUNDS / 4).contains(&of_stranger), "{of_stranger}");
    // The rest is told by its number, even if nothing else happens.
    eventually("it is told", || {
        node.events().iter().any(|event| event.text.contains("more suppressed"))
            || node.events().iter().any(|event| event.text.contains("more events suppressed"))
    })
    .await;
    // Another stranger is still seen.
    garbage_from("127.0.1.2", &node).await;
    eventually("the other is seen", || node.events().iter().any(|event| event.text.contains("127.0.1.2")))
        .await;
}

/// A peer that sends more steps than the node takes waits. No session ends, neither its own nor that of another peer.
#[tokio::test]
async fn steps_that_the_node_does_not_take_hold_up_their_sender_only() {
    const STEPS: u64 = 3000;
    let (node, mut notices) = start_with(FakeNode::new(RIGHT, 1500), UNHURRIED).await;
    let (mut greedy, greedy_cid) = handshake_by_hand(&node).await;
    let (mut quiet, quiet_cid) = handshake_by_hand(&node).await;
    let step = |index| FileMessage::Stored { transfer: 1, index };
    for index in 0..STEPS {
        write_message(&mut greedy, &Message::File { step: step(index) }, PATIENCE).await.unwrap();
    }
    write_message(&mut quiet, &Message::File { step: step(7) }, PATIENCE).await.unwrap();
    let region = RegionAdvertisement { name: None, rkey: 1, length: 8, access: 0 };
    write_message(&mut quiet, &Message::Regions { regions: vec![region] }, PATIENCE).await.unwrap();
    // The step of the quiet peer was taken in, though nobody has taken any yet.
    eventually("the quiet peer is heard", || {
        node.sessions()
            .iter()
            .any(|session| session.local_cid == quiet_cid.0 && session.peer_regions.len() == 1)
    })
    .await;
    let (mut of_greedy, mut of_quiet) = (0, 0);
    while of_greedy < STEPS || of_quiet < 1 {
        match within("all steps arrive", notices.recv()).await {
            Some(Notice::File(cid, step)) if cid == greedy_cid => {
                assert_eq!(step, FileMessage::Stored { transfer: 1, index: of_greedy });
                of_greedy += 1;
            }
            Some(Notice::File(cid, _)) if cid == quiet_cid => {
                assert!(of_greedy <= 1000, "it need not wait for the other, who had {of_greedy}");
                of_quiet += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(node.sessions().len(), 2);
}
