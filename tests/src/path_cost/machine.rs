//! An interpreter of BPF that counts. It runs only programs that the kernel's verifier accepts, on maps and frames in this
//! process's memory, so it checks no access.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use aya_obj::generated::bpf_insn;

use super::storage::{HANDLE, Loaded, Storage};

/// Stands for the pointer to `struct xdp_md`.
const CONTEXT: u64 = 0x4358_5400_0000_0000;
/// Room before and behind a frame, bytes.
const HEADROOM: usize = 256;
const FRAME_ROOM: usize = 4096;
/// Stack of a function, 8-byte words, and the depth of calls that the kernel allows.
const STACK_WORDS: usize = 64;
const CALLS: usize = 8;
/// More instructions than any run takes.
const MOST: u64 = 200_000;
const XDP_REDIRECT: u64 = 4;
/// Number of `bpf_map_lookup_elem`.
const LOOKUP: i32 = 1;

/// What a run executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Instructions.
    pub executed: u64,
    /// Instructions of the programs that were executed at least once.
    pub distinct: u64,
    /// Returns: from helpers of the kernel and from functions of the programs. A tail call is one too. Lookups in array
    /// maps are none, because the kernel replaces their calls.
    pub returns: u64,
}

/// The outcome of a run.
pub(super) struct Ran {
    /// `enum xdp_action`.
    pub(super) action: u32,
    /// The frame after the run.
    pub(super) frame: Vec<u8>,
    pub(super) count: Count,
}

struct Frame {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

struct Caller {
    at: usize,
    saved: [u64; 5],
}

/// The programs and what they work on.
pub(super) struct Machine {
    loaded: Loaded,
    /// What the clock shows, nanoseconds.
    pub(super) clock: u64,
    registers: [u64; 11],
    stack: Box<[[u64; STACK_WORDS]; CALLS + 1]>,
}

impl Machine {
    pub(super) fn new(loaded: Loaded) -> Self {
        let stack = Box::new([[0; STACK_WORDS]; CALLS + 1]);
        Self { loaded, clock: 0, registers: [0; 11], stack }
    }

    fn map(&mut self, handle: u64) -> Result<&mut Storage> {
        let number = handle.wrapping_sub(HANDLE) as usize;
        self.loaded.maps.get_mut(number).context("a helper got something that is no map")
    }

    /// Returns the address of a value of a map.
    pub(super) fn value(&mut self, map: &str, index: u32) -> Result<u64> {
        let number = *self.loaded.numbers.get(map).with_context(|| format!("no map {map}"))?;
        let at = self.loaded.maps[number].value(index);
        ensure!(at != 0, "map {map} has no value {index}");
        Ok(at)
    }

    fn top(&mut self, depth: usize) -> u64 {
        // One past the last word of the function's part.
        self.stack[depth].as_mut_ptr_range().end as u64
    }

    /// Runs a program on a frame that arrived at `interface`.
    pub(super) fn run(&mut self, program: usize, bytes: &[u8], interface: u32) -> Result<Ran> {
        let mut frame =
            Frame { bytes: vec![0; HEADROOM + FRAME_ROOM], start: HEADROOM, end: HEADROOM + bytes.len() };
        frame.bytes[HEADROOM..frame.end].copy_from_slice(bytes);
        let mut program = program;
        let mut code = self.loaded.programs[program].clone();
        let mut callers: Vec<Caller> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut count = Count::default();
        self.registers = [0; 11];
        self.registers[1] = CONTEXT;
        self.registers[10] = self.top(0);
        let mut at = 0;
        loop {
            let i = *code.get(at).context("the program runs past its end")?;
            count.executed += 1;
            ensure!(count.executed < MOST, "the program does not end");
            seen.insert((program, at));
            at += 1;
            match i.code & 7 {
                0 => {
                    self.load_constant(&i, code.get(at).context("half an instruction")?)?;
                    at += 1;
                }
                1 => self.load(&i, &frame, interface)?,
                2 | 3 => self.store(&i)?,
                4 | 7 => self.compute(&i)?,
                _ if i.code >> 4 == 8 && i.src_reg() == 1 => {
                    ensure!(callers.len() < CALLS, "too many calls");
                    let saved = [6, 7, 8, 9, 10].map(|n: usize| self.registers[n]);
                    callers.push(Caller { at, saved });
                    self.registers[10] = self.top(callers.len());
                    at = at.wrapping_add_signed(i.imm as isize);
                }
                _ if i.code >> 4 == 8 => {
                    // The kernel puts the lookup in an array map in place of its call.
                    count.returns += u64::from(i.imm != LOOKUP);
                    if let Some(next) = self.help(i.imm, &mut frame)? {
                        program = next;
                        code = self.loaded.programs[program].clone();
                        callers.clear();
                        self.registers[1] = CONTEXT;
                        self.registers[10] = self.top(0);
                        at = 0;
                    }
                }
                _ if i.code >> 4 == 9 => {
                    count.returns += 1;
                    let Some(caller) = callers.pop() else { break };
                    [6, 7, 8, 9, 10]
                        .into_iter()
                        .zip(caller.saved)
                        .for_each(|(n, old)| self.registers[n] = old);
                    at = caller.at;
                }
                _ if self.jumps(&i) => {
                    let distance = if i.code == 0x06 { i.imm as isize } else { isize::from(i.off) };
                    at = at.wrapping_add_signed(distance);
                }
                _ => {}
            }
        }
        count.distinct = seen.len() as u64;
        let bytes = frame.bytes[frame.start..frame.end].to_vec();
        Ok(Ran { action: self.registers[0] as u32, frame: bytes, count })
    }

    fn load_constant(&mut self, i: &bpf_insn, next: &bpf_insn) -> Result<()> {
        let low = u64::from(i.imm as u32);
        self.registers[usize::from(i.dst_reg())] = match i.src_reg() {
            0 => low | u64::from(next.imm as u32) << 32,
            1 => HANDLE + low,
            2 => self.map(HANDLE + low)?.value(0) + u64::from(next.imm as u32),
            kind => bail!("a constant of kind {kind}"),
        };
        Ok(())
    }

    fn load(&mut self, i: &bpf_insn, frame: &Frame, interface: u32) -> Result<()> {
        let from = self.registers[usize::from(i.src_reg())].wrapping_add_signed(i64::from(i.off));
        let base = frame.bytes.as_ptr() as u64;
        let value = match from.wrapping_sub(CONTEXT) {
            0 => base + frame.start as u64,
            4 => base + frame.end as u64,
            8 => base + frame.start as u64,
            12 => u64::from(interface),
            other if other < 64 => bail!("field {other} of the context"),
            _ => {
                let value = read(from, i.code & 0x18);
                if i.code >> 5 == 4 { extended(value, width(i.code)) } else { value }
            }
        };
        self.registers[usize::from(i.dst_reg())] = value;
        Ok(())
    }

    fn store(&mut self, i: &bpf_insn) -> Result<()> {
        let to = self.registers[usize::from(i.dst_reg())].wrapping_add_signed(i64::from(i.off));
        let source = usize::from(i.src_reg());
        if i.code & 7 == 2 {
            write(to, i.code & 0x18, i64::from(i.imm) as u64);
            return Ok(());
        }
        let value = self.registers[source];
        if i.code >> 5 != 6 {
            write(to, i.code & 0x18, value);
            return Ok(());
        }
        let narrow = |value: u64| if i.code & 0x18 == 0 { value & 0xffff_ffff } else { value };
        let old = read(to, i.code & 0x18);
        let new = match i.imm & !1 {
            0x00 => old.wrapping_add(value),
            0x40 => old | value,
            0x50 => old & value,
            0xa0 => old ^ value,
            0xe0 => value,
            0xf0 => {
                if old == narrow(self.registers[0]) {
                    write(to, i.code & 0x18, value);
                }
                self.registers[0] = old;
                return Ok(());
            }
            operation => bail!("atomic operation {operation:#x}"),
        };
        write(to, i.code & 0x18, new);
        if i.imm & 1 != 0 {
            self.registers[source] = old;
        }
        Ok(())
    }

    fn operand(&self, i: &bpf_insn) -> u64 {
        if i.code & 8 != 0 { self.registers[usize::from(i.src_reg())] } else { i64::from(i.imm) as u64 }
    }

    fn compute(&mut self, i: &bpf_insn) -> Result<()> {
        let long = i.code & 7 == 7;
        let narrow = |value: u64| if long { value } else { value & 0xffff_ffff };
        let bits = if long { 63 } else { 31 };
        let a = narrow(self.registers[usize::from(i.dst_reg())]);
        let b = narrow(self.operand(i));
        let shift = (b & bits) as u32;
        let signed = |value: u64| if long { value as i64 } else { i64::from(value as i32) };
        let value = match (i.code >> 4, i.off) {
            (0, _) => a.wrapping_add(b),
            (1, _) => a.wrapping_sub(b),
            (2, _) => a.wrapping_mul(b),
            (3, 0) => a.checked_div(b).unwrap_or(0),
            (3, _) => signed(a).checked_div(signed(b)).unwrap_or(0) as u64,
            (4, _) => a | b,
            (5, _) => a & b,
            (6, _) => a << shift,
            (7, _) => a >> shift,
            (8, _) => a.wrapping_neg(),
            (9, 0) => a.checked_rem(b).unwrap_or(a),
            (9, _) => signed(a).checked_rem(signed(b)).unwrap_or(signed(a)) as u64,
            (10, _) => a ^ b,
            (11, 0) => b,
            (11, bits) => extended(self.operand(i), bits as u32),
            (12, _) => (signed(a) >> shift) as u64,
            (13, _) => {
                let swaps = long || i.code & 8 != 0;
                let whole = self.registers[usize::from(i.dst_reg())];
                self.registers[usize::from(i.dst_reg())] = match (i.imm, swaps) {
                    (16, true) => u64::from((whole as u16).swap_bytes()),
                    (32, true) => u64::from((whole as u32).swap_bytes()),
                    (64, true) => whole.swap_bytes(),
                    (64, false) => whole,
                    (bits, false) => whole & ((1 << bits) - 1),
                    (bits, true) => bail!("bytes of {bits} bits swapped"),
                };
                return Ok(());
            }
            (operation, _) => bail!("arithmetic operation {operation}"),
        };
        self.registers[usize::from(i.dst_reg())] = narrow(value);
        Ok(())
    }

    fn jumps(&self, i: &bpf_insn) -> bool {
        let long = i.code & 7 == 5;
        let narrow = |value: u64| if long { value } else { value & 0xffff_ffff };
        let signed = |value: u64| if long { value as i64 } else { i64::from(value as i32) };
        let a = narrow(self.registers[usize::from(i.dst_reg())]);
        let b = narrow(self.operand(i));
        match i.code >> 4 {
            0 => true,
            1 => a == b,
            2 => a > b,
            3 => a >= b,
            4 => a & b != 0,
            5 => a != b,
            6 => signed(a) > signed(b),
            7 => signed(a) >= signed(b),
            10 => a < b,
            11 => a <= b,
            12 => signed(a) < signed(b),
            13 => signed(a) <= signed(b),
            // `may_goto` jumps when a loop takes too long.
            _ => false,
        }
    }

    /// Calls a helper of the kernel by its number. Returns the program in which a tail call goes on.
    fn help(&mut self, helper: i32, frame: &mut Frame) -> Result<Option<usize>> {
        let [_, a, b, c, d, e, ..] = self.registers;
        let (start, end) = (frame.start, frame.end);
        let at = move |offset: u64, length: u64| {
            let place = start + offset as usize;
            (place + length as usize <= end).then_some(place)
        };
        self.registers[0] = match helper {
            LOOKUP => {
                // SAFETY: the key of each map of these programs is 4 bytes.
                let key = unsafe { (b as *const u32).read_unaligned() };
                self.map(a)?.value(key)
            }
            5 => self.clock,
            12 => {
                self.registers[0] = c;
                return Ok(Some(1 + c as usize));
            }
            28 => sum(a, b, c, d, e),
            51 => XDP_REDIRECT,
            65 => {
                let end = frame.end.wrapping_add_signed(b as i32 as isize);
                if end < frame.start + 14 || end > HEADROOM + FRAME_ROOM {
                    -22_i64 as u64
                } else {
                    let grown = frame.end.min(end)..end;
                    frame.bytes[grown].fill(0);
                    frame.end = end;
                    0
                }
            }
            87 => {
                // SAFETY: the value of the stack map is 4 bytes.
                let value = unsafe { (b as *const u32).read_unaligned() };
                self.map(a)?.pushed.push(value);
                0
            }
            88 => match self.map(a)?.pushed.pop() {
                Some(value) => {
                    // SAFETY: the program gives room for the value.
                    unsafe { (b as *mut u32).write_unaligned(value) };
                    0
                }
                None => -2_i64 as u64,
            },
            130 => 0,
            189 | 190 => match at(b, d) {
                // SAFETY: the verifier has seen that the program's buffer has so many bytes.
                Some(place) if helper == 189 => unsafe {
                    (c as *mut u8).copy_from(frame.bytes[place..].as_ptr(), d as usize);
                    0
                },
                // SAFETY: as above.
                Some(place) => unsafe {
                    frame.bytes[place..].as_mut_ptr().copy_from(c as *const u8, d as usize);
                    0
                },
                None => -22_i64 as u64,
            },
            helper => bail!("helper {helper} is not known here"),
        };
        Ok(None)
    }
}

/// Returns the bits of an access, by its size field.
const fn width(code: u8) -> u32 {
    match code & 0x18 {
        0x00 => 32,
        0x08 => 16,
        0x10 => 8,
        _ => 64,
    }
}

/// Returns a value of `bits` bits with its sign.
const fn extended(value: u64, bits: u32) -> u64 {
    let unused = 64 - bits;
    ((value << unused) as i64 >> unused) as u64
}

fn read(from: u64, size: u8) -> u64 {
    // SAFETY: the kernel's verifier has accepted this access of the program, and the maps, the stack and the frame are as
    // large here as there.
    unsafe {
        match size {
            0x00 => u64::from((from as *const u32).read_unaligned()),
            0x08 => u64::from((from as *const u16).read_unaligned()),
            0x10 => u64::from((from as *const u8).read()),
            _ => (from as *const u64).read_unaligned(),
        }
    }
}

fn write(to: u64, size: u8, value: u64) {
    // SAFETY: as in `read`.
    unsafe {
        match size {
            0x00 => (to as *mut u32).write_unaligned(value as u32),
            0x08 => (to as *mut u16).write_unaligned(value as u16),
            0x10 => (to as *mut u8).write(value as u8),
            _ => (to as *mut u64).write_unaligned(value),
        }
    }
}

/// `bpf_csum_diff`.
fn sum(from: u64, from_size: u64, to: u64, to_size: u64, seed: u64) -> u64 {
    let words = |at: u64, size: u64| {
        // SAFETY: the verifier has seen that the program's buffers have so many bytes.
        (0..size / 4).map(move |n| unsafe { (at as *const u32).add(n as usize).read_unaligned() })
    };
    let mut sum = seed & 0xffff_ffff;
    words(from, from_size).for_each(|word| sum += u64::from(!word));
    words(to, to_size).for_each(|word| sum += u64::from(word));
    while sum >> 32 != 0 {
        sum = (sum & 0xffff_ffff) + (sum >> 32);
    }
    sum
}
