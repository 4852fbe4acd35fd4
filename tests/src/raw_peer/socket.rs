//! A packet socket that reports the VLAN tag. The kernel removes the tag from a frame before a socket receives it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};

use crate::veth;

/// The longest time of one wait for a frame, milliseconds.
const LOOK: libc::c_int = 50;
/// Longer than any frame here.
const LARGEST: usize = 9000;

// From linux/if_packet.h; not in the libc crate.
const PACKET_AUXDATA: libc::c_int = 8;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;

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

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its tag control information.
    pub vlan: Option<u16>,
    /// The frame, without the tag.
    pub frame: Vec<u8>,
}

/// Sends any frame on an interface and receives every frame that arrives on it.
#[derive(Debug)]
pub(super) struct Tap {
    socket: OwnedFd,
}

impl Tap {
    /// Opens the socket on an interface of the calling thread's namespace.
    pub(super) fn open(interface: &str) -> Result<Self> {
        let index = veth::interface_index(interface)?;
        // SAFETY: takes no pointer.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error()).context("a packet socket needs root");
        }
        // SAFETY: the descriptor is new and nobody else's.
        let tap = Self { socket: unsafe { OwnedFd::from_raw_fd(socket) } };
        tap.switch_on(PACKET_AUXDATA)?;
        tap.switch_on(PACKET_IGNORE_OUTGOING)?;
        // SAFETY: all zeroes is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        let size = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the kernel reads `size` bytes of `address`, which outlives the call.
        let bound = unsafe { libc::bind(tap.raw(), (&raw const address).cast(), size) };
        check(bound as isize).context("cannot bind the packet socket")?;
        Ok(tap)
    }

    fn raw(&self) -> libc::c_int {
        self.socket.as_raw_fd()
    }

    fn switch_on(&self, option: libc::c_int) -> Result<()> {
        let one: libc::c_int = 1;
        let size = size_of_val(&one) as libc::socklen_t;
        // SAFETY: the kernel reads `size` bytes of `one`, which outlives the call.
        let set =
            unsafe { libc::setsockopt(self.raw(), libc::SOL_PACKET, option, (&raw const one).cast(), size) };
        check(set as isize).map(drop).context("cannot set an option of the packet socket")
    }

    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads the frame's bytes.
        check(unsafe { libc::send(self.raw(), frame.as_ptr().cast(), frame.len(), 0) }).map(drop)
    }

    /// Returns the next frame, if one arrives soon.
    pub(super) fn receive(&self) -> Result<Option<Captured>> {
        if !self.is_readable(LOOK)? {
            return Ok(None);
        }
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
        let received = check(unsafe { libc::recvmsg(self.raw(), &raw mut header, 0) })?;
        frame.truncate(received);
        Ok(Some(Captured { vlan: vlan_of(&header), frame }))
    }

    /// Discards the received frames.
    pub(super) fn forget(&self) -> Result<()> {
        while self.is_readable(0)? {
            let mut byte = [0u8];
            // SAFETY: the kernel writes at most one byte.
            check(unsafe { libc::recv(self.raw(), byte.as_mut_ptr().cast(), byte.len(), 0) })?;
        }
        Ok(())
    }

    fn is_readable(&self, milliseconds: libc::c_int) -> io::Result<bool> {
        let mut polled = libc::pollfd { fd: self.raw(), events: libc::POLLIN, revents: 0 };
        // SAFETY: there is one entry, and it outlives the call.
        match check(unsafe { libc::poll(&raw mut polled, 1, milliseconds) } as isize) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            ready => Ok(ready? != 0),
        }
    }
}

fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn vlan_of(header: &libc::msghdr) -> Option<u16> {
    // SAFETY: the kernel has filled the control buffer the header names.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: the pointer is not null, so it is a control message of that buffer.
        let kind = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
        if kind == (libc::SOL_PACKET, PACKET_AUXDATA) {
            // SAFETY: a message of this kind holds an auxdata; it need not be aligned.
            let auxdata = unsafe { libc::CMSG_DATA(message).cast::<Auxdata>().read_unaligned() };
            return (auxdata.status & TP_STATUS_VLAN_VALID != 0).then_some(auxdata.vlan_tci);
        }
        // SAFETY: the pointer is a control message of that buffer.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}
