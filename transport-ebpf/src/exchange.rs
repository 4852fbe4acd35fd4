//! Lets the node read and write a connection: as a whole, under its lock.

use crate::log::tell;
use crate::maps;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::programs::XdpContext;
use core::sync::atomic::Ordering::Relaxed;
use transport_common::connection::Entry;
use transport_common::datapath::exchange::Direction;

/// Carries out the request in the exchange map. Returns false if it names no slot, or if the lock could not be
/// taken.
#[inline(always)]
pub(crate) fn carry_out(ctx: &XdpContext) -> bool {
    let Some(exchange) = maps::EXCHANGE.get_ptr(0) else { return false };
    // SAFETY: a valid map value of atomics and cells.
    let exchange = unsafe { &*exchange };
    let Some(locked) = maps::CONNECTIONS.get_ptr_mut(exchange.slot.load(Relaxed)) else { return false };
    let write = exchange.direction.load(Relaxed) == Direction::Write as u32;
    // SAFETY: two valid map values, each with space for an entry. The lock keeps all others out of the connection.
    unsafe {
        let lock = &(*locked).lock;
        let (slot, outside) = ((&raw mut (*locked).entry), exchange.entry.as_ptr());
        if !lock.acquire() {
            tell!(
                warn,
                ctx,
                "slot {}: no exchange, its lock could not be taken",
                exchange.slot.load(Relaxed)
            );
            return false;
        }
        let (from, to) = if write { (outside, slot) } else { (slot, outside) };
        let copied = bpf_probe_read_kernel(to.cast(), size_of::<Entry>() as u32, from.cast());
        lock.release();
        tell!(
            info,
            ctx,
            "slot {}: exchange, direction {}",
            exchange.slot.load(Relaxed),
            exchange.direction.load(Relaxed)
        );
        copied == 0
    }
}
