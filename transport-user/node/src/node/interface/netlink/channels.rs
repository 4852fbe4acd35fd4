//! Notices of the kernel that somebody has set the numbers of an interface's queues.

use std::io;

use netlink_packet_core::{NLA_HEADER_SIZE, NetlinkBuffer, NlasIterator};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_GENERIC;

use super::Requests;
use super::generic::Family;

/// From linux/ethtool_netlink.h.
const FAMILY: &str = "ethtool";
const GROUP: &str = "monitor";
const CHANNELS_ARE_SET: u8 = 19;
const ATTRIBUTE_HEADER: u16 = 1;
const ATTRIBUTE_INTERFACE_INDEX: u16 = 1;
/// Size of `struct genlmsghdr`, bytes. The command is its first byte.
const GENERIC_HEADER_BYTES: usize = 4;
/// Size of the buffer for a notice, bytes. Those about queues are much shorter. Longer ones are cut off.
const NOTICE_BYTES: usize = 4096;

/// A socket that receives the notices of one network namespace.
#[derive(Debug)]
pub(crate) struct ChannelEvents {
    socket: Socket,
    family: u16,
}

impl ChannelEvents {
    /// Opens the socket in the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let family = Family::find(&Requests::open(NETLINK_GENERIC)?, FAMILY)?;
        let group = family.group(GROUP).ok_or(io::ErrorKind::NotFound)?;
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.add_membership(group)?;
        Ok(Self { socket, family: family.id })
    }

    /// Returns whether somebody has set the queues of the interface with `index` since the last call. The numbers may be the same
    /// as before. Does not wait.
    pub(crate) fn are_set(&self, index: u32) -> bool {
        let mut notice = Vec::with_capacity(NOTICE_BYTES);
        let mut set = false;
        loop {
            notice.clear();
            match self.socket.recv(&mut notice, libc::MSG_DONTWAIT) {
                Ok(_) => set |= interface_of(&notice, self.family) == Some(index),
                // So many that the kernel dropped some.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => set = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return set,
            }
        }
    }
}

/// Returns the index of the interface whose queues are set, if a notice says that.
fn interface_of(notice: &[u8], family: u16) -> Option<u32> {
    let message = NetlinkBuffer::new_checked(notice).ok()?;
    let (header, attributes) = message.payload().split_at_checked(GENERIC_HEADER_BYTES)?;
    if message.message_type() != family || header[0] != CHANNELS_ARE_SET {
        return None;
    }
    let index = value(value(attributes, ATTRIBUTE_HEADER)?, ATTRIBUTE_INTERFACE_INDEX)?;
    Some(u32::from_ne_bytes(index.try_into().ok()?))
}

/// Returns the value of an attribute.
fn value(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let attribute = NlasIterator::new(attributes).flatten().find(|attribute| attribute.kind() == kind)?;
    let end = usize::from(attribute.length());
    attribute.into_inner().get(NLA_HEADER_SIZE..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A notice about the queues of interface 7, as the kernel writes it.
    fn notice() -> Vec<u8> {
        let nested: u16 = 1 << 15;
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes: Vec<u8> = Vec::new();
            bytes.extend((4 + value.len() as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let header = [attribute(1, &7_u32.to_ne_bytes()), attribute(2, b"veth0\0")].concat();
        let attributes = [attribute(1 | nested, &header), attribute(6, &2_u32.to_ne_bytes())].concat();
        let mut bytes: Vec<u8> = Vec::new();
        bytes.extend((16 + 4 + attributes.len() as u32).to_ne_bytes());
        bytes.extend(0x1c_u16.to_ne_bytes());
        bytes.extend([0_u8; 10]);
        bytes.extend([CHANNELS_ARE_SET, 1, 0, 0]);
        bytes.extend(attributes);
        bytes
    }

    #[test]
    fn a_notice_names_its_interface() {
        assert_eq!(interface_of(&notice(), 0x1c), Some(7));
        assert_eq!(interface_of(&notice(), 0x1d), None, "another family");
        let mut rings = notice();
        rings[16] = 17;
        assert_eq!(interface_of(&rings, 0x1c), None, "another notice");
        for length in 0..notice().len() {
            assert_eq!(interface_of(&notice()[..length], 0x1c), None, "cut off after {length} bytes");
        }
    }

    #[test]
    fn nothing_is_set_when_nothing_happens() {
        let events = ChannelEvents::open().expect("the kernel has the family");
        assert!(!events.are_set(u32::MAX));
    }
}
