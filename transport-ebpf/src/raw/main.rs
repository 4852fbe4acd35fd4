//! The raw limit of the machine: the engine and the wire without a protocol.
//!
//! It contains only what every transport on this datapath needs: poll a queue, fill a frame, copy the payload out
//! of memory and into memory, send, and count the completion where the application sees it. It checks nothing,
//! drops nothing on purpose and recovers nothing. The bench compares Tiercel with it.
#![no_std]
#![no_main]

mod layout;

use aya_ebpf::bindings::{BPF_F_MMAPABLE, xdp_action, xdp_md};
use aya_ebpf::helpers::{bpf_xdp_adjust_tail, bpf_xdp_load_bytes, bpf_xdp_store_bytes};
use aya_ebpf::macros::{map, xdp};
use aya_ebpf::maps::{Array, DevMap};
use aya_ebpf::programs::XdpContext;
use core::sync::atomic::Ordering::Relaxed;
use layout::{
    ACKNOWLEDGED_TOGETHER, BUFFER_BYTES, BUFFERS, FRAME_BYTES, LIVE_FRAME_BYTES, Line, PAYLOAD_BYTES, Page,
    kind,
};

/// Interface index of the loopback device, which the engine's frames have as their origin.
const LOOPBACK: u32 = 1;
/// Local experimental EtherType 1 of IEEE 802, in memory order.
const ETHERTYPE: u16 = 0x88b5_u16.to_be();

/// Only on the wire, in addition to [`kind`]: the reply to `BOUNCE`, or to a group of `PLACE`.
const DONE: u64 = 3;
/// Only on the wire: the reply to `FETCH`.
const FETCHED: u64 = 4;

/// Counters between application, engine and receiver.
#[map]
static PAGE: Array<Page> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Memory from which payloads are read and into which they are written.
#[map]
static BUFFER: Array<[u8; BUFFER_BYTES]> = Array::with_max_entries(BUFFERS as u32, BPF_F_MMAPABLE);
/// The interface to send on.
#[map]
static PORT: DevMap = DevMap::with_max_entries(1, 0);

/// A frame's first 64 bytes.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Header {
    destination: [u16; 3],
    source: [u16; 3],
    ethertype: u16,
    kind: u8,
    zero: u8,
    sequence: u64,
    padding: [u64; 5],
}

const _: () = assert!(size_of::<Header>() == FRAME_BYTES as usize);

/// Attached to the interface. The engine's frames start here too.
#[xdp]
pub fn raw_wire(ctx: XdpContext) -> u32 {
    // A missing page is impossible, but the verifier requires the check.
    let Some(page) = PAGE.get_ptr(0) else { return xdp_action::XDP_ABORTED };
    // SAFETY: a valid map value of atomics.
    let page = unsafe { &*page };
    // SAFETY: the kernel passes a valid context to the program.
    let verdict = if unsafe { (*ctx.ctx).ingress_ifindex } == LOOPBACK {
        transmit(ctx.ctx, page)
    } else {
        receive(ctx.ctx, page)
    };
    verdict.unwrap_or(xdp_action::XDP_ABORTED)
}

/// Processes one frame of the engine: sends the next operation, or nothing.
#[inline(always)]
fn transmit(ctx: *mut xdp_md, page: &Page) -> Option<u32> {
    let sequence = page.consumer.0.load(Relaxed);
    if page.producer.0.load(Relaxed) == sequence {
        return Some(xdp_action::XDP_DROP);
    }
    page.consumer.0.store(sequence + 1, Relaxed);
    resize(ctx, (FRAME_BYTES - LIVE_FRAME_BYTES) as i32)?;
    let kind = page.kind.0.load(Relaxed);
    if kind == kind::PLACE {
        append(ctx, sequence)?;
    }
    let header = header_of(ctx)?;
    // Written field by field: a header on the stack would be written in unaligned pieces, which the verifier
    // allows only in packets.
    // SAFETY: inside the frame.
    unsafe {
        (&raw mut (*header).destination).write_unaligned([u16::MAX; 3]);
        (&raw mut (*header).source).write_unaligned([0; 3]);
        (&raw mut (*header).ethertype).write_unaligned(ETHERTYPE);
        (*header).kind = kind as u8;
        (*header).zero = 0;
        (&raw mut (*header).sequence).write_unaligned(sequence);
        (&raw mut (*header).padding).write_unaligned([0; 5]);
    }
    PORT.redirect(0, 0).ok()
}

/// Processes one frame from the network.
#[inline(always)]
fn receive(ctx: *mut xdp_md, page: &Page) -> Option<u32> {
    let Some(header) = header_of(ctx) else { return Some(xdp_action::XDP_PASS) };
    // SAFETY: inside the frame.
    let (ethertype, kind, sequence) = unsafe {
        (
            (&raw const (*header).ethertype).read_unaligned(),
            (*header).kind,
            (&raw const (*header).sequence).read_unaligned(),
        )
    };
    if ethertype != ETHERTYPE {
        return Some(xdp_action::XDP_PASS);
    }
    match u64::from(kind) {
        kind::BOUNCE => answer(ctx, DONE),
        kind::PLACE => {
            take(ctx, sequence)?;
            if !add(&page.placed, 1).is_multiple_of(ACKNOWLEDGED_TOGETHER) {
                return Some(xdp_action::XDP_DROP);
            }
            resize(ctx, -(PAYLOAD_BYTES as i32))?;
            answer(ctx, DONE)
        }
        kind::FETCH => {
            append(ctx, sequence)?;
            answer(ctx, FETCHED)
        }
        DONE => {
            let placing = page.kind.0.load(Relaxed) == kind::PLACE;
            add(&page.completed, if placing { ACKNOWLEDGED_TOGETHER } else { 1 });
            Some(xdp_action::XDP_DROP)
        }
        FETCHED => {
            take(ctx, sequence)?;
            add(&page.completed, 1);
            Some(xdp_action::XDP_DROP)
        }
        _ => Some(xdp_action::XDP_DROP),
    }
}

/// Sends the frame back to its sender, as `kind`.
#[inline(always)]
fn answer(ctx: *mut xdp_md, kind: u64) -> Option<u32> {
    let header = header_of(ctx)?;
    // SAFETY: inside the frame. Fields are read and written with any alignment.
    unsafe {
        let (destination, source) = (&raw mut (*header).destination, &raw mut (*header).source);
        let sender = source.read_unaligned();
        source.write_unaligned(destination.read_unaligned());
        destination.write_unaligned(sender);
        (*header).kind = kind as u8;
    }
    Some(xdp_action::XDP_TX)
}

/// Returns the frame's header, if the frame is long enough.
#[inline(always)]
fn header_of(ctx: *mut xdp_md) -> Option<*mut Header> {
    // SAFETY: the kernel passes a valid context to the program.
    let (data, end) = unsafe { ((*ctx).data as usize, (*ctx).data_end as usize) };
    if data + FRAME_BYTES as usize > end { None } else { Some(data as *mut Header) }
}

#[inline(always)]
fn resize(ctx: *mut xdp_md, delta: i32) -> Option<()> {
    // SAFETY: the helper checks the available space of the frame.
    (unsafe { bpf_xdp_adjust_tail(ctx, delta) } == 0).then_some(())
}

/// Extends the frame by the payload of operation `sequence`.
#[inline(always)]
fn append(ctx: *mut xdp_md, sequence: u64) -> Option<()> {
    resize(ctx, PAYLOAD_BYTES as i32)?;
    let from = buffer(sequence)?;
    // SAFETY: a buffer is longer than a payload. The helper checks the frame's bounds.
    (unsafe { bpf_xdp_store_bytes(ctx, FRAME_BYTES, from.cast(), PAYLOAD_BYTES) } == 0).then_some(())
}

/// Copies the frame's payload to the buffer of operation `sequence`.
#[inline(always)]
fn take(ctx: *mut xdp_md, sequence: u64) -> Option<()> {
    let to = buffer(sequence)?;
    // SAFETY: a buffer is longer than a payload. The helper checks the frame's bounds.
    (unsafe { bpf_xdp_load_bytes(ctx, FRAME_BYTES, to.cast(), PAYLOAD_BYTES) } == 0).then_some(())
}

#[inline(always)]
fn buffer(sequence: u64) -> Option<*mut [u8; BUFFER_BYTES]> {
    BUFFER.get_ptr_mut(sequence as u32 & (BUFFERS as u32 - 1))
}

/// Adds to a counter whose only writer is this program. Returns the sum.
#[inline(always)]
fn add(counter: &Line, n: u64) -> u64 {
    let sum = counter.0.load(Relaxed) + n;
    counter.0.store(sum, Relaxed);
    sum
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
