//! The cargo call that compiles the XDP programs.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{BuildError, OBJECTS, Tools, inspect, strip};

/// Compiler flags of the XDP programs, except for the linker.
/// - v4: signed division, sign-extending loads, 32-bit atomics.
/// - Debug information and `--btf`: needed for BTF maps and spin locks.
/// - Copies in order are disabled: otherwise LLVM replaces each clearing of some bytes by a call of a byte loop.
/// - Misaligned accesses: packet fields can have any offset, and all supported hosts allow such accesses.
const FLAGS: [&str; 5] = [
    "-Ctarget-cpu=v4",
    "-Cdebuginfo=2",
    "-Clink-arg=--btf",
    "-Clink-arg=--disable-expand-memcpy-in-order",
    "-Clink-arg=--cpu-features=+allows-misaligned-mem-access",
];

/// The target. With build-std, the output is in a directory of this name.
const TARGET: &str = "bpfel-unknown-none";

/// Variables of cargo that the child process keeps. All others describe the calling cargo.
const KEPT_CARGO_VARS: [&str; 6] =
    ["CARGO_HOME", "CARGO_MAKEFLAGS", "CARGO_NET_", "CARGO_HTTP_", "CARGO_TERM_", "CARGO_REGISTR"];

/// Variables that cargo sets for a build script. aya-ebpf is rebuilt whenever `HOST` changes, so `HOST` must not
/// be set for some callers only.
const BUILD_SCRIPT_VARS: [&str; 7] =
    ["DEBUG", "HOST", "NUM_JOBS", "OPT_LEVEL", "OUT_DIR", "PROFILE", "TARGET"];

/// Texts in the output of cargo when a download fails.
const DOWNLOAD_MARKS: [&str; 3] = ["failed to download", "Could not resolve host", "spurious network error"];

/// Compiles the crate in `crate_dir`, checks the objects and writes them as [`OBJECTS`] to `out_dir`. The output
/// of the compiler goes to standard error.
///
/// Intermediate files are in [`shared_target_dir`] of `out_dir`, so that all profiles share them. Calls from
/// several processes run one after another. `features` are the enabled features of the crate.
///
/// # Errors
/// Every error says what to do.
pub fn build(crate_dir: &Path, out_dir: &Path, features: &[&str]) -> Result<(), BuildError> {
    let tools = Tools::find()?;
    let target_dir = shared_target_dir(out_dir);
    let _lock = lock(&target_dir)?;
    let mut command = Command::new(tools.toolchain.cargo());
    command.arg("build");
    prepare(&mut command, &tools, crate_dir, &target_dir);
    if !features.is_empty() {
        command.arg("--features").arg(features.join(","));
    }
    if let Some(stderr) = failure(&mut command)? {
        if DOWNLOAD_MARKS.iter().any(|mark| stderr.contains(mark)) {
            return Err(BuildError::Download);
        }
        return Err(BuildError::Compile { toolchain: tools.toolchain.name, linker: tools.linker.path });
    }
    for name in OBJECTS {
        let built = target_dir.join(TARGET).join("release").join(name);
        let object = fs::read(&built).map_err(BuildError::io("read", &built))?;
        inspect::check(&object)?;
        publish(name, &strip::without_dwarf(&object)?, out_dir)?;
    }
    Ok(())
}

/// Runs clippy for the crate in `crate_dir` with the flags of [`build`]. Every warning is an error. Intermediate
/// files are in [`shared_target_dir`] of `near`.
///
/// # Errors
/// [`BuildError::NoClippy`] if the toolchain has none, [`BuildError::Lints`] if it finds anything.
pub fn clippy(crate_dir: &Path, near: &Path) -> Result<(), BuildError> {
    let tools = Tools::find()?;
    // This runs the toolchain's own `cargo-clippy`. `cargo clippy` searches PATH first and may find that of
    // another toolchain.
    let Some(program) = tools.toolchain.cargo_clippy() else {
        return Err(BuildError::NoClippy(tools.toolchain.name));
    };
    let target_dir = shared_target_dir(near);
    let _lock = lock(&target_dir)?;
    let mut command = Command::new(program);
    command.arg("clippy");
    prepare(&mut command, &tools, crate_dir, &target_dir);
    command.args(["--", "-Dwarnings"]);
    match failure(&mut command)? {
        None => Ok(()),
        Some(_) => Err(BuildError::Lints),
    }
}

/// Returns the directory that all builds of the XDP programs share. It is in the cargo target directory that
/// contains `path` (for example an `OUT_DIR`). If there is no such directory, it is in `path` itself.
pub fn shared_target_dir(path: &Path) -> PathBuf {
    // Cargo marks its target directory with this file. Its depth above OUT_DIR is not defined.
    let root = path.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()).unwrap_or(path);
    root.join("bpf")
}

/// Locks the target directory against other builds until the returned value is dropped. The lock of cargo itself
/// ends with cargo, but the object must not change between its check and its copy.
fn lock(target_dir: &Path) -> Result<File, BuildError> {
    fs::create_dir_all(target_dir).map_err(BuildError::io("create", target_dir))?;
    let path = target_dir.join(".lock");
    let file = File::create(&path).map_err(BuildError::io("create", &path))?;
    file.lock().map_err(BuildError::io("lock", &path))?;
    Ok(file)
}

/// Sets the arguments and the environment that all calls of cargo need.
fn prepare(command: &mut Command, tools: &Tools, crate_dir: &Path, target_dir: &Path) {
    for (name, _) in env::vars_os() {
        if belongs_to_caller(&name) {
            command.env_remove(name);
        }
    }
    if !tools.toolchain.nightly {
        // Only this child may use unstable flags; the host crates stay on stable Rust.
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    command
        .current_dir(crate_dir)
        .env("CARGO", tools.toolchain.cargo())
        .env("RUSTC", tools.toolchain.rustc())
        // An empty value switches off a wrapper from a user's configuration file.
        .env("RUSTC_WRAPPER", "")
        .env("CARGO_ENCODED_RUSTFLAGS", flags(tools, crate_dir))
        .args(["--release", "--locked", "-Zbuild-std=core", "--target", TARGET, "--target-dir"])
        .arg(target_dir);
}

/// Returns whether a variable describes the calling cargo, its toolchain or its crate.
fn belongs_to_caller(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    match name.split_once('_').map_or(name, |(head, _)| head) {
        "CARGO" => !KEPT_CARGO_VARS.iter().any(|kept| name.starts_with(kept)),
        "RUSTC" | "RUSTDOC" | "RUSTFLAGS" | "RUSTDOCFLAGS" | "CLIPPY" => true,
        _ => name == "RUSTUP_TOOLCHAIN" || BUILD_SCRIPT_VARS.contains(&name),
    }
}

/// Returns the flags of the compiler in the encoding of `CARGO_ENCODED_RUSTFLAGS`, which allows spaces in paths.
fn flags(tools: &Tools, crate_dir: &Path) -> OsString {
    let mut flags = OsString::from(FLAGS.join("\x1f"));
    // aya-ebpf uses this for the layout of the registers of a probe. The programs run on the machine that builds
    // them.
    flags.push(format!("\x1f--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH));
    for (directory, name) in neutral_names(&tools.toolchain.root, crate_dir) {
        flags.push("\x1f--remap-path-prefix=");
        flags.push(directory);
        flags.push("=");
        flags.push(name);
    }
    flags.push("\x1f-Clinker=");
    flags.push(&tools.linker.path);
    flags
}

/// Returns the directories that BTF's line information would name, and the names that replace them, so that an object
/// does not depend on where it was built.
fn neutral_names(toolchain: &Path, crate_dir: &Path) -> Vec<(PathBuf, &'static str)> {
    let mut names = vec![(toolchain.to_owned(), "rust")];
    let home = env::var_os("HOME").map(PathBuf::from);
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cargo")));
    names.extend(cargo.map(|cargo| (cargo, "cargo")));
    // The path that a build script passes contains `..`. The compiler's paths do not.
    let workspace = crate_dir.parent().and_then(|parent| fs::canonicalize(parent).ok());
    names.extend(workspace.map(|workspace| (workspace, "tiercel")));
    names
}

/// Runs `command`, and copies its standard error line by line. Returns all of it if the command failed.
fn failure(command: &mut Command) -> Result<Option<String>, BuildError> {
    let program = PathBuf::from(command.get_program());
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(BuildError::io("start", &program))?;
    let mut said = String::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line.map_err(BuildError::io("read the output of", &program))?;
            let line = String::from_utf8_lossy(&line);
            eprintln!("{line}");
            said.push_str(&line);
            said.push('\n');
        }
    }
    let status = child.wait().map_err(BuildError::io("wait for", &program))?;
    Ok((!status.success()).then_some(said))
}

/// Writes an object to `out_dir` in one step, so that a reader sees either the old one or the new one.
fn publish(name: &str, object: &[u8], out_dir: &Path) -> Result<(), BuildError> {
    let path = out_dir.join(name);
    let unfinished = out_dir.join(format!("{name}.{}", std::process::id()));
    fs::write(&unfinished, object).map_err(BuildError::io("write", &unfinished))?;
    fs::rename(&unfinished, &path).map_err(BuildError::io("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_keeps_network_settings_and_drops_the_callers_toolchain() {
        for kept in ["CARGO_HOME", "CARGO_HTTP_PROXY", "CARGO_REGISTRIES_X_INDEX", "HOME", "RUST_BACKTRACE"] {
            assert!(!belongs_to_caller(OsStr::new(kept)), "{kept}");
        }
        for dropped in [
            "CARGO",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_CFG_UNIX",
            "CLIPPY_ARGS",
            "HOST",
            "RUSTC",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(belongs_to_caller(OsStr::new(dropped)), "{dropped}");
        }
    }

    #[test]
    fn builds_of_all_profiles_share_one_directory() {
        let root = env::temp_dir().join(format!("bpf-build-test-{}", std::process::id()));
        let out_dir = |profile: &str| root.join(profile).join("build/tiercel-node-1234/out");
        for profile in ["debug", "release"] {
            fs::create_dir_all(out_dir(profile)).unwrap();
        }
        assert_eq!(shared_target_dir(&out_dir("debug")), out_dir("debug").join("bpf"), "no mark, no sharing");
        fs::write(root.join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(shared_target_dir(&out_dir("debug")), root.join("bpf"));
        assert_eq!(shared_target_dir(&out_dir("release")), root.join("bpf"));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn publishing_replaces_the_object_and_leaves_nothing_else() {
        let dir = env::temp_dir().join(format!("bpf-build-publish-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for content in [b"old", b"new"] {
            publish("object", content, &dir).unwrap();
            assert_eq!(fs::read(dir.join("object")).unwrap(), content);
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(&dir).unwrap();
    }
}
