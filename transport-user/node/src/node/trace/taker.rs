//! The thread that records a trace.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tiercel::Error;
use tiercel::backend::Maps;
use transport_common::connection::State;
use transport_common::queues::CONNECTIONS;

use super::file::TraceFile;
use super::progress::{Progress, TraceOptions};
use crate::node::error::NodeError;
use crate::node::instruments::{Instruments, TraceRing};
use crate::node::xdp::loader::Attachment;

/// Time between two polls of an empty ring.
const LOOK: Duration = Duration::from_micros(200);
/// Longest time for which a replaced program may still run.
const GRACE: Duration = Duration::from_millis(20);
/// Number of times that a connection is written at the start. If a run has one step before and one step after such
/// a copy, a replay cannot repeat the run and has to wait for the next copy.
const TOLD_AT_FIRST: u32 = 12;
/// Time between two of these copies.
const AT_FIRST: Duration = Duration::from_millis(1);
/// Time between two later copies, with which a replay compares its result.
const LATER: Duration = Duration::from_secs(1);

/// The copies of a connection slot: which connection was written, after how many steps, how often, and when it is
/// written next.
#[derive(Clone, Copy, Default)]
struct Told {
    generation: u32,
    steps: u64,
    times: u32,
    next: Option<Instant>,
}

/// The ring with the recorded runs, taken out of the instruments. Dropping it gives it back, so that the next trace can begin.
struct TakenRing {
    instruments: Arc<Instruments>,
    ring: Option<TraceRing>,
}

impl TakenRing {
    fn take(instruments: &Arc<Instruments>) -> Result<Self, NodeError> {
        let ring = instruments.trace.lock().expect("no panic under the lock").take();
        Ok(Self { instruments: Arc::clone(instruments), ring: Some(ring.ok_or(NodeError::TraceRunning)?) })
    }

    fn ring(&mut self) -> &mut TraceRing {
        self.ring.as_mut().expect("only drop takes it")
    }
}

impl Drop for TakenRing {
    fn drop(&mut self) {
        *self.instruments.trace.lock().expect("no panic under the lock") = self.ring.take();
    }
}

/// The recording programs, in place of the plain ones. Dropping it attaches the plain ones again.
struct Recording {
    attachment: Weak<Mutex<Attachment>>,
    attached: bool,
}

impl Recording {
    fn attach(attachment: Weak<Mutex<Attachment>>) -> Result<Self, NodeError> {
        let programs = attachment.upgrade().ok_or(Error::NodeDown)?;
        programs.lock().expect("no panic under the lock").record(true)?;
        Ok(Self { attachment, attached: true })
    }

    /// Returns true after the node went down.
    fn is_down(&self) -> bool {
        self.attachment.strong_count() == 0
    }

    /// Attaches the plain programs again. After it, no recording program runs any more.
    fn detach(&mut self) -> Result<(), NodeError> {
        if !std::mem::take(&mut self.attached) {
            return Ok(());
        }
        // If the node has gone down, there are no programs any more.
        if let Some(programs) = self.attachment.upgrade() {
            programs.lock().expect("no panic under the lock").record(false)?;
        }
        std::thread::sleep(GRACE);
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            tracing::error!(%error, "the recording programs stay attached");
        }
    }
}

/// Records a trace. The order of the fields is that in which they are dropped: nothing records into a ring that
/// another trace may have.
pub(super) struct Taker {
    recording: Recording,
    ring: TakenRing,
    records: Records,
}

/// The file of a trace and its progress.
struct Records {
    maps: Arc<Maps>,
    instruments: Arc<Instruments>,
    file: TraceFile,
    runs: Option<u64>,
    end: Option<Instant>,
    progress: Arc<Progress>,
    told: Vec<Told>,
    lost_before: u64,
    /// Number of lost runs that the file names.
    lost_told: u64,
}

impl Taker {
    /// Creates the file and attaches the recording programs.
    pub(super) fn begin(
        options: TraceOptions,
        (maps, instruments): (Arc<Maps>, Arc<Instruments>),
        attachment: Weak<Mutex<Attachment>>,
        progress: Arc<Progress>,
    ) -> Result<Self, NodeError> {
        let mut ring = TakenRing::take(&instruments)?;
        let file = TraceFile::create(options.file)?;
        let recording = match Recording::attach(attachment) {
            Ok(recording) => recording,
            Err(refused) => {
                file.discard();
                return Err(refused);
            }
        };
        std::thread::sleep(GRACE);
        while ring.ring().next().is_some() {} // discards the rest of an earlier trace
        let lost_before = instruments.trace_lost()?;
        let end = options.duration.map(|duration| Instant::now() + duration);
        let told = vec![Told::default(); CONNECTIONS];
        let (runs, lost_told) = (options.runs, 0);
        let mut records =
            Records { maps, instruments, file, runs, end, progress, told, lost_before, lost_told };
        // What the caller does next can be replayed from its first packet on, however late the thread begins.
        records.tell_connections()?;
        Ok(Self { recording, ring, records })
    }

    /// Records until a limit is reached or the trace is stopped. Then attaches the plain programs again, and completes the
    /// file. Only that waits for a file system that stalls.
    pub(super) fn run(mut self) -> Result<(), NodeError> {
        let outcome = self.take();
        let plain = self.recording.detach();
        let lost = self.records.count_lost();
        self.records.progress.recording_ended();
        outcome.and(plain)?;
        self.records.finish(self.ring.ring(), lost?)
    }

    fn take(&mut self) -> Result<(), NodeError> {
        let Self { recording, ring, records } = self;
        while records.look(ring.ring())? && !recording.is_down() {}
        records.tell_last()
    }
}

impl Records {
    /// Adds what has come since the last call to the file, if that has room. Returns false when a limit is reached or the
    /// trace is stopped.
    fn look(&mut self, ring: &mut TraceRing) -> Result<bool, NodeError> {
        // While the file has no room, the ring fills, and then runs are lost.
        let room = self.file.has_room()?;
        let mut some = false;
        if room {
            self.tell_connections()?;
            some = self.drain(ring)?;
        }
        let lost = self.count_lost()?;
        if room {
            self.tell_lost(lost);
        }
        self.progress.bytes.store(self.file.bytes, Relaxed);
        let enough = self.runs.is_some_and(|runs| self.progress.runs.load(Relaxed) >= runs);
        let late = self.end.is_some_and(|end| Instant::now() >= end);
        let ended = enough || late || self.progress.stop.load(Relaxed);
        if !ended && !some {
            std::thread::sleep(LOOK);
        }
        Ok(!ended)
    }

    /// Adds the rest of the ring and the end of the trace, and waits until the file has all of it. No recording program may
    /// run any more.
    fn finish(&mut self, ring: &mut TraceRing, lost: u64) -> Result<(), NodeError> {
        self.file.wait_for_room()?;
        while self.drain(ring)? {
            self.file.wait_for_room()?;
        }
        self.tell_lost(lost);
        self.file.end(self.progress.runs.load(Relaxed), lost)?;
        self.progress.bytes.store(self.file.bytes, Relaxed);
        Ok(())
    }

    /// Moves the content of the ring to the file, as long as that has room. Returns whether there was any.
    fn drain(&mut self, ring: &mut TraceRing) -> Result<bool, NodeError> {
        /// Largest number of runs per call, so that the other work is done even if the ring never becomes empty.
        const AT_ONCE: u64 = 4096;
        let mut runs = 0;
        while runs < AT_ONCE
            && self.file.has_room()?
            && let Some(tape) = ring.next()
        {
            self.file.run(&tape);
            runs += 1;
        }
        self.progress.runs.fetch_add(runs, Relaxed);
        Ok(runs != 0)
    }

    /// Counts the lost runs since the start.
    fn count_lost(&self) -> Result<u64, NodeError> {
        let lost = self.instruments.trace_lost()? - self.lost_before;
        self.progress.lost.store(lost, Relaxed);
        Ok(lost)
    }

    /// Adds the number of lost runs if it has grown. After a loss, all connections are written again.
    fn tell_lost(&mut self, lost: u64) {
        if std::mem::replace(&mut self.lost_told, lost) != lost {
            self.file.lost(lost);
            self.told.fill(Told::default());
        }
    }

    /// Writes all connections once more, so that a replay can compare the tables. The trace ends with these states: when
    /// the plain programs are attached again, they make steps between those that are still recorded.
    fn tell_last(&mut self) -> Result<(), NodeError> {
        // What was lost while the file had no room is not in it yet.
        let lost = self.count_lost()?;
        self.tell_lost(lost);
        self.told.iter_mut().for_each(|told| told.next = None);
        self.tell_connections()?;
        let told = self.told.iter().enumerate().filter(|(_, told)| told.times > 0);
        self.file.last(told.map(|(slot, told)| (slot, told.generation, told.steps)));
        Ok(())
    }

    /// Writes the connections that are due.
    fn tell_connections(&mut self) -> Result<(), NodeError> {
        let now = Instant::now();
        for slot in 0..CONNECTIONS {
            let queues = self.maps.queue_pairs.get(slot);
            if queues.control.state.load(Relaxed) == State::Closed as u32 {
                self.told[slot] = Told::default();
                continue;
            }
            if self.told[slot].next.is_some_and(|next| next > now) {
                continue;
            }
            let entry = self.maps.connection(slot).map_err(|e| NodeError::system("read a connection", e))?;
            let told = &mut self.told[slot];
            if told.generation != entry.connection.generation {
                *told = Told { generation: entry.connection.generation, ..Told::default() };
            }
            told.steps = entry.tables.steps;
            told.times += 1;
            told.next = Some(now + if told.times < TOLD_AT_FIRST { AT_FIRST } else { LATER });
            self.file.connection(slot, &entry);
        }
        Ok(())
    }
}
