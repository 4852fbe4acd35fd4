//! Generic receive offload of a veth interface, for the time a node runs on it in generic mode.
//!
//! A veth end takes frames that the other end's XDP sent only while its receive side polls (NAPI). Native XDP makes it
//! poll; in generic mode GRO does.

use std::io;

use crate::error::Error;
use crate::ethtool::Interface;

/// `ETHTOOL_GGRO` and `ETHTOOL_SGRO` of linux/ethtool.h.
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;

/// GRO switched on, and off again on drop. A process that dies leaves it on, which harms nobody.
#[derive(Debug)]
pub(crate) struct GroOn(Interface);

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
        let interface = Interface::new(name)?;
        if ethtool(&interface, GET_GRO, 0)? == 0 {
            ethtool(&interface, SET_GRO, 1)?;
            return Ok(Some(Self(interface)));
        }
        // A veth tells the other end that it takes XDP frames at the moment GRO is switched on while it is up. If that
        // was done while it was down, the other end still drops what its XDP redirects to us.
        ethtool(&interface, SET_GRO, 0)?;
        ethtool(&interface, SET_GRO, 1)?;
        Ok(None)
    }
}

fn ethtool(interface: &Interface, command: u32, data: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data };
    // SAFETY: the value that both commands use.
    unsafe { interface.call(libc::SIOCETHTOOL as libc::Ioctl, &mut value)? };
    Ok(value.data)
}

impl Drop for GroOn {
    fn drop(&mut self) {
        if let Err(error) = ethtool(&self.0, SET_GRO, 0) {
            tracing::warn!(interface = self.0.name, %error, "could not switch GRO off again");
        }
    }
}
