//! The common body of build scripts that include an object.
//!
//! In a clone of the repository the objects are built from the sources. A package from a registry has no sources of the
//! programs beside it: cargo packs each crate alone. It has the objects themselves, which are the same on every machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{BuildError, LINKER_VAR, TOOLCHAIN_VAR, build};

/// Where the root of the workspace may be, from the directory in which cargo runs the build script of a crate in it. Relative,
/// because cargo keeps the names that the script prints: if sources and target directory are moved or copied together, absolute
/// names would make it watch the old sources.
const WORKSPACES: [&str; 2] = ["..", "../.."];

/// The inputs of the objects, relative to the root of the workspace.
const INPUTS: [&str; 7] = [
    "Cargo.toml",
    "Cargo.lock",
    "transport-common/Cargo.toml",
    "transport-common/src",
    "transport-ebpf/Cargo.toml",
    "transport-ebpf/Cargo.lock",
    "transport-ebpf/src",
];

/// The sources of the programs, relative to the root of the workspace.
const SOURCES: &str = "transport-ebpf";

/// Name of the directory of a package, beside its manifest, that has the objects. They are built without features.
pub const PACKAGED: &str = "programs";

/// Runs a whole build script: puts the objects into its `OUT_DIR`, and tells cargo when to run it again.
/// The crate lies in a directory of the workspace or one below, or in a package of its own. `features` are the enabled
/// features of the crate.
///
/// # Panics
/// Panics outside a build script, where cargo does not set `OUT_DIR`.
pub fn build_script(features: &[&str]) -> ExitCode {
    let out_dir = env::var_os("OUT_DIR").map(PathBuf::from).expect("cargo sets it for build scripts");
    // Where there are sources, objects from an earlier packing do not count.
    let outcome = if let Some(workspace) = workspace_of(Path::new("")) {
        for input in INPUTS {
            println!("cargo:rerun-if-changed={}", workspace.join(input).display());
        }
        for variable in [TOOLCHAIN_VAR, LINKER_VAR] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
        build(&workspace.join(SOURCES), &out_dir, features)
    } else {
        println!("cargo:rerun-if-changed={PACKAGED}");
        unpack(Path::new(PACKAGED), &out_dir, features)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Cargo prints this sentence and nothing else, unless the script fails. Then it also prints standard error,
            // which has the compiler's messages.
            println!("cargo::error={error}");
            match error {
                BuildError::Compile { .. } | BuildError::Download => ExitCode::FAILURE,
                _ => ExitCode::SUCCESS,
            }
        }
    }
}

/// Returns the workspace that has the sources, from the directory of a crate. A package has none around it.
fn workspace_of(krate: &Path) -> Option<PathBuf> {
    let mut workspaces = WORKSPACES.iter().map(|workspace| krate.join(workspace));
    workspaces.find(|workspace| workspace.join(SOURCES).join("Cargo.toml").is_file())
}

/// Copies the objects of a package to `out_dir`.
fn unpack(packaged: &Path, out_dir: &Path, features: &[&str]) -> Result<(), BuildError> {
    if !features.is_empty() {
        return Err(BuildError::PackagedWithout(features.join(", ")));
    }
    let read = || BuildError::io("read the compiled XDP programs in", packaged);
    for entry in fs::read_dir(packaged).map_err(read())? {
        let object = entry.map_err(read())?;
        let copy = out_dir.join(object.file_name());
        fs::copy(object.path(), &copy).map_err(BuildError::io("write", copy))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_above_the_crate() {
        let dir = env::temp_dir().join(format!("bpf-build-workspace-{}", std::process::id()));
        let (one, two) = (dir.join("one"), dir.join("some/two"));
        for made in [&one, &two, &dir.join(SOURCES)] {
            fs::create_dir_all(made).unwrap();
        }
        assert_eq!((workspace_of(&one), workspace_of(&two)), (None, None), "there are no sources");
        fs::write(dir.join(SOURCES).join("Cargo.toml"), "").unwrap();
        assert_eq!(workspace_of(&one), Some(one.join("..")));
        assert_eq!(workspace_of(&two), Some(two.join("../..")));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_package_brings_its_objects() {
        let dir = env::temp_dir().join(format!("bpf-build-package-{}", std::process::id()));
        let (packaged, out_dir) = (dir.join(PACKAGED), dir.join("out"));
        for made in [&packaged, &out_dir] {
            fs::create_dir_all(made).unwrap();
        }
        fs::write(packaged.join("tiercel-ebpf"), "object").unwrap();
        unpack(&packaged, &out_dir, &[]).unwrap();
        assert_eq!(fs::read(out_dir.join("tiercel-ebpf")).unwrap(), b"object");
        let refused = unpack(&packaged, &out_dir, &["log"]).unwrap_err().to_string();
        assert!(refused.contains("feature log") && refused.contains("clone"), "{refused}");
        let missing = unpack(&dir.join("nowhere"), &out_dir, &[]).unwrap_err().to_string();
        assert!(missing.contains("nowhere"), "{missing}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
