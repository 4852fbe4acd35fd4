//! What a session learns about its data path, from the watch over all connections and from its peer.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::path_reports::{MtuOf, ProbeOffer, SmallerMtu};

/// A connection whose packets are not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    /// Since when.
    pub(super) lasts: Duration,
    /// What still arrives.
    pub(super) heard: Heard,
}

/// What arrives from the peer of a stalled connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing has arrived since the connection was opened.
    Never,
    /// Nothing arrives any more.
    NoLonger,
    /// Some packets arrive.
    Some,
}

/// How an end knows of a smaller MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The peer has said so.
    Peer,
    /// Packets were lost, and a search has found it.
    Search,
    /// This end's interface has changed.
    Interface,
}

/// Why the data path ends a connection, in words for each end. The peer shows its own as words of its peer: there this end is
/// "the peer", and what it says names no address of this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) here: String,
    pub(super) for_peer: String,
}

/// How a session learns about its data path, and what it has found out.
pub(super) struct PathCheck {
    pub(super) stall: watch::Sender<Option<Stall>>,
    /// A smaller MTU that is not in force yet, and how this end knows of it.
    pub(super) smaller: watch::Sender<Option<(SmallerMtu, Source)>>,
    /// Where the peer takes probes: it searches, or answers that it takes ours.
    probes: mpsc::Sender<ProbeOffer>,
    pub(super) incoming: tokio::sync::Mutex<mpsc::Receiver<ProbeOffer>>,
    /// Whether there was a sign since the last check that the other end hears nothing of this one.
    unheard: AtomicBool,
    /// Whether both ends search: probes have passed when the connection was set up.
    pub(super) peer_searches: bool,
    pub(super) longest_stall: Duration,
    cause: OnceLock<Cause>,
}

impl PathCheck {
    pub(super) fn new(peer_searches: bool, longest_stall: Duration) -> Self {
        let (probes, incoming) = mpsc::channel(1);
        Self {
            stall: watch::Sender::new(None),
            smaller: watch::Sender::new(None),
            probes,
            incoming: tokio::sync::Mutex::new(incoming),
            unheard: AtomicBool::new(false),
            peer_searches,
            longest_stall,
            cause: OnceLock::new(),
        }
    }

    /// Takes what the watch of the data path has seen.
    pub(super) fn stalls(&self, stall: Option<Stall>) {
        self.stall.send_if_modified(|before| std::mem::replace(before, stall) != stall);
    }

    /// Takes a message of the peer that names where it takes probes. If one is waiting already, the peer sends too many.
    pub(super) fn peer_probes(&self, probe: ProbeOffer) -> Result<(), String> {
        probe.check()?;
        self.is_unheard();
        let _ = self.probes.try_send(probe);
        Ok(())
    }

    /// Takes a sign that the other end may hear nothing of this one: it searches, which it does while its end is stalled, or it
    /// does not acknowledge what this end sends over TCP.
    pub(super) fn is_unheard(&self) {
        self.unheard.store(true, Relaxed);
    }

    /// Returns whether there was such a sign since the last call.
    pub(super) fn was_unheard(&self) -> bool {
        self.unheard.swap(false, Relaxed)
    }

    /// Takes a message of the peer that its packets are shorter from now on.
    pub(super) fn peer_has_smaller_mtu(&self, smaller: SmallerMtu) -> Result<(), String> {
        smaller.check()?;
        self.has_smaller_mtu(smaller, Source::Peer);
        Ok(())
    }

    /// Takes the MTU of this end's interface.
    pub(super) fn interface_has_mtu(&self, mtu: u32) {
        self.has_smaller_mtu(SmallerMtu { mtu, of: MtuOf::Node }, Source::Interface);
    }

    /// Only the smallest MTU counts. So what is replaced was known to the other end, or is not needed there any more.
    fn has_smaller_mtu(&self, smaller: SmallerMtu, source: Source) {
        self.smaller.send_if_modified(|before| {
            let news = before.is_none_or(|(before, _)| smaller.mtu < before.mtu);
            if news {
                *before = Some((smaller, source));
            }
            news
        });
    }

    /// Returns a receiver of smaller MTUs, that of before included.
    pub(super) fn smaller_mtus(&self) -> watch::Receiver<Option<(SmallerMtu, Source)>> {
        let mut smaller = self.smaller.subscribe();
        smaller.mark_changed();
        smaller
    }

    /// Takes why the data path ends the session. Returns false if it has a cause already.
    pub(super) fn ends(&self, cause: Cause) -> bool {
        self.cause.set(cause).is_ok()
    }

    /// Returns why the data path ends the session, in words for this end.
    pub(super) fn cause(&self) -> Option<&str> {
        self.cause.get().map(|cause| cause.here.as_str())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(5);

    /// The interface may change after the session is known, and before it is served.
    #[tokio::test]
    async fn a_smaller_mtu_of_before_is_not_missed() {
        let path = PathCheck::new(true, LONG);
        path.interface_has_mtu(1400);
        let mut smaller = path.smaller_mtus();
        path.interface_has_mtu(1400);
        path.interface_has_mtu(1500);
        timeout(LONG, smaller.changed()).await.expect("it is told").expect("the sender is there");
        let known = *smaller.borrow_and_update();
        assert_eq!(known, Some((SmallerMtu { mtu: 1400, of: MtuOf::Node }, Source::Interface)));
    }
}
