//! The sink of a transfer: the end that stores the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::part::{self, Part};
use super::verbs::{Arrival, Buffer, ReceivePermit, Span, Verbs};
use super::{Chunks, Copied, MOST_MEMORY, MOST_SLOTS, RELEASE, Steps, out_of_step, tell, unwanted};
use crate::connection_manager::{FileMessage, Via, shortened};
use crate::control::protocol::{Failure, FailureKind};
use crate::control::server::ProgressSender;

/// The file to store: the offer of the source, and the target.
#[derive(Clone, Debug)]
pub(in super::super) struct Sink {
    /// The file on this node.
    pub(in super::super) file: PathBuf,
    /// Its name on the peer.
    pub(in super::super) name: String,
    /// The operation that carries the content.
    pub(in super::super) via: Via,
    /// Length of the file, bytes.
    pub(in super::super) length: u64,
    /// Size of a chunk, bytes.
    pub(in super::super) chunk: u32,
    /// Most outstanding chunks.
    pub(in super::super) slots: u32,
    /// R_Key of the source's buffer (READ only).
    pub(in super::super) rkey: u32,
    /// Whether the copy may replace a file on this node.
    pub(in super::super) overwrite: bool,
}

/// Receives and stores a file that was offered. If it fails, sends an Abort to the peer.
pub(in super::super) async fn sink<V: Verbs>(
    verbs: &V,
    steps: &mut Steps<'_>,
    what: Sink,
    progress: &ProgressSender,
) -> Result<Copied, Failure> {
    let transfer = steps.transfer();
    let receives = what.via == Via::Send;
    let mut left = 0;
    let outcome = take(verbs, steps, what, progress, &mut left).await;
    if let Err(failure) = &outcome {
        verbs.tell(FileMessage::Abort { transfer, text: shortened(&failure.text) }).await;
    }
    let kind = if receives { "receives" } else { "READs" };
    outcome.map_err(|failure| steps.with_leftovers(failure, left, kind))
}

async fn take<V: Verbs>(
    verbs: &V,
    steps: &mut Steps<'_>,
    what: Sink,
    progress: &ProgressSender,
    left: &mut u64,
) -> Result<Copied, Failure> {
    let started = Instant::now();
    check_target(&what.file, what.overwrite)?;
    let chunks = Chunks::new(what.length, what.chunk, what.slots);
    let asked = u64::from(what.chunk) * u64::from(what.slots);
    let sensible = what.chunk > 0 && (1..=MOST_SLOTS).contains(&what.slots) && asked <= MOST_MEMORY;
    if !sensible || (what.via == Via::Send && what.chunk > verbs.largest_message()) {
        return Err(Failure::invalid("the chunks of the offer exceed the limits"));
    }
    let removed = part::remove_leftovers(&what.file);
    let mut part = Part::create(&what.file, steps.transfer())?;
    let buffer = verbs.register(chunks.memory() as usize, false, what.via == Via::Write)?;
    let rkey = if what.via == Via::Write { buffer.rkey() } else { 0 };
    let intake = Intake {
        verbs,
        buffer: buffer.clone(),
        chunks,
        next: 0,
        arrived: BTreeMap::new(),
        receives: what.via == Via::Send,
        posted: 0,
        hash: Sha256::new(),
    };
    let stored = match what.via {
        Via::Send => {
            let permit = verbs.take_receives()?;
            by_send(intake, steps, &mut part, progress, (permit, left)).await
        }
        Via::Write | Via::Read => {
            tell(verbs, FileMessage::Ready { transfer: steps.transfer(), rkey }).await?;
            one_sided(intake, steps, &what, &mut part, (progress, left)).await
        }
    };
    let sha256 = stored?;
    let FileMessage::End { sha256: theirs, .. } = steps.next().await? else { return Err(out_of_step()) };
    if theirs != sha256 {
        return Err(Failure::new(
            FailureKind::File,
            "other bytes arrived than were sent (SHA-256 differs): copy again",
        ));
    }
    part.keep(what.overwrite)?;
    drop(part); // the `.part` file is removed before the verdict is sent
    tell(verbs, FileMessage::Verdict { transfer: steps.transfer(), sha256: sha256.clone() }).await?;
    let seconds = started.elapsed().as_secs_f64();
    let Sink { file, name, via, length: bytes, .. } = what;
    Ok(Copied { file, name, via, bytes, sha256, seconds, removed })
}

/// The chunks between their arrival and the file.
struct Intake<'v, V: Verbs> {
    verbs: &'v V,
    buffer: V::Buffer,
    chunks: Chunks,
    /// First chunk that is not stored.
    next: u64,
    /// Chunks that arrived and are not stored yet, each with its offset in the buffer.
    arrived: BTreeMap<u64, u64>,
    /// Whether chunks arrive in posted receives (SEND).
    receives: bool,
    /// Number of receives that are posted and not completed.
    posted: u64,
    hash: Sha256,
}

impl<V: Verbs> Intake<'_, V> {
    fn is_done(&self) -> bool {
        self.next == self.chunks.count()
    }

    /// Returns whether chunk `index` may arrive now.
    fn expects(&self, index: u64) -> bool {
        let end = self.chunks.count().min(self.next + u64::from(self.chunks.slots));
        (self.next..end).contains(&index) && !self.arrived.contains_key(&index)
    }

    /// Stores the chunks that arrived, up to the first gap, and frees their slots.
    async fn store(
        &mut self,
        part: &mut Part,
        transfer: u64,
        progress: &ProgressSender,
    ) -> Result<(), Failure> {
        while let Some(offset) = self.arrived.remove(&self.next) {
            let mut bytes = vec![0; self.chunks.size(self.next) as usize];
            self.buffer.fetch(offset, &mut bytes)?;
            self.hash.update(&bytes);
            part.append(&bytes)?;
            self.next += 1;
            let length = self.chunks.length;
            progress.report(length.min(self.chunks.position(self.next)), Some(length));
            self.repost(offset)?;
            tell(self.verbs, FileMessage::Stored { transfer, index: self.next - 1 }).await?;
        }
        if progress.is_wanted() { Ok(()) } else { Err(unwanted()) }
    }

    /// Posts a slot again if more chunks are expected than receives are posted. So no receive is left at the end.
    fn repost(&mut self, offset: u64) -> Result<(), Failure> {
        let to_come = self.chunks.count() - self.next - self.arrived.len() as u64;
        if self.receives && self.posted < to_come { self.post(offset) } else { Ok(()) }
    }

    fn post(&mut self, offset: u64) -> Result<(), Failure> {
        let span = Span { offset, length: u64::from(self.chunks.chunk) };
        self.verbs.post_receive(&self.buffer, span, offset)?;
        self.posted += 1;
        Ok(())
    }

    fn digest(self) -> String {
        hex::encode(self.hash.finalize())
    }
}

/// Takes the chunks by WRITE or READ. The source reports each chunk that is written or can be read.
async fn one_sided<V: Verbs>(
    mut intake: Intake<'_, V>,
    steps: &mut Steps<'_>,
    what: &Sink,
    part: &mut Part,
    (progress, left): (&ProgressSender, &mut u64),
) -> Result<String, Failure> {
    let transfer = steps.transfer();
    let (verbs, buffer, chunks) = (intake.verbs, intake.buffer.clone(), intake.chunks);
    let mut reads = FuturesUnordered::new();
    let outcome = async {
        while !intake.is_done() {
            let ready = tokio::select! {
                Some((index, outcome)) = reads.next() => {
                    let outcome: Result<(), Failure> = outcome;
                    outcome.map(|()| index)?
                }
                step = steps.next() => match step? {
                    FileMessage::Chunk { index, .. } if intake.expects(index) => {
                        if what.via == Via::Read {
                            let (buffer, rkey) = (&buffer, what.rkey);
                            reads.push(async move {
                                (index, verbs.read(buffer, chunks.span(index), rkey).await)
                            });
                            continue;
                        }
                        index
                    }
                    _ => return Err(out_of_step()),
                },
            };
            intake.arrived.insert(ready, chunks.span(ready).offset);
            intake.store(part, transfer, progress).await?;
        }
        Ok(())
    }
    .await;
    // Wait for outstanding READs. Those that do not end stay with the connection, with their memory.
    while !reads.is_empty() {
        if timeout(RELEASE, reads.next()).await.is_err() {
            *left = reads.len() as u64;
            break;
        }
    }
    drop(reads);
    outcome.map(|()| intake.digest())
}

/// Takes the chunks by SEND. The immediate data of a message is the number of its chunk, so no steps are needed.
async fn by_send<V: Verbs>(
    mut intake: Intake<'_, V>,
    steps: &mut Steps<'_>,
    part: &mut Part,
    progress: &ProgressSender,
    (permit, left): (ReceivePermit, &mut u64),
) -> Result<String, Failure> {
    let transfer = steps.transfer();
    let outcome = async {
        for index in 0..intake.chunks.count().min(u64::from(intake.chunks.slots)) {
            intake.post(intake.chunks.span(index).offset)?;
        }
        tell(intake.verbs, FileMessage::Ready { transfer, rkey: 0 }).await?;
        while !intake.is_done() {
            let Arrival { id, length, immediate } = tokio::select! {
                arrival = intake.verbs.receive() => arrival?,
                step = steps.next() => {
                    step?;
                    return Err(out_of_step());
                }
            };
            intake.posted -= 1;
            // The immediate data is the number of the chunk modulo 2^32. The first missing chunk gives the upper
            // bits.
            let ahead = immediate.ok_or_else(out_of_step)?.wrapping_sub(intake.next as u32);
            let index = intake.next + u64::from(ahead);
            if !intake.expects(index) || length != intake.chunks.size(index) {
                return Err(out_of_step());
            }
            intake.arrived.insert(index, id);
            intake.store(part, transfer, progress).await?;
        }
        Ok(())
    }
    .await;
    if intake.posted > 0 {
        *left = intake.posted;
        intake.verbs.park(intake.buffer.clone(), permit);
    }
    outcome.map(|()| intake.digest())
}

/// Checks the target: it must not be a directory, and without `overwrite` it must not exist.
pub(super) fn check_target(file: &Path, overwrite: bool) -> Result<(), Failure> {
    match fs::symlink_metadata(file) {
        Ok(metadata) if metadata.is_dir() => {
            Err(Failure::new(FailureKind::File, format!("{} is a directory: name the file", file.display())))
        }
        Ok(_) if !overwrite => Err(exists(file)),
        _ => Ok(()),
    }
}

pub(super) fn exists(file: &Path) -> Failure {
    Failure::new(
        FailureKind::File,
        format!("{} already exists: choose another name, or replace it with --overwrite", file.display()),
    )
}
