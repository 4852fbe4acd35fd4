//! Lets the node read and write a connection as a whole, change its next hop, and request other settings of congestion
//! control, under its lock.

use crate::log::tell;
use crate::maps;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::programs::XdpContext;
use core::sync::atomic::Ordering::Relaxed;
use transport_common::connection::{Parts, Snapshot};
use transport_common::datapath::exchange::{Answer, Direction, request_settings, set_next_hop};

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
        let (slot, outside) = ((&raw mut (*locked).connection), exchange.connection.as_ptr());
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
            let request = &(*outside).connection;
            let is_there = set_next_hop(&mut (*slot).connection, &request.flow.endpoint, request.generation);
            if is_there { Answer::Done } else { Answer::Gone }
        } else if direction == Direction::Settings as u32 {
            let Parts { hot, settings, .. } = (*slot).whole().parts();
            let request = &*outside;
            let is_there = request_settings(hot, settings, &request.connection, &request.settings.requested);
            if is_there { Answer::Done } else { Answer::Gone }
        } else {
            let write = direction == Direction::Write as u32;
            let (from, to) = if write { (outside, slot) } else { (slot, outside) };
            let copied = bpf_probe_read_kernel(to.cast(), size_of::<Snapshot>() as u32, from.cast());
            if copied == 0 { Answer::Done } else { Answer::Failed }
        };
        lock.release();
        tell!(info, ctx, "slot {}: exchange, direction {}", exchange.slot.load(Relaxed), direction);
        answer
    }
}
