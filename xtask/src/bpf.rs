//! An XDP program of two instructions. It tests what a driver supports before anything is built.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bpf_call::{Instruction, LoadXdp, XDP_DROP, XDP_FLAGS_DRV_MODE, link_xdp};

const DROP: [Instruction; 2] = [Instruction::set_result(XDP_DROP), Instruction::EXIT];

/// An XDP program that drops every packet. It stays in the kernel until this value is dropped.
pub(crate) struct DropProgram(OwnedFd);

impl DropProgram {
    /// Loads it.
    pub(crate) fn load() -> io::Result<Self> {
        let (name, license) = (c"preflight", c"Dual MIT/GPL");
        LoadXdp { name, license, instructions: &DROP, bound_to: None }.load(&mut []).map(Self)
    }

    /// Attaches it in the driver of the interface with this index, and detaches it again.
    pub(crate) fn attach_to_driver(&self, interface: u32) -> io::Result<()> {
        link_xdp(self.0.as_fd(), interface, XDP_FLAGS_DRV_MODE).map(drop)
    }
}
