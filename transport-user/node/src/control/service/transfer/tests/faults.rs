//! Transfers on file systems that fail, fill up and stall, at each call in turn.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::super::super::disk::Pulse;
use super::*;
use crate::files::faulty::{Fault, Faulty};

const LENGTH: usize = 200_000;

/// Which end has the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Source,
    Sink,
}

fn scene(end: End, faulty: &Arc<Faulty>) -> Scene {
    let (faulty, good): (Arc<dyn FileSystem>, Arc<dyn FileSystem>) =
        (Arc::clone(faulty) as _, Arc::new(HostFiles));
    let scene = match end {
        End::Source => Scene::with(faulty, good),
        End::Sink => Scene::with(good, faulty),
    };
    std::fs::write(scene.path("from"), content(LENGTH)).unwrap();
    scene
}

fn inbox(scene: &Scene) -> Target {
    let options =
        ReceiveOptions { max_total: Some(1 << 30), ..ReceiveOptions::new(scene.directory.path().to_owned()) };
    Target::Inbox(Arc::new(Inbox::new(options, Arc::clone(&scene.right_files))), "to".into())
}

/// Checks that the next copy of each kind finds the connection as new.
async fn goes_on(scene: &Scene, context: &str) {
    for via in WAYS {
        let (left, right) = scene.copy(via, true).await;
        assert!(left.is_ok() && right.is_ok(), "{context}: then by {via:?}: {left:?} {right:?}");
        assert!(std::fs::read(scene.path("to")).unwrap() == content(LENGTH));
        std::fs::remove_file(scene.path("to")).unwrap();
    }
    assert_eq!(scene.names(), ["from"], "{context}");
}

/// Every call fails once, at each end and in each way. The copy arrives all the same, or both ends say why not, nothing
/// is left behind, and the next copy goes.
#[tokio::test]
async fn whichever_call_fails_the_connection_stays_usable() {
    for (end, via, code) in [
        (End::Sink, Via::Send, libc::ENOSPC),
        (End::Sink, Via::Write, libc::EIO),
        (End::Sink, Via::Read, libc::EMFILE),
        (End::Source, Via::Send, libc::EIO),
        (End::Source, Via::Write, libc::ESTALE),
        (End::Source, Via::Read, libc::EIO),
    ] {
        let mut calls = 0;
        loop {
            let faulty = Faulty::after(calls, Fault::Fails(code));
            let scene = scene(end, &faulty);
            let (left, right) = scene.copy_to(inbox(&scene), via, false).await;
            let Some(hit) = faulty.hit() else {
                assert!(left.is_ok() && right.is_ok(), "no call failed");
                break;
            };
            let context = format!("{end:?} by {via:?}, {hit} (call {calls})");
            if let (Err(left), Err(right)) = (&left, &right) {
                let (here, there) = if end == End::Sink { (right, left) } else { (left, right) };
                let expected = super::super::trouble::reason(&io::Error::from_raw_os_error(code));
                assert!(here.text.contains(&expected), "{context}: {here}");
                assert!(here.text.contains(scene.directory.path().to_str().unwrap()), "{context}: {here}");
                assert!(there.text.contains(&expected), "{context}: {there}");
                assert!(there.text.starts_with("the peer aborted: cannot "), "{context}: {there}");
                let path = scene.directory.path().to_str().unwrap();
                assert!(!there.text.contains(path), "{context}: it names a path of the peer: {there}");
                // A file system that fails to remove the `.part` file keeps it. The next copy removes it.
                assert_eq!(scene.names(), ["from"], "{context}");
            } else {
                assert!(left.is_ok() && right.is_ok(), "{context}: {left:?} {right:?}");
                std::fs::remove_file(scene.path("to")).unwrap();
            }
            goes_on(&scene, &context).await;
            calls += 1;
        }
        assert!(calls >= if end == End::Sink { 8 } else { 3 }, "{end:?} by {via:?}: only {calls} calls");
    }
}

/// Every call stalls once. Both ends say which file system it is, while it stalls, and nothing is left behind when it
/// answers again.
#[tokio::test]
async fn whichever_call_stalls_both_ends_say_so() {
    for (end, via) in
        [(End::Sink, Via::Send), (End::Sink, Via::Write), (End::Source, Via::Send), (End::Source, Via::Read)]
    {
        let mut calls = 0;
        loop {
            let faulty = Faulty::after(calls, Fault::Stalls);
            let mut scene = scene(end, &faulty);
            scene.lanes = Lanes::with_patience(Duration::from_millis(30));
            let (left, right) = scene.copy_to(inbox(&scene), via, false).await;
            let Some(hit) = faulty.hit() else { break };
            let context = format!("{end:?} by {via:?}, {hit} (call {calls})");
            let (here, there) = if end == End::Sink { (right, left) } else { (left, right) };
            let (here, there) = (here.expect_err(&context).text, there.expect_err(&context).text);
            assert!(here.contains("the file system has not answered"), "{context}: {here}");
            assert!(
                there.contains("the peer aborted") && there.contains("has not answered"),
                "{context}: {there}"
            );
            scene.lanes = Lanes::default();
            faulty.answer();
            // The job that was left alone removes what it made.
            let since = std::time::Instant::now();
            while scene.names() != ["from"] {
                // The stalled call may have been the one that gives the file its name: then the file is whole.
                if let Ok(bytes) = std::fs::read(scene.path("to"))
                    && scene.names() == ["from", "to"]
                {
                    assert!(bytes == content(LENGTH), "{context}");
                    std::fs::remove_file(scene.path("to")).unwrap();
                }
                assert!(since.elapsed() < Duration::from_secs(20), "{context}: {:?} stay", scene.names());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            goes_on(&scene, &context).await;
            calls += 1;
        }
        assert!(calls >= if end == End::Sink { 8 } else { 3 }, "{end:?} by {via:?}: only {calls} calls");
    }
}

/// While one file system stalls, transfers on others go on: the workers are free, and so are lanes. There is one worker,
/// so a call on it would stop everything.
#[tokio::test]
async fn a_stalled_file_system_holds_up_nobody_else() {
    let stalls = Faulty::after(5, Fault::Stalls);
    let stalled = scene(End::Sink, &stalls);
    let others = async {
        while stalls.hit().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let good = Scene::new();
        std::fs::write(good.path("from"), content(LENGTH)).unwrap();
        goes_on(&good, "while another file system stalls").await;
        stalls.answer();
    };
    let ((left, right), ()) = tokio::join!(stalled.copy(Via::Write, false), others);
    assert!(
        left.is_ok() && right.is_ok(),
        "a file system that answers again loses nothing: {left:?} {right:?}"
    );
}

/// A peer that gives up is heard while this end hashes, which takes minutes for a large hole: the node counts the transfer no
/// longer.
#[tokio::test]
async fn a_source_that_hashes_hears_that_the_peer_gives_up() {
    let scene = Scene::new();
    File::create(scene.path("from")).unwrap().set_len(1 << 43).unwrap();
    let user = scene.user().await;
    let (mut left_steps, mut right_steps) =
        (scene.left_transfers.enter(CID, 1).unwrap(), scene.right_transfers.enter(CID, 1).unwrap());
    let peer = async {
        let offer = right_steps.next().await.unwrap();
        assert!(matches!(offer, FileMessage::Offer { length: 0, .. }), "{offer:?}");
        scene.right.deliver(FileMessage::Ready { transfer: 1, rkey: 0 });
        // The source has taken the step when its queue is empty; then it hashes.
        while lock(&scene.left_transfers.0)[&(CID, 1)].steps.capacity() < STEPS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        scene.right.deliver(FileMessage::Abort { transfer: 1, text: "enough".into(), posted: None });
    };
    let left = scene.left(&user);
    let both =
        async { tokio::join!(source(&left, &mut left_steps, scene.source("to", Via::Write, false)), peer).0 };
    let outcome = tokio::time::timeout(Duration::from_secs(20), both).await.expect("it hears the peer");
    assert!(outcome.unwrap_err().text.contains("enough"));
}

/// exFAT and others have no hard links, and NFS cannot rename without replacing.
#[tokio::test]
async fn file_systems_without_links_take_files() {
    for without in [&["link"][..], &["rename_new"], &["rename_new", "link"], &["set_mode"]] {
        let faulty = Faulty::without(without);
        let scene = scene(End::Sink, &faulty);
        let (left, right) = scene.copy(Via::Write, false).await;
        assert!(left.is_ok() && right.is_ok(), "{without:?}: {left:?} {right:?}");
        assert!(std::fs::read(scene.path("to")).unwrap() == content(LENGTH));
        assert_eq!(scene.names(), ["from", "to"]);
        let (left, right) = scene.copy(Via::Write, false).await;
        assert!(left.is_err() && right.unwrap_err().text.contains("already exists"), "{without:?}");
        assert_eq!(scene.names(), ["from", "to"]);
    }
}

#[tokio::test]
async fn files_that_do_not_tell_their_length_arrive_whole() {
    let scene = Scene::new();
    let origin = |path: &str| Origin::Opened(File::open(path).unwrap());
    for path in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let Ok(expected) = std::fs::read(path) else { continue };
        assert_ne!(std::fs::metadata(path).unwrap().len(), expected.len() as u64, "{path} is of that kind");
        let bytes = fetch_from(&scene, origin(path)).await.unwrap();
        assert_eq!(bytes, expected.len() as u64);
        assert_eq!(std::fs::read(scene.path("to")).unwrap(), expected, "{path}");
        std::fs::remove_file(scene.path("to")).unwrap();
    }
}

/// Copies an open file to "to" and returns its length.
async fn fetch_from(scene: &Scene, origin: Origin) -> Result<u64, Failure> {
    let (left_user, right_user) = (scene.user().await, scene.user().await);
    let number = scene.next.fetch_add(1, Ordering::Relaxed);
    let what =
        Source { origin, shown: "/x/from".into(), name: "to".into(), via: Via::Write, overwrite: false };
    let mut left_steps = scene.left_transfers.enter(CID, number).unwrap();
    let mut right_steps = scene.right_transfers.enter(CID, number).unwrap();
    let (left, right) = (scene.left(&left_user), scene.right(&right_user));
    let right = async {
        let offer = right_steps.next().await.map_err(|trouble| trouble.for_client("to"))?;
        sink(&right, &mut right_steps, accept(offer, Target::Local(scene.place("to")))).await
    };
    let (left, _) = tokio::join!(source(&left, &mut left_steps, what), right);
    left.map(|copied| copied.bytes)
}

#[tokio::test]
async fn what_is_not_a_file_is_named() {
    let scene = Scene::new();
    let (pipe, _writer) = nix::unistd::pipe().unwrap();
    let socket = std::os::unix::net::UnixStream::pair().unwrap().0;
    for (opened, says) in [
        (pipe, "/x/from is a pipe, and the length of a copy must be known"),
        (socket.into(), "/x/from is a socket, not a file"),
        (File::open("/dev/zero").unwrap().into(), "/x/from is a device, not a file"),
    ] {
        let failure = fetch_from(&scene, Origin::Opened(opened.into())).await.unwrap_err();
        assert!(failure.text.starts_with(says), "{failure}");
        assert!(scene.names().is_empty());
    }
}

/// The file loses its end while it is copied.
#[tokio::test]
async fn a_source_that_becomes_shorter_is_named() {
    let scene = Scene::new();
    let path = scene.path("from");
    std::fs::write(&path, content(5_000_000)).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let shrink = file.try_clone().unwrap();
    let (user, other) = (scene.user().await, scene.user().await);
    let mut left_steps = scene.left_transfers.enter(CID, 1).unwrap();
    let mut right_steps = scene.right_transfers.enter(CID, 1).unwrap();
    let (left, right) = (scene.left(&user), scene.right(&other));
    let right = async {
        let offer = right_steps.next().await.map_err(|trouble| trouble.for_client("to"))?;
        shrink.set_len(4_000_000).unwrap();
        sink(&right, &mut right_steps, accept(offer, Target::Local(scene.place("to")))).await
    };
    let what = Source {
        origin: Origin::Opened(file),
        shown: path,
        name: "to".into(),
        via: Via::Write,
        overwrite: false,
    };
    let (left, right) = tokio::join!(source(&left, &mut left_steps, what), right);
    let (left, right) = (left.unwrap_err().text, right.unwrap_err().text);
    assert!(left.contains("became shorter during the copy: it had 5000000 bytes, and 4000000"), "{left}");
    assert!(right.contains("\"to\" became shorter"), "{right}");
    assert_eq!(scene.names(), ["from"]);
}

#[tokio::test]
async fn holes_stay_holes_and_permissions_stay() {
    for via in WAYS {
        let scene = Scene::new();
        let file = File::create(scene.path("from")).unwrap();
        let pieces = [(3 << 20, 100_000), (20 << 20, 5), (40 << 20, 1 << 20)];
        for (at, length) in pieces {
            std::os::unix::fs::FileExt::write_all_at(&file, &content(length), at).unwrap();
        }
        file.set_len(100 << 20).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        let before = std::fs::metadata(scene.path("from")).unwrap();
        assert!(before.blocks() * 512 < 20 << 20, "the test's file system keeps holes");
        let (left, right) = scene.copy(via, false).await;
        let (left, right) = (left.unwrap(), right.unwrap());
        assert_eq!((left.bytes, right.bytes), (100 << 20, 100 << 20));
        let whole = std::fs::read(scene.path("from")).unwrap();
        assert_eq!(left.sha256, hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&whole)));
        assert!(std::fs::read(scene.path("to")).unwrap() == whole);
        let after = std::fs::metadata(scene.path("to")).unwrap();
        assert!(after.blocks() <= before.blocks() + 2 * 128, "{via:?}: {} blocks", after.blocks());
        assert_eq!(after.permissions().mode() & 0o7777, 0o600);
    }
}

/// A file that does not fit is refused before anything is created: no byte of it crosses, and there is no `.part` file.
#[tokio::test]
async fn what_does_not_fit_is_refused_before_anything_is_made() {
    for (length, free) in [(LENGTH, LENGTH as u64 - 1), (0, 4095)] {
        for via in WAYS {
            let full = Faulty::with_free_space(free);
            let scene = scene(End::Sink, &full);
            std::fs::write(scene.path("from"), content(length)).unwrap();
            let (left, right) = scene.copy_to(inbox(&scene), via, false).await;
            let (left, right) = (left.unwrap_err().text, right.unwrap_err().text);
            assert!(right.contains(&format!("and {free} are free")), "{via:?}: {right}");
            assert!(left.contains("free some space, then copy again"), "{via:?}: {left}");
            assert_eq!(scene.names(), ["from"], "{via:?}");
            let called = full.called();
            let looks = ["open_root", "open_directory", "look_up", "names", "free_space"];
            assert!(called.contains("free_space"));
            assert!(called.iter().all(|call| looks.contains(call)), "{via:?}: {called:?}");
        }
    }
}

/// A peer cannot store any number of files without a byte.
#[tokio::test]
async fn empty_files_fill_the_receive_directory() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), "").unwrap();
    // The file that is copied is in the same directory.
    let options = ReceiveOptions {
        max_total: Some(3 * 4096),
        ..ReceiveOptions::new(scene.directory.path().to_owned())
    };
    let inbox = Arc::new(Inbox::new(options, Arc::new(HostFiles)));
    for (name, fits) in [("a", true), ("b", true), ("c", false)] {
        let target = Target::Inbox(Arc::clone(&inbox), name.into());
        let (left, right) = scene.copy_to(target, Via::Write, false).await;
        assert_eq!((left.is_ok(), right.is_ok()), (fits, fits), "{name}: {left:?} {right:?}");
    }
    assert_eq!(scene.names(), ["a", "b", "from"]);
}

#[tokio::test]
async fn peers_replace_files_only_where_the_node_lets_them() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), "new").unwrap();
    std::fs::write(scene.path("to"), "old").unwrap();
    let target = |overwrite| {
        let options = ReceiveOptions { overwrite, ..ReceiveOptions::new(scene.directory.path().to_owned()) };
        Target::Inbox(Arc::new(Inbox::new(options, Arc::new(HostFiles))), "to".into())
    };
    let (left, right) = scene.copy_to(target(false), Via::Write, true).await;
    let text = left.unwrap_err().text;
    assert!(text.contains("does not let its peers replace files") && right.is_err(), "{text}");
    assert_eq!(std::fs::read(scene.path("to")).unwrap(), b"old");
    let (left, right) = scene.copy_to(target(true), Via::Write, true).await;
    assert!(left.is_ok() && right.is_ok());
    assert_eq!(std::fs::read(scene.path("to")).unwrap(), b"new");
    std::fs::remove_file(scene.path("to")).unwrap();
    let (left, right) = scene.copy_to(target(false), Via::Write, true).await;
    assert!(left.is_ok() && right.is_ok(), "nothing is replaced: {left:?}");
}

/// What one transfer writes while the receive directory is measured for another counts, in the directory or as reserved.
#[test]
fn what_is_written_during_a_measurement_counts() {
    const MEBIBYTE: u64 = 1 << 20;
    let directory = tempfile::TempDir::new().unwrap();
    let mut options = ReceiveOptions::new(directory.path().to_owned());
    options.max_total = Some(3 * MEBIBYTE);
    // The seventh call is the question for free space of the second reservation, when it has measured the directory.
    let faulty = Faulty::after(6, Fault::Stalls);
    let inbox = Arc::new(Inbox::new(options, Arc::clone(&faulty) as _));
    let place = inbox.place(Path::new("x")).unwrap();
    let reserve = |bytes| inbox.reserve(place.directory.as_fd(), bytes, bytes, &Pulse::default());
    let mut first = reserve(2 * MEBIBYTE).unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| reserve(2 * MEBIBYTE));
        while faulty.hit().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(faulty.hit(), Some("free_space"));
        std::fs::write(directory.path().join("first"), vec![1; 2 << 20]).unwrap();
        first.used(2 * MEBIBYTE);
        faulty.answer();
        let Err(Trouble::TotalFull(used, ..)) = second.join().unwrap() else { panic!("it was accepted") };
        assert_eq!(used, 2 * MEBIBYTE, "measured again, and counted once");
    });
    assert!(reserve(MEBIBYTE).is_ok());
}
