//! The receive queues of a veth interface.
//!
//! A veth runs its XDP program only on the queues that it had when the program was attached. What arrives on a later one goes
//! into the kernel's stack, past the program (Linux 6.18). So the node looks whether there are more, and attaches its program
//! again.

use std::io;

use crate::ethtool::Interface;

/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    /// The most receive, transmit, other and combined queues.
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// The number of receive queues, as far as the node knows.
#[derive(Debug)]
pub(crate) struct ReceiveQueues(u32);

impl ReceiveQueues {
    /// Counts the receive queues of an interface of the calling thread's network namespace. `None` if the driver does not say.
    pub(crate) fn of(name: &str) -> Option<Self> {
        count(name).ok().map(Self)
    }

    /// Returns the numbers before and now if there are more now.
    pub(crate) fn more(&mut self, name: &str) -> Option<(u32, u32)> {
        // The interface may just have been renamed or removed. The next look has its new name.
        let now = count(name).ok()?;
        let before = std::mem::replace(&mut self.0, now);
        (now > before).then_some((before, now))
    }
}

fn count(name: &str) -> io::Result<u32> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    // SAFETY: the command uses this structure of integers.
    unsafe { Interface::new(name)?.call(libc::SIOCETHTOOL as libc::Ioctl, &mut channels)? };
    Ok(channels.receive + channels.combined)
}
