//! The client's side of the control socket.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;

use super::protocol::{Call, Envelope, Failure, Progress, Reply, Request, VERSION, read_line};

/// A connection to a running node.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

/// Why a request to a node failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No node listens on the socket.
    #[error("no node answers on {}: start it with `tiercel up`, or choose another one with --node or --socket", .0.display())]
    NoNode(PathBuf),
    /// The socket belongs to another user.
    #[error("not allowed to use {}: run as root, or as the user who started the node", .0.display())]
    NotAllowed(PathBuf),
    /// The connection to the node failed.
    #[error("the connection to the node on {} failed: {source}; see the node's log on stderr for the reason", path.display())]
    Lost {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The answer does not have the type that belongs to the request.
    #[error("cannot read the answer of the node on {} ({source}): use the same release as the node", path.display())]
    Misunderstood {
        /// The socket.
        path: PathBuf,
        /// The mistake in the answer.
        source: serde_json::Error,
    },
    /// The node reports a failure.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Client {
    /// Connects to the node that listens on `path`.
    ///
    /// # Errors
    /// No node listens there, or this user may not use the socket.
    pub async fn connect(path: &Path) -> Result<Self, ClientError> {
        let path = path.to_owned();
        match UnixStream::connect(&path).await {
            Ok(stream) => Ok(Self { stream: BufReader::new(stream), path }),
            Err(error) => Err(match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => ClientError::NoNode(path),
                ErrorKind::PermissionDenied => ClientError::NotAllowed(path),
                _ => ClientError::Lost { path, source: error },
            }),
        }
    }

    /// Sends a request, passes its progress to `progress` and returns the answer.
    ///
    /// # Errors
    /// The node reports a failure, the answer has another type, or the connection to the node failed.
    pub async fn ask<C: Call>(
        &mut self,
        call: C,
        progress: impl FnMut(Progress),
    ) -> Result<C::Answer, ClientError> {
        self.answer::<C>(call, None, progress).await
    }

    /// Sends a request with an open file, such as [`request::Copy`](super::request::Copy).
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub async fn ask_with_file<C: Call>(
        &mut self,
        call: C,
        file: BorrowedFd<'_>,
        progress: impl FnMut(Progress),
    ) -> Result<C::Answer, ClientError> {
        self.answer::<C>(call, Some(file), progress).await
    }

    async fn answer<C: Call>(
        &mut self,
        call: C,
        file: Option<BorrowedFd<'_>>,
        progress: impl FnMut(Progress),
    ) -> Result<C::Answer, ClientError> {
        let result = self.request(call.into(), file, progress).await?;
        serde_json::from_value(result)
            .map_err(|source| ClientError::Misunderstood { path: self.path.clone(), source })
    }

    async fn request(
        &mut self,
        request: Request,
        file: Option<BorrowedFd<'_>>,
        mut progress: impl FnMut(Progress),
    ) -> Result<Value, ClientError> {
        let lost = |source| ClientError::Lost { path: self.path.clone(), source };
        let misunderstood = |source| ClientError::Misunderstood { path: self.path.clone(), source };
        let envelope = Envelope { version: VERSION, request };
        let mut line = serde_json::to_vec(&envelope).map_err(|error| lost(error.into()))?;
        line.push(b'\n');
        let sent = match file {
            None => 0,
            Some(file) => send(self.stream.get_ref(), &line, file).await.map_err(lost)?,
        };
        self.stream.write_all(&line[sent..]).await.map_err(lost)?;
        loop {
            let line = read_line(&mut self.stream).await.map_err(lost)?;
            let line = line.ok_or_else(|| lost(ErrorKind::UnexpectedEof.into()))?;
            match serde_json::from_slice(&line).map_err(misunderstood)? {
                Reply::Progress(step) => progress(step),
                Reply::Done { result } => return Ok(result),
                Reply::Failed(failure) => return Err(failure.into()),
            }
        }
    }
}

/// Sends bytes, and a descriptor with the first of them (`SCM_RIGHTS`). Returns the number of bytes that were sent.
async fn send(stream: &UnixStream, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
    let files = [file.as_raw_fd()];
    let send = || {
        let rights = [ControlMessage::ScmRights(&files)];
        let sent =
            sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(bytes)], &rights, MsgFlags::MSG_NOSIGNAL, None);
        Ok(sent?)
    };
    stream.async_io(Interest::WRITABLE, send).await
}
