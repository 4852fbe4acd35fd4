//! Builds the XDP programs; the bench includes `tiercel-raw` from `OUT_DIR`.

use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    bpf_build::build_script(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &[])
}
