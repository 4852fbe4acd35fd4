//! The calls of bpf(2) that aya does not support: live test runs, XDP programs bound to a device, instructions
//! after the verifier, XDP links by descriptor, waiting for running programs, array maps without gaps in a process's
//! memory, and a list of the objects that the kernel holds. The crate depends on libc only, so that `cargo xtask` builds
//! fast.

mod banks;
mod grace;
mod inventory;
mod link;
mod map;
pub mod probe;
mod program;

use std::ffi::c_int;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

pub use banks::Banks;
pub use grace::Grace;
pub use inventory::{LoadedMap, LoadedProgram, links, loaded_maps, loaded_programs};
pub use link::{
    XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE, XdpPlace, detach_link, detach_xdp_link, link_xdp,
    replace_in_link, xdp_place,
};
pub use map::empty_place;
pub use program::{
    Instruction, LIVE_FRAME_BYTES, LONGEST_LIVE_FRAME, LoadXdp, MAX_BATCH, XDP_DROP, XDP_PASS, run_live,
    run_once, translated,
};

/// Calls bpf(2). `attributes` is the command's part of `union bpf_attr`, up to the last field that is used. The
/// kernel takes the rest as zero. Pointers in it must be valid for the command.
fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<c_int> {
    // SAFETY: the kernel reads and writes the attributes within their size, and every caller fills them with
    // pointers to data that exists longer than the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as c_int) }
}

/// Calls [`bpf`] for a command that returns a new descriptor.
fn bpf_descriptor<T>(command: c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    let descriptor = bpf(command, attributes)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
