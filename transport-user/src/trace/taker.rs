//! The thread that records a trace.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::{Duration, Instant};

use transport_common::connection::State;
use transport_common::queues::{CONNECTIONS, Queues as _};

use super::{Progress, TraceFile, TraceOptions};
use crate::error::Error;
use crate::loader::Attachment;
use crate::maps::{Maps, TraceRing};

/// Time between two polls of an empty ring.
const LOOK: Duration = Duration::from_micros(200);
/// Longest time for which a replaced program may still run.
const GRACE: Duration = Duration::from_millis(20);
/// Number of times that a connection is written at the begin. If a run has one step before and one step after such
/// a copy, a replay cannot repeat the run and has to wait for the next copy.
const TOLD_AT_FIRST: u32 = 12;
/// Time between two of these copies.
const AT_FIRST: Duration = Duration::from_millis(1);
/// Time between two later copies, with which a replay compares its result.
const LATER: Duration = Duration::from_secs(1);

/// The copies of a connection slot: which connection was written, how often, and when it is written next.
#[derive(Clone, Copy, Default)]
struct Told {
    generation: u32,
    times: u32,
    next: Option<Instant>,
}

/// Records a trace.
pub(super) struct Taker {
    maps: Arc<Maps>,
    attachment: Weak<Mutex<Attachment>>,
    file: TraceFile,
    runs: Option<u64>,
    end: Option<Instant>,
    progress: Arc<Progress>,
    told: Vec<Told>,
    lost_before: u64,
}

impl Taker {
    /// Creates the file and attaches the recording programs.
    pub(super) fn begin(
        options: TraceOptions,
        maps: Arc<Maps>,
        attachment: Weak<Mutex<Attachment>>,
        progress: Arc<Progress>,
    ) -> Result<Self, Error> {
        {
            let mut ring = lock(&maps)?;
            let file = TraceFile::create(options.file)?;
            let record = || {
                let programs = attachment.upgrade().ok_or(Error::NodeDown)?;
                programs.lock().expect("no panic under the lock").record(true)
            };
            let file = match record() {
                Ok(()) => file,
                Err(refused) => {
                    file.discard();
                    return Err(refused);
                }
            };
            std::thread::sleep(GRACE);
            while ring.next().is_some() {} // discards the rest of an earlier trace
            drop(ring);
            let lost_before = maps.trace_lost()?;
            let end = options.duration.map(|duration| Instant::now() + duration);
            let told = vec![Told::default(); CONNECTIONS];
            Ok(Self { maps, attachment, file, runs: options.runs, end, progress, told, lost_before })
        }
    }

    /// Records until a limit is reached or the trace is stopped. Then attaches the plain programs again.
    pub(super) fn run(mut self) -> Result<(), Error> {
        let maps = Arc::clone(&self.maps);
        let outcome = lock(&maps).and_then(|mut ring| self.take(&mut ring));
        // If the node has gone down, there are no programs any more.
        let plain = self
            .attachment
            .upgrade()
            .map_or(Ok(()), |programs| programs.lock().expect("no panic under the lock").record(false));
        let ended = outcome.and(plain).and_then(|()| {
            std::thread::sleep(GRACE);
            let mut ring = lock(&maps)?;
            while self.drain(&mut ring)? {}
            let lost = self.look_for_losses()?;
            self.file.end(self.progress.runs.load(Relaxed), lost)?;
            self.progress.bytes.store(self.file.bytes, Relaxed);
            Ok(())
        });
        self.progress.done.store(true, Relaxed);
        ended
    }

    fn take(&mut self, ring: &mut TraceRing) -> Result<(), Error> {
        loop {
            self.tell_connections()?;
            let some = self.drain(ring)?;
            self.look_for_losses()?;
            self.progress.bytes.store(self.file.bytes, Relaxed);
            let enough = self.runs.is_some_and(|runs| self.progress.runs.load(Relaxed) >= runs);
            let late = self.end.is_some_and(|end| Instant::now() >= end);
            if enough || late || self.progress.stop.load(Relaxed) || self.attachment.strong_count() == 0 {
                break;
            }
            if !some {
                std::thread::sleep(LOOK);
            }
        }
        // The connections are written once more at the end, so that a replay can compare the tables.
        self.told.iter_mut().for_each(|told| told.next = None);
        self.tell_connections()
    }

    /// Writes the content of the ring to the file. Returns whether there was any.
    fn drain(&mut self, ring: &mut TraceRing) -> Result<bool, Error> {
        /// Largest number of runs per call, so that the other work is done even if the ring never becomes empty.
        const AT_ONCE: u64 = 4096;
        let mut runs = 0;
        while runs < AT_ONCE
            && let Some(tape) = ring.next()
        {
            self.file.run(&tape)?;
            runs += 1;
        }
        self.progress.runs.fetch_add(runs, Relaxed);
        Ok(runs != 0)
    }

    /// Checks for lost runs. After a loss, all connections are written again.
    fn look_for_losses(&mut self) -> Result<u64, Error> {
        let lost = self.maps.trace_lost()? - self.lost_before;
        if self.progress.lost.swap(lost, Relaxed) != lost {
            self.file.lost(lost)?;
            self.told.fill(Told::default());
        }
        Ok(lost)
    }

    /// Writes the connections that are due.
    fn tell_connections(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        for slot in 0..CONNECTIONS {
            let queues = self.maps.queue_pairs.get(slot);
            if queues.state.load(Relaxed) == State::Closed as u32 {
                self.told[slot] = Told::default();
                continue;
            }
            if self.told[slot].next.is_some_and(|next| next > now) {
                continue;
            }
            let settings = *queues.settings();
            let entry = self.maps.connection(slot).map_err(|e| Error::system("read a connection", e))?;
            let told = &mut self.told[slot];
            if told.generation != entry.connection.generation {
                *told = Told { generation: entry.connection.generation, ..Told::default() };
            }
            told.times += 1;
            told.next = Some(now + if told.times < TOLD_AT_FIRST { AT_FIRST } else { LATER });
            self.file.connection(slot, &entry, &settings)?;
        }
        Ok(())
    }
}

/// Locks the ring for one trace.
fn lock(maps: &Maps) -> Result<std::sync::MutexGuard<'_, TraceRing>, Error> {
    match maps.trace.try_lock() {
        Ok(ring) => Ok(ring),
        Err(TryLockError::WouldBlock) => Err(Error::TraceRunning),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
    }
}
