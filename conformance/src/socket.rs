//! The network as a packet socket on an interface of Linux.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use transport_common::units::Picoseconds;
use transport_common::wire::udp::FALCON_UDP_PORT;

use crate::wire::Wire;

/// Longer than any frame.
const LARGEST: usize = 16_384;
/// Bytes of the MAC addresses, before the tag.
const ADDRESSES: usize = 12;
/// Bytes that the kernel keeps until the tester takes them.
const RECEIVE_BUFFER: libc::c_int = 4 << 20;
/// Picoseconds in a millisecond.
const MILLISECOND: u64 = 1_000_000_000;
/// Longest time for which a frame may have waited for the tester, picoseconds.
const LARGEST_AGE: u64 = 60_000 * MILLISECOND;
// From linux/if_packet.h; not in the libc crate.
const PACKET_AUXDATA: libc::c_int = 8;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
/// `ETHTOOL_GDRVINFO` of linux/ethtool.h.
const GET_DRIVER: u32 = 3;
/// `SIOCETHTOOL` of linux/sockios.h.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct tpacket_auxdata`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Auxdata {
    status: u32,
    length: u32,
    captured: u32,
    mac: u16,
    network: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
}

/// A packet socket. It needs root (CAP_NET_RAW), and an interface without an XDP program that takes Falcon's
/// frames.
///
/// The kernel's own UDP stack sees the peer's packets as well. It would answer with ICMP port unreachable,
/// because nothing is bound to Falcon's port. So the tester binds a UDP socket to that port and reads nothing
/// from it: the kernel drops what does not fit its small buffer, and says nothing to the peer.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    interface: String,
    index: u32,
    _port: UdpSocket,
}

impl PacketSocket {
    /// Opens a socket on an interface of the calling thread's network namespace. `address` is the tester's.
    ///
    /// # Errors
    /// Without root, if there is no such interface or address, or if another program uses Falcon's UDP port.
    pub fn open(interface: &str, address: IpAddr) -> io::Result<Self> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: the name ends with a zero and outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(named(io::Error::last_os_error(), format!("interface {interface}")));
        }
        let port = UdpSocket::bind(falcon_port(address, index))
            .map_err(|error| named(error, format!("UDP port {FALCON_UDP_PORT} of {address}")))?;
        // SAFETY: takes no pointer.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(named(io::Error::last_os_error(), "a packet socket".to_owned()));
        }
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        set(&socket, libc::SOL_PACKET, PACKET_AUXDATA, 1)?;
        set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // SAFETY: all zeroes is a valid sockaddr_ll.
        let mut link: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        link.sll_family = libc::AF_PACKET as u16;
        link.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        link.sll_ifindex = index as i32;
        let size = size_of_val(&link) as libc::socklen_t;
        // SAFETY: the kernel reads `size` bytes of the address, which outlives the call.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const link).cast(), size) } as isize)?;
        Ok(Self { socket, interface: interface.to_owned(), index, _port: port })
    }

    /// Returns the index of the interface.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Returns whether the interface is an end of a veth. One end accepts frames that XDP sends at the other
    /// end only if it has an XDP program itself, even one that passes everything.
    pub fn is_veth(&self) -> bool {
        #[repr(C)]
        struct Driver {
            command: u32,
            name: [u8; 32],
            rest: [u8; 160],
        }
        let mut driver = Driver { command: GET_DRIVER, name: [0; 32], rest: [0; 160] };
        // SAFETY: all zeroes is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.interface.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut driver).cast();
        // SAFETY: the request names a structure of 196 bytes, as the kernel expects it; both outlive the
        // call.
        let done = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        // The rest is not looked at.
        let Driver { name, rest: _, .. } = driver;
        done == 0 && name.starts_with(b"veth\0")
    }

    /// Takes a frame that has arrived, and the time when it did. The kernel removes a VLAN tag before a socket receives
    /// the frame; it is put back.
    fn take(&self) -> io::Result<(Picoseconds, Vec<u8>)> {
        let mut frame = vec![0; LARGEST];
        let mut vector = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // An array of words, for the alignment of control messages.
        let mut control = [0u64; 16];
        // SAFETY: all zeroes is a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the header names one buffer and one control buffer with their sizes; all outlive the call.
        let received = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        frame.truncate(check(received)?);
        let Notes { tag, stamp } = Notes::of(&header);
        if let Some(tag) = tag
            && frame.len() >= ADDRESSES
        {
            frame.splice(ADDRESSES..ADDRESSES, tag);
        }
        // The kernel stamps with the time of day. If that was set meanwhile, the frame counts as of now.
        let now = clock(libc::CLOCK_REALTIME).0;
        let age = stamp.map(|stamp| now.wrapping_sub(stamp.0)).filter(|age| *age <= LARGEST_AGE).unwrap_or(0);
        Ok((Picoseconds(clock(libc::CLOCK_MONOTONIC).0.saturating_sub(age)), frame))
    }

    /// Returns the interface's MAC address.
    ///
    /// # Errors
    /// If the interface has no MAC address of 6 bytes.
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        // SAFETY: all zeroes is a valid sockaddr_ll.
        let mut link: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut size = size_of_val(&link) as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes of the address.
        let done =
            unsafe { libc::getsockname(self.socket.as_raw_fd(), (&raw mut link).cast(), &raw mut size) };
        check(done as isize)?;
        match link.sll_addr {
            [a, b, c, d, e, f, ..] if link.sll_halen == 6 => Ok([a, b, c, d, e, f]),
            _ => Err(io::Error::other("the interface is not an Ethernet interface")),
        }
    }
}

impl Wire for PacketSocket {
    fn now(&mut self) -> Picoseconds {
        clock(libc::CLOCK_MONOTONIC)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads the frame's bytes.
        check(unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) }).map(drop)
    }

    fn receive(&mut self, deadline: Picoseconds) -> io::Result<Option<(Picoseconds, Vec<u8>)>> {
        loop {
            let left = deadline.0.saturating_sub(self.now().0).div_ceil(MILLISECOND);
            let mut polled = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let wait = libc::c_int::try_from(left).unwrap_or(libc::c_int::MAX);
            // SAFETY: there is one entry, and it outlives the call.
            match check(unsafe { libc::poll(&raw mut polled, 1, wait) } as isize) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(0) => return Ok(None),
                Ok(_) => {}
            }
            match self.take() {
                Ok(taken) => return Ok(Some(taken)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What the kernel says about a frame.
#[derive(Default)]
struct Notes {
    /// The VLAN tag that it removed, as on the wire.
    tag: Option<[u8; 4]>,
    /// The time of day when the frame arrived.
    stamp: Option<Picoseconds>,
}

impl Notes {
    fn of(header: &libc::msghdr) -> Self {
        let mut notes = Self::default();
        // SAFETY: the kernel has filled the control buffer the header names.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !message.is_null() {
            // SAFETY: the pointer is not null, so it is a control message of that buffer.
            match unsafe { ((*message).cmsg_level, (*message).cmsg_type) } {
                (libc::SOL_PACKET, PACKET_AUXDATA) => {
                    // SAFETY: a message of this kind holds an auxdata; it need not be aligned.
                    let auxdata = unsafe { libc::CMSG_DATA(message).cast::<Auxdata>().read_unaligned() };
                    let ([a, b], [c, d]) = (auxdata.vlan_tpid.to_be_bytes(), auxdata.vlan_tci.to_be_bytes());
                    notes.tag = (auxdata.status & TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d]);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    // SAFETY: a message of this kind holds a timespec; it need not be aligned.
                    let stamp = unsafe { libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned() };
                    notes.stamp = Some(picoseconds(stamp));
                }
                _ => {}
            }
            // SAFETY: the pointer is a control message of that buffer.
            message = unsafe { libc::CMSG_NXTHDR(header, message) };
        }
        notes
    }
}

/// Returns Falcon's port of an address of the interface with `index`. A link-local IPv6 address is valid on one interface only,
/// so the kernel binds it only with the index.
fn falcon_port(address: IpAddr, index: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, FALCON_UDP_PORT, 0, index).into()
        }
        _ => SocketAddr::new(address, FALCON_UDP_PORT),
    }
}

fn clock(of: libc::clockid_t) -> Picoseconds {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the timespec, which outlives the call. Both clocks of this program can always be read.
    unsafe { libc::clock_gettime(of, &raw mut now) };
    picoseconds(now)
}

/// Returns a time modulo 2^64 ps: the time of day is larger, but its differences are right.
const fn picoseconds(time: libc::timespec) -> Picoseconds {
    let nanoseconds = (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64);
    Picoseconds(nanoseconds.wrapping_mul(1000))
}

fn set(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of `value`, which outlives the call.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    check(done as isize).map(drop)
}

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn named(error: io::Error, what: String) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
