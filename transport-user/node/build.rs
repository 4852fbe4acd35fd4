//! Builds the XDP programs and writes them as `tiercel-ebpf` to `OUT_DIR`. The loader includes them from there.

use std::process::ExitCode;

fn main() -> ExitCode {
    let log: &[&str] = if std::env::var_os("CARGO_FEATURE_BPF_LOG").is_some() { &["log"] } else { &[] };
    bpf_build::build_script(log)
}
