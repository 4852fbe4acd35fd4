//! The three calls of bpf(2) that the preflight checks need, without a library, so that this crate builds fast.

use std::{
    ffi::c_int,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

// Commands, types and flags of linux/bpf.h and linux/if_link.h.
const BPF_PROG_LOAD: c_int = 5;
const BPF_PROG_TEST_RUN: c_int = 10;
const BPF_LINK_CREATE: c_int = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_DROP: i32 = 1;

/// One instruction, as in `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `r0 = XDP_DROP; exit`.
const DROP: [Instruction; 2] = [
    Instruction { code: 0xb7, registers: 0, offset: 0, immediate: XDP_DROP },
    Instruction { code: 0x95, registers: 0, offset: 0, immediate: 0 },
];

/// `may_goto +0; r0 = XDP_DROP; exit`. The instruction (`BPF_JMP | BPF_JCOND`) is Linux 6.9's.
const DROP_AFTER_MAY_GOTO: [Instruction; 3] =
    [Instruction { code: 0xe5, registers: 0, offset: 0, immediate: 0 }, DROP[0], DROP[1]];

/// Attributes of `BPF_PROG_LOAD` up to the last field used.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// Attributes of `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    verdict: u32,
    data_in_size: u32,
    data_out_size: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_size: u32,
    context_out_size: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// Attributes of `BPF_LINK_CREATE` for XDP.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// An XDP program that drops every packet, loaded into the kernel until dropped.
pub(crate) struct DropProgram(OwnedFd);

impl DropProgram {
    /// Loads it.
    pub(crate) fn load() -> io::Result<Self> {
        Self::load_instructions(&DROP)
    }

    /// Loads it with a `may_goto` in it, as Tiercel's programs have.
    pub(crate) fn load_with_may_goto() -> io::Result<Self> {
        Self::load_instructions(&DROP_AFTER_MAY_GOTO)
    }

    fn load_instructions(instructions: &[Instruction]) -> io::Result<Self> {
        let attributes = Load {
            kind: BPF_PROG_TYPE_XDP,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"Dual MIT/GPL".as_ptr() as u64,
            attach_type: BPF_XDP,
            ..Load::default()
        };
        let descriptor = bpf(BPF_PROG_LOAD, attributes)?;
        // SAFETY: the kernel just gave us this descriptor and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Runs it over one frame as the driver of a network card would.
    pub(crate) fn run_live_frame(&self) -> io::Result<()> {
        let frame = [0u8; 64];
        let attributes = TestRun {
            program: self.descriptor(),
            data_in_size: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: 1,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            ..TestRun::default()
        };
        bpf(BPF_PROG_TEST_RUN, attributes).map(drop)
    }

    /// Attaches it in the driver of the interface with this index, and detaches it again.
    pub(crate) fn attach_to_driver(&self, interface: u32) -> io::Result<()> {
        let program = self.descriptor();
        let attributes = LinkCreate { program, interface, attach_type: BPF_XDP, flags: XDP_FLAGS_DRV_MODE };
        let link = bpf(BPF_LINK_CREATE, attributes)?;
        // SAFETY: the kernel just gave us this descriptor; closing it detaches the program.
        drop(unsafe { OwnedFd::from_raw_fd(link) });
        Ok(())
    }

    fn descriptor(&self) -> u32 {
        self.0.as_raw_fd().cast_unsigned()
    }
}

/// bpf(2); the pointers in the attributes must be valid for the command.
fn bpf<T>(command: c_int, mut attributes: T) -> io::Result<c_int> {
    // SAFETY: the kernel reads and writes the attributes within their size; every caller above fills them with
    // pointers to data that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as c_int) }
}
