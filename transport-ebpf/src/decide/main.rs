//! Only the algorithms of congestion control, as the kernel runs them. Each run decides the next case of a batch.
//! For the test that compares the kernel's decisions with those of user space.
#![no_std]
#![no_main]

mod layout;

use aya_ebpf::bindings::{BPF_F_MMAPABLE, xdp_action};
use aya_ebpf::macros::{map, xdp};
use aya_ebpf::maps::Array;
use aya_ebpf::programs::XdpContext;
use layout::{Batch, CASES};
use transport_common::congestion::algorithm::{Algorithm, AlgorithmId};
use transport_common::congestion::nic_time::NicTime;

/// The current batch.
#[map]
static BATCH: Array<Batch> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Decides one case.
#[xdp]
pub fn decide(_: XdpContext) -> u32 {
    let Some(batch) = BATCH.get_ptr_mut(0) else { return xdp_action::XDP_ABORTED };
    // SAFETY: a valid map value. Only one run at a time uses it.
    let batch = unsafe { &mut *batch };
    let case = &mut batch.cases[batch.next as usize & (CASES - 1)];
    batch.next = batch.next.wrapping_add(1);
    case.decoded.decode(&case.event);
    case.decoded.stamp(NicTime(batch.now));
    let Some(algorithm) = AlgorithmId::from_index(case.algorithm) else { return xdp_action::XDP_ABORTED };
    algorithm.update(&case.decoded, &mut case.engine, &batch.prepared, &mut case.outcome);
    case.faults = case.outcome.sanitize(batch.prepared.parameters()).0;
    case.outcome.encode(&mut case.result);
    xdp_action::XDP_PASS
}

/// Never reached: the build refuses an object in which a panic survived optimisation.
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

// SAFETY: the loader needs this section and symbol. Nothing else in the object has the name.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
