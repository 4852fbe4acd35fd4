//! Lists the BPF objects that the kernel holds: programs, maps and links of the whole machine.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{bpf, bpf_descriptor};

// From linux/bpf.h.
const BPF_PROG_GET_NEXT_ID: c_int = 11;
const BPF_MAP_GET_NEXT_ID: c_int = 12;
const BPF_PROG_GET_FD_BY_ID: c_int = 13;
const BPF_MAP_GET_FD_BY_ID: c_int = 14;
const BPF_OBJ_GET_INFO_BY_FD: c_int = 15;
const BPF_LINK_GET_NEXT_ID: c_int = 31;

#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next_id: u32,
    flags: u32,
}

#[repr(C)]
struct Info {
    descriptor: u32,
    bytes: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to the verifier's count. Words of 8 bytes that are not used here serve as padding.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    kind_id_tag: [u32; 4],
    lengths: [u32; 2],
    instructions_and_load_time: [u64; 3],
    user_and_map_count: [u32; 2],
    map_ids: u64,
    name: [u8; 16],
    interface_and_flags: [u32; 2],
    namespace: [u64; 2],
    symbol_counts: [u32; 2],
    symbols: [u64; 2],
    btf: [u32; 2],
    functions: u64,
    function_and_line_counts: [u32; 2],
    lines: [u64; 2],
    line_sizes: [u32; 3],
    tag_count: u32,
    tags: u64,
    run_time_count_and_misses: [u64; 3],
    verified: u32,
    rest: u32,
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    numbers: [u32; 6],
    name: [u8; 16],
}

const _: () = assert!(core::mem::offset_of!(ProgramInfo, name) == 64);
const _: () = assert!(core::mem::offset_of!(ProgramInfo, verified) == 216);

/// A loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedProgram {
    /// Its id. The kernel does not use it again before the next boot.
    pub id: u32,
    /// The first 15 bytes of its name.
    pub name: String,
    /// Number of instructions that the verifier walked; 0 before Linux 5.16.
    pub verified: u32,
}

/// A map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedMap {
    /// Its id. The kernel does not use it again before the next boot.
    pub id: u32,
    /// The first 15 bytes of its name.
    pub name: String,
}

/// Lists all loaded programs, in the order of their ids.
///
/// # Errors
/// The kernel's error, for example if the caller is not root.
pub fn loaded_programs() -> io::Result<Vec<LoadedProgram>> {
    let describe = |id| {
        let info: ProgramInfo = info(by_id(BPF_PROG_GET_FD_BY_ID, id)?)?;
        Ok(LoadedProgram { id, name: text(&info.name), verified: info.verified })
    };
    present(ids(BPF_PROG_GET_NEXT_ID)?, describe)
}

/// Lists all maps, in the order of their ids.
///
/// # Errors
/// The kernel's error, for example if the caller is not root.
pub fn loaded_maps() -> io::Result<Vec<LoadedMap>> {
    let describe = |id| {
        let info: MapInfo = info(by_id(BPF_MAP_GET_FD_BY_ID, id)?)?;
        Ok(LoadedMap { id, name: text(&info.name) })
    };
    present(ids(BPF_MAP_GET_NEXT_ID)?, describe)
}

/// Lists the ids of all links.
///
/// # Errors
/// The kernel's error, for example if the caller is not root.
pub fn links() -> io::Result<Vec<u32>> {
    ids(BPF_LINK_GET_NEXT_ID)
}

/// Describes each object. Leaves out an object that disappears between two calls.
fn present<T>(ids: Vec<u32>, describe: impl Fn(u32) -> io::Result<T>) -> io::Result<Vec<T>> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    ids.into_iter().map(describe).filter(|object| !object.as_ref().is_err_and(gone)).collect()
}

fn ids(next: c_int) -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    let mut attributes = ById::default();
    loop {
        match bpf(next, &mut attributes) {
            Ok(_) => ids.push(attributes.next_id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ids),
            Err(error) => return Err(error),
        }
        attributes.id = attributes.next_id;
    }
}

fn by_id(command: c_int, id: u32) -> io::Result<OwnedFd> {
    bpf_descriptor(command, &mut ById { id, ..ById::default() })
}

fn info<T: Default>(object: OwnedFd) -> io::Result<T> {
    let mut info = T::default();
    let mut attributes = Info {
        descriptor: object.as_raw_fd().cast_unsigned(),
        bytes: size_of::<T>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes)?;
    Ok(info)
}

/// Converts a name from the kernel, which ends with NUL.
fn text(name: &[u8; 16]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}
