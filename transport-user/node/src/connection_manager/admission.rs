//! Limits the number of unfinished handshakes, and of connections per peer.
//!
//! A handshake has a place from the moment its TCP connection is accepted. A peer that sends nothing keeps its
//! place only until another peer needs it, so silent peers do not keep others out.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::common::mutex::lock;

/// The limits for peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Unfinished handshakes in total. Default 64.
    pub handshakes: usize,
    /// Unfinished handshakes per source (an IPv4 address or an IPv6 /64). Default 16.
    pub handshakes_per_source: usize,
    /// Connections to this node per source. Default 128, half of the connection table.
    pub connections_per_source: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { handshakes: 64, handshakes_per_source: 16, connections_per_source: 128 }
    }
}

/// The source of a TCP connection: an IPv4 address or an IPv6 /64, because a host can use every address of its
/// /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl Source {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address {
            // All hosts of a link have their link-local addresses in the same /64, so these count one by one.
            IpAddr::V6(v6) if !v6.is_unicast_link_local() => {
                let [a, b, c, d, ..] = v6.segments();
                Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            address => Self(address),
        }
    }
}

/// The unfinished handshakes, oldest first.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Limits,
    under_way: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    source: Source,
    /// Whether its first message has arrived.
    heard: bool,
    gives_way: Arc<Notify>,
}

/// The place of a handshake. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    gives_way: Arc<Notify>,
}

/// The result of a request for a place.
#[derive(Debug)]
pub(super) enum Admitted {
    /// A place was free.
    Free(Place),
    /// A place was made free by ending a handshake of this source.
    Displacing(Place, Source),
    /// The source has reached its limit of unfinished handshakes.
    Refused,
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, under_way: Mutex::default() })
    }

    /// Requests a place for a peer that has just connected.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Admitted {
        let source = Source::of(peer);
        let mut under_way = lock(&self.under_way);
        let of_source = under_way.iter().filter(|entry| entry.source == source).count();
        let displaced = if of_source >= self.limits.handshakes_per_source {
            // A source at its limit can only replace one of its own silent handshakes, even if places are free.
            match under_way.iter().position(|entry| entry.source == source && !entry.heard) {
                Some(silent) => Some(silent),
                None => return Admitted::Refused,
            }
        } else if under_way.len() >= self.limits.handshakes {
            let silent = under_way.iter().position(|entry| !entry.heard);
            silent.or_else(|| oldest_of_largest(&under_way))
        } else {
            None
        };
        let displaced = displaced.map(|index| {
            let entry = under_way.remove(index);
            entry.gives_way.notify_one();
            entry.source
        });
        let gives_way = Arc::new(Notify::new());
        under_way.push(Entry { source, heard: false, gives_way: Arc::clone(&gives_way) });
        let place = Place { admission: Arc::clone(self), gives_way };
        match displaced {
            Some(displaced) => Admitted::Displacing(place, displaced),
            None => Admitted::Free(place),
        }
    }

    /// Returns the number of unfinished handshakes of a source whose first message has arrived.
    pub(super) fn begun(&self, source: Source) -> usize {
        lock(&self.under_way).iter().filter(|entry| entry.source == source && entry.heard).count()
    }
}

/// Returns the index of the oldest handshake of the source that has most handshakes.
fn oldest_of_largest(under_way: &[Entry]) -> Option<usize> {
    let count = |source| under_way.iter().filter(|entry| entry.source == source).count();
    // `max_by_key` returns the last of several equal elements, so the order is reversed.
    (0..under_way.len()).rev().max_by_key(|index| count(under_way[*index].source))
}

impl Place {
    /// Records that the peer's first message has arrived.
    pub(super) fn heard(&self) {
        let mut under_way = lock(&self.admission.under_way);
        if let Some(entry) = under_way.iter_mut().find(|entry| Arc::ptr_eq(&entry.gives_way, &self.gives_way))
        {
            entry.heard = true;
        }
    }

    /// Returns when the place is given to another peer.
    pub(super) async fn displaced(&self) {
        self.gives_way.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.admission.under_way).retain(|entry| !Arc::ptr_eq(&entry.gives_way, &self.gives_way));
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { handshakes: 4, handshakes_per_source: 2, connections_per_source: 8 };

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn free(admission: &Arc<Admission>, peer: &str) -> Place {
        match admission.admit(address(peer)) {
            Admitted::Free(place) => place,
            other => panic!("{peer}: {other:?}"),
        }
    }

    fn displacing(admission: &Arc<Admission>, peer: &str, source: &str) -> Place {
        match admission.admit(address(peer)) {
            Admitted::Displacing(place, displaced) if displaced == Source::of(address(source)) => place,
            other => panic!("{peer}: {other:?}"),
        }
    }

    #[test]
    fn a_host_is_one_source() {
        let same = |a: &str, b: &str| Source::of(address(a)) == Source::of(address(b));
        assert!(same("fd00:1:2:3::1", "fd00:1:2:3:ffff::7"));
        assert!(!same("fd00:1:2:3::1", "fd00:1:2:4::1"));
        assert!(!same("fe80::1", "fe80::2"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
    }

    #[tokio::test]
    async fn the_oldest_silent_one_gives_way() {
        let admission = Admission::new(LIMITS);
        let speaks = free(&admission, "10.0.0.1");
        speaks.heard();
        let silent = free(&admission, "10.0.0.2");
        let _others = [free(&admission, "10.0.0.3"), free(&admission, "10.0.0.4")];
        let _newcomer = displacing(&admission, "10.0.0.5", "10.0.0.2");
        silent.displaced().await;
        drop(silent);
        let _next = displacing(&admission, "10.0.0.6", "10.0.0.3");
    }

    #[test]
    fn a_source_displaces_its_own_before_it_has_more_than_its_share() {
        let admission = Admission::new(LIMITS);
        let (first, second) = (free(&admission, "10.0.0.1"), free(&admission, "10.0.0.1"));
        first.heard();
        let third = displacing(&admission, "10.0.0.1", "10.0.0.1");
        drop(second);
        third.heard();
        assert!(matches!(admission.admit(address("10.0.0.1")), Admitted::Refused));
        assert_eq!(admission.begun(Source::of(address("10.0.0.1"))), 2);
        drop(first);
        drop(free(&admission, "10.0.0.1"));
    }

    #[test]
    fn where_all_speak_the_largest_source_gives_way() {
        let admission = Admission::new(LIMITS);
        let places: Vec<_> = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3"]
            .map(|peer| free(&admission, peer))
            .into_iter()
            .inspect(Place::heard)
            .collect();
        let _newcomer = displacing(&admission, "10.0.0.4", "10.0.0.2");
        drop(places);
    }
}
