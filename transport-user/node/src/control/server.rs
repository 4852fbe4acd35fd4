//! The node's side of the control socket.

use std::future::Future;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;
use serde_json::Value;
use tiercel::control::{Envelope, Failure, FailureKind, Progress, Reply, Request, VERSION, read_line};
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::descriptors::Receiver;
use crate::common::open_files;

/// Clients that are served at the same time. Further clients wait.
const CLIENTS: usize = 64;
/// A client that does not read its reply for this time is disconnected.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which the server checks whether a client that closed its sending side still receives.
const STILL_THERE: Duration = Duration::from_millis(50);
/// Capacity of the queue of progress lines, per request. When it is full, new lines are dropped.
const PROGRESS: usize = 16;

/// A type that answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. The request runs to its end even if the client disconnects. A long operation can check
    /// [`ProgressSender::is_wanted`] for that. `files` are the open files that the client sent with the request.
    fn handle(
        &self,
        request: Request,
        files: Vec<OwnedFd>,
        progress: ProgressSender,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;
}

/// Reports the progress of an operation to the client.
#[derive(Clone, Debug)]
pub struct ProgressSender(mpsc::Sender<Progress>);

impl ProgressSender {
    /// Sends progress to the client. Drops it if the client does not read fast enough.
    pub fn report(&self, done: u64, total: Option<u64>) {
        // A dropped report does no harm: the next report replaces it.
        let _ = self.0.try_send(Progress { done, total });
    }

    /// Returns false if the client has disconnected.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_closed()
    }

    /// Returns when the client has disconnected.
    pub async fn unwanted(&self) {
        self.0.closed().await;
    }

    /// Returns a sender for an operation without a client. [`Self::is_wanted`] is true as long as the receiver
    /// exists.
    pub fn detached() -> (Self, mpsc::Receiver<Progress>) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), receiver)
    }
}

/// A listening control socket. Dropping it stops listening and removes the file of the socket.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts to serve the clients of `listener`, which is bound to `path`.
    pub fn start<H: Handler>(listener: UnixListener, path: PathBuf, handler: Arc<H>) -> Self {
        Self { path, task: tokio::spawn(accept(listener, handler)) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if let Err(error) = std::fs::remove_file(&self.path) {
            debug!("cannot remove {}: {error}", self.path.display());
        }
    }
}

async fn accept<H: Handler>(listener: UnixListener, handler: Arc<H>) {
    let clients = Arc::new(Semaphore::new(CLIENTS));
    let mut complaints = open_files::Complaints::default();
    loop {
        let permit = Arc::clone(&clients).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                if complaints.ended() {
                    warn!("clients are accepted on the control socket again");
                }
                let handler = Arc::clone(&handler);
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, handler).await {
                        debug!("the connection to a client of the control socket failed: {error}");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                let whom = "a client on the control socket";
                if let Some(text) = complaints.failed(whom, &error, Instant::now()) {
                    warn!("{text}");
                }
                tokio::time::sleep(open_files::PAUSE).await;
            }
        }
    }
}

/// Serves one client, one request after the other.
async fn serve<H: Handler>(stream: UnixStream, handler: Arc<H>) -> std::io::Result<()> {
    // The mode of the socket's file has the same effect. This check also holds if the mode was changed.
    let user = stream.peer_cred()?.uid();
    let own = geteuid().as_raw();
    let (from_client, mut to_client) = stream.into_split();
    if user != 0 && user != own {
        let text = format!("this node belongs to user {own}: run as that user or as root");
        return reply(&mut to_client, &Reply::Failed(Failure::invalid(text))).await;
    }
    let mut from_client = BufReader::new(Receiver::new(from_client));
    loop {
        let line = match read_line(&mut from_client).await? {
            Some(line) => line,
            None => return Ok(()),
        };
        // What comes with a request belongs to it, also if it is refused.
        let files = from_client.get_mut().take();
        let request = match parse(&line) {
            Ok(request) => request,
            Err(failure) => {
                reply(&mut to_client, &Reply::Failed(failure)).await?;
                continue;
            }
        };
        answer(&handler, (request, files), &mut from_client, &mut to_client).await?;
    }
}

pub(crate) fn parse(line: &[u8]) -> Result<Request, Failure> {
    let wrong = |error| Failure::invalid(format!("not a request of the control protocol: {error}"));
    let value: Value = serde_json::from_slice(line).map_err(wrong)?;
    // The version comes first: it determines the form of the rest.
    if value["version"].as_u64() != Some(u64::from(VERSION)) {
        return Err(Failure::invalid(format!(
            "the node uses version {VERSION} of the control protocol, this client {}: use the same release as the node",
            value["version"]
        )));
    }
    let envelope: Envelope = serde_json::from_value(value).map_err(wrong)?;
    Ok(envelope.request)
}

/// Runs a request in its own task, so that an outstanding operation is never aborted, and sends its progress and
/// its result to the client.
async fn answer<H: Handler>(
    handler: &Arc<H>,
    (request, files): (Request, Vec<OwnedFd>),
    from_client: &mut BufReader<Receiver>,
    to_client: &mut OwnedWriteHalf,
) -> std::io::Result<()> {
    let (sender, mut progress) = mpsc::channel(PROGRESS);
    let handler = Arc::clone(handler);
    let mut task = tokio::spawn(async move { handler.handle(request, files, ProgressSender(sender)).await });
    let outcome = loop {
        tokio::select! {
            biased;
            Some(step) = progress.recv() => reply(to_client, &Reply::Progress(step)).await?,
            outcome = &mut task => break outcome,
            left = has_left(from_client, to_client) => return left,
        }
    };
    let last = match outcome {
        Ok(Ok(result)) => Reply::Done { result },
        Ok(Err(failure)) => Reply::Failed(failure),
        Err(error) => Reply::Failed(Failure::new(
            FailureKind::Node,
            format!("the node failed while it handled this request: {error}"),
        )),
    };
    reply(to_client, &last).await
}

/// Returns when the client has closed both directions. While a request runs, further requests of the client are
/// not read. A client that only closed its sending side still gets its answer.
async fn has_left(from_client: &mut BufReader<Receiver>, to_client: &OwnedWriteHalf) -> std::io::Result<()> {
    if !from_client.fill_buf().await?.is_empty() {
        return std::future::pending().await;
    }
    while !is_hung_up(to_client.as_ref())? {
        tokio::time::sleep(STILL_THERE).await;
    }
    Ok(())
}

/// Returns whether both directions of the stream are closed.
fn is_hung_up(stream: &UnixStream) -> std::io::Result<bool> {
    let mut sources = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    poll(&mut sources, PollTimeout::ZERO)?;
    Ok(sources[0].any().unwrap_or(true))
}

async fn reply(stream: &mut (impl AsyncWrite + Unpin), reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    tokio::time::timeout(PATIENCE, stream.write_all(&line)).await?
}
