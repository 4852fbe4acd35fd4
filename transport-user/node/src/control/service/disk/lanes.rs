//! The threads that do file work. Their number is bounded, and so is the part of them that one file system can hold up.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::semaphores::Semaphores;

/// Lanes of local clients, and of these at most for files of one mount.
const LOCAL: usize = 32;
const LOCAL_EACH_MOUNT: usize = 16;
/// Lanes for transfers that peers began. All of them use the receive directory.
const PEERS: usize = 8;
/// A job that makes no progress for this time is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// On whose behalf file work is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who<'f> {
    /// A local client, with this file or directory. `None`: the node has to find the file by its path.
    Local(Option<BorrowedFd<'f>>),
    /// A peer, in the receive directory.
    Peer,
}

/// A file system did not answer in time. The job goes on alone, and keeps its lane until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the file system has not answered for {} s: check its disk or its server (`dmesg`, `df`), then try again", .0.as_secs()
)]
pub(crate) struct NoAnswer(pub(crate) Duration);

/// The lanes of a node.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    local: Arc<Semaphore>,
    peers: Arc<Semaphore>,
    /// Local lanes by mount. One mount that does not answer leaves lanes for the others.
    mounts: Arc<Semaphores<u64>>,
    patience: Duration,
}

/// The right to have one job at a time. Clones share it. It is given back when the last clone and the last job are gone:
/// a job that a file system holds up keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    held: Arc<Held>,
    patience: Duration,
}

#[derive(Debug)]
struct Held {
    _group: OwnedSemaphorePermit,
    _mount: Option<OwnedSemaphorePermit>,
}

/// The sign of life of a job, and the word to it that nobody waits for it any more.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    abandoned: AtomicBool,
}

/// Work on a thread. Dropping it tells the work to stop, and does not wait for it.
#[derive(Debug)]
pub(crate) struct Job<T> {
    task: JoinHandle<T>,
    pulse: Arc<Pulse>,
    patience: Duration,
}

impl Default for Lanes {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl Lanes {
    /// Lanes whose jobs are given up when they make no progress for `patience`.
    pub(crate) fn with_patience(patience: Duration) -> Self {
        Self {
            local: Arc::new(Semaphore::new(LOCAL)),
            peers: Arc::new(Semaphore::new(PEERS)),
            mounts: Arc::default(),
            patience,
        }
    }

    /// Takes a lane, and waits if all of them are taken.
    ///
    /// # Errors
    /// None becomes free in time: the others wait for a file system that does not answer.
    pub(crate) async fn take(&self, who: Who<'_>) -> Result<Lane, NoAnswer> {
        let (group, mount) = match who {
            Who::Peer => (&self.peers, None),
            Who::Local(file) => (&self.local, Some(self.mount(file))),
        };
        let all = async {
            // The mount comes first: who waits for a mount holds nothing that others need.
            let mount = match mount {
                Some(mount) => Some(mount.acquire_owned().await),
                None => None,
            };
            (mount.transpose(), Arc::clone(group).acquire_owned().await)
        };
        match timeout(self.patience, all).await {
            Ok((Ok(mount), Ok(group))) => {
                Ok(Lane { held: Arc::new(Held { _group: group, _mount: mount }), patience: self.patience })
            }
            _ => Err(NoAnswer(self.patience)),
        }
    }

    fn mount(&self, file: Option<BorrowedFd<'_>>) -> Arc<Semaphore> {
        let id = file.and_then(|file| mount_of(file).ok()).unwrap_or(0);
        self.mounts.of(id, LOCAL_EACH_MOUNT)
    }
}

/// Returns the number of the mount of an open file. The kernel knows it without the file system.
fn mount_of(file: BorrowedFd<'_>) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl Lane {
    /// Begins work on a thread. The work tells by the pulse that it makes progress.
    pub(crate) fn begin<T: Send + 'static>(&self, work: impl FnOnce(&Pulse) -> T + Send + 'static) -> Job<T> {
        let (held, pulse) = (Arc::clone(&self.held), Arc::new(Pulse::default()));
        let own = Arc::clone(&pulse);
        let task = tokio::task::spawn_blocking(move || {
            let outcome = work(&own);
            drop(held);
            outcome
        });
        Job { task, pulse, patience: self.patience }
    }

    /// Does work on a thread, and returns its result.
    ///
    /// # Errors
    /// The work makes no progress.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Pulse) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.begin(work).ended().await
    }
}

impl<T> Job<T> {
    /// Waits for the end of the work. May be cancelled and called again.
    ///
    /// # Errors
    /// The work makes no progress.
    pub(crate) async fn ended(&mut self) -> Result<T, NoAnswer> {
        let mut before = self.pulse.beats.load(Relaxed);
        loop {
            match timeout(self.patience, &mut self.task).await {
                Ok(Ok(outcome)) => return Ok(outcome),
                Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Ok(Err(_)) => return Err(NoAnswer(self.patience)), // the runtime ends
                Err(_) => {
                    let now = self.pulse.beats.load(Relaxed);
                    if now == std::mem::replace(&mut before, now) {
                        return Err(NoAnswer(self.patience));
                    }
                }
            }
        }
    }
}

impl<T> Job<T> {
    /// Tells the work to stop, and waits for that, at most so long. The work must not have ended before.
    pub(crate) async fn stop(mut self, limit: Duration) {
        self.pulse.abandoned.store(true, Relaxed);
        let _ = timeout(limit, &mut self.task).await; // what does not stop now is dropped when it does
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.pulse.abandoned.store(true, Relaxed);
    }
}

impl Pulse {
    /// Tells that the work makes progress. Returns false if nobody waits for it any more.
    pub(crate) fn goes_on(&self) -> bool {
        self.beats.fetch_add(1, Relaxed);
        !self.abandoned.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    /// The sender is dropped when the file system answers again.
    fn held_up() -> (mpsc::Sender<()>, impl FnOnce(&Pulse) + Send + 'static) {
        let (answers, wait) = mpsc::channel::<()>();
        (answers, move |_: &Pulse| {
            let _ = wait.recv();
        })
    }

    #[tokio::test]
    async fn work_that_does_not_end_keeps_its_lane_and_others_go_on() {
        let lanes = Lanes::with_patience(SHORT);
        let mut stalled = Vec::new();
        for _ in 0..PEERS {
            let (answers, work) = held_up();
            let lane = lanes.take(Who::Peer).await.unwrap();
            assert_eq!(lane.run(work).await, Err(NoAnswer(SHORT)));
            stalled.push(answers);
        }
        assert!(lanes.take(Who::Peer).await.is_err(), "each of the threads waits for the file system");
        let lane = lanes.take(Who::Local(None)).await.unwrap();
        assert_eq!(lane.run(|_| 7).await, Ok(7));
        stalled.pop();
        let freed = Lanes { patience: Duration::from_secs(20), ..lanes };
        assert!(freed.take(Who::Peer).await.is_ok(), "the lane is back when the work has ended");
    }

    /// A call to a file system may block its thread, which must not be a worker of the runtime.
    #[tokio::test]
    async fn work_has_a_thread_of_its_own() {
        let lane = Lanes::default().take(Who::Peer).await.unwrap();
        let worker = std::thread::current().id();
        assert_ne!(lane.run(|_| std::thread::current().id()).await, Ok(worker));
    }

    #[tokio::test]
    async fn one_mount_never_takes_all_lanes() {
        let (lanes, here) = (Lanes::with_patience(SHORT), File::open("/proc/self/status").unwrap());
        let mut taken = Vec::new();
        for _ in 0..LOCAL_EACH_MOUNT {
            taken.push(lanes.take(Who::Local(Some(here.as_fd()))).await.unwrap());
        }
        assert!(lanes.take(Who::Local(Some(here.as_fd()))).await.is_err());
        let elsewhere = File::open("/dev/null").unwrap();
        assert_ne!(mount_of(here.as_fd()).unwrap(), mount_of(elsewhere.as_fd()).unwrap());
        assert!(lanes.take(Who::Local(Some(elsewhere.as_fd()))).await.is_ok());
    }

    #[tokio::test]
    async fn slow_work_that_makes_progress_is_not_given_up() {
        let lane = Lanes::with_patience(SHORT).take(Who::Peer).await.unwrap();
        let slow = lane.run(|pulse| {
            let since = std::time::Instant::now();
            while since.elapsed() < 4 * SHORT {
                assert!(pulse.goes_on());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(slow.await, Ok(()));
    }

    #[tokio::test]
    async fn work_learns_that_nobody_waits_for_it() {
        let lane = Lanes::default().take(Who::Peer).await.unwrap();
        let (told, learns) = tokio::sync::oneshot::channel();
        drop(lane.begin(move |pulse| {
            while pulse.goes_on() {
                std::thread::yield_now();
            }
            let _ = told.send(());
        }));
        assert!(learns.await.is_ok());
    }
}
