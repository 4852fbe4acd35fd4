//! The order of the modules: each uses only modules above it in the table of `docs/architecture.md`. A module that is not in
//! the table fails the test as well.

use std::fs;
use std::path::Path;

/// The section of the page with the table.
const SECTION: &str = "The node";

/// The only module whose parts import one another in circles. `source-check/tests/workspace.rs` counts them.
const UNTIDY: &str = "connection_manager";

#[test]
fn modules_use_only_what_stands_above_them() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page =
        fs::read_to_string(crate_root.join("../../docs/architecture.md")).expect("the page can be read");
    let mut order = source_check::listed(&page, SECTION);
    assert!(!order.is_empty(), "no table below \"{SECTION}\"");
    order.push("crate");
    let graph = source_check::modules(&crate_root.join("src/lib.rs")).expect("the sources can be read");
    let found = graph.out_of_order(&order);
    assert!(found.is_empty(), "against the order:\n{}", source_check::lines(&found));
    let mut circles = graph.circles();
    circles.retain(|circle| circle.modules.iter().any(|module| !module.starts_with(UNTIDY)));
    assert!(circles.is_empty(), "circles of imports:\n{}", source_check::lines(&circles));
}
