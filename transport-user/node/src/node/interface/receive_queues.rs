//! The receive queues of a veth interface.
//!
//! A veth runs its XDP program only on the queues that it had when the program was attached. What arrives on a later one goes
//! into the kernel's stack, past the program (Linux 6.18). So the node checks whether there may be later ones, and attaches its
//! program again. The number alone does not tell: between two checks it may have become smaller and larger again. The kernel
//! sends a notice whenever somebody sets it.

use std::io;

use crate::node::interface::ethtool::Interface;
use crate::node::interface::netlink::channels::ChannelEvents;

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

/// The receive queues of an interface, as far as the node knows.
#[derive(Debug)]
pub(crate) struct ReceiveQueues {
    /// Index of the interface.
    interface: u32,
    number: u32,
    /// `None` if the kernel sends no notices.
    events: Option<ChannelEvents>,
    /// Whether the number was set since it was last counted.
    set: bool,
}

impl ReceiveQueues {
    /// Counts the receive queues of an interface of the calling thread's network namespace. `None` if the driver does not say.
    pub(crate) fn of(name: &str, index: u32) -> Option<Self> {
        // It is opened before they are counted, so no change is missed.
        let events = ChannelEvents::open();
        if let Err(error) = &events {
            tracing::debug!(%error, "the kernel does not tell when the number of queues is set");
        }
        Some(Self { interface: index, number: count(name).ok()?, events: events.ok(), set: false })
    }

    /// Returns the numbers before and now if some may be newer than the last call.
    pub(crate) fn newer(&mut self, name: &str) -> Option<(u32, u32)> {
        self.set |= self.events.as_ref().is_some_and(|events| events.are_set(self.interface));
        // The interface may just have been renamed or removed. The next check has its new name.
        let now = count(name).ok()?;
        let before = std::mem::replace(&mut self.number, now);
        let set = std::mem::take(&mut self.set);
        may_be_newer(before, now, set).then_some((before, now))
    }
}

/// Returns whether some of the queues may be newer than those before.
fn may_be_newer(before: u32, now: u32, set: bool) -> bool {
    // The first queue always stays.
    now > before || (set && now > 1)
}

fn count(name: &str) -> io::Result<u32> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    // SAFETY: the command uses this structure of integers.
    unsafe { Interface::new(name)?.call(libc::SIOCETHTOOL as libc::Ioctl, &mut channels)? };
    Ok(channels.receive + channels.combined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_may_be_new_although_there_are_no_more() {
        assert!(may_be_newer(1, 2, false) && may_be_newer(1, 2, true));
        assert!(may_be_newer(2, 2, true), "there may have been one in between");
        assert!(may_be_newer(4, 2, true));
        assert!(!may_be_newer(2, 2, false) && !may_be_newer(2, 1, false));
        assert!(!may_be_newer(2, 1, true) && !may_be_newer(1, 1, true), "the first queue is never new");
    }
}
