//! The wire and engine programs: entry points and maps only. What they do stands in `transport_common::datapath`.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod atomic;
mod cursor;
mod exchange;
mod lock;
mod log;
mod maps;
mod platform;
mod short;
mod stamp;
mod transmit;

use aya_ebpf::bindings::xdp_action;
use aya_ebpf::macros::{classifier, raw_tracepoint, xdp};
use aya_ebpf::programs::{RawTracePointContext, TcContext, XdpContext};
use platform::Xdp;
use transport_common::datapath::{self, Frames, Turn, Verdict};
use transport_common::tape::{Recorded, RunKind};

/// Interface index of the loopback device in every network namespace. No packet of a network arrives there on an
/// interface of ours: the engine thread names it as the origin of the frames it asks for.
const LOOPBACK: u32 = 1;

/// Attached to the interface: receives Falcon, passes everything else on. The frames of the engine thread start
/// here too, so that the kernel's XDP dispatcher knows one program only.
#[xdp]
pub fn wire(ctx: XdpContext) -> u32 {
    // SAFETY: the kernel hands the program a valid context.
    if unsafe { (*ctx.ctx).ingress_ifindex } == LOOPBACK {
        // SAFETY: the map holds programs of this type only.
        unsafe { maps::PROGRAMS.tail_call(&ctx, maps::ENGINE_PROGRAM) };
        return xdp_action::XDP_DROP;
    }
    receive(&mut Xdp::new(&ctx))
}

/// Attached in place of `wire` where the driver hands out the card's receive timestamps. The kernel binds it to one
/// device, and therefore refuses it as part of a program array and in test runs: the engine's frames still enter
/// through `wire`.
#[xdp]
pub fn wire_stamped(ctx: XdpContext) -> u32 {
    receive(&mut Xdp::stamped(&ctx))
}

#[inline(always)]
fn receive<const STAMPED: bool>(platform: &mut Xdp<STAMPED>) -> u32 {
    let Some(scratch) = maps::scratch() else { return xdp_action::XDP_ABORTED };
    match datapath::receive(platform, scratch) {
        Verdict::Pass => xdp_action::XDP_PASS,
        Verdict::Drop => xdp_action::XDP_DROP,
        Verdict::Transmit => xdp_action::XDP_TX,
    }
}

/// Runs once for every frame of the engine thread: the transmit pipeline.
#[xdp]
pub fn engine(ctx: XdpContext) -> u32 {
    let (Some(scratch), Some(node)) = (maps::scratch(), maps::node()) else { return xdp_action::XDP_ABORTED };
    let frame = maps::next_frame(node);
    let turn = datapath::engine(&mut Xdp::new(&ctx), scratch, frame & 7 == 0);
    maps::count_idle(node, turn == Turn::Idle);
    if turn == Turn::Redeliver {
        // SAFETY: the map holds programs of this type only. The scratch is this CPU's, and stays as it is.
        unsafe { maps::PROGRAMS.tail_call(&ctx, maps::REDELIVER_PROGRAM) };
    }
    send(turn)
}

/// Goes on with a frame of the engine in which a held request is delivered.
#[xdp]
pub fn redeliver(ctx: XdpContext) -> u32 {
    let Some(scratch) = maps::scratch() else { return xdp_action::XDP_ABORTED };
    send(datapath::redeliver(&mut Xdp::new(&ctx), scratch))
}

/// [`wire`], recorded: attached in its place while a trace is taken.
#[xdp]
pub fn wire_recorded(ctx: XdpContext) -> u32 {
    let (Some(scratch), Some(tape)) = (maps::scratch(), maps::tape()) else { return xdp_action::XDP_ABORTED };
    tape.begin(RunKind::RECEIVE);
    let mut platform = Recorded::new(Xdp::new(&ctx), tape);
    let length = platform.frame_length();
    platform.note_frame(length);
    let verdict = datapath::receive(&mut platform, scratch);
    maps::keep(tape, verdict);
    match verdict {
        Verdict::Pass => xdp_action::XDP_PASS,
        Verdict::Drop => xdp_action::XDP_DROP,
        Verdict::Transmit => xdp_action::XDP_TX,
    }
}

/// [`engine`], recorded.
#[xdp]
pub fn engine_recorded(ctx: XdpContext) -> u32 {
    let (Some(scratch), Some(node), Some(tape)) = (maps::scratch(), maps::node(), maps::tape()) else {
        return xdp_action::XDP_ABORTED;
    };
    tape.begin(RunKind::ENGINE);
    let frame = maps::next_frame(node);
    let turn = datapath::engine(&mut Recorded::new(Xdp::new(&ctx), tape), scratch, frame & 7 == 0);
    maps::count_idle(node, turn == Turn::Idle);
    if turn == Turn::Redeliver {
        // SAFETY: the map holds programs of this type only. Scratch and tape are this CPU's, and stay as they are.
        unsafe { maps::PROGRAMS.tail_call(&ctx, maps::REDELIVER_PROGRAM) };
    }
    maps::keep(tape, turn);
    send(turn)
}

/// [`redeliver`], recorded: on the tape that [`engine_recorded`] began.
#[xdp]
pub fn redeliver_recorded(ctx: XdpContext) -> u32 {
    let (Some(scratch), Some(tape)) = (maps::scratch(), maps::tape()) else { return xdp_action::XDP_ABORTED };
    let turn = datapath::redeliver(&mut Recorded::new(Xdp::new(&ctx), tape), scratch);
    maps::keep(tape, turn);
    send(turn)
}

/// Run by hand: moves a connection between its slot and the map the node sees, under the connection's lock.
#[xdp]
pub fn exchange(ctx: XdpContext) -> u32 {
    if exchange::carry_out(&ctx) {
        transport_common::datapath::exchange::DONE
    } else {
        xdp_action::XDP_ABORTED
    }
}

/// Attached at the loopback device's entry to the stack where the card takes no frames from XDP: passes the engine's
/// frames on to the card.
#[classifier]
pub fn to_card(ctx: TcContext) -> i32 {
    transmit::to_card(&ctx)
}

/// Attached to the tracepoint `xdp_redirect_err`: takes back that a frame was sent.
#[raw_tracepoint]
pub fn not_redirected(ctx: RawTracePointContext) -> i32 {
    transmit::not_redirected(&ctx);
    0
}

#[inline(always)]
fn send(turn: Turn) -> u32 {
    match turn {
        Turn::Transmit => transmit::send(),
        _ => xdp_action::XDP_DROP,
    }
}

/// Never reached: the build refuses an object in which a panic survived optimisation.
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

// SAFETY: the loader looks for this section and symbol; nothing else in the object bears the name.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
