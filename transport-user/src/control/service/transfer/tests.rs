//! Tests of whole transfers between two ends that share a fake memory, with each operation and with failures.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::sync::{Semaphore, mpsc};

use super::*;
use crate::control::server::ProgressSender;

const CID: Cid = Cid(5);
const WAYS: [Via; 3] = [Via::Write, Via::Read, Via::Send];

/// The state that both ends share: memory by R_Key, and the failures to cause.
#[derive(Default)]
struct World {
    regions: Mutex<HashMap<u32, Arc<Mutex<Vec<u8>>>>>,
    keys: AtomicU32,
    /// The number of the operation that fails, counted from 1. 0 if none fails.
    fails_after: AtomicUsize,
    /// Whether a bit of each operation is flipped.
    corrupts: AtomicBool,
    /// Whether operations never complete.
    stuck: AtomicBool,
}

#[derive(Clone)]
struct FakeBuffer {
    rkey: u32,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Buffer for FakeBuffer {
    fn rkey(&self) -> u32 {
        self.rkey
    }

    fn fill(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn fetch(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        bytes.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..bytes.len()]);
        Ok(())
    }
}

/// The receives of one end: those posted, and those completed.
struct Mailbox {
    posted: Mutex<VecDeque<(FakeBuffer, Span, u64)>>,
    arrivals: mpsc::UnboundedSender<Arrival>,
    arrived: tokio::sync::Mutex<mpsc::UnboundedReceiver<Arrival>>,
    user: Arc<Semaphore>,
    parked: AtomicBool,
}

impl Mailbox {
    fn new() -> Arc<Self> {
        let (arrivals, arrived) = mpsc::unbounded_channel();
        Arc::new(Self {
            posted: Mutex::default(),
            arrivals,
            arrived: tokio::sync::Mutex::new(arrived),
            user: Arc::new(Semaphore::new(1)),
            parked: AtomicBool::new(false),
        })
    }
}

struct FakeLink {
    world: Arc<World>,
    own: Arc<Mailbox>,
    peer: Arc<Mailbox>,
    to_peer: Arc<Transfers>,
    /// Steps to the peer that belong to no transfer of the peer.
    strays: mpsc::UnboundedSender<FileMessage>,
}

impl FakeLink {
    /// Delays an operation by a time that depends on its span, so that operations overtake one another.
    async fn cross(&self, span: Span) -> Result<(), Failure> {
        if self.world.stuck.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        for _ in 0..(span.offset / 1000 * 7919) % 5 {
            tokio::task::yield_now().await;
        }
        let last =
            self.world.fails_after.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        match last {
            Ok(1) => {
                Err(Failure { status: Some(10), ..Failure::new(FailureKind::Operation, "dead connection") })
            }
            _ => Ok(()),
        }
    }

    fn region(&self, rkey: u32) -> FakeBuffer {
        FakeBuffer { rkey, bytes: Arc::clone(&self.world.regions.lock().unwrap()[&rkey]) }
    }

    fn copy(&self, from: (&FakeBuffer, u64), to: (&FakeBuffer, u64), length: u64) -> Result<(), Failure> {
        let mut bytes = vec![0; length as usize];
        from.0.fetch(from.1, &mut bytes)?;
        if self.world.corrupts.load(Ordering::Relaxed) {
            bytes[0] ^= 1;
        }
        to.0.fill(to.1, &bytes)
    }
}

impl Verbs for FakeLink {
    type Buffer = FakeBuffer;

    fn register(&self, length: usize, _: bool, _: bool) -> Result<FakeBuffer, Failure> {
        let rkey = self.world.keys.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = Arc::new(Mutex::new(vec![0; length]));
        self.world.regions.lock().unwrap().insert(rkey, Arc::clone(&bytes));
        Ok(FakeBuffer { rkey, bytes })
    }

    fn largest_message(&self) -> u32 {
        3000
    }

    async fn write(&self, buffer: &FakeBuffer, span: Span, rkey: u32) -> Result<(), Failure> {
        self.cross(span).await?;
        self.copy((buffer, span.offset), (&self.region(rkey), span.offset), span.length)
    }

    async fn read(&self, buffer: &FakeBuffer, span: Span, rkey: u32) -> Result<(), Failure> {
        self.cross(span).await?;
        self.copy((&self.region(rkey), span.offset), (buffer, span.offset), span.length)
    }

    async fn send(&self, buffer: &FakeBuffer, span: Span, immediate: u32) -> Result<(), Failure> {
        self.cross(span).await?;
        let posted = self.peer.posted.lock().unwrap().pop_front();
        let (receive, place, id) =
            posted.expect("the source never has more chunks under way than receives are posted");
        assert!(span.length <= place.length);
        self.copy((buffer, span.offset), (&receive, place.offset), span.length)?;
        let arrival = Arrival { id, length: span.length, immediate: Some(immediate) };
        let _ = self.peer.arrivals.send(arrival);
        Ok(())
    }

    fn take_receives(&self) -> Result<ReceivePermit, Failure> {
        Arc::clone(&self.own.user).try_acquire_owned().map_err(|_| Failure::invalid("receives are in use"))
    }

    fn post_receive(&self, buffer: &FakeBuffer, span: Span, id: u64) -> Result<(), Failure> {
        self.own.posted.lock().unwrap().push_back((buffer.clone(), span, id));
        Ok(())
    }

    async fn receive(&self) -> Result<Arrival, Failure> {
        Ok(self.own.arrived.lock().await.recv().await.expect("the mailbox lives"))
    }

    fn park(&self, _: FakeBuffer, permit: ReceivePermit) {
        permit.forget();
        self.own.parked.store(true, Ordering::Relaxed);
    }

    async fn tell(&self, step: FileMessage) -> bool {
        if let Some(stray) = self.to_peer.deliver(CID, step) {
            let _ = self.strays.send(stray);
        }
        true
    }
}

/// Two ends and a directory.
struct Scene {
    world: Arc<World>,
    left: Arc<FakeLink>,
    right: Arc<FakeLink>,
    left_transfers: Arc<Transfers>,
    right_transfers: Arc<Transfers>,
    right_strays: mpsc::UnboundedReceiver<FileMessage>,
    directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        let world = Arc::new(World::default());
        let (left_transfers, right_transfers) =
            (Arc::new(Transfers::default()), Arc::new(Transfers::default()));
        let (left_box, right_box) = (Mailbox::new(), Mailbox::new());
        let (to_right, right_strays) = mpsc::unbounded_channel();
        let (to_left, _) = mpsc::unbounded_channel();
        let link = |own: &Arc<Mailbox>, peer: &Arc<Mailbox>, to_peer: &Arc<Transfers>, strays| {
            Arc::new(FakeLink {
                world: Arc::clone(&world),
                own: Arc::clone(own),
                peer: Arc::clone(peer),
                to_peer: Arc::clone(to_peer),
                strays,
            })
        };
        Self {
            left: link(&left_box, &right_box, &right_transfers, to_right),
            right: link(&right_box, &left_box, &left_transfers, to_left),
            world,
            left_transfers,
            right_transfers,
            right_strays,
            directory: TempDir::new().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Copies "from" on the left to "to" on the right, and returns the outcomes of both ends.
    async fn copy(
        &mut self,
        via: Via,
        overwrite: bool,
    ) -> (Result<Copied, Failure>, Result<Copied, Failure>) {
        let (progress, _wanted) = ProgressSender::detached();
        let what = Source { file: self.path("from"), name: "to".into(), via, overwrite };
        let target = self.path("to");
        let mut left_steps = self.left_transfers.enter(CID, 1).unwrap();
        let mut right_steps = self.right_transfers.enter(CID, 1).unwrap();
        let right = async {
            let offer = right_steps.next().await?;
            sink(self.right.as_ref(), &mut right_steps, accept(offer, target), &progress).await
        };
        tokio::join!(source(&self.left, &mut left_steps, what, &progress), right)
    }

    /// Returns the names of the files in the directory.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn accept(offer: FileMessage, file: PathBuf) -> Sink {
    let FileMessage::Offer { name, via, length, chunk, slots, rkey, overwrite, .. } = offer else {
        panic!("{offer:?}")
    };
    Sink { file, name, via, length, chunk, slots, rkey, overwrite }
}

fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[tokio::test]
async fn files_of_every_size_arrive_whole_in_every_way() {
    for via in WAYS {
        for length in [0, 1, 2999, 3000, 3001, 64 * 3000 + 1, (256 << 10) * 17 + 5] {
            let mut scene = Scene::new();
            std::fs::write(scene.path("from"), content(length)).unwrap();
            let (left, right) = scene.copy(via, false).await;
            let (left, right) = (left.unwrap(), right.unwrap());
            assert_eq!((left.bytes, &left.sha256), (length as u64, &right.sha256));
            assert!(std::fs::read(scene.path("to")).unwrap() == content(length), "{via:?} {length}");
            assert_eq!(scene.names(), ["from", "to"]);
            assert!(scene.right.own.posted.lock().unwrap().is_empty(), "no receive is left posted");
            assert!(!scene.right.own.parked.load(Ordering::Relaxed));
            assert!(scene.left_transfers.lock().is_empty() && scene.right_transfers.lock().is_empty());
        }
    }
}

#[tokio::test]
async fn existing_files_are_replaced_on_request_only() {
    let mut scene = Scene::new();
    std::fs::write(scene.path("from"), "new").unwrap();
    std::fs::write(scene.path("to"), "old").unwrap();
    let (left, right) = scene.copy(Via::Write, false).await;
    assert!(right.unwrap_err().text.contains("exists"));
    assert!(left.unwrap_err().text.contains("the peer aborted"), "both ends know");
    assert_eq!(std::fs::read(scene.path("to")).unwrap(), b"old");
    let (left, right) = scene.copy(Via::Write, true).await;
    assert!(left.is_ok() && right.is_ok());
    assert_eq!(std::fs::read(scene.path("to")).unwrap(), b"new");
    assert_eq!(scene.names(), ["from", "to"]);
}

#[tokio::test]
async fn the_next_copy_removes_what_a_killed_node_left() {
    let mut scene = Scene::new();
    std::fs::write(scene.path("from"), content(100_000)).unwrap();
    let left = scene.path(".to.0123456789abcdef.part");
    std::fs::write(&left, content(50_000)).unwrap();
    let (left_report, right_report) = scene.copy(Via::Write, false).await;
    assert_eq!(left_report.unwrap().removed, [] as [PathBuf; 0], "it was on the other side");
    assert_eq!(right_report.unwrap().removed, [left]);
    assert_eq!(scene.names(), ["from", "to"]);
    assert!(std::fs::read(scene.path("to")).unwrap() == content(100_000));
}

#[tokio::test]
async fn a_flipped_bit_is_never_kept() {
    for via in WAYS {
        let mut scene = Scene::new();
        std::fs::write(scene.path("from"), content(10_000)).unwrap();
        scene.world.corrupts.store(true, Ordering::Relaxed);
        let (left, right) = scene.copy(via, false).await;
        assert!(left.is_err() && right.unwrap_err().text.contains("SHA-256 differs"));
        assert_eq!(scene.names(), ["from"]);
    }
}

#[tokio::test]
async fn an_operation_in_error_ends_both_ends_and_keeps_its_code() {
    for via in WAYS {
        let mut scene = Scene::new();
        std::fs::write(scene.path("from"), content(40 * 3000)).unwrap();
        scene.world.fails_after.store(1, Ordering::Relaxed);
        let (left, right) = scene.copy(via, false).await;
        let failed = if via == Via::Read { &right } else { &left };
        assert_eq!(failed.as_ref().unwrap_err().status, Some(10));
        assert!(left.is_err() && right.is_err());
        assert_eq!(scene.names(), ["from"]);
        // Receives that are still posted keep their memory until the connection is gone.
        let posted = !scene.right.own.posted.lock().unwrap().is_empty();
        assert_eq!(scene.right.own.parked.load(Ordering::Relaxed), posted);
        assert_eq!(posted, via == Via::Send);
    }
}

#[tokio::test(start_paused = true)]
async fn operations_that_never_complete_end_both_ends() {
    for via in WAYS {
        let mut scene = Scene::new();
        std::fs::write(scene.path("from"), content(10_000)).unwrap();
        scene.world.stuck.store(true, Ordering::Relaxed);
        let (left, right) = scene.copy(via, false).await;
        let blocked = |outcome: &Result<Copied, Failure>| {
            let text = &outcome.as_ref().unwrap_err().text;
            text.contains("blocks connection 5") && text.contains("`tiercel conn close 5`")
        };
        // The end with outstanding work requests is told to close the connection.
        assert_eq!(blocked(&left), via != Via::Read, "{via:?} {left:?}");
        assert_eq!(blocked(&right), via != Via::Write, "{via:?} {right:?}");
        assert_eq!(scene.names(), ["from"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_gives_up_ends_operations_that_never_complete() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), content(10_000)).unwrap();
    scene.world.stuck.store(true, Ordering::Relaxed);
    let (progress, _wanted) = ProgressSender::detached();
    let mut steps = scene.left_transfers.enter(CID, 1).unwrap();
    for step in [
        FileMessage::Ready { transfer: 1, rkey: 1 },
        FileMessage::Abort { transfer: 1, text: "no room".into() },
    ] {
        assert_eq!(scene.left_transfers.deliver(CID, step), None);
    }
    let what = Source { file: scene.path("from"), name: "to".into(), via: Via::Send, overwrite: false };
    let started = tokio::time::Instant::now();
    let failure = source(&scene.left, &mut steps, what, &progress).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5), "it does not wait for its own patience");
    assert!(
        failure
            .text
            .starts_with("the peer aborted: no room; 4 operations of the transfer are still outstanding"),
        "{}",
        failure.text
    );
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_transfer() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), content(100_000)).unwrap();
    let (unwanted, receiver) = ProgressSender::detached();
    drop(receiver);
    let (wanted, _wanted) = ProgressSender::detached();
    let what = Source { file: scene.path("from"), name: "to".into(), via: Via::Write, overwrite: false };
    let mut left_steps = scene.left_transfers.enter(CID, 1).unwrap();
    let mut right_steps = scene.right_transfers.enter(CID, 1).unwrap();
    let right = async {
        let offer = right_steps.next().await?;
        sink(scene.right.as_ref(), &mut right_steps, accept(offer, scene.path("to")), &wanted).await
    };
    let (left, right) = tokio::join!(source(&scene.left, &mut left_steps, what, &unwanted), right);
    assert_eq!(left.unwrap_err().text, "cancelled");
    assert_eq!(right.unwrap_err().text, "the peer aborted: cancelled");
    assert_eq!(scene.names(), ["from"]);
}

#[tokio::test]
async fn a_file_is_fetched_from_a_peer_that_has_it() {
    let mut scene = Scene::new();
    std::fs::write(scene.path("kept"), content(50_000)).unwrap();
    let (progress, _wanted) = ProgressSender::detached();
    let mut left_steps = scene.left_transfers.enter(CID, 7).unwrap();
    let local = scene.path("local");
    let wanted = ("kept".to_owned(), Via::Read);
    let fetching = fetch(scene.left.as_ref(), &mut left_steps, wanted, &local, false, &progress);
    let serving = async {
        let Some(FileMessage::Fetch { transfer, name, via }) = scene.right_strays.recv().await else {
            panic!()
        };
        let mut steps = scene.right_transfers.enter(CID, transfer).unwrap();
        let what = Source { file: scene.directory.path().join(&name), name, via, overwrite: false };
        source(&scene.right, &mut steps, what, &progress).await
    };
    let (fetched, served) = tokio::join!(fetching, serving);
    assert_eq!(fetched.unwrap().sha256, served.unwrap().sha256);
    assert_eq!(std::fs::read(scene.path("local")).unwrap(), content(50_000));
}

#[tokio::test]
async fn absurd_offers_are_declined() {
    let scene = Scene::new();
    let (progress, _wanted) = ProgressSender::detached();
    let good = Sink {
        file: scene.path("to"),
        name: "to".into(),
        via: Via::Send,
        length: 10,
        chunk: 3000,
        slots: 1,
        rkey: 0,
        overwrite: false,
    };
    let absurd: [fn(&mut Sink); 5] = [
        |what| what.chunk = 0,
        |what| what.chunk = 3001,
        |what| what.slots = 0,
        |what| what.slots = 129,
        |what| (what.via, what.chunk, what.slots) = (Via::Write, 1 << 20, 128),
    ];
    for change in absurd {
        let mut what = good.clone();
        change(&mut what);
        let mut steps = scene.right_transfers.enter(CID, 1).unwrap();
        let failure = sink(scene.right.as_ref(), &mut steps, what, &progress).await.unwrap_err();
        assert_eq!(failure.text, "the chunks of the offer exceed the limits");
    }
    assert!(scene.names().is_empty());
}

#[tokio::test]
async fn steps_out_of_order_end_the_transfer() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), content(100)).unwrap();
    let (progress, _wanted) = ProgressSender::detached();
    for (step, ready) in [
        (FileMessage::Chunk { transfer: 1, index: 0 }, false),
        (FileMessage::Stored { transfer: 1, index: 0 }, false),
        (FileMessage::Stored { transfer: 1, index: 1 }, true),
    ] {
        let what = Source { file: scene.path("from"), name: "to".into(), via: Via::Read, overwrite: false };
        let mut steps = scene.left_transfers.enter(CID, 1).unwrap();
        if ready {
            assert_eq!(scene.left_transfers.deliver(CID, FileMessage::Ready { transfer: 1, rkey: 0 }), None);
        }
        assert_eq!(scene.left_transfers.deliver(CID, step), None);
        let failure = source(&scene.left, &mut steps, what, &progress).await.unwrap_err();
        assert!(failure.text.contains("sent a wrong step"), "{}", failure.text);
    }
}

#[tokio::test]
async fn the_end_of_the_connection_ends_its_transfers() {
    let scene = Scene::new();
    let mut steps = scene.left_transfers.enter(CID, 1).unwrap();
    let mut other = scene.left_transfers.enter(Cid(6), 1).unwrap();
    scene.left_transfers.connection_ended(CID);
    assert_eq!(steps.next().await.unwrap_err().kind, FailureKind::Connect);
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
    let (progress, _wanted) = ProgressSender::detached();
    let what = Sink {
        file: scene.path("to"),
        name: "to".into(),
        via: Via::Write,
        length: 5000,
        chunk: 1000,
        slots: 128,
        rkey: 0,
        overwrite: false,
    };
    let mut steps = scene.right_transfers.serve(CID, 1, IpAddr::from([10, 7, 0, 1])).unwrap();
    let started = tokio::time::Instant::now();
    let failure = sink(scene.right.as_ref(), &mut steps, what, &progress).await.unwrap_err();
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    assert!(failure.text.contains("sent nothing for 10 s"), "{}", failure.text);
    let taken: usize = scene.world.regions.lock().unwrap().values().map(|r| r.lock().unwrap().len()).sum();
    assert_eq!(taken, 5000);
    assert!(scene.names().is_empty());
}

#[test]
fn names_from_the_network_are_plain() {
    for good in ["a", "file.bin", "with space", "\u{fc}ber"] {
        assert!(check_name(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        ".",
        "..",
        "../x",
        "/etc/passwd",
        "a/b",
        "a\\b",
        ".hidden",
        "nul\0",
        "new\nline",
        &"x".repeat(201),
    ] {
        assert!(check_name(bad).is_err(), "{bad:?}");
    }
}
