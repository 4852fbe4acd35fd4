//! A client's side of the control socket.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::protocol::{Call, Envelope, Failure, Progress, Reply, Request, VERSION};
use super::server::read_line;

/// A connection to a running node.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

/// Why a node did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers on the socket.
    #[error("no node answers on {}: start it with `tiercel up`, or name another with --node or --socket", .0.display())]
    NoNode(PathBuf),
    /// The socket belongs to another user.
    #[error("not allowed to use {}: run as root, or as the user who started the node", .0.display())]
    NotAllowed(PathBuf),
    /// The conversation broke off.
    #[error("lost the node on {}: {source}; see its own output for why", path.display())]
    Lost {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The answer is none to the request.
    #[error("the node on {} answers in another way than this program understands ({source}): use the release of the node", path.display())]
    Misunderstood {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The node says why not.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Client {
    /// Connects to the node that answers on `path`.
    ///
    /// # Errors
    /// Nobody answers there, or not to this user.
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

    /// Asks, passes progress to `progress` and returns the answer.
    ///
    /// # Errors
    /// The node's failure, an answer of another shape, or the conversation broke off.
    pub async fn ask<C: Call>(
        &mut self,
        call: C,
        progress: impl FnMut(Progress),
    ) -> Result<C::Answer, ClientError> {
        let result = self.request(call.into(), progress).await?;
        serde_json::from_value(result)
            .map_err(|source| ClientError::Misunderstood { path: self.path.clone(), source })
    }

    async fn request(
        &mut self,
        request: Request,
        mut progress: impl FnMut(Progress),
    ) -> Result<Value, ClientError> {
        let lost = |source| ClientError::Lost { path: self.path.clone(), source };
        let misunderstood = |source| ClientError::Misunderstood { path: self.path.clone(), source };
        let envelope = Envelope { version: VERSION, request };
        let mut line = serde_json::to_vec(&envelope).map_err(|error| lost(error.into()))?;
        line.push(b'\n');
        self.stream.write_all(&line).await.map_err(lost)?;
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
