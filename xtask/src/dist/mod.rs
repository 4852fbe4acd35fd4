//! `cargo xtask dist`: builds a Debian package of the node program from a staged tree, with dpkg-deb. The same commit in
//! the same directory gives the same bytes.

mod control;
mod licences;
mod program;
mod release;
mod tree;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;

use self::{
    program::{NAME, output},
    release::Release,
    tree::Tree,
};
use crate::{
    ahead::BuildAhead,
    setup::{self, Scope},
    shell::{Progress, cargo, run, target_dir, workspace},
};

/// Pages of `docs` to which the README sends those who use the program.
const PAGES: [&str; 4] = ["limits.md", "platforms.md", "conformance-tester.md", "wireshark.md"];

/// Options of `cargo xtask dist`.
#[derive(Args)]
pub(crate) struct Options {
    /// Directory for the package [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Package the program in DIR instead of building one
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Print path, version, size and SHA-256 as JSON
    #[arg(long)]
    json: bool,
}

/// Builds the package and reports where it is.
///
/// # Errors
/// Says what is missing, and what to do.
pub(crate) fn dist(options: &Options, progress: &Progress) -> Result<()> {
    let work = target_dir().join("dist");
    if options.programs.is_none() {
        setup::setup(Scope::Package, &mut BuildAhead::of(&[]), progress)?;
    }
    let release = Release::of(workspace())?;
    if !release.clean {
        progress.say("warning: the package contains changes that are not committed");
    }
    let program = match &options.programs {
        Some(programs) => programs.join(NAME),
        None => build(&work.join("build"), &release, progress)?,
    };
    ensure!(program.is_file(), "{} is missing: build it first, or leave out --programs", program.display());

    progress.say("staging the files");
    let out = options.out.as_ref().unwrap_or(&work);
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let tree = Tree::new(out.join("stage"))?;
    stage_program(&tree, &program)?;
    stage_documents(&tree, &release, &workspace().join("xtask/dist"))?;
    control::stage(&tree, &release)?;
    progress.say("building the package");
    let package = build_package(&tree, &release, out)?;
    tree.remove()?;
    report(&package, &release, options.json)
}

/// Builds the program so that it does not contain the names of this machine's directories. The build has its own target
/// directory: with these flags it would otherwise force the next ordinary build to compile everything again.
fn build(target: &Path, release: &Release, progress: &Progress) -> Result<PathBuf> {
    progress.say("building the program");
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let registry = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cargo")));
    let mut flags = vec![];
    for (directory, name) in [(registry, "cargo"), (Some(target.to_owned()), "target")] {
        flags.extend(directory.map(|it| format!("--remap-path-prefix={}={name}", it.display())));
    }
    flags.push(format!("--remap-path-prefix={}={NAME}", workspace().display()));
    run(cargo()
        .args(["build", "--release", "--locked", "--package", "tiercel-cli", "--bin", NAME])
        .arg("--target-dir")
        .arg(target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string()))?;
    Ok(target.join("release").join(NAME))
}

/// Stages the program, and the manual pages and completions that it generates.
fn stage_program(tree: &Tree, program: &Path) -> Result<()> {
    let content = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let staged = tree.put("usr/bin/tiercel", &content, 0o755)?;
    run(Command::new("strip").args(["--remove-section=.comment", "--remove-section=.note"]).arg(&staged))?;
    let pages = tree.directory("usr/share/man/man1")?;
    output(Command::new(&staged).arg("man").arg(&pages))?;
    tree.compress_all("usr/share/man/man1")?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/tiercel"),
        ("zsh", "usr/share/zsh/vendor-completions/_tiercel"),
        ("fish", "usr/share/fish/vendor_completions.d/tiercel.fish"),
    ] {
        let script = output(Command::new(&staged).args(["completions", shell]))?;
        tree.put(path, script.as_bytes(), 0o644)?;
    }
    Ok(())
}

/// Stages the systemd unit, the Wireshark dissector, the example node file and the documents.
fn stage_documents(tree: &Tree, release: &Release, files: &Path) -> Result<()> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let own = |name: &str| read(&workspace().join(name));
    tree.put("usr/lib/systemd/system/tiercel@.service", &read(&files.join("tiercel@.service"))?, 0o644)?;
    tree.put("usr/share/tiercel/wireshark/falcon.lua", &own("wireshark/falcon.lua")?, 0o644)?;
    tree.put(control::EXAMPLE, &own("transport-user/node/examples/node.toml")?, 0o644)?;
    tree.put("usr/share/lintian/overrides/tiercel", &read(&files.join("lintian-overrides"))?, 0o644)?;
    let documents = "usr/share/doc/tiercel";
    tree.put(&format!("{documents}/copyright"), &control::copyright(files)?, 0o644)?;
    for (name, content) in [
        ("changelog.Debian", release.changelog()?.into_bytes()),
        ("changelog", own("CHANGELOG.md")?),
        ("README.md", own("README.md")?),
        ("third-party-licences", licences::collect()?.into_bytes()),
    ] {
        tree.put_compressed(&format!("{documents}/{name}"), &content)?;
    }
    for page in PAGES {
        tree.put_compressed(&format!("{documents}/docs/{page}"), &own(&format!("docs/{page}"))?)?;
    }
    Ok(())
}

/// Runs dpkg-deb and returns the path of the package.
fn build_package(tree: &Tree, release: &Release, out: &Path) -> Result<PathBuf> {
    let architecture = control::architecture()?;
    let package = out.join(format!("{NAME}_{}_{architecture}.deb", release.version));
    // With one thread the compressed bytes do not depend on the number of CPUs.
    output(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .args([tree.root(), &package])
            .env("SOURCE_DATE_EPOCH", release.epoch.to_string())
            .env("DPKG_DEB_THREADS_MAX", "1"),
    )?;
    Ok(package)
}

/// Prints path, size and SHA-256 of the package.
fn report(package: &Path, release: &Release, json: bool) -> Result<()> {
    let path = fs::canonicalize(package)?;
    let size = fs::metadata(&path)?.len();
    let sum = output(Command::new("sha256sum").arg(&path))?;
    let sum = sum.split_whitespace().next().unwrap_or_default().trim_start_matches('\\');
    if json {
        let report = json!({
            "path": path, "size": size, "sha256": sum, "version": release.version, "commit": release.commit,
            "clean": release.clean, "source_date_epoch": release.epoch,
        });
        println!("{report:#}");
    } else {
        println!("{}\n{size} bytes, SHA-256 {sum}", path.display());
        println!("Install it with `apt-get install {}`", path.display());
    }
    Ok(())
}
