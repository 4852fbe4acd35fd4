//! Waiting until no program runs that began before.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{bpf, bpf_descriptor};

// Of linux/bpf.h.
const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_ARRAY_OF_MAPS: u32 = 12;

#[repr(C)]
#[derive(Default)]
struct Create {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map: u32,
}

#[repr(C)]
struct Update {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A grace period for XDP programs.
///
/// XDP programs run with bottom halves off, in packet processing as well as in test runs, and so within an RCU read-side
/// section. bpf(2) waits for an RCU grace period after it has changed a map of maps, so that whoever changed it knows
/// that all programs that run use the new map (`maybe_wait_bpf_programs` in the kernel's `kernel/bpf/syscall.c`, since
/// Linux 4.19). That is just what is wanted here, so a map of maps of our own is changed, from a map to the same map.
///
/// `MEMBARRIER_CMD_GLOBAL` waits for the same, but is refused on kernels with tickless CPUs (`nohz_full`); its expedited
/// forms interrupt CPUs instead of waiting, which does not end a softirq. On an idle Linux 6.18 either takes 5 to 20 ms.
#[derive(Debug)]
pub struct Grace {
    outer: OwnedFd,
    inner: OwnedFd,
}

impl Grace {
    /// Makes the maps.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn new() -> io::Result<Self> {
        let array = |map_type, inner_map| {
            let entry = size_of::<u32>() as u32;
            let mut create = Create {
                map_type,
                key_size: entry,
                value_size: entry,
                max_entries: 1,
                inner_map,
                ..Create::default()
            };
            bpf_descriptor(BPF_MAP_CREATE, &mut create)
        };
        let inner = array(BPF_MAP_TYPE_ARRAY, 0)?;
        let outer = array(BPF_MAP_TYPE_ARRAY_OF_MAPS, inner.as_raw_fd().cast_unsigned())?;
        Ok(Self { outer, inner })
    }

    /// Waits until every XDP program that runs now has ended: milliseconds. What was made unreachable for programs before
    /// is reached by none after.
    ///
    /// # Errors
    /// The kernel's reason; then nothing is known of the programs.
    pub fn wait(&self) -> io::Result<()> {
        let (key, value) = (0u32, self.inner.as_raw_fd().cast_unsigned());
        let mut update = Update {
            map: self.outer.as_raw_fd().cast_unsigned(),
            padding: 0,
            key: std::ptr::from_ref(&key) as u64,
            value: std::ptr::from_ref(&value) as u64,
            flags: 0,
        };
        bpf(BPF_MAP_UPDATE_ELEM, &mut update).map(drop)
    }
}
