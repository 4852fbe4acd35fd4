//! The paths of control sockets, and the check whether a node listens on one.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Default directory of the sockets.
pub const DIRECTORY: &str = "/run/tiercel";

/// Returns the default path of the socket of a node with this name.
pub fn default_path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.sock"))
}

/// Why a control socket could not be found or bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another node listens on the socket.
    #[error(
        "a node already answers on {}: stop it with `tiercel --socket {} down`, or give this node another name \
         (`up --name`)", .0.display(), .0.display()
    )]
    Live(PathBuf),
    /// The path belongs to a file that is not a socket.
    #[error("{} exists and is not a socket: choose another path with --socket", .0.display())]
    Occupied(PathBuf),
    /// The path cannot be used.
    #[error("cannot use {}: {source}; choose another path with --socket", path.display())]
    Unusable {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Only root, or the owner of the directory, may create a socket there.
    #[error("cannot use {}: {source}; run as root (a node needs root in any case)", path.display())]
    NotAllowed {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// No node was found.
    #[error("no node is running (no socket in {}): start one with `tiercel up`, or name its socket with --socket", .0.display())]
    None(PathBuf),
    /// Several nodes were found.
    #[error("several nodes are running ({}): choose one with --node NAME or --socket PATH", .0.join(", "))]
    Several(Vec<String>),
}

/// Returns whether a process listens on the socket. The socket of a killed process refuses connections.
///
/// # Errors
/// The system cannot say.
pub fn answers(path: &Path) -> io::Result<bool> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the socket of the only node that has a socket in `directory` and runs.
///
/// # Errors
/// No node runs, or several nodes run.
pub fn find(directory: &Path) -> Result<PathBuf, SocketError> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut live: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .filter(|path| matches!(answers(path), Ok(true)))
        .collect();
    live.sort();
    match live.len() {
        0 => Err(SocketError::None(directory.to_owned())),
        1 => Ok(live.remove(0)),
        _ => {
            let name = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            Err(SocketError::Several(live.iter().filter_map(name).collect()))
        }
    }
}
