//! The network between two guests: a network namespace without a name, with a bridge and a tap for each guest. The
//! kernel removes all of it when the thread that made it and the guests in it have ended, however they end.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, OwnedFd},
    process::Command,
};

use anyhow::{Context, Result, bail};
use bpf_call::{Instruction, LoadXdp, XDP_DROP, XDP_FLAGS_SKB_MODE, XDP_PASS, link_xdp};

/// IP MTU of the network in bytes: the largest that any guest uses.
pub(crate) const WIRE_MTU: u32 = 9000;
/// The taps, for guest A and guest B.
pub(crate) const TAPS: [&str; 2] = ["ta", "tb"];

/// The network. Only the thread that made it may use it.
pub(crate) struct Network {
    /// The programs that drop packets, while packet loss is switched on.
    losing: Vec<OwnedFd>,
}

impl Network {
    /// Moves the calling thread into a namespace of its own, and creates the network there. `queues` is the number
    /// of queues of each tap.
    ///
    /// # Errors
    /// Without root, or if the kernel has no bridges or taps.
    pub(crate) fn new(queues: u32) -> Result<Self> {
        // SAFETY: unshare takes no pointers, and it changes the namespace of this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            bail!("cannot make a network namespace: {}", io::Error::last_os_error());
        }
        ip("link set lo up")?;
        ip(&format!("link add br0 mtu {WIRE_MTU} type bridge forward_delay 0 mcast_snooping 0"))?;
        for tap in TAPS {
            let many = if queues > 1 { "multi_queue" } else { "" };
            ip(&format!("tuntap add {tap} mode tap vnet_hdr {many}"))?;
            ip(&format!("link set {tap} mtu {WIRE_MTU} master br0 up"))?;
        }
        ip(&format!("link set br0 mtu {WIRE_MTU} up"))?;
        Ok(Self { losing: vec![] })
    }

    /// Drops this many of a thousand packets in each direction from now on. An XDP program on each tap drops them.
    /// (Many kernels lack netem, so it is not used.)
    ///
    /// # Errors
    /// If the kernel refuses the program.
    pub(crate) fn lose(&mut self, per_mille: u32) -> Result<()> {
        self.losing.clear();
        for tap in TAPS {
            let name = CString::new(tap).expect("the name has no NUL");
            // SAFETY: the pointer is to a string that ends with NUL and outlives the call.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let instructions = &lossy(per_mille);
            let program = LoadXdp { name: c"loss", license: c"Dual MIT/GPL", instructions, bound_to: None };
            let program = program.load(&mut []).context("cannot load the program that loses packets")?;
            let link = link_xdp(program.as_fd(), index, XDP_FLAGS_SKB_MODE);
            self.losing.push(link.with_context(|| format!("cannot lose packets on the tap {tap}"))?);
        }
        Ok(())
    }

    /// Stops the packet loss.
    pub(crate) fn lose_nothing(&mut self) {
        self.losing.clear();
    }
}

/// Returns a program that passes a packet unless a random 32-bit number is below the threshold.
fn lossy(per_mille: u32) -> [Instruction; 6] {
    const CALL: u8 = 0x85;
    const GET_RANDOM: i32 = 7;
    const JUMP_IF_NOT_BELOW: u8 = 0x36; // BPF_JMP32 | BPF_JGE | BPF_K, by its low bits
    let threshold = (u64::from(per_mille.min(999)) << 32) / 1000;
    let operation = |code, offset, immediate| Instruction { code, registers: 0, offset, immediate };
    [
        operation(CALL, 0, GET_RANDOM),
        operation(JUMP_IF_NOT_BELOW, 2, (threshold as u32).cast_signed()),
        Instruction::set_result(XDP_DROP),
        Instruction::EXIT,
        Instruction::set_result(XDP_PASS),
        Instruction::EXIT,
    ]
}

/// Runs `ip` with words that contain no spaces, in the network namespace of the calling thread.
fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split_whitespace()).output().context("cannot start ip")?;
    if !output.status.success() {
        bail!("`ip {words}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
