//! Builds the XDP programs of `transport-ebpf`: finds a Rust toolchain that carries the standard library's
//! source, a bpf-linker that reads what this toolchain writes, compiles with the flags the programs need,
//! and refuses an object the verifier would refuse.
//!
//! `transport-user/build.rs` calls [`build`]; `cargo xtask setup` calls [`Tools::find`] and installs what is
//! missing.

mod compile;
mod error;
mod inspect;
mod linker;
mod toolchain;
mod tools;

pub use compile::{build, clippy, shared_target_dir};
pub use error::BuildError;
pub use linker::{Linker, NEWEST_LINKER_LLVM, OLDEST_LINKER_LLVM, tools_dir};
pub use toolchain::{Rejected, Toolchain, toolchains};
pub use tools::Tools;

/// Environment variable that names the directory (with `bin/rustc` in it) of the toolchain to use.
pub const TOOLCHAIN_VAR: &str = "TIERCEL_BPF_TOOLCHAIN";

/// Environment variable that names the bpf-linker executable to use.
pub const LINKER_VAR: &str = "TIERCEL_BPF_LINKER";

/// File name of the object [`build`] leaves in its output directory.
pub const OBJECT: &str = "tiercel-ebpf";
