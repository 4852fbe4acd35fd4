//! The order of the transfers that this node begins: they wait for their turn instead of being refused by the peer.

use std::net::IpAddr;

use tokio::sync::OwnedSemaphorePermit;
use transport_common::ids::Cid;

use super::super::semaphores::Semaphores;
use super::SERVED_EACH;
use super::trouble::Trouble;
use crate::connection_manager::PeerSource;
use crate::control::server::ProgressSender;

/// One transfer at a time on each connection, and to each peer as many as it serves. The first that comes is the first
/// that goes.
#[derive(Debug, Default)]
pub(in super::super) struct Turns {
    connections: Semaphores<Cid>,
    peers: Semaphores<PeerSource>,
}

/// The turn of a transfer. Dropping it lets the next one go.
#[derive(Debug)]
pub(in super::super) struct Turn {
    _connection: OwnedSemaphorePermit,
    _peer: Option<OwnedSemaphorePermit>,
}

impl Turns {
    /// Waits for the turn of a transfer.
    ///
    /// # Errors
    /// The client left.
    pub(in super::super) async fn wait(
        &self,
        cid: Cid,
        peer: Option<IpAddr>,
        progress: &ProgressSender,
    ) -> Result<Turn, Trouble> {
        let connection = self.connections.of(cid, 1).acquire_owned();
        let turn = async {
            let connection = connection.await.ok()?;
            let peer = match peer {
                Some(peer) => {
                    Some(self.peers.of(PeerSource::of(peer), SERVED_EACH).acquire_owned().await.ok()?)
                }
                None => None,
            };
            Some(Turn { _connection: connection, _peer: peer })
        };
        tokio::select! {
            turn = turn => turn.ok_or(Trouble::Cancelled),
            () = progress.unwanted() => Err(Trouble::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn transfers_of_a_connection_go_one_after_the_other() {
        let (turns, peer) = (Turns::default(), Some(IpAddr::from([10, 7, 0, 2])));
        let (progress, wanted) = ProgressSender::detached();
        let first = turns.wait(Cid(1), peer, &progress).await.unwrap();
        let mut second = Box::pin(turns.wait(Cid(1), peer, &progress));
        assert!((&mut second).now_or_never().is_none());
        let other = turns.wait(Cid(2), peer, &progress).await.unwrap();
        // The peer serves two at a time.
        let mut third = Box::pin(turns.wait(Cid(3), peer, &progress));
        assert!((&mut third).now_or_never().is_none());
        assert!(turns.wait(Cid(4), Some(IpAddr::from([10, 7, 0, 3])), &progress).now_or_never().is_some());
        drop(other);
        third.await.unwrap();
        drop(first);
        second.await.unwrap();
        // A client that leaves waits no longer.
        let _held = turns.wait(Cid(1), peer, &progress).await.unwrap();
        let left = turns.wait(Cid(1), peer, &progress);
        drop(wanted);
        assert!(matches!(left.await, Err(Trouble::Cancelled)));
    }
}
