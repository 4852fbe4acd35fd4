//! The sink of a transfer: the end that stores the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tiercel::control::Failure;
use tokio::time::{sleep, timeout};

use super::verbs::{Arrival, Buffer, ReceivePermit, Span, Verbs};
use super::writing::{Wanted, Writing};
use super::{
    Chunks, Copied, DRAIN, Job, Layout, MOST_MEMORY, MOST_SLOTS, Means, RELEASE, SAY_WAITING, Sparse, Steps,
    Target, Trouble, ended, with_leftovers,
};
use crate::connection_manager::{FileMessage, Via};

/// The file to store: the offer of the source, and the target.
#[derive(Clone, Debug)]
pub(in super::super) struct Sink {
    /// Its name on the peer.
    pub(in super::super) name: String,
    /// The operation that carries the content.
    pub(in super::super) via: Via,
    /// Size of a chunk, bytes.
    pub(in super::super) chunk: u32,
    /// Most outstanding chunks.
    pub(in super::super) slots: u32,
    /// R_Key of the source's buffer (READ only).
    pub(in super::super) rkey: u32,
    /// What is stored, and where.
    pub(in super::super) wanted: Wanted,
}

impl Sink {
    /// Returns what an offer asks for, or `None` if it is another step or does not make sense.
    pub(in super::super) fn of(offer: FileMessage, target: Target, overwrite: bool) -> Option<Self> {
        let FileMessage::Offer { name, via, length, chunk, slots, rkey, mode, sparse, .. } = offer else {
            return None;
        };
        let layout = match sparse {
            None => Layout::dense(length),
            Some(Sparse { length: whole, extents }) => {
                Layout::told(whole, extents).filter(|layout| layout.crossing() == length)?
            }
        };
        let wanted = Wanted { target, layout, mode, overwrite };
        Some(Self { name, via, chunk, slots, rkey, wanted })
    }

    fn shown(&self) -> PathBuf {
        match &self.wanted.target {
            Target::Local(place) => place.shown.clone(),
            Target::Inbox(inbox, name) => inbox.options().directory.join(name),
        }
    }
}

/// Receives and stores a file that was offered. If it fails, sends an Abort to the peer, and leaves no file and no posted
/// receive behind, if the peer helps.
pub(in super::super) async fn sink<V: Verbs>(
    means: &Means<'_, V>,
    steps: &mut Steps<'_>,
    what: Sink,
) -> Result<Copied, Failure> {
    let (name, shown, via) = (what.name.clone(), what.shown(), what.via);
    let mut left = Left::default();
    let outcome = take(means, steps, what, &mut left).await;
    let trouble = match outcome {
        Ok(copied) => return Ok(copied),
        Err(trouble) => trouble,
    };
    let posted = (left.posted > 0).then_some(left.posted_in_all);
    let abort = FileMessage::Abort { transfer: steps.transfer(), text: trouble.for_peer(&name), posted };
    if means.verbs.tell(abort).await {
        left.drain(means.verbs.as_ref()).await;
    }
    let (outstanding, kind) = match via {
        Via::Send => (left.posted, "receives"),
        Via::Write | Via::Read => (left.reads, "READs"),
    };
    left.park(means.verbs.as_ref());
    Err(with_leftovers(trouble.for_client(shown.display()), steps.cid(), outstanding, kind))
}

/// What a transfer that failed leaves with the connection.
struct Left<B> {
    reads: u64,
    /// Receives that are posted and not completed, those that were posted in all, and what belongs to them.
    posted: u64,
    posted_in_all: u64,
    receives: Option<(B, ReceivePermit)>,
}

impl<B> Default for Left<B> {
    fn default() -> Self {
        Self { reads: 0, posted: 0, posted_in_all: 0, receives: None }
    }
}

impl<B> Left<B> {
    /// Takes what the peer sends to use up the receives.
    async fn drain<V: Verbs<Buffer = B>>(&mut self, verbs: &V) {
        let drained = async {
            while self.posted > 0 && verbs.receive().await.is_ok() {
                self.posted -= 1;
            }
        };
        let _ = timeout(DRAIN, drained).await; // what is left is parked
    }

    fn park<V: Verbs<Buffer = B>>(self, verbs: &V) {
        if self.posted > 0
            && let Some((buffer, permit)) = self.receives
        {
            verbs.park(buffer, permit);
        }
    }
}

async fn take<V: Verbs>(
    means: &Means<'_, V>,
    steps: &mut Steps<'_>,
    what: Sink,
    left: &mut Left<V::Buffer>,
) -> Result<Copied, Trouble> {
    let started = Instant::now();
    let (transfer, verbs, shown) = (steps.transfer(), means.verbs.as_ref(), what.shown());
    let Sink { name, via, chunk, slots, rkey, wanted } = what;
    let (length, crossing) = (wanted.layout.length(), wanted.layout.crossing());
    let chunks = Chunks::new(crossing, chunk, slots);
    let asked = u64::from(chunk) * u64::from(slots);
    let sensible = chunk > 0 && (1..=MOST_SLOTS).contains(&slots) && asked <= MOST_MEMORY;
    if !sensible || (via == Via::Send && chunk > verbs.largest_message()) {
        return Err(Trouble::Absurd);
    }
    let files = Arc::clone(means.files);
    let begun = means.lane.run(move |pulse| Writing::begin(files, wanted, transfer, pulse));
    let mut writing = means.wait_for(steps, begun).await???;
    let removed = std::mem::take(&mut writing.removed);
    let mut intake = Intake {
        means,
        transfer,
        chunks,
        via,
        rkey,
        next: 0,
        stored: 0,
        arrived: BTreeMap::new(),
        under_way: BTreeSet::new(),
        reads: FuturesUnordered::new(),
        buffer: None,
        posted: 0,
        posted_in_all: 0,
        batch: Vec::new(),
        writing: Some(writing),
        job: None,
    };
    let mut permit = None;
    let outcome = intake.run(steps, &mut permit).await;
    intake.release().await;
    (left.reads, left.posted, left.posted_in_all) =
        (intake.reads.len() as u64, intake.posted, intake.posted_in_all);
    left.receives = intake.buffer.clone().zip(permit);
    let writing = intake.writing.take();
    drop(intake);
    let outcome = match (outcome, writing) {
        (Ok(()), Some(writing)) => finish(means, steps, writing).await,
        (outcome, Some(writing)) => {
            // An error of the file system here is not the reason.
            let _ = means.lane.run(move |_| drop(writing)).await;
            Err(outcome.err().unwrap_or(Trouble::OutOfStep))
        }
        // The job has it, and drops it when the file system answers.
        (outcome, None) => Err(outcome.err().unwrap_or(Trouble::OutOfStep)),
    };
    let sha256 = outcome?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Copied { file: shown, name, via, bytes: length, sha256, seconds, removed })
}

/// Compares the hashes, gives the file its name, and tells the peer.
async fn finish<V: Verbs>(
    means: &Means<'_, V>,
    steps: &mut Steps<'_>,
    mut writing: Writing,
) -> Result<String, Trouble> {
    let transfer = steps.transfer();
    let mut job = means.lane.begin(move |pulse| {
        let digest = writing.digest(pulse);
        digest.map(|digest| (writing, digest))
    });
    // The source may have its hash first, or give up.
    let hashed = match means.wait_for(steps, job.ended()).await {
        Ok(hashed) => hashed,
        Err(trouble) => {
            // The job has the `.part` file, and removes it.
            job.stop(RELEASE).await;
            return Err(trouble);
        }
    };
    let (writing, sha256) = hashed??;
    let theirs = steps.next().await.and_then(the_end);
    let agreed = match theirs {
        Ok(theirs) if theirs == sha256 => Ok(()),
        Ok(_) => Err(Trouble::HashDiffers("other bytes arrived than were sent")),
        Err(trouble) => Err(trouble),
    };
    // The `.part` file is gone before the peer hears the verdict.
    let kept = means.lane.run(move |_| match agreed {
        Ok(()) => writing.keep(),
        Err(trouble) => {
            drop(writing);
            Err(trouble)
        }
    });
    means.wait_deaf(transfer, kept).await???;
    means.tell(FileMessage::Verdict { transfer, sha256: sha256.clone() }).await?;
    Ok(sha256)
}

/// Returns the hash in the last step of the source.
fn the_end(step: FileMessage) -> Result<String, Trouble> {
    match step {
        FileMessage::End { sha256, .. } => Ok(sha256),
        _ => Err(Trouble::OutOfStep),
    }
}

/// Waits for the receives of the connection, which another transfer may have.
async fn take_receives<V: Verbs>(
    means: &Means<'_, V>,
    steps: &mut Steps<'_>,
) -> Result<ReceivePermit, Trouble> {
    means.wait_for(steps, means.verbs.take_receives()).await?.map_err(Trouble::ReceivesInUse)
}

type Read<'v> = Pin<Box<dyn Future<Output = (u64, Result<(), Failure>)> + Send + 'v>>;

/// The chunks between their arrival and the file.
struct Intake<'v, V: Verbs> {
    means: &'v Means<'v, V>,
    transfer: u64,
    chunks: Chunks,
    via: Via,
    /// R_Key of the source's buffer (READ only).
    rkey: u32,
    /// First chunk that is neither stored nor being stored, and number of stored chunks.
    next: u64,
    stored: u64,
    /// Chunks that arrived and are not being stored yet, each with its offset in the buffer.
    arrived: BTreeMap<u64, u64>,
    /// Chunks that a READ brings.
    under_way: BTreeSet<u64>,
    reads: FuturesUnordered<Read<'v>>,
    buffer: Option<V::Buffer>,
    /// Receives that are posted and not completed, and those that were posted in all (SEND).
    posted: u64,
    posted_in_all: u64,
    /// The chunks that the job stores: offset in the buffer, and size.
    batch: Vec<(u64, u64)>,
    writing: Option<Writing>,
    job: Option<Job<(Writing, Result<(), Trouble>)>>,
}

impl<V: Verbs> Intake<'_, V> {
    /// Takes all chunks.
    async fn run(
        &mut self,
        steps: &mut Steps<'_>,
        permit: &mut Option<ReceivePermit>,
    ) -> Result<(), Trouble> {
        let verbs = self.means.verbs.as_ref();
        let buffer = verbs.register(self.chunks.memory() as usize, false, self.via == Via::Write)?;
        let rkey = if self.via == Via::Write { buffer.rkey() } else { 0 };
        self.buffer = Some(buffer);
        if self.via == Via::Send {
            *permit = Some(take_receives(self.means, steps).await?);
            for index in 0..self.chunks.count().min(u64::from(self.chunks.slots)) {
                self.post(self.chunks.span(index).offset)?;
            }
        }
        self.means.tell(FileMessage::Ready { transfer: self.transfer, rkey }).await?;
        while self.stored < self.chunks.count() {
            self.store();
            let is_storing = self.job.is_some();
            let patience = if is_storing { None } else { Some(steps.patience) };
            tokio::select! {
                outcome = ended(&mut self.job), if is_storing => {
                    let (writing, outcome) = outcome?;
                    self.writing = Some(writing);
                    outcome?;
                    self.stored().await?;
                }
                Some((index, outcome)) = self.reads.next(), if !self.reads.is_empty() => {
                    self.under_way.remove(&index);
                    outcome?;
                    self.arrived.insert(index, self.chunks.span(index).offset);
                }
                arrival = verbs.receive(), if self.posted > 0 => self.received(arrival?)?,
                step = steps.next_within(patience) => self.step(step?)?,
                () = self.means.progress.unwanted() => return Err(Trouble::Cancelled),
                () = sleep(SAY_WAITING), if is_storing => {
                    self.means.tell(FileMessage::Waiting { transfer: self.transfer }).await?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether chunk `index` may arrive now.
    fn expects(&self, index: u64) -> bool {
        let end = self.chunks.count().min(self.stored + u64::from(self.chunks.slots));
        let known = self.arrived.contains_key(&index) || self.under_way.contains(&index);
        (self.next..end).contains(&index) && !known
    }

    /// The source reports a chunk that is written or can be read. By SEND, the chunk itself arrives.
    fn step(&mut self, step: FileMessage) -> Result<(), Trouble> {
        match (step, self.via) {
            (FileMessage::Chunk { index, .. }, Via::Write) if self.expects(index) => {
                self.arrived.insert(index, self.chunks.span(index).offset);
            }
            (FileMessage::Chunk { index, .. }, Via::Read) if self.expects(index) => {
                let Some(buffer) = self.buffer.clone() else { return Err(Trouble::OutOfStep) };
                let (verbs, span, rkey) = (self.means.verbs.as_ref(), self.chunks.span(index), self.rkey);
                self.under_way.insert(index);
                self.reads.push(Box::pin(async move { (index, verbs.read(&buffer, span, rkey).await) }));
            }
            _ => return Err(Trouble::OutOfStep),
        }
        Ok(())
    }

    fn received(&mut self, arrival: Arrival) -> Result<(), Trouble> {
        let Arrival { id, length, immediate } = arrival;
        self.posted -= 1;
        // The immediate data is the number of the chunk modulo 2^32. The first missing chunk gives the upper bits.
        let ahead = immediate.ok_or(Trouble::OutOfStep)?.wrapping_sub(self.next as u32);
        let index = self.next + u64::from(ahead);
        if !self.expects(index) || length != self.chunks.size(index) {
            return Err(Trouble::OutOfStep);
        }
        self.arrived.insert(index, id);
        Ok(())
    }

    /// Begins to store the chunks that arrived, up to the first gap.
    fn store(&mut self) {
        if self.job.is_some() || !self.arrived.contains_key(&self.next) {
            return;
        }
        let (Some(mut writing), Some(buffer)) = (self.writing.take(), self.buffer.clone()) else { return };
        self.batch.clear();
        while let Some(offset) = self.arrived.remove(&self.next) {
            self.batch.push((offset, self.chunks.size(self.next)));
            self.next += 1;
        }
        let batch = self.batch.clone();
        self.job = Some(self.means.lane.begin(move |pulse| {
            let outcome = writing.store(&buffer, &batch, pulse);
            (writing, outcome)
        }));
    }

    /// Frees the slots of the chunks that are stored, and tells the source.
    async fn stored(&mut self) -> Result<(), Trouble> {
        for (offset, _) in std::mem::take(&mut self.batch) {
            let index = self.stored;
            self.stored += 1;
            let length = self.chunks.length;
            self.means.progress.report(length.min(self.chunks.position(self.stored)), Some(length));
            // No more receives are posted than chunks are expected. So none is left at the end.
            let to_come = self.chunks.count() - self.next - self.arrived.len() as u64;
            if self.via == Via::Send && self.posted < to_come {
                self.post(offset)?;
            }
            self.means.tell(FileMessage::Stored { transfer: self.transfer, index }).await?;
        }
        Ok(())
    }

    fn post(&mut self, offset: u64) -> Result<(), Trouble> {
        let Some(buffer) = &self.buffer else { return Err(Trouble::OutOfStep) };
        let span = Span { offset, length: u64::from(self.chunks.chunk) };
        self.means.verbs.post_receive(buffer, span, offset)?;
        self.posted += 1;
        self.posted_in_all += 1;
        Ok(())
    }

    /// Waits for outstanding READs. Those that do not end stay with the connection, with their memory. A job that does
    /// not end keeps the file, and removes it when it ends.
    async fn release(&mut self) {
        while !self.reads.is_empty() && timeout(RELEASE, self.reads.next()).await.is_ok() {}
        if let Some(mut job) = self.job.take()
            && let Ok(Ok((writing, _))) = timeout(RELEASE, job.ended()).await
        {
            self.writing = Some(writing);
        }
    }
}
