//! How frames of the engine leave.
//!
//! By XDP where the card takes frames from there: `PORT` names it. Where the card takes none, the node leaves `PORT` empty.
//! The verdict is then to pass the frame on, and the kernel takes it into its stack on the device that the frame seems to
//! come from, the loopback device. There `to_card` sends it to the card as the stack sends frames.

use crate::maps;
use aya_ebpf::bindings::xdp_action::XDP_PASS;
use aya_ebpf::programs::{RawTracePointContext, TcContext};
use transport_common::counters::Counter;
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP};

/// Verdicts of a program at the entry to the stack (`enum tcx_action_base`): the next program decides.
const TCX_NEXT: i32 = -1;
/// The frame goes no further.
const TCX_DROP: i32 = 2;

/// Positions in an Ethernet frame.
const SOURCE_MAC: usize = 6;
const ETHERTYPE: usize = 12;
const IPV4_PROTOCOL: usize = 23;
const IPV4_SOURCE: usize = 26;
/// Without options: frames of the engine have none.
const IPV4_UDP_DESTINATION: usize = 36;
const IPV6_PROTOCOL: usize = 20;
const IPV6_SOURCE: usize = 22;
const IPV6_UDP_DESTINATION: usize = 56;
const LONGEST: usize = IPV6_UDP_DESTINATION + 2;

/// The verdict of a program whose frame is to leave. The frame was counted as sent.
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

/// Sends a frame of the engine to the card; the verdict for what came to the loopback device.
///
/// A copy is sent, which shares the bytes: only so does the program learn whether the stack took it.
#[inline(always)]
pub(crate) fn to_card(ctx: &TcContext) -> i32 {
    if !is_the_engines(ctx) {
        return TCX_NEXT;
    }
    let sent = ctx.clone_redirect(maps::NODE_CONFIG.load().interface_index, 0).is_ok();
    maps::count(if sent { Counter::SentByEngine } else { Counter::DropNotSent }, 1);
    TCX_DROP
}

/// Whether the frame bears this node's MAC and IP address as its source, and Falcon's port as its destination.
///
/// The stack's own frames on the loopback device have no MAC address. Whoever may put another frame there may as well put
/// it on the card.
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

/// A field of the frame, in the frame's order of bytes.
#[inline(always)]
fn load<T: Copy>(frame: *const u8, at: usize) -> T {
    // SAFETY: the caller has seen that the frame has LONGEST bytes, and every field above ends there or before.
    unsafe { frame.add(at).cast::<T>().read_unaligned() }
}

/// The kernel could not redirect a frame to the card, for whatever reason: the card takes none from XDP, is down, or the frame
/// is longer than its MTU. It says so before the next frame, on the same CPU, and for every map of the machine.
#[inline(always)]
pub(crate) fn not_redirected(ctx: &RawTracePointContext) {
    /// Place of the map's number among the tracepoint's arguments.
    const MAP_ID: usize = 5;
    if maps::is_port(ctx.arg::<u32>(MAP_ID)) {
        maps::count(Counter::SentByEngine, u64::MAX);
        maps::count(Counter::DropNotSent, 1);
    }
}
