//! A server that awaits connections, in time, too late, or not at all.

use std::pin::pin;

use futures_util::FutureExt;

use super::*;

/// Opens connections from the peer, one after the other. Returns the CIDs of the node.
async fn open(peer: &Manager, node: &Manager, number: usize) -> Vec<Cid> {
    let to = node.address();
    let mut opened = Vec::new();
    for _ in 0..number {
        let cid = peer.connect(to.ip(), to.port(), Terms::default()).await.unwrap();
        let peer_cid = peer.host().opened(cid).connection.peer_cid;
        eventually("the node has the session", || node.peer(peer_cid).is_some()).await;
        opened.push(peer_cid);
    }
    opened
}

/// They come in the order in which they were opened, and only at the end that was connected to.
#[tokio::test]
async fn connections_are_accepted_in_their_order() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    let mut first = pin!(right.accept());
    assert!(first.as_mut().now_or_never().is_none(), "nobody has connected");
    let opened = open(&left, &right, 3).await;
    let session = within("the first", first).await.unwrap();
    assert_eq!((Cid(session.local_cid), session.connected_here), (opened[0], false));
    assert_eq!(session.peer.ip(), LEFT.parse::<IpAddr>().unwrap());
    assert_eq!([accepted(&right).await, accepted(&right).await], opened[1..]);
    assert!(right.accept().now_or_never().is_none() && left.accept().now_or_never().is_none());
}

/// A call that is given up takes no connection with it, not even one that has been told of it.
#[tokio::test]
async fn a_call_that_is_given_up_loses_nothing() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    {
        let mut given_up = Box::pin(right.accept());
        let mut waits = pin!(right.accept());
        assert!(given_up.as_mut().now_or_never().is_none() && waits.as_mut().now_or_never().is_none());
        let opened = open(&left, &right, 1).await;
        drop(given_up);
        assert_eq!(Cid(within("the other call", waits).await.unwrap().local_cid), opened[0]);
    }
    let opened = {
        let mut given_up = pin!(right.accept());
        assert!(given_up.as_mut().now_or_never().is_none());
        open(&left, &right, 1).await
    };
    assert_eq!(accepted(&right).await, opened[0]);
}

/// Where nobody accepts, connections work. A caller that accepts later learns how many it has missed.
#[tokio::test]
async fn what_does_not_fit_the_queue_is_counted() {
    const QUEUE: usize = 64;
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, _r) = start(FakeNode::new(RIGHT, 1500)).await;
    let opened = open(&left, &right, QUEUE + 2).await;
    assert_eq!(right.sessions().len(), QUEUE + 2);
    assert_eq!(right.accept().await, Err(AcceptError::Missed(2)));
    for cid in &opened[2..] {
        assert_eq!(accepted(&right).await, *cid);
    }
    assert!(right.accept().now_or_never().is_none());
}

/// What has ended neither waits nor takes a place.
#[tokio::test]
async fn a_connection_that_has_ended_is_not_accepted() {
    let (left, _l) = start(FakeNode::new(LEFT, 1500)).await;
    let (right, mut notices) = start(FakeNode::new(RIGHT, 1500)).await;
    for cid in open(&left, &right, 70).await.into_iter().take(69) {
        assert!(right.close(cid).await);
        assert_eq!(within("it ends", notices.recv()).await, Some(Notice::Ended(cid)));
    }
    let last = Cid(right.sessions()[0].local_cid);
    // 70 were more than the queue holds, all alive then.
    assert_eq!(right.accept().await, Err(AcceptError::Missed(6)));
    assert_eq!(accepted(&right).await, last);
    let opened = open(&left, &right, 1).await;
    right.close(opened[0]).await;
    eventually("its session is gone", || right.sessions().len() == 1).await;
    right.shut_down().await;
    assert_eq!(within("the end", right.accept()).await, Err(AcceptError::Closed));
    assert_eq!(right.accept().await, Err(AcceptError::Closed));
}
