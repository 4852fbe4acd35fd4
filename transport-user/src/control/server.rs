//! The node's side of the control socket.

use std::future::Future;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::protocol::{Envelope, Failure, FailureKind, LARGEST_LINE, Progress, Reply, Request, VERSION};

/// Clients served at once; more wait.
const CLIENTS: usize = 64;
/// A client that does not read its reply for so long is dropped.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a client that has said all it will say is looked at whether it still listens.
const STILL_THERE: Duration = Duration::from_millis(50);
/// Progress lines that may wait; the newest ones are dropped beyond.
const PROGRESS: usize = 16;

/// What answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. It runs to its end even when the client goes away; [`ProgressSender::is_wanted`] tells a
    /// long operation so.
    fn handle(
        &self,
        request: Request,
        progress: ProgressSender,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;
}

/// Reports how far an operation is.
#[derive(Clone, Debug)]
pub struct ProgressSender(mpsc::Sender<Progress>);

impl ProgressSender {
    /// Tells the client, if it keeps up.
    pub fn report(&self, done: u64, total: Option<u64>) {
        // Progress that nobody takes in time is worth nothing: the next report replaces it.
        let _ = self.0.try_send(Progress { done, total });
    }

    /// False once the client is gone.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_closed()
    }

    /// A sender nobody listens to, but which looks wanted as long as the receiver lives.
    pub fn detached() -> (Self, mpsc::Receiver<Progress>) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), receiver)
    }
}

/// A listening control socket; dropping it stops listening and removes the socket's file.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves clients of `listener`, which is bound to `path`.
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
    loop {
        let permit = Arc::clone(&clients).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let handler = Arc::clone(&handler);
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, handler).await {
                        debug!("a client of the control socket left: {error}");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                warn!("cannot accept a client on the control socket: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one client, request after request.
async fn serve<H: Handler>(stream: UnixStream, handler: Arc<H>) -> std::io::Result<()> {
    // The file's mode says the same; this also holds where a directory was prepared with other rights.
    let user = stream.peer_cred()?.uid();
    let own = geteuid().as_raw();
    let (from_client, mut to_client) = stream.into_split();
    if user != 0 && user != own {
        let text = format!("this node belongs to user {own}: run as that user or as root");
        return reply(&mut to_client, &Reply::Failed(Failure::invalid(text))).await;
    }
    let mut from_client = BufReader::new(from_client);
    loop {
        let line = match read_line(&mut from_client).await? {
            Some(line) => line,
            None => return Ok(()),
        };
        let request = match parse(&line) {
            Ok(request) => request,
            Err(failure) => {
                reply(&mut to_client, &Reply::Failed(failure)).await?;
                continue;
            }
        };
        answer(&handler, request, &mut from_client, &mut to_client).await?;
    }
}

/// One line without its end, or none at the end of the stream.
///
/// # Errors
/// Also when the line is longer than [`LARGEST_LINE`], or not ended.
pub(super) async fn read_line(
    stream: &mut (impl AsyncBufReadExt + Unpin),
) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    (&mut *stream).take(LARGEST_LINE as u64 + 1).read_until(b'\n', &mut line).await?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(std::io::Error::other("a line is too long or was cut off")),
    }
}

fn parse(line: &[u8]) -> Result<Request, Failure> {
    let wrong = |error| Failure::invalid(format!("not a request of the control protocol: {error}"));
    let value: Value = serde_json::from_slice(line).map_err(wrong)?;
    // The version decides how the rest is to be read.
    if value["version"].as_u64() != Some(u64::from(VERSION)) {
        return Err(Failure::invalid(format!(
            "the node speaks version {VERSION} of the control protocol, this client {}: use the node's own release",
            value["version"]
        )));
    }
    let envelope: Envelope = serde_json::from_value(value).map_err(wrong)?;
    Ok(envelope.request)
}

/// Runs a request in a task of its own, so that an operation under way is never torn out of the datapath's hands,
/// and passes its progress on.
async fn answer<H: Handler>(
    handler: &Arc<H>,
    request: Request,
    from_client: &mut BufReader<OwnedReadHalf>,
    to_client: &mut OwnedWriteHalf,
) -> std::io::Result<()> {
    let (sender, mut progress) = mpsc::channel(PROGRESS);
    let handler = Arc::clone(handler);
    let mut task = tokio::spawn(async move { handler.handle(request, ProgressSender(sender)).await });
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
            format!("the node failed at this request: {error}"),
        )),
    };
    reply(to_client, &last).await
}

/// Comes back when the client has closed; a client that sends more before its answer is simply not read, and one that
/// only ended its own side still gets its answer.
async fn has_left(
    from_client: &mut BufReader<OwnedReadHalf>,
    to_client: &OwnedWriteHalf,
) -> std::io::Result<()> {
    if !from_client.fill_buf().await?.is_empty() {
        return std::future::pending().await;
    }
    while !is_hung_up(to_client.as_ref())? {
        tokio::time::sleep(STILL_THERE).await;
    }
    Ok(())
}

/// Whether both directions have ended.
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
