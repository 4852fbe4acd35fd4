//! The source of a transfer: the end that has the file.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiercel::control::{Failure, FailureKind};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::reading::{Origin, Reading};
use super::verbs::{Buffer, Span, Verbs};
use super::{
    Chunks, Copied, Job, MOST_SLOTS, Means, RELEASE, SAY_WAITING, Sparse, Steps, Trouble, ended,
    with_leftovers,
};
use crate::connection_manager::{FileMessage, Via};

/// Size of a chunk for WRITE and READ, bytes, and the number of outstanding chunks.
const ONE_SIDED: (u32, u32) = (256 << 10, 16);
/// Largest size of a chunk for SEND, bytes, and the number of receives that the peer posts.
const TWO_SIDED: (u32, u32) = (64 << 10, 64);
/// Immediate data of a message that only uses up a receive.
const FILLER: u32 = u32::MAX;

/// The file to send.
#[derive(Debug)]
pub(in super::super) struct Source {
    /// Where it is.
    pub(in super::super) origin: Origin,
    /// Its path on this node, for people.
    pub(in super::super) shown: PathBuf,
    /// Its name on the peer.
    pub(in super::super) name: String,
    /// The operation that carries the content.
    pub(in super::super) via: Via,
    /// Whether the copy may replace a file on the peer.
    pub(in super::super) overwrite: bool,
}

/// Offers a file and sends it. If it fails, sends an Abort to the peer, and uses up the receives that the peer posted.
pub(in super::super) async fn source<V: Verbs>(
    means: &Means<'_, V>,
    steps: &mut Steps<'_>,
    what: Source,
) -> Result<Copied, Failure> {
    let Source { origin, shown, name, via, overwrite } = what;
    let mut under_way = None;
    let mut offer = Offer { means, steps, name: &name, via, overwrite };
    let trouble = match offer.send(origin, &mut under_way).await {
        Ok(copied) => return Ok(Copied { file: shown, ..copied }),
        Err(trouble) => trouble,
    };
    let left = offer.give_up(&trouble, under_way).await;
    Err(with_leftovers(trouble.for_client(shown.display()), steps.cid(), left, "operations"))
}

/// A transfer from this end.
struct Offer<'o, 's, V: Verbs> {
    means: &'o Means<'o, V>,
    steps: &'o mut Steps<'s>,
    name: &'o str,
    via: Via,
    overwrite: bool,
}

impl<'o, V: Verbs> Offer<'o, '_, V> {
    async fn send(
        &mut self,
        origin: Origin,
        under_way: &mut Option<UnderWay<'o, V>>,
    ) -> Result<Copied, Trouble> {
        let (started, means) = (Instant::now(), self.means);
        let files = Arc::clone(means.files);
        let opened = means.lane.run(move |pulse| Reading::open(files, origin, pulse));
        let reading = means.wait_for(self.steps, opened).await???;
        let bytes = reading.layout().length();
        let under_way = under_way.insert(self.offer(reading).await?);
        under_way.rkey = self.ready().await?;
        under_way.send_all(self.steps).await?;
        let patience = self.steps.patience;
        if under_way.finish(patience).await? > 0 {
            let text = format!("no operation completed for {} s", patience.as_secs());
            return Err(Failure::new(FailureKind::Connect, text).into());
        }
        let sha256 = under_way.digest(self.steps).await?;
        means.tell(FileMessage::End { transfer: self.steps.transfer(), sha256: sha256.clone() }).await?;
        match self.steps.next().await? {
            FileMessage::Verdict { sha256: theirs, .. } if theirs == sha256 => {}
            FileMessage::Verdict { .. } => {
                return Err(Trouble::HashDiffers("the peer stored other bytes than were sent"));
            }
            _ => return Err(Trouble::OutOfStep),
        }
        let seconds = started.elapsed().as_secs_f64();
        let (name, via) = (self.name.to_owned(), self.via);
        Ok(Copied { file: PathBuf::new(), name, via, bytes, sha256, seconds, removed: Vec::new() })
    }

    /// Offers an open file.
    async fn offer(&mut self, reading: Reading) -> Result<UnderWay<'o, V>, Trouble> {
        let (means, via) = (self.means, self.via);
        let (chunk, slots) = match via {
            Via::Send => (TWO_SIDED.0.min(means.verbs.largest_message()), TWO_SIDED.1),
            Via::Write | Via::Read => ONE_SIDED,
        };
        let layout = reading.layout();
        let chunks = Chunks::new(layout.crossing(), chunk, slots);
        let buffer = means.verbs.register(chunks.memory() as usize, via == Via::Read, false)?;
        let holes = layout.holes().map(<[_]>::to_vec);
        let offer = FileMessage::Offer {
            transfer: self.steps.transfer(),
            name: self.name.to_owned(),
            via,
            length: chunks.length,
            chunk,
            slots: chunks.slots,
            rkey: if via == Via::Read { buffer.rkey() } else { 0 },
            overwrite: self.overwrite,
            mode: reading.mode,
            sparse: holes.map(|extents| Sparse { length: layout.length(), extents }),
        };
        means.tell(offer).await?;
        Ok(UnderWay {
            means,
            transfer: self.steps.transfer(),
            buffer,
            chunks,
            via,
            rkey: 0,
            next: 0,
            stored: 0,
            sent: 0,
            operations: JoinSet::new(),
            batch: 0..0,
            reading: Some(reading),
            job: None,
        })
    }

    /// Waits until the peer is ready. Returns the R_Key of its buffer (WRITE only).
    async fn ready(&mut self) -> Result<u32, Trouble> {
        let ready = tokio::select! {
            ready = self.steps.next() => ready?,
            () = self.means.progress.unwanted() => return Err(Trouble::Cancelled),
        };
        match ready {
            FileMessage::Ready { rkey, .. } => Ok(rkey),
            _ => Err(Trouble::OutOfStep),
        }
    }

    /// Tells the peer that the transfer has failed, and why. Returns the number of operations that do not end: they and
    /// their memory stay with the connection until it is closed.
    async fn give_up(&mut self, trouble: &Trouble, under_way: Option<UnderWay<'o, V>>) -> u64 {
        let (transfer, text) = (self.steps.transfer(), trouble.for_peer(self.name));
        let abort = FileMessage::Abort { transfer, text, posted: None };
        let Some(mut under_way) = under_way else {
            self.means.verbs.tell(abort).await;
            return 0;
        };
        // If the peer ended the transfer, the operations may never complete.
        let left = under_way.finish(RELEASE).await.unwrap_or(0);
        self.means.verbs.tell(abort).await;
        if self.via == Via::Send && left == 0 {
            let posted = match trouble {
                Trouble::PeerAborted(_, posted) => *posted,
                _ => timeout(RELEASE, self.peer_aborts()).await.ok().flatten(),
            };
            under_way.use_up(posted.unwrap_or(0)).await;
        }
        under_way.operations.len() as u64
    }

    /// Waits until the peer has stopped as well. Returns the number of receives that it posted, if some are left.
    async fn peer_aborts(&mut self) -> Option<u64> {
        loop {
            match self.steps.next_within(None).await {
                Ok(_) => {} // it was sent before the peer knew
                Err(Trouble::PeerAborted(_, posted)) => return posted,
                Err(_) => return None,
            }
        }
    }
}

/// The outstanding chunks.
struct UnderWay<'o, V: Verbs> {
    means: &'o Means<'o, V>,
    transfer: u64,
    buffer: V::Buffer,
    chunks: Chunks,
    via: Via,
    /// R_Key of the peer's buffer (WRITE only), 0 until it is ready.
    rkey: u32,
    /// First chunk that is not sent, number of chunks that the peer stored, and number of completed SENDs.
    next: u64,
    stored: u64,
    sent: u64,
    operations: JoinSet<Result<u64, Failure>>,
    /// The chunks that the job reads.
    batch: Range<u64>,
    reading: Option<Reading>,
    job: Option<Job<(Reading, Result<(), Trouble>)>>,
}

impl<V: Verbs> UnderWay<'_, V> {
    /// Sends all chunks and waits until the peer has stored them.
    async fn send_all(&mut self, steps: &mut Steps<'_>) -> Result<(), Trouble> {
        let (means, transfer, chunks) = (self.means, self.transfer, self.chunks);
        while self.stored < chunks.count() {
            self.read();
            let is_reading = self.job.is_some();
            let patience = if is_reading { None } else { Some(steps.patience) };
            tokio::select! {
                outcome = ended(&mut self.job), if is_reading => {
                    let (reading, outcome) = outcome?;
                    self.reading = Some(reading);
                    outcome?;
                    self.batch.clone().for_each(|index| self.start(index));
                    self.next = self.batch.end;
                }
                Some(ended) = self.operations.join_next() => {
                    let index = self.completed(ended)?;
                    if self.via != Via::Send {
                        means.tell(FileMessage::Chunk { transfer, index }).await?;
                    }
                }
                step = steps.next_within(patience) => match step? {
                    FileMessage::Stored { index, .. } if index == self.stored && self.stored < self.next => {
                        self.stored += 1;
                        let done = chunks.length.min(chunks.position(self.stored));
                        means.progress.report(done, Some(chunks.length));
                    }
                    _ => return Err(Trouble::OutOfStep),
                },
                () = means.progress.unwanted() => return Err(Trouble::Cancelled),
                () = sleep(SAY_WAITING), if is_reading => means.tell(FileMessage::Waiting { transfer }).await?,
            }
        }
        Ok(())
    }

    /// Begins to read chunks into free slots: at most half of them at a time, so that the others cross meanwhile.
    fn read(&mut self) {
        let (chunks, slots) = (self.chunks, u64::from(self.chunks.slots));
        let end = chunks.count().min(self.stored + slots).min(self.next + slots.div_ceil(2));
        if self.job.is_some() || self.next >= end {
            return;
        }
        let Some(mut reading) = self.reading.take() else { return };
        self.batch = self.next..end;
        let (buffer, batch) = (self.buffer.clone(), self.batch.clone());
        self.job = Some(self.means.lane.begin(move |pulse| {
            let outcome = reading.fill(&buffer, chunks, batch, pulse);
            (reading, outcome)
        }));
    }

    /// Starts the operation that carries chunk `index`. For READ, the peer performs the operation.
    fn start(&mut self, index: u64) {
        let (verbs, buffer, rkey) = (Arc::clone(self.means.verbs), self.buffer.clone(), self.rkey);
        let (via, span) = (self.via, self.chunks.span(index));
        self.operations.spawn(async move {
            match via {
                Via::Write => verbs.write(&buffer, span, rkey).await?,
                // Immediate data has only 32 bits, but there are far fewer outstanding chunks.
                Via::Send => verbs.send(&buffer, span, index as u32).await?,
                Via::Read => {}
            }
            Ok(index)
        });
    }

    /// Takes the end of an operation.
    fn completed(
        &mut self,
        ended: Result<Result<u64, Failure>, tokio::task::JoinError>,
    ) -> Result<u64, Trouble> {
        let failed = |error| Failure::new(FailureKind::Node, format!("an operation failed: {error}"));
        let index = ended.map_err(failed)??;
        self.sent += 1;
        Ok(index)
    }

    /// Waits for all operations, at most `patience` for each. Returns the number of those that do not end, or the first
    /// failure.
    async fn finish(&mut self, patience: Duration) -> Result<u64, Trouble> {
        let mut outcome = Ok(());
        loop {
            match timeout(patience, self.operations.join_next()).await {
                Ok(Some(ended)) => outcome = outcome.and(self.completed(ended).map(drop)),
                Ok(None) => return outcome.map(|()| 0),
                Err(_) => return outcome.map(|()| self.operations.len() as u64),
            }
        }
    }

    /// Sends messages into the receives that the peer posted and that no chunk came to.
    async fn use_up(&mut self, posted: u64) {
        for _ in 0..posted.saturating_sub(self.sent).min(MOST_SLOTS.into()) {
            let (verbs, buffer) = (Arc::clone(self.means.verbs), self.buffer.clone());
            self.operations.spawn(async move {
                verbs.send(&buffer, Span { offset: 0, length: 1 }, FILLER).await?;
                Ok(0)
            });
        }
        // If they fail, the connection has ended, and its receives with it.
        let _ = self.finish(RELEASE).await;
    }

    /// Returns the hash of the file.
    async fn digest(&mut self, steps: &mut Steps<'_>) -> Result<String, Trouble> {
        let Some(mut reading) = self.reading.take() else { return Err(Trouble::OutOfStep) };
        let hashed = self.means.lane.run(move |pulse| reading.digest(pulse));
        self.means.wait_for(steps, hashed).await??
    }
}

impl<V: Verbs> Drop for UnderWay<'_, V> {
    fn drop(&mut self) {
        // Closing a file may take long as well.
        if let Some(reading) = self.reading.take() {
            drop(self.means.lane.begin(move |_| drop(reading)));
        }
    }
}
