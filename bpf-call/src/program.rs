//! Loads and test-runs programs.

use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{bpf, bpf_descriptor};

// Of linux/bpf.h.
const BPF_PROG_LOAD: c_int = 5;
const BPF_PROG_TEST_RUN: c_int = 10;
const BPF_OBJ_GET_INFO_BY_FD: c_int = 15;
/// Verifier log: every step of the verifier.
const LOG_WALK: u32 = 1;
/// Verifier log: only the summary.
const LOG_SUMMARY: u32 = 4;
const BPF_PROG_TYPE_XDP: u32 = 6;
pub(crate) const BPF_XDP: u32 = 37;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
/// Verdict: the frame is dropped.
pub const XDP_DROP: i32 = 1;
/// Verdict: the frame goes to the network stack.
pub const XDP_PASS: i32 = 2;

/// Length of a frame of a test run that sends nothing, bytes.
pub const LIVE_FRAME_BYTES: u32 = 64;
/// The longest live frame, bytes: what a page of 4 KiB has left beside the kernel's own data.
pub const LONGEST_LIVE_FRAME: u32 = 3408;
/// Largest number of frames that the kernel handles in one batch of a live run.
pub const MAX_BATCH: u32 = 256;
/// Ingress interface of live frames: the loopback interface, which has this index in every network namespace. The
/// wire program recognises the engine's frames by it.
const ENGINE_INTERFACE: u32 = 1;
const NAME_BYTES: usize = 16;

/// One instruction: `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Operation code.
    pub code: u8,
    /// Registers: the destination in the low 4 bits, the source in the high 4 bits.
    pub registers: u8,
    /// Offset of a jump or of a memory access.
    pub offset: i16,
    /// Constant.
    pub immediate: i32,
}

impl Instruction {
    /// `r0 = value`.
    pub const fn set_result(value: i32) -> Self {
        Self { code: 0xb7, registers: 0, offset: 0, immediate: value } // BPF_ALU64 | BPF_MOV | BPF_K
    }

    /// `exit`.
    pub const EXIT: Self = Self { code: 0x95, registers: 0, offset: 0, immediate: 0 };
    /// `may_goto +0`, of Linux 6.9: `BPF_JMP | BPF_JCOND`.
    pub const MAY_GOTO: Self = Self { code: 0xe5, registers: 0, offset: 0, immediate: 0 };
}

#[repr(C)]
#[derive(Default)]
struct LoadAttributes {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
    interface: u32,
    attach_type: u32,
}

/// The first part of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    program_type: u32,
    id: u32,
    tag: [u8; 8],
    machine_code_length: u32,
    translated_length: u32,
    machine_code: u64,
    translated: u64,
}

#[repr(C)]
#[derive(Default)]
struct ObjectInfo {
    descriptor: u32,
    length: u32,
    info: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
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

/// `struct xdp_md`, the context of a test run.
#[repr(C)]
#[derive(Default)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_interface: u32,
    receive_queue: u32,
    egress_interface: u32,
}

/// An XDP program to load.
#[derive(Clone, Copy, Debug)]
pub struct LoadXdp<'a, I> {
    /// Its name in the kernel, cut to 15 bytes.
    pub name: &'a CStr,
    /// Its license.
    pub license: &'a CStr,
    /// [`Instruction`]s, or another type of the same layout.
    pub instructions: &'a [I],
    /// The interface to which it is bound, in the calling thread's network namespace. Only a bound program can
    /// read the driver's metadata of a frame.
    pub bound_to: Option<u32>,
}

impl<I: Copy> LoadXdp<'_, I> {
    /// Loads the program. The verifier writes its log to `log`, unless that is empty.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn load(&self, log: &mut [u8]) -> io::Result<OwnedFd> {
        self.load_logged(log, LOG_WALK)
    }

    /// Loads the program. The verifier writes only a summary to `log`: the number of its steps, and the stack of
    /// each function.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn load_summarized(&self, log: &mut [u8]) -> io::Result<OwnedFd> {
        self.load_logged(log, LOG_SUMMARY)
    }

    fn load_logged(&self, log: &mut [u8], level: u32) -> io::Result<OwnedFd> {
        const { assert!(size_of::<I>() == size_of::<Instruction>()) };
        let mut attributes = LoadAttributes {
            program_type: BPF_PROG_TYPE_XDP,
            instruction_count: self.instructions.len() as u32,
            instructions: self.instructions.as_ptr() as u64,
            license: self.license.as_ptr() as u64,
            attach_type: BPF_XDP,
            ..LoadAttributes::default()
        };
        if let Some(interface) = self.bound_to {
            attributes.flags = BPF_F_XDP_DEV_BOUND_ONLY;
            attributes.interface = interface;
        }
        if !log.is_empty() {
            attributes.log_level = level;
            attributes.log = log.as_mut_ptr() as u64;
            attributes.log_size = log.len() as u32;
        }
        // One byte is left for the terminating zero.
        for (place, byte) in attributes.name[..NAME_BYTES - 1].iter_mut().zip(self.name.to_bytes()) {
            *place = *byte;
        }
        bpf_descriptor(BPF_PROG_LOAD, &mut attributes)
    }
}

/// Returns the instructions of a loaded program after the verifier. Returns none if the kernel does not show them.
///
/// # Errors
/// The kernel's reason.
pub fn translated(program: BorrowedFd<'_>) -> io::Result<Vec<Instruction>> {
    let ask = |mut info: ProgramInfo| {
        let mut attributes = ObjectInfo {
            descriptor: program.as_raw_fd().cast_unsigned(),
            length: size_of::<ProgramInfo>() as u32,
            info: std::ptr::from_mut(&mut info) as u64,
        };
        bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes).map(|_| info)
    };
    let length = ask(ProgramInfo::default())?.translated_length;
    let mut instructions = vec![Instruction::EXIT; length as usize / size_of::<Instruction>()];
    let translated = instructions.as_mut_ptr() as u64;
    let info = ask(ProgramInfo { translated_length: length, translated, ..ProgramInfo::default() })?;
    if info.translated == 0 {
        instructions.clear();
    }
    Ok(instructions)
}

/// Runs an XDP program once, on a frame of zeros that is not sent. Returns the program's result.
///
/// # Errors
/// The kernel's reason.
pub fn run_once(program: BorrowedFd<'_>) -> io::Result<u32> {
    let frame = [0u8; LIVE_FRAME_BYTES as usize];
    let mut attributes = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        data_in: frame.as_ptr() as u64,
        data_in_size: LIVE_FRAME_BYTES,
        ..TestRun::default()
    };
    bpf(BPF_PROG_TEST_RUN, &mut attributes)?;
    Ok(attributes.result)
}

/// Passes `frames` live frames of `length` bytes each to `program`, as frames of the engine, `batch` at a time. Returns
/// when all were passed, or with `EINTR` on a signal. A program may make its frame shorter or longer. The kernel writes
/// zeros into what it adds, and copies `length` bytes into each page of frames that it takes newly.
///
/// # Errors
/// The kernel's reason. `EINVAL`: more than [`LONGEST_LIVE_FRAME`] bytes.
pub fn run_live(program: BorrowedFd<'_>, frames: u32, batch: u32, length: u32) -> io::Result<()> {
    if length > LONGEST_LIVE_FRAME {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let frame = [0u8; LONGEST_LIVE_FRAME as usize];
    let context = Context { data_end: length, ingress_interface: ENGINE_INTERFACE, ..Context::default() };
    let mut attributes = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        data_in: frame.as_ptr() as u64,
        data_in_size: length,
        context_in: std::ptr::from_ref(&context) as u64,
        context_in_size: size_of::<Context>() as u32,
        repeat: frames,
        batch_size: batch,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        ..TestRun::default()
    };
    bpf(BPF_PROG_TEST_RUN, &mut attributes).map(drop)
}
