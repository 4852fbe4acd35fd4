//! The licences of the crates that are linked into the program. Whoever distributes the program must include them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::program::output;
use crate::shell::cargo;

/// Lower-case prefixes of the names of licence files.
const NAMES: [&str; 5] = ["licen", "copying", "notice", "copyright", "unlicense"];

/// The two dependency trees: the program, and the XDP programs in it.
const PARTS: [[&str; 2]; 2] =
    [["--package", "tiercel-cli"], ["--manifest-path", "transport-ebpf/Cargo.toml"]];

/// Returns the name, version and licence of every crate, and after that each licence text once, with the crates
/// that have it.
///
/// # Errors
/// If cargo fails, or the source of a crate is missing.
pub(super) fn collect() -> Result<String> {
    let mut linked = BTreeSet::new();
    let mut directories = BTreeMap::new();
    for part in PARTS {
        let tree = ["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
        let tree = output(cargo().args(tree).args(part))?;
        linked.extend(tree.lines().filter_map(name_and_version));
        let metadata = ["metadata", "--locked", "--format-version", "1"];
        let manifest = if part[0] == "--manifest-path" { &part[..] } else { &[] };
        let metadata: Value = serde_json::from_str(&output(cargo().args(metadata).args(manifest))?)?;
        for package in metadata["packages"].as_array().context("cargo metadata lists no packages")? {
            // Our own crates have no source. Their licence is the package's.
            if package["source"].is_string() {
                directories.insert(described(package), package.clone());
            }
        }
    }
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in linked {
        let Some(package) = directories.get(&name) else { continue };
        list += &format!("{name}: {}\n", package["license"].as_str().unwrap_or("see its text"));
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
        for text in texts_in(manifest.parent().unwrap_or(&manifest))? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    let texts = texts.iter().map(|(names, text)| {
        format!("\n{0}\n{1}\n{0}\n\n{2}\n", "-".repeat(80), names.join(", "), text.trim_end())
    });
    Ok(format!("The program contains these crates.\n\n{list}{}", texts.collect::<String>()))
}

/// Converts `name v1.2.3 (proc-macro)`, a line of `cargo tree`, to `name 1.2.3`.
fn name_and_version(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some(format!("{name} {version}"))
}

/// Returns name and version of a package.
fn described(package: &Value) -> String {
    let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    format!("{} {}", field("name"), field("version"))
}

/// Returns the texts of the licence files beside a crate's manifest.
fn texts_in(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut texts = vec![];
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            texts.push(String::from_utf8_lossy(&fs::read(&path)?).replace('\r', ""));
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_cargo_tree_prints() {
        assert_eq!(name_and_version("clap v4.6.7"), Some("clap 4.6.7".into()));
        assert_eq!(name_and_version("clap_derive v4.6.7 (proc-macro) (*)"), Some("clap_derive 4.6.7".into()));
        assert_eq!(name_and_version(""), None);
    }
}
