//! Finding the node, and asking it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use transport_user::control::{Client, DIRECTORY, Progress, Request, default_path, find};

use crate::exit::Exit;

/// How long a node may take to go down.
const GOING_DOWN: Duration = Duration::from_secs(15);

/// The node the user means.
#[derive(Debug)]
pub(crate) struct Node {
    socket: Option<PathBuf>,
    name: Option<String>,
}

impl Node {
    pub(crate) fn new(socket: Option<PathBuf>, name: Option<String>) -> Self {
        Self { socket, name }
    }

    /// The socket named on the command line, if any.
    pub(crate) fn named_socket(&self) -> Option<PathBuf> {
        self.socket.clone().or_else(|| self.name.as_deref().map(default_path))
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&self, request: Request) -> Result<Value, Exit> {
        self.ask_with_progress(request, |_| ()).await
    }

    /// Asks something that takes its time.
    pub(crate) async fn ask_with_progress(
        &self,
        request: Request,
        progress: impl FnMut(Progress),
    ) -> Result<Value, Exit> {
        let mut client = Client::connect(&self.path()?).await?;
        Ok(client.ask(request, progress).await?)
    }

    /// Brings the node down and waits until its interface and its socket are free again.
    pub(crate) async fn down(&self) -> Result<Value, Exit> {
        let path = self.path()?;
        let answer = Client::connect(&path).await?.ask(Request::Down, |_| ()).await?;
        let gone = async {
            while Client::connect(&path).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(GOING_DOWN, gone).await {
            Ok(()) => Ok(answer),
            Err(_) => Err(Exit::node(format!(
                "the node still runs after {} s: see its own output",
                GOING_DOWN.as_secs()
            ))),
        }
    }

    fn path(&self) -> Result<PathBuf, Exit> {
        match self.named_socket() {
            Some(path) => Ok(path),
            None => Ok(find(Path::new(DIRECTORY))?),
        }
    }
}

/// The node opens files itself, so it needs their absolute paths.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Exit> {
    std::path::absolute(path).map_err(|error| Exit::file(format!("{}: {error}", path.display())))
}
