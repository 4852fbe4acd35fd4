//! Transfers that do not come to their end: because an end gives up, because steps are wrong, or because a limit is
//! reached.

use super::*;

fn good_offer() -> FileMessage {
    FileMessage::Offer {
        transfer: 1,
        name: "to".into(),
        via: Via::Write,
        length: 5000,
        chunk: 1000,
        slots: 128,
        rkey: 0,
        overwrite: false,
        mode: FileMessage::DEFAULT_MODE,
        sparse: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_gives_up_ends_operations_that_never_complete() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), content(10_000)).unwrap();
    scene.world.stuck.store(true, Ordering::Relaxed);
    let user = scene.user().await;
    let mut steps = scene.left_transfers.enter(CID, 1).unwrap();
    for step in [
        FileMessage::Ready { transfer: 1, rkey: 1 },
        FileMessage::Abort { transfer: 1, text: "no room".into(), posted: None },
    ] {
        assert_eq!(scene.left_transfers.deliver(CID, step), None);
    }
    let started = tokio::time::Instant::now();
    let what = scene.source("to", Via::Send, false);
    let failure = source(&scene.left(&user), &mut steps, what).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5), "it does not wait for its own patience");
    assert!(failure.text.starts_with("the peer aborted: no room"), "{}", failure.text);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_transfer() {
    for via in WAYS {
        let scene = Scene::new();
        std::fs::write(scene.path("from"), content(100_000)).unwrap();
        let (mut leaving, user) = (scene.user().await, scene.user().await);
        leaving.wanted.close();
        let mut left_steps = scene.left_transfers.enter(CID, 1).unwrap();
        let mut right_steps = scene.right_transfers.enter(CID, 1).unwrap();
        let (left, right) = (scene.left(&leaving), scene.right(&user));
        let right = async {
            let offer = right_steps.next().await.map_err(|trouble| trouble.for_client("to"))?;
            let what = accept(offer, Target::Local(scene.place("to")));
            sink(&right, &mut right_steps, what).await
        };
        let what = scene.source("to", via, false);
        let (left, right) = tokio::join!(source(&left, &mut left_steps, what), right);
        assert_eq!(left.unwrap_err().text, "cancelled");
        assert_eq!(right.unwrap_err().text, "the peer aborted: cancelled");
        assert_eq!(scene.names(), ["from"]);
    }
}

/// The client leaves when the peer has posted its receives and has not said yet that it is ready. They are used up all the same.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_the_peer_is_ready_leaves_no_receives() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), content(100_000)).unwrap();
    let (mut leaving, buffer) = (scene.user().await, scene.right.register(3000, false, false).unwrap());
    let mut steps = scene.left_transfers.enter(CID, 1).unwrap();
    let mut of_peer = scene.right_transfers.enter(CID, 1).unwrap();
    let progress = leaving.progress.clone();
    let means =
        Means { verbs: &scene.left, files: &scene.left_files, lane: &leaving.lane, progress: &progress };
    let peer = async {
        assert!(matches!(of_peer.next().await.unwrap(), FileMessage::Offer { .. }));
        let span = Span { offset: 0, length: 3000 };
        (0..5).for_each(|id| scene.right.post_receive(&buffer, span, id).unwrap());
        leaving.wanted.close();
        assert!(of_peer.next().await.is_err(), "the other end aborts");
        scene.right.tell(FileMessage::Abort { transfer: 1, text: "aborted".into(), posted: Some(5) }).await;
    };
    let (outcome, ()) = tokio::join!(source(&means, &mut steps, scene.source("to", Via::Send, false)), peer);
    assert_eq!(outcome.unwrap_err().text, "cancelled");
    assert!(scene.right.own.posted.lock().unwrap().is_empty(), "receives are left");
}

/// A copy by SEND that its client interrupts in the middle leaves nothing that a later copy would meet.
#[tokio::test]
async fn a_copy_that_is_interrupted_leaves_the_connection_usable() {
    for via in WAYS {
        let scene = Scene::new();
        std::fs::write(scene.path("from"), content(3_000_000)).unwrap();
        for round in 0..3 {
            let (mut leaving, user) = (scene.user().await, scene.user().await);
            let number = 100 + round;
            let mut left_steps = scene.left_transfers.enter(CID, number).unwrap();
            let mut right_steps = scene.right_transfers.enter(CID, number).unwrap();
            let sender = leaving.progress.clone();
            let left = Means {
                verbs: &scene.left,
                files: &scene.left_files,
                lane: &leaving.lane,
                progress: &sender,
            };
            let right_means = scene.right(&user);
            let right = async {
                let offer = right_steps.next().await.map_err(|trouble| trouble.for_client("to"))?;
                let what = accept(offer, Target::Local(scene.place("to")));
                sink(&right_means, &mut right_steps, what).await
            };
            let interrupt = async {
                // Some of the chunks are stored.
                let _ = leaving.wanted.recv().await;
                leaving.wanted.close();
            };
            let what = scene.source("to", via, false);
            let (left, right, ()) = tokio::join!(source(&left, &mut left_steps, what), right, interrupt);
            assert_eq!(left.unwrap_err().text, "cancelled");
            assert!(right.is_err());
            assert!(scene.right.own.posted.lock().unwrap().is_empty(), "{via:?}: receives are left");
            assert!(!scene.right.own.parked.load(Ordering::Relaxed));
            assert_eq!(scene.names(), ["from"]);
        }
        let (left, right) = scene.copy(via, false).await;
        assert!(left.is_ok() && right.is_ok(), "{via:?}: {left:?} {right:?}");
        assert!(std::fs::read(scene.path("to")).unwrap() == content(3_000_000));
    }
}

/// Two ends begin a transfer in the same direction. The second waits for the receives, and is not given up meanwhile.
#[tokio::test(start_paused = true)]
async fn a_transfer_waits_for_the_receives_that_another_has() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), content(10_000)).unwrap();
    let held = scene.right.take_receives().await.unwrap();
    let free = async {
        tokio::time::sleep(3 * PATIENCE).await;
        drop(held);
    };
    let ((left, right), ()) = tokio::join!(scene.copy(Via::Send, false), free);
    assert!(left.is_ok() && right.is_ok(), "{left:?} {right:?}");
}

#[tokio::test]
async fn a_file_is_fetched_from_a_peer_that_has_it() {
    let mut scene = Scene::new();
    std::fs::write(scene.path("kept"), content(50_000)).unwrap();
    let (mut strays, receiver) = (mpsc::unbounded_channel().1, &mut scene.right_strays);
    std::mem::swap(&mut strays, receiver);
    let (user, other) = (scene.user().await, scene.user().await);
    let mut left_steps = scene.left_transfers.enter(CID, 7).unwrap();
    let wanted = ("kept".to_owned(), Via::Read);
    let (left, right) = (scene.left(&user), scene.right(&other));
    let fetching = fetch(&left, &mut left_steps, wanted, scene.place("local"), false);
    let serving = async {
        let Some(FileMessage::Fetch { transfer, name, via }) = strays.recv().await else { panic!() };
        let mut steps = scene.right_transfers.enter(CID, transfer).unwrap();
        let options = ReceiveOptions::new(scene.directory.path().to_owned());
        let inbox = Arc::new(Inbox::new(options, Arc::new(HostFiles)));
        let origin = Origin::Inbox(inbox, name.clone().into());
        let what = Source { origin, shown: scene.path(&name), name, via, overwrite: false };
        source(&right, &mut steps, what).await
    };
    let (fetched, served) = tokio::join!(fetching, serving);
    assert_eq!(fetched.unwrap().sha256, served.unwrap().sha256);
    assert_eq!(std::fs::read(scene.path("local")).unwrap(), content(50_000));
}

#[tokio::test]
async fn absurd_offers_are_declined() {
    let scene = Scene::new();
    let user = scene.user().await;
    let good = Sink::of(good_offer(), Target::Local(scene.place("to")), false).unwrap();
    let absurd: [fn(&mut Sink); 5] = [
        |what| what.chunk = 0,
        |what| (what.via, what.chunk) = (Via::Send, 3001),
        |what| what.slots = 0,
        |what| what.slots = 129,
        |what| (what.chunk, what.slots) = (1 << 20, 128),
    ];
    for change in absurd {
        let mut what = good.clone();
        change(&mut what);
        let mut steps = scene.right_transfers.enter(CID, 1).unwrap();
        let failure = sink(&scene.right(&user), &mut steps, what).await.unwrap_err();
        assert_eq!(failure.text, "the chunks of the offer exceed the limits");
    }
    assert!(scene.names().is_empty());
    let holes = |length, extents| {
        let FileMessage::Offer { transfer, name, via, chunk, slots, rkey, overwrite, mode, .. } =
            good_offer()
        else {
            panic!()
        };
        let sparse = Some(Sparse { length: 10_000, extents });
        let offer =
            FileMessage::Offer { transfer, name, via, length, chunk, slots, rkey, overwrite, mode, sparse };
        Sink::of(offer, Target::Local(scene.place("to")), false)
    };
    assert!(holes(5000, vec![(0, 1000), (4000, 4000)]).is_some());
    assert!(holes(5000, vec![(0, 1000)]).is_none(), "less crosses than it says");
    assert!(holes(5000, vec![(6000, 5000)]).is_none(), "behind the end of the file");
}

#[tokio::test]
async fn steps_out_of_order_end_the_transfer() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), content(100)).unwrap();
    let user = scene.user().await;
    for (step, ready) in [
        (FileMessage::Chunk { transfer: 1, index: 0 }, false),
        (FileMessage::Stored { transfer: 1, index: 0 }, false),
        (FileMessage::Stored { transfer: 1, index: 1 }, true),
    ] {
        let mut steps = scene.left_transfers.enter(CID, 1).unwrap();
        if ready {
            assert_eq!(scene.left_transfers.deliver(CID, FileMessage::Ready { transfer: 1, rkey: 0 }), None);
        }
        assert_eq!(scene.left_transfers.deliver(CID, step), None);
        let what = scene.source("to", Via::Read, false);
        let failure = source(&scene.left(&user), &mut steps, what).await.unwrap_err();
        assert!(failure.text.contains("sent a wrong step"), "{}", failure.text);
    }
}

/// A peer reports the same chunk again and again. Each would be read into the same place.
#[tokio::test]
async fn a_chunk_is_taken_once() {
    let scene = Scene::new();
    let user = scene.user().await;
    scene.world.stuck.store(true, Ordering::Relaxed);
    let mut what = Sink::of(good_offer(), Target::Local(scene.place("to")), false).unwrap();
    what.via = Via::Read;
    let mut steps = scene.right_transfers.enter(CID, 1).unwrap();
    for _ in 0..2 {
        assert_eq!(scene.right_transfers.deliver(CID, FileMessage::Chunk { transfer: 1, index: 0 }), None);
    }
    let failure = sink(&scene.right(&user), &mut steps, what).await.unwrap_err();
    assert!(failure.text.contains("sent a wrong step"), "{}", failure.text);
}

#[tokio::test]
async fn the_end_of_the_connection_ends_its_transfers() {
    let scene = Scene::new();
    let mut steps = scene.left_transfers.enter(CID, 1).unwrap();
    let mut other = scene.left_transfers.enter(Cid(6), 1).unwrap();
    scene.left_transfers.connection_ended(CID);
    let failure = steps.next().await.unwrap_err().for_client("x");
    assert_eq!(failure.kind, FailureKind::Connect);
    assert_eq!(scene.left_transfers.deliver(Cid(6), FileMessage::Ready { transfer: 1, rkey: 0 }), None);
    assert!(other.next().await.is_ok());
}

/// The number of transfers that peers begin is limited per peer and in total. This does not limit the transfers
/// that this node begins.
#[test]
fn no_peer_takes_what_others_need() {
    let transfers = Transfers::default();
    let address = |n: u8| IpAddr::from([10, 7, 0, n]);
    let first: Vec<_> =
        (0..SERVED_EACH as u64).map(|n| transfers.serve(CID, n, address(1)).unwrap()).collect();
    // The limit counts all connections of the same peer together.
    let refused = transfers.serve(Cid(6), 100, address(1)).unwrap_err();
    assert!(refused.text.contains("2 of them for 10.7.0.1"), "{}", refused.text);
    let others: Vec<_> = (SERVED_EACH..SERVED)
        .map(|n| transfers.serve(CID, 200 + n as u64, address(n as u8)).unwrap())
        .collect();
    assert!(transfers.serve(CID, 300, address(99)).is_err());
    assert!(transfers.enter(CID, 300).is_ok());
    drop(first);
    assert!(transfers.serve(CID, 301, address(99)).is_ok());
    drop(others);
}

/// An offer without further steps frees its memory soon, and uses no more memory than its file needs.
#[tokio::test(start_paused = true)]
async fn an_idle_offer_is_given_up() {
    let scene = Scene::new();
    let user = scene.user().await;
    let what = Sink::of(good_offer(), Target::Local(scene.place("to")), false).unwrap();
    let mut steps = scene.right_transfers.serve(CID, 1, IpAddr::from([10, 7, 0, 1])).unwrap();
    let started = tokio::time::Instant::now();
    let failure = sink(&scene.right(&user), &mut steps, what).await.unwrap_err();
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    assert!(failure.text.contains("sent nothing for 10 s"), "{}", failure.text);
    let taken: usize = scene.world.regions.lock().unwrap().values().map(|r| r.lock().unwrap().len()).sum();
    assert_eq!(taken, 5000);
    assert!(scene.names().is_empty());
}

#[test]
fn names_from_the_network_are_plain() {
    for good in ["a", "file.bin", "with space", "\u{fc}ber", "a/b", "tree/.git/config"] {
        assert!(check_name(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        ".",
        "..",
        "../x",
        "a/../x",
        "a//b",
        "a/",
        "/etc/passwd",
        "a\\b",
        ".hidden",
        "a/.b.0123456789abcdef.part",
        "nul\0",
        "new\nline",
        &"x".repeat(201),
        &"x/".repeat(40),
    ] {
        assert!(check_name(bad).is_err(), "{bad:?}");
    }
}
