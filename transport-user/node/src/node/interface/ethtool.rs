//! Requests to the driver of an interface by ioctl.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// An interface of the network namespace in which this value was made.
#[derive(Debug)]
pub(crate) struct Interface {
    socket: UdpSocket,
    pub(crate) name: String,
}

impl Interface {
    /// Makes the interface with this name in the calling thread's network namespace.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        Ok(Self { socket: UdpSocket::bind("0.0.0.0:0")?, name: name.to_owned() })
    }

    /// Calls `ioctl(number)` with an `ifreq` whose data is `value`.
    ///
    /// # Safety
    /// `T` is `repr(C)`, as large as what the kernel reads and writes for this call, and valid for any bytes.
    pub(crate) unsafe fn call<T>(&self, number: libc::Ioctl, value: &mut T) -> io::Result<()> {
        // SAFETY: zero bytes are valid for this structure, which consists of integers and pointers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // One byte is left for the terminating zero. There are no longer names.
        let places = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
        for (place, byte) in places.zip(self.name.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
        // SAFETY: the request points to a value of the size that the call uses, and both exist longer than the
        // call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), number, &mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
