//! Builds the XDP programs of `transport-ebpf`: finds a Rust toolchain that carries the standard library's
//! source, a bpf-linker that reads what this toolchain writes, compiles with the flags the programs need,
//! and refuses an object the verifier would refuse.
//!
//! A build script is one call of [`build_script`]; `cargo xtask` calls [`build`] to have the compiler watched, and
//! `cargo xtask setup` calls [`Tools::find`] and installs what is missing.

mod build_script;
mod compile;
mod error;
mod inspect;
mod linker;
mod strip;
mod toolchain;
mod tools;

pub use build_script::build_script;
pub use compile::{build, clippy, shared_target_dir};
pub use error::BuildError;
pub use linker::{Linker, NEWEST_LINKER_LLVM, OLDEST_LINKER_LLVM, tools_dir};
pub use toolchain::{Rejected, Toolchain, toolchains};
pub use tools::Tools;

/// Environment variable that names the directory (with `bin/rustc` in it) of the toolchain to use.
pub const TOOLCHAIN_VAR: &str = "TIERCEL_BPF_TOOLCHAIN";

/// Environment variable that names the bpf-linker executable to use.
pub const LINKER_VAR: &str = "TIERCEL_BPF_LINKER";

/// File names of the objects [`build`] leaves in its output directory: the datapath, and the bench's raw limit.
pub const OBJECTS: [&str; 3] = ["tiercel-ebpf", "tiercel-raw", "tiercel-decide"];
