//! Tests of whole transfers between two ends that share a fake memory, with each operation and with failures.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::sync::{Semaphore, mpsc};

use super::super::disk::{HostFiles, Lanes, Who};
use super::super::inbox::Inbox;
use super::*;
use crate::config::ReceiveOptions;
use crate::connection_manager::Via;
use crate::control::server::ProgressSender;

mod faults;
mod peers;
mod refusals;

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
    /// Whether operations never complete, and how many have begun.
    stuck: AtomicBool,
    begun: AtomicUsize,
    /// Whether the peer is gone: its connection has ended.
    gone: AtomicBool,
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
    cid: Cid,
    world: Arc<World>,
    own: Arc<Mailbox>,
    peer: Arc<Mailbox>,
    to_peer: Arc<Transfers>,
    /// Steps to the peer that belong to no transfer of the peer.
    strays: mpsc::UnboundedSender<FileMessage>,
    /// What this end does wrong.
    misbehaviour: Option<peers::Misbehaviour>,
}

impl FakeLink {
    /// Delays an operation by a time that depends on its span, so that operations overtake one another.
    async fn cross(&self, span: Span) -> Result<(), Failure> {
        self.world.begun.fetch_add(1, Ordering::Relaxed);
        if self.world.stuck.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let dead = || Failure { status: Some(10), ..Failure::new(FailureKind::Operation, "dead connection") };
        if self.world.gone.load(Ordering::Relaxed) {
            return Err(dead());
        }
        for _ in 0..(span.offset / 1000 * 7919) % 5 {
            tokio::task::yield_now().await;
        }
        let last =
            self.world.fails_after.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        match last {
            Ok(1) => Err(dead()),
            _ => Ok(()),
        }
    }

    fn region(&self, rkey: u32) -> Result<FakeBuffer, Failure> {
        let regions = self.world.regions.lock().unwrap();
        let unknown =
            || Failure { status: Some(2), ..Failure::new(FailureKind::Operation, "no such region") };
        let bytes = regions.get(&rkey).ok_or_else(unknown)?;
        Ok(FakeBuffer { rkey, bytes: Arc::clone(bytes) })
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
        self.copy((buffer, span.offset), (&self.region(rkey)?, span.offset), span.length)
    }

    async fn read(&self, buffer: &FakeBuffer, span: Span, rkey: u32) -> Result<(), Failure> {
        self.cross(span).await?;
        self.copy((&self.region(rkey)?, span.offset), (buffer, span.offset), span.length)
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

    async fn take_receives(&self) -> Result<ReceivePermit, Failure> {
        let taken = Arc::clone(&self.own.user).acquire_owned().await;
        taken.map_err(|_| Failure::invalid("receives are in use"))
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
        if let Some(misbehaviour) = &self.misbehaviour {
            misbehaviour.act(self, &step).await;
        }
        self.deliver(step);
        !self.world.gone.load(Ordering::Relaxed)
    }
}

impl FakeLink {
    fn deliver(&self, step: FileMessage) {
        if let Some(stray) = self.to_peer.deliver(self.cid, step) {
            let _ = self.strays.send(stray);
        }
    }
}

/// Two ends and a directory. The right one has its files by `files`.
struct Scene {
    cid: Cid,
    world: Arc<World>,
    left: Arc<FakeLink>,
    right: Arc<FakeLink>,
    left_transfers: Arc<Transfers>,
    right_transfers: Arc<Transfers>,
    right_strays: mpsc::UnboundedReceiver<FileMessage>,
    left_files: Arc<dyn FileSystem>,
    right_files: Arc<dyn FileSystem>,
    lanes: Lanes,
    next: AtomicU64,
    directory: TempDir,
}

/// A client that waits, and the lane for its files.
struct User {
    progress: ProgressSender,
    wanted: mpsc::Receiver<tiercel::control::Progress>,
    lane: Lane,
}

impl Scene {
    fn new() -> Self {
        Self::with(Arc::new(HostFiles), Arc::new(HostFiles))
    }

    fn with(left_files: Arc<dyn FileSystem>, right_files: Arc<dyn FileSystem>) -> Self {
        Self::of(CID, Arc::default(), None, left_files, right_files)
    }

    /// The left end has a connection with this CID, beside others. The right end may misbehave.
    fn of(
        cid: Cid,
        left_transfers: Arc<Transfers>,
        misbehaviour: Option<peers::Misbehaviour>,
        left_files: Arc<dyn FileSystem>,
        right_files: Arc<dyn FileSystem>,
    ) -> Self {
        let world = Arc::new(World::default());
        let right_transfers = Arc::new(Transfers::default());
        let (left_box, right_box) = (Mailbox::new(), Mailbox::new());
        let (to_right, right_strays) = mpsc::unbounded_channel();
        let (to_left, _) = mpsc::unbounded_channel();
        let link =
            |own: &Arc<Mailbox>, peer: &Arc<Mailbox>, to_peer: &Arc<Transfers>, strays, misbehaviour| {
                Arc::new(FakeLink {
                    cid,
                    world: Arc::clone(&world),
                    own: Arc::clone(own),
                    peer: Arc::clone(peer),
                    to_peer: Arc::clone(to_peer),
                    strays,
                    misbehaviour,
                })
            };
        Self {
            cid,
            left: link(&left_box, &right_box, &right_transfers, to_right, None),
            right: link(&right_box, &left_box, &left_transfers, to_left, misbehaviour),
            world,
            left_transfers,
            right_transfers,
            right_strays,
            left_files,
            right_files,
            lanes: Lanes::default(),
            next: AtomicU64::new(1),
            directory: TempDir::new().unwrap(),
        }
    }

    async fn user(&self) -> User {
        let (progress, wanted) = ProgressSender::detached();
        User { progress, wanted, lane: self.lanes.take(Who::Local(None)).await.unwrap() }
    }

    fn left<'s>(&'s self, user: &'s User) -> Means<'s, FakeLink> {
        Means { verbs: &self.left, files: &self.left_files, lane: &user.lane, progress: &user.progress }
    }

    fn right<'s>(&'s self, user: &'s User) -> Means<'s, FakeLink> {
        Means { verbs: &self.right, files: &self.right_files, lane: &user.lane, progress: &user.progress }
    }

    fn source(&self, name: &str, via: Via, overwrite: bool) -> Source {
        let path = self.path("from");
        let origin = Origin::Opened(File::open(&path).unwrap());
        Source { origin, shown: path, name: name.into(), via, overwrite }
    }

    fn place(&self, name: &str) -> Place {
        let directory = File::open(self.directory.path()).unwrap();
        Place { directory: Arc::new(directory.into()), name: name.into(), shown: self.path(name) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Copies "from" on the left to "to" on the right, and returns the outcomes of both ends.
    async fn copy(&self, via: Via, overwrite: bool) -> (Result<Copied, Failure>, Result<Copied, Failure>) {
        self.copy_to(Target::Local(self.place("to")), via, overwrite).await
    }

    async fn copy_to(
        &self,
        target: Target,
        via: Via,
        overwrite: bool,
    ) -> (Result<Copied, Failure>, Result<Copied, Failure>) {
        let (left_user, right_user) = (self.user().await, self.user().await);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let what = self.source("to", via, overwrite);
        let mut left_steps = self.left_transfers.enter(self.cid, number).unwrap();
        let mut right_steps = self.right_transfers.enter(self.cid, number).unwrap();
        let (left, right) = (self.left(&left_user), self.right(&right_user));
        let right = async {
            let offer = right_steps.next().await.map_err(|trouble| trouble.for_client("to"))?;
            sink(&right, &mut right_steps, accept(offer, target)).await
        };
        tokio::join!(source(&left, &mut left_steps, what), right)
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

fn accept(offer: FileMessage, target: Target) -> Sink {
    let FileMessage::Offer { overwrite, .. } = offer else { panic!("{offer:?}") };
    Sink::of(offer, target, overwrite).expect("a good offer")
}

fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[tokio::test]
async fn files_of_every_size_arrive_whole_in_every_way() {
    for via in WAYS {
        for length in [0, 1, 2999, 3000, 3001, 64 * 3000 + 1, (256 << 10) * 17 + 5] {
            let scene = Scene::new();
            std::fs::write(scene.path("from"), content(length)).unwrap();
            let (left, right) = scene.copy(via, false).await;
            let (left, right) = (left.unwrap(), right.unwrap());
            assert_eq!((left.bytes, &left.sha256), (length as u64, &right.sha256));
            assert!(std::fs::read(scene.path("to")).unwrap() == content(length), "{via:?} {length}");
            assert_eq!(scene.names(), ["from", "to"]);
            assert!(scene.right.own.posted.lock().unwrap().is_empty(), "no receive is left posted");
            assert!(!scene.right.own.parked.load(Ordering::Relaxed));
            assert!(lock(&scene.left_transfers.0).is_empty() && lock(&scene.right_transfers.0).is_empty());
        }
    }
}

#[tokio::test]
async fn existing_files_are_replaced_on_request_only() {
    let scene = Scene::new();
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
    let scene = Scene::new();
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
        let scene = Scene::new();
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
        let scene = Scene::new();
        std::fs::write(scene.path("from"), content(40 * 3000)).unwrap();
        scene.world.fails_after.store(1, Ordering::Relaxed);
        let (left, right) = scene.copy(via, false).await;
        let failed = if via == Via::Read { &right } else { &left };
        assert_eq!(failed.as_ref().unwrap_err().status, Some(10));
        assert!(left.is_err() && right.is_err());
        assert_eq!(scene.names(), ["from"]);
        // Other messages use up the receives. The next copy goes as if nothing had happened.
        assert!(scene.right.own.posted.lock().unwrap().is_empty(), "{via:?}");
        assert!(!scene.right.own.parked.load(Ordering::Relaxed));
        let (left, right) = scene.copy(via, false).await;
        assert!(left.is_ok() && right.is_ok(), "{via:?}: {left:?} {right:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn operations_that_never_complete_end_both_ends() {
    for via in WAYS {
        let scene = Scene::new();
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
