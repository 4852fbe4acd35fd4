//! The memory that several CPUs share, under loom: queue pair, doorbell, lock and clock page.
//!
//! loom runs each model in every order of its threads' accesses, with every value that a load may return under the rules
//! of Rust's memory model. The code is the one that XDP programs, node and applications execute. Only the words are
//! loom's (`shared/modelled.rs`). `cargo xtask threads` runs these tests.
//!
//! Each protocol is also tried with an order that is wrong in one place. Those tests expect the failure, and so show that
//! the model can find it.

use bytemuck::Zeroable;
use bytemuck::allocation::zeroed_box;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use transport_common::hardware_clock::{CardTime, ClockPage, Relation};
use transport_common::ids::WorkPosition;
use transport_common::queues::{
    COMPLETION_QUEUE_DEPTH, Completion, QueuePair, Queues, Readiness, ReceiveRequest, Slot, WorkRequest,
};
use transport_common::shard::{NodePage, ReadySet, SLEEPERS_SLACK};
use transport_common::shared::{AtomicU64, Lock};
use transport_common::units::Picoseconds;

/// A slot whose bit is not in the first word of the doorbells.
const SLOT: u32 = 70;

/// Memory that threads share.
trait Shared: Zeroable {
    /// Uses each word and each entry that a model uses, before its threads start. loom takes the first use as the
    /// creation, which must be ordered before all others.
    fn touch(&self);
}

impl Shared for QueuePair {
    fn touch(&self) {
        for word in [&self.send_producer, &self.receive_producer, &self.control.receive_wanted] {
            word.load(Relaxed);
        }
        for word in [&self.completion_producer, &self.completion_consumer, &self.control.state] {
            word.load(Relaxed);
        }
        self.control.armed.load(Relaxed);
        for n in 0..2 {
            self.send[n].load();
            self.receive[n].load();
            self.completions[n].load();
            self.completion_queue().get(n as u32);
        }
    }
}

impl Shared for ClockPage {
    fn touch(&self) {
        // Both places of a relation.
        for n in 0..2 {
            self.publish(Relation { stamp: CardTime(n), time: Picoseconds(n), drift: n as i64 });
        }
        self.relation();
    }
}

/// Returns zeroed memory that threads share.
fn page<T: Shared>() -> Arc<T> {
    let page: Arc<T> = Arc::from_std(std::sync::Arc::from(zeroed_box::<T>()));
    Shared::touch(&*page);
    page
}

fn start<T: Send + Sync + 'static, R: 'static>(
    page: &Arc<T>,
    run: impl FnOnce(&T) -> R + 'static,
) -> JoinHandle<R> {
    let page = Arc::clone(page);
    thread::spawn(move || run(&page))
}

fn work(n: u64) -> WorkRequest {
    WorkRequest { wr_id: n, remote_address: n, ..WorkRequest::default() }
}

fn completion(n: u64) -> Completion {
    Completion { wr_id: n, length: n as u32, ..Completion::default() }
}

/// Takes what was posted, like the engine. Returns the number of sends that it saw, and checks each.
fn take_sends(pair: &QueuePair) -> u32 {
    let posted = pair.send_producer().0;
    for n in 0..posted {
        let mut read = WorkRequest::default();
        pair.load_work_request(WorkPosition(n), &mut read);
        assert_eq!(read, work(u64::from(n) + 1));
    }
    posted
}

#[test]
fn engine_sees_whole_sends() {
    loom::model(|| {
        let pair = page::<QueuePair>();
        let engine = start(&pair, take_sends);
        pair.work_queue().post(WorkPosition(0), work(1));
        pair.work_queue().post(WorkPosition(1), work(2));
        engine.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn send_that_is_announced_before_it_is_written_is_found() {
    loom::model(|| {
        let pair = page::<QueuePair>();
        let engine = start(&pair, take_sends);
        pair.send_producer.store(1, Release);
        pair.send[0].store(work(1));
        engine.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn send_that_is_announced_without_order_is_found() {
    loom::model(|| {
        let pair = page::<QueuePair>();
        let engine = start(&pair, take_sends);
        pair.send[0].store(work(1));
        pair.send_producer.store(1, Relaxed);
        engine.join().unwrap();
    });
}

/// A queue pair whose kernel side is shared by two CPUs.
#[derive(Zeroable)]
#[repr(C)]
struct Locked {
    lock: Lock,
    pair: QueuePair,
}

impl Shared for Locked {
    fn touch(&self) {
        assert!(self.lock.acquire());
        self.lock.release();
        Shared::touch(&self.pair);
    }
}

/// The application takes completions while two CPUs write them.
fn collect_from_two_cpus(take_lock: bool) {
    loom::model(move || {
        let locked = page::<Locked>();
        let cpu = move |n| {
            move |locked: &Locked| {
                assert!(!take_lock || locked.lock.acquire());
                assert!(locked.pair.complete(completion(n)));
                if take_lock {
                    locked.lock.release();
                }
            }
        };
        let cpus = [start(&locked, cpu(1)), start(&locked, cpu(2))];
        let early: Vec<u64> =
            (0..2).map_while(|n| locked.pair.completion_queue().get(n)).map(|c| c.wr_id).collect();
        cpus.into_iter().for_each(|cpu| cpu.join().unwrap());
        let all = [0, 1].map(|n| locked.pair.completion_queue().get(n).expect("it is there").wr_id);
        assert!(all == [1, 2] || all == [2, 1]);
        assert_eq!(early, all[..early.len()]);
    });
}

#[test]
fn application_sees_whole_completions_of_two_cpus() {
    collect_from_two_cpus(true);
}

#[test]
#[should_panic]
fn completions_without_the_lock_are_found() {
    collect_from_two_cpus(false);
}

/// An entry of the completion ring is written again only after the application has read it.
#[test]
fn completion_is_not_overwritten_before_it_is_taken() {
    const DEPTH: u32 = COMPLETION_QUEUE_DEPTH as u32;
    // The writes before the threads start count as well.
    let mut model = loom::model::Builder::new();
    model.max_branches = 100_000;
    model.check(|| {
        let pair = page::<QueuePair>();
        (0..DEPTH).for_each(|n| assert!(pair.complete(completion(n.into()))));
        let kernel = start(&pair, |pair| pair.complete(completion(DEPTH.into())));
        assert_eq!(pair.completion_queue().get(0).map(|c| c.wr_id), Some(0));
        pair.completion_consumer.store(1, Release);
        let written = kernel.join().unwrap();
        assert_eq!(pair.completion_queue().get(DEPTH).map(|c| c.wr_id), written.then_some(DEPTH.into()));
    });
}

/// An application arms its queue, looks and sleeps if there is nothing, while `cpus` CPUs write a completion each. Returns
/// how many notices there were if it sleeps.
fn sleep_while_a_completion_is_written(
    cpus: usize,
    arm: fn(&QueuePair),
    release: fn(&Lock),
    judge: fn(sleeps: bool, notices: usize),
) {
    loom::model(move || {
        let locked = page::<Locked>();
        let cpu = move |locked: &Locked| {
            assert!(locked.lock.acquire());
            assert!(locked.pair.complete(completion(1)));
            release(&locked.lock);
            locked.pair.completion_queue().takes_notice()
        };
        let cpus: Vec<_> = (0..cpus).map(|_| start(&locked, cpu)).collect();
        arm(&locked.pair);
        let sleeps = locked.pair.completion_queue().get(0).is_none();
        judge(sleeps, cpus.into_iter().filter_map(|cpu| cpu.join().unwrap().then_some(())).count());
    });
}

fn arm(pair: &QueuePair) {
    pair.completion_queue().arm(0, 0);
}

fn is_woken(sleeps: bool, notices: usize) {
    assert!(!sleeps || notices == 1, "the application sleeps, and its completion waits");
    assert!(notices <= 1, "one notice for each time the queue is armed");
}

#[test]
fn application_that_falls_asleep_is_woken_once() {
    for cpus in [1, 2] {
        sleep_while_a_completion_is_written(cpus, arm, Lock::release, is_woken);
    }
}

#[test]
#[should_panic(expected = "the application sleeps")]
fn armed_word_without_a_barrier_is_found() {
    let arm = |pair: &QueuePair| pair.control.armed.store(u64::MAX, Release);
    sleep_while_a_completion_is_written(1, arm, Lock::release, is_woken);
}

/// The kernel's half: the lock's word is written without a barrier.
#[test]
#[should_panic(expected = "the application sleeps")]
fn look_at_the_armed_word_without_a_barrier_is_found() {
    sleep_while_a_completion_is_written(1, arm, |_| (), is_woken);
}

/// The kernel asks for a receive and looks again. The application posts one and looks whether it is asked for.
fn ask_while_a_receive_is_posted(ask: fn(&QueuePair)) {
    loom::model(move || {
        let pair = page::<QueuePair>();
        let kernel = start(&pair, move |pair| {
            ask(pair);
            pair.readiness(0) == Readiness::Ready
        });
        let rings = pair.post_receive(0, ReceiveRequest { wr_id: 7, ..ReceiveRequest::default() });
        let seen = kernel.join().unwrap();
        assert!(rings || seen, "nobody delivers the held request");
    });
}

#[test]
fn receive_for_a_held_request_is_noticed() {
    ask_while_a_receive_is_posted(|pair| pair.set_receive_wanted(1));
}

#[test]
#[should_panic(expected = "nobody delivers the held request")]
fn question_without_a_barrier_is_found() {
    ask_while_a_receive_is_posted(|pair| pair.control.receive_wanted.store(1, Release));
}

/// The kernel fills the completion queue, asks for a place and looks again. The application takes a completion and looks
/// whether its place is asked for.
fn ask_while_a_completion_is_taken(ask: fn(&QueuePair)) {
    const FIRST: u32 = 0u32.wrapping_sub(COMPLETION_QUEUE_DEPTH as u32 - 1);
    loom::model(move || {
        let pair = page::<QueuePair>();
        let _ = pair.post_receive(0, ReceiveRequest::default());
        pair.completion_consumer.store(FIRST, Relaxed);
        let kernel = start(&pair, move |pair| {
            assert!(pair.complete(completion(1)), "one place is left");
            let ready = |pair: &QueuePair| pair.readiness(0) == Readiness::Ready;
            ready(pair) || {
                ask(pair);
                ready(pair)
            }
        });
        let rings = pair.take_completions(FIRST.wrapping_add(1));
        let seen = kernel.join().unwrap();
        assert!(rings || seen, "nobody delivers the held request");
    });
}

#[test]
fn place_for_a_held_request_is_noticed() {
    ask_while_a_completion_is_taken(|pair| pair.set_receive_wanted(1));
}

#[test]
#[should_panic(expected = "nobody delivers the held request")]
fn question_for_a_place_without_a_barrier_is_found() {
    ask_while_a_completion_is_taken(|pair| pair.control.receive_wanted.store(1, Release));
}

/// The application's sends, and the node page.
#[derive(Zeroable)]
#[repr(C)]
struct Node {
    node: NodePage,
    pair: QueuePair,
    lock: Lock,
    state: Slot<u64>,
}

impl Shared for Node {
    fn touch(&self) {
        Shared::touch(&self.pair);
        self.state.load();
        assert!(self.lock.acquire());
        self.lock.release();
        let _ = self.node.begin_sleep(Picoseconds(0));
        self.node.end_sleep();
    }
}

/// The application posts and rings while the engine serves the connection and then sleeps.
fn ring_while_the_engine_falls_asleep(ring: fn(&NodePage) -> bool) {
    loom::model(move || {
        let shared = page::<Node>();
        shared.node.set_ready(SLOT);
        let engine = start(&shared, |shared| {
            shared.node.clear_ready(SLOT);
            let seen = take_sends(&shared.pair);
            (seen, shared.node.begin_sleep(Picoseconds(0)))
        });
        shared.pair.work_queue().post(WorkPosition(0), work(1));
        let wakes = ring(&shared.node);
        let (seen, sleeps) = engine.join().unwrap();
        assert!(seen == 1 || !sleeps || wakes, "the engine sleeps, and the work waits");
    });
}

#[test]
fn doorbell_reaches_an_engine_that_falls_asleep() {
    ring_while_the_engine_falls_asleep(|node| node.ring_posted(SLOT));
}

#[test]
#[should_panic(expected = "the engine sleeps")]
fn doorbell_without_a_barrier_is_found() {
    ring_while_the_engine_falls_asleep(|node| node.ring(SLOT));
}

#[test]
#[should_panic(expected = "the engine sleeps")]
fn look_at_the_engine_before_the_bit_is_set_is_found() {
    ring_while_the_engine_falls_asleep(|node| {
        let sleeps = node.engine_sleeping.load(SeqCst) == 1;
        node.ring_posted(SLOT) && sleeps
    });
}

/// An engine that looks for the last time before it announces its sleep.
#[test]
#[should_panic(expected = "the engine sleeps")]
fn last_look_before_the_announcement_is_found() {
    loom::model(|| {
        let shared = page::<Node>();
        let engine = start(&shared, |shared| {
            let idle = shared.node.ready.words.iter().all(|word| word.load(SeqCst) == 0);
            shared.node.engine_sleeping.store(1, SeqCst);
            idle
        });
        let wakes = shared.node.ring_posted(SLOT);
        assert!(!engine.join().unwrap() || wakes, "the engine sleeps, and the work waits");
    });
}

/// A program changes a connection under its lock and rings, while the bit may still be set from before. The engine, which
/// was asked before, serves the connection and falls asleep.
fn ring_after_a_step(ring: fn(&NodePage) -> bool) {
    loom::model(move || {
        let shared = page::<Node>();
        shared.node.set_ready(SLOT);
        let engine = start(&shared, |shared| {
            shared.node.clear_ready(SLOT);
            assert!(shared.lock.acquire());
            let seen = shared.state.load();
            shared.lock.release();
            (seen, shared.node.begin_sleep(Picoseconds(0)))
        });
        assert!(shared.lock.acquire());
        shared.state.store(1);
        shared.lock.release();
        let wakes = ring(&shared.node);
        let (seen, sleeps) = engine.join().unwrap();
        assert!(seen == 1 || !sleeps || wakes, "the engine sleeps, and the work waits");
    });
}

#[test]
fn program_reaches_the_engine_after_its_step() {
    ring_after_a_step(|node| node.ring(SLOT));
}

#[test]
fn program_with_a_deadline_reaches_the_engine_after_its_step() {
    ring_after_a_step(|node| node.ring_by(SLOT, Picoseconds(5)));
}

/// Of two programs that find the engine asleep, one wakes it.
#[test]
fn one_of_two_callers_wakes_the_engine() {
    loom::model(|| {
        let shared = page::<Node>();
        assert!(shared.node.begin_sleep(Picoseconds(0)));
        let other = start(&shared, |shared| shared.node.ring(SLOT));
        let wakes = shared.node.ring(SLOT + 1);
        assert!(other.join().unwrap() ^ wakes);
    });
}

/// An engine that wakes up in time by itself is not woken. One that wakes up too late is.
#[test]
fn planned_wake_in_time_needs_no_caller() {
    let planned = Picoseconds(1_000_000);
    for (deadline, calls) in [(planned, false), (Picoseconds(0), true)] {
        loom::model(move || {
            let late = planned.after(SLEEPERS_SLACK);
            let shared = page::<Node>();
            let engine = start(&shared, move |shared| shared.node.begin_sleep(late));
            let wakes = shared.node.ring_by(SLOT, deadline);
            let sleeps = engine.join().unwrap();
            assert_eq!(wakes, wakes && calls);
            assert!(!calls || !sleeps || wakes, "the engine sleeps, and the work waits");
        });
    }
}

/// A slot whose bit is in the same word as that of [`SLOT`].
const NEIGHBOUR: u32 = SLOT + 1;

/// A set of two levels, and whether its engine sleeps.
#[derive(Zeroable)]
#[repr(C)]
struct TwoLevels {
    ready: ReadySet<16>,
    sleeps: AtomicU64,
}

impl Shared for TwoLevels {
    fn touch(&self) {
        self.ready.bits();
        self.ready.summary.load(Relaxed);
        self.sleeps.load(Relaxed);
    }
}

/// The engine serves one slot and finds its word empty, while another CPU adds the neighbour. Afterwards a search finds it.
fn add_while_the_word_is_withdrawn(add: fn(&ReadySet<16>), withdraw: fn(&ReadySet<16>)) {
    loom::model(move || {
        let shared = page::<TwoLevels>();
        shared.ready.set(SLOT);
        let engine = start(&shared, move |shared| {
            shared.ready.clear(SLOT);
            withdraw(&shared.ready);
        });
        add(&shared.ready);
        engine.join().unwrap();
        assert_eq!(shared.ready.next(&mut 0), Some(NEIGHBOUR), "the request is lost");
    });
}

/// A search that finds nothing, or the neighbour.
fn search(ready: &ReadySet<16>) {
    let found = ready.next(&mut 0);
    assert!(found.is_none() || found == Some(NEIGHBOUR));
}

#[test]
fn request_in_a_word_that_is_withdrawn_is_found() {
    add_while_the_word_is_withdrawn(|ready| ready.set(NEIGHBOUR), search);
}

#[test]
#[should_panic(expected = "the request is lost")]
fn word_that_is_not_read_again_is_found() {
    add_while_the_word_is_withdrawn(
        |ready| ready.set(NEIGHBOUR),
        |ready| {
            if ready.words[1].load(SeqCst) == 0 {
                ready.summary.fetch_and(!(1 << 1), SeqCst);
            }
        },
    );
}

#[test]
#[should_panic(expected = "the request is lost")]
fn summary_that_is_set_before_the_bit_is_found() {
    add_while_the_word_is_withdrawn(
        |ready| {
            ready.summary.fetch_or(1 << 1, SeqCst);
            ready.words[1].fetch_or(1 << (NEIGHBOUR % 64), SeqCst);
        },
        search,
    );
}

/// An engine that withdraws the last word falls asleep while another CPU asks for a service.
fn ask_two_levels_while_the_engine_falls_asleep(ask: fn(&ReadySet<16>)) {
    loom::model(move || {
        let shared = page::<TwoLevels>();
        shared.ready.set(SLOT);
        let engine = start(&shared, |shared| {
            shared.ready.clear(SLOT);
            let found = shared.ready.next(&mut 0).is_some();
            shared.sleeps.swap(1, SeqCst);
            !found && shared.ready.is_empty()
        });
        ask(&shared.ready);
        let wakes = shared.sleeps.load(SeqCst) == 1;
        let sleeps = engine.join().unwrap();
        assert!(!sleeps || wakes, "the engine sleeps, and the work waits");
    });
}

#[test]
fn engine_with_two_levels_does_not_sleep_through_a_request() {
    ask_two_levels_while_the_engine_falls_asleep(|ready| ready.set(NEIGHBOUR));
}

#[test]
#[should_panic(expected = "the engine sleeps")]
fn request_without_its_summary_is_found() {
    ask_two_levels_while_the_engine_falls_asleep(|ready| {
        ready.words[1].fetch_or(1 << (NEIGHBOUR % 64), SeqCst);
    });
}

/// Two CPUs add the same slot. One of them finds its bit set, and may be the first that comes to the summary.
#[test]
fn request_is_found_whoever_of_two_is_first() {
    loom::model(|| {
        let shared = page::<TwoLevels>();
        let other = start(&shared, |shared| shared.ready.set(SLOT));
        shared.ready.set(SLOT);
        assert_eq!(shared.ready.next(&mut 0), Some(SLOT));
        other.join().unwrap();
    });
}

/// Two CPUs change a value under the lock.
fn count_on_two_cpus(acquire: fn(&Lock) -> bool) {
    loom::model(move || {
        let shared = page::<Node>();
        let count = move |shared: &Node| {
            assert!(acquire(&shared.lock));
            shared.state.store(shared.state.load() + 1);
            shared.lock.release();
        };
        let other = start(&shared, count);
        count(&shared);
        other.join().unwrap();
        assert!(shared.lock.acquire());
        assert_eq!(shared.state.load(), 2);
    });
}

#[test]
fn lock_keeps_others_out() {
    count_on_two_cpus(Lock::acquire);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn lock_that_is_not_taken_is_found() {
    count_on_two_cpus(|_| true);
}

/// The clock thread publishes relations while a program reads one.
#[test]
fn relation_of_the_clocks_is_whole() {
    let relation = |n: u64| Relation { stamp: CardTime(n), time: Picoseconds(n), drift: n as i64 };
    loom::model(move || {
        let clock = page::<ClockPage>();
        let reader = start(&clock, |clock| clock.relation());
        [2, 3].map(relation).into_iter().for_each(|relation| clock.publish(relation));
        if let Some(read) = reader.join().unwrap() {
            assert!((0..=3).any(|n| read == relation(n)), "{read:?}");
        }
    });
}

/// loom sees accesses to a word within an entry, also by its address.
#[test]
#[should_panic(expected = "Causality violation")]
fn completion_that_is_read_without_its_number_is_found() {
    loom::model(|| {
        let pair = page::<QueuePair>();
        let kernel = start(&pair, |pair| assert!(pair.complete(completion(1))));
        let _ = pair.completions[0].load();
        let _ = pair.completion_producer.load(Acquire);
        kernel.join().unwrap();
    });
}
