//! An XDP program that passes everything.
//!
//! The switch's ends of the cables have it because of its effect on the driver: a veth whose peer has no XDP
//! program drops the frames that the peer's XDP programs transmit to it. Two instructions need no compiler.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bpf_call::{Instruction, LoadXdp, XDP_FLAGS_DRV_MODE, XDP_PASS, link_xdp};

/// The attached program; dropping it, or the end of the process, detaches it.
#[derive(Debug)]
pub struct PassProgram {
    _link: OwnedFd,
}

impl PassProgram {
    /// Attaches it to an interface of the calling thread's namespace, in the driver.
    ///
    /// # Errors
    /// Without root, or if the interface has a program.
    pub fn attach(interface: u32) -> io::Result<Self> {
        let instructions = &[Instruction::set_result(XDP_PASS), Instruction::EXIT];
        let program =
            LoadXdp { name: c"pass", license: c"Dual MIT/GPL", instructions, bound_to: None }.load(&mut [])?;
        Ok(Self { _link: link_xdp(program.as_fd(), interface, XDP_FLAGS_DRV_MODE)? })
    }
}
