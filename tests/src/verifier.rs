//! What the kernel's verifier says about the XDP programs: how much it walked, how much stack they take, how long they are.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use aya::maps::{Map, MapData};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};
use aya_obj::Object;
use aya_obj::generated::{
    BPF_CALL, BPF_JMP, BPF_PSEUDO_CALL, bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_prog_info,
    bpf_prog_type,
};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tiercel-ebpf"));

/// The programs that a node loads without binding them to a device. `wire_stamped`, the receive code of `wire` with the
/// card's timestamps, needs a device that has some.
pub const PROGRAMS: [&str; 7] =
    ["wire", "engine", "redeliver", "exchange", "wire_recorded", "engine_recorded", "redeliver_recorded"];

/// The JIT compiler rounds each frame up to so many bytes.
const STACK_UNIT: u32 = 16;
/// Number of the helper that makes tail calls.
const TAIL_CALL: i32 = 12;
/// `dst = imm`.
const MOVE_IMMEDIATE: u8 = 0xb7;
/// `BPF_LOG_STATS`: only the summary.
const LOG_STATISTICS: u32 = 4;
const LOG_BYTES: usize = 1 << 16;

/// Cost of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions that the verifier walked; it gives up at a million.
    pub verified: u32,
    /// Bytes of stack of the deepest chain of calls. The kernel allows 512, not counting the up to 16 bytes that a `may_goto`
    /// adds to each function which has one.
    pub stack: u32,
    /// Instructions as the verifier left them.
    pub translated: u32,
    /// Bytes of machine code.
    pub machine_code: u32,
}

/// Loads every program of [`PROGRAMS`] and tells its cost.
///
/// # Errors
/// Without root, or if the kernel refuses a program.
pub fn costs() -> Result<Vec<(&'static str, Cost)>> {
    let mut loaded = EbpfLoader::new().load(OBJECT)?;
    let mut costs = Vec::new();
    for name in PROGRAMS {
        let program: &mut Xdp =
            loaded.program_mut(name).with_context(|| format!("no program {name}"))?.try_into()?;
        program.load().with_context(|| format!("load {name}"))?;
        let info = program.info()?;
        let cost = Cost {
            verified: info.verified_instruction_count().context("the kernel does not count (Linux 5.16)")?,
            stack: stack(&loaded, name).with_context(|| format!("stack of {name}"))?,
            translated: info.size_translated().context("the kernel does not show the program")? / 8,
            machine_code: info.size_jitted(),
        };
        costs.push((name, cost));
    }
    Ok(costs)
}

/// Bytes of stack of the deepest chain of calls in the program, whose maps `loaded` holds.
fn stack(loaded: &Ebpf, name: &str) -> Result<u32> {
    let (log, instructions) = verify(&relocated(loaded, name)?)?;
    let depths = log.lines().find_map(|line| line.strip_prefix("stack depth ")).context("no stack depth")?;
    let depths = depths.split('+').map(|depth| depth.trim().parse().context("a stack depth is no number"));
    deepest(&instructions, &depths.collect::<Result<Vec<u32>>>()?)
}

/// The instructions of a program and of the functions it calls, with its maps in them.
fn relocated(loaded: &Ebpf, name: &str) -> Result<Vec<bpf_insn>> {
    let mut object = Object::parse(OBJECT)?;
    let maps = std::mem::take(&mut object.maps);
    let places = maps.iter().filter_map(|(name, map)| {
        let fd = loaded.map(name).and_then(data)?.fd().as_fd().as_raw_fd();
        Some((name.as_str(), fd, map))
    });
    let places: Vec<_> = places.collect();
    let sections = object.functions.keys().map(|(section, _)| *section).collect();
    object.relocate_maps(places.into_iter(), &sections)?;
    object.relocate_calls(&sections)?;
    let key = object.programs.get(name).context("it is not in the object")?.function_key();
    let mut instructions = object.functions.get(&key).context("it has no instructions")?.instructions.clone();
    for call in instructions.iter_mut().filter(|i| is_call(i) && i.src_reg() == 0 && i.imm == TAIL_CALL) {
        // The kernel wants type information of a program whose functions make tail calls. Of the stack they take none.
        call.code = MOVE_IMMEDIATE;
        call.imm = 0;
    }
    Ok(instructions)
}

fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::PerCpuArray(data)
        | Map::ProgramArray(data)
        | Map::DevMap(data)
        | Map::Stack(data)
        | Map::RingBuf(data)
        | Map::Unsupported(data) => Some(data),
        _ => None,
    }
}

/// What the verifier says at the end, and the instructions as it left them.
fn verify(instructions: &[bpf_insn]) -> Result<(String, Vec<bpf_insn>)> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut attributes = empty();
    // SAFETY: plain integers of the variant this command reads.
    let load = unsafe { &mut attributes.__bindgen_anon_3 };
    load.prog_type = bpf_prog_type::BPF_PROG_TYPE_XDP as u32;
    load.expected_attach_type = bpf_attach_type::BPF_XDP as u32;
    load.insns = instructions.as_ptr() as u64;
    load.insn_cnt = instructions.len() as u32;
    load.license = c"Dual MIT/GPL".as_ptr() as u64;
    load.log_level = LOG_STATISTICS;
    load.log_buf = log.as_mut_ptr() as u64;
    load.log_size = log.len() as u32;
    let result = bpf(bpf_cmd::BPF_PROG_LOAD, &mut attributes);
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let said = String::from_utf8_lossy(&log[..end]).into_owned();
    let fd = result.with_context(|| format!("the verifier refuses the program: {said}"))?;
    // SAFETY: the kernel just gave us this descriptor.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok((said, translated(&program)?))
}

/// The instructions of a loaded program.
fn translated(program: &OwnedFd) -> Result<Vec<bpf_insn>> {
    // SAFETY: integers only.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    let ask = |info: &mut bpf_prog_info| {
        let mut attributes = empty();
        // SAFETY: plain integers of the variant this command reads.
        let query = unsafe { &mut attributes.info };
        query.bpf_fd = program.as_raw_fd() as u32;
        query.info_len = size_of::<bpf_prog_info>() as u32;
        query.info = std::ptr::from_mut(info) as u64;
        bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes)
    };
    ask(&mut info)?;
    let bytes = info.xlated_prog_len;
    // SAFETY: integers only.
    let nothing: bpf_insn = unsafe { std::mem::zeroed() };
    let mut instructions = vec![nothing; bytes as usize / size_of::<bpf_insn>()];
    // SAFETY: integers only. The kernel copies what it is told a place for, and no more.
    info = unsafe { std::mem::zeroed() };
    info.xlated_prog_len = bytes;
    info.xlated_prog_insns = instructions.as_mut_ptr() as u64;
    ask(&mut info)?;
    ensure!(info.xlated_prog_insns != 0, "the kernel does not show the program's instructions");
    Ok(instructions)
}

fn empty() -> bpf_attr {
    // SAFETY: integers only.
    unsafe { std::mem::zeroed() }
}

/// bpf(2); the pointers in the attributes are valid for the command.
fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i32> {
    let (command, attributes) = (command as libc::c_long, std::ptr::from_mut(attributes));
    // SAFETY: the kernel reads and writes the attributes, and what they point to, within their sizes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<bpf_attr>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn is_call(instruction: &bpf_insn) -> bool {
    u32::from(instruction.code) == BPF_JMP | BPF_CALL
}

/// Where the call at `at` leads, and the number of that function; none if it is no call of a function of the program.
///
/// In a program that was compiled the kernel shows the number in place of the distance, and of the distance 16 bits.
fn call(at: usize, instruction: &bpf_insn, length: usize) -> Option<(usize, usize)> {
    let ours = is_call(instruction) && u32::from(instruction.src_reg()) == BPF_PSEUDO_CALL;
    let near = at as i64 + 1 + i64::from(instruction.off);
    let place =
        [near - 65_536, near, near + 65_536].into_iter().find(|place| (0..length as i64).contains(place));
    ours.then_some((place? as usize, instruction.imm as usize))
}

/// Stack of the deepest chain of calls; `depths` are the functions' own, by their numbers.
fn deepest(instructions: &[bpf_insn], depths: &[u32]) -> Result<u32> {
    let length = instructions.len();
    ensure!(length <= 65_536, "a program so long shows too little of the distances of its calls");
    let calls = || instructions.iter().enumerate().filter_map(|(at, i)| Some((at, call(at, i, length)?)));
    let starts: BTreeSet<usize> = core::iter::once(0).chain(calls().map(|(_, (place, _))| place)).collect();
    ensure!(starts.len() == depths.len(), "{} functions, {} depths", starts.len(), depths.len());
    let mut called = vec![BTreeSet::new(); depths.len()];
    for (at, (place, number)) in calls() {
        ensure!(starts.range(..place).count() == number, "function {number} is not where it is called");
        called[starts.range(..=at).count() - 1].insert(number);
    }
    Ok(chain(0, &called, depths))
}

/// Stack of the deepest chain of calls that begins with `function`. There is no recursion: the verifier refuses it.
fn chain(function: usize, called: &[BTreeSet<usize>], depths: &[u32]) -> u32 {
    let below = called[function].iter().map(|next| chain(*next, called, depths)).max().unwrap_or(0);
    depths[function].next_multiple_of(STACK_UNIT) + below
}
