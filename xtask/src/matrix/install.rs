//! Installs the package in a guest with Debian and systemd, uses it, removes it and purges it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{
    accelerator::choose_accelerator,
    guest::{Guest, Machine},
    initrd,
    kernel::Kernel,
    packages,
    patience::Patience,
    said::last_line,
    scratch::Scratch,
};
use crate::{
    setup,
    shell::{Progress, target_dir, workspace},
};

/// The release that is installed in the guest, and what it has in addition to the essential packages.
const RELEASE: &str = "trixie";
const PACKAGES: &str = "systemd,systemd-sysv,dbus,iproute2,busybox-static";
/// Memory of the guest: the distribution is in it, and while it is unpacked, twice.
const MEMORY_MIB: u32 = 2048;
/// Limits with software emulation on a busy machine.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const SCRIPT_LIMIT: Duration = Duration::from_secs(600);
const SCRIPT: &str = "install-to-purge.sh";

/// Tries the package on each of the kernels. Prints what the script says.
///
/// # Errors
/// If there is no such package, or a guest cannot be made.
pub(super) fn try_all(package: &Path, kernels: &[Kernel], progress: &Progress) -> Result<ExitCode> {
    let package = fs::read(package)
        .with_context(|| format!("no package {}: build one with `cargo xtask dist`", package.display()))?;
    let script =
        fs::read(workspace().join("tests/package").join(SCRIPT)).context("the script of the test")?;
    let tree = debian(progress)?;
    let (scratch, patience) = (Scratch::new()?, Patience::new(None)?);
    let mut code = ExitCode::SUCCESS;
    for kernel in kernels {
        let initrd = scratch.path().join("initrd");
        initrd::pack(kernel, &[], &initrd)?;
        let accelerator = choose_accelerator(kernel, scratch.path(), &patience, progress)?;
        progress.say(&format!("Linux {}: packing Debian {RELEASE} and the package", kernel.series()));
        let files = [("root/tiercel.deb", package.clone()), ("root/script", script.clone())];
        initrd::pack_tree(kernel, &tree, &files, &initrd)?;
        progress.say(&format!("Linux {}: booting, {}", kernel.series(), accelerator.name()));
        let machine = Machine {
            accelerator,
            kernel,
            initrd: &initrd,
            memory_mib: MEMORY_MIB,
            card: None,
            folder: scratch.path(),
            name: 'a',
        };
        let mut guest = Guest::start(&machine, &patience)?;
        guest.ready(BOOT_LIMIT)?;
        progress.say(&format!("Linux {}: from install to purge", kernel.series()));
        let output = guest.run("sh /root/script /root/tiercel.deb", SCRIPT_LIMIT)?;
        println!("{}", output.text);
        let verdict = if output.is_ok() { "works" } else { "FAILS" };
        progress.say(&format!("Linux {}: from install to purge: {verdict}", kernel.series()));
        if !output.is_ok() {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Returns the tree of a small Debian with systemd. It is made once.
fn debian(progress: &Progress) -> Result<PathBuf> {
    let tree = target_dir().join("matrix").join(format!("debian-{RELEASE}"));
    if tree.is_dir() {
        return Ok(tree);
    }
    setup::programs(&[("debootstrap", "debootstrap")], progress)?;
    progress.say(&format!("installing Debian {RELEASE} in a directory"));
    let new = tree.with_extension(format!("new-{}", std::process::id()));
    let output = Command::new("debootstrap")
        .args(["--variant=minbase", &format!("--include={PACKAGES}"), RELEASE])
        .arg(&new)
        .arg(packages::mirror()?)
        .output()
        .context("cannot start debootstrap")?;
    if !output.status.success() {
        let reason = last_line(&output.stdout);
        let _ = fs::remove_dir_all(&new);
        bail!("Debian {RELEASE} cannot be installed in a directory: {reason}");
    }
    // What was downloaded is installed.
    let _ = fs::remove_dir_all(new.join("var/cache/apt/archives"));
    fs::rename(&new, &tree)?;
    Ok(tree)
}
