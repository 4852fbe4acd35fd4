//! Builds the XDP programs of `transport-ebpf`. Finds a Rust toolchain that has the source of the standard
//! library, and a bpf-linker that can read the output of this toolchain. Compiles with the flags that the programs
//! need, and refuses an object that the verifier would refuse.
//!
//! A build script is one call of [`build_script`]. `cargo xtask` calls [`build`], so that the output of the
//! compiler is shown. `cargo xtask setup` calls [`Tools::find`] and installs missing tools.

mod build_script;
mod compile;
mod error;
mod inspect;
mod instructions;
mod linker;
mod rejected;
mod strip;
mod toolchain;
mod tools;

pub use build_script::{PACKAGED, build_script};
pub use compile::{build, clippy, shared_target_dir};
pub use error::BuildError;
pub use instructions::{OLDEST_KERNEL, TooNew};
pub use linker::{Linker, NEWEST_LINKER_LLVM, OLDEST_LINKER_LLVM, tools_dir};
pub use rejected::Rejected;
pub use toolchain::{Toolchain, toolchains};
pub use tools::Tools;

/// Environment variable that names the directory (with `bin/rustc` in it) of the toolchain to use.
pub const TOOLCHAIN_VAR: &str = "TIERCEL_BPF_TOOLCHAIN";

/// Environment variable that names the bpf-linker executable to use.
pub const LINKER_VAR: &str = "TIERCEL_BPF_LINKER";

/// File names of the objects that [`build`] writes to its output directory: the datapath, the raw limit of the
/// benchmark, and the program of the differential tests.
pub const OBJECTS: [&str; 3] = ["tiercel-ebpf", "tiercel-raw", "tiercel-decide"];
