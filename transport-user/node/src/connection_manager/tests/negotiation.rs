//! Peers of earlier and later releases, at either end of a handshake.

use serde_json::{Value, json};
use tiercel::PLAINTEXT_VERSION;

use super::*;

/// A message of this release as JSON, which a test changes to that of another.
fn json_of(message: &Message) -> Value {
    serde_json::to_value(message).unwrap()
}

async fn send(stream: &mut TcpStream, message: &Value) {
    stream.write_all(&frame(&serde_json::to_vec(message).unwrap())).await.unwrap();
}

/// Adds what a later release may say and this one does not know, wherever that may be.
fn add_news(message: &mut Value) {
    message["news"] = json!({ "of": "a later release" });
    message["offer"]["news"] = json!(1);
    let introduction = &mut message["introduction"];
    introduction["news"] = json!([]);
    introduction["versions"] = json!({ "lowest": 1, "highest": 9, "news": true });
    introduction["capabilities"]["teleport"] = json!({ "speed": 9 });
    introduction["capabilities"]["rdma"] = json!({ "choices": [7, 1], "news": "x" });
    introduction["capabilities"]["tunnel"]["depth"] = json!(2);
}

/// Sends a changed hello to a node. Returns the answer.
async fn hello_with(node: &Manager, change: impl FnOnce(&mut Value)) -> Message {
    let mut message = json_of(&hello(Introduction::default(), offer_by_hand()));
    change(&mut message);
    let mut stream = TcpStream::connect(node.address()).await.unwrap();
    send(&mut stream, &message).await;
    read_message(&mut stream, PATIENCE).await.unwrap()
}

/// Answers a node that connects with a changed accept or another message, as a peer that is served by hand.
async fn answered_with(
    terms: Terms,
    answer: Message,
    change: impl FnOnce(&mut Value),
) -> Result<Cid, ConnectError> {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let listener = TcpListener::bind((RIGHT, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut message = json_of(&answer);
    change(&mut message);
    let peer = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_message(&mut stream, PATIENCE).await.unwrap();
        send(&mut stream, &message).await;
        stream
    };
    let (outcome, _stream) = tokio::join!(left.connect(RIGHT.parse().unwrap(), port, terms), peer);
    assert_eq!(left.host().in_use(), usize::from(outcome.is_ok()));
    outcome
}

fn offer_of_an_acceptor() -> Offer {
    Offer { ordered: true, mtu: 1500, max_segment: 1400, ..offer_by_hand() }
}

/// What this release does not know and nobody requires is ignored, at either end.
#[tokio::test]
async fn news_of_a_later_release_are_ignored() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let answer = hello_with(&node, add_news).await;
    assert!(matches!(answer, Message::Accept { .. }), "{answer:?}");
    let answer = accept(Capabilities::default(), offer_of_an_acceptor());
    answered_with(Terms::default(), answer, add_news).await.unwrap();
}

/// What an earlier release lacks is not used: no capability but those that it cannot do without.
#[tokio::test]
async fn an_earlier_release_without_the_extensions_is_connected_to() {
    let few = |message: &mut Value| {
        message["introduction"]["capabilities"] =
            json!({ "rdma": { "choices": [1] }, "psp": { "choices": [PLAINTEXT_VERSION] } });
        message["introduction"].as_object_mut().unwrap().remove("required");
    };
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let answer = hello_with(&node, few).await;
    assert!(matches!(answer, Message::Accept { .. }), "{answer:?}");
    let answer = accept(Capabilities::default(), offer_of_an_acceptor());
    answered_with(Terms::default(), answer, few).await.unwrap();
}

/// The text says which end to update. The offer of such a peer may have any form.
#[tokio::test]
async fn without_a_common_version_the_older_end_is_named() {
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let cases = [
        (
            2,
            3,
            "it speaks version 1 of the protocol, and this node versions 2 to 3: install a newer release there",
        ),
        (
            0,
            0,
            "it speaks version 1 of the protocol, and this node version 0: install a newer release on this node",
        ),
    ];
    for (lowest, highest, expected) in cases {
        let change = |message: &mut Value| {
            message["introduction"] =
                json!({ "versions": { "lowest": lowest, "highest": highest }, "form": 7 });
            message["offer"] = json!("of another form");
        };
        let Message::Reject { reason, text } = hello_with(&node, change).await else { panic!("rejected") };
        assert_eq!((reason, text.as_str()), (Rejection::Version, expected));
        let answer = accept(Capabilities::default(), offer_of_an_acceptor());
        let error = answered_with(Terms::default(), answer, change).await.unwrap_err();
        assert!(matches!(error, ConnectError::Release { source: WireError::Version(_), .. }), "{error}");
        let older = if lowest > 1 { "on this node" } else { "on the peer's node" };
        assert!(error.to_string().ends_with(older), "{error}");
    }
    eventually("both are counted", || node.statistics().wrong_version == 2).await;
    assert_eq!(node.host().in_use(), 0);
}

/// A required capability that this release does not know is named, though the offer cannot be read.
#[tokio::test]
async fn a_required_capability_that_is_unknown_is_named() {
    let change = |message: &mut Value| {
        message["introduction"]["required"] = json!(["psp", "nvme"]);
        message["offer"]["ulp"] = json!("nvme");
    };
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let Message::Reject { reason, text } = hello_with(&node, change).await else { panic!("rejected") };
    assert_eq!(reason, Rejection::Capability);
    assert!(text.starts_with("it does not know the capability \"nvme\""), "{text}");
    eventually("it is counted", || node.statistics().declined == 1).await;
    let event = |event: &Event| event.text.contains("the peer requires the capability \"nvme\"");
    assert!(node.events().iter().any(event), "{:?}", node.events());

    let answer = accept(Capabilities::default(), offer_of_an_acceptor());
    let error = answered_with(Terms::default(), answer, change).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Release { source: WireError::Capability(_), .. }), "{error}");
    assert!(error.to_string().contains("\"nvme\""), "{error}");
}

/// A capability that this end requires, and the other end has not or in other variants only.
#[tokio::test]
async fn a_required_capability_that_is_missing_is_named() {
    type Change = fn(&mut Value);
    let (node, _n) = start(FakeNode::new(RIGHT, 1500)).await;
    let other_psp =
        |message: &mut Value| message["introduction"]["capabilities"]["psp"] = json!({ "choices": [0, 1] });
    let unproven = |message: &mut Value| message["introduction"]["required"] = json!(["path_proof"]);
    let changes: [(&str, Change); 2] = [("psp", other_psp), ("path_proof", unproven)];
    for (name, change) in changes {
        let Message::Reject { reason, text } = hello_with(&node, change).await else { panic!("rejected") };
        assert_eq!(reason, Rejection::Capability);
        assert!(text.contains(&format!("\"{name}\"")), "{text}");
    }
    eventually("nothing is left", || node.host().in_use() == 0).await;

    let terms = Terms { ulp: Ulp::Block, ..Terms::default() };
    let offer = Offer { ulp: Ulp::Block, ..offer_of_an_acceptor() };
    let without_block = |message: &mut Value| {
        message["introduction"]["capabilities"].as_object_mut().unwrap().remove("block");
    };
    let error =
        answered_with(terms, accept(Capabilities::default(), offer), without_block).await.unwrap_err();
    let ConnectError::Capability { missing, .. } = &error else { panic!("{error}") };
    assert_eq!((missing.name.as_str(), missing.lacks), ("block", Some(Side::Accepting)));
    assert!(error.to_string().ends_with("install a newer release there, or choose another ULP"), "{error}");
}

/// Reasons that a later release has are reasons all the same.
#[tokio::test]
async fn unknown_reasons_are_understood_by_their_texts() {
    let reject = Message::Reject { reason: Rejection::Busy, text: "it is tired".to_owned() };
    let change = |message: &mut Value| message["reason"] = json!("tired");
    let error = answered_with(Terms::default(), reject, change).await.unwrap_err();
    assert!(matches!(error, ConnectError::Rejected { reason: Rejection::Other, .. }), "{error}");
    assert!(error.to_string().ends_with("declined: it is tired"), "{error}");

    let (node, mut notices) = start(FakeNode::new(RIGHT, 1500)).await;
    let (mut stream, cid) = handshake_by_hand(&node).await;
    send(&mut stream, &json!({ "type": "close", "reason": "moved", "text": "it has moved", "to": "x" }))
        .await;
    assert_eq!(within("it ends", notices.recv()).await, Some(Notice::Ended(cid)));
    assert_eq!((node.statistics().closed_by_peer, node.statistics().garbage), (1, 0));
    let told = |event: &Event| event.text.ends_with("closed by the peer: it has moved");
    assert!(node.events().iter().any(told), "{:?}", node.events());
}
