//! The thread of the rate update engine: takes events, runs algorithms, and queues results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use std::time::{Duration, Instant};

use tiercel::backend::{Datapath, slot_of};
use transport_common::congestion::admission::Admission;
use transport_common::congestion::algorithm::EngineState;
use transport_common::congestion::event::Event;
use transport_common::congestion::nic_time::NicTime;
use transport_common::congestion::queues::{
    CongestionQueues, EVENT_QUEUE_DEPTH, EVENT_QUEUES, RESULT_QUEUE_DEPTH, generation_of,
};
use transport_common::congestion::result::Outcome;
use transport_common::ids::Cid;
use transport_common::queues::CONNECTIONS;
use transport_common::units::Picoseconds;

use super::state::{Assignment, State, now_nanos};
use crate::common::mutex::lock;

/// Number of events of one queue that are handled before the next queue is served.
const BATCH: usize = 64;
/// After this time without an event, the pauses become longer.
const QUIET: Duration = Duration::from_millis(10);
/// The longer pause between two polls.
const QUIET_PAUSE: Duration = Duration::from_millis(1);

/// The thread's state of a connection slot.
#[derive(Default)]
struct Local {
    version: u64,
    assignment: Option<Assignment>,
    state: EngineState,
    failed: bool,
}

struct Worker<'a> {
    datapath: &'a Datapath,
    engine: &'a State,
    queues: &'a CongestionQueues,
    locals: Vec<Local>,
    /// Slots with a queued result for which the doorbell was not rung yet.
    answered: [u64; CONNECTIONS / 64],
}

/// Admission of events. Dropping it stops the admission.
struct Admitting<'a>(&'a CongestionQueues);

impl Drop for Admitting<'_> {
    fn drop(&mut self) {
        self.0.admission.store(Admission::new(0));
    }
}

/// Answers events until the engine is told to stop.
pub(super) fn run(engine: &State, datapath: &Datapath) {
    let queues = datapath.maps.congestion();
    let mut worker = Worker {
        datapath,
        engine,
        queues,
        locals: (0..CONNECTIONS).map(|_| Local::default()).collect(),
        answered: [0; CONNECTIONS / 64],
    };
    // Events that are already in the queues belong to an earlier thread or an earlier connection, so they are
    // discarded.
    for queue in 0..EVENT_QUEUES {
        while worker.next_event(queue).is_some() {}
    }
    let _admitting = Admitting(queues);
    queues.admission.store(engine.admission);
    let mut last_event = Instant::now();
    while !engine.stop.load(SeqCst) {
        if worker.look() {
            last_event = Instant::now();
            continue;
        }
        let idle = last_event.elapsed();
        if idle < engine.options.spin {
            std::hint::spin_loop();
        } else if idle < QUIET {
            std::thread::sleep(engine.options.pause);
        } else if engine.is_needed() {
            std::thread::sleep(QUIET_PAUSE);
        } else {
            worker.park();
        }
    }
}

impl Worker<'_> {
    /// Polls all queues once. Returns true if there was an event.
    fn look(&mut self) -> bool {
        self.engine.heartbeat.store(now_nanos(), SeqCst);
        let mut found = false;
        for queue in 0..EVENT_QUEUES {
            for _ in 0..BATCH {
                let Some(mut event) = self.next_event(queue) else { break };
                found = true;
                self.engine.counts.events.fetch_add(1, Relaxed);
                self.handle(&mut event);
            }
        }
        if found {
            self.tell();
        }
        found
    }

    /// Takes the next event of a queue. An entry is complete when its poll bit has the value of the current lap
    /// (D-74).
    fn next_event(&mut self, queue: usize) -> Option<Event> {
        let consumer = &self.queues.event_consumer[queue];
        let number = consumer.load(Relaxed);
        let slot = &self.queues.events[queue][number as usize % EVENT_QUEUE_DEPTH];
        // SAFETY: this is the last word of the entry, and it is aligned. The datapath writes it last, so it is
        // read first.
        let last = unsafe { AtomicU64::from_ptr(slot.as_ptr().cast::<u64>().add(7)) }.load(Acquire);
        if Event::generation_of(&[0, 0, 0, 0, 0, 0, 0, last]) != generation_of(number) {
            return None;
        }
        let mut event = Event::default();
        event.decode(&slot.load());
        consumer.store(number + 1, Release);
        Some(event)
    }

    /// Runs the algorithm of the connection and queues the result.
    fn handle(&mut self, event: &mut Event) {
        let slot = slot_of(Cid(event.connection_id));
        let local = &mut self.locals[slot];
        let place = &self.engine.places[slot];
        let version = place.version.load(SeqCst);
        if version != local.version {
            let assignment = lock(&place.assignment).clone();
            *local = Local { version, assignment, ..Local::default() };
        }
        let Some(assignment) =
            local.assignment.as_ref().filter(|a| a.cid.0 == event.connection_id && !local.failed)
        else {
            self.engine.counts.unanswered.fetch_add(1, Relaxed);
            return;
        };
        let now = now_nanos();
        // If the algorithm is slow, the engine counts as stalled from here on.
        self.engine.heartbeat.store(now, SeqCst);
        event.stamp(NicTime::from_picoseconds(Picoseconds::from_nanos(now))); // D-70
        let mut outcome = Outcome::default();
        let algorithm = assignment.algorithm.get();
        let run = || algorithm.update(event, &mut local.state, &assignment.prepared, &mut outcome);
        // Neither the state nor the result of a failed algorithm is used again.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            local.failed = true;
            self.engine.counts.panics.fetch_add(1, Relaxed);
            self.engine.counts.unanswered.fetch_add(1, Relaxed);
            let reason = panic_text(panic.as_ref());
            tracing::error!(
                cid = event.connection_id,
                algorithm = algorithm.name(),
                reason,
                "an algorithm panicked"
            );
            let mut failure = lock(&place.failure);
            // Another algorithm may have been set in the meantime. That one has not failed.
            if place.version.load(SeqCst) == version {
                *failure = Some(format!("{} panicked: {reason}", algorithm.name()));
            }
            return;
        }
        // The result belongs to the connection of the event, whatever the algorithm wrote.
        outcome.connection_id = event.connection_id;
        self.answer(slot, &outcome);
    }

    fn answer(&mut self, slot: usize, outcome: &Outcome) {
        let producer = self.queues.result_producer.load(Relaxed);
        let waiting = producer.wrapping_sub(self.queues.result_consumer.load(Acquire));
        if waiting >= RESULT_QUEUE_DEPTH as u64 {
            self.engine.counts.result_queue_full.fetch_add(1, Relaxed);
            return;
        }
        let mut entry = [0; 8];
        outcome.encode(&mut entry);
        self.queues.results[producer as usize % RESULT_QUEUE_DEPTH].store(entry);
        self.queues.result_producer.store(producer.wrapping_add(1), Release);
        self.engine.counts.results.fetch_add(1, Relaxed);
        self.answered[slot / 64] |= 1 << (slot % 64);
    }

    /// Rings the doorbell for the connections with a result. A sleeping engine would not see the result otherwise.
    fn tell(&mut self) {
        for (index, word) in self.answered.iter_mut().enumerate() {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                self.datapath.ring(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Sleeps until a connection is placed in user space again.
    fn park(&self) {
        self.engine.parked.store(true, SeqCst);
        // As with the engine's doorbell: first announce, then check again, then park.
        if !self.engine.is_needed() && !self.engine.stop.load(SeqCst) {
            std::thread::park();
        }
        self.engine.heartbeat.store(now_nanos(), SeqCst);
        self.engine.parked.store(false, SeqCst);
    }
}

/// Returns the message of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
