//! Transfers with a peer that stalls, dies, disappears, gives up or says something wrong, at each of its steps in turn, while
//! a transfer with another peer goes on.
//!
//! What must hold: the node notices within its patience, or at once if there is anything to notice; it names the cause; nothing
//! of the transfer is left; and the other transfer completes meanwhile.

use super::*;

/// What the node does in the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It sends a file for a client.
    Offers,
    /// It stores a file that the peer sends.
    Takes,
    /// It fetches a file for a client.
    Fetches,
    /// It sends a file for which the peer asks.
    Serves,
}

/// What the peer does instead of one of its steps. After that it does nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It says nothing. Operations still complete.
    Stalls,
    /// It says nothing, and no operation completes.
    Dies,
    /// Its connection ends.
    Disappears,
    GivesUp,
    /// It sends a step that does not belong there.
    SaysAnother,
    /// It sends the step with other values.
    Lies,
    /// It sends the step twice.
    Repeats,
    /// It says that it waits, more often than anybody reads.
    Floods,
}

const ROLES: [Role; 4] = [Role::Offers, Role::Takes, Role::Fetches, Role::Serves];
const FAULTS: [Fault; 8] = [
    Fault::Stalls,
    Fault::Dies,
    Fault::Disappears,
    Fault::GivesUp,
    Fault::SaysAnother,
    Fault::Lies,
    Fault::Repeats,
    Fault::Floods,
];
/// The number of the transfer.
const TRANSFER: u64 = 1;
/// How long an end that gives up may wait for operations and receives.
const GIVING_UP: Duration = Duration::from_secs(3 * RELEASE.as_secs() + DRAIN.as_secs());

impl Role {
    /// The first step of the peer at which the node has a transfer.
    fn first(self) -> usize {
        usize::from(matches!(self, Self::Takes | Self::Serves))
    }

    fn patience(self) -> Duration {
        if self.first() > 0 { SERVED_PATIENCE } else { PATIENCE }
    }

    fn stores(self) -> bool {
        matches!(self, Self::Takes | Self::Fetches)
    }
}

/// A fault at one step of an end.
pub(super) struct Misbehaviour {
    fault: Fault,
    /// Steps until then.
    steps: AtomicUsize,
    done: AtomicBool,
}

impl Misbehaviour {
    fn at(step: usize, fault: Fault) -> Self {
        Self { fault, steps: AtomicUsize::new(step), done: AtomicBool::new(false) }
    }

    /// Returns before the step at which the end misbehaves. At that step, misbehaves and never returns.
    pub(super) async fn act(&self, link: &FakeLink, step: &FileMessage) {
        if matches!(step, FileMessage::Waiting { .. }) {
            return;
        }
        let before =
            self.steps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |steps| steps.checked_sub(1));
        if before.is_ok() {
            return;
        }
        if !self.done.swap(true, Ordering::Relaxed) {
            self.misbehave(link, step);
        }
        std::future::pending().await
    }

    fn misbehave(&self, link: &FakeLink, step: &FileMessage) {
        let transfer = TRANSFER;
        match self.fault {
            Fault::Stalls => {}
            Fault::Dies => link.world.stuck.store(true, Ordering::Relaxed),
            Fault::Disappears => {
                link.world.gone.store(true, Ordering::Relaxed);
                link.to_peer.connection_ended(link.cid);
            }
            Fault::GivesUp => {
                link.deliver(FileMessage::Abort { transfer, text: "enough".into(), posted: None })
            }
            Fault::SaysAnother => link.deliver(FileMessage::Stored { transfer, index: 1 << 40 }),
            Fault::Lies => link.deliver(lie(step.clone())),
            Fault::Repeats => (0..2).for_each(|_| link.deliver(step.clone())),
            Fault::Floods => {
                (0..2 * STEPS).for_each(|_| link.deliver(FileMessage::Waiting { transfer }));
            }
        }
    }
}

/// Returns the step with other values.
fn lie(step: FileMessage) -> FileMessage {
    match step {
        FileMessage::Offer { transfer, via, length, chunk, slots, rkey, overwrite, mode, sparse, .. } => {
            let name = "other".into();
            FileMessage::Offer { transfer, name, via, length, chunk, slots, rkey, overwrite, mode, sparse }
        }
        FileMessage::Ready { transfer, .. } => FileMessage::Ready { transfer, rkey: 9999 },
        FileMessage::Chunk { transfer, index } => FileMessage::Chunk { transfer, index: index + 7777 },
        FileMessage::Stored { transfer, index } => FileMessage::Stored { transfer, index: index + 7777 },
        FileMessage::End { transfer, .. } => FileMessage::End { transfer, sha256: "0".repeat(64) },
        FileMessage::Verdict { transfer, .. } => FileMessage::Verdict { transfer, sha256: "0".repeat(64) },
        other => other,
    }
}

/// The causes that a fault may have in the words of the node. Nothing else may be told.
fn causes(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::Stalls | Fault::Dies => &["the peer sent nothing for"],
        Fault::Disappears => {
            &["the connection ended during the transfer", "the connection has no session", "dead connection"]
        }
        Fault::GivesUp => &["the peer aborted: enough"],
        Fault::SaysAnother | Fault::Repeats => &["the peer sent a wrong step"],
        Fault::Lies => {
            &["the peer sent a wrong step", "SHA-256 differs", "no such region", "the peer sent nothing for"]
        }
        Fault::Floods => &["the peer sent more steps than the transfer has"],
    }
}

/// The node and the peer of one transfer.
struct Pair {
    role: Role,
    via: Via,
    scene: Scene,
}

impl Pair {
    /// The steps that arrive at the node, and at the peer.
    fn steps(&self) -> [Steps<'_>; 2] {
        let Self { role, ref scene, .. } = *self;
        let node = match role {
            Role::Offers | Role::Fetches => scene.left_transfers.enter(scene.cid, TRANSFER),
            Role::Takes | Role::Serves => {
                scene.left_transfers.serve(scene.cid, TRANSFER, [10, 7, 0, 1].into())
            }
        };
        [node, scene.right_transfers.enter(scene.cid, TRANSFER)].map(Result::unwrap)
    }

    /// The node's end.
    async fn node(&self, mut steps: Steps<'_>) -> Result<Copied, Failure> {
        let Self { role, via, ref scene } = *self;
        let user = scene.user().await;
        let means = scene.left(&user);
        match role {
            Role::Offers => source(&means, &mut steps, scene.source("to", via, false)).await,
            Role::Takes => {
                let offer = steps.next().await.expect("it comes");
                sink(&means, &mut steps, accept(offer, Target::Local(scene.place("to")))).await
            }
            Role::Fetches => fetch(&means, &mut steps, ("from".into(), via), scene.place("to"), false).await,
            Role::Serves => {
                assert!(matches!(steps.next().await.expect("it comes"), FileMessage::Fetch { .. }));
                source(&means, &mut steps, scene.source("from", via, false)).await
            }
        }
    }

    /// The peer's end, which behaves until its fault.
    async fn peer(&self, mut steps: Steps<'_>) -> Result<Copied, Failure> {
        let Self { role, via, ref scene } = *self;
        let user = scene.user().await;
        let means = scene.right(&user);
        match role {
            Role::Offers => {
                let offer = steps.next().await.expect("it comes");
                sink(&means, &mut steps, accept(offer, Target::Local(scene.place("to")))).await
            }
            Role::Takes => source(&means, &mut steps, scene.source("to", via, false)).await,
            Role::Fetches => {
                assert!(matches!(steps.next().await.expect("it comes"), FileMessage::Fetch { .. }));
                source(&means, &mut steps, scene.source("from", via, false)).await
            }
            Role::Serves => fetch(&means, &mut steps, ("from".into(), via), scene.place("to"), false).await,
        }
    }
}

/// Runs one transfer whose peer has a fault at a step, beside another that has none. Returns whether the step was reached.
async fn one_run(role: Role, via: Via, fault: Fault, step: usize) -> bool {
    let told = format!("the node {role:?} by {via:?}, the peer {fault:?} at step {step}");
    let files = || Arc::new(HostFiles) as Arc<dyn FileSystem>;
    let transfers = Arc::<Transfers>::default();
    let misbehaviour = Some(Misbehaviour::at(step, fault));
    let scene = Scene::of(CID, Arc::clone(&transfers), misbehaviour, files(), files());
    let other = Scene::of(Cid(6), Arc::clone(&transfers), None, files(), files());
    // Two chunks or three.
    let length = if via == Via::Send { 7000 } else { (256 << 10) + 1 };
    std::fs::write(scene.path("from"), content(length)).unwrap();
    std::fs::write(other.path("from"), content(20_000)).unwrap();
    let pair = Pair { role, via, scene };
    let began = tokio::time::Instant::now();
    let hostile = async {
        // Both take steps before the first is sent.
        let [of_node, of_peer] = pair.steps();
        let (node, peer) = (pair.node(of_node), pair.peer(of_peer));
        let mut peer = std::pin::pin!(peer);
        tokio::pin!(node);
        let outcome = tokio::select! {
            outcome = &mut node => outcome,
            _ = &mut peer => node.await,
        };
        (outcome, began.elapsed())
    };
    let honest = async {
        let outcomes = other.copy(via, false).await;
        (outcomes, began.elapsed())
    };
    let ((outcome, took), ((left, right), honest_took)) = tokio::join!(hostile, honest);
    assert!(left.is_ok() && right.is_ok(), "{told}: the other transfer: {left:?} {right:?}");
    assert!(honest_took < SAY_WAITING, "{told}: the other transfer took {honest_took:?}");
    assert!(std::fs::read(other.path("to")).unwrap() == content(20_000), "{told}");
    assert!(lock(&transfers.0).is_empty(), "{told}: a transfer is left");

    let scene = &pair.scene;
    let misbehaviour = scene.right.misbehaviour.as_ref().unwrap();
    if !misbehaviour.done.load(Ordering::Relaxed) {
        assert!(outcome.is_ok(), "{told}, which was not reached: {outcome:?}");
        return false;
    }
    let bound = match fault {
        // A key that nobody uses is no lie, and the peer says nothing after it.
        Fault::Stalls | Fault::Dies | Fault::Lies => role.patience() + GIVING_UP,
        _ => GIVING_UP,
    };
    assert!(took <= bound, "{told}: noticed after {took:?}, bound {bound:?}");
    match outcome {
        // Nobody reads the second of its last steps.
        Ok(_) => assert_eq!(fault, Fault::Repeats, "{told}"),
        Err(failure) => {
            let named = causes(fault).iter().any(|cause| failure.text.contains(cause));
            assert!(named, "{told}: {}", failure.text);
            // A job that was left alone removes what it made when it notices.
            let since = std::time::Instant::now();
            while role.stores() && scene.names() != ["from"] {
                assert!(since.elapsed() < Duration::from_secs(20), "{told}: {:?} stay", scene.names());
                tokio::task::yield_now().await;
            }
        }
    }
    true
}

#[tokio::test(start_paused = true)]
async fn whatever_the_peer_does_at_whichever_step_the_node_notices_and_names_it() {
    for role in ROLES {
        for via in WAYS {
            for fault in FAULTS {
                let mut step = role.first();
                while one_run(role, via, fault, step).await {
                    step += 1;
                }
                assert!(step > role.first(), "{role:?} {via:?} {fault:?}: {step} steps");
            }
        }
    }
}

/// The peer says that all is stored, and the operations that carry it do not complete. A transfer that the peer began has
/// the shorter patience here too.
#[tokio::test(start_paused = true)]
async fn a_peer_that_says_stored_too_early_holds_no_memory_for_longer() {
    let scene = Scene::new();
    std::fs::write(scene.path("from"), content(100)).unwrap();
    scene.world.stuck.store(true, Ordering::Relaxed);
    let user = scene.user().await;
    let mut steps = scene.left_transfers.serve(CID, TRANSFER, [10, 7, 0, 1].into()).unwrap();
    let began = tokio::time::Instant::now();
    let peer = async {
        let says = |step| assert_eq!(scene.left_transfers.deliver(CID, step), None);
        says(FileMessage::Ready { transfer: TRANSFER, rkey: 1 });
        while scene.world.begun.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        says(FileMessage::Stored { transfer: TRANSFER, index: 0 });
    };
    let means = scene.left(&user);
    let (outcome, ()) = tokio::join!(source(&means, &mut steps, scene.source("to", Via::Write, false)), peer);
    let text = outcome.unwrap_err().text;
    assert!(text.contains("no operation completed for 10 s"), "{text}");
    assert!(began.elapsed() <= SERVED_PATIENCE + GIVING_UP, "{:?}", began.elapsed());
}

/// A client leaves while the peer does not answer. The node does not wait for the peer.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_a_fetch_that_is_not_answered() {
    let scene = Scene::new();
    let mut leaving = scene.user().await;
    leaving.wanted.close();
    let mut steps = scene.left_transfers.enter(CID, TRANSFER).unwrap();
    let began = tokio::time::Instant::now();
    let wanted = ("kept".to_owned(), Via::Write);
    let failure =
        fetch(&scene.left(&leaving), &mut steps, wanted, scene.place("to"), false).await.unwrap_err();
    assert_eq!(failure.text, "cancelled");
    assert!(began.elapsed() <= GIVING_UP, "{:?}", began.elapsed());
}
