//! Rust toolchains that can compile `core` for the BPF target.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{BuildError, TOOLCHAIN_VAR, rejected::Rejected};

/// The source that `-Z build-std=core` compiles, relative to the root of the toolchain.
const CORE_SOURCE: &str = "lib/rustlib/src/rust/library/core/src/lib.rs";

/// A Rust toolchain that has the source of the standard library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// Name for messages: its origin and its release.
    pub name: String,
    /// Directory that contains `bin` and `lib`.
    pub root: PathBuf,
    /// Whether it accepts `-Z` flags. A stable one needs `RUSTC_BOOTSTRAP=1` for that.
    pub nightly: bool,
    /// Major version of the LLVM with which it writes bitcode.
    pub llvm: u32,
}

impl Toolchain {
    /// Checks the toolchain in `root`. `origin` is its name in messages.
    fn probe(origin: &str, root: &Path) -> Result<Self, Rejected> {
        let rejected = |reason| Rejected { name: origin.to_owned(), reason };
        let rustc = root.join("bin/rustc");
        if !rustc.is_file() || !root.join("bin/cargo").is_file() {
            return Err(rejected("no rustc and cargo"));
        }
        if !root.join(CORE_SOURCE).is_file() {
            return Err(rejected("no rust-src"));
        }
        let output = Command::new(&rustc)
            .arg("-vV")
            .env_remove("RUSTUP_TOOLCHAIN")
            .output()
            .ok()
            .filter(|output| output.status.success())
            .ok_or_else(|| rejected("rustc does not start"))?;
        let version = Version::parse(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| rejected("the version of rustc cannot be read"))?;
        Ok(Self {
            name: format!("{origin} (Rust {}, LLVM {})", version.release, version.llvm),
            root: root.to_owned(),
            nightly: version.nightly,
            llvm: version.llvm,
        })
    }

    /// Returns the path of its compiler.
    pub fn rustc(&self) -> PathBuf {
        self.root.join("bin/rustc")
    }

    /// Returns the path of its cargo.
    pub fn cargo(&self) -> PathBuf {
        self.root.join("bin/cargo")
    }

    /// Returns the path of its `cargo-clippy`, if that component is installed.
    pub fn cargo_clippy(&self) -> Option<PathBuf> {
        let bin = self.root.join("bin");
        (bin.join("clippy-driver").is_file() && bin.join("cargo-clippy").is_file())
            .then(|| bin.join("cargo-clippy"))
    }
}

/// The output of `rustc -vV`.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    release: String,
    nightly: bool,
    llvm: u32,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let release = field("release:")?.to_owned();
        let llvm = field("LLVM version:")?.split('.').next()?.parse().ok()?;
        let nightly = release.contains("nightly") || release.contains("-dev");
        Some(Self { release, nightly, llvm })
    }
}

/// Returns all toolchains that can build the XDP programs, the preferred one first, and those that cannot, with
/// the reason. If [`TOOLCHAIN_VAR`] is set, returns only that one. Otherwise returns those of rustup, nightly ones
/// first, and then that of the distribution in `/usr`.
///
/// # Errors
/// [`BuildError::NamedToolchain`] if the one in [`TOOLCHAIN_VAR`] cannot build the programs.
pub fn toolchains() -> Result<(Vec<Toolchain>, Vec<Rejected>), BuildError> {
    if let Some(dir) = env::var_os(TOOLCHAIN_VAR) {
        let dir = PathBuf::from(dir);
        return match Toolchain::probe(&dir.display().to_string(), &dir) {
            Ok(toolchain) => Ok((vec![toolchain], vec![])),
            Err(rejected) => Err(BuildError::NamedToolchain(rejected)),
        };
    }
    let mut found = vec![];
    let mut rejected = vec![];
    let of_rustup = rustup_toolchains().into_iter().map(|(name, root)| (format!("rustup's {name}"), root));
    for (origin, root) in of_rustup.chain([("the distribution's".to_owned(), PathBuf::from("/usr"))]) {
        match Toolchain::probe(&origin, &root) {
            Ok(toolchain) => found.push(toolchain),
            Err(why) => rejected.push(why),
        }
    }
    Ok((found, rejected))
}

/// Returns the names and directories of rustup's toolchains, nightly ones first.
fn rustup_toolchains() -> Vec<(String, PathBuf)> {
    let home = env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".rustup")));
    let Some(entries) = home.and_then(|home| fs::read_dir(home.join("toolchains")).ok()) else {
        return vec![];
    };
    let mut found: Vec<(String, PathBuf)> = entries
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    found.sort_by_cached_key(|(name, _)| preference(name));
    found
}

/// Returns the sort key of a toolchain: first the current nightly, then dated nightlies, stable, and all others.
fn preference(name: &str) -> (u32, String) {
    let rank = match name.strip_prefix("nightly-") {
        Some(rest) if !rest.starts_with(|c: char| c.is_ascii_digit()) => 0,
        Some(_) => 1,
        None if name.starts_with("stable") => 2,
        None => 3,
    };
    (rank, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_release_and_llvm_from_rustc() {
        let text = "rustc 1.97.0-nightly (abc 2026-05-25)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n\
                    release: 1.97.0-nightly\nLLVM version: 22.1.4\n";
        let expected = Version { release: "1.97.0-nightly".into(), nightly: true, llvm: 22 };
        assert_eq!(Version::parse(text), Some(expected));
        let stable = Version::parse("release: 1.96.0\nLLVM version: 22.1.8\n").unwrap();
        assert!(!stable.nightly);
        assert_eq!(Version::parse("release: 1.96.0\n"), None, "no LLVM, as with another back end");
    }

    #[test]
    fn prefers_the_current_nightly_then_stable() {
        let mut names = ["1.95.0-x86_64", "stable-x86_64", "nightly-2026-01-01-x86_64", "nightly-x86_64"];
        names.sort_by_cached_key(|name| preference(name));
        assert_eq!(names, ["nightly-x86_64", "nightly-2026-01-01-x86_64", "stable-x86_64", "1.95.0-x86_64"]);
    }

    #[test]
    fn a_directory_without_rustc_is_rejected_with_the_reason() {
        let why = Toolchain::probe("here", Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err();
        assert_eq!(why.to_string(), "here: no rustc and cargo");
    }
}
