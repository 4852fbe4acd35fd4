//! The errors of building the XDP programs. Each says what to do.

use std::{io, path::PathBuf};

use crate::{LINKER_VAR, TOOLCHAIN_VAR, TooNew, rejected::Rejected};

/// Why the XDP programs were not built. Every message ends with what to do.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The toolchain in [`TOOLCHAIN_VAR`] cannot be used.
    #[error(
        "{TOOLCHAIN_VAR} names a toolchain that cannot be used: {0}. Set it to a directory that has bin/rustc, bin/cargo and \
         the rust-src component, or unset it"
    )]
    NamedToolchain(Rejected),

    /// No toolchain on this machine has the source of the standard library.
    #[error(
        "no Rust toolchain with the standard library's source was found{}. Run `cargo xtask setup` in Tiercel's \
         repository, or `rustup toolchain install nightly --component rust-src`",
        listed(.rejected)
    )]
    NoToolchain {
        /// The toolchains that were found.
        rejected: Vec<Rejected>,
    },

    /// The linker in [`LINKER_VAR`] is not an executable file.
    #[error("{LINKER_VAR} names {}, which is not an executable file. Correct it or unset it", .0.display())]
    NamedLinker(PathBuf),

    /// There is no bpf-linker on this machine.
    #[error(
        "bpf-linker was not found. Run `cargo xtask setup` in Tiercel's repository, or set {LINKER_VAR} to the \
         executable"
    )]
    NoLinker,

    /// Every bpf-linker on this machine uses an older LLVM than every toolchain.
    #[error(
        "bpf-linker at {} uses LLVM {linker_llvm} and cannot read the output of {toolchain} (LLVM {toolchain_llvm}). Run \
         `cargo xtask setup`, which builds a newer one",
        .linker.display()
    )]
    LinkerTooOld {
        /// The newest linker that was found.
        linker: PathBuf,
        /// Its LLVM major version.
        linker_llvm: u32,
        /// The preferred toolchain.
        toolchain: String,
        /// Its LLVM major version.
        toolchain_llvm: u32,
    },

    /// A dependency of the programs could not be downloaded.
    #[error(
        "a crate that transport-ebpf depends on could not be downloaded. Connect this machine to the network \
         (or set the proxy in HTTPS_PROXY) and build again"
    )]
    Download,

    /// The compiler or the linker reported errors. They are on standard error.
    #[error(
        "transport-ebpf did not compile with {toolchain} and {}. Correct the errors that the compiler reports above; if it \
         reports that bitcode cannot be read, run `cargo xtask setup` for a matching linker",
        .linker.display()
    )]
    Compile {
        /// The toolchain that was used.
        toolchain: String,
        /// The linker that was used.
        linker: PathBuf,
    },

    /// Clippy is not part of the toolchain that builds the programs.
    #[error("{0} has no clippy. Run `cargo xtask setup`, which adds it")]
    NoClippy(String),

    /// Clippy reported warnings. They are on standard error.
    #[error("clippy reported warnings in transport-ebpf. Correct the warnings above")]
    Lints,

    /// A panic was not optimised away. The verifier refuses the endless loop of the panic handler.
    #[error(
        "the XDP programs contain panicking code ({}). Find the unchecked indexing, the unwrap, or the division by a value \
         that may be zero that leads to it, and replace it",
        .0.join(", ")
    )]
    Panics(Vec<String>),

    /// The programs hold instructions that the oldest kernel of the project does not have.
    #[error(
        "the XDP programs do not load on Linux {}.{}: {}. Take an operation that it has; for words that other CPUs write, \
         the types of transport_common::shared",
        crate::OLDEST_KERNEL.0, crate::OLDEST_KERNEL.1, listed_too_new(.0)
    )]
    TooNew(Vec<TooNew>),

    /// The object lacks a section the loader needs.
    #[error("the XDP object has no {0} section. Run `cargo xtask setup` for a bpf-linker that writes BTF")]
    MissingSection(&'static str),

    /// The object is not an ELF file.
    #[error("the XDP object cannot be read: {0}. Run `cargo clean` and build again")]
    Object(#[from] object::Error),

    /// The debug information cannot be taken out of the object.
    #[error("the XDP object cannot be rewritten: {0}. Run `cargo clean` and repeat")]
    Strip(#[from] object::build::Error),

    /// A package from a registry has the programs without features only.
    #[error(
        "this package has the XDP programs compiled, and without the feature {0}. Build in a clone of Tiercel's repository, or \
         switch the feature off"
    )]
    PackagedWithout(String),

    /// A file operation failed.
    #[error("cannot {action} {}: {source}. Check the path and its permissions, and build again", .path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl BuildError {
    /// Returns a function for `map_err` that makes a [`BuildError::Io`] for `action` on `path`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

fn listed_too_new(found: &[TooNew]) -> String {
    let each: Vec<String> = found.iter().map(|one| format!("{} has {}", one.section, one.what)).collect();
    each.join(", ")
}

fn listed(rejected: &[Rejected]) -> String {
    if rejected.is_empty() {
        return String::new();
    }
    let each: Vec<String> = rejected.iter().map(ToString::to_string).collect();
    format!(" ({})", each.join("; "))
}
