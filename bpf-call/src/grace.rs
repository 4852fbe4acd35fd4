//! Waits until all programs have ended that run now.

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
/// XDP programs run with bottom halves off, in packet processing as well as in test runs, and so within an RCU
/// read-side section. After a change of a map of maps, bpf(2) waits for an RCU grace period, so that all running
/// programs use the new map when the call returns (`maybe_wait_bpf_programs` in the kernel's
/// `kernel/bpf/syscall.c`, since Linux 4.19). This type uses that wait: it has its own map of maps, and replaces
/// the inner map by the same map.
///
/// `MEMBARRIER_CMD_GLOBAL` has the same effect, but kernels with tickless CPUs (`nohz_full`) refuse it. Its
/// expedited forms interrupt CPUs instead of waiting, which does not end a softirq. On an idle Linux 6.18 either
/// takes 5 to 20 ms.
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

    /// Waits until every XDP program that runs now has ended. This takes milliseconds. An object that programs can
    /// no longer find before the call is not used by any program after it.
    ///
    /// # Errors
    /// The kernel's reason. In that case, programs may still run.
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
