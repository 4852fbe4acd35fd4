//! Reads a card's timestamp features, and switches on the timestamps of received frames.

use std::io;

use crate::node::interface::ethtool::Interface;

/// `ETHTOOL_GET_TS_INFO` of linux/ethtool.h.
const GET_TIMESTAMPING: u32 = 0x41;

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimestampingInfo {
    command: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

impl TimestampingInfo {
    /// Reads the information from the driver.
    pub(super) fn of(interface: &Interface) -> io::Result<Self> {
        let mut info = Self { command: GET_TIMESTAMPING, ..Self::default() };
        // SAFETY: this is the structure that the command uses.
        unsafe { interface.call(libc::SIOCETHTOOL as libc::Ioctl, &mut info)? };
        Ok(info)
    }

    /// Returns the number of the card's clock, N of `/dev/ptpN`, if it has one.
    pub(super) fn clock(&self) -> Option<u32> {
        u32::try_from(self.phc_index).ok()
    }

    /// Returns whether the card can stamp every received frame.
    fn stamps_all(&self) -> bool {
        self.rx_filters & (1 << libc::HWTSTAMP_FILTER_ALL) != 0
    }
}

/// `struct hwtstamp_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Filter {
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

const ALL: i32 = libc::HWTSTAMP_FILTER_ALL as i32;

/// The setting that the card stamps every received frame. Dropping it restores the previous setting. If the
/// process dies, the setting stays, which does no harm.
#[derive(Debug)]
pub(super) struct StampingOn {
    interface: Interface,
    before: Filter,
}

impl StampingOn {
    /// Switches it on. Returns `None` if it was on already, or if the card has no such setting.
    pub(super) fn new(interface: Interface, info: &TimestampingInfo) -> io::Result<Option<Self>> {
        let mut before = Filter::default();
        // SAFETY: this is the structure that the call uses.
        match unsafe { interface.call(libc::SIOCGHWTSTAMP as libc::Ioctl, &mut before) } {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
            asked => asked?,
        }
        if before.rx_filter == ALL {
            return Ok(None);
        }
        if !info.stamps_all() {
            let reason = "the card cannot stamp every received frame (`ethtool -T` shows its filters)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        let mut wanted = Filter { rx_filter: ALL, ..before };
        // SAFETY: as above.
        unsafe { interface.call(libc::SIOCSHWTSTAMP as libc::Ioctl, &mut wanted)? };
        Ok(Some(Self { interface, before }))
    }
}

impl Drop for StampingOn {
    fn drop(&mut self) {
        // SAFETY: this is the structure that the call uses.
        let restored = unsafe { self.interface.call(libc::SIOCSHWTSTAMP as libc::Ioctl, &mut self.before) };
        if let Err(error) = restored {
            tracing::warn!(interface = self.interface.name, %error, "cannot restore the card's timestamp filter");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_no_clock() {
        let interface = Interface::new("lo").expect("a socket");
        let info = TimestampingInfo::of(&interface).expect("every interface answers");
        assert_eq!((info.clock(), info.stamps_all()), (None, false));
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let interface = Interface::new("no-such-one").expect("a socket");
        let error = TimestampingInfo::of(&interface).expect_err("it is not there");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn clock_and_filters_are_read_from_the_drivers_answer() {
        let info = TimestampingInfo { phc_index: 3, rx_filters: 0b11, ..TimestampingInfo::default() };
        assert_eq!((info.clock(), info.stamps_all()), (Some(3), true));
        let none = TimestampingInfo { phc_index: -1, rx_filters: 1, ..TimestampingInfo::default() };
        assert_eq!((none.clock(), none.stamps_all()), (None, false));
    }
}
