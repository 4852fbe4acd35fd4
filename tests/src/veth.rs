//! Virtual Ethernet cables between namespaces.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::Context;

use crate::Namespace;

/// The MTU of the tests. The largest MTU at which veth accepts an XDP program without support for fragments is
/// 3506.
pub const DEFAULT_MTU: u32 = 3498;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// One end of a cable: its namespace, its name there, its address.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// The namespace it is in.
    pub namespace: &'a Namespace,
    /// The interface's name in that namespace.
    pub name: &'a str,
    /// Its address.
    pub mac: MacAddress,
    /// Whether received segments may be merged. It also gives the interface NAPI, without which veth drops
    /// the frames that XDP redirects to it.
    pub merge: bool,
}

/// Makes a cable and brings both ends up. It is removed when either namespace is removed.
///
/// All transmit offloads are off. So each frame that one end sends is complete, with its checksum, and no
/// longer than the MTU, so that a switch in user space can carry it.
///
/// # Errors
/// Without root, without `ip`, or if an interface of that name exists.
pub fn connect(left: VethEnd<'_>, right: VethEnd<'_>, mtu: u32) -> anyhow::Result<()> {
    left.namespace.ip(&format!(
        "link add {} mtu {mtu} address {} type veth peer name {} mtu {mtu} address {} netns {}\n",
        left.name,
        left.mac,
        right.name,
        right.mac,
        right.namespace.path().display(),
    ))?;
    for end in [left, right] {
        end.namespace
            .run(|| set_offloads(end.name, end.merge))
            .with_context(|| format!("cannot set the offloads of {}", end.name))?;
        end.namespace.ip(&format!("link set {} up\n", end.name))?;
    }
    Ok(())
}

/// Returns the index of an interface in the calling thread's namespace.
///
/// # Errors
/// If there is no such interface.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the argument is a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_SSG: u32 = 0x19;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;
const SIOCETHTOOL: u32 = 0x8946;

/// Lets an interface merge received segments or not. A veth that merges polls, see [`VethEnd::merge`].
///
/// # Errors
/// If there is no such interface in the calling thread's namespace.
pub(crate) fn set_merge(name: &str, merge: bool) -> io::Result<()> {
    ethtool(name, ETHTOOL_SGRO, merge.into())
}

fn set_offloads(name: &str, merge: bool) -> io::Result<()> {
    for command in [ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SSG, ETHTOOL_STXCSUM] {
        ethtool(name, command, 0)?;
    }
    ethtool(name, ETHTOOL_SGRO, merge.into())
}

fn ethtool(name: &str, command: u32, data: u32) -> io::Result<()> {
    // SAFETY: takes no pointer.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut value = EthtoolValue { command, data };
    // SAFETY: all zeroes is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request's name is terminated, its data is an ethtool_value; both outlive the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as libc::Ioctl, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
