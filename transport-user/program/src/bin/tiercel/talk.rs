//! Finds the socket of a node, sends requests to it, and waits for the answers.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tiercel::control::answer::WentDown;
use tiercel::control::request::{self, Request};
use tiercel::control::{Call, Client, ClientError, DIRECTORY, Progress, default_path, find};
use tracing::warn;

use crate::exit::Exit;
use crate::wait::Wait;

/// Longest time for a node to go down.
const GOING_DOWN: Duration = Duration::from_secs(15);
/// Environment variable with the control socket of the node to talk to. Options take precedence. It does not name the
/// socket of a node that comes up: a shell that has it set for one node often starts another.
const ENVIRONMENT: &str = "TIERCEL_SOCKET";

/// The node that the user selected. An option takes precedence over the environment.
#[derive(Debug)]
pub(crate) struct Node {
    socket: Option<PathBuf>,
    name: Option<String>,
    environment: Option<PathBuf>,
    /// Longest time to wait for an answer.
    timeout: Option<Duration>,
}

impl Node {
    /// Makes the selection from the options `--socket` and `--node` and the environment. An answer may take `timeout`.
    pub(crate) fn new(socket: Option<PathBuf>, name: Option<String>, timeout: Option<Duration>) -> Self {
        let environment = std::env::var_os(ENVIRONMENT).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self { socket, name, environment, timeout }
    }

    /// Returns the socket path for a node that comes up. In order of precedence: `--socket` or `--node`; `--name`; the
    /// name from the node file or of the interface.
    pub(crate) fn own_socket(&self, named: Option<&str>, otherwise: &str) -> PathBuf {
        let option = self.by_option().or_else(|| named.map(default_path));
        let own = option.unwrap_or_else(|| default_path(otherwise));
        if let Some(other) = self.environment.as_ref().filter(|other| **other != own) {
            warn!(
                "TIERCEL_SOCKET is {}, which only says where commands go: this node listens on {}",
                other.display(),
                own.display()
            );
        }
        own
    }

    /// Sends a request and returns the answer.
    pub(crate) async fn ask<C: Call + Clone>(&self, call: C) -> Result<C::Answer, Exit> {
        self.ask_with_progress(call, |_| ()).await
    }

    /// Sends a request with an open file, and passes its progress to `progress`.
    pub(crate) async fn ask_with_file<C: Call + Clone>(
        &self,
        call: C,
        file: BorrowedFd<'_>,
        progress: impl FnMut(Progress),
    ) -> Result<C::Answer, Exit> {
        let mut client = Client::connect(&self.path()?).await?;
        let request = call.clone().into();
        self.wait(request, client.ask_with_file(call, file, progress)).await
    }

    /// Sends a request that may take long, and passes its progress to `progress`.
    pub(crate) async fn ask_with_progress<C: Call + Clone>(
        &self,
        call: C,
        progress: impl FnMut(Progress),
    ) -> Result<C::Answer, Exit> {
        let mut client = Client::connect(&self.path()?).await?;
        let request = call.clone().into();
        self.wait(request, client.ask(call, progress)).await
    }

    /// Waits for the answer to a request, as long as the user does.
    async fn wait<A>(
        &self,
        request: Request,
        answer: impl Future<Output = Result<A, ClientError>>,
    ) -> Result<A, Exit> {
        let mut wait = Wait::new(&self.path()?, request, self.timeout);
        tokio::select! {
            answer = answer => Ok(answer?),
            exit = wait.end() => Err(exit),
        }
    }

    /// Brings the node down and waits until its interface and its socket are free again.
    pub(crate) async fn down(&self) -> Result<WentDown, Exit> {
        let path = self.path()?;
        let mut client = Client::connect(&path).await?;
        let gone = async {
            while Client::connect(&path).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let down = async {
            let answer = client.ask(request::Down {}, |_| ()).await?;
            Ok((answer, tokio::time::timeout(GOING_DOWN, gone).await))
        };
        match self.wait(request::Down {}.into(), down).await? {
            (answer, Ok(())) => Ok(answer),
            (_, Err(_)) => Err(Exit::node(format!(
                "the node still runs after {} s: see its log on stderr for the reason",
                GOING_DOWN.as_secs()
            ))),
        }
    }

    fn by_option(&self) -> Option<PathBuf> {
        self.socket.clone().or_else(|| self.name.as_deref().map(default_path))
    }

    fn path(&self) -> Result<PathBuf, Exit> {
        match self.by_option().or_else(|| self.environment.clone()) {
            Some(path) => Ok(path),
            None => Ok(find(Path::new(DIRECTORY))?),
        }
    }
}

/// Returns the absolute path of a file. The node opens files itself, and its working directory may differ.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Exit> {
    std::path::absolute(path).map_err(|error| Exit::file(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_outrank_the_environment_and_a_node_that_comes_up_has_its_own_socket() {
        let node = |socket: Option<&str>, name: Option<&str>, environment: Option<&str>| Node {
            socket: socket.map(PathBuf::from),
            name: name.map(str::to_owned),
            environment: environment.map(PathBuf::from),
            timeout: None,
        };
        let own =
            |node: Node, named| node.own_socket(named, "file").to_str().expect("a plain path").to_owned();
        assert_eq!(own(node(Some("/s"), None, Some("/e")), Some("option")), "/s");
        assert_eq!(own(node(None, Some("n"), Some("/e")), Some("option")), "/run/tiercel/n.sock");
        assert_eq!(own(node(None, None, Some("/e")), Some("option")), "/run/tiercel/option.sock");
        // Another node may listen there.
        assert_eq!(own(node(None, None, Some("/e")), None), "/run/tiercel/file.sock");
        assert_eq!(own(node(None, None, None), None), "/run/tiercel/file.sock");
        let path = |node: Node| node.path().expect("named");
        assert_eq!(path(node(None, Some("n"), Some("/e"))), Path::new("/run/tiercel/n.sock"));
        assert_eq!(path(node(None, None, Some("/e"))), Path::new("/e"));
    }
}
