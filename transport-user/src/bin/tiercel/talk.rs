//! Finding the node, and asking it.

use std::path::{Path, PathBuf};

use serde_json::Value;
use transport_user::control::{Client, DIRECTORY, Progress, Request, default_path, find};

use crate::exit::Exit;

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
        let path = match self.named_socket() {
            Some(path) => path,
            None => find(Path::new(DIRECTORY))?,
        };
        let mut client = Client::connect(&path).await?;
        Ok(client.ask(request, progress).await?)
    }
}

/// The node opens files itself, so it needs their absolute paths.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Exit> {
    std::path::absolute(path).map_err(|error| Exit::file(format!("{}: {error}", path.display())))
}
