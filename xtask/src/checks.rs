//! The checks other than the tests: format, citations, links, clippy and documentation.

use anyhow::{Context, Result};

use crate::{
    clauses, figures, links, packages,
    shell::{Progress, cargo, run, target_dir, workspace},
    words,
};

/// One check.
pub(crate) struct Check {
    /// Its name in a report.
    name: &'static str,
    /// Performs it; the error says what is wrong.
    perform: fn(&Progress) -> Result<()>,
}

/// The checks of `cargo xtask lint`.
pub(crate) const LINTS: [Check; 10] = [
    Check { name: "format", perform: format_is_kept },
    Check { name: "citations", perform: citations_resolve },
    Check { name: "conformance", perform: requirements_have_tests },
    Check { name: "figures", perform: figures_are_current },
    Check { name: "links", perform: links_lead_somewhere },
    Check { name: "words", perform: words_are_plain },
    Check { name: "packages", perform: packages_are_complete },
    Check { name: "clippy", perform: clippy_on_host },
    // After clippy, which downloads what the crates need.
    Check { name: "packing", perform: crates_are_packed },
    Check { name: "clippy for BPF", perform: clippy_on_programs },
];

/// Checks that the documentation builds without warnings.
pub(crate) const DOCUMENTATION: Check = Check { name: "documentation", perform: document };

/// Performs all checks, also after a failure, and returns the message of each failed check.
pub(crate) fn complaints(checks: impl IntoIterator<Item = Check>, progress: &Progress) -> Vec<String> {
    let mut complaints = vec![];
    for check in checks {
        if let Err(error) = (check.perform)(progress) {
            complaints.push(format!("{}: {error:#}", check.name));
        }
    }
    complaints
}

/// The XDP programs are a workspace of their own, so cargo's commands for the host's workspace do not include
/// them.
const PROGRAMS_MANIFEST: [&str; 2] = ["--manifest-path", "transport-ebpf/Cargo.toml"];

/// Formats all crates.
pub(crate) fn format(progress: &Progress) -> Result<()> {
    progress.say("formatting all crates");
    run(cargo().args(["fmt", "--all"]))?;
    run(cargo().arg("fmt").args(PROGRAMS_MANIFEST))
}

fn format_is_kept(progress: &Progress) -> Result<()> {
    progress.say("checking the format");
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().arg("fmt").args(PROGRAMS_MANIFEST).arg("--check"))
}

fn citations_resolve(progress: &Progress) -> Result<()> {
    progress.say("checking the citations of the specification");
    clauses::check(workspace())
}

fn requirements_have_tests(progress: &Progress) -> Result<()> {
    progress.say("checking that requirements have tests or reasons");
    clauses::conformance::check(workspace())
}

fn figures_are_current(progress: &Progress) -> Result<()> {
    progress.say("checking that the pictures of the experiments are those of the sources");
    figures::check(workspace())?;
    figures::check_dark(workspace())?;
    figures::check_page(workspace())
}

fn links_lead_somewhere(progress: &Progress) -> Result<()> {
    progress.say("checking the links between pages");
    links::check(workspace())
}

fn words_are_plain(progress: &Progress) -> Result<()> {
    progress.say("checking the words of pages and comments");
    words::check(workspace())
}

fn packages_are_complete(progress: &Progress) -> Result<()> {
    progress.say("checking what crates.io wants of the crates");
    packages::check(workspace())
}

fn crates_are_packed(progress: &Progress) -> Result<()> {
    progress.say("packing the crates for crates.io");
    packages::pack_only()
}

fn clippy_on_host(progress: &Progress) -> Result<()> {
    progress.say("running clippy over the workspace");
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"]))
}

fn clippy_on_programs(progress: &Progress) -> Result<()> {
    progress.say("running clippy over the XDP programs");
    Ok(bpf_build::clippy(&workspace().join("transport-ebpf"), &target_dir())?)
}

/// The other architecture that the library and the node program compile for.
const ARM64: &str = "aarch64-unknown-linux-gnu";

/// Checks that the library and the node program compile for arm64. The standard library is compiled with them,
/// because rustup's minimal toolchains have it only for this machine.
pub(crate) fn compiles_for_arm64(progress: &Progress) -> Result<()> {
    let (toolchains, _) = bpf_build::toolchains()?;
    let toolchain = toolchains.iter().find(|toolchain| toolchain.nightly).context(
        "the check for arm64 needs a nightly toolchain with the component rust-src: install one with rustup",
    )?;
    progress.say(&format!("checking with {} that everything compiles for arm64", toolchain.name));
    run(std::process::Command::new(toolchain.cargo())
        .current_dir(workspace())
        .env("RUSTC", toolchain.rustc())
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["check", "-Z", "build-std", "--target", ARM64, "--package", "tiercel-cli"]))
}

/// Builds the documentation; warnings are errors.
pub(crate) fn document(progress: &Progress) -> Result<()> {
    progress.say("building the documentation");
    run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-Dwarnings"))
}
