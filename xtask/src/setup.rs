//! Finds or installs what the build and the tests need. Quick if everything is installed.

use std::{ffi::OsStr, fs, process::Command};

use anyhow::{Context, Result, anyhow, bail};
use bpf_build::{
    BuildError, LINKER_VAR, NEWEST_LINKER_LLVM, OLDEST_LINKER_LLVM, TOOLCHAIN_VAR, Toolchain, Tools,
};

use crate::{
    ahead::BuildAhead,
    shell::{Progress, cargo, is_on_path, is_root, run, run_beside, succeeds},
};

/// The version of bpf-linker that is built here. Its features name the LLVM versions that it can use.
const LINKER_VERSION: &str = "0.13.0";

/// The nightly toolchain that rustup installs. It is the last one that is known to work and whose LLVM, 22,
/// Debian has for bpf-linker. A nightly installed by hand works too if there is a bpf-linker as new as its
/// LLVM.
pub(crate) const NIGHTLY: &str = "nightly-2026-05-20";
const NIGHTLY_LLVM: u32 = 22;

/// Debian's toolchain for web browsers: the newest Rust of the release, and the only one with core's source
/// that fits its LLVM.
const DEBIAN_TOOLCHAIN: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-clippy"];

/// The programs that execute the Wireshark dissector in its tests, with the Debian packages that have them: tshark, and
/// the two versions of Lua that Wireshark has.
const DISSECTOR_CHECKERS: [(&str, &str); 3] =
    [("tshark", "tshark"), ("lua5.2", "lua5.2"), ("lua5.4", "lua5.4")];

/// What the tools are needed for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Build and run.
    Build,
    /// Build, run, and check: rustfmt, clippy, the tools that build the package that a test installs, and those that
    /// execute the Wireshark dissector.
    Checks,
    /// Build a Debian package.
    Package,
}

/// Makes sure that everything for `scope` is installed. If the toolchain or the linker is missing, `ahead`
/// begins to compile while they are installed.
///
/// # Errors
/// If something could not be installed. The error says what, and what to do.
pub(crate) fn setup(scope: Scope, ahead: &mut BuildAhead, progress: &Progress) -> Result<()> {
    progress.say("looking for the toolchain and the tools");
    let mut installer = Installer { progress, ahead, lists_are_fresh: false, download_failed: false };
    let tools = installer.all(scope).map_err(|failure| {
        if installer.download_failed { anyhow!("{failure:#}. {}", network_hint()) } else { failure }
    })?;
    progress.say(&format!("using {} and {}", tools.toolchain.name, tools.linker.path.display()));
    Ok(())
}

/// Makes sure that programs are there: pairs of a program and the Debian package that has it.
///
/// # Errors
/// Says what could not be installed, and what to do.
pub(crate) fn programs(programs: &[(&str, &str)], progress: &Progress) -> Result<()> {
    let ahead = &mut BuildAhead::of(&[]);
    let mut installer = Installer { progress, ahead, lists_are_fresh: false, download_failed: false };
    installer.missing(programs).map_err(|failure| {
        if installer.download_failed { anyhow!("{failure:#}. {}", network_hint()) } else { failure }
    })
}

/// A possible origin of a toolchain with the source of `core`.
#[derive(Clone, Copy)]
enum Source {
    Present,
    Rustup,
    Debian,
}

struct Installer<'a> {
    progress: &'a Progress,
    ahead: &'a mut BuildAhead,
    /// Whether `apt-get update` was run.
    lists_are_fresh: bool,
    /// Whether a download failed.
    download_failed: bool,
}

impl Installer<'_> {
    fn all(&mut self, scope: Scope) -> Result<Tools> {
        if !is_on_path("ip") {
            self.apt(&["iproute2"])?;
        }
        let mut tools = match Tools::find() {
            Ok(tools) => tools,
            Err(missing) => self.tools(missing)?,
        };
        // The tests of the package need dpkg. Without it they do not run.
        if scope != Scope::Build && (scope == Scope::Package || is_on_path("dpkg")) {
            self.package_tools()?;
        }
        if scope == Scope::Checks {
            self.missing(&DISSECTOR_CHECKERS)?;
            self.host_checkers()?;
            if tools.toolchain.cargo_clippy().is_none() {
                self.clippy_of(&tools.toolchain)?;
                tools = Tools::find()?;
            }
        }
        Ok(tools)
    }

    /// Installs a toolchain and a linker that fit each other. Tries the toolchains present first, then installs
    /// another one.
    fn tools(&mut self, missing: BuildError) -> Result<Tools> {
        let what = match missing {
            BuildError::NoToolchain { .. } => "a Rust toolchain with the standard library's source",
            BuildError::NoLinker | BuildError::LinkerTooOld { .. } => "a bpf-linker that fits the toolchain",
            // The user must correct what the user named.
            other => return Err(other.into()),
        };
        self.progress.say(&format!("installing {what}"));
        self.ahead.begin(self.progress);
        let mut failures: Vec<String> = vec![];
        for source in [Source::Present, Source::Rustup, Source::Debian] {
            if let Err(failure) = self.toolchain(source).and_then(|()| self.linker()) {
                let failure = format!("{failure:#}");
                if !failures.contains(&failure) {
                    failures.push(failure);
                }
            }
            if let Ok(tools) = Tools::find() {
                return Ok(tools);
            }
            if self.download_failed && is_offline() {
                break;
            }
        }
        bail!("cannot install {what}: {}", failures.join("; "))
    }

    fn toolchain(&mut self, source: Source) -> Result<()> {
        match source {
            Source::Present => Ok(()),
            Source::Rustup => self.rustup_toolchain(),
            Source::Debian => self.apt(&DEBIAN_TOOLCHAIN),
        }
    }

    /// Installs a nightly under its date, and leaves the other toolchains unchanged, because other work may
    /// need them.
    fn rustup_toolchain(&mut self) -> Result<()> {
        if !is_on_path("rustup") {
            bail!("rustup is not installed: install it from https://rustup.rs");
        }
        let mut rustup = Command::new("rustup");
        rustup.args(["toolchain", "install", NIGHTLY, "--no-self-update", "--profile", "minimal"]);
        rustup.args(["--component", "rust-src", "--component", "clippy"]);
        self.progress.say(&format!("installing Rust {NIGHTLY} with rust-src by rustup"));
        let done = run_beside(&mut rustup, || {
            // What is missing is looked for again, with the error, when bpf-linker is built.
            if is_root() && is_on_path("apt-get") {
                let _ = self.libraries_of_linker(NIGHTLY_LLVM);
            }
        });
        done.inspect_err(|_| self.download_failed = true)
    }

    /// Builds a bpf-linker for the first installed toolchain for which this is possible, unless a suitable one
    /// exists.
    fn linker(&mut self) -> Result<()> {
        if Tools::find().is_ok() {
            return Ok(());
        }
        let (toolchains, _) = bpf_build::toolchains()?;
        if toolchains.is_empty() {
            bail!(
                "no installed toolchain has the component rust-src: install it with \
                 `rustup component add rust-src`"
            );
        }
        for toolchain in &toolchains {
            for llvm in toolchain.llvm.max(OLDEST_LINKER_LLVM)..=NEWEST_LINKER_LLVM {
                if self.can_have_llvm(llvm) {
                    return self.linker_on(llvm);
                }
            }
        }
        bail!("neither this machine nor Debian has an LLVM that fits {}", toolchains[0].name)
    }

    /// Returns whether the development files of this LLVM are installed or among Debian's packages.
    fn can_have_llvm(&mut self, llvm: u32) -> bool {
        let package = format!("llvm-{llvm}-dev");
        if is_installed(&package) {
            return true;
        }
        self.refresh_lists();
        succeeds(Command::new("apt-cache").args(["show", &package]))
    }

    /// Installs the libraries with which bpf-linker is built on this LLVM.
    fn libraries_of_linker(&mut self, llvm: u32) -> Result<()> {
        let libraries = [format!("llvm-{llvm}-dev"), format!("libpolly-{llvm}-dev")];
        let mut packages: Vec<&str> = libraries.iter().map(String::as_str).collect();
        packages.extend(["zlib1g-dev", "libzstd-dev", "g++"]);
        if packages.iter().all(|package| is_installed(package)) { Ok(()) } else { self.apt(&packages) }
    }

    /// Builds bpf-linker on this LLVM.
    fn linker_on(&mut self, llvm: u32) -> Result<()> {
        self.libraries_of_linker(llvm)?;
        let root =
            bpf_build::tools_dir().context("cannot install bpf-linker, because HOME is not set: set HOME")?;
        let mut install = cargo();
        install
            .args(["install", "--locked", "--force", "bpf-linker", "--version", LINKER_VERSION])
            .args(["--no-default-features", "--features", &format!("llvm-{llvm}"), "--root"])
            .arg(root)
            .env("LLVM_PREFIX", format!("/usr/lib/llvm-{llvm}"))
            // LLVM, a shared library, does the work. Without optimisation, and without the debug information
            // that its manifest asks for, bpf-linker compiles in a third of the time and links as fast.
            .envs([("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"), ("CARGO_PROFILE_RELEASE_DEBUG", "0")])
            .env_remove("CARGO_TARGET_DIR");
        self.download(
            &format!("bpf-linker {LINKER_VERSION} on LLVM {llvm} (about half a minute)"),
            &mut install,
        )
    }

    /// Installs the tools that build a Debian package.
    fn package_tools(&mut self) -> Result<()> {
        self.missing(&[("dpkg-shlibdeps", "dpkg-dev"), ("strip", "binutils"), ("git", "git")])
    }

    /// Installs the packages of those programs that are missing: pairs of a program and the Debian package that has it.
    fn missing(&mut self, programs: &[(&str, &str)]) -> Result<()> {
        let missing = programs.iter().filter(|(program, _)| !is_on_path(program));
        let packages: Vec<&str> = missing.map(|(_, package)| *package).collect();
        if packages.is_empty() { Ok(()) } else { self.apt(&packages) }
    }

    /// Installs rustfmt and clippy for the host's crates.
    fn host_checkers(&mut self) -> Result<()> {
        let present = |tool: &str| succeeds(cargo().args([tool, "--version"]));
        if present("fmt") && present("clippy") {
            return Ok(());
        }
        if is_on_path("rustup") {
            let mut rustup = Command::new("rustup");
            return self
                .download("rustfmt and clippy", rustup.args(["component", "add", "rustfmt", "clippy"]));
        }
        self.apt(&["rustfmt-web", "rust-web-clippy"])
    }

    /// Installs clippy for the toolchain that builds the XDP programs.
    fn clippy_of(&mut self, toolchain: &Toolchain) -> Result<()> {
        let owner = toolchain.root.parent().and_then(|dir| dir.file_name());
        match toolchain.root.file_name() {
            Some(name) if owner == Some(OsStr::new("toolchains")) && is_on_path("rustup") => {
                let mut rustup = Command::new("rustup");
                rustup.args(["component", "add", "clippy", "--toolchain"]).arg(name);
                self.download("clippy for the XDP programs", &mut rustup)
            }
            _ => self.apt(&["rust-web-clippy"]),
        }
    }

    /// Installs Debian packages, and removes none.
    fn apt(&mut self, packages: &[&str]) -> Result<()> {
        let list = packages.join(" ");
        if !is_on_path("apt-get") {
            bail!(
                "this is not Debian, so nothing can be installed here. Install by hand what Debian has in the \
                 packages {list}; if the toolchain or bpf-linker is in an unusual place, name it with \
                 {TOOLCHAIN_VAR} or {LINKER_VAR}"
            );
        }
        if !is_root() {
            bail!("only root may install the packages {list}: run `cargo xtask setup` as root");
        }
        self.refresh_lists();
        let mut install = apt_get(&["install", "--yes", "--no-remove", "--no-install-recommends"]);
        self.download(&format!("{list} by apt-get"), install.args(packages))
    }

    /// Updates Debian's lists of packages, once.
    fn refresh_lists(&mut self) {
        if !self.lists_are_fresh && is_root() && is_on_path("apt-get") {
            self.lists_are_fresh = true;
            // A failure is only a warning. A broken source does not matter if another source has the packages.
            run(&mut apt_get(&["update"])).unwrap_or_else(|error| eprintln!("warning: {error:#}"));
        }
    }

    /// Runs a command that installs something from the network.
    fn download(&mut self, what: &str, command: &mut Command) -> Result<()> {
        self.progress.say(&format!("installing {what}"));
        run(command).inspect_err(|_| self.download_failed = true)
    }
}

fn apt_get(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(["-q", "-o", "DPkg::Lock::Timeout=120"]);
    // dpkg waits for the disk after each of a package's files. While the libraries are compiled, each wait also
    // writes what the compiler wrote: Rust's source, 45,000 files, took 93 s, and takes 13 s without the waits. If
    // the power fails meanwhile, the package may have to be installed again.
    command.args(["-o", "Dpkg::Options::=--force-unsafe-io"]);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Whether a Debian package is installed.
fn is_installed(package: &str) -> bool {
    let status =
        Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]).output();
    status.is_ok_and(|output| output.stdout == b"installed")
}

/// Returns what to do after a failed download.
fn network_hint() -> &'static str {
    if is_offline() {
        "This machine has no default route: connect it to the network and repeat"
    } else {
        "Read the reason above, check the network and its proxy, and repeat"
    }
}

/// Returns whether this machine has no default route.
fn is_offline() -> bool {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let routes_6 = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    !has_default_route(&routes, &routes_6)
}

/// Returns whether the kernel's tables contain a default route. For IPv4, destination and mask in hexadecimal
/// are the second and eighth column. For IPv6, destination and prefix length are the first two columns, and the
/// interface, which must not be `lo`, is the last.
fn has_default_route(ipv4: &str, ipv6: &str) -> bool {
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let all_zero = |text: &str| text.bytes().all(|digit| digit == b'0');
    ipv4.lines()
        .skip(1)
        .map(columns)
        .any(|route| route.len() > 7 && all_zero(&route[1]) && all_zero(&route[7]))
        || ipv6
            .lines()
            .map(columns)
            .any(|route| route.len() > 9 && all_zero(&route[0]) && all_zero(&route[1]) && route[9] != "lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";

    #[test]
    fn default_route_is_the_one_to_everywhere() {
        let local = format!("{HEAD}eth0 0002000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n");
        let default = format!("{local}eth0 00000000 0102000A 0003 0 0 0 00000000 0 0 0\n");
        assert!(!has_default_route(&local, ""));
        assert!(has_default_route(&default, ""));
    }

    #[test]
    fn unreachable_default_of_ipv6_leads_nowhere() {
        let zero = "0".repeat(32);
        let route = |interface| {
            format!("{zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 00000003 {interface}\n")
        };
        assert!(!has_default_route(HEAD, &route("lo")));
        assert!(has_default_route(HEAD, &route("eth0")));
    }
}
