//! The socket on which the manager listens, and the peers that connect to it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};

use super::acceptance;
use super::admission::{Admitted, Source};
use super::counters::count;
use super::host::Host;
use super::node_state::socket_address;
use super::origin::{Level, Origin};
use super::shared::Shared;
use crate::common::open_files;

/// Length of the queue of TCP connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Why the manager could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the connection manager: {source}; {}", self.remedy())]
pub struct StartError {
    /// The address on which it should listen.
    pub address: SocketAddr,
    /// The system's reason.
    pub source: std::io::Error,
}

impl StartError {
    fn remedy(&self) -> &'static str {
        match self.source.kind() {
            ErrorKind::AddrNotAvailable => {
                "the interface does not have this address: use one that `ip address` shows, or add this one"
            }
            ErrorKind::AddrInUse => {
                "another program listens there, perhaps another node (`tiercel down` stops it): choose another port with \
                 --control-port or node.control_port"
            }
            ErrorKind::PermissionDenied => {
                "run as root, or choose a port above 1023 with --control-port or node.control_port"
            }
            _ => "choose another port with --control-port or node.control_port",
        }
    }
}

/// A socket that listens for a manager that starts later. Peers that connect before that wait.
pub(crate) struct ListeningPlace {
    pub(super) listener: TcpListener,
    pub(super) local: SocketAddr,
}

impl ListeningPlace {
    /// Binds the socket and listens. Needs a runtime.
    pub(crate) fn take(address: IpAddr, port: u16, interface_index: u32) -> Result<Self, StartError> {
        let address = socket_address(address, port, interface_index);
        let listen = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let local = listener.local_addr()?;
            Ok(Self { listener, local })
        };
        listen().map_err(|source| StartError { address, source })
    }
}

/// Accepts peers, one task each, until it is aborted.
pub(super) async fn listen<H: Host>(shared: Arc<Shared<H>>, listener: TcpListener) {
    let mut complaints = open_files::Complaints::default();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // These are few. As events of strangers, they could be suppressed by those who use up the descriptors.
                if let Some(text) = complaints.failed("a peer", &error, std::time::Instant::now()) {
                    shared.events.warn(text);
                }
                tokio::time::sleep(open_files::PAUSE).await;
                continue;
            }
        };
        if complaints.ended() {
            shared.events.warn("peers are accepted again".to_owned());
        }
        count(&shared.counters.tcp_accepted);
        let origin = Origin::Stranger(Source::of(peer.ip()));
        let place = match shared.admission.admit(peer.ip()) {
            Admitted::Free(place) => place,
            Admitted::Displacing(place, source) => {
                let text = || format!("a handshake of {source} is ended to make place for {peer}");
                shared.events.add(origin, Level::Warning, text);
                place
            }
            Admitted::Refused => {
                count(&shared.counters.refused_busy);
                let most = shared.limits.handshakes_per_source;
                let text = || format!("{peer} rejected: it has {most} unfinished handshakes");
                shared.events.add(origin, Level::Warning, text);
                acceptance::turn_away(&stream);
                continue;
            }
        };
        tokio::spawn(acceptance::accept(Arc::clone(&shared), stream, peer, place));
    }
}
