//! The common body of build scripts that include an object.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{BuildError, LINKER_VAR, TOOLCHAIN_VAR, build};

/// The root of the workspace, from the directory in which cargo runs the build script of a crate in it. Relative, because
/// cargo keeps the names that the script prints: if sources and target directory are moved or copied together, absolute
/// names would make it watch the old sources.
const WORKSPACE: &str = "..";

/// The inputs of the objects, relative to the root of the workspace.
const INPUTS: [&str; 7] = [
    "Cargo.toml",
    "Cargo.lock",
    "transport-common/Cargo.toml",
    "transport-common/src",
    "transport-ebpf/Cargo.toml",
    "transport-ebpf/Cargo.lock",
    "transport-ebpf/src",
];

/// Runs a whole build script: builds the objects into its `OUT_DIR`, and tells cargo when to run it again.
/// The crate lies in the root of the workspace. `features` are the enabled features of the crate.
///
/// # Panics
/// Panics outside a build script, where cargo does not set `OUT_DIR`.
pub fn build_script(features: &[&str]) -> ExitCode {
    let workspace = Path::new(WORKSPACE);
    for input in INPUTS {
        println!("cargo:rerun-if-changed={}", workspace.join(input).display());
    }
    for variable in [TOOLCHAIN_VAR, LINKER_VAR] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let out_dir = env::var_os("OUT_DIR").map(PathBuf::from).expect("cargo sets it for build scripts");
    match build(&workspace.join("transport-ebpf"), &out_dir, features) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Cargo prints this sentence and nothing else, unless the script fails. Then it also prints standard error,
            // which has the compiler's messages.
            println!("cargo::error={error}");
            match error {
                BuildError::Compile { .. } | BuildError::Download => ExitCode::FAILURE,
                _ => ExitCode::SUCCESS,
            }
        }
    }
}
