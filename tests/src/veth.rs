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

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct EthtoolChannels {
    command: u32,
    most_rx: u32,
    most_tx: u32,
    most_other: u32,
    most_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_SSG: u32 = 0x19;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;
const SIOCETHTOOL: u32 = 0x8946;

/// An offload of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// The card computes the checksums of what it sends.
    Checksum,
    /// It sends frames whose parts are in several places.
    ScatterGather,
    /// It cuts what TCP sends.
    TcpSegmentation,
    /// What is sent is cut as late as possible.
    Segmentation,
    /// It merges received segments (GRO). A veth that merges polls, see [`VethEnd::merge`].
    Merge,
}

impl Offload {
    /// All of them, in an order in which each can be switched on.
    pub const ALL: [Self; 5] =
        [Self::Checksum, Self::ScatterGather, Self::TcpSegmentation, Self::Segmentation, Self::Merge];
}

/// Switches an offload of an interface on or off.
///
/// # Errors
/// If there is no such interface in the calling thread's namespace.
pub fn set_offload(name: &str, offload: Offload, on: bool) -> io::Result<()> {
    let command = match offload {
        Offload::Checksum => ETHTOOL_STXCSUM,
        Offload::ScatterGather => ETHTOOL_SSG,
        Offload::TcpSegmentation => ETHTOOL_STSO,
        Offload::Segmentation => ETHTOOL_SGSO,
        Offload::Merge => ETHTOOL_SGRO,
    };
    ethtool(name, &mut EthtoolValue { command, data: on.into() })
}

/// Returns whether an interface merges received segments.
///
/// # Errors
/// As [`set_offload`].
pub fn merges(name: &str) -> io::Result<bool> {
    let mut value = EthtoolValue { command: ETHTOOL_GGRO, data: 0 };
    ethtool(name, &mut value)?;
    Ok(value.data != 0)
}

/// Returns the numbers of receive and of transmit queues of an interface, and the most that it can have of each. A new veth has
/// one of each, and can have as many as the machine has CPUs.
///
/// # Errors
/// As [`set_offload`].
pub fn queues(name: &str) -> io::Result<([u32; 2], [u32; 2])> {
    let EthtoolChannels { rx, tx, most_rx, most_tx, .. } = channels(name)?;
    Ok(([rx, tx], [most_rx, most_tx]))
}

/// Sets the numbers of receive and of transmit queues of an interface. A veth loses its carrier for a moment.
///
/// # Errors
/// As [`set_offload`], and if the interface cannot have so many.
pub fn set_queues(name: &str, [rx, tx]: [u32; 2]) -> io::Result<()> {
    let now = channels(name)?;
    ethtool(name, &mut EthtoolChannels { command: ETHTOOL_SCHANNELS, rx, tx, ..now })
}

fn channels(name: &str) -> io::Result<EthtoolChannels> {
    let mut channels = EthtoolChannels { command: ETHTOOL_GCHANNELS, ..EthtoolChannels::default() };
    ethtool(name, &mut channels)?;
    Ok(channels)
}

fn set_offloads(name: &str, merge: bool) -> io::Result<()> {
    use Offload::{Checksum, Merge, ScatterGather, Segmentation, TcpSegmentation};
    for offload in [TcpSegmentation, Segmentation, ScatterGather, Checksum] {
        set_offload(name, offload, false)?;
    }
    set_offload(name, Merge, merge)
}

/// What the kernel reads and writes for one request.
///
/// # Safety
/// It is the structure that the kernel uses for the command in its first field, and valid for any bytes.
unsafe trait Request {}

// SAFETY: the commands of this file with one value have this structure of two integers.
unsafe impl Request for EthtoolValue {}
// SAFETY: the commands about channels have this structure of integers.
unsafe impl Request for EthtoolChannels {}

fn ethtool(name: &str, value: &mut impl Request) -> io::Result<()> {
    // SAFETY: takes no pointer.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all zeroes is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
    // SAFETY: the request's name is terminated, its data is what the kernel uses for the command; both outlive the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as libc::Ioctl, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
