//! Copies of files: those that a local client begins, and those that a peer begins.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiercel::control::answer::Copied;
use tiercel::control::request::{self, CopyDirection};
use tiercel::control::{Failure, tree};
use transport_common::ids::Cid;

use super::super::server::ProgressSender;
use super::disk::Who;
use super::inbox::Inbox;
use super::link::Link;
use super::transfer::{self, Means, Origin, Place, Sink, Source, Target, Trouble};
use super::{NodeService, absolute, serving};
use crate::connection_manager::{FileMessage, Level};

impl NodeService {
    /// Copies a file for a client. `files` has what the client opened: the file to read, or the directory in which the
    /// new file gets its name.
    pub(super) async fn copy(
        &self,
        what: request::Copy,
        files: Vec<OwnedFd>,
        progress: &ProgressSender,
    ) -> Result<Copied, Failure> {
        let request::Copy { cid, direction, file, name, via, overwrite } = what;
        absolute(&file)?;
        match direction {
            CopyDirection::ToPeer => transfer::check_name(&name)?,
            CopyDirection::FromPeer => check_wanted(&name)?,
        }
        let connection = self.connection(cid)?;
        let opened = files.into_iter().next().ok_or_else(|| {
            Failure::invalid(
                "no open file came with the request: use a `tiercel` of the same release as the node",
            )
        })?;
        let failed = |trouble: Trouble| trouble.for_client(file.display());
        let (inner, cid) = (&self.inner, connection.cid());
        let peer = inner.manager.peer(cid).map(|peer| peer.ip());
        let _turn = inner.turns.wait(cid, peer, progress).await.map_err(failed)?;
        let lane = inner.lanes.take(Who::Local(Some(opened.as_fd()))).await;
        let lane = lane.map_err(|stalled| failed(stalled.into()))?;
        let mut steps = inner.transfers.enter(cid, rand::random())?;
        let verbs = Arc::new(Link::new(self.clone(), connection));
        let means = Means { verbs: &verbs, files: &inner.files, lane: &lane, progress };
        match direction {
            CopyDirection::ToPeer => {
                let origin = Origin::Opened(File::from(opened));
                transfer::source(&means, &mut steps, Source { origin, shown: file, name, via, overwrite })
                    .await
            }
            CopyDirection::FromPeer => {
                let place = place(opened, file)?;
                transfer::fetch(&means, &mut steps, (name, via), place, overwrite).await
            }
        }
    }

    /// Begins to serve a peer that offers a file or asks for a file, in a task. If the peer has too many such tasks, the
    /// step is refused.
    pub(super) fn begin_to_serve(self, cid: Cid, step: FileMessage) {
        let Some(peer) = self.inner.manager.peer(cid) else { return };
        match self.inner.serving.begin(peer.ip()) {
            Some(task) => drop(tokio::spawn(self.serve_file(cid, peer.ip(), step, task))),
            None => {
                let text = "the node is busy with what its peers began: wait, then copy again".to_owned();
                self.inner.manager.log_of_peer(peer.ip(), Level::Warning, || {
                    format!("connection {}: file transfer refused: {text}", cid.0)
                });
                // If the peer does not even read, it gets no answer.
                let abort = FileMessage::Abort { transfer: step.transfer(), text, posted: None };
                self.inner.manager.try_send_file_step(cid, abort);
            }
        }
    }

    /// Serves a peer that offers a file or asks for a file.
    async fn serve_file(self, cid: Cid, peer: IpAddr, step: FileMessage, _task: serving::Place) {
        let transfer = step.transfer();
        let name = match &step {
            FileMessage::Offer { name, .. } | FileMessage::Fetch { name, .. } => name.clone(),
            _ => return,
        };
        let manager = &self.inner.manager;
        match self.try_serve_file(cid, step).await {
            Ok(report) => manager.log_of_peer(peer, Level::Note, || {
                format!("connection {}: {} bytes, {}", cid.0, report.bytes, report.file.display())
            }),
            Err(Refused::Told(failure)) => manager.log_of_peer(peer, Level::Warning, || {
                format!("connection {}: file transfer failed: {failure}", cid.0)
            }),
            Err(Refused::Untold(trouble)) => {
                let text = trouble.for_peer(&name);
                manager.log_of_peer(peer, Level::Warning, || {
                    let named = format!("\"{}\"", name.escape_debug());
                    format!("connection {}: file transfer refused: {}", cid.0, trouble.for_client(named))
                });
                let abort = FileMessage::Abort { transfer, text, posted: None };
                manager.send_file_step(cid, abort).await;
            }
        }
    }

    async fn try_serve_file(&self, cid: Cid, step: FileMessage) -> Result<Copied, Refused> {
        let inner = &self.inner;
        let inbox = inner.inbox.as_ref().ok_or(Trouble::NoReceiveDirectory)?;
        let peer = inner.manager.peer(cid).ok_or(Trouble::ConnectionEnded)?;
        let connection = self.connection(cid.0).map_err(|_| Trouble::ConnectionEnded)?;
        let mut steps = inner.transfers.serve(cid, step.transfer(), peer.ip()).map_err(Trouble::Busy)?;
        let lane = inner.lanes.take(Who::Peer).await.map_err(Trouble::from)?;
        let (progress, _wanted) = ProgressSender::detached();
        let verbs = Arc::new(Link::new(self.clone(), connection));
        let means = Means { verbs: &verbs, files: &inner.files, lane: &lane, progress: &progress };
        match step {
            FileMessage::Offer { ref name, overwrite, .. } => {
                transfer::check_name(name).map_err(Trouble::Name)?;
                let target = Target::Inbox(Arc::clone(inbox), PathBuf::from(name));
                let what = Sink::of(step, target, overwrite).ok_or(Trouble::Absurd)?;
                Ok(transfer::sink(&means, &mut steps, what).await?)
            }
            FileMessage::Fetch { name, via, .. } => {
                let shown = inbox.options().directory.join(name.trim_start_matches('/'));
                let origin = asked_for(inbox, &name)?;
                Ok(transfer::source(
                    &means,
                    &mut steps,
                    Source { origin, shown, name, via, overwrite: false },
                )
                .await?)
            }
            _ => Err(Trouble::OutOfStep.into()),
        }
    }
}

/// Why a peer is not served.
enum Refused {
    /// The peer was told by the transfer.
    Told(Failure),
    /// The peer does not know yet.
    Untold(Trouble),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}

impl From<Trouble> for Refused {
    fn from(trouble: Trouble) -> Self {
        Self::Untold(trouble)
    }
}

/// Returns what a peer asks for: a file, or the list of a directory.
fn asked_for(inbox: &Arc<Inbox>, name: &str) -> Result<Origin, Trouble> {
    check_wanted(name).map_err(Trouble::Name)?;
    let inbox = Arc::clone(inbox);
    Ok(match tree::listed(name) {
        Some(directory) => Origin::List(inbox, directory.into()),
        None => Origin::Inbox(inbox, name.into()),
    })
}

/// Checks the name of what one end wants of the other: a file, or the list of a directory.
fn check_wanted(name: &str) -> Result<(), Failure> {
    match tree::listed(name) {
        Some("") => Ok(()), // the receive directory itself
        Some(directory) => transfer::check_name(directory),
        None => transfer::check_name(name),
    }
}

/// Returns the place of a file in the directory that a client opened.
fn place(directory: OwnedFd, file: PathBuf) -> Result<Place, Failure> {
    let name = Path::new(&file).file_name().map(ToOwned::to_owned);
    let name =
        name.ok_or_else(|| Failure::invalid(format!("{} has no name: name the file", file.display())))?;
    Ok(Place { directory: Arc::new(directory), name, shown: file })
}
