//! Binds the control socket of a node.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use tiercel::control::{SocketError, answers};
use tokio::net::UnixListener;

/// Listens on `path`. Creates its directory, and replaces the socket of a node that was killed. Does not replace
/// anything else. Only the owner of the socket may use it.
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
    // The lock makes nodes that start at the same time do this one after the other. Otherwise two of them could
    // find the same stale socket.
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
