//! The wire and engine programs: only entry points and maps. `transport_common::datapath` contains their logic.
#![no_std]
#![no_main]

mod banks;
mod cursor;
mod exchange;
mod log;
mod maps;
mod platform;
mod short;
mod stamp;
mod sums;
mod transmit;

use aya_ebpf::bindings::xdp_action;
use aya_ebpf::macros::{classifier, raw_tracepoint, xdp};
use aya_ebpf::programs::{RawTracePointContext, TcContext, XdpContext};
use platform::Xdp;
use transport_common::datapath::{self, Turn, Verdict};
use transport_common::tape::{Recorded, RunKind};

/// Attached to the interface. Receives Falcon and passes everything else on. The frames of the engine thread also
/// start here, so that the kernel's XDP dispatcher knows only one program.
#[xdp]
pub fn wire(ctx: XdpContext) -> u32 {
    // SAFETY: the kernel passes a valid context to the program.
    if unsafe { (*ctx.ctx).ingress_ifindex } == transmit::LOOPBACK {
        // SAFETY: the map holds only programs of this type.
        unsafe { maps::PROGRAMS.tail_call(&ctx, maps::ENGINE_PROGRAM) };
        return xdp_action::XDP_DROP;
    }
    receive(&mut Xdp::new(&ctx))
}

/// Attached in place of `wire` if the driver provides the card's receive timestamps. The kernel binds this program
/// to one device. Therefore it refuses the program in a program array and in test runs: the engine's frames still
/// enter through `wire`.
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
        Verdict::Transmit => transmit::answer(platform.context()),
    }
}

/// Runs once for every frame of the engine thread: the transmit pipeline.
#[xdp]
pub fn engine(ctx: XdpContext) -> u32 {
    let (Some(scratch), Some(node)) = (maps::scratch(), maps::node()) else { return xdp_action::XDP_ABORTED };
    let looks = node.begin_frame();
    let turn = datapath::engine(&mut Xdp::new(&ctx), scratch, looks);
    node.end_frame(turn == Turn::Idle);
    if turn == Turn::Redeliver {
        // SAFETY: the map holds only programs of this type. The scratch belongs to this CPU and stays unchanged.
        unsafe { maps::PROGRAMS.tail_call(&ctx, maps::REDELIVER_PROGRAM) };
    }
    send(turn)
}

/// Continues with a frame of the engine in which a held request is delivered.
#[xdp]
pub fn redeliver(ctx: XdpContext) -> u32 {
    let Some(scratch) = maps::scratch() else { return xdp_action::XDP_ABORTED };
    send(datapath::redeliver(&mut Xdp::new(&ctx), scratch))
}

/// [`wire`] with recording. Attached in its place while a trace is recorded.
#[xdp]
pub fn wire_recorded(ctx: XdpContext) -> u32 {
    let (Some(scratch), Some(tape)) = (maps::scratch(), maps::tape()) else { return xdp_action::XDP_ABORTED };
    tape.begin(RunKind::RECEIVE);
    let mut platform = Recorded::new(Xdp::new(&ctx), tape);
    let length = platform.platform().frame_length();
    platform.note_frame(length);
    let verdict = datapath::receive(&mut platform, scratch);
    maps::keep(tape, verdict);
    match verdict {
        Verdict::Pass => xdp_action::XDP_PASS,
        Verdict::Drop => xdp_action::XDP_DROP,
        Verdict::Transmit => transmit::answer(platform.platform().context()),
    }
}

/// [`engine`] with recording.
#[xdp]
pub fn engine_recorded(ctx: XdpContext) -> u32 {
    let (Some(scratch), Some(node), Some(tape)) = (maps::scratch(), maps::node(), maps::tape()) else {
        return xdp_action::XDP_ABORTED;
    };
    tape.begin(RunKind::ENGINE);
    let looks = node.begin_frame();
    let turn = datapath::engine(&mut Recorded::new(Xdp::new(&ctx), tape), scratch, looks);
    node.end_frame(turn == Turn::Idle);
    if turn == Turn::Redeliver {
        // SAFETY: the map holds only programs of this type. Scratch and tape belong to this CPU and stay
        // unchanged.
        unsafe { maps::PROGRAMS.tail_call(&ctx, maps::REDELIVER_PROGRAM) };
    }
    maps::keep(tape, turn);
    send(turn)
}

/// [`redeliver`] with recording, on the tape that [`engine_recorded`] began.
#[xdp]
pub fn redeliver_recorded(ctx: XdpContext) -> u32 {
    let (Some(scratch), Some(tape)) = (maps::scratch(), maps::tape()) else { return xdp_action::XDP_ABORTED };
    let turn = datapath::redeliver(&mut Recorded::new(Xdp::new(&ctx), tape), scratch);
    maps::keep(tape, turn);
    send(turn)
}

/// Run directly by the node. Copies a connection between its slot and the map that the node sees, or changes its next hop,
/// under the connection's lock.
#[xdp]
pub fn exchange(ctx: XdpContext) -> u32 {
    exchange::carry_out(&ctx) as u32
}

/// Attached at the entries to the stack where the card takes no frames from XDP: on the loopback device, it passes the
/// engine's frames on to the card; on a card that takes no answers either, the answers in received frames.
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

/// Attached to the tracepoint `xdp_devmap_xmit`: takes back that the frames were sent that the driver did not take.
#[raw_tracepoint]
pub fn not_transmitted(ctx: RawTracePointContext) -> i32 {
    transmit::not_transmitted(&ctx);
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

// SAFETY: the loader needs this section and symbol. Nothing else in the object has the name.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
