//! How frames of the engine leave the node.
//!
//! If the card accepts frames from XDP, `PORT` names the card, and frames leave by XDP. If it accepts none, the
//! node leaves `PORT` empty. Then the verdict is to pass the frame on. The kernel takes it into its stack on the
//! loopback device, because the frame seems to come from that device. There `to_card` sends it to the card in the
//! same way as the stack sends frames.
//!
//! Answers leave in the received frame (`XDP_TX`). A veth whose other end takes no frames from XDP cannot send them
//! either. Then the wire program marks the frame and passes it on, and `to_card` at the entry of the card sends it.

use crate::maps;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS, XDP_TX};
use aya_ebpf::bindings::xdp_md;
use aya_ebpf::helpers::bpf_xdp_adjust_meta;
use aya_ebpf::programs::{RawTracePointContext, TcContext};
use transport_common::counters::Counter;
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP};

/// Interface index of the loopback device in every network namespace. No packet of a network arrives with this
/// index on one of our interfaces. The engine thread names it as the origin of its frames.
pub(crate) const LOOPBACK: u32 = 1;

/// Verdicts of a program at the entry to the stack (`enum tcx_action_base`). With this one, the next program
/// decides.
const TCX_NEXT: i32 = -1;
/// The frame is dropped.
const TCX_DROP: i32 = 2;

/// Offsets in an Ethernet frame.
const SOURCE_MAC: usize = 6;
const ETHERTYPE: usize = 12;
const IPV4_PROTOCOL: usize = 23;
const IPV4_SOURCE: usize = 26;
/// The IPv4 header has no options, because the engine's frames have none.
const IPV4_UDP_DESTINATION: usize = 36;
const IPV6_PROTOCOL: usize = 20;
const IPV6_SOURCE: usize = 22;
const IPV6_UDP_DESTINATION: usize = 56;
const LONGEST: usize = IPV6_UDP_DESTINATION + 2;

/// Returns the verdict of a program that sends its frame. The caller has already counted the frame as sent.
#[inline(always)]
pub(crate) fn send() -> u32 {
    match maps::PORT.redirect(0, XDP_PASS as u64) {
        Ok(verdict) => verdict,
        Err(verdict) => {
            maps::count(Counter::SentByEngine, u64::MAX);
            maps::count(Counter::HandedToStack, 1);
            verdict
        }
    }
}

/// The mark of an answer, in the frame's metadata. No frame from a network has metadata, so frames of the engine that a
/// network brings back are not sent again.
const MARK: u32 = u32::from_ne_bytes(*b"TCL!");
const MARK_BYTES: usize = size_of::<u32>();

/// Returns the verdict of a program that has built an answer in the received frame, and counted it as sent.
///
/// It is a function of its own, because its caller has no stack left.
#[inline(never)]
pub(crate) fn answer(ctx: *mut xdp_md) -> u32 {
    if !maps::answers_through_stack() {
        return XDP_TX;
    }
    // SAFETY: the context is valid.
    let has_room = unsafe { bpf_xdp_adjust_meta(ctx, -(MARK_BYTES as i32)) } == 0;
    // SAFETY: as above.
    let (meta, data) = unsafe { ((*ctx).data_meta as usize, (*ctx).data as usize) };
    if has_room && meta + MARK_BYTES <= data {
        // SAFETY: the mark's bytes are there.
        unsafe { (meta as *mut u32).write_unaligned(MARK) };
        return XDP_PASS;
    }
    answer_not_sent();
    XDP_DROP
}

/// Takes back that an answer was sent.
#[inline(always)]
fn answer_not_sent() {
    maps::count(Counter::SentInReceivedFrame, u64::MAX);
    maps::count(Counter::DropNotSent, 1);
}

/// Returns whether the frame has the mark of an answer.
#[inline(always)]
fn is_answer(ctx: &TcContext) -> bool {
    // SAFETY: the context is valid.
    let meta = unsafe { (*ctx.skb.skb).data_meta } as usize;
    // SAFETY: the mark's bytes are there.
    meta + MARK_BYTES <= ctx.data() && unsafe { (meta as *const u32).read_unaligned() } == MARK
}

/// Sends a frame of the engine or an answer to the card, and returns the verdict for the frame where it entered the stack.
///
/// The program sends a clone that shares the bytes. This is the only way in which it learns whether the stack
/// accepted the frame.
#[inline(always)]
pub(crate) fn to_card(ctx: &TcContext) -> i32 {
    // SAFETY: the context is valid.
    let on_loopback = unsafe { (*ctx.skb.skb).ifindex } == LOOPBACK;
    if !on_loopback && !is_answer(ctx) || !is_the_engines(ctx) {
        return TCX_NEXT;
    }
    let sent = ctx.clone_redirect(maps::NODE_CONFIG.load().interface_index, 0).is_ok();
    if !on_loopback {
        if !sent {
            answer_not_sent();
        }
        return TCX_DROP;
    }
    maps::count(if sent { Counter::SentByEngine } else { Counter::DropNotSent }, 1);
    TCX_DROP
}

/// Returns whether the frame has this node's MAC and IP address as its source, and Falcon's port as its
/// destination.
///
/// The stack's own frames on the loopback device have no MAC address. A process that may put another frame there
/// may also put it on the card.
#[inline(always)]
fn is_the_engines(ctx: &TcContext) -> bool {
    let (data, end) = (ctx.data(), ctx.data_end());
    if data + LONGEST > end {
        return false;
    }
    let node = maps::NODE_CONFIG.load();
    let frame = data as *const u8;
    let mac = load::<u32>(frame, SOURCE_MAC) as u64 | (load::<u16>(frame, SOURCE_MAC + 4) as u64) << 32;
    if mac != node.mac_word {
        return false;
    }
    let (protocol, port, own) = match load::<u16>(frame, ETHERTYPE) {
        IPV4 => {
            let own = load::<u32>(frame, IPV4_SOURCE) == node.ipv4;
            (load::<u8>(frame, IPV4_PROTOCOL), load::<u16>(frame, IPV4_UDP_DESTINATION), own)
        }
        IPV6 => {
            let source = [load::<u64>(frame, IPV6_SOURCE), load::<u64>(frame, IPV6_SOURCE + 8)];
            (load::<u8>(frame, IPV6_PROTOCOL), load::<u16>(frame, IPV6_UDP_DESTINATION), source == node.ipv6)
        }
        _ => return false,
    };
    own && protocol == IP_PROTOCOL_UDP && port == FALCON_UDP_PORT.to_be()
}

const IPV4: u16 = 0x0800_u16.to_be();
const IPV6: u16 = 0x86dd_u16.to_be();

/// Reads a field of the frame, in the frame's byte order.
#[inline(always)]
fn load<T: Copy>(frame: *const u8, at: usize) -> T {
    // SAFETY: the caller has checked that the frame has LONGEST bytes, and every field above ends within them.
    unsafe { frame.add(at).cast::<T>().read_unaligned() }
}

/// Counts a frame that the kernel could not redirect to the card. The reason may be that the card accepts none
/// from XDP, that it is down, or that the frame is longer than its MTU. The tracepoint runs before the next frame,
/// on the same CPU. It runs for every map of the machine.
#[inline(always)]
pub(crate) fn not_redirected(ctx: &RawTracePointContext) {
    /// Index of the map's number among the tracepoint's arguments.
    const MAP_ID: usize = 5;
    if maps::is_port(ctx.arg::<u32>(MAP_ID)) {
        maps::count(Counter::SentByEngine, u64::MAX);
        maps::count(Counter::DropNotSent, 1);
    }
}

/// Counts the frames of a bulk that the driver did not take (`ndo_xdp_xmit`): its ring is full, its link is down, or it
/// takes no frames from XDP at this time. The tracepoint runs after every bulk of every program of the machine, on the
/// CPU that filled it. Only the engine's thread counts [`Counter::SentByEngine`], and its frames leave before anything else
/// can redirect on this CPU. So the bulk is the engine's if that counter has changed since the bulk before.
#[inline(always)]
pub(crate) fn not_transmitted(ctx: &RawTracePointContext) {
    /// Index of the number of frames that were not taken among the tracepoint's arguments.
    const DROPS: usize = 3;
    let drops = ctx.arg::<i32>(DROPS);
    let new = maps::sent_since_last_bulk();
    if drops > 0 && new > 0 {
        let lost = if drops as u64 > new { new } else { drops as u64 };
        maps::count(Counter::SentByEngine, 0_u64.wrapping_sub(lost));
        maps::count(Counter::DropNotSent, lost);
        maps::sent_since_last_bulk();
    }
}
