//! A toolchain and a linker that fit each other.

use crate::{BuildError, Linker, Toolchain, linker, toolchain};

/// A toolchain and a linker that fit each other.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The toolchain, which compiles to LLVM bitcode.
    pub toolchain: Toolchain,
    /// The linker, which links that bitcode into the object.
    pub linker: Linker,
}

impl Tools {
    /// Finds the preferred toolchain for which there is a linker, and that linker.
    ///
    /// # Errors
    /// The error says which of the two is missing, and what to do.
    pub fn find() -> Result<Self, BuildError> {
        let (toolchains, rejected) = toolchain::toolchains()?;
        if toolchains.is_empty() {
            return Err(BuildError::NoToolchain { rejected });
        }
        choose(toolchains, linker::linkers()?)
    }
}

fn choose(toolchains: Vec<Toolchain>, linkers: Vec<Linker>) -> Result<Tools, BuildError> {
    for toolchain in &toolchains {
        if let Some(linker) = linkers.iter().find(|linker| linker.serves(toolchain.llvm)) {
            return Ok(Tools { toolchain: toolchain.clone(), linker: linker.clone() });
        }
    }
    let newest = linkers.into_iter().max_by_key(|linker| linker.llvm);
    match (newest, toolchains.into_iter().next()) {
        (Some(Linker { path, llvm: Some(llvm) }), Some(toolchain)) => Err(BuildError::LinkerTooOld {
            linker: path,
            linker_llvm: llvm,
            toolchain: toolchain.name,
            toolchain_llvm: toolchain.llvm,
        }),
        _ => Err(BuildError::NoLinker),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolchain(name: &str, llvm: u32) -> Toolchain {
        Toolchain { name: name.into(), root: "/".into(), nightly: false, llvm }
    }

    fn linker(llvm: u32) -> Linker {
        Linker { path: format!("/linker-{llvm}").into(), llvm: Some(llvm) }
    }

    #[test]
    fn passes_over_a_toolchain_too_new_for_every_linker() {
        let tools =
            choose(vec![toolchain("nightly", 23), toolchain("stable", 22)], vec![linker(21), linker(22)])
                .unwrap();
        assert_eq!((tools.toolchain.name.as_str(), tools.linker.llvm), ("stable", Some(22)));
    }

    #[test]
    fn keeps_the_preferred_toolchain_when_a_later_linker_serves_it() {
        let tools =
            choose(vec![toolchain("nightly", 23), toolchain("stable", 22)], vec![linker(22), linker(23)])
                .unwrap();
        assert_eq!((tools.toolchain.name.as_str(), tools.linker.llvm), ("nightly", Some(23)));
    }

    #[test]
    fn tells_a_missing_linker_from_one_too_old() {
        assert!(matches!(choose(vec![toolchain("nightly", 23)], vec![]), Err(BuildError::NoLinker)));
        let error = choose(vec![toolchain("nightly", 23)], vec![linker(22)]).unwrap_err();
        assert!(
            matches!(error, BuildError::LinkerTooOld { linker_llvm: 22, toolchain_llvm: 23, .. }),
            "{error}"
        );
    }
}
