//! What the kernel must have, and what it reports when it refuses a program.

use std::io;

use aya::programs::ProgramError;
use bpf_call::probe::{Unfit, probe};

use crate::node::error::NodeError;

/// Checks that the kernel has everything that the programs use, before any of them is loaded. Loading takes
/// seconds, and the verifier's message about a program that it does not understand helps nobody.
pub(crate) fn check() -> Result<(), NodeError> {
    keeps_order(std::env::consts::ARCH)?;
    probe().map_err(|unfit| match unfit {
        Unfit::Refused(error) => match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => NodeError::not_permitted("load BPF programs", error),
            _ => NodeError::Load { reason: error.to_string(), source: error.into() },
        },
        Unfit::Lacks(sentence) => NodeError::Kernel(sentence),
    })
}

/// Checks that the processor keeps the order of loads and the order of stores. The programs rely on it, because BPF's
/// own instructions for ordered accesses need Linux 6.15 (`transport_common::shared`).
fn keeps_order(architecture: &'static str) -> Result<(), NodeError> {
    if architecture == "x86_64" { Ok(()) } else { Err(NodeError::Architecture(architecture)) }
}

/// Describes a refused program in a few words. The verifier's output goes to the log, where users who need details
/// find it.
pub(crate) fn refused(error: &ProgramError) -> Option<String> {
    let ProgramError::LoadError { io_error, verifier_log } = error else { return None };
    let log = verifier_log.to_string();
    tracing::debug!("the verifier says:\n{log}");
    Some(in_few_words(io_error, &log))
}

fn in_few_words(error: &io::Error, log: &str) -> String {
    let too_large = log.contains("BPF program is too large") || error.raw_os_error() == Some(libc::E2BIG);
    let why = if too_large {
        "this kernel's verifier gave up at its limit of a million instructions".to_owned()
    } else {
        error.to_string()
    };
    let more = if log.trim().is_empty() { "" } else { " (-v shows what the verifier says)" };
    format!("{why}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_architecture_that_keeps_order_is_fit() {
        assert!(keeps_order("x86_64").is_ok());
        let said = keeps_order("aarch64").expect_err("not fit").to_string();
        assert!(said.contains("aarch64") && said.contains("x86-64"), "{said}");
    }

    #[test]
    fn the_verifiers_log_is_no_part_of_the_sentence() {
        let log = "0: (e5) may_goto\nunknown opcode e5\nprocessed 0 insns\n";
        let said = in_few_words(&io::Error::from_raw_os_error(libc::EINVAL), log);
        assert!(!said.contains('\n') && !said.contains("opcode") && said.contains("-v"), "{said}");
        let large = in_few_words(&io::Error::from_raw_os_error(libc::E2BIG), "BPF program is too large.");
        assert!(large.contains("a million instructions"), "{large}");
        assert!(!in_few_words(&io::Error::from_raw_os_error(libc::EINVAL), "").contains("-v"));
    }
}
