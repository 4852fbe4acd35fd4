//! How the node reads and writes connections: in one piece, under their locks.

use crate::lock::Lock;
use crate::maps;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use core::sync::atomic::Ordering::Relaxed;
use transport_common::connection::{Entry, exchange};

/// Does what stands in the exchange map. False if it names no slot, or if the lock was not to be had.
#[inline(always)]
pub(crate) fn carry_out() -> bool {
    let Some(exchange) = maps::EXCHANGE.get_ptr(0) else { return false };
    // SAFETY: a valid map value of atomics and cells.
    let exchange = unsafe { &*exchange };
    let Some(locked) = maps::CONNECTIONS.get_ptr_mut(exchange.slot.load(Relaxed)) else { return false };
    let write = exchange.direction.load(Relaxed) == exchange::WRITE;
    // SAFETY: two valid map values, each with room for an entry; the lock keeps everybody else out of the connection.
    unsafe {
        let lock = &raw mut (*locked).lock;
        let (slot, outside) = ((&raw mut (*locked).entry), exchange.entry.as_ptr());
        if !Lock::acquire(lock) {
            return false;
        }
        let (from, to) = if write { (outside, slot) } else { (slot, outside) };
        let copied = bpf_probe_read_kernel(to.cast(), size_of::<Entry>() as u32, from.cast());
        Lock::release(lock);
        copied == 0
    }
}
