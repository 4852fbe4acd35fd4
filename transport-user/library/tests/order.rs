//! The order of the modules, and what the library needs.

use std::fs;
use std::path::Path;

/// The section of the page with the table of the modules.
const SECTION: &str = "The library";

/// The crates that the library is built from. None of them loads programs, or reads interfaces, files or command lines. A
/// provider of another interface that stands on the library gets these and no others.
const DEPENDENCIES: [&str; 14] = [
    "bpf-call",
    "bytemuck",
    "hex",
    "nix",
    "num_enum",
    "quantity",
    "range-alloc",
    "serde",
    "serde_json",
    "strum",
    "thiserror",
    "tokio",
    "tracing",
    "transport-common",
];

fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Each module uses only modules above it in the table of `docs/architecture.md`, and no modules import one another in a
/// circle. A module that is not in the table fails the test as well.
#[test]
fn modules_use_only_what_stands_above_them() {
    let page = crate_root().join("../../docs/architecture.md");
    let page = fs::read_to_string(page).expect("the page can be read");
    let mut order = source_check::listed(&page, SECTION);
    assert!(!order.is_empty(), "no table below \"{SECTION}\"");
    order.push("crate");
    let graph = source_check::modules(&crate_root().join("src/lib.rs")).expect("the sources can be read");
    let found = graph.out_of_order(&order);
    assert!(found.is_empty(), "against the order:\n{}", source_check::lines(&found));
    let circles = graph.circles();
    assert!(circles.is_empty(), "circles of imports:\n{}", source_check::lines(&circles));
}

#[test]
fn the_library_needs_only_these_crates() {
    let manifest = fs::read_to_string(crate_root().join("Cargo.toml")).expect("the manifest can be read");
    let manifest: toml::Table = manifest.parse().expect("a manifest");
    let names = manifest["dependencies"].as_table().expect("a table").keys();
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, DEPENDENCIES);
    assert!(!manifest.contains_key("build-dependencies") && !crate_root().join("build.rs").exists());
}
