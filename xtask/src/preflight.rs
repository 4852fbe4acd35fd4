//! Checks whether this machine can run Tiercel, before any long work begins. Each failed check reports one
//! sentence and its remedy.

use std::{
    ffi::CString, fs, io, mem::MaybeUninit, os::unix::ffi::OsStrExt, path::Path, process::Command, thread,
};

use bpf_call::probe::{self, probe};

use crate::{bpf::DropProgram, shell::is_root};

/// Bytes that the build of all tests takes in an empty target directory, rounded up: 5.6 GB were measured without
/// incremental compilation, 11 GB with it.
const ROOM_NEW: u64 = 12 << 30;

/// Bytes that it takes at least in one that has been built in before.
const ROOM_BUILT: u64 = 3 << 30;

const BTF: &str = "/sys/kernel/btf/vmlinux";
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// The reason why this machine, or this process on it, cannot run Tiercel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error(
        "this needs root, because it makes network namespaces and loads XDP programs. Run it as root, or put \
         `sudo -E env PATH=\"$PATH\"` before the command"
    )]
    NotRoot,

    #[error("sysfs is not mounted, so the kernel's BTF cannot be read. Run `mount -t sysfs sysfs /sys`")]
    NoSysfs,

    #[error(
        "the kernel has no BTF ({BTF} is missing). Boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, such as \
         Debian's"
    )]
    NoBtf,

    #[error("the kernel has no bpf system call. Boot one built with CONFIG_BPF_SYSCALL=y, such as Debian's")]
    NoBpf,

    #[error("the kernel is locked down ({mode}) and refuses BPF programs. Boot with lockdown=none")]
    LockedDown { mode: String },

    #[error(
        "the kernel refuses BPF programs although this is root: a container or a security module forbids \
         them. Run outside the container, or give it CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_BPF and a seccomp \
         profile that allows bpf"
    )]
    Forbidden,

    #[error("the kernel cannot load an XDP program ({0}). Boot Linux 6.9 or newer with CONFIG_BPF_SYSCALL=y")]
    NoXdp(io::Error),

    #[error("{0}")]
    Kernel(String),

    #[error(
        "{directory} has {free} GiB left, and building the tests takes up to {needed} GiB there. A linker that finds no \
         room dies of a bus error. Make room (`cargo clean` removes what was built before), or set \
         CARGO_TARGET_DIR to a directory on a larger disk"
    )]
    NoRoom { directory: String, free: u64, needed: u64 },

    #[error("cannot make a network namespace ({0}). Run outside the container, or give it CAP_SYS_ADMIN")]
    NoNamespace(io::Error),

    #[error(
        "cannot make a pair of veth interfaces: {0}. Load the module veth, or boot a kernel with CONFIG_VETH"
    )]
    NoVeth(String),

    #[error(
        "the veth driver of Linux {release} does not accept XDP programs ({source}). Boot Linux 6.9 or newer"
    )]
    NoVethXdp { release: String, source: io::Error },
}

/// Checks what needs no other program: root, BTF, BPF, live frames.
pub(crate) fn kernel() -> Result<(), Unfit> {
    if !is_root() {
        return Err(Unfit::NotRoot);
    }
    if !Path::new("/sys/kernel").is_dir() {
        return Err(Unfit::NoSysfs);
    }
    if !Path::new(BTF).is_file() {
        return Err(Unfit::NoBtf);
    }
    probe().map_err(|unfit| match unfit {
        probe::Unfit::Refused(error) => refused(error),
        probe::Unfit::Lacks(sentence) => Unfit::Kernel(sentence),
    })
}

/// Checks that there is room in the target directory for building all tests.
pub(crate) fn room(target: &Path) -> Result<(), Unfit> {
    let needed = if target.join("debug/deps").is_dir() { ROOM_BUILT } else { ROOM_NEW };
    // What cannot be asked is found out by the build.
    match target.ancestors().find_map(free) {
        Some(free) if free < needed => {
            let directory = target.display().to_string();
            Err(Unfit::NoRoom { directory, free: free >> 30, needed: needed >> 30 })
        }
        _ => Ok(()),
    }
}

/// Returns the bytes that are free for files below a directory. `None` if the file system does not tell, or the
/// directory is not there.
fn free(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    let mut space = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with NUL, and the call fills in the structure when it returns 0.
    let space = unsafe {
        match libc::statvfs(path.as_ptr(), space.as_mut_ptr()) {
            0 => space.assume_init(),
            _ => return None,
        }
    };
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Checks that a veth pair can be made and accepts XDP programs in its driver. Needs `ip`. Uses a network
/// namespace that is removed, with the pair, when the thread ends.
pub(crate) fn veth() -> Result<(), Unfit> {
    thread::scope(|scope| scope.spawn(veth_in_own_namespace).join()).expect("the check does not panic")
}

fn veth_in_own_namespace() -> Result<(), Unfit> {
    // SAFETY: unshare takes no pointers; only this thread changes its namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(Unfit::NoNamespace(io::Error::last_os_error()));
    }
    let [one, other] = ["veth0", "veth1"];
    let output = Command::new("ip")
        .args(["link", "add", one, "type", "veth", "peer", "name", other])
        .output()
        .map_err(|error| Unfit::NoVeth(format!("cannot start ip: {error}")))?;
    if !output.status.success() {
        return Err(Unfit::NoVeth(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let name = CString::new(one).expect("the name has no NUL");
    // SAFETY: the pointer is to a string that ends with NUL and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let attached = DropProgram::load().and_then(|program| program.attach_to_driver(index));
    attached.map_err(|source| Unfit::NoVethXdp { release: release(), source })
}

/// Returns what a failed load means.
fn refused(error: io::Error) -> Unfit {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            match lockdown_mode(&fs::read_to_string(LOCKDOWN).unwrap_or_default()) {
                Some(mode) => Unfit::LockedDown { mode },
                None => Unfit::Forbidden,
            }
        }
        Some(libc::ENOSYS) => Unfit::NoBpf,
        _ => Unfit::NoXdp(error),
    }
}

/// Returns the current mode, which is in brackets in the file's list of all modes. `None` if the mode is `none`.
fn lockdown_mode(file: &str) -> Option<String> {
    let (_, rest) = file.split_once('[')?;
    let (mode, _) = rest.split_once(']')?;
    (mode != "none").then(|| mode.to_owned())
}

/// Returns the kernel's release, such as `6.1.0-18-amd64`.
fn release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockdown_in_force_stands_in_brackets() {
        assert_eq!(lockdown_mode("none [integrity] confidentiality\n"), Some("integrity".into()));
        assert_eq!(lockdown_mode("[none] integrity confidentiality\n"), None);
        assert_eq!(lockdown_mode(""), None, "kernel without the module");
    }

    #[test]
    fn a_refused_load_is_told_from_a_missing_call() {
        let meaning = |errno| refused(io::Error::from_raw_os_error(errno));
        assert!(matches!(meaning(libc::EPERM), Unfit::Forbidden | Unfit::LockedDown { .. }));
        assert!(matches!(meaning(libc::ENOSYS), Unfit::NoBpf));
        assert!(matches!(meaning(libc::EINVAL), Unfit::NoXdp(_)));
    }

    #[test]
    fn a_full_disk_is_named_before_the_linker_dies_of_it() {
        // This file system has no room, ever.
        let refused = room(Path::new("/proc/not/there/yet")).unwrap_err().to_string();
        assert!(refused.starts_with("/proc/not/there/yet has 0 GiB left, "), "{refused}");
        assert!(free(Path::new("/")).is_some());
        assert!(free(Path::new("/not/there")).is_none());
    }

    #[test]
    #[ignore = "needs root: cargo xtask test"]
    fn this_machine_is_fit() {
        kernel().unwrap();
        veth().unwrap();
    }
}
