//! Tests of the layering of the models. They read the source files and manifests.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use source_check::{lines, modules};

/// The crates and their directories. Each crate may use only the crates before it.
const CRATES: [(&str, &str); 14] = [
    ("clocked", "clocked"),
    ("fabric-model", "fabric"),
    ("p4-subset", "p4"),
    ("model-experiment", "experiment"),
    ("host-nic", "host-nic"),
    ("reference-senders", "reference-senders"),
    ("swift-p4", "swift-p4"),
    ("context-cache", "context-cache"),
    ("tonic-model", "tonic"),
    ("datacentre", "datacentre"),
    ("falcon-nic", "falcon-nic"),
    ("tonic-network", "tonic-network"),
    ("trace-replay", "replay"),
    ("hw-model", "."),
];

fn directory(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of)
}

/// Returns the crates that a manifest names, including its dev-dependencies.
fn dependencies(directory: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let manifest: toml::Table = fs::read_to_string(directory.join("Cargo.toml"))?.parse()?;
    let tables =
        ["dependencies", "dev-dependencies"].map(|name| manifest.get(name).and_then(|of| of.as_table()));
    Ok(tables.into_iter().flatten().flat_map(|table| table.keys().cloned()).collect())
}

#[test]
fn no_module_is_part_of_a_circle() -> Result<(), Box<dyn Error>> {
    let roots = CRATES.map(|(_, place)| directory(place).join("src/lib.rs"));
    let program = directory("src/bin/tiercel-model/main.rs");
    for root in roots.iter().chain([&program]) {
        let circles = modules(root)?.circles();
        assert!(circles.is_empty(), "{}:{}", root.display(), lines(&circles));
    }
    Ok(())
}

#[test]
fn crates_use_only_those_before_them() -> Result<(), Box<dyn Error>> {
    let place = |name: &str| CRATES.iter().position(|(of, _)| *of == name);
    for (number, (name, at)) in CRATES.iter().enumerate() {
        for used in dependencies(&directory(at))? {
            assert!(place(&used).is_none_or(|place| place < number), "{name} uses {used}");
            assert!(
                !matches!(
                    &*used,
                    "tiercel" | "tiercel-node" | "tiercel-cli" | "transport-ebpf" | "tiercel-tests"
                ),
                "{name} uses {used}"
            );
        }
    }
    Ok(())
}

/// Every directory with a manifest is in the list, so that the two tests above check every crate.
#[test]
fn every_crate_is_listed() -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory("."))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.join("Cargo.toml").exists() {
            assert!(CRATES.iter().any(|(_, place)| *place == name), "{name} is not in the list");
        }
    }
    Ok(())
}

/// These two crates can be used without Falcon and must not depend on it.
#[test]
fn the_p4_subset_and_the_fabric_do_not_know_the_datapath() -> Result<(), Box<dyn Error>> {
    for at in ["p4", "fabric"] {
        let own: Vec<_> = CRATES.iter().map(|(name, _)| *name).chain(["transport-common"]).collect();
        let used = dependencies(&directory(at))?;
        assert!(used.iter().all(|used| !own.contains(&used.as_str())), "{at} uses {used:?}");
    }
    Ok(())
}
