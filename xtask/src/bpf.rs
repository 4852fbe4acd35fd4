//! An XDP program of two or three instructions. It tests what the kernel supports before anything is built.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bpf_call::{Instruction, LoadXdp, XDP_DROP, XDP_FLAGS_DRV_MODE, link_xdp, run_live};

const DROP: [Instruction; 2] = [Instruction::set_result(XDP_DROP), Instruction::EXIT];
const DROP_AFTER_MAY_GOTO: [Instruction; 3] = [Instruction::MAY_GOTO, DROP[0], DROP[1]];

/// An XDP program that drops every packet. It stays in the kernel until this value is dropped.
pub(crate) struct DropProgram(OwnedFd);

impl DropProgram {
    /// Loads it.
    pub(crate) fn load() -> io::Result<Self> {
        Self::load_instructions(&DROP)
    }

    /// Loads it with a `may_goto`, which Tiercel's programs need.
    pub(crate) fn load_with_may_goto() -> io::Result<Self> {
        Self::load_instructions(&DROP_AFTER_MAY_GOTO)
    }

    fn load_instructions(instructions: &[Instruction]) -> io::Result<Self> {
        LoadXdp { name: c"preflight", license: c"Dual MIT/GPL", instructions, bound_to: None }
            .load(&mut [])
            .map(Self)
    }

    /// Runs it over one live frame, as the driver of a network card does.
    pub(crate) fn run_live_frame(&self) -> io::Result<()> {
        run_live(self.0.as_fd(), 1, 1)
    }

    /// Attaches it in the driver of the interface with this index, and detaches it again.
    pub(crate) fn attach_to_driver(&self, interface: u32) -> io::Result<()> {
        link_xdp(self.0.as_fd(), interface, XDP_FLAGS_DRV_MODE).map(drop)
    }
}
