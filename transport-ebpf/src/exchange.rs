//! Lets the node read and write a connection as a whole, and change its next hop, under its lock.

use crate::log::tell;
use crate::maps;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::programs::XdpContext;
use core::sync::atomic::Ordering::Relaxed;
use transport_common::connection::Entry;
use transport_common::datapath::exchange::{Answer, Direction, set_next_hop};

/// Carries out the request in the exchange map.
#[inline(always)]
pub(crate) fn carry_out(ctx: &XdpContext) -> Answer {
    let Some(exchange) = maps::EXCHANGE.get_ptr(0) else { return Answer::Failed };
    // SAFETY: a valid map value of atomics and cells.
    let exchange = unsafe { &*exchange };
    let Some(locked) = maps::CONNECTIONS.get_ptr_mut(exchange.slot.load(Relaxed)) else {
        return Answer::Failed;
    };
    let direction = exchange.direction.load(Relaxed);
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
            return Answer::Failed;
        }
        let answer = if direction == Direction::NextHop as u32 {
            let request = &(*outside).connection.endpoint;
            let is_there = set_next_hop(&mut (*slot).connection, request, (*outside).connection.generation);
            if is_there { Answer::Done } else { Answer::Gone }
        } else {
            let write = direction == Direction::Write as u32;
            let (from, to) = if write { (outside, slot) } else { (slot, outside) };
            let copied = bpf_probe_read_kernel(to.cast(), size_of::<Entry>() as u32, from.cast());
            if copied == 0 { Answer::Done } else { Answer::Failed }
        };
        lock.release();
        tell!(info, ctx, "slot {}: exchange, direction {}", exchange.slot.load(Relaxed), direction);
        answer
    }
}
