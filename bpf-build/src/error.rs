//! Why the XDP programs were not built, each with its remedy.

use std::{io, path::PathBuf};

use crate::{LINKER_VAR, TOOLCHAIN_VAR, toolchain::Rejected};

/// Why the XDP programs were not built; every message ends with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The toolchain named by [`TOOLCHAIN_VAR`] does not serve.
    #[error(
        "{TOOLCHAIN_VAR} names a toolchain that cannot be used: {0}. Point it at a directory that has bin/rustc, \
         bin/cargo and the rust-src component, or unset it"
    )]
    NamedToolchain(Rejected),

    /// No toolchain on this machine carries the standard library's source.
    #[error(
        "no Rust toolchain with the standard library's source was found{}. Run `cargo xtask setup` in Tiercel's \
         repository, or `rustup toolchain install nightly --component rust-src`",
        listed(.rejected)
    )]
    NoToolchain {
        /// The toolchains looked at.
        rejected: Vec<Rejected>,
    },

    /// The linker named by [`LINKER_VAR`] is not an executable file.
    #[error("{LINKER_VAR} names {}, which is not an executable file. Correct it or unset it", .0.display())]
    NamedLinker(PathBuf),

    /// No bpf-linker on this machine.
    #[error(
        "bpf-linker was not found. Run `cargo xtask setup` in Tiercel's repository, or set {LINKER_VAR} to the \
         executable"
    )]
    NoLinker,

    /// Every bpf-linker here is built on an older LLVM than every toolchain here.
    #[error(
        "bpf-linker at {} is built on LLVM {linker_llvm} and cannot read what {toolchain} (LLVM {toolchain_llvm}) \
         writes. Run `cargo xtask setup`, which builds one that can",
        .linker.display()
    )]
    LinkerTooOld {
        /// The newest linker found.
        linker: PathBuf,
        /// Its LLVM major version.
        linker_llvm: u32,
        /// The toolchain preferred.
        toolchain: String,
        /// Its LLVM major version.
        toolchain_llvm: u32,
    },

    /// A crate the programs depend on could not be downloaded.
    #[error(
        "a crate that transport-ebpf depends on could not be downloaded. Connect this machine to the network \
         (or set the proxy in HTTPS_PROXY) and repeat"
    )]
    Download,

    /// The compiler or the linker refused the programs; its own words are on standard error.
    #[error(
        "transport-ebpf did not compile with {toolchain} and {}. Correct what the compiler says above; if it \
         says that bitcode cannot be read, run `cargo xtask setup` for a matching linker",
        .linker.display()
    )]
    Compile {
        /// The toolchain used.
        toolchain: String,
        /// The linker used.
        linker: PathBuf,
    },

    /// Clippy is not part of the toolchain that builds the programs.
    #[error("{0} has no clippy. Run `cargo xtask setup`, which adds it")]
    NoClippy(String),

    /// Clippy found faults in the programs; they are on standard error.
    #[error("clippy found faults in transport-ebpf. Correct what it says above")]
    Lints,

    /// A panic survived optimisation: the programs hold an endless loop the verifier refuses.
    #[error(
        "the XDP programs contain panicking code ({}). Replace unchecked indexing, unwrap, and division by a \
         possibly-zero value on the way to it",
        .0.join(", ")
    )]
    Panics(Vec<String>),

    /// The object lacks a section the loader needs.
    #[error("the XDP object has no {0} section. Run `cargo xtask setup` for a bpf-linker that writes BTF")]
    MissingSection(&'static str),

    /// The object is not an ELF file.
    #[error("the XDP object cannot be read: {0}. Run `cargo clean` and repeat")]
    Object(#[from] object::Error),

    /// The debug information cannot be taken out of the object.
    #[error("the XDP object cannot be rewritten: {0}. Run `cargo clean` and repeat")]
    Strip(#[from] object::build::Error),

    /// A file operation failed.
    #[error("cannot {action} {}: {source}. Free or correct the path and repeat", .path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl BuildError {
    /// For `map_err`: an [`BuildError::Io`] for `action` on `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

fn listed(rejected: &[Rejected]) -> String {
    if rejected.is_empty() {
        return String::new();
    }
    let each: Vec<String> = rejected.iter().map(ToString::to_string).collect();
    format!(" ({})", each.join("; "))
}
