//! Notices of the kernel that something about links, addresses, routes or neighbours has changed.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;

/// The multicast groups of linux/rtnetlink.h about the interface: links, addresses of both IP versions.
pub(crate) const INTERFACES: [u32; 3] = [1, 5, 9];
/// The groups about next hops: neighbours, routes of both IP versions.
pub(crate) const NEXT_HOPS: [u32; 3] = [3, 7, 11];
/// Size of the buffer for notices. They are not read, so a longer one may be cut off.
const UNREAD_BYTES: usize = 256;

/// A socket that receives the notices of one network namespace.
///
/// The notices only say that it is time to look: whoever looks asks for the state as it is then. So nothing goes wrong if
/// notices are lost, come late, or come from somebody else than the kernel. The socket keeps only so many that nobody reads.
#[derive(Debug)]
pub(crate) struct Events {
    socket: Socket,
    /// Whether nobody has looked yet.
    fresh: AtomicBool,
}

impl Events {
    /// Opens the socket in the calling thread's network namespace, for the notices of these groups.
    pub(crate) fn open(groups: &[u32]) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        groups.iter().try_for_each(|group| socket.add_membership(*group))?;
        Ok(Self { socket, fresh: AtomicBool::new(true) })
    }

    /// Returns whether there was a notice since the last call. Does not wait. The first call returns true, because something
    /// may have changed before the socket was opened.
    pub(crate) fn changed(&self) -> bool {
        let mut unread = Vec::with_capacity(UNREAD_BYTES);
        let mut changed = self.fresh.swap(false, Relaxed);
        loop {
            unread.clear();
            match self.socket.recv(&mut unread, libc::MSG_DONTWAIT) {
                Ok(_) => changed = true,
                // So many that the kernel dropped some.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return changed,
            }
        }
    }
}
