//! Threads that sleep on the descriptor of a completion queue, between two nodes.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use tiercel::{
    Access, Completion, CompletionQueue, Connection, ConnectionState, Verb, WorkFlags, WorkRequest,
};
use tiercel_tests::checks::{block_on, counter, wait_until};
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::stopwatch::Stopwatch;
use tiercel_tests::{Pair, need_root};
use transport_common::counters::Counter;
use transport_common::ids::Cid;

/// What a sleeping thread has done.
#[derive(Debug, Default)]
struct Sleeper {
    /// How often it has decided to sleep.
    asleep: AtomicU64,
    /// How often it has woken up.
    woken: AtomicU64,
    /// Completions that it has taken.
    taken: AtomicU64,
}

impl Sleeper {
    /// Takes completions and sleeps, until none can come. Returns the CPU time of the calling thread.
    fn run(&self, queue: &CompletionQueue) -> Result<Duration> {
        let event = queue.event()?;
        let mut completions = [Completion::default(); 16];
        loop {
            while let Some((_, taken)) = queue.poll(&mut completions) {
                assert!(completions[..taken].iter().all(|completion| completion.status == 0));
                self.taken.fetch_add(taken as u64, SeqCst);
            }
            if event.arm() {
                self.asleep.fetch_add(1, SeqCst);
                poll(&mut [PollFd::new(event.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)?;
                self.woken.fetch_add(1, SeqCst);
            } else if !queue.is_alive() {
                return Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into());
            }
        }
    }

    fn sleeps(&self) -> bool {
        let woken = self.woken.load(SeqCst);
        self.asleep.load(SeqCst) > woken
    }
}

/// A queue that collects the completions of one connection.
fn queue_of(connection: &Connection) -> CompletionQueue {
    let queue = CompletionQueue::new();
    queue.attach(connection);
    queue
}

/// While nothing comes for it, a sleeping thread uses no CPU, whatever other connections do. A completion wakes it, and so
/// does the end of its connection.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_thread_that_sleeps_uses_no_cpu_and_wakes() -> Result<()> {
    need_root();
    /// Operations of another connection meanwhile.
    const OTHERS: u64 = 3000;
    const MOST: Duration = Duration::from_millis(20);
    let setup = Setup::default();
    let nodes = TwoNodes::up(Pair::direct()?, setup)?;
    let [busy, peer] = nodes.connect([Cid(21), Cid(22)], setup)?;
    let (local, remote) = (nodes.a.register(4096, Access::ALL)?, nodes.b.register(4096, Access::ALL)?);
    let sleeper = Sleeper::default();
    let queue = queue_of(&nodes.at_a);
    let used = thread::scope(|scope| -> Result<Duration> {
        let thread = scope.spawn(|| sleeper.run(&queue));
        wait_until("it sleeps", || sleeper.sleeps());
        block_on(async {
            for _ in 0..OTHERS {
                busy.write(&local, 0, remote.key(), 0, 64).await?;
            }
            anyhow::Ok(())
        })?;
        let woken = sleeper.woken.load(SeqCst);
        assert_eq!(woken, 0, "nothing came for it");
        for n in 1..=3 {
            nodes.at_a.post_receive(&local, 0, 4096, n)?;
            block_on(nodes.at_b.send(&remote, 0, 8, None))?;
            wait_until("a receive wakes it", || sleeper.taken.load(SeqCst) == n);
            wait_until("it sleeps again", || sleeper.sleeps());
        }
        // The peer learns of it, and the connection of this end is closed as well.
        nodes.at_a.close();
        thread.join().expect("it does not panic")
    })?;
    println!("the thread used {used:?}, and woke {} times", sleeper.woken.load(SeqCst));
    assert!(used < MOST, "{used:?} of CPU time, and {MOST:?} is permitted");
    assert!(sleeper.woken.load(SeqCst) <= 16, "it woke for its completions: {sleeper:?}");
    assert_eq!(nodes.at_a.state(), ConnectionState::Closed);
    [busy, peer].iter().for_each(Connection::close);
    Ok(())
}

/// Each of many sleeping threads wakes in each of many rounds, and soon: the poller's look without a notice, ten times per
/// second, is only for words that an application has overwritten.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn none_of_many_that_sleep_is_forgotten() -> Result<()> {
    need_root();
    const MANY: u32 = 48;
    const ROUNDS: u64 = 100;
    /// With notices, all rounds take about a second. Without them, each takes 100 ms or more.
    const BOUND: Duration = Duration::from_secs(4);
    let setup = Setup::default();
    let nodes = TwoNodes::up(Pair::direct()?, setup)?;
    let ends =
        (0..MANY).map(|n| nodes.connect([Cid(32 + n), Cid(128 + n)], setup)).collect::<Result<Vec<_>>>()?;
    let (local, remote) = (nodes.a.register(4096, Access::ALL)?, nodes.b.register(4096, Access::ALL)?);
    let work = WorkRequest {
        opcode: Verb::WRITE,
        flags: WorkFlags::SIGNALED,
        length: 8,
        local_offset: local.local_offset(0, 8)?,
        rkey: remote.key().0,
        ..WorkRequest::default()
    };
    let sleepers: Vec<Sleeper> = ends.iter().map(|_| Sleeper::default()).collect();
    let queues: Vec<CompletionQueue> = ends.iter().map(|[at_a, _]| queue_of(at_a)).collect();
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| -> Result<()> {
        for (sleeper, queue) in sleepers.iter().zip(&queues) {
            scope.spawn(|| {
                if sleeper.run(queue).is_err() {
                    failed.fetch_add(1, SeqCst);
                }
            });
        }
        let all = |holds: &dyn Fn(&Sleeper) -> bool| sleepers.iter().all(holds);
        let stopwatch = Stopwatch::start();
        let mut outcome = Ok(());
        for round in 1..=ROUNDS {
            wait_until("all sleep", || all(&Sleeper::sleeps));
            outcome = ends.iter().try_for_each(|[at_a, _]| at_a.post(work).map(drop));
            if outcome.is_err() {
                break;
            }
            wait_until("all have woken", || all(&|sleeper| sleeper.taken.load(SeqCst) == round));
        }
        let taken = stopwatch.taken();
        ends.iter().flatten().for_each(Connection::close);
        outcome?;
        taken.check("to wake many threads in 100 rounds", BOUND);
        Ok(())
    })?;
    assert_eq!(failed.load(SeqCst), 0);
    assert_eq!(counter(&nodes.a, Counter::NoticeRingFull), 0, "there is a place for each queue");
    Ok(())
}
