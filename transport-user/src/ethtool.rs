//! Questions to an interface's driver that the kernel answers by ioctl.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// An interface of the network namespace in which this was made.
#[derive(Debug)]
pub(crate) struct Interface {
    socket: UdpSocket,
    pub(crate) name: String,
}

impl Interface {
    /// The interface with this name in the calling thread's network namespace.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        Ok(Self { socket: UdpSocket::bind("0.0.0.0:0")?, name: name.to_owned() })
    }

    /// Calls `ioctl(number)` with an `ifreq` whose data is `value`.
    ///
    /// # Safety
    /// `T` is `repr(C)`, as large as what the kernel reads and writes for this call, and valid for any bytes.
    pub(crate) unsafe fn call<T>(&self, number: libc::Ioctl, value: &mut T) -> io::Result<()> {
        // SAFETY: integers only.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // One byte stays for the terminating zero; longer names do not exist.
        let places = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
        for (place, byte) in places.zip(self.name.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
        // SAFETY: the request points to a value of the size the call uses, and both outlive it.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), number, &mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
