//! XDP links, which attach a program to an interface.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::program::BPF_XDP;
use super::{bpf, bpf_descriptor};

// Of linux/bpf.h and linux/if_link.h.
const BPF_OBJ_GET_INFO_BY_FD: c_int = 15;
const BPF_LINK_CREATE: c_int = 28;
const BPF_LINK_UPDATE: c_int = 29;
const BPF_LINK_GET_FD_BY_ID: c_int = 30;
const BPF_LINK_GET_NEXT_ID: c_int = 31;
const BPF_LINK_DETACH: c_int = 34;
const BPF_LINK_TYPE_XDP: u32 = 6;
/// Attach in the network stack.
pub const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
/// Attach in the driver.
pub const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

#[repr(C)]
struct Create {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Update {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

#[repr(C)]
struct Detach {
    link: u32,
}

#[repr(C)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
struct Info {
    descriptor: u32,
    bytes: u32,
    info: u64,
}

/// The part of `struct bpf_link_info` that XDP links fill.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    link_type: u32,
    id: u32,
    program: u32,
    /// Padding: the next field is aligned to 8 bytes.
    padding: u32,
    interface: u32,
    rest: u32,
}

/// The interface and the program of an XDP link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpPlace {
    /// Index of the interface.
    pub interface: u32,
    /// Id of the program.
    pub program: u32,
}

/// Attaches an XDP program to an interface of the calling thread's network namespace, until the link is closed.
/// `mode` is one of the `XDP_FLAGS_…_MODE`.
///
/// # Errors
/// The kernel's reason.
pub fn link_xdp(program: BorrowedFd<'_>, interface: u32, mode: u32) -> io::Result<OwnedFd> {
    let program = raw(program);
    bpf_descriptor(BPF_LINK_CREATE, &mut Create { program, interface, attach_type: BPF_XDP, flags: mode })
}

/// Replaces the program of a link by `program`, between two packets.
///
/// # Errors
/// The kernel's reason: `ENOLINK` if the link is detached.
pub fn replace_in_link(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut update = Update { link: raw(link), program: raw(program), ..Update::default() };
    bpf(BPF_LINK_UPDATE, &mut update).map(drop)
}

/// Detaches a link. Its descriptor stays, and is good for nothing.
///
/// # Errors
/// The kernel's reason.
pub fn detach_link(link: BorrowedFd<'_>) -> io::Result<()> {
    bpf(BPF_LINK_DETACH, &mut Detach { link: raw(link) }).map(drop)
}

/// Detaches the link that attaches XDP program `place.program` to `place.interface`. Returns false if there is no
/// such link. The kernel lists the links of all network namespaces, and an interface index is not unique among
/// these. So the program must match as well.
///
/// # Errors
/// The kernel's reason.
pub fn detach_xdp_link(place: XdpPlace) -> io::Result<bool> {
    let Some(link) = link_at(place)? else { return Ok(false) };
    detach_link(link.as_fd()).map(|()| true)
}

/// Returns the interface and the program of an XDP link. Returns `None` for links of other types, and for a link
/// that was detached by another process or because its interface was removed.
///
/// # Errors
/// The kernel's reason.
pub fn xdp_place(link: BorrowedFd<'_>) -> io::Result<Option<XdpPlace>> {
    let mut info = LinkInfo::default();
    let mut attributes = Info {
        descriptor: raw(link),
        bytes: size_of::<LinkInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes)?;
    let attached = info.link_type == BPF_LINK_TYPE_XDP && info.interface != 0;
    Ok(attached.then_some(XdpPlace { interface: info.interface, program: info.program }))
}

fn link_at(place: XdpPlace) -> io::Result<Option<OwnedFd>> {
    let mut id = 0;
    while let Some(next) = next_link(id)? {
        id = next;
        // The link may disappear between the two calls.
        let mut by_id = ById { id, next_id: 0, open_flags: 0 };
        let Ok(link) = bpf_descriptor(BPF_LINK_GET_FD_BY_ID, &mut by_id) else { continue };
        if xdp_place(link.as_fd())? == Some(place) {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

fn next_link(id: u32) -> io::Result<Option<u32>> {
    let mut by_id = ById { id, next_id: 0, open_flags: 0 };
    match bpf(BPF_LINK_GET_NEXT_ID, &mut by_id) {
        Ok(_) => Ok(Some(by_id.next_id)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn raw(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}
