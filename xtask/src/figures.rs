//! The pictures of `docs/experiments`: `cargo xtask figures` draws them again, and a lint checks that they are those of the
//! sources as they are. A run of all experiments is too long for each test, so it leaves a stamp: sums over the sources
//! from which the pictures are made, and over the pictures. The tests of the program `experiment` run the shortest of the
//! experiments each time, and compare the pictures themselves.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::shell::{Progress, cargo, run, target_dir, workspace};

mod dark;
mod page;

pub(crate) use dark::check as check_dark;
pub(crate) use page::check as check_page;

/// The directory of the pictures, and the stamp in it.
const PICTURES: &str = "docs/experiments";
const STAMP: &str = "docs/experiments/stamp.json";
/// What the simulated experiments are made of: directories and files. The lock file has the random numbers' generator.
const SOURCES: [&str; 8] = [
    "Cargo.lock",
    "hw-model/datacentre/src",
    "hw-model/fabric/src",
    "hw-model/host-nic/src",
    "lab-report/src",
    "quantity/src",
    "tests/src/bin/experiment",
    "transport-common/src",
];
/// The tables of all numbers and promises, beside the pictures.
const RESULTS: &str = "results.md";
/// In the name of a picture: made of real packets, by `--live`, and different in every run. Its run is in a list of its own
/// ([`check_page`]).
const LIVE: &str = "-live-";

/// Sums over sources, and over pictures and the tables.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    /// SHA-256 of each file, or of all files below each directory.
    sources: BTreeMap<String, String>,
    /// SHA-256 of each picture, and of the tables.
    pictures: BTreeMap<String, String>,
}

impl Stamp {
    /// Makes the stamp of the tree in `root`.
    fn of(root: &Path) -> Result<Self> {
        let sources = SOURCES.iter().map(|name| Ok(((*name).to_owned(), sum_of(&root.join(name))?)));
        let pictures = pictures(root)?.into_iter().map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, hex::encode(Sha256::digest(read(&path)?))))
        });
        Ok(Self { sources: sources.collect::<Result<_>>()?, pictures: pictures.collect::<Result<_>>()? })
    }

    /// Returns what is different: the sources and pictures whose sums are others, or are missing on one side.
    fn differences(&self, other: &Self) -> Vec<String> {
        let all = |stamp: &Self| -> BTreeMap<String, String> {
            stamp
                .sources
                .iter()
                .chain(&stamp.pictures)
                .map(|(name, sum)| (name.clone(), sum.clone()))
                .collect()
        };
        let (one, other) = (all(self), all(other));
        let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
    }
}

/// Runs every simulated experiment with its default settings, replaces the pictures that the pages show and the tables,
/// and writes the stamp.
///
/// # Errors
/// If an experiment fails, or no longer draws a picture that is shown.
pub(crate) fn draw(progress: &Progress) -> Result<()> {
    let out = target_dir().join("figures");
    // What an earlier run drew would be taken for a picture of this one.
    match fs::remove_dir_all(&out) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", out.display()));
        }
        _ => {}
    }
    let package = ["--release", "--package", "tiercel-tests", "--bin", "experiment"];
    progress.say("building the program `experiment`");
    run(cargo().arg("build").args(package))?;
    progress.say("running every experiment; this takes some minutes");
    let mut experiments = cargo();
    experiments.args(["run", "--quiet"]).args(package).arg("--").arg("--out").arg(&out);
    let status = experiments.status().context("cannot start the experiments")?;
    // 1: a promise was not kept. The table says which; the pictures are drawn all the same.
    ensure!(matches!(status.code(), Some(0 | 1)), "the experiments failed ({status})");
    let results = workspace().join(PICTURES).join(RESULTS);
    fs::copy(out.join(RESULTS), &results).with_context(|| format!("cannot write {}", results.display()))?;
    for picture in pictures(workspace())? {
        let drawn = out.join(picture.file_name().unwrap_or_default());
        ensure!(
            drawn.is_file(),
            "no experiment draws {}: remove it, or give it another name",
            picture.display()
        );
        fs::copy(&drawn, &picture).with_context(|| format!("cannot write {}", picture.display()))?;
    }
    let stamp = serde_json::to_string_pretty(&Stamp::of(workspace())?)?;
    let path = workspace().join(STAMP);
    fs::write(&path, stamp + "\n").with_context(|| format!("cannot write {}", path.display()))
}

/// Checks that the pictures are those of the sources in `root`.
///
/// # Errors
/// Names what has changed since the pictures were drawn.
pub(crate) fn check(root: &Path) -> Result<()> {
    let path = root.join(STAMP);
    let stamp: Stamp =
        serde_json::from_slice(&read(&path)?).with_context(|| format!("cannot read {}", path.display()))?;
    let changed = stamp.differences(&Stamp::of(root)?);
    if !changed.is_empty() {
        bail!(
            "{} changed since {PICTURES} was made: run `cargo xtask figures`, look at what is different \
             in them and in docs/experiments.md, and commit it",
            changed.join(", ")
        );
    }
    Ok(())
}

/// Returns the pictures that a simulation draws, and the tables.
fn pictures(root: &Path) -> Result<Vec<PathBuf>> {
    let is_drawn = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == RESULTS || (name.ends_with(".svg") && !name.contains(LIVE))
    };
    Ok(files(&root.join(PICTURES))?.into_iter().filter(is_drawn).collect())
}

/// Returns the sum over a file, or over the names and the contents of all files below a directory.
fn sum_of(path: &Path) -> Result<String> {
    let mut sum = Sha256::new();
    let (directory, files) = if path.is_dir() { (path, files(path)?) } else { (path, vec![path.to_owned()]) };
    for file in files {
        let content = read(&file)?;
        let name = file.strip_prefix(directory).unwrap_or(&file).to_string_lossy().into_owned();
        sum.update((name.len() as u64).to_le_bytes());
        sum.update(name);
        sum.update((content.len() as u64).to_le_bytes());
        sum.update(content);
    }
    Ok(hex::encode(sum.finalize()))
}

/// Returns all files below a directory, by their names.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    let mut all = vec![];
    for path in paths {
        if path.is_dir() { all.extend(files(&path)?) } else { all.push(path) }
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, content: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn a_change_of_a_source_or_of_a_picture_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let (files, directories): (Vec<&str>, Vec<&str>) =
            SOURCES.iter().partition(|name| name.contains(".lock"));
        files.iter().for_each(|name| write(root, name, "1"));
        directories.iter().for_each(|name| write(root, &format!("{name}/lib.rs"), "1"));
        write(root, "docs/experiments/a-b.svg", "<svg/>");
        write(root, "docs/experiments/results.md", "kept");
        write(root, "docs/experiments/a-live-b.svg", "another in each run");
        assert!(format!("{:#}", check(root).unwrap_err()).contains("cannot read"), "no stamp");
        write(root, STAMP, &serde_json::to_string(&Stamp::of(root).unwrap()).unwrap());
        check(root).unwrap();
        write(root, "docs/experiments/a-live-b.svg", "of another run");
        check(root).unwrap();

        let named = |file: &str, content: &str| {
            let before = fs::read_to_string(root.join(file)).ok();
            write(root, file, content);
            let error = check(root).unwrap_err().to_string();
            match before {
                Some(before) => write(root, file, &before),
                None => fs::remove_file(root.join(file)).unwrap(),
            }
            check(root).unwrap();
            error
        };
        assert!(named("transport-common/src/lib.rs", "2").starts_with("transport-common/src changed"));
        assert!(named("lab-report/src/deep/new.rs", "").starts_with("lab-report/src changed"));
        assert!(named("Cargo.lock", "2").starts_with("Cargo.lock changed"));
        assert!(named("docs/experiments/results.md", "edited by hand").starts_with("results.md changed"));
        assert!(named("docs/experiments/a-b.svg", "edited by hand").starts_with("a-b.svg changed"));
        assert!(named("docs/experiments/c.svg", "unknown").starts_with("c.svg changed"));
    }
}
