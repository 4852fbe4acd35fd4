//! Packet sockets: receive and send complete frames on one interface, many per system call.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The largest number of frames per system call. The ring of a veth holds 256.
pub(super) const BATCH: usize = 64;
/// The size of the kernel's buffer in bytes. It is many times larger than a burst of every host's windows.
const RECEIVE_BUFFER: libc::c_int = 64 << 20;
/// Space for the control message of a timestamp, in words for its alignment.
const CONTROL_WORDS: usize = 8;

// From linux/if_packet.h; not in the libc crate.
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// `struct tpacket_stats`: counters since they were last read.
#[derive(Default)]
#[repr(C)]
struct Statistics {
    packets: u32,
    drops: u32,
}

/// Frame buffers for reuse.
#[derive(Debug)]
pub(super) struct Pool {
    free: Vec<Vec<u8>>,
    frame_size: usize,
}

impl Pool {
    /// Creates a pool of buffers for frames up to `frame_size` bytes.
    pub(super) const fn new(frame_size: usize) -> Self {
        Self { free: Vec::new(), frame_size }
    }

    fn take(&mut self) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        buffer.resize(self.frame_size, 0);
        buffer
    }

    fn give(&mut self, buffer: Vec<u8>) {
        // Enough for full batches in both directions on many ports. The rest goes back to the allocator.
        if self.free.len() < 16 * BATCH {
            self.free.push(buffer);
        }
    }
}

/// The reason why frames stay in the queue after a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// No frame stays.
    All,
    /// The interface is full at present.
    Full,
    /// The interface is gone or down; the frames are dropped.
    Gone,
}

/// A socket that receives every frame that arrives on one interface.
#[derive(Debug)]
pub(super) struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// Opens a socket on an interface of the calling thread's namespace.
    pub(super) fn open(interface: u32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // With protocol 0, nothing is received before the socket is bound to its interface.
        // SAFETY: takes no pointer.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let socket = Self { socket: unsafe { OwnedFd::from_raw_fd(socket) } };
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        // Frames go directly to the driver. It reports a full ring, where a queue would drop frames.
        socket.set(libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)?;
        socket.bind(interface)?;
        Ok(socket)
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let size = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the kernel reads `size` bytes of `value`, which outlives the call.
        match unsafe { libc::setsockopt(self.raw(), level, name, (&raw const value).cast(), size) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn bind(&self, interface: u32) -> io::Result<()> {
        // SAFETY: all zeroes is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface as i32;
        let size = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the kernel reads `size` bytes of `address`, which outlives the call.
        match unsafe { libc::bind(self.raw(), (&raw const address).cast(), size) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn raw(&self) -> libc::c_int {
        self.socket.as_raw_fd()
    }

    /// Makes the kernel record the arrival time of each frame, for [`receive_stamped`](Self::receive_stamped).
    pub(super) fn stamp(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
    }

    /// Appends up to [`BATCH`] received frames to `frames`, and returns their number. Drops frames that are longer
    /// than the pool's buffers; no host on these cables can send such frames.
    pub(super) fn receive(&self, pool: &mut Pool, frames: &mut Vec<Vec<u8>>) -> io::Result<usize> {
        self.receive_each(pool, &mut [], |frame, _| {
            frames.push(frame);
            None
        })
    }

    /// Passes up to [`BATCH`] frames to `see`, each with its arrival time in nanoseconds of the wall clock.
    /// Returns their number.
    pub(super) fn receive_stamped(
        &self,
        pool: &mut Pool,
        mut see: impl FnMut(u64, &[u8]),
    ) -> io::Result<usize> {
        let mut controls = [[0u64; CONTROL_WORDS]; BATCH];
        self.receive_each(pool, &mut controls, |frame, header| {
            if let Some(at) = stamp_of(header) {
                see(at, &frame);
            }
            Some(frame)
        })
    }

    /// Passes up to [`BATCH`] complete frames to `take`, which returns the buffers that it does not keep.
    fn receive_each(
        &self,
        pool: &mut Pool,
        controls: &mut [[u64; CONTROL_WORDS]],
        mut take: impl FnMut(Vec<u8>, &libc::msghdr) -> Option<Vec<u8>>,
    ) -> io::Result<usize> {
        let mut buffers: [Vec<u8>; BATCH] = std::array::from_fn(|_| pool.take());
        let mut vectors = buffers.each_mut().map(|buffer| vector(buffer));
        let mut headers = headers(&mut vectors);
        for (header, control) in headers.iter_mut().zip(controls) {
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
        }
        let (count, flags) = (BATCH as libc::c_uint, libc::MSG_DONTWAIT);
        // SAFETY: each header has one vector, each vector one buffer of its own with its length, and some have a
        // control buffer of their own with its length; all outlive the call.
        let received =
            unsafe { libc::recvmmsg(self.raw(), headers.as_mut_ptr(), count, flags, std::ptr::null_mut()) };
        let received = if received < 0 {
            match io::Error::last_os_error() {
                error if is_busy(&error) || is_gone(&error) => 0,
                error => return Err(error),
            }
        } else {
            received as usize
        };
        for (index, mut buffer) in buffers.into_iter().enumerate() {
            let header = &headers[index];
            let whole = index < received && header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            let rest = if whole {
                buffer.truncate(header.msg_len as usize);
                take(buffer, &header.msg_hdr)
            } else {
                Some(buffer)
            };
            if let Some(buffer) = rest {
                pool.give(buffer);
            }
        }
        Ok(received)
    }

    /// Sends frames from the front of the queue until the queue is empty or the interface is full.
    pub(super) fn send(&self, pool: &mut Pool, queue: &mut VecDeque<Vec<u8>>) -> io::Result<Sent> {
        while !queue.is_empty() {
            let count = queue.len().min(BATCH);
            let mut none = [];
            let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|_| vector(&mut none));
            for (to, frame) in vectors.iter_mut().zip(queue.iter_mut()) {
                *to = vector(frame);
            }
            let mut headers = headers(&mut vectors);
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: each of the first `count` headers has one vector over one frame; all outlive the call.
            let sent = unsafe { libc::sendmmsg(self.raw(), headers.as_mut_ptr(), count as u32, flags) };
            if sent < 0 {
                match io::Error::last_os_error() {
                    error if is_busy(&error) => return Ok(Sent::Full),
                    error if is_gone(&error) => {
                        queue.drain(..).for_each(|frame| pool.give(frame));
                        return Ok(Sent::Gone);
                    }
                    error => return Err(error),
                }
            }
            queue.drain(..sent as usize).for_each(|frame| pool.give(frame));
        }
        Ok(Sent::All)
    }

    /// Returns the number of frames that the kernel dropped since the last call because the buffer was full.
    pub(super) fn take_drops(&self) -> io::Result<u64> {
        let mut stats = Statistics::default();
        let mut size = size_of_val(&stats) as libc::socklen_t;
        let (level, name) = (libc::SOL_PACKET, PACKET_STATISTICS);
        // SAFETY: the kernel writes at most `size` bytes to `stats`.
        match unsafe { libc::getsockopt(self.raw(), level, name, (&raw mut stats).cast(), &raw mut size) } {
            0 => Ok(stats.drops.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn vector(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }
}

/// Makes one message header per vector.
fn headers(vectors: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    vectors.each_mut().map(|vector| {
        // SAFETY: all zeroes is a valid mmsghdr without address, vectors and control data.
        let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header
    })
}

/// Returns the time at which the kernel received the frame of a header, in nanoseconds of the wall clock.
fn stamp_of(header: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled the control buffer that the header names.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: the pointer is not null, so it is a control message of that buffer.
        let kind = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
        if kind == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            // SAFETY: a message of this kind holds a timespec; it need not be aligned.
            let at = unsafe { libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned() };
            return Some(at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64);
        }
        // SAFETY: the pointer is a control message of that buffer.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}

/// Returns whether there is nothing to read, or no space to write, at present.
fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR))
}

/// Returns whether the interface is down or gone. This happens when its host's namespace is dropped first.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}
