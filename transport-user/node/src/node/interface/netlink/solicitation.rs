//! Asks all hosts of a link who has an address, and leaves the answer to the kernel.
//!
//! The kernel asks only if it does not know an address, or after many seconds in which its packets were not answered. An entry
//! of its table may be wrong until then: a router has taken over from another one and has not announced it. The kernel puts the
//! answer to a question into an entry that exists, whoever has asked: RFC 826, and RFC 4861, 7.2.5.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use tracing::warn;

use crate::common::mutex::lock;

/// Shortest time between two questions for the same address. The kernel ignores an answer that comes within a second of the last
/// change of its entry, and a stalled connection has two seconds.
const PAUSE: Duration = Duration::from_millis(400);
/// Hop limit of neighbour discovery: no router has forwarded it (RFC 4861, 7.1.1).
const HOP_LIMIT: u32 = 255;
const BROADCAST: [u8; 6] = [0xff; 6];

/// Who asks: the addresses of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) mac: [u8; 6],
    pub(crate) address: IpAddr,
}

/// The sockets for questions in one network namespace.
#[derive(Debug)]
pub(super) struct Solicitation {
    /// For ARP. None without the right to send it.
    arp: Option<Socket>,
    /// For neighbour discovery. None without the right to send it, or without IPv6.
    discovery: Option<Socket>,
    /// When each address was asked for, if that is not long ago.
    asked: Mutex<HashMap<IpAddr, Instant>>,
}

impl Solicitation {
    /// Opens the sockets in the calling thread's network namespace.
    pub(super) fn open() -> Self {
        Self {
            arp: or_warn(arp(), "ARP"),
            discovery: or_warn(discovery(), "IPv6 neighbour discovery"),
            asked: Mutex::default(),
        }
    }

    /// Asks for the MAC address of a next hop of the interface with `index`, unless it was asked for a moment ago.
    pub(super) fn ask(&self, index: u32, own: Own, hop: IpAddr) {
        if !self.is_due(hop, Instant::now()) {
            return;
        }
        // A question that is lost is asked again.
        let send = |socket: &Option<Socket>, packet: &[u8], to: SockAddr| {
            socket.as_ref().map(|socket| socket.send_to(packet, &to))
        };
        let _ = match (own.address, hop) {
            (IpAddr::V4(address), IpAddr::V4(hop)) => {
                send(&self.arp, &arp_request(own.mac, address, hop), everybody(index))
            }
            (_, IpAddr::V6(hop)) => {
                let group = SocketAddrV6::new(solicited_node(hop), 0, 0, index);
                send(&self.discovery, &neighbour_solicitation(own.mac, hop), SocketAddr::V6(group).into())
            }
            (IpAddr::V6(_), IpAddr::V4(_)) => None,
        };
    }

    fn is_due(&self, hop: IpAddr, now: Instant) -> bool {
        let mut asked = lock(&self.asked);
        asked.retain(|_, then| now - *then < PAUSE);
        if asked.contains_key(&hop) {
            return false;
        }
        asked.insert(hop, now);
        true
    }
}

/// Says what does not work without the socket.
fn or_warn(socket: io::Result<Socket>, protocol: &str) -> Option<Socket> {
    let text = "a router that fails over without a word is noticed only when the kernel notices it";
    socket
        .inspect_err(|error| {
            warn!("cannot ask for next hops by {protocol}: {error} (CAP_NET_RAW is needed); {text}")
        })
        .ok()
}

fn arp() -> io::Result<Socket> {
    // Without a protocol, the socket receives nothing.
    let socket = Socket::new(Domain::from(libc::AF_PACKET), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn discovery() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, Type::from(libc::SOCK_RAW), Some(Protocol::ICMPV6))?;
    socket.set_nonblocking(true)?;
    socket.set_multicast_hops_v6(HOP_LIMIT)?;
    // Nobody reads it. The kernel rounds up to its smallest buffer.
    socket.set_recv_buffer_size(0)?;
    Ok(socket)
}

/// Returns the address of an ARP packet to all hosts of a link.
fn everybody(index: u32) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: it is the address of a packet socket.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ARP as u16).to_be();
    address.sll_ifindex = index as i32;
    address.sll_halen = BROADCAST.len() as u8;
    address.sll_addr[..BROADCAST.len()].copy_from_slice(&BROADCAST);
    // SAFETY: the storage has an address of this length.
    unsafe { SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) }
}

/// Returns an ARP request (RFC 826) for Ethernet and IPv4, without its Ethernet header.
fn arp_request(mac: [u8; 6], address: Ipv4Addr, hop: Ipv4Addr) -> [u8; 28] {
    let mut packet = [0; 28];
    packet[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    packet[8..14].copy_from_slice(&mac);
    packet[14..18].copy_from_slice(&address.octets());
    packet[24..].copy_from_slice(&hop.octets());
    packet
}

/// Returns a neighbour solicitation (RFC 4861, 4.3) with the source's MAC address. The kernel adds the checksum.
fn neighbour_solicitation(mac: [u8; 6], hop: Ipv6Addr) -> [u8; 32] {
    let mut packet = [0; 32];
    packet[0] = 135;
    packet[8..24].copy_from_slice(&hop.octets());
    packet[24..26].copy_from_slice(&[1, 1]);
    packet[26..].copy_from_slice(&mac);
    packet
}

/// Returns the group in which every host with such an address is (RFC 4291, 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let mut group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).octets();
    group[13..].copy_from_slice(&address.octets()[13..]);
    group.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 1, 7];

    #[test]
    fn questions_have_the_bytes_of_their_standards() {
        let packet = arp_request(MAC, [10, 7, 0, 1].into(), [10, 7, 0, 254].into());
        assert_eq!(
            hex::encode(packet),
            "0001080006040001020000000107 0a070001 000000000000 0a0700fe".replace(' ', "")
        );
        let hop: Ipv6Addr = "fd07:1::12:3456".parse().expect("an address");
        let packet = neighbour_solicitation(MAC, hop);
        assert_eq!(
            hex::encode(packet),
            "8700000000000000 fd070001000000000000000000123456 0101020000000107".replace(' ', "")
        );
        assert_eq!(solicited_node(hop).to_string(), "ff02::1:ff12:3456");
    }

    /// However many connections to however many peers are stalled, each next hop is asked for once in a while.
    #[test]
    fn an_address_is_asked_for_once_in_a_while() {
        let asks = Solicitation { arp: None, discovery: None, asked: Mutex::default() };
        let [first, second] = ["10.7.0.254", "fd07::254"].map(|text| text.parse().expect("an address"));
        let now = Instant::now();
        let due = |hop, after| asks.is_due(hop, now + after);
        assert!(due(first, Duration::ZERO) && due(second, PAUSE / 2));
        assert!(!due(first, PAUSE / 2));
        assert!(due(first, PAUSE) && !due(second, PAUSE));
        assert!(due(second, 2 * PAUSE));
        assert_eq!(lock(&asks.asked).len(), 1, "what was long ago is forgotten");
    }
}
