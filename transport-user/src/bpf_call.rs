//! The few bpf(2) calls that aya does not make for us.

use std::ffi::CStr;
use std::io;
use std::mem::{self, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya_obj::generated::{
    BPF_F_TEST_XDP_LIVE_FRAMES, BPF_F_XDP_DEV_BOUND_ONLY, bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn,
    bpf_link_info, bpf_link_type, bpf_prog_type,
};

/// Bytes of a live frame before the program fills it; every frame the engine sends is longer or padded.
pub(crate) const LIVE_FRAME_BYTES: u32 = 64;
/// Interface a live frame seems to come from: the wire program takes it for the engine's (the loopback interface
/// has index 1 in every network namespace).
const ENGINE_INTERFACE: u32 = 1;
/// Largest number of frames the kernel handles in one batch of a live run.
pub(crate) const MAX_BATCH: u32 = 256;

/// `struct xdp_md`, the context of a test run.
#[repr(C)]
#[derive(Default)]
struct XdpMd {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: the union is large enough for every command, and each caller fills it with pointers that outlive the
    // call.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<bpf_attr>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn empty() -> bpf_attr {
    // SAFETY: integers only; zero is "not given" for every field.
    unsafe { mem::zeroed() }
}

/// Runs an XDP program once, on a frame of zeros that goes nowhere; what it returns.
pub(crate) fn run_once(program: BorrowedFd<'_>) -> io::Result<u32> {
    let frame = [0u8; LIVE_FRAME_BYTES as usize];
    let mut attributes = empty();
    // SAFETY: plain integers of the variant this command reads.
    let test = unsafe { &mut attributes.test };
    test.prog_fd = program.as_raw_fd() as u32;
    test.data_in = frame.as_ptr() as u64;
    test.data_size_in = LIVE_FRAME_BYTES;
    bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attributes)?;
    // SAFETY: the kernel has written it; any number is valid.
    Ok(unsafe { attributes.test.retval })
}

/// Hands `frames` live frames to `program`, as frames of the engine, `batch` at a time. Returns when all were
/// handed over, or with `EINTR` on a signal.
pub(crate) fn run_live(program: BorrowedFd<'_>, frames: u32, batch: u32) -> io::Result<()> {
    let frame = [0u8; LIVE_FRAME_BYTES as usize];
    let context = XdpMd { data_end: LIVE_FRAME_BYTES, ingress_ifindex: ENGINE_INTERFACE, ..XdpMd::default() };
    let mut attributes = empty();
    // SAFETY: plain integers of the variant this command reads.
    let test = unsafe { &mut attributes.test };
    test.prog_fd = program.as_raw_fd() as u32;
    test.data_in = frame.as_ptr() as u64;
    test.data_size_in = LIVE_FRAME_BYTES;
    test.ctx_in = std::ptr::from_ref(&context) as u64;
    test.ctx_size_in = size_of::<XdpMd>() as u32;
    test.repeat = frames;
    test.batch_size = batch;
    test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attributes).map(drop)
}

/// Loads XDP instructions bound to the interface with `interface_index`, which is in the calling thread's network namespace:
/// only so do they get what the driver hands out beside the frame. The verifier's words go to `log`, if there is one.
pub(crate) fn load_bound_xdp(
    name: &CStr,
    license: &CStr,
    instructions: &[bpf_insn],
    interface_index: u32,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let mut attributes = empty();
    // SAFETY: plain integers of the variant this command reads.
    let program = unsafe { &mut attributes.__bindgen_anon_3 };
    program.prog_type = bpf_prog_type::BPF_PROG_TYPE_XDP as u32;
    program.expected_attach_type = bpf_attach_type::BPF_XDP as u32;
    program.insns = instructions.as_ptr() as u64;
    program.insn_cnt = instructions.len() as u32;
    program.license = license.as_ptr() as u64;
    program.prog_flags = BPF_F_XDP_DEV_BOUND_ONLY;
    program.prog_ifindex = interface_index;
    if !log.is_empty() {
        program.log_level = 1;
        program.log_buf = log.as_mut_ptr() as u64;
        program.log_size = log.len() as u32;
    }
    // One byte stays for the terminating zero.
    let places = program.prog_name.iter_mut().rev().skip(1).rev();
    for (place, byte) in places.zip(name.to_bytes()) {
        *place = *byte as libc::c_char;
    }
    let fd = bpf(bpf_cmd::BPF_PROG_LOAD, &mut attributes)?;
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches an XDP program to an interface of the calling thread's network namespace until the link is closed. `mode` is
/// one of the `XDP_FLAGS_…_MODE`.
pub(crate) fn link_xdp(program: BorrowedFd<'_>, interface_index: u32, mode: u32) -> io::Result<OwnedFd> {
    let mut attributes = empty();
    // SAFETY: plain integers of the variant this command reads.
    let link = unsafe { &mut attributes.link_create };
    link.__bindgen_anon_1.prog_fd = program.as_raw_fd() as u32;
    link.__bindgen_anon_2.target_ifindex = interface_index;
    link.attach_type = bpf_attach_type::BPF_XDP as u32;
    link.flags = mode;
    let fd = bpf(bpf_cmd::BPF_LINK_CREATE, &mut attributes)?;
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Detaches the link that holds XDP program `program_id` on the interface; false if no link does. Links of all
/// network namespaces are seen here and an interface index is not unique among them, hence the program as well.
pub(crate) fn detach_xdp_link(interface_index: u32, program_id: u32) -> io::Result<bool> {
    let Some(link) = xdp_link(interface_index, program_id)? else { return Ok(false) };
    let mut attributes = empty();
    attributes.link_detach.link_fd = link.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_LINK_DETACH, &mut attributes)?;
    Ok(true)
}

/// Puts `program` in the place of XDP program `old_id` in the link that holds that one on the interface, between two
/// packets; false if no link does.
pub(crate) fn replace_in_xdp_link(
    interface_index: u32,
    old_id: u32,
    program: BorrowedFd<'_>,
) -> io::Result<bool> {
    let Some(link) = xdp_link(interface_index, old_id)? else { return Ok(false) };
    let mut attributes = empty();
    // SAFETY: plain integers of the variant this command reads.
    let update = unsafe { &mut attributes.link_update };
    update.link_fd = link.as_raw_fd() as u32;
    update.__bindgen_anon_1.new_prog_fd = program.as_raw_fd() as u32;
    bpf(bpf_cmd::BPF_LINK_UPDATE, &mut attributes)?;
    Ok(true)
}

fn xdp_link(interface_index: u32, program_id: u32) -> io::Result<Option<OwnedFd>> {
    let mut id = 0;
    while let Some(next) = next_link(id)? {
        id = next;
        // A link may go away between the two calls.
        let Ok(link) = link_by_id(id) else { continue };
        if xdp_place(&link)? == Some((interface_index, program_id)) {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

fn next_link(id: u32) -> io::Result<Option<u32>> {
    let mut attributes = empty();
    attributes.__bindgen_anon_6.__bindgen_anon_1.start_id = id;
    match bpf(bpf_cmd::BPF_LINK_GET_NEXT_ID, &mut attributes) {
        // SAFETY: the kernel wrote an integer.
        Ok(_) => Ok(Some(unsafe { attributes.__bindgen_anon_6.next_id })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn link_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attributes = empty();
    attributes.__bindgen_anon_6.__bindgen_anon_1.link_id = id;
    let fd = bpf(bpf_cmd::BPF_LINK_GET_FD_BY_ID, &mut attributes)?;
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Interface and program of an XDP link; none for links of other types and for detached ones.
fn xdp_place(link: &OwnedFd) -> io::Result<Option<(u32, u32)>> {
    // SAFETY: integers only.
    let mut info: bpf_link_info = unsafe { mem::zeroed() };
    let mut attributes = empty();
    // SAFETY: plain integers of the variant this command reads.
    let query = unsafe { &mut attributes.info };
    query.bpf_fd = link.as_raw_fd() as u32;
    query.info_len = size_of::<bpf_link_info>() as u32;
    query.info = std::ptr::from_mut(&mut info) as u64;
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes)?;
    if info.type_ != bpf_link_type::BPF_LINK_TYPE_XDP as u32 {
        return Ok(None);
    }
    // SAFETY: the type says which variant the kernel filled.
    let index = unsafe { info.__bindgen_anon_1.xdp.ifindex };
    Ok((index != 0).then_some((index, info.prog_id)))
}
