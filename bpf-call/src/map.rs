//! Operations on maps that aya's map types lack.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::bpf;

// From linux/bpf.h.
const BPF_MAP_DELETE_ELEM: c_int = 3;

#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Clears an entry of a map whose keys are indices and whose entries can be empty, such as a device map.
///
/// # Errors
/// The kernel's error.
pub fn empty_place(map: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let mut element = Element {
        map: map.as_raw_fd().cast_unsigned(),
        padding: 0,
        key: std::ptr::from_ref(&index) as u64,
        value: 0,
        flags: 0,
    };
    bpf(BPF_MAP_DELETE_ELEM, &mut element).map(drop)
}
