//! The wire program that is bound to a device, to read receive timestamps from the driver.
//!
//! The kernel has a function that returns a driver's receive timestamp. Only XDP programs that are bound to a
//! device when they are loaded may call it. aya supports neither the call nor the binding. So this module loads
//! the program from the same object, with the maps that aya made.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aya::Ebpf;
use aya_obj::Object;
use aya_obj::btf::{Btf, BtfKind};
use aya_obj::generated::{BPF_CALL, BPF_JMP, BPF_PSEUDO_KFUNC_CALL, bpf_insn};
use bpf_call::{LoadXdp, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
use nix::sched::{CloneFlags, unshare};
use transport_common::hardware_clock::RX_TIMESTAMP_CALL;

use crate::node::xdp::programs::{WIRE_STAMPED, map_data};

/// The kernel's function that returns the timestamp.
const RX_TIMESTAMP: &str = "bpf_xdp_metadata_rx_timestamp";
/// Size of the buffer for the verifier's log, and the part of its end that is shown, bytes.
const LOG_BYTES: usize = 1 << 20;
const LOG_SHOWN: usize = 1000;
/// The loopback interface of every network namespace.
const LOOPBACK: u32 = 1;

/// The loaded program.
pub(crate) struct Bound {
    program: OwnedFd,
    anchor: Anchor,
}

/// The attachment of the program. Dropping it detaches the program.
#[derive(Debug)]
pub(crate) struct BoundLink {
    pub(crate) link: OwnedFd,
    pub(crate) program: OwnedFd,
    _anchor: Anchor,
}

impl Bound {
    /// Loads the program from `object` for the interface with `index`, with the maps of `loaded`, which is the
    /// same object loaded by aya. Also anchors `wire`, the program that it replaces on the interface (see
    /// [`Anchor`]). The error is a text.
    pub(crate) fn load(
        object: &[u8],
        loaded: &Ebpf,
        wire: BorrowedFd<'_>,
        index: u32,
    ) -> Result<Self, String> {
        let program = load(object, loaded, index)?;
        let anchor = Anchor::new(wire);
        let anchor = anchor
            .map_err(|error| format!("cannot make a network namespace for the wire program: {error}"))?;
        Ok(Self { program, anchor })
    }

    /// Attaches the program to the interface to which it is bound.
    pub(crate) fn attach(self, index: u32) -> io::Result<BoundLink> {
        let link = bpf_call::link_xdp(self.program.as_fd(), index, XDP_FLAGS_DRV_MODE)?;
        Ok(BoundLink { link, program: self.program, _anchor: self.anchor })
    }
}

fn load(object: &[u8], loaded: &Ebpf, index: u32) -> Result<OwnedFd, String> {
    let mut object = Object::parse(object).map_err(|error| format!("its object cannot be read: {error}"))?;
    let maps = std::mem::take(&mut object.maps);
    let place = |(name, map)| -> Option<(&str, i32, &aya_obj::Map)> {
        Some((name, loaded.map(name).and_then(map_data)?.fd().as_fd().as_raw_fd(), map))
    };
    let places: Vec<_> = maps.iter().filter_map(|(name, map)| place((name.as_str(), map))).collect();
    let sections = object.functions.keys().map(|(section, _)| *section).collect();
    object
        .relocate_maps(places.into_iter(), &sections)
        .map_err(|error| format!("its maps do not fit: {error}"))?;
    object.relocate_calls(&sections).map_err(|error| format!("its parts do not fit: {error}"))?;
    let program = object.programs.get(WIRE_STAMPED).ok_or("it is not in the object")?;
    let function = object.functions.get_mut(&program.function_key()).ok_or("it has no instructions")?;
    let kernel = Btf::from_sys_fs().map_err(|error| format!("the kernel's BTF cannot be read: {error}"))?;
    let number = kernel.id_by_type_name_kind(RX_TIMESTAMP, BtfKind::Func);
    let number = number.map_err(|_| format!("the kernel has no {RX_TIMESTAMP} (Linux 6.3 and later)"))?;
    if call_kernel(&mut function.instructions, number) == 0 {
        return Err("it does not read timestamps".to_owned());
    }
    let name = CString::new(WIRE_STAMPED).expect("a name without zeros");
    let instructions = &function.instructions;
    let xdp = LoadXdp { name: &name, license: &program.license, instructions, bound_to: Some(index) };
    xdp.load(&mut []).map_err(|error| {
        // Loads the program again with a log, to get the verifier's reason.
        let mut log = vec![0; LOG_BYTES];
        let said = if xdp.load(&mut log).is_err() { end_of(&log) } else { String::new() };
        format!("the kernel refuses it: {error}{said}")
    })
}

/// Replaces the placeholder calls by calls of the kernel's function with this number. Returns how many were
/// replaced.
fn call_kernel(instructions: &mut [bpf_insn], number: u32) -> usize {
    let stands = |i: &&mut bpf_insn| {
        u32::from(i.code) == BPF_JMP | BPF_CALL && i.src_reg() == 0 && i.imm == RX_TIMESTAMP_CALL
    };
    let mut calls = 0;
    for instruction in instructions.iter_mut().filter(stands) {
        instruction.set_src_reg(BPF_PSEUDO_KFUNC_CALL as u8);
        instruction.off = 0;
        instruction.imm = number as i32;
        calls += 1;
    }
    calls
}

/// Returns the end of the verifier's log, as the end of a sentence.
fn end_of(log: &[u8]) -> String {
    let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(LOG_SHOWN)..]);
    match said.trim() {
        "" => String::new(),
        said => format!("; the verifier says: {said}"),
    }
}

/// Keeps a program in the kernel's XDP dispatcher although it is attached to no interface of the machine. For
/// this, the program is attached to the loopback interface of a private network namespace without packets.
/// Otherwise each live run of the program takes 25 ms to begin.
#[derive(Debug)]
struct Anchor {
    _link: OwnedFd,
    _namespace: File,
}

impl Anchor {
    /// Anchors `program`.
    fn new(program: BorrowedFd<'_>) -> io::Result<Self> {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let namespace = File::open("/proc/thread-self/ns/net")?;
            let link = bpf_call::link_xdp(program, LOOPBACK, XDP_FLAGS_SKB_MODE)?;
            Ok(Self { _link: link, _namespace: namespace })
        };
        // This runs in a separate thread, because the new namespace applies to the calling thread.
        std::thread::scope(|scope| scope.spawn(make).join().expect("it does not panic"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(source: u8, number: i32) -> bpf_insn {
        let mut instruction = aya_obj::copy_instructions(&[0; 8]).expect("eight bytes are one")[0];
        instruction.code = (BPF_JMP | BPF_CALL) as u8;
        instruction.set_src_reg(source);
        instruction.imm = number;
        instruction
    }

    #[test]
    fn only_the_calls_that_stand_for_the_kernels_function_are_replaced() {
        let local = call(1, RX_TIMESTAMP_CALL);
        let mut program = [call(0, 5), call(0, RX_TIMESTAMP_CALL), local];
        assert_eq!(call_kernel(&mut program, 66_152), 1);
        assert_eq!((program[0].src_reg(), program[0].imm), (0, 5));
        assert_eq!((program[1].src_reg(), program[1].imm), (2, 66_152));
        assert_eq!((program[2].src_reg(), program[2].imm), (1, RX_TIMESTAMP_CALL));
        assert_eq!(call_kernel(&mut program, 66_152), 0);
    }

    #[test]
    fn the_verifiers_last_words_are_shown() {
        assert_eq!(end_of(b"R1 is not a pointer\n\0\0\0"), "; the verifier says: R1 is not a pointer");
        assert_eq!(end_of(&[0; 16]), "");
        assert!(end_of(&[b'x'; 5000]).len() < LOG_SHOWN + 100);
    }
}
