//! Builds the XDP programs.

use anyhow::{Context, Result};

use crate::{
    ahead::BuildAhead,
    shell::{Progress, target_dir, workspace},
};

/// Builds the XDP programs separately first, so that the output of their compiler is visible. The build script of
/// the node then finds them up to date. Also waits for the build that was started ahead.
pub(crate) fn build_programs(ahead: BuildAhead, progress: &Progress) -> Result<()> {
    progress.say("building the XDP programs");
    let out_dir = target_dir();
    std::fs::create_dir_all(&out_dir).with_context(|| format!("cannot create {}", out_dir.display()))?;
    bpf_build::build(&workspace().join("transport-ebpf"), &out_dir, &[])?;
    ahead.finish(progress);
    Ok(())
}
