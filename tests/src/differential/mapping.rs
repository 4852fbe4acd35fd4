//! Maps of a BPF object in this process's memory.

use core::ptr::NonNull;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::{Context, Result, bail};
use aya::Ebpf;
use aya::maps::Map;
use bpf_call::Banks;
use transport_common::queues::{BANK_BYTES, BANK_GUARD, DEFAULT_BANKS};

/// An mmapable array map in this process's memory. No program runs while it is read and written.
pub(super) struct Mapping<T> {
    values: NonNull<T>,
    bytes: usize,
}

/// Returns the descriptor of an array map.
fn descriptor<'a>(object: &'a Ebpf, name: &str) -> Result<BorrowedFd<'a>> {
    let map = object.map(name).with_context(|| format!("no map {name}"))?;
    let (Map::Array(data) | Map::Unsupported(data)) = map else { bail!("{name} is no array") };
    Ok(data.fd().as_fd())
}

/// Returns the banks of memory of a node that has as many as the object asks for.
pub(super) fn banks(object: &mut Ebpf, name: &str) -> Result<Banks> {
    let map = descriptor(object, name)?;
    Banks::map(map, DEFAULT_BANKS, BANK_BYTES, BANK_GUARD).with_context(|| format!("map {name}"))
}

impl<T> Mapping<T> {
    pub(super) fn new(object: &mut Ebpf, name: &str, elements: usize) -> Result<Self> {
        let bytes = (size_of::<T>() * elements).next_multiple_of(4096);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = descriptor(object, name)?.as_raw_fd();
        // SAFETY: the call makes a new mapping at an address that the kernel chooses.
        let address = unsafe { libc::mmap(core::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).with_context(|| format!("map {name}"));
        }
        Ok(Self { values: NonNull::new(address.cast()).context("mapped at 0")?, bytes })
    }

    pub(super) fn all(&mut self) -> &mut [T] {
        // SAFETY: the map holds integers, which are valid with any value. Programs run only inside calls that
        // borrow the mapping too.
        unsafe { core::slice::from_raw_parts_mut(self.values.as_ptr(), self.bytes / size_of::<T>()) }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped it, and nothing borrows from it any more.
        unsafe { libc::munmap(self.values.as_ptr().cast(), self.bytes) };
    }
}
