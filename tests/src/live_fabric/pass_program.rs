//! An XDP program that passes everything.
//!
//! The switch's ends of the cables carry it for what it does to the driver: a veth whose peer has no XDP
//! program drops what the peer's XDP programs transmit to it. Two instructions need no compiler.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct bpf_insn` of linux/bpf.h.
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `BPF_ALU64 | BPF_MOV | BPF_K`.
const MOVE_IMMEDIATE: u8 = 0xb7;
/// `BPF_JMP | BPF_EXIT`.
const EXIT: u8 = 0x95;
const XDP_PASS: i32 = 2;

static PROGRAM: [Instruction; 2] = [
    Instruction { code: MOVE_IMMEDIATE, registers: 0, offset: 0, immediate: XDP_PASS },
    Instruction { code: EXIT, registers: 0, offset: 0, immediate: 0 },
];
static LICENSE: &CStr = c"Dual MIT/GPL";

/// The part of `union bpf_attr` that `BPF_PROG_LOAD` needs here; the kernel takes the rest as zero.
#[repr(C)]
struct Load {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
}

/// The part of `union bpf_attr` that `BPF_LINK_CREATE` needs here.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The attached program; dropping it, or the end of the process, detaches it.
#[derive(Debug)]
pub struct PassProgram {
    _link: OwnedFd,
}

impl PassProgram {
    /// Attaches to an interface of the calling thread's namespace, in the driver.
    ///
    /// # Errors
    /// Without root, or if the interface has a program.
    pub fn attach(interface: u32) -> io::Result<Self> {
        let program = bpf(
            BPF_PROG_LOAD,
            &Load {
                program_type: BPF_PROG_TYPE_XDP,
                instruction_count: PROGRAM.len() as u32,
                instructions: PROGRAM.as_ptr() as u64,
                license: LICENSE.as_ptr() as u64,
            },
        )?;
        let link = bpf(
            BPF_LINK_CREATE,
            &LinkCreate {
                program: program.as_raw_fd() as u32,
                interface,
                attach_type: BPF_XDP,
                flags: XDP_FLAGS_DRV_MODE,
            },
        )?;
        Ok(Self { _link: link })
    }
}

/// A bpf system call that returns a new descriptor.
fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads size_of::<T>() bytes; what they point to is static; it writes nothing.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands return a new descriptor, which is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}
