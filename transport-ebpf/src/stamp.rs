//! The card's receive timestamp.

use crate::maps;
use aya_ebpf::bindings::xdp_md;
use transport_common::counters::Counter;
use transport_common::hardware_clock::{CardTime, RX_TIMESTAMP_CALL};
use transport_common::units::Picoseconds;

/// `int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, u64 *timestamp)`: nanoseconds of the card's clock.
type RxTimestamp = unsafe extern "C" fn(*mut xdp_md, *mut u64) -> i32;

/// Returns the time when the frame arrived from the wire, and the counter for it.
#[inline(always)]
pub(crate) fn arrival(ctx: *mut xdp_md, now: Picoseconds) -> (Picoseconds, Counter) {
    let mut stamp = 0;
    // SAFETY: the loader replaces this call by the kernel's function.
    let refused = unsafe {
        let rx_timestamp: RxTimestamp = core::mem::transmute(RX_TIMESTAMP_CALL as usize);
        rx_timestamp(ctx, &raw mut stamp)
    };
    if refused != 0 {
        return (now, Counter::StampAbsent);
    }
    match maps::clock().and_then(|clock| clock.relation()) {
        Some(relation) => relation.arrival(CardTime(stamp), now),
        None if stamp == 0 => (now, Counter::StampAbsent),
        None => (now, Counter::StampClockUnknown),
    }
}
