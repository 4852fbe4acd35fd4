//! Builds the XDP programs and writes them as `tiercel-ebpf` to `OUT_DIR`. The loader includes them from there.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let log: &[&str] = if std::env::var_os("CARGO_FEATURE_BPF_LOG").is_some() { &["log"] } else { &[] };
    bpf_build::build_script(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), log)
}
