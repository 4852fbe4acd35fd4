//! The thread: from event to result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use std::time::{Duration, Instant};

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

use super::{Assignment, RateUpdate, lock, now_nanos};
use crate::cid::slot_of;
use crate::shared::Shared;

/// Events of one queue that are handled before the next queue has its turn.
const BATCH: usize = 64;
/// Nothing has come for so long: the pauses become longer.
const QUIET: Duration = Duration::from_millis(10);
/// Pause between two looks then.
const QUIET_PAUSE: Duration = Duration::from_millis(1);

/// A connection as the thread knows it.
#[derive(Default)]
struct Local {
    version: u64,
    assignment: Option<Assignment>,
    state: EngineState,
    failed: bool,
}

struct Worker<'a> {
    shared: &'a Shared,
    engine: &'a RateUpdate,
    queues: &'a CongestionQueues,
    locals: Vec<Local>,
    /// Slots with a result that the engine program has not been told of.
    answered: [u64; CONNECTIONS / 64],
}

/// While it lives, events are admitted.
struct Admitting<'a>(&'a CongestionQueues);

impl Drop for Admitting<'_> {
    fn drop(&mut self) {
        self.0.admission.store(Admission::new(0));
    }
}

/// Answers events until the engine is told to stop.
pub(super) fn run(shared: &Arc<Shared>) {
    let engine = &shared.rate_update;
    let queues = shared.maps.congestion();
    let mut worker = Worker {
        shared,
        engine,
        queues,
        locals: (0..CONNECTIONS).map(|_| Local::default()).collect(),
        answered: [0; CONNECTIONS / 64],
    };
    // What waits there was meant for another thread, or another connection.
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
    /// One look at all queues; true if there was an event.
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

    /// Takes the next event of a queue. An entry is complete when its poll bit shows the lap (D-74).
    fn next_event(&mut self, queue: usize) -> Option<Event> {
        let consumer = &self.queues.event_consumer[queue];
        let number = consumer.load(Relaxed);
        let slot = &self.queues.events[queue][number as usize % EVENT_QUEUE_DEPTH];
        // SAFETY: the last word of the entry, aligned; the datapath writes it last, so it is read first.
        let last = unsafe { AtomicU64::from_ptr(slot.as_ptr().cast::<u64>().add(7)) }.load(Acquire);
        if Event::generation_of(&[0, 0, 0, 0, 0, 0, 0, last]) != generation_of(number) {
            return None;
        }
        let mut event = Event::default();
        event.decode(&slot.load());
        consumer.store(number + 1, Release);
        Some(event)
    }

    /// Runs the connection's algorithm and queues what comes of it.
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
        // A slow algorithm shows as a stall from here on.
        self.engine.heartbeat.store(now, SeqCst);
        event.stamp(NicTime::from_picoseconds(Picoseconds::from_nanos(now))); // D-70
        let mut outcome = Outcome::default();
        let algorithm = assignment.algorithm.get();
        let run = || algorithm.update(event, &mut local.state, &assignment.prepared, &mut outcome);
        // Nothing of a failed algorithm is used again: neither its state nor its result.
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
            // Another one may have been set meanwhile: that one has not failed.
            if place.version.load(SeqCst) == version {
                *failure = Some(format!("{} panicked: {reason}", algorithm.name()));
            }
            return;
        }
        // A result is for the connection that asked, whatever the algorithm says.
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

    /// Rings for the connections with a result: a sleeping engine program would not see it.
    fn tell(&mut self) {
        for (index, word) in self.answered.iter_mut().enumerate() {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                self.shared.ring(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Sleeps until a connection is placed in user space again.
    fn park(&self) {
        self.engine.parked.store(true, SeqCst);
        // As with the engine's doorbell: announce, look again, then park.
        if !self.engine.is_needed() && !self.engine.stop.load(SeqCst) {
            std::thread::park();
        }
        self.engine.heartbeat.store(now_nanos(), SeqCst);
        self.engine.parked.store(false, SeqCst);
    }
}

/// What a panic said.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
