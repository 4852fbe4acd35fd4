//! Builds the XDP programs; the bench includes `tiercel-raw` from `OUT_DIR`.

use std::process::ExitCode;

fn main() -> ExitCode {
    bpf_build::build_script(&[])
}
