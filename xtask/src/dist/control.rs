//! The files for dpkg: control file, maintainer scripts, checksums.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use super::{
    program::{NAME, output},
    release::Release,
    tree::Tree,
};
use crate::shell::workspace;

/// The example node file. It is a conffile: dpkg keeps the administrator's changes.
pub(super) const EXAMPLE: &str = "etc/tiercel/example.toml";

/// The maintainer scripts in `xtask/dist`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Writes the directory `DEBIAN` of a tree that is complete otherwise.
pub(super) fn stage(tree: &Tree, release: &Release) -> Result<()> {
    let files = tree.files()?;
    let depends = depends(&tree.root().join("usr/bin").join(NAME), tree)?;
    let kilobytes = installed_kilobytes(tree, &files)?;
    let mut sums = Command::new("md5sum");
    let sums =
        output(sums.current_dir(tree.root()).args(files.iter().filter(|path| !path.starts_with("etc"))))?;
    let control = format!(
        "Package: {NAME}\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: {}\n\
         Installed-Size: {kilobytes}\n\
         Depends: {depends}\n\
         Section: net\n\
         Priority: optional\n\
         Description: Falcon reliable transport in XDP\n \
         Tiercel is the transport engine of a network card, written as XDP programs.\n \
         It does RDMA WRITE, READ, SEND and atomics over lossy Ethernet by the Falcon\n \
         transport (OCP specification 0.9), on an unmodified kernel, Linux 6.9 or later,\n \
         and an ordinary network card.\n \
         .\n \
         This package has the program tiercel, which runs a node and talks to running\n \
         ones, and a systemd unit.\n",
        release.version,
        architecture()?,
        release.maintainer,
    );
    tree.put("DEBIAN/control", control.as_bytes(), 0o644)?;
    tree.put("DEBIAN/md5sums", sums.as_bytes(), 0o644)?;
    tree.put("DEBIAN/conffiles", format!("/{EXAMPLE}\n").as_bytes(), 0o644)?;
    for name in SCRIPTS {
        let script = workspace().join("xtask/dist").join(name);
        let script = fs::read(&script).with_context(|| format!("cannot read {}", script.display()))?;
        tree.put(&format!("DEBIAN/{name}"), &script, 0o755)?;
    }
    Ok(())
}

/// Returns Debian's name for this machine's architecture.
pub(super) fn architecture() -> Result<String> {
    Ok(output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned())
}

/// Returns the packages of the shared libraries, with the versions that have the symbols that the program uses.
fn depends(program: &Path, tree: &Tree) -> Result<String> {
    // dpkg-shlibdeps must run in a source package.
    let source = tree.root().with_extension("source");
    fs::create_dir_all(source.join("debian"))?;
    fs::write(
        source.join("debian/control"),
        format!("Source: {NAME}\n\nPackage: {NAME}\nArchitecture: any\n"),
    )?;
    let said = output(Command::new("dpkg-shlibdeps").current_dir(&source).arg("-O").arg(program));
    fs::remove_dir_all(&source)?;
    let said = said?;
    let depends = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(depends.with_context(|| format!("dpkg-shlibdeps names no package: {said}"))?.to_owned())
}

/// Returns the installed size as Debian's policy defines it: each file in whole kilobytes, and one per directory.
fn installed_kilobytes(tree: &Tree, files: &[impl AsRef<Path>]) -> Result<u64> {
    let mut directories = std::collections::BTreeSet::new();
    let mut kilobytes = 0;
    for file in files.iter().map(AsRef::as_ref) {
        kilobytes += fs::metadata(tree.root().join(file))?.len().div_ceil(1024);
        directories.extend(file.ancestors().skip(1));
    }
    Ok(kilobytes + directories.len() as u64)
}

/// Returns the copyright file: the template in `files` with the text of the MIT licence.
pub(super) fn copyright(files: &Path) -> Result<Vec<u8>> {
    let form = fs::read_to_string(files.join("copyright"))?;
    let licence = fs::read_to_string(workspace().join("LICENSE-MIT"))?;
    // The format needs each line indented and each empty line marked.
    let text = licence.lines().skip_while(|line| !line.starts_with("Copyright"));
    let text: Vec<String> =
        text.map(|line| if line.is_empty() { " .".into() } else { format!(" {line}") }).collect();
    Ok(form.replace("@MIT@", &text.join("\n")).into_bytes())
}
