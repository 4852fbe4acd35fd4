//! Builds the XDP programs and leaves them as `tiercel-ebpf` in `OUT_DIR`, from where the loader includes them.

use std::{env, path::PathBuf, process::ExitCode};

/// What the object is made from, seen from the workspace's root.
const INPUTS: [&str; 7] = [
    "Cargo.toml",
    "Cargo.lock",
    "transport-common/Cargo.toml",
    "transport-common/src",
    "transport-ebpf/Cargo.toml",
    "transport-ebpf/Cargo.lock",
    "transport-ebpf/src",
];

fn main() -> ExitCode {
    let directory = |name| PathBuf::from(env::var_os(name).expect("cargo sets it for build scripts"));
    let root = directory("CARGO_MANIFEST_DIR").join("..");
    for input in INPUTS {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    for variable in [bpf_build::TOOLCHAIN_VAR, bpf_build::LINKER_VAR] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let log: &[&str] = if env::var_os("CARGO_FEATURE_BPF_LOG").is_some() { &["log"] } else { &[] };
    match bpf_build::build(&root.join("transport-ebpf"), &directory("OUT_DIR"), log) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
