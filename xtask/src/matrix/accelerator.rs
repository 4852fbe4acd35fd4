//! Whether guests run with KVM.

use std::{path::Path, time::Duration};

use anyhow::Result;

use super::{
    guest::{Accelerator, Guest, Machine, SMALL_MIB},
    kernel::Kernel,
    patience::Patience,
};
use crate::shell::Progress;

/// Limit for a boot with KVM. Where KVM works, a guest boots in a second or two.
const KVM_LIMIT: Duration = Duration::from_secs(15);

/// Returns KVM if a guest boots with the initrd in `folder` and KVM on this machine, otherwise software emulation.
pub(super) fn choose_accelerator(
    kernel: &Kernel,
    folder: &Path,
    patience: &Patience,
    progress: &Progress,
) -> Result<Accelerator> {
    if !Path::new("/dev/kvm").exists() {
        return Ok(Accelerator::Tcg);
    }
    progress.say("trying whether a guest boots with KVM");
    let machine = Machine {
        accelerator: Accelerator::Kvm,
        kernel,
        initrd: &folder.join("initrd"),
        memory_mib: SMALL_MIB,
        card: None,
        folder,
        name: 'k',
    };
    let booted = Guest::start(&machine, patience).and_then(|mut guest| guest.ready(KVM_LIMIT));
    patience.check()?;
    Ok(match booted {
        Ok(()) => Accelerator::Kvm,
        Err(error) => {
            progress.say(&format!("KVM does not serve, so guests are emulated: {error:#}"));
            Accelerator::Tcg
        }
    })
}
