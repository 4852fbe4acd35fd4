//! TCP connections to peers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};

use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::admission::Limits;
use crate::common::mutex::lock;

/// Limits the number of simultaneous handshakes that this end begins with one peer, to half the limit that a peer
/// with default limits has. Further handshakes wait.
#[derive(Debug, Default)]
pub(super) struct Dialing(Mutex<HashMap<IpAddr, Weak<Semaphore>>>);

impl Dialing {
    /// Waits until this end may begin another handshake with `peer`.
    pub(super) async fn permit(&self, peer: IpAddr) -> OwnedSemaphorePermit {
        let semaphore = {
            let mut peers = lock(&self.0);
            peers.retain(|_, semaphore| semaphore.strong_count() > 0);
            peers.get(&peer).and_then(Weak::upgrade).unwrap_or_else(|| {
                let semaphore = Arc::new(Semaphore::new(Limits::default().handshakes_per_source / 2));
                peers.insert(peer, Arc::downgrade(&semaphore));
                semaphore
            })
        };
        semaphore.acquire_owned().await.expect("the semaphore is never closed")
    }
}

/// Connects by TCP from the node's address, because the peer takes the source address of the TCP connection for
/// our Falcon address.
pub(super) async fn dial(own_end: SocketAddr, peer: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if peer.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(own_end)?;
    let stream = socket.connect(peer).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
