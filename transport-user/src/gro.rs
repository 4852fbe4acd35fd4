//! Generic receive offload of a veth interface, for the time a node runs on it in generic mode.
//!
//! A veth end takes frames that the other end's XDP sent only while its receive side polls (NAPI). Native XDP makes it
//! poll; in generic mode GRO does.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::error::Error;

/// `ETHTOOL_GGRO` and `ETHTOOL_SGRO` of linux/ethtool.h.
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;

/// GRO switched on, and off again on drop. A process that dies leaves it on, which harms nobody.
#[derive(Debug)]
pub(crate) struct GroOn(Interface);

#[derive(Debug)]
struct Interface {
    socket: UdpSocket,
    name: String,
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

impl GroOn {
    /// Switches GRO on in the calling thread's network namespace; `None` if it was on before.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::NotPermitted`].
    pub(crate) fn new(name: &str) -> Result<Option<Self>, Error> {
        Self::switch(name).map_err(|error| Error::system("switch the interface's GRO on", error))
    }

    fn switch(name: &str) -> io::Result<Option<Self>> {
        let interface = Interface { socket: UdpSocket::bind("0.0.0.0:0")?, name: name.to_owned() };
        if interface.ethtool(GET_GRO, 0)? == 0 {
            interface.ethtool(SET_GRO, 1)?;
            return Ok(Some(Self(interface)));
        }
        // A veth tells the other end that it takes XDP frames at the moment GRO is switched on while it is up. If that
        // was done while it was down, the other end still drops what its XDP redirects to us.
        interface.ethtool(SET_GRO, 0)?;
        interface.ethtool(SET_GRO, 1)?;
        Ok(None)
    }
}

impl Interface {
    fn ethtool(&self, command: u32, data: u32) -> io::Result<u32> {
        let mut value = EthtoolValue { command, data };
        // SAFETY: integers only.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // One byte stays for the terminating zero; longer names do not exist.
        let places = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
        for (place, byte) in places.zip(self.name.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
        // SAFETY: the request points to a value of the size that both commands use, and both outlive the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL, &mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
    }
}

impl Drop for GroOn {
    fn drop(&mut self) {
        if let Err(error) = self.0.ethtool(SET_GRO, 0) {
            tracing::warn!(interface = self.0.name, %error, "could not switch GRO off again");
        }
    }
}
