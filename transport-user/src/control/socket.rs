//! Where control sockets live, and how stale ones are told from live ones.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Where sockets are put unless a path is given.
pub const DIRECTORY: &str = "/run/tiercel";

/// The socket of a node of this name.
pub fn default_path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.sock"))
}

/// Why there is no socket to talk to, or to listen on.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another node answers there.
    #[error(
        "a node already answers on {}: stop it with `tiercel --socket {} down`, or give this one another name \
         (`up --name`)", .0.display(), .0.display()
    )]
    Live(PathBuf),
    /// Something else has the path.
    #[error("{} is not a socket and is left alone: choose another path with --socket", .0.display())]
    Occupied(PathBuf),
    /// The path cannot be used.
    #[error("cannot use {}: {source}; choose another path with --socket", path.display())]
    Unusable {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Only root, or the directory's owner, may put a socket there.
    #[error("cannot use {}: {source}; run as root, which a node needs anyway", path.display())]
    NotAllowed {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No node was found.
    #[error("no node is running (no socket in {}): start one with `tiercel up`, or name its socket with --socket", .0.display())]
    None(PathBuf),
    /// Several nodes were found.
    #[error("several nodes are running ({}): choose one with --node NAME or --socket PATH", .0.join(", "))]
    Several(Vec<String>),
}

/// Listens on `path`: makes its directory, replaces the socket of a node that was killed, and leaves anything else
/// alone. The socket is for its owner only.
///
/// # Errors
/// See [`SocketError`].
pub fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    let unusable = |source| unusable(path, source, nix::unistd::geteuid().is_root());
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory).map_err(unusable)?;
    // Two nodes that start at once must not both find the same stale socket: one looks at a time.
    let turn = File::open(directory).map_err(unusable)?;
    turn.lock().map_err(unusable)?;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(unusable(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::Occupied(path.to_owned()));
        }
        Ok(_) if answers(path).map_err(unusable)? => return Err(SocketError::Live(path.to_owned())),
        Ok(_) => fs::remove_file(path).map_err(unusable)?,
    }
    let listener = UnixListener::bind(path).map_err(unusable)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(unusable)?;
    Ok(listener)
}

fn unusable(path: &Path, source: io::Error, root: bool) -> SocketError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::PermissionDenied if !root => SocketError::NotAllowed { path, source },
        _ => SocketError::Unusable { path, source },
    }
}

/// Whether somebody listens on the socket: a killed process leaves one that refuses.
fn answers(path: &Path) -> io::Result<bool> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// The socket of the only node that runs with a socket in `directory`.
///
/// # Errors
/// There is none, or there are several.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_not_root_is_told_to_be() {
        let denied = || io::Error::from_raw_os_error(libc::EACCES);
        let text = |root| unusable(Path::new("/run/tiercel/a.sock"), denied(), root).to_string();
        assert!(text(false).contains("run as root"), "{}", text(false));
        assert!(text(true).contains("--socket"), "{}", text(true));
    }
}
