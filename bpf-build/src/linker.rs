//! The linker that turns LLVM bitcode into a BPF object with BTF.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use object::read::elf::{Dyn, ElfFile64, FileHeader, SectionHeader};

use crate::{BuildError, LINKER_VAR};

/// Oldest LLVM whose BPF back end supports `allows-misaligned-mem-access`.
pub const OLDEST_LINKER_LLVM: u32 = 22;

/// Newest LLVM with which the pinned bpf-linker can be built.
pub const NEWEST_LINKER_LLVM: u32 = 23;

const NAME: &str = "bpf-linker";

/// A bpf-linker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linker {
    /// The executable.
    pub path: PathBuf,
    /// Major version of the LLVM to which it is linked as a shared library. `None` for a static one.
    pub llvm: Option<u32>,
}

impl Linker {
    fn probe(path: PathBuf) -> Option<Self> {
        let metadata = fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
            return None;
        }
        let llvm = fs::read(&path).ok().and_then(|file| shared_llvm(&file));
        Some(Self { path, llvm })
    }

    /// Returns whether it reads the bitcode of LLVM `toolchain_llvm` (LLVM reads older bitcode, never newer) and
    /// has the necessary features. A linker with a static LLVM is assumed to fit. If it does not, the build fails.
    pub fn serves(&self, toolchain_llvm: u32) -> bool {
        self.llvm.is_none_or(|llvm| llvm >= toolchain_llvm && llvm >= OLDEST_LINKER_LLVM)
    }
}

/// Returns all bpf-linkers of this machine, the preferred one first. If [`LINKER_VAR`] is set, returns only that
/// one. Otherwise returns those of `PATH`, of `~/.cargo/bin`, and the one that `cargo xtask setup` builds.
///
/// # Errors
/// [`BuildError::NamedLinker`] if the one in [`LINKER_VAR`] is not an executable file.
pub(crate) fn linkers() -> Result<Vec<Linker>, BuildError> {
    if let Some(path) = env::var_os(LINKER_VAR).map(PathBuf::from) {
        return match Linker::probe(path.clone()) {
            Some(linker) => Ok(vec![linker]),
            None => Err(BuildError::NamedLinker(path)),
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    if let Some(home) = env::var_os("HOME") {
        directories.push(Path::new(&home).join(".cargo/bin"));
    }
    directories.extend(tools_dir().map(|dir| dir.join("bin")));
    Ok(directories.into_iter().filter_map(|dir| Linker::probe(dir.join(NAME))).collect())
}

/// Returns the directory in which `cargo xtask setup` installs the tools that it builds: `~/.cache/tiercel/tools`.
/// Returns `None` if `HOME` is not set.
pub fn tools_dir() -> Option<PathBuf> {
    env::var_os("HOME").map(|home| Path::new(&home).join(".cache/tiercel/tools"))
}

/// Returns the major version of the `libLLVM.so` that an executable needs.
fn shared_llvm(file: &[u8]) -> Option<u32> {
    let elf = ElfFile64::<object::Endianness>::parse(file).ok()?;
    let endian = elf.endian();
    let sections = elf.elf_header().sections(endian, file).ok()?;
    let (entries, names) =
        sections.iter().find_map(|section| section.dynamic(endian, file).ok().flatten())?;
    let strings = sections.strings(endian, file, names).ok()?;
    entries
        .iter()
        .filter(|entry| entry.tag(endian) == object::elf::DT_NEEDED)
        .filter_map(|entry| std::str::from_utf8(entry.string(endian, strings).ok()?).ok())
        .find_map(llvm_of_library)
}

/// Returns the LLVM major version in the name of a library: 22 for `libLLVM.so.22.1` and `libLLVM-22.so`.
fn llvm_of_library(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("libLLVM")?;
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llvm_version_stands_in_the_library_name() {
        assert_eq!(llvm_of_library("libLLVM.so.22.1"), Some(22));
        assert_eq!(llvm_of_library("libLLVM-19.so.1"), Some(19));
        assert_eq!(llvm_of_library("libLLVM.so"), None);
        assert_eq!(llvm_of_library("libc.so.6"), None);
    }

    #[test]
    fn reads_only_bitcode_of_its_own_llvm_or_older() {
        let linker = |llvm| Linker { path: NAME.into(), llvm };
        assert!(linker(Some(23)).serves(22) && linker(Some(22)).serves(22) && linker(None).serves(23));
        assert!(!linker(Some(22)).serves(23));
        assert!(!linker(Some(21)).serves(21), "cannot do misaligned accesses");
    }
}
