//! The order of the modules: each uses only modules above it in the table of `docs/architecture.md`. A module that
//! is not in the table fails the test as well.

use std::fs;
use std::path::Path;

/// The section of the page with the table.
const SECTION: &str = "Who owns what";

#[test]
fn modules_use_only_what_stands_above_them() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(crate_root.join("../docs/architecture.md")).expect("the page can be read");
    let mut order = source_check::listed(&page, SECTION);
    order.push("crate");
    let graph = source_check::modules(&crate_root.join("src/lib.rs")).expect("the sources can be read");
    let circles = graph.circles();
    assert!(circles.is_empty(), "circles of imports:\n{}", source_check::lines(&circles));
    let found = graph.out_of_order(&order);
    assert!(found.is_empty(), "against the order:\n{}", source_check::lines(&found));
}

/// The functions of `connection` that can reach the whole connection: each of them may break what any part relies on.
/// The others get the parts that they need. Make it fewer, and lower this number.
const WHOLE: usize = 30;

#[test]
fn few_functions_can_reach_the_whole_connection() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let found = source_check::holders(&root, "connection", &["Connection", "Snapshot"]).expect("the sources");
    assert_eq!(found.len(), WHOLE, "{}", source_check::lines(&found));
}
