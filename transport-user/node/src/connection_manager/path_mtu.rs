//! The search for the largest IP packet that crosses the path to a peer, in the manner of RFC 8899.
//!
//! During the handshake each end opens a UDP socket and names its port and a random token to the other end. Each end then
//! sends probes: packets with the don't-fragment bit, as long as the packet size in question. The other end answers a probe
//! that arrives with a short acknowledgement. So each end finds the size for its own direction.
//!
//! A probe is answered only if it comes from the peer's address and port and has the token of this handshake. The answer is
//! always shorter than the probe. The number of probes, of answers, and the time have limits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rand::Rng;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::udp::{FALCON_UDP_PORT, Udp};

use super::path_reports::{LEAST_MTU, ProbeOffer};

/// Longest time for the search, of both ends.
pub(super) const LONGEST_SEARCH: Duration = Duration::from_secs(1);
/// Sizes that are tried at the same time.
const AT_ONCE: u32 = 8;
/// How often a size is tried before it counts as too large.
const TRIES: u32 = 3;
/// Shortest and longest wait for the acknowledgements of one try.
const WAIT: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(250));
/// Most probes that an end sends, and most that it answers, in one handshake.
const MOST_PROBES: u32 = 256;
/// Length of an acknowledgement and of the part of a probe in front of its padding, bytes.
const HEADER: usize = 20;
const MAGIC: [u8; 7] = *b"tcl-mtu";
const PROBE: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;

/// The sizes that are known to pass and those that are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Search {
    /// Largest size that was acknowledged.
    passed: Option<u32>,
    /// Largest size that is not excluded.
    limit: u32,
    /// Whether the first round, with the largest and the smallest size, is over.
    begun: bool,
}

impl Search {
    fn new(limit: u32) -> Self {
        Self { passed: None, limit, begun: false }
    }

    fn acknowledged(&mut self, size: u32) {
        if size <= self.limit {
            self.passed = self.passed.max(Some(size));
        }
    }

    /// Returns the sizes to try next, in ascending order. There are none when the search is over.
    fn candidates(&self) -> Vec<u32> {
        match self.passed {
            None if self.begun => Vec::new(),
            None if self.limit <= LEAST_MTU => vec![self.limit],
            None => vec![LEAST_MTU, self.limit],
            Some(passed) => {
                let open = self.limit.saturating_sub(passed);
                let steps = open.min(AT_ONCE);
                (1..=steps).map(|step| passed + open * step / steps).collect()
            }
        }
    }

    /// Ends a round: a size above the largest that passed, which was tried often enough, is excluded.
    fn excluded(&mut self, tried: &[u32]) {
        self.begun = true;
        let passed = self.passed.unwrap_or(0);
        if let Some(failed) = tried.iter().find(|size| **size > passed) {
            self.limit = self.limit.min(failed - 1);
        }
    }
}

/// A socket for probes, before the peer's is known.
pub(super) struct ProbeSocket {
    socket: UdpSocket,
    token: u64,
}

impl ProbeSocket {
    /// Opens a socket on an address of this node.
    pub(super) async fn open(own_end: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(own_end).await?;
        let set = |level, option, value: libc::c_int| {
            let size = size_of_val(&value) as libc::socklen_t;
            let fd = socket.as_fd().as_raw_fd();
            // SAFETY: the value is an int that outlives the call.
            match unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), size) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        match own_end.ip() {
            IpAddr::V4(_) => set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?,
            IpAddr::V6(_) => {
                set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
                set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
            }
        }
        if socket.local_addr()?.port() == FALCON_UDP_PORT {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "the system chose the port of Falcon packets",
            ));
        }
        Ok(Self { socket, token: rand::rng().random() })
    }

    /// Returns what the peer needs to send probes here.
    pub(super) fn offer(&self) -> io::Result<ProbeOffer> {
        Ok(ProbeOffer { port: self.socket.local_addr()?.port(), token: self.token })
    }

    /// Starts probing a peer. From now on the kernel passes on only what comes from its socket.
    pub(super) async fn towards(self, mut peer: SocketAddr, offer: ProbeOffer) -> io::Result<Prober> {
        peer.set_port(offer.port);
        self.socket.connect(peer).await?;
        let ip = if peer.is_ipv4() { Ipv4::LEN } else { Ipv6::LEN };
        Ok(Prober {
            socket: self.socket,
            own: self.token,
            peer: offer.token,
            headers: (ip + Udp::LEN) as u32,
            answers_left: MOST_PROBES,
            buffer: vec![0; usize::from(u16::MAX)],
        })
    }
}

/// Sends probes to a peer, and answers those of the peer.
pub(super) struct Prober {
    socket: UdpSocket,
    /// Token of probes to this end.
    own: u64,
    /// Token of probes to the peer.
    peer: u64,
    /// Bytes of the headers in front of UDP payload.
    headers: u32,
    answers_left: u32,
    buffer: Vec<u8>,
}

impl Prober {
    /// Returns the largest IP packet that crosses the path to the peer, up to `limit` bytes, or `None` if no packet of
    /// [`LEAST_MTU`] does. It answers the peer's probes while it waits.
    pub(super) async fn find(&mut self, limit: u32, round_trip: Option<Duration>) -> Option<u32> {
        let end = Instant::now() + LONGEST_SEARCH;
        let wait = round_trip.unwrap_or_default().saturating_mul(2).clamp(WAIT.0, WAIT.1);
        let mut search = Search::new(limit);
        let mut probes_left = MOST_PROBES;
        loop {
            let candidates = search.candidates();
            let Some(largest) = candidates.last().copied() else { break };
            for _ in 0..TRIES {
                let passed = search.passed;
                for size in candidates.iter().filter(|size| passed.is_none_or(|passed| **size > passed)) {
                    if probes_left == 0 {
                        return search.passed;
                    }
                    probes_left -= 1;
                    self.send(*size).await;
                }
                let pause = (Instant::now() + wait).min(end);
                while search.passed < Some(largest) {
                    let Ok(acknowledged) = timeout_at(pause, self.next()).await else { break };
                    search.acknowledged(acknowledged);
                }
                if search.passed >= Some(largest) || Instant::now() >= end {
                    break;
                }
            }
            if Instant::now() >= end {
                break;
            }
            search.excluded(&candidates);
        }
        search.passed
    }

    /// Answers the peer's probes until it is dropped.
    pub(super) async fn answer(&mut self) -> std::convert::Infallible {
        loop {
            self.next().await;
        }
    }

    /// Sends a probe of this size. What the interface refuses as too long counts as lost.
    async fn send(&self, size: u32) {
        let mut bytes = vec![0; (size - self.headers) as usize];
        bytes[..HEADER].copy_from_slice(&header(PROBE, self.peer, size));
        let _ = self.socket.send(&bytes).await;
    }

    /// Answers probes until an acknowledgement arrives. Returns its size.
    async fn next(&mut self) -> u32 {
        loop {
            // An error is that of an earlier packet, such as one that a router found too long.
            let Ok(length) = self.socket.recv(&mut self.buffer).await else { continue };
            let Some((kind, token, size)) = parse(&self.buffer[..length]) else { continue };
            if kind == ACKNOWLEDGEMENT && token == self.own {
                return size;
            }
            // Only a probe that arrived whole proves its size.
            let whole = length as u32 + self.headers == size && size >= LEAST_MTU;
            if kind == PROBE && token == self.own && whole && self.answers_left > 0 {
                self.answers_left -= 1;
                let _ = self.socket.send(&header(ACKNOWLEDGEMENT, self.peer, size)).await;
            }
        }
    }
}

fn header(kind: u8, token: u64, size: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..7].copy_from_slice(&MAGIC);
    bytes[7] = kind;
    bytes[8..16].copy_from_slice(&token.to_be_bytes());
    bytes[16..].copy_from_slice(&size.to_be_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> Option<(u8, u64, u32)> {
    let (magic, rest) = bytes.split_first_chunk::<7>()?;
    let (kind, rest) = rest.split_first()?;
    let (token, rest) = rest.split_first_chunk()?;
    let size = rest.first_chunk()?;
    (*magic == MAGIC).then(|| (*kind, u64::from_be_bytes(*token), u32::from_be_bytes(*size)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The search finds the largest size that passes, of every path, and needs few probes.
        #[test]
        fn the_largest_size_is_found(limit in 168u32..=65535, path in 0u32..=65535) {
            let mut search = Search::new(limit);
            let (mut rounds, mut probes) = (0, 0);
            loop {
                let candidates = search.candidates();
                if candidates.is_empty() {
                    break;
                }
                prop_assert!(candidates.is_sorted() && candidates.iter().all(|size| *size <= limit));
                candidates.iter().filter(|size| **size <= path).for_each(|size| search.acknowledged(*size));
                search.excluded(&candidates);
                rounds += 1;
                probes += candidates.len() as u32;
            }
            let least = LEAST_MTU.min(limit);
            prop_assert_eq!(search.passed, (path >= least).then_some(path.min(limit)));
            prop_assert!(rounds <= 7 && probes * TRIES <= MOST_PROBES, "{} rounds, {} probes", rounds, probes);
            prop_assert!(path < limit || rounds == 1);
        }

        /// No packet of a stranger is taken for one of the protocol, and none is read beyond its end.
        #[test]
        fn only_whole_headers_are_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(parse(&bytes), None);
            let valid = header(PROBE, 7, 1500);
            prop_assert_eq!(parse(&valid), Some((PROBE, 7, 1500)));
            prop_assert_eq!(parse(&valid[..bytes.len().min(HEADER - 1)]), None);
        }
    }

    async fn sockets() -> [ProbeSocket; 2] {
        let own_end = "127.0.0.1:0".parse().expect("an address");
        [ProbeSocket::open(own_end).await.expect("a port"), ProbeSocket::open(own_end).await.expect("a port")]
    }

    #[tokio::test]
    async fn both_ends_find_the_size_at_the_same_time() {
        let [left, right] = sockets().await;
        let [at_left, at_right] = [&left, &right].map(|socket| socket.offer().expect("bound"));
        let [here, there] = [&left, &right].map(|socket| socket.socket.local_addr().expect("bound"));
        let mut left = left.towards(there, at_right).await.expect("connected");
        let mut right = right.towards(here, at_left).await.expect("connected");
        let search = async {
            let found = tokio::join!(left.find(1500, None), right.find(9000, None));
            assert_eq!(found, (Some(1500), Some(9000)));
        };
        search.await;
    }

    /// A probe with another token, of another length than it says, or too short to prove anything is not answered.
    #[tokio::test]
    async fn strangers_are_not_answered() {
        let [left, right] = sockets().await;
        let (offer, here) = (right.offer().expect("bound"), left.socket.local_addr().expect("bound"));
        let there = right.socket.local_addr().expect("bound");
        let peer = ProbeOffer { port: here.port(), token: 5 };
        left.socket.connect(there).await.expect("connected");
        let mut right = right.towards(here, peer).await.expect("connected");
        let answering = tokio::spawn(async move { right.answer().await });
        let probe = |token, size: u32, length: u32| {
            let mut bytes = vec![0; (length - 28) as usize];
            bytes[..HEADER].copy_from_slice(&header(PROBE, token, size));
            bytes
        };
        for bytes in [
            probe(offer.token ^ 1, 1500, 1500),
            probe(offer.token, 9000, 1500),
            probe(offer.token, 100, 100),
            vec![0; 4],
            probe(offer.token, 1400, 1400),
        ] {
            left.socket.send(&bytes).await.expect("sent");
        }
        let mut answer = [0; 100];
        let length = left.socket.recv(&mut answer).await.expect("the last one is answered");
        assert_eq!(parse(&answer[..length]), Some((ACKNOWLEDGEMENT, 5, 1400)), "in order, so no other was");
        answering.abort();
    }

    /// RFC 8899, 4.3: where nothing passes, the search ends in bounded time.
    #[tokio::test]
    async fn a_path_without_probes_is_given_up() {
        let [left, right] = sockets().await;
        let (offer, there) = (right.offer().expect("bound"), right.socket.local_addr().expect("bound"));
        let mut left = left.towards(there, offer).await.expect("connected");
        assert_eq!(left.find(1500, None).await, None);
        assert!(ProbeOffer { port: 0, token: 1 }.check().is_err());
        assert!(ProbeOffer { port: FALCON_UDP_PORT, token: 1 }.check().is_err());
        assert_eq!(offer.check(), Ok(()));
    }
}
