//! The source of a transfer: the end that has the file.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::verbs::{Buffer, Verbs};
use super::{Chunks, Copied, PATIENCE, RELEASE, Steps, file_failure, out_of_step, tell, unwanted};
use crate::connection_manager::{FileMessage, Via, shortened};
use crate::control::protocol::{Failure, FailureKind};
use crate::control::server::ProgressSender;

/// Size of a chunk for WRITE and READ, bytes, and the number of outstanding chunks.
const ONE_SIDED: (u32, u32) = (256 << 10, 16);
/// Largest size of a chunk for SEND, bytes, and the number of receives that the peer posts.
const TWO_SIDED: (u32, u32) = (64 << 10, 64);

/// The file to send.
#[derive(Clone, Debug)]
pub(in super::super) struct Source {
    /// The file on this node.
    pub(in super::super) file: PathBuf,
    /// Its name on the peer.
    pub(in super::super) name: String,
    /// The operation that carries the content.
    pub(in super::super) via: Via,
    /// Whether the copy may replace a file on the peer.
    pub(in super::super) overwrite: bool,
}

/// Offers a file and sends it. If it fails, sends an Abort to the peer.
pub(in super::super) async fn source<V: Verbs>(
    verbs: &Arc<V>,
    steps: &mut Steps<'_>,
    what: Source,
    progress: &ProgressSender,
) -> Result<Copied, Failure> {
    let transfer = steps.transfer();
    let mut left = 0;
    let outcome = offer(verbs, steps, what, progress, &mut left).await;
    if let Err(failure) = &outcome {
        verbs.tell(FileMessage::Abort { transfer, text: shortened(&failure.text) }).await;
    }
    outcome.map_err(|failure| steps.with_leftovers(failure, left, "operations"))
}

async fn offer<V: Verbs>(
    verbs: &Arc<V>,
    steps: &mut Steps<'_>,
    what: Source,
    progress: &ProgressSender,
    left: &mut u64,
) -> Result<Copied, Failure> {
    let started = Instant::now();
    let unreadable = |error| file_failure(&what.file, "read", &error);
    // The check comes before the open: opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(&what.file).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Failure::new(FailureKind::File, format!("{} is not a file", what.file.display())));
    }
    let file = std::fs::File::open(&what.file).map_err(unreadable)?;
    let (chunk, slots) = match what.via {
        Via::Send => (TWO_SIDED.0.min(verbs.largest_message()), TWO_SIDED.1),
        Via::Write | Via::Read => ONE_SIDED,
    };
    let chunks = Chunks::new(metadata.len(), chunk, slots);
    let buffer = verbs.register(chunks.memory() as usize, what.via == Via::Read, false)?;
    let offer = FileMessage::Offer {
        transfer: steps.transfer(),
        name: what.name.clone(),
        via: what.via,
        length: chunks.length,
        chunk,
        slots: chunks.slots,
        rkey: if what.via == Via::Read { buffer.rkey() } else { 0 },
        overwrite: what.overwrite,
    };
    tell(verbs.as_ref(), offer).await?;
    let FileMessage::Ready { rkey, .. } = steps.next().await? else { return Err(out_of_step()) };
    let mut under_way = UnderWay { verbs, buffer, chunks, via: what.via, rkey, operations: JoinSet::new() };
    let sent = send_all(&mut under_way, steps, &file, &what, progress).await;
    // If the peer stored everything, the operations complete soon. If the peer ended the transfer, they may never
    // complete.
    let rest = under_way.finish(if sent.is_ok() { PATIENCE } else { RELEASE }, left).await;
    let sha256 = sent?;
    rest?;
    tell(verbs.as_ref(), FileMessage::End { transfer: steps.transfer(), sha256: sha256.clone() }).await?;
    match steps.next().await? {
        FileMessage::Verdict { sha256: theirs, .. } if theirs == sha256 => {}
        FileMessage::Verdict { .. } => {
            return Err(Failure::new(
                FailureKind::File,
                "the peer stored other bytes than were sent (SHA-256 differs): copy again",
            ));
        }
        _ => return Err(out_of_step()),
    }
    let seconds = started.elapsed().as_secs_f64();
    let Source { file, name, via, .. } = what;
    Ok(Copied { file, name, via, bytes: chunks.length, sha256, seconds, removed: Vec::new() })
}

/// The outstanding chunks.
struct UnderWay<'v, V: Verbs> {
    verbs: &'v Arc<V>,
    buffer: V::Buffer,
    chunks: Chunks,
    via: Via,
    rkey: u32,
    operations: JoinSet<Result<u64, Failure>>,
}

impl<V: Verbs> UnderWay<'_, V> {
    /// Starts the operation that carries chunk `index`. For READ, the peer performs the operation.
    fn start(&mut self, index: u64) {
        let (verbs, buffer, rkey) = (Arc::clone(self.verbs), self.buffer.clone(), self.rkey);
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

    /// Waits for all operations, at most `patience` for each. Returns the first failure. Counts in `left` the
    /// operations that do not end: they and their memory stay with the connection until it is closed.
    async fn finish(mut self, patience: Duration, left: &mut u64) -> Result<(), Failure> {
        let mut outcome = Ok(());
        while !self.operations.is_empty() {
            match timeout(patience, self.operations.join_next()).await {
                Ok(Some(ended)) => outcome = outcome.and(flatten(ended).map(drop)),
                Ok(None) => break,
                Err(_) => {
                    *left = self.operations.len() as u64;
                    let text = format!("no operation completed for {} s", patience.as_secs());
                    return outcome.and(Err(Failure::new(FailureKind::Connect, text)));
                }
            }
        }
        outcome
    }
}

fn flatten(ended: Result<Result<u64, Failure>, tokio::task::JoinError>) -> Result<u64, Failure> {
    ended
        .unwrap_or_else(|error| Err(Failure::new(FailureKind::Node, format!("an operation failed: {error}"))))
}

/// Sends all chunks and waits until the peer has stored them. Returns the hash of the bytes that were read.
async fn send_all<V: Verbs>(
    under_way: &mut UnderWay<'_, V>,
    steps: &mut Steps<'_>,
    file: &std::fs::File,
    what: &Source,
    progress: &ProgressSender,
) -> Result<String, Failure> {
    let chunks = under_way.chunks;
    let transfer = steps.transfer();
    let mut hash = Sha256::new();
    let mut bytes = vec![0; chunks.chunk as usize];
    let (mut next, mut stored) = (0, 0);
    while stored < chunks.count() {
        if !progress.is_wanted() {
            return Err(unwanted());
        }
        if next < chunks.count() && next - stored < u64::from(chunks.slots) {
            let piece = &mut bytes[..chunks.size(next) as usize];
            // This blocks for well under a millisecond, as long as the copy into the buffer.
            file.read_exact_at(piece, chunks.position(next))
                .map_err(|error| file_failure(&what.file, "read", &error))?;
            hash.update(&*piece);
            under_way.buffer.fill(chunks.span(next).offset, piece)?;
            under_way.start(next);
            next += 1;
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            Some(ended) = under_way.operations.join_next() => {
                let index = flatten(ended)?;
                if what.via != Via::Send {
                    tell(under_way.verbs.as_ref(), FileMessage::Chunk { transfer, index }).await?;
                }
            }
            step = steps.next() => match step? {
                FileMessage::Stored { index, .. } if index == stored && stored < next => {
                    stored += 1;
                    progress.report(chunks.length.min(chunks.position(stored)), Some(chunks.length));
                }
                _ => return Err(out_of_step()),
            },
        }
    }
    Ok(hex::encode(hash.finalize()))
}
