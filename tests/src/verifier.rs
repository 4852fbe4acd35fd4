//! The cost of the XDP programs according to the kernel's verifier: instructions walked, stack, length.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, Result, ensure};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader};
use aya_obj::Object;
use aya_obj::generated::{BPF_CALL, BPF_JMP, BPF_PSEUDO_CALL, bpf_insn};
use bpf_call::{Instruction, LoadXdp};
use tiercel_node::programs;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tiercel-ebpf"));

/// Returns the object with the programs that are measured: the one of this build, or the file that the environment variable
/// `TIERCEL_OBJECT` names. So a change of the programs alone is measured without another build of the tests.
///
/// # Errors
/// If that file cannot be read.
pub fn object() -> Result<Cow<'static, [u8]>> {
    let Some(file) = std::env::var_os("TIERCEL_OBJECT") else { return Ok(Cow::Borrowed(OBJECT)) };
    let read = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Cow::Owned(read))
}

/// The programs that a node loads without binding them to a device. `wire_stamped`, the receive code of `wire`
/// with the card's timestamps, needs a device with timestamps.
pub const PROGRAMS: [&str; 7] = [
    programs::WIRE,
    programs::ENGINE,
    programs::REDELIVER,
    programs::EXCHANGE,
    programs::RECORDING[0],
    programs::RECORDING[1],
    programs::RECORDING[2],
];

/// The JIT compiler rounds each stack frame up to this number of bytes.
const STACK_UNIT: u32 = 16;
/// Number of the helper that makes tail calls.
const TAIL_CALL: i32 = 12;
/// `dst = imm`.
const MOVE_IMMEDIATE: u8 = 0xb7;
const LOG_BYTES: usize = 1 << 16;

/// Cost of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions that the verifier walked. Its limit is a million.
    pub verified: u32,
    /// Bytes of stack of the deepest chain of calls. The kernel allows 512, not counting the up to 16 bytes
    /// that a `may_goto` adds to each function which has one.
    pub stack: u32,
    /// Number of instructions after the verifier's changes.
    pub translated: u32,
    /// Bytes of machine code.
    pub machine_code: u32,
}

/// Loads every program of [`PROGRAMS`] and returns its cost.
///
/// # Errors
/// Without root, or if the kernel refuses a program.
pub fn costs() -> Result<Vec<(&'static str, Cost)>> {
    let object = object()?;
    costs_of(&object, EbpfLoader::new().load(&object)?)
}

/// Does the same for another object.
///
/// # Errors
/// If the kernel refuses a program.
pub fn costs_of(object: &[u8], mut loaded: Ebpf) -> Result<Vec<(&'static str, Cost)>> {
    let mut costs = Vec::new();
    for name in PROGRAMS {
        let program: &mut Xdp =
            loaded.program_mut(name).with_context(|| format!("no program {name}"))?.try_into()?;
        program.load().with_context(|| format!("load {name}"))?;
        let info = program.info()?;
        let cost = Cost {
            verified: info
                .verified_instruction_count()
                .context("the kernel does not count verified instructions (it needs Linux 5.16)")?,
            stack: stack(object, &loaded, name).with_context(|| format!("stack of {name}"))?,
            translated: info.size_translated().context("the kernel does not show the program")? / 8,
            machine_code: info.size_jitted(),
        };
        costs.push((name, cost));
    }
    Ok(costs)
}

/// Returns the bytes of stack of the deepest chain of calls in the program, whose maps `loaded` holds.
fn stack(object: &[u8], loaded: &Ebpf, name: &str) -> Result<u32> {
    let (log, instructions) = verify(&relocated(object, loaded, name)?)?;
    let depths = log.lines().find_map(|line| line.strip_prefix("stack depth ")).context("no stack depth")?;
    let depths = depths.split('+').map(|depth| depth.trim().parse().context("a stack depth is no number"));
    deepest(&instructions, &depths.collect::<Result<Vec<u32>>>()?)
}

/// Returns the instructions of a program and of the functions that it calls, with its maps inserted.
fn relocated(object: &[u8], loaded: &Ebpf, name: &str) -> Result<Vec<bpf_insn>> {
    let mut object = Object::parse(object)?;
    let maps = std::mem::take(&mut object.maps);
    let places = maps.iter().filter_map(|(name, map)| {
        let fd = loaded.map(name).and_then(programs::map_data)?.fd().as_fd().as_raw_fd();
        Some((name.as_str(), fd, map))
    });
    let places: Vec<_> = places.collect();
    let sections = object.functions.keys().map(|(section, _)| *section).collect();
    object.relocate_maps(places.into_iter(), &sections)?;
    object.relocate_calls(&sections)?;
    let key = object.programs.get(name).context("it is not in the object")?.function_key();
    let mut instructions = object.functions.get(&key).context("it has no instructions")?.instructions.clone();
    for call in instructions.iter_mut().filter(|i| is_call(i.code) && i.src_reg() == 0 && i.imm == TAIL_CALL)
    {
        // The kernel requires type information of a program whose functions make tail calls. Tail calls take no
        // stack.
        call.code = MOVE_IMMEDIATE;
        call.imm = 0;
    }
    Ok(instructions)
}

/// Returns the verifier's last message, and the instructions after its changes.
fn verify(instructions: &[bpf_insn]) -> Result<(String, Vec<Instruction>)> {
    let mut log = vec![0_u8; LOG_BYTES];
    let xdp = LoadXdp { name: c"", license: c"Dual MIT/GPL", instructions, bound_to: None };
    let loaded = xdp.load_summarized(&mut log);
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let said = String::from_utf8_lossy(&log[..end]).into_owned();
    let program = loaded.with_context(|| format!("the verifier refuses the program: {said}"))?;
    let translated = bpf_call::translated(program.as_fd())?;
    ensure!(!translated.is_empty(), "the kernel does not show the program's instructions");
    Ok((said, translated))
}

fn is_call(code: u8) -> bool {
    u32::from(code) == BPF_JMP | BPF_CALL
}

/// Returns the target of the call at `at` and the number of that function; none if it does not call a function
/// of the program.
///
/// For a compiled program the kernel shows the number in place of the distance, and only 16 bits of the distance.
fn call(at: usize, instruction: &Instruction, length: usize) -> Option<(usize, usize)> {
    let ours = is_call(instruction.code) && u32::from(instruction.registers >> 4) == BPF_PSEUDO_CALL;
    let near = at as i64 + 1 + i64::from(instruction.offset);
    let place =
        [near - 65_536, near, near + 65_536].into_iter().find(|place| (0..length as i64).contains(place));
    ours.then_some((place? as usize, instruction.immediate as usize))
}

/// Returns the stack of the deepest chain of calls. `depths` are the stack sizes of the functions, by their
/// numbers.
fn deepest(instructions: &[Instruction], depths: &[u32]) -> Result<u32> {
    let length = instructions.len();
    ensure!(
        length <= 65_536,
        "a program of {length} instructions is too long: 16 bits of a call's distance are not enough"
    );
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

/// Returns the stack of the deepest chain of calls that begins with `function`. The verifier refuses recursion.
fn chain(function: usize, called: &[BTreeSet<usize>], depths: &[u32]) -> u32 {
    let below = called[function].iter().map(|next| chain(*next, called, depths)).max().unwrap_or(0);
    depths[function].next_multiple_of(STACK_UNIT) + below
}
