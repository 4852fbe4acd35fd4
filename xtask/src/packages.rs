//! The crates that are published: what crates.io wants of them, and their packages.
//!
//! The program `tiercel` is published, and what it needs: the node, the library, the core. Nothing else is.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    ahead::BuildAhead,
    programs::build_programs,
    setup::{self, Scope},
    shell::{Progress, cargo, run, target_dir, workspace},
};

/// The crate that needs all others that are published.
const TOP: &str = "tiercel-cli";
/// The directory of the crate that includes the object of the XDP programs.
const NODE: &str = "transport-user/node";
/// This object.
const OBJECT: &str = "tiercel-ebpf";
/// Manifests of crates that are workspaces of their own.
const OUTSIDE: [&str; 2] = ["fuzz/Cargo.toml", "transport-ebpf/Cargo.toml"];
/// The texts of the licences. In the directory of a crate they are links to those of the workspace.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// The most keywords and categories that crates.io takes, and the length of a keyword.
const MOST: usize = 5;
const LONGEST_KEYWORD: usize = 20;

/// What cargo says of the workspace.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A crate.
#[derive(Clone, Deserialize)]
struct Package {
    name: String,
    /// The registries that may have it. `None`: all of them.
    publish: Option<Vec<String>>,
    description: Option<String>,
    license: Option<String>,
    rust_version: Option<String>,
    /// Relative to the manifest.
    readme: Option<PathBuf>,
    manifest_path: PathBuf,
    keywords: Vec<String>,
    categories: Vec<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    /// The versions that it may have; `*` if none is named.
    req: String,
    /// `None`: of the crate itself.
    kind: Option<String>,
    /// Its directory, if that is named.
    path: Option<PathBuf>,
}

impl Package {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Returns the crates of the workspace that it is built from.
    fn needs(&self) -> impl Iterator<Item = &Dependency> {
        self.dependencies.iter().filter(|one| one.path.is_some() && !one.is_of_tests())
    }
}

impl Dependency {
    fn is_of_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }

    fn has_version(&self) -> bool {
        self.req != "*"
    }
}

/// Fails if a crate lacks what crates.io wants, or if the wrong crates are published. The error names each fault.
///
/// # Errors
/// Also if cargo cannot read the workspace.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut found = faults(&packages()?);
    for manifest in OUTSIDE {
        let text =
            fs::read_to_string(root.join(manifest)).with_context(|| format!("cannot read {manifest}"))?;
        let table: toml::Table = text.parse().with_context(|| format!("cannot parse {manifest}"))?;
        let publish = table.get("package").and_then(|package| package.get("publish"));
        if publish.and_then(toml::Value::as_bool) != Some(false) {
            found.push(format!("{manifest} has no `publish = false`"));
        }
    }
    if !found.is_empty() {
        bail!("{} faults in what crates.io gets; correct them:\n  {}", found.len(), found.join("\n  "));
    }
    Ok(())
}

/// Returns the crates of the workspace.
fn packages() -> Result<Vec<Package>> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]).stderr(Stdio::inherit());
    let output = metadata.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo cannot read the workspace ({})", output.status);
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata is unknown")?;
    Ok(metadata.packages)
}

/// Returns the name of the topmost crate, and of those that it is built from.
fn needed(packages: &[Package]) -> BTreeSet<&str> {
    let mut needed = BTreeSet::new();
    let mut names = vec![TOP];
    while let Some(name) = names.pop() {
        if needed.insert(name) {
            let package = packages.iter().find(|package| package.name == name);
            names.extend(package.into_iter().flat_map(Package::needs).map(|one| one.name.as_str()));
        }
    }
    needed
}

/// Returns what is wrong.
fn faults(packages: &[Package]) -> Vec<String> {
    let needed = needed(packages);
    let of = |package: &Package| -> Vec<String> {
        let faults = match (needed.contains(package.name.as_str()), package.is_published()) {
            (true, true) => lacks(package, &needed),
            (true, false) => vec![format!("{TOP} needs it, and it has `publish = false`")],
            (false, true) => vec![format!("{TOP} does not need it: set `publish = false`")],
            (false, false) => vec![],
        };
        faults.into_iter().map(|fault| format!("{}: {fault}", package.name)).collect()
    };
    packages.iter().flat_map(of).collect()
}

/// Returns what a published crate lacks.
fn lacks(package: &Package, published: &BTreeSet<&str>) -> Vec<String> {
    let mut faults = vec![];
    let texts = [
        ("description", &package.description),
        ("license", &package.license),
        ("rust-version", &package.rust_version),
    ];
    for (name, text) in texts {
        if text.as_ref().is_none_or(|text| text.trim().is_empty()) {
            faults.push(format!("it has no {name}"));
        }
    }
    let directory = package.manifest_path.parent().unwrap_or(Path::new(""));
    let has_readme = package.readme.as_ref().is_some_and(|readme| directory.join(readme).is_file());
    if !has_readme {
        faults.push("it has no README.md".to_owned());
    }
    // Who gets a package must get the licence with it.
    let missing = LICENCES.into_iter().filter(|licence| !directory.join(licence).is_file());
    faults.extend(missing.map(|licence| format!("it has no {licence}: link it to that of the workspace")));
    for (name, words) in [("keywords", &package.keywords), ("categories", &package.categories)] {
        if words.is_empty() || words.len() > MOST {
            faults.push(format!("it has {} {name}: name 1 to {MOST}", words.len()));
        }
    }
    let wrong = package.keywords.iter().filter(|keyword| !is_keyword(keyword));
    faults.extend(wrong.map(|keyword| format!("\"{keyword}\" is no keyword of crates.io")));
    for dependency in package.dependencies.iter().filter(|one| one.path.is_some()) {
        let (name, here) = (&dependency.name, published.contains(dependency.name.as_str()));
        match (dependency.is_of_tests(), dependency.has_version()) {
            (false, false) => faults.push(format!("its dependency {name} has a path and no version")),
            (true, true) if !here => {
                faults.push(format!("its tests use {name}, which is not published: name no version"));
            }
            _ => {}
        }
    }
    faults
}

/// Returns whether crates.io takes a keyword.
fn is_keyword(keyword: &str) -> bool {
    let begins = keyword.starts_with(|first: char| first.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
    begins && keyword.len() <= LONGEST_KEYWORD && keyword.chars().all(inner)
}

/// The compiled programs beside the node's manifest. Dropping it removes them.
struct Programs(PathBuf);

impl Drop for Programs {
    fn drop(&mut self) {
        // In a clone nothing reads them.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Packs the crates for crates.io, and compiles each from its package.
pub(crate) fn package(progress: &Progress) -> Result<()> {
    setup::setup(Scope::Build, &mut BuildAhead::of(&[]), progress)?;
    build_programs(BuildAhead::of(&[]), progress)?;
    let programs = Programs(workspace().join(NODE).join(bpf_build::PACKAGED));
    fs::create_dir_all(&programs.0).with_context(|| format!("cannot create {}", programs.0.display()))?;
    fs::copy(target_dir().join(OBJECT), programs.0.join(OBJECT)).context("cannot copy the XDP programs")?;
    progress.say("packing the crates, and compiling them");
    pack(&[])
}

/// Packs the crates and compiles none, which takes a second. The node's package has no programs. What cargo finds wrong with a
/// manifest or a file is an error.
pub(crate) fn pack_only() -> Result<()> {
    // What the packages need was downloaded to compile the workspace.
    pack(&["--no-verify", "--offline", "--quiet"])
}

fn pack(options: &[&str]) -> Result<()> {
    let packages = packages()?;
    // The programs are not in git, and a developer may not have committed.
    let mut package = cargo();
    package.args(["package", "--allow-dirty"]).args(options);
    package.args(needed(&packages).into_iter().flat_map(|name| ["--package", name]));
    run(&mut package)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, publish: Value, dependencies: Value) -> Package {
        let manifest = workspace().join(NODE).join("Cargo.toml");
        let package = json!({
            "name": name, "publish": publish, "description": "A crate", "license": "MIT", "rust_version": "1.95",
            "readme": "README.md", "manifest_path": manifest, "keywords": ["falcon"], "categories": ["no-std"],
            "dependencies": dependencies,
        });
        serde_json::from_value(package).unwrap()
    }

    fn dependency(name: &str, req: &str, kind: Value) -> Value {
        json!({ "name": name, "req": req, "kind": kind, "path": "/somewhere" })
    }

    /// The topmost crate, a crate that it needs, and one for tests.
    fn good() -> [Package; 3] {
        let needs = [
            dependency("core", "^0.1.0", Value::Null),
            dependency("helper", "*", "dev".into()),
            json!({ "name": "serde", "req": "^1", "kind": null }),
        ];
        [
            package(TOP, Value::Null, json!(needs)),
            package("core", Value::Null, json!([])),
            package("helper", json!([]), json!([])),
        ]
    }

    fn one_fault(packages: &[Package]) -> String {
        let mut found = faults(packages);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn what_the_program_needs_is_published_and_nothing_else() {
        assert_eq!(faults(&good()), Vec::<String>::new());
        let mut packages = good();
        packages[1].publish = Some(vec![]);
        assert_eq!(one_fault(&packages), "core: tiercel-cli needs it, and it has `publish = false`");
        let mut packages = good();
        packages[2].publish = None;
        assert_eq!(one_fault(&packages), "helper: tiercel-cli does not need it: set `publish = false`");
    }

    #[test]
    fn what_a_published_crate_lacks_is_named() {
        type Change = fn(&mut Package);
        let lacks: [(Change, &str); 9] = [
            (|package| package.description = None, "it has no description"),
            (|package| package.license = Some(" ".to_owned()), "it has no license"),
            (|package| package.rust_version = None, "it has no rust-version"),
            (|package| package.readme = None, "it has no README.md"),
            (|package| package.readme = Some("nowhere.md".into()), "it has no README.md"),
            (|package| package.keywords.clear(), "it has 0 keywords: name 1 to 5"),
            (|package| package.categories = vec!["a".to_owned(); 6], "it has 6 categories: name 1 to 5"),
            (
                |package| package.keywords[0] = "two words".to_owned(),
                "\"two words\" is no keyword of crates.io",
            ),
            (
                |package| package.dependencies[0].req = "*".to_owned(),
                "its dependency core has a path and no version",
            ),
        ];
        for (spoil, fault) in lacks {
            let mut packages = good();
            spoil(&mut packages[0]);
            assert_eq!(one_fault(&packages), format!("tiercel-cli: {fault}"));
        }
        let mut packages = good();
        packages[0].manifest_path = workspace().join("xtask/Cargo.toml");
        packages[0].readme = Some("Cargo.toml".into());
        let found = faults(&packages);
        assert_eq!(found.len(), LICENCES.len(), "{found:?}");
        assert!(found[0].starts_with("tiercel-cli: it has no LICENSE-APACHE"), "{found:?}");
        let mut packages = good();
        packages[0].dependencies[1].req = "^0.1.0".to_owned();
        let fault = one_fault(&packages);
        assert!(fault.contains("its tests use helper, which is not published"), "{fault}");
    }

    #[test]
    fn keywords_are_short_words() {
        for keyword in ["falcon", "no-std", "c++", "3d", "a_b"] {
            assert!(is_keyword(keyword), "{keyword}");
        }
        for keyword in ["", "-x", "two words", "ünicode", "a-word-that-is-too-long"] {
            assert!(!is_keyword(keyword), "{keyword}");
        }
    }
}
