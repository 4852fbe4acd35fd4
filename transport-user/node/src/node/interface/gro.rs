//! Switches on generic receive offload (GRO) of a veth interface while a node runs on it in generic mode.
//!
//! A veth end accepts frames that XDP sends at the other end only if its receive side polls (NAPI). In native mode
//! XDP makes it poll. In generic mode GRO makes it poll.

use std::io;

use tiercel::Error;

use crate::node::interface::ethtool::Interface;

/// `ETHTOOL_GGRO` and `ETHTOOL_SGRO` of linux/ethtool.h.
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;

/// The setting that GRO is on. Dropping it switches GRO off again. If the process dies, GRO stays on, which does
/// no harm.
#[derive(Debug)]
pub(crate) struct GroOn(Interface);

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

impl GroOn {
    /// Switches GRO on for an interface of the calling thread's network namespace. Returns `None` if it was on
    /// already.
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
        // A veth informs the other end that it accepts XDP frames when GRO is switched on while the interface is
        // up. If GRO was switched on while it was down, the other end still drops frames that its XDP program
        // redirects to us. So GRO is switched off and on again.
        ethtool(&interface, SET_GRO, 0)?;
        ethtool(&interface, SET_GRO, 1)?;
        Ok(None)
    }
}

/// Switches GRO on again if somebody has switched it off. Returns whether it was off. The interface is one of the calling
/// thread's network namespace.
pub(crate) fn keep_on(name: &str) -> bool {
    let keep = || -> io::Result<bool> {
        let interface = Interface::new(name)?;
        let off = ethtool(&interface, GET_GRO, 0)? == 0;
        if off {
            ethtool(&interface, SET_GRO, 1)?;
        }
        Ok(off)
    };
    keep().unwrap_or_else(|error| {
        tracing::warn!(interface = name, %error, "cannot keep GRO on");
        false
    })
}

fn ethtool(interface: &Interface, command: u32, data: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data };
    // SAFETY: both commands use this structure.
    unsafe { interface.call(libc::SIOCETHTOOL as libc::Ioctl, &mut value)? };
    Ok(value.data)
}

impl Drop for GroOn {
    fn drop(&mut self) {
        if let Err(error) = ethtool(&self.0, SET_GRO, 0) {
            tracing::warn!(interface = self.0.name, %error, "cannot switch GRO off again");
        }
    }
}
